"""The runs that a write adds to secondary indexes: written by tasks, published by the commit."""

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Self
from zlib import crc32

import pyarrow as pa

from lakebed.commit.hold import TableHold
from lakebed.commit.rollback import side_path
from lakebed.format.timeline.commit_metadata import CommitMetadata
from lakebed.index.secondary.definition import parse_definitions
from lakebed.index.secondary.entries import make_keys, sorted_parts, write_entries
from lakebed.index.secondary.manifest import CommitRuns, RunFile, list_runs
from lakebed.index.secondary.new_entries import EntryKind, EntryMaker, NewEntries
from lakebed.merge.arrays import bool_array
from lakebed.merge.run import DELETED, FLAGS
from lakebed.model.executor import TaskId
from lakebed.model.instant import Instant
from lakebed.model.options.table import INDEX_PATH
from lakebed.table.config.table_config import TableConfig
from lakebed.table.files.file_group import FileGroupId
from lakebed.write.spec.status import WriteStatus
from lakebed.write.spec.write_spec import WriteSpec

# Up to this many bytes are sorted and written by one thread.
_THREADS_BYTES = 1 << 20
# When a task holds more bytes of entries than this, they are sorted and written while rows arrive.
_RUN_BYTES = 64 << 20
# When the driver holds more bytes of entries than this, it writes them.
_DRIVER_BYTES = 64 << 20
# The driver sorts at most this many bytes at once: a batch of binary keys cannot exceed 2 GiB.
_SORT_BYTES = 256 << 20

_Place = tuple[str, EntryKind]
"""The folder of an index, and the kind of entries."""


