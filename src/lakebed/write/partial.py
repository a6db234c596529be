"""Partial updates as logs: the existing rows decide whether a key gets a partial or a complete row.

Up to table version 9, the versions that Apache Hudi 1.2.0 reads, every row is completed from the
existing row (with nulls for a new key). Hudi reads a column of a partial row by its position among
all columns: its incremental query returns wrong values or crashes the JVM, its global indexes
cannot merge such rows, and in a table with a column `_hoodie_is_deleted` it treats them as deletes.
`docs/decisions/0012-updates-of-some-columns-are-whole-rows.md` lists the alternatives.

In version 10 with ordering columns, an existing key gets a partial row, and a new key a complete
row; commit-time tables and tables with a column `_hoodie_is_deleted` get complete rows in version
10 too. In a table with column groups, which Hudi does not open, every row is partial, so the keys
are not looked up; only indexes need entries for all columns of a new row.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.format.names.meta_columns import IS_DELETED, RECORD_KEY
from lakebed.merge.rule import MergeRule
from lakebed.merge.run import DELETED, FLAGS, Run
from lakebed.merge.window import merge_runs
from lakebed.model.executor import TaskId
from lakebed.table.files.file_group import FileSlice
from lakebed.table.read.key_filter import KeyFilter
from lakebed.table.read.slice_reader import read_slice
from lakebed.write.locate import CAME, mark
from lakebed.write.log_runs import write_log
from lakebed.write.spec.operation import UPSERT
from lakebed.write.spec.status import WriteStatus
from lakebed.write.spec.write_spec import WriteSpec

_THERE = "_lakebed_there"
# For up to this many keys, row groups are chosen by key.
_MAX_KEYS = 10_000
# Logs of this table version and later may hold partial rows.
_PARTIAL_SINCE = 10


@dataclass(frozen=True, slots=True)
class PartialWrite:
    """Rows with some of the table's columns, for an existing file group."""

    spec: WriteSpec
    slice_: FileSlice
    new_rows: int


def write_partial_log(
    write: PartialWrite, task: TaskId, rows: Iterable[pa.RecordBatch]
) -> WriteStatus:
    """Write `rows`, sorted and with unique keys, as logs of partial and of complete rows."""
    spec, group = write.spec, write.slice_.group
    whole = replace(spec, schema=spec.view.schema, operation=UPSERT)
    joined = _join(write, rows)
    if _fills(spec):
        return write_log(whole, group, task, 1, joined, write.slice_)
    apart = _Apart(whole, write.slice_, task)
    kept = apart.take_whole(joined, spec)
    partial = write_log(spec, group, task, 1, kept, write.slice_)
    return apart.finish(partial)


class _Apart:
    """Buffers complete rows while partial rows stream by, until they are enough for a log."""

    def __init__(self, spec: WriteSpec, slice_: FileSlice, task: TaskId) -> None:
        self._spec = spec
        self._slice = slice_
        self._task = task
        self._held: list[pa.RecordBatch] = []
        self._statuses: list[WriteStatus] = []

    def take_whole(
        self, batches: Iterable[pa.RecordBatch], partial: WriteSpec
    ) -> Iterator[pa.RecordBatch]:
        """Yield deletes and rows of existing keys, with the incoming columns; buffer the others."""
        # Under a global index, a row that moves leaves a delete behind.
        flags = [FLAGS] if partial.may_delete or partial.looks_everywhere else []
        for batch in batches:
            there = pc.is_valid(batch.column(_THERE))
            if FLAGS in flags:
                # A delete needs no existing row.
                gone = pc.not_equal(pc.bit_wise_and(batch.column(FLAGS), DELETED), 0)
                there = pc.or_(there, gone)
            self._keep(batch.filter(pc.invert(there)).drop_columns([_THERE]))
            yield batch.filter(there).select([RECORD_KEY, *flags, *partial.schema.names])

    def _keep(self, rows: pa.RecordBatch) -> None:
        if rows.num_rows:
            self._held.append(rows)
        if sum(batch.nbytes for batch in self._held) >= self._spec.memory_bytes:
            self._flush()

    def _flush(self) -> None:
        version = len(self._statuses) + 2
        below, group = self._slice, self._slice.group
        self._statuses.append(write_log(self._spec, group, self._task, version, self._held, below))
        self._held = []

    def finish(self, partial: WriteStatus) -> WriteStatus:
        """Write the remaining rows; return the status of all logs, including the `partial` ones."""
        if self._held:
            self._flush()
        statuses = [partial, *self._statuses]
        return replace(
            partial,
            stats=tuple(stat for status in statuses for stat in status.stats),
            entries=tuple(entries for status in statuses for entries in status.entries),
        )


def looks_at_rows(spec: WriteSpec) -> bool:
    """Return whether a partial write depends on the rows that exist."""
    return not spec.config.column_groups or bool(spec.indexes.indexes) or _fills(spec)


def _fills(spec: WriteSpec) -> bool:
    """Return whether rows are completed, because Hudi would misread partial ones."""
    read_by_hudi = spec.config.version < _PARTIAL_SINCE
    return read_by_hudi or not spec.rule.ordering_fields or IS_DELETED in spec.view.schema.names


def _join(write: PartialWrite, rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the incoming rows with all columns of the table, and whether their key exists."""
    spec = write.spec
    fills = _fills(spec)
    names = [RECORD_KEY, *(spec.view.schema.names if fills else ())]
    there, rows = existing_rows(spec, write.slice_, names, rows, write.new_rows)
    columns = [field.with_nullable(True) for field in spec.view.schema]
    fields = [
        pa.field(RECORD_KEY, pa.string()),
        pa.field(CAME, pa.uint8()),
        pa.field(_THERE, pa.bool_()),
        *columns,
    ]
    runs = [
        Run("the existing rows", map(_with_there, there)),
        Run("the input", map(mark, rows), partial=True),
    ]
    for batch in merge_runs(runs, MergeRule(), pa.schema(fields)):
        came = batch.filter(pc.is_valid(batch.column(CAME)))
        if came.num_rows:
            names = [FLAGS if name == CAME else name for name in came.schema.names]
            yield came.rename_columns(names)


def existing_rows(
    spec: WriteSpec,
    slice_: FileSlice,
    columns: Sequence[str],
    rows: Iterable[pa.RecordBatch],
    count: int,
) -> tuple[Iterator[pa.RecordBatch], Iterable[pa.RecordBatch]]:
    """Return the rows of a slice in key order, and `rows`, `count` new rows that some may match.

    If the new rows are few, only the existing rows of their keys are returned.
    """
    key_filter = None
    if count <= _MAX_KEYS:
        rows = list(rows)
        keys = [key for batch in rows for key in batch.column(RECORD_KEY).to_pylist()]
        key_filter = KeyFilter.of(keys=keys)
    # By key, as another writer's base file may be unsorted.
    return read_slice(spec.view, slice_, columns, key_filter=key_filter, by_key=True), rows


def _with_there(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.append_column(_THERE, pa.repeat(pa.scalar(True), batch.num_rows))
