"""The task of a clustering: merge file slices as a stream and cut it into files of one size."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.commit.fence import Fence
from lakebed.errors import CorruptError
from lakebed.format.commit_metadata import NO_PREVIOUS_COMMIT, WriteStat
from lakebed.format.meta_columns import COMMIT_SEQNO, COMMIT_TIME, RECORD_KEY
from lakebed.format.names import BaseFileName
from lakebed.index.simple import new_file_id
from lakebed.merge.passes import MAX_FAN_IN, merge_in_passes
from lakebed.merge.rule import Merger, MergeRule
from lakebed.merge.run import Run
from lakebed.model.executor import TaskId
from lakebed.model.packing import WRITE_FACTOR, file_cost
from lakebed.services.clustering.plan import InputGroup
from lakebed.storage.storage import Storage
from lakebed.table.config import TableConfig
from lakebed.table.data_writer import DataFileStats, DataFileWriter
from lakebed.table.file_group import FileSlice, join_path
from lakebed.table.log_reader import slice_sources
from lakebed.table.projection import project
from lakebed.table.run_reader import Needs, open_run
from lakebed.table.run_source import RunSource
from lakebed.table.slice_reader import read_slice
from lakebed.table.spill import Spills
from lakebed.timeline.timeline import Timeline
from lakebed.write.status import NOTHING_COMPACTED

# What every row keeps: when it was written does not change by rewriting it.
_CARRIED = (COMMIT_TIME, COMMIT_SEQNO)
# Which slice a row comes from; below zero for a key that two of them hold.
_SLICE = "_lakebed_slice"
# What the runs of all slices that are read at once hold of their files.
_BUFFER_BYTES = 256 << 20
_MIN_BUFFER_BYTES = 256 << 10
_MERGE_ROWS = 65_536
_MIN_MERGE_ROWS = 1_024


@dataclass(frozen=True, slots=True)
class ClusteringTask:
    """One input group and all that a worker must know to cluster it.

    The ids of the new file groups follow from `seed`, another for each task.
    """

    storage: Storage
    config: TableConfig
    rule: MergeRule
    timeline: Timeline
    schema: pa.Schema
    instant: str
    fence: Fence
    number: int
    seed: str
    group: InputGroup
    target_bytes: int

    @property
    def cost_bytes(self) -> int:
        """Estimate the work."""
        slices = self.group.slices
        return file_cost(WRITE_FACTOR * self.group.size_bytes, sum(len(s.files) for s in slices))


def cluster_input_group(work: ClusteringTask, task: TaskId) -> tuple[WriteStat, ...]:
    """Write the rows of all slices in key order to new file groups; give a stat for each."""
    with Spills() as spills, _Outputs(work, task) as outputs:
        for batch in _merged(work, spills):
            outputs.write(batch)
        return outputs.close()


def rows_of_next_file(target_bytes: int, rows_left: int, row_bytes: float) -> int:
    """Give how many rows the next file takes: files of one size rather than full ones and a rest.

    Rows that are left are a guess; the last file takes more, up to the target.
    """
    full = max(1, int(target_bytes / row_bytes))
    files = math.ceil(rows_left / full)
    return full if files <= 1 else math.ceil(rows_left / files)


class _Outputs:
    """The files that a task writes, one after the other, each a range of keys."""

    def __init__(self, work: ClusteringTask, task: TaskId) -> None:
        self._work = work
        self._task = task
        self._done: list[WriteStat] = []
        self._rows = 0
        self._size_bytes = 0
        self._writer: DataFileWriter | None = None
        self._room = 0

    def __enter__(self) -> "_Outputs":
        return self

    def __exit__(self, *error: object) -> None:
        if self._writer is not None:
            self._writer.abort()

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows, to the next file where this one is full."""
        start = 0
        while start < batch.num_rows:
            if self._writer is None:
                self._writer = self._open()
                self._room = self._rows_of_next(batch)
            piece = batch.slice(start, self._room)
            self._writer.write(
                piece.select(self._work.schema.names),
                piece.column(RECORD_KEY),
                commit_times=piece.column(COMMIT_TIME),
                commit_seqnos=piece.column(COMMIT_SEQNO),
            )
            start += piece.num_rows
            self._room -= piece.num_rows
            if self._room == 0:
                self._publish(self._writer)

    def close(self) -> tuple[WriteStat, ...]:
        """Publish the last file and say what all of them hold."""
        if self._writer is not None:
            self._publish(self._writer)
        return tuple(self._done)

    def _rows_of_next(self, batch: pa.RecordBatch) -> int:
        """Count on what a row took in the files so far, or takes in the old ones, or here."""
        group = self._work.group
        here = max(1.0, batch.nbytes / batch.num_rows)
        guess = min(here, group.row_bytes or here)
        row_bytes = self._size_bytes / self._rows if self._rows else guess
        return rows_of_next_file(self._work.target_bytes, group.rows - self._rows, row_bytes)

    def _open(self) -> DataFileWriter:
        work = self._work
        file_id = new_file_id(work.group.partition, len(self._done), work.seed)
        name = BaseFileName(file_id, self._task.write_token, work.instant).encode()
        path = join_path(work.group.partition, name)
        return DataFileWriter(
            work.storage.open_write(path),
            path,
            work.schema,
            table_name=work.config.name,
            instant=work.instant,
            partition_path=work.group.partition,
            task=work.number,
        )

    def _publish(self, writer: DataFileWriter) -> None:
        work = self._work
        with writer:
            work.fence.check()
            stats = writer.close()
        self._writer = None
        work.fence.check_written([stats.path])
        self._rows += stats.rows
        self._size_bytes += stats.size_bytes
        file_id = new_file_id(work.group.partition, len(self._done), work.seed)
        self._done.append(_stat(work, file_id, stats))


