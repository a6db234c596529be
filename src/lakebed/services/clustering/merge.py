"""The task of a clustering: merge file slices as a stream and split it into files of equal size."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import CorruptError
from lakebed.format.names.meta_columns import RECORD_KEY
from lakebed.format.timeline.commit_metadata import NO_PREVIOUS_COMMIT, WriteStat
from lakebed.index.holders import new_file_id
from lakebed.merge.arrays import to_bools
from lakebed.merge.passes import MAX_FAN_IN, merge_in_passes
from lakebed.merge.rule import Merger, MergeRule
from lakebed.merge.run import FLAGS, Run
from lakebed.model.executor import TaskId
from lakebed.model.packing import WRITE_FACTOR, file_cost
from lakebed.services.clustering.plan import InputGroup
from lakebed.services.rewrite import Rewrite, RewrittenFile
from lakebed.table.files.file_group import FileGroupId, FileSlice
from lakebed.table.read.log_reader import slice_sources
from lakebed.table.read.projection import project
from lakebed.table.read.run_reader import Needs, open_run
from lakebed.table.read.run_source import RunSource
from lakebed.table.read.spill import Spills
from lakebed.table.store.data_writer import DataFileStats
from lakebed.write.spec.status import file_stat

# The slice that a row comes from; negative for a key that two slices hold.
_SLICE = "_lakebed_slice"
# The flags of a delete that is kept; 0 for a row.
_GONE = "_lakebed_gone"
# The total buffer size of all runs that are read at once.
_BUFFER_BYTES = 256 << 20
_MIN_BUFFER_BYTES = 256 << 10
_MERGE_ROWS = 65_536
_MIN_MERGE_ROWS = 1_024


@dataclass(frozen=True, slots=True)
class ClusteringTask:
    """One input group, with everything that a worker needs to cluster it.

    The ids of the new file groups are derived from `seed`, which differs for each task.
    """

    rewrite: Rewrite
    number: int
    seed: str
    group: InputGroup
    target_bytes: int

    @property
    def cost_bytes(self) -> int:
        """Return the estimated cost of this task, in bytes."""
        slices = self.group.slices
        return file_cost(WRITE_FACTOR * self.group.size_bytes, sum(len(s.files) for s in slices))


def cluster_input_group(work: ClusteringTask, task: TaskId) -> tuple[WriteStat, ...]:
    """Write the rows of all slices in key order to new file groups; return the files' stats.

    An ordered delete that late rows may still meet goes to the file group of its key.
    """
    with Spills() as spills, _Outputs(work, task) as outputs:
        for batch in _merged(work, spills):
            outputs.write(batch)
        return outputs.close()


def rows_of_next_file(target_bytes: int, rows_left: int, row_bytes: float) -> int:
    """Return how many rows the next file takes, so that all files are of about equal size.

    The number of remaining rows is an estimate; the last file takes more, up to the target.
    """
    full = max(1, int(target_bytes / row_bytes))
    files = math.ceil(rows_left / full)
    return full if files <= 1 else math.ceil(rows_left / files)


class _Outputs:
    """The files that a task writes one after the other, each with its own key range."""

    def __init__(self, work: ClusteringTask, task: TaskId) -> None:
        self._work = work
        self._task = task
        self._done: list[WriteStat] = []
        self._files = 0
        self._rows = 0
        self._size_bytes = 0
        self._file: RewrittenFile | None = None
        self._room = 0

    def __enter__(self) -> "_Outputs":
        return self

    def __exit__(self, *error: object) -> None:
        if self._file is not None:
            self._file.__exit__(*error)

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows and deletes, starting the next file when this one has enough rows."""
        live = np.flatnonzero(batch.column(_GONE).to_numpy() == 0)
        start = taken = 0
        while start < batch.num_rows:
            if self._file is None:
                self._file = self._open()
                self._room = self._rows_of_next(batch)
            # Deletes after the last row go to its file.
            is_full = live.size - taken > self._room
            end = int(live[taken + self._room]) if is_full else batch.num_rows
            self._put(self._file, batch.slice(start, end - start))
            rows = self._room if is_full else live.size - taken
            start, taken, self._room = end, taken + rows, self._room - rows
            if is_full:
                self._publish(self._file)

    @staticmethod
    def _put(file: RewrittenFile, piece: pa.RecordBatch) -> None:
        flags = piece.column(_GONE)
        gone = pc.not_equal(flags, 0)
        if not gone.true_count:
            file.put(piece)
            return
        file.put(piece.filter(pc.invert(gone)))
        file.put_deletes(piece.append_column(FLAGS, flags).filter(gone))

    def close(self) -> tuple[WriteStat, ...]:
        """Publish the last file and return the stats of all files."""
        if self._file is not None:
            self._publish(self._file)
        return tuple(self._done)

    def _rows_of_next(self, batch: pa.RecordBatch) -> int:
        """Estimate the rows of the next file from the row size in new or old files, or `batch`."""
        group = self._work.group
        here = max(1.0, batch.nbytes / batch.num_rows)
        guess = min(here, group.row_bytes or here)
        row_bytes = self._size_bytes / self._rows if self._rows else guess
        return rows_of_next_file(self._work.target_bytes, group.rows - self._rows, row_bytes)

    @property
    def _group(self) -> FileGroupId:
        """Return the file group that is being written."""
        partition = self._work.group.partition
        return FileGroupId(partition, new_file_id(partition, self._files, self._work.seed))

    def _open(self) -> RewrittenFile:
        work = self._work
        return RewrittenFile(work.rewrite, self._group, self._task.write_token, work.number)

    def _publish(self, file: RewrittenFile) -> None:
        with file:
            written = file.close()
        self._file = None
        self._rows += written.base.rows
        self._size_bytes += written.base.size_bytes
        self._done += [_stat(self._group, written.base), *written.tombstones]
        self._files += 1


