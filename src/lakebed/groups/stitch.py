"""Join the rows of several column groups by key, as sorted streams."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.format.names.meta_columns import (
    COMMIT_TIME,
    META_COLUMNS,
    OUR_PREFIX,
    PARTITION_PATH,
    RECORD_KEY,
)
from lakebed.merge.rule import MergeRule
from lakebed.merge.run import Run
from lakebed.merge.window import merge_runs

KEYS_ONLY: Final = (RECORD_KEY, PARTITION_PATH)
"""Meta columns that are equal in all groups; the others are called stamps."""
_STAMPS: Final = tuple(name for name in META_COLUMNS if name not in KEYS_ONLY)


_DELETED_BY: Final = "_deleted_by"


def stitch(
    streams: Sequence[tuple[str, Iterable[pa.RecordBatch]]], target: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Yield a row for each key of any stream, with the columns of all; missing values are null.

    Each stream has a name, for error messages, and contains each key once, in ascending order. A
    column has the same values in all streams that have it. The result has the record key and the
    columns of `target`, with the columns of `numbered_stamps` in place of each stamp.
    """
    count = len(streams)
    fields = {RECORD_KEY: pa.field(RECORD_KEY, pa.string())}
    for field in with_commit_time(target):
        names = _numbered(field.name, count) if field.name in _STAMPS else [field.name]
        fields |= {name: field.with_name(name).with_nullable(True) for name in names}
    runs = [Run(name, batches, partial=True) for name, batches in streams]
    return merge_runs(runs, MergeRule(), pa.schema(list(fields.values())))


def complete(
    rows: Iterable[pa.RecordBatch],
    further: Sequence[Iterable[pa.RecordBatch]],
    target: pa.Schema,
) -> Iterator[pa.RecordBatch]:
    """Yield `rows`, and a row with nulls for each key that only `further` streams contain.

    All streams contain each key once, in ascending order. `rows` have the columns of `target`,
    other streams the record key and some of these.
    """
    runs = [Run("another column group", batches, partial=True) for batches in further]
    own = Run("the column group", rows, partial=True)
    fields = [field.with_nullable(True) for field in target]
    for batch in merge_runs([*runs, own], MergeRule(), pa.schema(fields)):
        yield pa.RecordBatch.from_arrays(batch.columns, schema=target)


def with_commit_time(target: pa.Schema) -> pa.Schema:
    """Add the commit time if the columns include stamps: it determines whose stamps are used."""
    stamps = [name for name in target.names if name in _STAMPS]
    if not stamps or COMMIT_TIME in stamps:
        return target
    return target.append(pa.field(COMMIT_TIME, pa.string()))


def numbered_stamps(batches: Iterable[pa.RecordBatch], number: int) -> Iterator[pa.RecordBatch]:
    """Rename the stamps, so that those of several groups can be in one row."""
    for batch in batches:
        names = [_number(name, number) if name in _STAMPS else name for name in batch.schema.names]
        yield batch.rename_columns(names)


@dataclass(frozen=True, slots=True)
class DeletedParts:
    """Joins the rows of groups with the keys that their deletes removed from single groups.

    A deleted key has the commit of its delete and no commit time; other groups may hold its row.
    `fields` are the columns that all groups hold: a deleted key has no values for them.
    """

    count: int
    fields: tuple[pa.Field, ...]

    def stream(
        self, batches: Iterable[pa.RecordBatch], deletes: list[pa.RecordBatch], number: int
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a group and, in key order, its deleted keys.

        `deletes` gets the deleted keys while `batches` are read, before the rows that follow them.
        """
        names = {field.name: _number(field.name, number) for field in self.fields}
        for batch in batches:
            rows = batch.rename_columns([names.get(name, name) for name in batch.schema.names])
            yield _with_deletes(rows, deletes, _number(_DELETED_BY, number))
            deletes.clear()
        if deletes:
            yield _with_deletes(None, deletes, _number(_DELETED_BY, number))

    def target(self, target: pa.Schema) -> pa.Schema:
        """Return the columns with which the streams are stitched, to get those of `target`."""
        names = {field.name for field in self.fields}
        deleted = [pa.field(name, pa.string()) for name in _numbered(_DELETED_BY, self.count)]
        numbered = [
            field.with_name(name)
            for field in self.fields
            for name in _numbered(field.name, self.count)
        ]
        return pa.schema([*(f for f in target if f.name not in names), *deleted, *numbered])

    def written_by(self, batch: pa.RecordBatch, commits: pa.StringArray) -> pa.RecordBatch:
        """Return the rows of which some part was written or deleted by one of `commits`."""
        times = [batch.column(name) for name in _numbered(COMMIT_TIME, self.count)]
        deletes = [batch.column(name) for name in _numbered(_DELETED_BY, self.count)]
        ours = [pc.is_in(time, value_set=commits) for time in (*times, *deletes)]
        held = reduce(pc.or_, map(pc.is_valid, times))
        found = batch.filter(pc.and_(reduce(pc.or_, ours), held))
        for field in self.fields:
            parts = [found.column(name) for name in _numbered(field.name, self.count)]
            found = found.append_column(field, pc.coalesce(*parts))
        return found


def _with_deletes(
    rows: pa.RecordBatch | None, deletes: Sequence[pa.RecordBatch], deleted_by: str
) -> pa.RecordBatch:
    """Return rows and deleted keys as one batch in key order."""
    found = [
        pa.table({RECORD_KEY: gone.column(RECORD_KEY), deleted_by: gone.column(COMMIT_TIME)})
        for gone in deletes
    ]
    if rows is not None:
        none = pa.nulls(rows.num_rows, pa.string())
        found.insert(0, pa.Table.from_batches([rows.append_column(deleted_by, none)]))
    whole = pa.concat_tables(found, promote_options="default")
    if deletes:
        whole = whole.sort_by(RECORD_KEY)
    return whole.combine_chunks().to_batches()[0]


def newest_stamps(batch: pa.RecordBatch, count: int, target: pa.Schema) -> pa.RecordBatch:
    """Return the columns of `target`, with the stamps of the newest part of each row."""
    asked = [name for name in target.names if name in _STAMPS]
    stamps: dict[str, pa.Array] = {}
    if asked:
        times = [batch.column(name) for name in _numbered(COMMIT_TIME, count)]
        newest = pc.max_element_wise(*times)
        for name in asked:
            held = [batch.column(one) for one in _numbered(name, count)]
            is_newest = [pc.fill_null(pc.equal(time, newest), False) for time in times]
            stamps[name] = pc.coalesce(
                *(
                    pc.if_else(mask, column, None)
                    for mask, column in zip(is_newest, held, strict=True)
                )
            )
    columns = [stamps[name] if name in stamps else batch.column(name) for name in target.names]
    return pa.RecordBatch.from_arrays(columns, names=target.names) if columns else batch


def numbered_stamp(name: str, number: int) -> str:
    """Return the name of a stamp of one group in the rows that `stitch` yields."""
    return _number(name, number)


def _number(name: str, number: int) -> str:
    return f"{OUR_PREFIX}{number}{name}"


def _numbered(name: str, count: int) -> list[str]:
    return [_number(name, number) for number in range(count)]
