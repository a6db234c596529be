"""First stage of a write: incoming rows become sorted runs, without a shuffle.

A task sorts its buffered rows when its memory budget is full, and writes one run per file group. On
a merge-on-read table the run of an existing file group is written as a log file directly.
Everything else goes to a temporary file (Arrow IPC below `.hoodie/.temp`, which readers ignore;
each file group is a range of its batches), which the second stage merges.

While one flush is sorted and encoded, the next rows arrive: Arrow releases Python's global lock,
and only one flush is in progress at a time, so memory stays bounded.
"""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import count

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakebed.commit.rollback import temp_path
from lakebed.index.strategy import StagedBucket
from lakebed.merge.order import Positions, sort_positions, sort_versions
from lakebed.merge.run import FLAGS, Run
from lakebed.model.executor import TaskId
from lakebed.model.packing import ROW_BYTES, file_cost
from lakebed.storage.storage import Storage
from lakebed.storage.streams import WriteStream
from lakebed.table.files.file_group import FileGroupId
from lakebed.write.generated_keys import with_keys
from lakebed.write.log_runs import FlushedLogs
from lakebed.write.rows import RoutedRows, route_rows, run_schema
from lakebed.write.spec.status import WriteStatus
from lakebed.write.spec.write_spec import WriteSpec

# One batch of every run is in memory during the merge, so batches are small in bytes.
RUN_BATCH_BYTES = 1 << 20
# To hand the buffers of such a batch to threads takes longer than to decompress them.
_READ_OPTIONS = pa.ipc.IpcReadOptions(use_threads=False)
MIN_BATCH_ROWS = 256


@dataclass(frozen=True, slots=True)
class Segment:
    """The rows of one file group in one temporary run: a range of its batches.

    `arrival` orders the runs of a write: the task's number, then its flushes. Rows without a
    `file_id` are not assigned to file groups yet. `settle_moves` decides on rows that `wait`: only
    this file group holds their keys or, if there is no `file_id`, several do.
    """

    path: str
    arrival: tuple[int, int]
    partition: str
    file_id: str | None
    first_batch: int
    num_batches: int
    num_rows: int
    num_deletes: int = 0
    size_bytes: int = 0
    # The bucket of the rows. With a file id, only the rows of this bucket are read.
    staged: StagedBucket | None = None
    wait: bool = False
    column_group: str = ""

    @property
    def group(self) -> FileGroupId:
        """Return the file group that the rows are assigned to."""
        assert self.file_id is not None, self
        return FileGroupId(self.partition, self.file_id, self.column_group)

    @property
    def cost_bytes(self) -> int:
        """Return the estimated cost of reading and writing its rows."""
        return file_cost(self.num_rows * ROW_BYTES, 1)


Staged = Segment | WriteStatus


@dataclass(frozen=True, slots=True)
class LogPolicy:
    """Whether a task may write log files directly, and the minimum of rows per file group.

    A task must not write them if the order of tasks decides which version of a key survives; and
    many tasks with few rows each would create too many small files.
    """

    direct: bool
    min_rows: int = 0
    # Whether one task stages all rows, so that its first flush may be known to be the last.
    alone: bool = False


def stage_runs(
    batches: Iterable[pa.RecordBatch], spec: WriteSpec, task: TaskId, policy: LogPolicy
) -> Iterator[Staged]:
    """Write `batches` as sorted runs; yield the log files and temporary runs."""
    filled = (batch for batch in batches if batch.num_rows)
    placed = (route_rows(batch, spec) for batch in with_keys(filled, spec, task))
    return stage_routed(placed, spec, task, policy)


def stage_routed(
    rows: Iterable[RoutedRows],
    spec: WriteSpec,
    task: TaskId,
    policy: LogPolicy,
    label: str = "staged",
) -> Iterator[Staged]:
    """Write rows with known locations as sorted runs; `label` distinguishes temporary files."""
    held: list[RoutedRows] = []
    held_bytes = 0
    flushes = 0
    under_way: Future[list[Staged]] | None = None
    with ThreadPoolExecutor(1) as pool:
        for placed in rows:
            if placed.rows.num_rows == 0:
                continue
            held.append(placed)
            held_bytes += placed.rows.nbytes
            if held_bytes >= spec.memory_bytes:
                if under_way is not None:
                    yield from under_way.result()
                under_way = pool.submit(
                    _flush, held, spec, task, flushes, replace(policy, alone=False), label
                )
                held, held_bytes, flushes = [], 0, flushes + 1
        if under_way is not None:
            yield from under_way.result()
        if held:
            policy = replace(policy, alone=policy.alone and flushes == 0)
            yield from _flush(held, spec, task, flushes, policy, label)
    pa.default_memory_pool().release_unused()


