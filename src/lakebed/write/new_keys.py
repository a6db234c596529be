"""The keys that a write adds to file groups, for the record index."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.commit.hold import TableHold
from lakebed.commit.rollback import side_path
from lakebed.format.names.meta_columns import COMMIT_TIME, RECORD_KEY
from lakebed.format.timeline.commit_metadata import CommitMetadata
from lakebed.index.record.entries import (
    ENTRIES_SCHEMA,
    entries_writer,
    join_entries,
    make_entries,
    write_entries,
)
from lakebed.index.record.state import RECORD_INDEX, RECORD_INDEX_FOLDER, list_entries
from lakebed.index.secondary.manifest import Manifest, RunFile, put_manifest
from lakebed.model.executor import TaskId
from lakebed.model.instant import Instant
from lakebed.table.store.run_writer import RunWriter
from lakebed.write.plan import FileGroupWrite
from lakebed.write.spec.status import NewKeys, WriteStatus

# The keys of a task up to this size are returned to the driver.
_MAX_RETURNED_BYTES = 1 << 20


class NewKeysWriter:
    """Collects the keys of a base file's new rows; if there are many, they are written as a run.

    Does nothing if the table's index does not record keys, or if the write adds no keys.
    """

    def __init__(self, write: FileGroupWrite, task: TaskId) -> None:
        spec = write.spec
        self._active = spec.index.records_keys and write.adds_keys
        self._storage = spec.storage
        name = f"{task.write_token}-{write.number}.parquet"
        self._path = side_path(RECORD_INDEX, spec.instant, name)
        self._group = write.group
        self._held: list[pa.RecordBatch] = []
        self._held_bytes = 0
        self._run: RunWriter | None = None
        self._written: RunFile | None = None

    def put(self, rows: pa.RecordBatch) -> None:
        """Add the keys of new rows, in key order; rows of earlier commits are left out."""
        if not self._active:
            return
        if COMMIT_TIME in rows.schema.names:
            rows = rows.filter(pc.is_null(rows.column(COMMIT_TIME)))
        if not rows.num_rows:
            return
        entries = make_entries(rows.column(RECORD_KEY), self._group)
        if self._run is not None:
            self._run.write(entries)
            return
        self._held.append(entries)
        self._held_bytes += entries.nbytes
        if self._held_bytes > _MAX_RETURNED_BYTES:
            self._run = entries_writer(self._storage, self._path)
            for batch in self._held:
                self._run.write(batch)
            self._held = []

    def close(self) -> Mapping[str, int]:
        """Publish the run, if there is one; return its path and size."""
        if self._run is None:
            return {}
        self._written = RunFile(self._path, self._run.rows, self._run.close())
        return {self._path: self._written.size_bytes}

    def result(self) -> NewKeys | None:
        """Return the keys, or the run that holds them, for the driver; None if no key was added."""
        if self._written is not None:
            return NewKeys(self._written)
        if not self._held:
            return None
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, ENTRIES_SCHEMA) as stream:
            for batch in self._held:
                stream.write_batch(batch)
        return NewKeys(None, sink.getvalue().to_pybytes())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._run is not None:
            self._run.abort()  # no effect after `close`


@dataclass(frozen=True, slots=True)
class RecordIndexEntries:
    """Adds to a commit the runs of the record index for the keys that its tasks added."""

    written: Sequence[WriteStatus]

    def prepare(
        self, hold: TableHold, instant: Instant, metadata: CommitMetadata
    ) -> Mapping[str, str]:
        """Write the entries returned by tasks as one run; return the metadata that lists all runs."""
        del metadata
        if not hold.timeline.commits and not hold.snapshot.slices:
            # The first commit of a table also creates the index, which covers the table from then
            # on.
            put_manifest(
                hold.storage,
                RECORD_INDEX_FOLDER,
                replace(Manifest.at(hold.timeline), is_complete=True),
            )
        added = [status.new_keys for status in self.written if status.new_keys is not None]
        runs = [keys.run for keys in added if keys.run is not None]
        entries = join_entries(batch for keys in added for batch in _batches(keys))
        if entries.num_rows:
            path = side_path(RECORD_INDEX, instant, "keys.parquet")
            runs.append(write_entries(hold.storage, path, entries.to_batches()))
        return list_entries(tuple(runs))

    def publish(self, hold: TableHold, instant: Instant, completion: Instant) -> None:
        """Do nothing: the commit lists its runs."""


def _batches(keys: NewKeys) -> Iterator[pa.RecordBatch]:
    if keys.batches:
        with pa.ipc.open_stream(keys.batches) as stream:
            yield from stream