def _stat(group: FileGroupId, stats: DataFileStats) -> WriteStat:
    # As in Hudi: for a new file group every row is an insert.
    return replace(
        file_stat(group, stats),
        prev_commit=NO_PREVIOUS_COMMIT,
        num_inserts=stats.rows,
        total_log_read_time_ms=0,
    )


def _merged(work: ClusteringTask, spills: Spills) -> Iterator[pa.RecordBatch]:
    """Yield the rows of all slices in key order, with kept deletes flagged.

    A key that has rows in two slices raises CorruptError.
    """
    rewrite, slices = work.rewrite, work.group.slices
    found = [slice_sources(rewrite.view, slice_) for slice_ in slices]
    at_once = sorted(map(len, found), reverse=True)[:MAX_FAN_IN]
    buffer_bytes = max(_MIN_BUFFER_BYTES, _BUFFER_BYTES // max(1, sum(at_once)))
    buffer_bytes = min(buffer_bytes, rewrite.view.buffer_bytes)
    runs = []
    for number, (slice_, sources) in enumerate(zip(slices, found, strict=True)):
        run = _run(work, slice_, sources, number, buffer_bytes)
        if not all(source.ordered for source in sources):
            # An unsorted base file is sorted in memory, and there is room for only one.
            run = replace(spills.spill(iter(run.batches)), name=run.name)
        runs.append(run)
    rule = MergeRule(merger=_mark_twice(len(slices)))
    for batch in merge_in_passes(runs, rule, _merged_schema(rewrite), spills.spill):
        _check_once(batch, slices)
        yield batch


def _merged_schema(rewrite: Rewrite) -> pa.Schema:
    """Return the columns of the merge; a deleted row has only key and ordering values."""
    columns = (f.with_nullable(True) for f in project(rewrite.view.schema, rewrite.columns))
    return pa.schema([*columns, pa.field(_SLICE, pa.int64()), pa.field(_GONE, pa.uint8())])


def _run(
    work: ClusteringTask,
    slice_: FileSlice,
    sources: list[RunSource],
    number: int,
    buffer_bytes: int,
) -> Run:
    rewrite = work.rewrite
    schema = _merged_schema(rewrite)
    if slice_.needs_merge or slice_.tombstones or not sources:
        held: list[pa.RecordBatch] = []
        rows = rewrite.read(slice_, sources=sources, buffer_bytes=buffer_bytes, deletes=held.append)
        return Run(_name(slice_), _with_deletes(work, rows, held, number))
    # Not deduplicated: a reader shows every row of a base file without logs, even a key twice.
    many = min(MAX_FAN_IN, len(work.group.slices))
    needs = Needs(
        tuple(schema.field(name) for name in rewrite.columns),
        buffer_bytes=buffer_bytes,
        max_rows=max(_MIN_MERGE_ROWS, _MERGE_ROWS // many),
    )
    batches = open_run(rewrite.view.storage, sources[0], needs).batches
    return Run(_name(slice_), (_numbered(batch, schema, number, None) for batch in batches))


def _with_deletes(
    work: ClusteringTask,
    rows: Iterator[pa.RecordBatch],
    held: list[pa.RecordBatch],
    number: int,
) -> Iterator[pa.RecordBatch]:
    """Yield rows and, among them in key order, the deletes that are kept.

    `held` are the deletes that came since the last batch of rows: they belong before its last key.
    """
    schema = _merged_schema(work.rewrite)

    def take() -> list[pa.RecordBatch]:
        kept = [work.rewrite.kept(batch) for batch in held]
        held.clear()
        return [_numbered(one, schema, number, one.column(FLAGS)) for one in kept if one.num_rows]

    for batch in rows:
        deletes = take()
        live = _numbered(batch, schema, number, None)
        if not deletes:
            yield live
            continue
        both = pa.concat_batches([*deletes, live])
        yield both.take(pc.sort_indices(both.column(RECORD_KEY)))
    yield from take()


def _numbered(
    batch: pa.RecordBatch, schema: pa.Schema, number: int, gone: pa.Array | None
) -> pa.RecordBatch:
    """Return rows of slice `number`, or deletes with flags `gone`, in the columns of the merge."""
    places = pa.repeat(pa.scalar(number, pa.int64()), batch.num_rows)
    if gone is None:
        gone = pa.repeat(pa.scalar(0, pa.uint8()), batch.num_rows)
    columns = [batch.column(name) for name in schema.names[:-2]]
    return pa.RecordBatch.from_arrays([*columns, places, gone], schema=schema)


def _mark_twice(count: int) -> Merger:
    """Return a merger of rows of one key that records which of `count` slices hold the key.

    A delete yields to a row: the delete is from the other slice, where readers do not see it.
    """

    def mark(older: pa.RecordBatch, newer: pa.RecordBatch) -> pa.RecordBatch:
        first, second = older.column(_SLICE), newer.column(_SLICE)
        both = pc.subtract(-1, pc.add(pc.multiply(first, count), second))
        at = newer.schema.get_field_index(_SLICE)
        older_gone, newer_gone = (_is_gone(rows) for rows in (older, newer))
        marked = pc.if_else(pc.less(first, 0), first, both)
        places = pc.if_else(pc.or_(older_gone, newer_gone), second, marked)
        merged = newer.set_column(at, newer.schema.field(at), places)
        stays = to_bools(pc.and_not(newer_gone, older_gone))
        if not stays.any():
            return merged
        rows = np.arange(newer.num_rows)
        chosen = np.where(stays, rows, rows + newer.num_rows)
        return pa.concat_batches([older, merged]).take(pa.array(chosen))

    return mark


def _is_gone(rows: pa.RecordBatch) -> pa.BooleanArray:
    return pc.not_equal(rows.column(_GONE), 0)


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
        "needs each key once per partition: delete one of the rows first"
    )


def _name(slice_: FileSlice) -> str:
    return ", ".join(repr(file.path) for file in slice_.files)