def _stat(work: ClusteringTask, file_id: str, stats: DataFileStats) -> WriteStat:
    # As in Hudi: for a new file group every row is an insert.
    return replace(
        NOTHING_COMPACTED,
        file_id=file_id,
        path=stats.path,
        prev_commit=NO_PREVIOUS_COMMIT,
        num_writes=stats.rows,
        num_deletes=0,
        num_update_writes=0,
        num_inserts=stats.rows,
        total_write_bytes=stats.size_bytes,
        partition_path=work.group.partition,
        file_size_in_bytes=stats.size_bytes,
        total_log_read_time_ms=0,
        num_updates=0,
    )


def _merged(work: ClusteringTask, spills: Spills) -> Iterator[pa.RecordBatch]:
    """Yield the rows of all slices in key order; a key that comes twice is CorruptError."""
    slices = work.group.slices
    found = [
        slice_sources(work.storage, slice_, work.config, work.timeline.is_committed)
        for slice_ in slices
    ]
    at_once = sorted(map(len, found), reverse=True)[:MAX_FAN_IN]
    buffer_bytes = max(_MIN_BUFFER_BYTES, _BUFFER_BYTES // max(1, sum(at_once)))
    buffer_bytes = min(buffer_bytes, work.config.read_buffer_bytes)
    columns = pa.schema(project(work.schema, [RECORD_KEY, *_CARRIED, *work.schema.names]))
    runs = []
    for number, (slice_, sources) in enumerate(zip(slices, found, strict=True)):
        run = _run(work, slice_, sources, columns, number, buffer_bytes)
        if not all(source.ordered for source in sources):
            # Sorted in memory, and there is room for one of them only.
            run = replace(spills.spill(iter(run.batches)), name=run.name)
        runs.append(run)
    schema = columns.append(pa.field(_SLICE, pa.int64()))
    rule = MergeRule(merger=_mark_twice(len(slices)))
    for batch in merge_in_passes(runs, rule, schema, spills.spill):
        _check_once(batch, slices)
        yield batch


def _run(
    work: ClusteringTask,
    slice_: FileSlice,
    sources: list[RunSource],
    columns: pa.Schema,
    number: int,
    buffer_bytes: int,
) -> Run:
    if slice_.needs_merge or not sources:
        batches: Iterator[pa.RecordBatch] = read_slice(
            work.storage,
            slice_,
            work.config,
            work.schema,
            columns.names,
            work.rule,
            work.timeline.is_committed,
            buffer_bytes=buffer_bytes,
            sources=sources,
            by_key=True,
        )
    else:
        # Not folded: a reader shows every row of a base file without logs, also a key twice.
        many = min(MAX_FAN_IN, len(work.group.slices))
        needs = Needs(
            tuple(field.with_nullable(True) for field in columns),
            buffer_bytes=buffer_bytes,
            max_rows=max(_MIN_MERGE_ROWS, _MERGE_ROWS // many),
        )
        batches = iter(open_run(work.storage, sources[0], needs).batches)
    return Run(_name(slice_), _numbered(batches, number))


def _numbered(batches: Iterator[pa.RecordBatch], number: int) -> Iterator[pa.RecordBatch]:
    place = pa.scalar(number, pa.int64())
    for batch in batches:
        yield batch.append_column(_SLICE, pa.repeat(place, batch.num_rows))


def _mark_twice(count: int) -> Merger:
    """Give a merge of two rows of one key that keeps which slices, of `count`, they are from."""

    def mark(older: pa.RecordBatch, newer: pa.RecordBatch) -> pa.RecordBatch:
        first, second = older.column(_SLICE), newer.column(_SLICE)
        both = pc.subtract(-1, pc.add(pc.multiply(first, count), second))
        at = newer.schema.get_field_index(_SLICE)
        marked = pc.if_else(pc.less(first, 0), first, both)
        return newer.set_column(at, newer.schema.field(at), marked)

    return mark


def _check_once(batch: pa.RecordBatch, slices: Sequence[FileSlice]) -> None:
    places = batch.column(_SLICE)
    lowest = pc.min(places)
    if lowest.as_py() >= 0:
        return
    key = batch.column(RECORD_KEY)[pc.index(places, lowest).as_py()].as_py()
    first, second = (_name(slices[at]) for at in divmod(-1 - lowest.as_py(), len(slices)))
    where = f"twice in {first}" if first == second else f"in {first} and in {second}"
    raise CorruptError(
        f"partition {slices[0].group.partition!r}: record key {key!r} is {where}; clustering "
        "wants each key once in a partition, delete one of the rows first"
    )


def _name(slice_: FileSlice) -> str:
    return ", ".join(repr(file.path) for file in slice_.files)
