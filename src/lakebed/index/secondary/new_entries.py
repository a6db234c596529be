"""Make index entries for rows that are being written: with values, open, or deleted.

A written version does not always show the values of its row: a partial update lacks columns, and
with some merge rules an older version fills gaps in a newer one. Such a version gets an open entry,
whose key is a candidate of every query until the index is compacted. The keys of deleted rows are
recorded too, so that compaction can remove their entries.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, Self

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import SchemaError
from lakebed.groups.definition import ColumnGroups
from lakebed.index.secondary.definition import IndexDefinition, parse_definitions, resolve_column
from lakebed.index.secondary.entries import add_values
from lakebed.index.secondary.manifest import RunFile
from lakebed.merge.rule import Fill, MergeRule
from lakebed.table.config.table_config import TableConfig

_GROUP_BYTES: Final = 2 << 20


class EntryKind(StrEnum):
    """The kinds of entries, each with separate runs. Stored on disk: do not change the values."""

    VALUES = "entries"
    OPEN = "open"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True, eq=False)
class NewEntries:
    """The entries that a task made for the index in `folder`, in memory or, if many, as runs."""

    folder: str
    kind: EntryKind
    rows: pa.RecordBatch | None = None
    runs: tuple[RunFile, ...] = ()


@dataclass(frozen=True, slots=True)
class EntryMaker:
    """Makes the entries of one index from rows with some or all columns of the table.

    `is_open` is set if rows do not show their final values. `fill` is the rule by which older
    versions may replace some values; rows with such values get open entries. `stays_open` is set if
    the indexed values are in column groups to which the rows are not written. The columns
    `may_lack` belong to a column group in which a delete may win although another group keeps the
    row; they are then null, so an entry for null is added.
    """

    definition: IndexDefinition
    is_open: bool = False
    fill: Fill | None = None
    stays_open: bool = False
    may_lack: frozenset[str] = frozenset()

    @property
    def folder(self) -> str:
        """Return the name of the index's folder."""
        return self.definition.folder

    def make(
        self, keys: pa.RecordBatch, rows: pa.RecordBatch, *, is_merged: bool = False
    ) -> Iterator[tuple[EntryKind, pa.RecordBatch]]:
        """Yield the entries of `rows`, without deletes; `keys` are the result of `make_keys`.

        With `is_merged`, the rows have been merged with all older versions, so that they show their
        final values.
        """
        columns = self.definition.columns
        if self.stays_open or (self.is_open and not is_merged):
            yield EntryKind.OPEN, keys
            return
        yields = None
        if self.fill is not None and not is_merged:
            yields = self.fill.gives_way(rows.column(_top(columns[0], rows.schema)))
        if yields is not None:
            yield EntryKind.OPEN, keys.filter(yields)
            keys, rows = keys.filter(pc.invert(yields)), rows.filter(pc.invert(yields))
        yield EntryKind.VALUES, add_values(keys, rows, columns)
        if self.may_lack and not is_merged:
            yield EntryKind.VALUES, add_values(keys, _without(rows, self.may_lack), columns)


@dataclass(frozen=True, slots=True)
class IndexWriters:
    """The indexes that a write maintains.

    Indexes in `open_only` always get open entries. With `deletes_leave_rows`, as in tables with
    column groups, a delete in one group may leave a row without some values. `shared` are the
    columns that every group stores.
    """

    indexes: tuple[IndexDefinition, ...] = ()
    open_only: tuple[IndexDefinition, ...] = ()
    deletes_leave_rows: bool = False
    shared: tuple[str, ...] = ()

    @classmethod
    def of(cls, config: TableConfig, schema: pa.Schema) -> Self:
        """Return the indexes of a table with the columns of `schema`.

        An index whose column types have changed is left out, because it must be rebuilt.
        """
        defined = parse_definitions(config.properties)
        return cls(tuple(one for one in defined if one.resolve(schema) is not None))

    @property
    def max_bytes(self) -> int:
        """Return the maximum size of entries that a file group sends to the driver."""
        return (len(self.indexes) + len(self.open_only)) * _GROUP_BYTES

    def makers(self, schema: pa.Schema, rule: MergeRule, *, is_partial: bool) -> list[EntryMaker]:
        """Return an entry maker per index for rows with the columns of `schema`."""
        own = [_maker(one, schema, rule, is_partial=is_partial) for one in self.indexes]
        if self.deletes_leave_rows and rule.ordering_fields:
            own = [replace(maker, may_lack=self._own_columns(maker.definition)) for maker in own]
        return [*own, *(EntryMaker(one, stays_open=True) for one in self.open_only)]

    def _own_columns(self, index: IndexDefinition) -> frozenset[str]:
        return _tops(index) - {*self.shared}

    def by_group(self, groups: ColumnGroups, touched: Sequence[str]) -> dict[str, "IndexWriters"]:
        """Return the indexes that each of the `touched` column groups maintains in a write.

        The group that owns an index's columns maintains it. If the write does not touch that group,
        or several groups own the columns, another group adds open entries.
        """
        own: dict[str, list[IndexDefinition]] = {name: [] for name in touched}
        rest: list[IndexDefinition] = []
        for index in self.indexes:
            owner = _owner(index, groups)
            held = rest if owner is None else own.get(owner, rest)
            held.append(index)
        return {
            name: IndexWriters(
                tuple(held), tuple(rest) if name == touched[0] else (), True, groups.shared
            )
            for name, held in own.items()
        }


NO_INDEXES: Final = IndexWriters()


def _owner(index: IndexDefinition, groups: ColumnGroups) -> str | None:
    """Return the only column group that owns columns of an index, or None if several do."""
    owners = {groups.owner(column) for column in _tops(index) if column not in groups.shared}
    return owners.pop() if len(owners) == 1 else None


def _tops(index: IndexDefinition) -> frozenset[str]:
    """Return the top-level columns that an index uses."""
    return frozenset(column.partition(".")[0] for column in index.columns)


def _without(rows: pa.RecordBatch, columns: frozenset[str]) -> pa.RecordBatch:
    """Return the rows with nulls in `columns`."""
    arrays = [
        pa.nulls(rows.num_rows, field.type) if field.name in columns else array
        for field, array in zip(rows.schema, rows.columns, strict=True)
    ]
    schema = pa.schema([field.with_nullable(True) for field in rows.schema])
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _maker(
    definition: IndexDefinition, schema: pa.Schema, rule: MergeRule, *, is_partial: bool
) -> EntryMaker:
    is_mixed = is_partial or rule.fill is not None
    is_open = (
        rule.merger is not None
        or (is_mixed and len(definition.columns) > 1)
        or not _has_all(definition.columns, schema)
    )
    return EntryMaker(definition, is_open, rule.fill)


def _has_all(columns: Sequence[str], schema: pa.Schema) -> bool:
    try:
        for column in columns:
            resolve_column(column, schema, "")
    except SchemaError:
        return False
    return True


def _top(column: str, schema: pa.Schema) -> str:
    return column if column in schema.names else column.partition(".")[0]