class TaskEntries:
    """Collects the entries of the rows that a task writes, in threads while the task continues.

    A task collects the entries of several file groups together: the fewer runs a commit writes,
    the fewer a query opens. As a context manager it waits for the threads, so that a task that
    failed writes nothing later.
    """

    def __init__(self, spec: WriteSpec, group: FileGroupId, task: TaskId, version: int = 0) -> None:
        self._spec = spec
        place = f"{crc32(group.partition.encode()):08x}-{group.file_id}"
        self._name = f"{place}-{task.write_token}-{version}"
        makers = spec.indexes.makers(spec.schema, spec.rule, is_partial=spec.is_partial)
        self._indexes = [
            _OneIndex(spec, maker, self._name, _RUN_BYTES // len(makers)) for maker in makers
        ]
        self._pool: ThreadPoolExecutor | None = None
        self._under_way: list[Future[None]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None

    def take(self, rows: pa.RecordBatch, partition: str, *, is_merged: bool = False) -> None:
        """Collect the entries of rows of a partition, deletes included."""
        if not self._indexes or not rows.num_rows:
            return
        keyed = partial(_keyed, rows, partition)
        if rows.nbytes <= _THREADS_BYTES:
            self._wait()
            found = keyed()
            for index in self._indexes:
                index.take(found, is_merged=is_merged)
            return
        # The batches of an index are taken in turn, and at most one waits.
        self._wait()
        shared = self._threads().submit(keyed)
        self._under_way = [
            self._threads().submit(_take_later, index, shared, is_merged) for index in self._indexes
        ]

    def _threads(self) -> ThreadPoolExecutor:
        if self._pool is None:
            threads = min(len(self._indexes), os.cpu_count() or 1)
            self._pool = ThreadPoolExecutor(threads, thread_name_prefix="lakebed-index")
        return self._pool

    def _wait(self) -> None:
        under_way, self._under_way = self._under_way, []
        for one in under_way:
            one.result()

    def finish(self) -> tuple[NewEntries, ...]:
        """Return the entries: in memory if there are few, otherwise as the runs that hold them."""
        self._wait()
        if sum(index.bytes for index in self._indexes) > self._spec.indexes.max_bytes:
            list(self._threads().map(_OneIndex.write_held, self._indexes))
        self.__exit__()
        return tuple(entries for index in self._indexes for entries in index.result())


@dataclass(frozen=True, slots=True)
class _Keyed:
    """Rows and deletes, each with their entries without values."""

    live: pa.RecordBatch
    live_keys: pa.RecordBatch
    gone_keys: pa.RecordBatch | None


def _keyed(rows: pa.RecordBatch, partition: str) -> _Keyed:
    live, gone = split_deletes(rows)
    gone_keys = make_keys(gone, partition) if gone.num_rows else None
    return _Keyed(live, make_keys(live, partition), gone_keys)


def _take_later(index: "_OneIndex", rows: Future[_Keyed], is_merged: bool) -> None:
    index.take(rows.result(), is_merged=is_merged)


class _OneIndex:
    """The entries that a task makes for one index."""

    def __init__(self, spec: WriteSpec, maker: EntryMaker, name: str, max_bytes: int) -> None:
        self._spec = spec
        self._maker = maker
        self._name = name
        self._max_bytes = max_bytes
        self._held: dict[EntryKind, list[pa.RecordBatch]] = defaultdict(list)
        self._written: dict[EntryKind, list[RunFile]] = defaultdict(list)
        self.bytes = 0

    def take(self, rows: _Keyed, *, is_merged: bool) -> None:
        if rows.gone_keys is not None:
            leaves = self._spec.indexes.deletes_leave_rows
            self._add(EntryKind.OPEN if leaves else EntryKind.DELETED, rows.gone_keys)
        if rows.live.num_rows:
            for kind, entries in self._maker.make(rows.live_keys, rows.live, is_merged=is_merged):
                self._add(kind, entries)
        if self.bytes > self._max_bytes:
            self.write_held()

    def _add(self, kind: EntryKind, entries: pa.RecordBatch) -> None:
        if entries.num_rows:
            self._held[kind].append(entries)
            self.bytes += entries.nbytes

    def write_held(self) -> None:
        for kind, held in self._held.items():
            number = len(self._written[kind])
            name = f"{self._name}-{number}-{kind}.parquet"
            path = run_path(self._spec.config, self._maker.folder, self._spec.instant, name)
            self._spec.fence.check()
            self._written[kind].append(
                write_entries(self._spec.storage, path, sorted_parts(held), compress=False)
            )
            self._spec.fence.check_written([path])
        self._held.clear()
        self.bytes = 0

    def result(self) -> Iterator[NewEntries]:
        folder = self._maker.folder
        for kind, held in self._held.items():
            # The driver sorts the entries of all tasks together.
            yield NewEntries(folder, kind, rows=pa.concat_batches(held))
        for kind, runs in self._written.items():
            yield NewEntries(folder, kind, runs=tuple(runs))


class IndexParticipant:
    """Publishes the entries of a write with its commit, as one run of each index and kind.

    Tasks return a few entries each, but there may be very many tasks: when the entries exceed
    `max_bytes`, they are written as runs, so the memory of the driver does not depend on the number
    of file groups.
    """

    def __init__(self, spec: WriteSpec, max_bytes: int = _DRIVER_BYTES) -> None:
        self._spec = spec
        self._max_bytes = max_bytes
        self.held_bytes = 0
        self._held: dict[_Place, list[pa.RecordBatch]] = defaultdict(list)
        self._runs: dict[_Place, list[RunFile]] = defaultdict(list)
        self._counts: dict[_Place, int] = defaultdict(int)

    def take(self, status: WriteStatus) -> WriteStatus:
        """Collect the entries of a task; return its status without them."""
        for entries in status.entries:
            place = entries.folder, entries.kind
            self._runs[place] += entries.runs
            if entries.rows is not None:
                self._held[place].append(entries.rows)
                self.held_bytes += entries.rows.nbytes
        if self.held_bytes > self._max_bytes:
            self._spec.fence.check()
            self._write_held(list(self._held))
        return replace(status, entries=()) if status.entries else status

    def prepare(
        self, hold: TableHold, instant: Instant, metadata: CommitMetadata
    ) -> Mapping[str, str]:
        """Write the remaining entries; return the extra metadata by which the commit lists all runs."""
        del metadata
        known = {one.id for one in parse_definitions(hold.config.properties)}
        # An unknown index was dropped meanwhile.
        folders = [one.folder for one in self._spec.indexes.indexes if one.id in known]
        if not folders:
            return {}
        by_tasks = {folder for (folder, _), runs in self._runs.items() if runs}
        self._write_held([place for place in self._held if place[0] in folders])
        listed: dict[str, CommitRuns] = {}
        for folder in folders:
            of = {str(kind): tuple(self._runs[folder, kind]) for kind in EntryKind}
            listed[folder] = CommitRuns(**of)
            if folder in by_tasks:
                self._delete_unlisted(instant, folder, listed[folder])
        return list_runs(listed)

    def _write_held(self, places: Sequence[_Place]) -> None:
        if self.held_bytes <= _THREADS_BYTES:
            written = [self._write(place) for place in places]
        else:
            with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
                written = list(pool.map(self._write, places))
        for place, runs in zip(places, written, strict=True):
            self._runs[place] += runs
            self._counts[place] += len(runs)
        self._held.clear()
        self.held_bytes = 0

    def _write(self, place: _Place) -> list[RunFile]:
        folder, kind = place
        spec, runs = self._spec, list[RunFile]()
        for number, part in enumerate(
            split_batches(self._held[place], _SORT_BYTES), self._counts[place]
        ):
            name = f"{number}-{kind}.parquet" if number else f"{kind}.parquet"
            path = run_path(spec.config, folder, spec.instant, name)
            runs.append(write_entries(spec.storage, path, sorted_parts(part), compress=False))
        return runs

    def _delete_unlisted(self, instant: Instant, folder: str, listed: CommitRuns) -> None:
        """Delete the runs of task attempts that failed or ran twice."""
        kept = {run.path for run in listed.files}
        prefix = run_path(self._spec.config, folder, instant, "")
        for name in self._spec.storage.names(prefix.rpartition("/")[0]):
            path = f"{prefix.rpartition('/')[0]}/{name}"
            if path.startswith(prefix) and path not in kept:
                self._spec.storage.delete(path)

    def publish(self, hold: TableHold, instant: Instant, completion: Instant) -> None:
        """Do nothing: the commit itself lists the runs."""


def run_path(config: TableConfig, folder: str, instant: str, name: str) -> str:
    """Return the path of a run that an instant writes for an index."""
    return side_path(f"{INDEX_PATH.value(config.properties)}/{folder}", instant, name)


def split_batches(
    batches: Iterable[pa.RecordBatch], max_bytes: int
) -> Iterator[list[pa.RecordBatch]]:
    """Yield lists of consecutive batches, each list of at most `max_bytes` or one batch."""
    held: list[pa.RecordBatch] = []
    for batch in batches:
        if held and sum(one.nbytes for one in held) + batch.nbytes > max_bytes:
            yield held
            held = []
        held.append(batch)
    if held:
        yield held


def split_deletes(rows: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """Return the rows that are not deletes, and the deletes."""
    if FLAGS not in rows.schema.names:
        return rows, rows.slice(0, 0)
    gone = rows.column(FLAGS).to_numpy() & DELETED != 0
    if not gone.any():
        return rows, rows.slice(0, 0)
    return rows.filter(bool_array(~gone)), rows.filter(bool_array(gone))
