"""First stage of a base-file write: sorted temporary runs, one file per flush.

A task takes its batches as they come, without a shuffle, and writes them as runs
sorted by file group and key when its memory budget is full. The second stage merges the
runs of each file group. A temporary file is Arrow IPC below `.hoodie/.temp`,
where no reader looks; each file group is a range of its batches.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakebed.commit.rollback import temp_path
from lakebed.format.meta_columns import RECORD_KEY
from lakebed.merge.order import sort_positions
from lakebed.merge.window import Run
from lakebed.model.executor import TaskId
from lakebed.storage.storage import Storage
from lakebed.write.rows import PlacedRows, place_rows
from lakebed.write.spec import WriteSpec

# One batch of every run is in memory during the merge, so batches are small by bytes.
RUN_BATCH_BYTES = 1 << 20
MIN_BATCH_ROWS = 256


@dataclass(frozen=True, slots=True)
class Segment:
    """The rows of one file group in one temporary run: a range of its batches.

    `arrival` orders the runs of a write: the task's number, then its flushes.
    """

    path: str
    arrival: tuple[int, int]
    partition: str
    bucket: int
    first_batch: int
    num_batches: int
    num_rows: int


def stage_runs(
    batches: Iterable[pa.RecordBatch], spec: WriteSpec, task: TaskId
) -> Iterator[Segment]:
    """Write `batches` as sorted temporary runs; yield where each file group's rows are."""
    held: list[PlacedRows] = []
    held_bytes = 0
    flushes = 0
    for batch in batches:
        if batch.num_rows == 0:
            continue
        placed = place_rows(batch, spec)
        held.append(placed)
        held_bytes += placed.rows.nbytes
        if held_bytes >= spec.memory_bytes:
            yield from _flush(held, spec, task, flushes)
            held, held_bytes, flushes = [], 0, flushes + 1
    if held:
        yield from _flush(held, spec, task, flushes)
    pa.default_memory_pool().release_unused()


def read_segment(storage: Storage, segment: Segment) -> Iterator[pa.RecordBatch]:
    """Yield the batches of one segment, in key order."""
    with storage.open_read(segment.path) as source, pa.ipc.open_file(source) as run:
        for number in range(segment.first_batch, segment.first_batch + segment.num_batches):
            yield run.get_batch(number)


def spill_run(batches: Iterable[pa.RecordBatch], like: Segment, spec: WriteSpec, name: str) -> Run:
    """Write merged batches of the file group of `like` as one new temporary run."""
    path = temp_path(spec.instant, name)
    count = rows = 0
    schema = _run_schema(spec)
    with (
        spec.storage.open_write(path, durable=False) as sink,
        pa.ipc.new_file(sink, schema, options=_ipc_options(spec.storage, path)) as run,
    ):
        for batch in batches:
            for piece in _pieces(batch):
                run.write_batch(piece)
                count += 1
            rows += batch.num_rows
    segment = replace(like, path=path, first_batch=0, num_batches=count, num_rows=rows)
    return Run(path, read_segment(spec.storage, segment))


def _pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Cut a batch into pieces of about RUN_BATCH_BYTES."""
    rows = max(MIN_BATCH_ROWS, RUN_BATCH_BYTES * batch.num_rows // max(batch.nbytes, 1))
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)


def _flush(held: list[PlacedRows], spec: WriteSpec, task: TaskId, flush: int) -> Iterator[Segment]:
    rows = pa.concat_batches([placed.rows for placed in held])
    partitions = pa.concat_arrays([placed.partitions for placed in held]).dictionary_encode()
    buckets = np.concatenate([placed.buckets for placed in held])
    held.clear()
    path = temp_path(spec.instant, f"{task.write_token}-{flush}")
    arrival = (task.partition, flush)
    written = 0
    segments = []
    with (
        spec.storage.open_write(path, durable=False) as sink,
        pa.ipc.new_file(sink, _run_schema(spec), options=_ipc_options(spec.storage, path)) as run,
    ):
        for partition, bucket, subset in _file_groups(partitions, buckets):
            ordered = rows.take(pa.array(sort_positions(rows, spec.rule, subset)))
            count = 0
            for piece in _pieces(ordered):
                run.write_batch(piece)
                count += 1
            segments.append(
                Segment(path, arrival, partition, bucket, written, count, ordered.num_rows)
            )
            written += count
    yield from segments


def _run_schema(spec: WriteSpec) -> pa.Schema:
    return pa.schema([pa.field(RECORD_KEY, pa.string()), *spec.schema])


def _ipc_options(storage: Storage, path: str) -> pa.ipc.IpcWriteOptions:
    """Compress what crosses a network; on local disk it costs more than it saves."""
    local = storage.local_path(path) is not None
    return pa.ipc.IpcWriteOptions(compression=None if local else "lz4")


def _file_groups(
    partitions: pa.DictionaryArray, buckets: npt.NDArray[np.int32]
) -> Iterator[tuple[str, int, npt.NDArray[np.int64]]]:
    """Yield each file group with its row numbers in order of arrival."""
    codes = partitions.indices.to_numpy().astype(np.int64)
    places = codes * (int(buckets.max()) + 1) + buckets
    # numpy sorts 16-bit integers by radix, in a fraction of the time.
    compact = places.astype(np.uint16) if places.max() < 1 << 16 else places
    order = np.argsort(compact, kind="stable")
    ends = np.append(np.flatnonzero(np.diff(places[order])) + 1, order.size)
    start = 0
    for end in ends:
        row = int(order[start])
        yield partitions.dictionary[int(codes[row])].as_py(), int(buckets[row]), order[start:end]
        start = int(end)