def read_segment(storage: Storage, segment: Segment) -> Iterator[pa.RecordBatch]:
    """Yield the batches of one segment, in key order."""
    with (
        storage.open_read(segment.path) as source,
        pa.ipc.open_file(source, options=_READ_OPTIONS) as run,
    ):
        for number in range(segment.first_batch, segment.first_batch + segment.num_batches):
            yield run.get_batch(number)


def spiller(like: Segment, spec: WriteSpec, name: str) -> Callable[[Iterable[pa.RecordBatch]], Run]:
    """Return a function that writes merged batches for the file group of `like` as a temporary run."""
    numbers = count(1)

    def spill(batches: Iterable[pa.RecordBatch]) -> Run:
        path, rows = spill_batches(batches, spec, f"{name}-{next(numbers)}")
        run = replace(like, path=path, first_batch=0, num_batches=len(rows), num_rows=sum(rows))
        return Run(path, read_segment(spec.storage, run))

    return spill


def spill_batches(
    batches: Iterable[pa.RecordBatch], spec: WriteSpec, name: str
) -> tuple[str, list[int]]:
    """Write batches as one new temporary file; return its path and the rows of each batch in it."""
    path = temp_path(spec.instant, name)
    counts: list[int] = []
    writer: pa.ipc.RecordBatchFileWriter | None = None
    with spec.storage.open_write(path, durable=False) as sink:
        for batch in batches:
            if writer is None:
                options = _ipc_options(spec.storage, path)
                writer = pa.ipc.new_file(sink, batch.schema, options=options)
            for piece in _pieces(batch):
                writer.write_batch(piece)
                counts.append(piece.num_rows)
        if writer is None:
            writer = pa.ipc.new_file(sink, run_schema(spec))
        writer.close()
    return path, counts


