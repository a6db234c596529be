"""Makes the entries of rows that are being written: with values, open, or deleted.

Not every written version shows the values of its row: a partial update lacks columns, and under
some merge rules the columns of an older version fill the gaps of a newer one. Such a version leaves
an open entry, whose key is a candidate of every query until the index is compacted. The keys of
deleted rows are recorded too, so that compaction can remove their entries.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Self

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import SchemaError
from lakebed.index.secondary.definition import IndexDefinition, parse_definitions, resolve_column
from lakebed.index.secondary.entries import add_values
from lakebed.index.secondary.manifest import RunFile
from lakebed.merge.rule import Fill, MergeRule
from lakebed.table.config.table_config import TableConfig

_GROUP_BYTES: Final = 2 << 20


class EntryKind(StrEnum):
    """The kinds of entries, each with its own runs.

    The values are stored on disk: do not change them.
    """

    VALUES = "entries"
    OPEN = "open"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True, eq=False)
class NewEntries:
    """The entries that a task made for the index in `folder`: in memory, or as runs if many."""

    folder: str
    kind: EntryKind
    rows: pa.RecordBatch | None = None
    runs: tuple[RunFile, ...] = ()


@dataclass(frozen=True, slots=True)
class EntryMaker:
    """Makes the entries of one index from rows with some or all columns of the table.

    `is_open` is set if rows do not show their final values. `fill` is the rule by which an older
    version may replace some values; rows with such values get open entries.
    """

    definition: IndexDefinition
    is_open: bool = False
    fill: Fill | None = None

    @property
    def folder(self) -> str:
        """Return the name of the folder of the index."""
        return self.definition.folder

    def make(
        self, keys: pa.RecordBatch, rows: pa.RecordBatch, *, is_merged: bool = False
    ) -> Iterator[tuple[EntryKind, pa.RecordBatch]]:
        """Yield the entries of `rows`, none of which is a delete; `keys` are their keys alone.

        `is_merged` states that the rows have been merged with all older versions, so that each
        shows its final values.
        """
        columns = self.definition.columns
        if self.is_open and not is_merged:
            yield EntryKind.OPEN, keys
            return
        yields = None
        if self.fill is not None and not is_merged:
            yields = self.fill.gives_way(rows.column(_top(columns[0], rows.schema)))
        if yields is not None:
            yield EntryKind.OPEN, keys.filter(yields)
            keys, rows = keys.filter(pc.invert(yields)), rows.filter(pc.invert(yields))
        yield EntryKind.VALUES, add_values(keys, rows, columns)


@dataclass(frozen=True, slots=True)
class IndexWriters:
    """The indexes that a write maintains."""

    indexes: tuple[IndexDefinition, ...] = ()

    @classmethod
    def of(cls, config: TableConfig, schema: pa.Schema) -> Self:
        """Return the indexes of a table with the columns of `schema`.

        An index whose column types have changed is left out: it has to be rebuilt.
        """
        defined = parse_definitions(config.properties)
        return cls(tuple(one for one in defined if one.resolve(schema) is not None))

    @property
    def max_bytes(self) -> int:
        """Return the most bytes of entries that a file group sends to the driver instead of runs."""
        return len(self.indexes) * _GROUP_BYTES

    def makers(self, schema: pa.Schema, rule: MergeRule, *, is_partial: bool) -> list[EntryMaker]:
        """Return the makers of entries for rows with the columns of `schema`, one per index."""
        return [_maker(one, schema, rule, is_partial=is_partial) for one in self.indexes]


NO_INDEXES: Final = IndexWriters()


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
