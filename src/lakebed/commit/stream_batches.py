"""The batches of streams in the commits of a table: each is committed once.

A commit of a stream records the stream and the number of the batch in its extra metadata, so the
record and the rows become visible together. After a restart, Spark repeats the last batch if it
does not know its outcome; the newest record of the stream shows whether it was committed, even if
the commit has been archived.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Self

from lakebed.errors import ConflictError, CorruptError, InvalidError
from lakebed.format.timeline.commit_metadata import CommitMetadata
from lakebed.table.snapshot import Snapshot
from lakebed.timeline.archived import merge_rows, read_manifest
from lakebed.timeline.timeline import COMMIT_ACTIONS, TimelineInstant

STREAM_KEY: Final = "lakebed.stream"
"""The key of our record: `{"id": <the stream>, "batch": <number>}`."""
HUDI_KEY: Final = "_hudi_streaming_sink_checkpoint"
"""The key of the record of Hudi's streaming sink: `{<name of the writer>: "<number>"}`."""
DEFAULT_WRITER: Final = "default_single_writer"


class EmptyBatchError(Exception):
    """Ends the write of a batch without rows; nothing is committed."""


@dataclass(frozen=True, slots=True)
class StreamBatch:
    """A batch of a stream; `writer` is the name under which Hudi's sink looks for it."""

    stream: str
    number: int
    writer: str = DEFAULT_WRITER

    def __str__(self) -> str:
        """Return a phrase for messages."""
        return f"batch {self.number} of stream {self.stream!r}"

    def metadata(self) -> dict[str, str]:
        """Return the entries for the extra metadata of the commit."""
        return {
            STREAM_KEY: json.dumps({"id": self.stream, "batch": self.number}),
            HUDI_KEY: json.dumps({self.writer: str(self.number)}),
        }

    @classmethod
    def of(cls, extra: Mapping[str, str] | None) -> Self | None:
        """Return the batch that a commit records; None if it records none."""
        text = (extra or {}).get(STREAM_KEY)
        if text is None:
            return None
        try:
            held = json.loads(text)
            return cls(str(held["id"]), int(held["batch"]))
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptError(
                f'commit metadata {STREAM_KEY}={text!r}: expected {{"id": ..., "batch": ...}}'
            ) from error


def is_committed(snapshot: Snapshot, batch: StreamBatch) -> bool:
    """Return whether a batch was committed.

    Raises InvalidError if a later batch of the stream was committed: Spark repeats only its last
    batch, so the rows of this one are not those that were committed under its number.
    """
    last = last_batch(snapshot, batch.stream)
    if last is None or last < batch.number:
        return False
    if last == batch.number:
        return True
    raise InvalidError(
        f"{snapshot.storage.url}: found {batch}, expected a batch after {last}, which the table has "
        "committed: the checkpoint of the query was deleted or replaced by an older one. If these "
        "rows are to be written, start the query with a new checkpoint and a new lakebed.stream.id"
    )


def check_not_committed(snapshot: Snapshot, batch: StreamBatch | None) -> None:
    """Raise ConflictError if another process has committed the batch, if there is one."""
    if batch is not None and is_committed(snapshot, batch):
        raise _repeated(snapshot, batch)


def check_none_of(
    snapshot: Snapshot, commits: Iterable[TimelineInstant], batch: StreamBatch | None
) -> None:
    """Raise ConflictError if one of `commits` is of the same stream and batch, or a later one."""
    for commit in commits if batch is not None else ():
        found = StreamBatch.of(snapshot.commits.read(commit).extra_metadata)
        if found and batch and found.stream == batch.stream and found.number >= batch.number:
            raise _repeated(snapshot, batch)


def last_batch(snapshot: Snapshot, stream: str) -> int | None:
    """Return the number of the last batch of a stream that was committed; None if there is none."""
    for commit in sorted(snapshot.timeline.commits, key=_completion, reverse=True):
        found = StreamBatch.of(snapshot.commits.read(commit).extra_metadata)
        if found is not None and found.stream == stream:
            return found.number
    return max(_archived(snapshot, stream), default=None)


def _completion(commit: TimelineInstant) -> str:
    return commit.completion or ""


def _archived(snapshot: Snapshot, stream: str) -> Iterator[int]:
    """Yield the batches of a stream in the newest archived files that have one."""
    storage, folder = snapshot.storage, snapshot.config.history_path
    newest = ""
    for file in sorted(read_manifest(storage, folder), key=lambda one: one.last, reverse=True):
        if file.last < newest:
            return
        for row in merge_rows(storage, [file], ("metadata",)):
            if row.action not in COMMIT_ACTIONS or row.metadata is None:
                continue
            what = f"archived {row.action} {row.requested}"
            found = StreamBatch.of(CommitMetadata.parse(row.metadata, what).extra_metadata)
            if found is not None and found.stream == stream:
                newest = max(newest, row.requested)
                yield found.number


def _repeated(snapshot: Snapshot, batch: StreamBatch) -> ConflictError:
    return ConflictError(f"{snapshot.storage.url}: another process has committed {batch}")