def _pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Split a batch into pieces of about RUN_BATCH_BYTES."""
    rows = max(MIN_BATCH_ROWS, RUN_BATCH_BYTES * batch.num_rows // max(batch.nbytes, 1))
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)


def _flush(
    held: list[RoutedRows],
    spec: WriteSpec,
    task: TaskId,
    flush: int,
    policy: LogPolicy,
    label: str,
) -> list[Staged]:
    rows = pa.concat_batches([placed.rows for placed in held])
    partitions = pa.concat_arrays([placed.partitions for placed in held]).dictionary_encode()
    slots = pa.concat_arrays([placed.slots for placed in held])
    wait = None if held[0].wait is None else pa.concat_arrays([placed.wait for placed in held])
    held.clear()
    folders = len(partitions.dictionary)
    buckets = spec.locator.staged_buckets(rows.nbytes, folders, alone=policy.alone)
    if buckets is not None:
        slots = pa.array(slots.to_numpy() % buckets)
    groups = list(_file_groups(partitions, slots, wait))
    direct = policy.direct and rows.num_rows >= policy.min_rows * len(groups)
    # The changes of a log are relative to the rows below it: a second log would be missed.
    direct = direct and not spec.logs_changes
    # Copies of ordering columns are compared with the stored ones in the second stage.
    direct = direct and not any(part.supersedes for part in spec.parts)
    if buckets is None and not direct:
        # Only the file groups that are written to need to be found, and only once.
        buckets = spec.locator.assigns_later
    if buckets is None:
        spec.locator.learn(partitions.dictionary.to_pylist())
        groups = [_placed(group, spec) for group in groups]
    existing = set(spec.locator.existing)
    done: list[Staged] = []
    temporary = _TemporaryRun(spec, task, flush, label)
    logs = FlushedLogs(spec, task, flush)
    try:
        with logs:
            for group in groups:
                if direct and group.file_id is not None and group.file_id in existing:
                    logs.write(FileGroupId(group.partition, group.file_id), rows, group.rows)
                else:
                    ordered = _sorted_rows(rows, spec, group.rows)
                    segment = temporary.append(group.partition, group.file_id, ordered)
                    staged = None if buckets is None else StagedBucket(group.slot, buckets)
                    done.append(replace(segment, staged=staged, wait=group.wait))
            done += logs.finish()
    except BaseException:
        temporary.abort()
        raise
    temporary.close()
    return done


def _sorted_rows(rows: pa.RecordBatch, spec: WriteSpec, subset: Positions) -> pa.RecordBatch:
    """Return some rows in key order: one version of each key, or all if their rules differ."""
    first, *others = spec.staged_rules
    if not others:
        return rows.take(pa.array(sort_positions(rows, first, subset)))
    return rows.take(pa.array(sort_versions(rows, subset)))


class _TemporaryRun:
    """The temporary file of one flush, created when the first rows are written to it."""

    def __init__(self, spec: WriteSpec, task: TaskId, flush: int, label: str) -> None:
        self._spec = spec
        self._path = temp_path(spec.instant, f"{label}-{task.write_token}-{flush}")
        self._arrival = (task.partition, flush)
        self._batches = 0
        self._sink: WriteStream | None = None
        self._writer: pa.ipc.RecordBatchFileWriter | None = None

    def append(self, partition: str, file_id: str | None, rows: pa.RecordBatch) -> Segment:
        if self._writer is None:
            storage = self._spec.storage
            self._sink = storage.open_write(self._path, durable=False)
            options = _ipc_options(storage, self._path)
            self._writer = pa.ipc.new_file(self._sink, rows.schema, options=options)
        count = 0
        for piece in _pieces(rows):
            self._writer.write_batch(piece)
            count += 1
        first, self._batches = self._batches, self._batches + count
        deletes = 0
        if FLAGS in rows.schema.names:
            deletes = int(np.count_nonzero(rows.column(FLAGS).to_numpy() & 1))
        return Segment(
            self._path,
            self._arrival,
            partition,
            file_id,
            first,
            count,
            rows.num_rows,
            deletes,
            rows.nbytes,
        )

    def close(self) -> None:
        if self._writer is not None and self._sink is not None:
            self._writer.close()
            self._sink.close()

    def abort(self) -> None:
        if self._sink is not None:
            self._sink.abort()


def _ipc_options(storage: Storage, path: str) -> pa.ipc.IpcWriteOptions:
    """Return the IPC options: compressed on remote storage, uncompressed on local disk."""
    local = storage.local_path(path) is not None
    return pa.ipc.IpcWriteOptions(compression=None if local else "lz4", use_threads=False)


@dataclass(frozen=True, slots=True)
class _Group:
    """Rows, by number in order of arrival, that go to one file group, or wait together."""

    partition: str
    slot: int
    file_id: str | None
    wait: bool
    rows: npt.NDArray[np.int64]


def _placed(group: _Group, spec: WriteSpec) -> _Group:
    """Return the rows of a slot with their file group."""
    if group.file_id is not None:
        return group
    return replace(group, file_id=spec.locator.file_id(group.partition, group.slot))


def _file_groups(
    partitions: pa.DictionaryArray, slots: pa.Array, wait: pa.BooleanArray | None
) -> Iterator[_Group]:
    """Yield the rows of each file group, or of each slot that has no file group yet."""
    looked_up = pa.types.is_string(slots.type)
    names = slots.dictionary_encode(null_encoding="encode") if looked_up else None
    numbers = (slots if names is None else names.indices).to_numpy().astype(np.int64)
    codes = partitions.indices.to_numpy().astype(np.int64)
    waits = None if wait is None else wait.to_numpy(zero_copy_only=False)
    places = codes * (int(numbers.max()) + 1) + numbers
    if waits is not None:
        places = 2 * places + waits
    # numpy sorts 16-bit integers by radix, in a fraction of the time.
    compact = places.astype(np.uint16) if places.max() < 1 << 16 else places
    order = np.argsort(compact, kind="stable")
    ends = np.append(np.flatnonzero(np.diff(places[order])) + 1, order.size)
    start = 0
    for end in ends:
        row = int(order[start])
        partition = partitions.dictionary[int(codes[row])].as_py()
        slot = int(numbers[row])
        file_id = None if names is None else names.dictionary[slot].as_py()
        waiting = waits is not None and bool(waits[row])
        yield _Group(partition, slot, file_id, waiting, order[start:end])
        start = int(end)
