"""The changes of one file group as rows: operation, time, the row before and after.

They are read from change data if it holds both rows; otherwise the slices before and after a commit
are compared, both in key order. If the slice before the commit no longer exists, change data that
holds the row before is completed from the slice after.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import NotFoundError
from lakebed.format.logs.cdc import AFTER, BEFORE, OP, TS_MS, ChangeOp, LoggingMode
from lakebed.format.names.meta_columns import COMMIT_SEQNO, COMMIT_TIME, RECORD_KEY
from lakebed.table.changes.cdc_changes import ChangeFinder, each_once
from lakebed.table.changes.cdc_file import CdcFile, open_cdc_file
from lakebed.table.changes.commit_files import gone
from lakebed.table.changes.plan import ChangeStep, GroupChanges
from lakebed.table.changes.touched_keys import touched_keys
from lakebed.table.files.file_group import FileSlice
from lakebed.table.read.key_filter import KeyFilter
from lakebed.table.read.slice_reader import read_slice
from lakebed.table.view import TableView

_STAMPS = (RECORD_KEY, COMMIT_TIME, COMMIT_SEQNO)


def change_schema(schema: pa.Schema, columns: Sequence[str]) -> pa.Schema:
    """Return the schema of change rows, with `columns` of the table before and after."""
    row = pa.struct(_row(schema, columns))
    return pa.schema(
        [
            pa.field(OP, pa.string(), nullable=False),
            pa.field(TS_MS, pa.string(), nullable=False),
            pa.field(BEFORE, row),
            pa.field(AFTER, row),
        ]
    )


def _row(schema: pa.Schema, columns: Sequence[str]) -> list[pa.Field]:
    # A row that does not exist has no values.
    return [schema.field(name).with_nullable(True) for name in columns]


@dataclass(frozen=True, slots=True)
class ChangeReader:
    """Reads the changes of file groups of one table; pickled to workers."""

    view: TableView
    columns: tuple[str, ...]

    @property
    def change_schema(self) -> pa.Schema:
        """Return the schema of the change rows."""
        return change_schema(self.view.schema, self.columns)

    def read(self, changes: GroupChanges) -> Iterator[pa.RecordBatch]:
        """Yield the changes of one file group, commit by commit in order of completion."""
        for step in changes.steps:
            for ops, before, after in self._changes(step):
                if len(ops):
                    yield self._batch(step.instant, ops, before, after)

    def _batch(
        self, instant: str, ops: pa.Array, before: pa.Array | None, after: pa.Array | None
    ) -> pa.RecordBatch:
        schema = self.change_schema
        none = pa.nulls(len(ops), schema.field(BEFORE).type)
        times = pa.repeat(pa.scalar(instant), len(ops))
        sides = [none if side is None else side for side in (before, after)]
        return pa.RecordBatch.from_arrays([ops, times, *sides], schema=schema)

    def _changes(
        self, step: ChangeStep
    ) -> Iterator[tuple[pa.Array, pa.Array | None, pa.Array | None]]:
        logged = self._logged(step)
        if logged is not None and all(file.mode.has_after for file in logged):
            for file in logged:
                for records in file.read(self.view.storage, self._images, self.view.buffer_bytes):
                    yield records.ops, records.before, records.after
        elif step.lost is None:
            yield from self._compared(step)
        elif (
            logged is not None
            and step.after.lost is None
            and all(file.mode is LoggingMode.DATA_BEFORE for file in logged)
        ):
            for file in logged:
                yield from self._completed(step, file)
        else:
            raise gone(f"changes of {step.instant}", step.lost)

    def _logged(self, step: ChangeStep) -> list[CdcFile] | None:
        """Open the change data of a commit; return None if it no longer exists."""
        try:
            return [open_cdc_file(self.view.storage, file) for file in step.cdc_files] or None
        except NotFoundError:
            return None

    def _compared(
        self, step: ChangeStep
    ) -> Iterator[tuple[pa.Array, pa.Array | None, pa.Array | None]]:
        before, after = step.before.slice_, step.after.slice_
        keys = None
        if before is not None and after is not None:
            keys = touched_keys(self.view, before, after)
        both = before is not None and after is not None
        # In logs, a row that loses by its ordering value may still supply columns that the winner
        # lacks, and the winner keeps its commit.
        by_order = after is not None and after.needs_merge and bool(self.view.rule.ordering_fields)
        # In a table with column groups, a delete may also clear only some columns of a row.
        compared = self.columns if by_order or self.view.column_groups else ()
        finder = ChangeFinder(
            self._rows(before, keys, by_key=both), self._images, self._images, compared
        )
        for rows in self._rows(after, keys, by_key=both):
            for found in finder.put(rows):
                yield found.ops, found.before, found.after
        for found in finder.finish():
            yield found.ops, found.before, found.after

    def _completed(
        self, step: ChangeStep, file: CdcFile
    ) -> Iterator[tuple[pa.Array, pa.Array | None, pa.Array | None]]:
        """Yield logged rows before a change with the rows after it, one batch of keys at a time."""
        for records in file.read(self.view.storage, self._images, self.view.buffer_bytes):
            assert records.keys is not None, "this mode logs keys"
            keys = KeyFilter.of(keys=records.keys.to_pylist())
            found = pa.Table.from_batches(
                self._rows(step.after.slice_, keys, by_key=True),
                pa.schema([*self._stamps, *self._images]),
            ).combine_chunks()
            images = pa.StructArray.from_arrays(
                [_one(found.column(name)) for name in self.columns], fields=list(self._images)
            )
            at = pc.index_in(records.keys, value_set=_one(found.column(RECORD_KEY)))
            gone_ = pc.equal(records.ops, ChangeOp.DELETE.value)
            after = images.take(pc.if_else(gone_, pa.scalar(None, at.type), at))
            yield records.ops, records.before, after

    def _rows(
        self, slice_: FileSlice | None, keys: KeyFilter | None, *, by_key: bool
    ) -> Iterator[pa.RecordBatch]:
        if slice_ is None:
            return
        columns = [*_STAMPS, *self.columns]
        rows = read_slice(self.view, slice_, columns, key_filter=keys, by_key=by_key)
        yield from each_once(rows, f"file group {slice_.group.file_id}") if by_key else rows

    @property
    def _images(self) -> pa.Schema:
        return pa.schema(_row(self.view.schema, self.columns))

    @property
    def _stamps(self) -> list[pa.Field]:
        return [pa.field(name, pa.string()) for name in _STAMPS]


def _one(column: pa.ChunkedArray) -> pa.Array:
    found = column.combine_chunks()
    return pa.concat_arrays(found.chunks) if isinstance(found, pa.ChunkedArray) else found
