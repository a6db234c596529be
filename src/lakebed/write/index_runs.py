"""The runs that a write adds to secondary indexes: written by tasks, published by the commit."""

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from zlib import crc32

import pyarrow as pa

from lakebed.commit.hold import TableHold
from lakebed.commit.rollback import side_path
from lakebed.format.timeline.commit_metadata import CommitMetadata
from lakebed.index.secondary.definition import parse_definitions
from lakebed.index.secondary.entries import make_keys, sort_entries, write_entries
from lakebed.index.secondary.manifest import CommitRuns, RunFile, list_runs
from lakebed.index.secondary.new_entries import EntryKind, NewEntries
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
_RUN_BYTES = 32 << 20
# The driver sorts at most this many bytes at once: a batch of binary keys cannot exceed 2 GiB.
_SORT_BYTES = 256 << 20


class TaskEntries:
    """Collects the entries of the rows that a task writes to one file group."""

    def __init__(self, spec: WriteSpec, group: FileGroupId, task: TaskId, version: int = 0) -> None:
        self._spec = spec
        self._partition = group.partition
        place = f"{crc32(group.partition.encode()):08x}-{group.file_id}"
        self._name = f"{place}-{task.write_token}-{version}"
        self._makers = spec.indexes.makers(spec.schema, spec.rule, is_partial=spec.is_partial)
        self._held: dict[tuple[str, EntryKind], list[pa.RecordBatch]] = defaultdict(list)
        self._bytes = 0
        self._written: dict[tuple[str, EntryKind], list[RunFile]] = defaultdict(list)
        self._pool: ThreadPoolExecutor | None = None
        self._under_way: Future[None] | None = None

    def watch(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the batches of a log unchanged, and collect the entries of their rows."""
        for batch in batches:
            self.take(batch)
            yield batch

    def take(self, rows: pa.RecordBatch, *, is_merged: bool = False) -> None:
        """Collect the entries of rows, deletes included, in a thread while the caller continues."""
        if not self._makers or not rows.num_rows:
            return
        self._wait()
        if rows.nbytes <= _THREADS_BYTES:
            self._take(rows, is_merged)
            return
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1, thread_name_prefix="lakebed-index")
        self._under_way = self._pool.submit(self._take, rows, is_merged)

    def _wait(self) -> None:
        if self._under_way is not None:
            self._under_way.result()
            self._under_way = None

    def _take(self, rows: pa.RecordBatch, is_merged: bool) -> None:
        live, gone = split_deletes(rows)
        if gone.num_rows:
            keys = make_keys(gone, self._partition)
            leaves = self._spec.indexes.deletes_leave_rows
            kind = EntryKind.OPEN if leaves else EntryKind.DELETED
            for maker in self._makers:
                self._add(maker.folder, kind, keys)
        if live.num_rows:
            keys = make_keys(live, self._partition)
            for maker in self._makers:
                for kind, entries in maker.make(keys, live, is_merged=is_merged):
                    self._add(maker.folder, kind, entries)
        if self._bytes > _RUN_BYTES:
            self._write_held()

    def _add(self, folder: str, kind: EntryKind, entries: pa.RecordBatch) -> None:
        if entries.num_rows:
            # Concatenated ascending runs are sorted in a fraction of the time.
            self._held[folder, kind].append(sort_entries([entries]))
            self._bytes += entries.nbytes

    def _write_held(self) -> None:
        for place, held in self._held.items():
            folder, kind = place
            number = len(self._written[place])
            name = f"{self._name}-{number}-{kind}.parquet"
            path = run_path(self._spec.config, folder, self._spec.instant, name)
            self._spec.fence.check()
            self._written[place].append(
                write_entries(self._spec.storage, path, [sort_entries(held)], compress=False)
            )
            self._spec.fence.check_written([path])
        self._held.clear()
        self._bytes = 0

    def finish(self) -> tuple[NewEntries, ...]:
        """Return the entries: in memory if there are few, otherwise as the runs that hold them."""
        self._wait()
        if self._pool is not None:
            self._pool.shutdown()
        if self._bytes > self._spec.indexes.max_bytes:
            self._write_held()
        # The driver sorts the entries of all tasks together.
        rows = (
            NewEntries(*place, rows=pa.concat_batches(held)) for place, held in self._held.items()
        )
        runs = (NewEntries(*place, runs=tuple(of)) for place, of in self._written.items() if of)
        return (*rows, *runs)


class IndexParticipant:
    """Publishes the entries of a write with its commit, as one run of each index and kind."""

    def __init__(self, spec: WriteSpec, written: Sequence[WriteStatus]) -> None:
        self._spec = spec
        self._written = written

    def prepare(
        self, hold: TableHold, instant: Instant, metadata: CommitMetadata
    ) -> Mapping[str, str]:
        """Write the runs; return the extra metadata by which the commit lists them."""
        del metadata
        held: dict[tuple[str, EntryKind], list[NewEntries]] = defaultdict(list)
        for status in self._written:
            for entries in status.entries:
                held[entries.folder, entries.kind].append(entries)
        known = {one.id for one in parse_definitions(hold.config.properties)}
        # An unknown index was dropped meanwhile.
        folders = [one.folder for one in self._spec.indexes.indexes if one.id in known]
        if not folders:
            return {}
        size = sum(e.rows.nbytes for of in held.values() for e in of if e.rows is not None)
        if size <= _THREADS_BYTES:
            return list_runs({folder: self._write(instant, folder, held) for folder in folders})
        with ThreadPoolExecutor(min(len(folders), os.cpu_count() or 1)) as pool:
            runs = pool.map(lambda folder: self._write(instant, folder, held), folders)
            return list_runs(dict(zip(folders, runs, strict=True)))

    def _write(
        self,
        instant: Instant,
        folder: str,
        held: Mapping[tuple[str, EntryKind], Sequence[NewEntries]],
    ) -> CommitRuns:
        storage, config = self._spec.storage, self._spec.config
        runs: dict[EntryKind, tuple[RunFile, ...]] = {}
        for kind in EntryKind:
            of = held.get((folder, kind), ())
            listed = [run for entries in of for run in entries.runs]
            rows = [entries.rows for entries in of if entries.rows is not None]
            for number, part in enumerate(split_batches(rows, _SORT_BYTES)):
                name = f"{number}-{kind}.parquet" if number else f"{kind}.parquet"
                path = run_path(config, folder, instant, name)
                run = write_entries(storage, path, [sort_entries(part)], compress=False)
                listed.append(run)
            runs[kind] = tuple(listed)
        found = CommitRuns(**{str(kind): of for kind, of in runs.items()})
        if any(
            entries.runs for (place, _), of in held.items() if place == folder for entries in of
        ):
            self._delete_unlisted(instant, folder, found)
        return found

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
    return rows.filter(pa.array(~gone)), rows.filter(pa.array(gone))
