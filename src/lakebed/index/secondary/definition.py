"""The definition of a secondary index: its name, its columns, and an id.

Definitions are table properties, so they remain if all runs of an index are lost.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Self

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import CorruptError, InvalidError, SchemaError
from lakebed.format.index.ordered_bytes import is_ordered
from lakebed.model.spelling import nearest
from lakebed.table.config.schema import find_field

MAX_COLUMNS: Final = 16
PROPERTY_PREFIX: Final = "lakebed.secondary.index."
# Valid as a folder name on every storage, and short enough for a path.
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}", re.ASCII)


@dataclass(frozen=True, slots=True)
class IndexDefinition:
    """An index on `columns`, which are columns of the table or nested fields (`place.city`).

    `kinds` are the types of the columns when the index was created, in Arrow's notation. The `id`
    distinguishes the index from dropped indexes with the same name.
    """

    name: str
    columns: tuple[str, ...]
    kinds: tuple[str, ...]
    id: str

    @classmethod
    def create(cls, name: str, columns: Sequence[str], schema: pa.Schema, id_: str) -> Self:
        """Return a definition; raise InvalidError or SchemaError if it is invalid."""
        if not _NAME.fullmatch(name):
            raise InvalidError(
                f"index {name!r}: expected a name of at most 64 letters, digits, '-' and '_' that "
                "begins with a letter"
            )
        if isinstance(columns, str) or not columns:
            raise InvalidError(f"index {name!r}: expected a list of columns, found {columns!r}")
        found = [resolve_column(column, schema, f"index {name!r}") for column in columns]
        if len(columns) > MAX_COLUMNS or len({path for path, _ in found}) < len(columns):
            raise InvalidError(
                f"index {name!r}: expected at most {MAX_COLUMNS} columns, each once, found "
                f"{', '.join(columns)}"
            )
        for column, (_, kind) in zip(columns, found, strict=True):
            if not is_ordered(kind):
                raise SchemaError(
                    f"index {name!r}: column {column!r} is of type {kind}, whose values have no "
                    "order; index a field of it, or another column"
                )
        spelled = tuple(path for path, _ in found)
        return cls(name, spelled, tuple(str(kind) for _, kind in found), id_)

    @classmethod
    def parse(cls, name: str, text: str) -> Self:
        """Parse the property of an index; raise CorruptError if it does not define an index."""
        try:
            values = json.loads(text)
            columns, kinds = zip(*zip(values["columns"], values["types"], strict=True), strict=True)
            return cls(name, tuple(map(str, columns)), tuple(map(str, kinds)), str(values["id"]))
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptError(
                f"index {name!r}: the property {property_name(name)} does not define it: {error!r}; call "
                f"drop_index({name!r}), and create the index again"
            ) from error

    def encode(self) -> str:
        """Return the definition as the value of a table property."""
        values = {"columns": self.columns, "types": self.kinds, "id": self.id}
        return json.dumps(values, ensure_ascii=False)

    @property
    def folder(self) -> str:
        """Return the name of the folder for the index's runs, which no other index ever uses."""
        return f"{self.name}.{self.id}"

    @property
    def property_name(self) -> str:
        """Return the name of the table property that holds the definition."""
        return property_name(self.name)

    def missing_column(self, schema: pa.Schema) -> str | None:
        """Return a column of the index that the table lacks, or None."""
        for column in self.columns:
            try:
                resolve_column(column, schema, self.name)
            except SchemaError:
                return column
        return None

    def resolve(self, schema: pa.Schema) -> list[pa.DataType] | None:
        """Return the types of the columns; None if a column was dropped or its encoding changed."""
        kinds = []
        for column, was in zip(self.columns, self.kinds, strict=True):
            try:
                _, kind = resolve_column(column, schema, self.name)
            except SchemaError:
                return None
            if _family(str(kind)) != _family(was):
                return None
            kinds.append(kind)
        return kinds


def index_names(properties: Mapping[str, str]) -> list[str]:
    """Return the sorted names of a table's secondary indexes, including damaged ones."""
    found = (key for key in properties if key.startswith(PROPERTY_PREFIX))
    return sorted(key.removeprefix(PROPERTY_PREFIX) for key in found)


def parse_definitions(properties: Mapping[str, str]) -> list[IndexDefinition]:
    """Return the secondary indexes of a table, sorted by name, without damaged definitions.

    An index with a damaged definition is neither maintained nor used; it must be created again.
    """
    found = []
    for name in index_names(properties):
        with suppress(CorruptError):
            found.append(IndexDefinition.parse(name, properties[property_name(name)]))
    return found


def property_name(name: str) -> str:
    """Return the table property that holds the definition of an index."""
    return f"{PROPERTY_PREFIX}{name}"


def resolve_column(column: str, schema: pa.Schema, what: str) -> tuple[str, pa.DataType]:
    """Return a column's name as spelled in the table, and its type; `a.b` is field `b` of `a`."""
    fields: Iterable[pa.Field] = schema
    path: list[str] = []
    kind: pa.DataType | None = None
    for part in [column] if find_field(list(schema), column) is not None else column.split("."):
        known = list(fields)
        at = find_field(known, part)
        if at is None and kind is not None and not pa.types.is_struct(kind):
            parent = ".".join(path)
            raise SchemaError(
                f"{what}: no column {column!r}; {parent!r} is of type {kind} and has no fields"
            )
        if at is None:
            names = [field.name for field in known]
            raise SchemaError(
                f"{what}: no column {column!r}{nearest(part, names)}; the columns there are: "
                f"{', '.join(names) or 'none'}"
            )
        path.append(known[at].name)
        kind = known[at].type
        fields = list(kind) if pa.types.is_struct(kind) else []
    assert kind is not None
    return ".".join(path), kind


def column_values(batch: pa.RecordBatch, column: str) -> pa.Array:
    """Return the values of a column or of a nested field; null where an outer struct is null."""
    if column in batch.schema.names:
        return batch.column(column)
    first, *rest = column.split(".")
    return pc.struct_field(batch.column(first), rest)


def _family(kind: str) -> str:
    """Return the family of types with a common encoding, within which widening keeps the index.

    Float and double are different families: after widening, an older row is read as the double of
    its decimal string, which differs from the double that the float converts to.
    """
    if kind in ("int8", "int16", "int32", "int64"):
        return "integer"
    if kind.startswith("decimal128("):
        return f"decimal of scale {kind.rpartition(',')[2]}"
    if kind.startswith("timestamp["):
        return "timestamp"
    return kind.removeprefix("large_")
