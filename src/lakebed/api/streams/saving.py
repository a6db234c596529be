"""The writer of a stream: its batches planned, staged by tasks and committed once."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from lakebed.api.saving import Saving, StagedRows, begin_saving
from lakebed.commit.stream_batches import StreamBatch
from lakebed.errors import InvalidError, LakebedError, UnsupportedError
from lakebed.model.executor import TaskId
from lakebed.model.options.data_source import OPERATION, STREAM_CHECKPOINT, STREAM_ID
from lakebed.model.options.save import SaveOptions
from lakebed.model.options.stream import StreamWriteOptions
from lakebed.storage.open import open_storage
from lakebed.write.spec.commit_summary import Commit


@dataclass(frozen=True, slots=True)
class BatchSaving:
    """The planned write of one batch; pickled to the tasks and to the process that commits."""

    saving: Saving
    stream: str
    writer: str

    def stage(self, batches: Iterable[pa.RecordBatch], task: TaskId) -> StagedRows:
        """Stage the rows of one task."""
        return self.saving.stage(batches, task)

    def finish_batch(self, staged: Iterable[StagedRows], number: int) -> Commit | None:
        """Commit the staged rows; return None if there are none, or if they were committed before."""
        return self.saving.finish(staged, StreamBatch(self.stream, number, self.writer))

    def give_up(self) -> None:
        """Delete the staged files."""
        self.saving.give_up()


@dataclass(frozen=True, slots=True)
class StreamSave:
    """A stream of rows with the columns `incoming` into the table that the options name."""

    options: Mapping[str, str]
    incoming: pa.Schema

    def plan(self) -> BatchSaving:
        """Plan the write of a batch; create the table if it does not exist."""
        given = StreamWriteOptions.parse(self.options)
        save, _ = SaveOptions.parse(self.options)
        if save.operation == "delete_partition":
            raise UnsupportedError(
                f"option {OPERATION.name}=delete_partition: not for a stream; call "
                "delete_partitions in a foreachBatch function"
            )
        stream = given.stream_id or _query_id(given.checkpoint, save.storage_options)
        # The hash is part of the names of staged files, which a restarted query finds by it.
        owner = hashlib.sha256(stream.encode()).hexdigest()[:16]
        saving = begin_saving(self.options, self.incoming, overwrite=False, owner=owner)
        return BatchSaving(saving, stream, given.writer)


def _query_id(checkpoint: str, storage_options: Mapping[str, str] | None) -> str:
    """Return the id of a query, from the metadata of its checkpoint."""
    advice = (
        f"set option {STREAM_ID.name} to a name of the query, and to another one with each new "
        "checkpoint"
    )
    if not checkpoint:
        raise InvalidError(
            "a stream into a lakebed table needs option checkpointLocation: after a restart, the "
            f"query is recognized by its checkpoint. Set it with the query; or {advice}"
        )
    try:
        storage = open_storage(checkpoint, storage_options)
    except LakebedError:
        storage = None
    try:
        storage = storage or open_storage(checkpoint)
        found = json.loads(storage.read("metadata").splitlines()[0])["id"]
    except (LakebedError, ValueError, KeyError, TypeError, IndexError) as error:
        raise InvalidError(
            f"option {STREAM_CHECKPOINT.name}={checkpoint}: cannot read the id of the query from "
            f"{checkpoint}/metadata ({error}); use an absolute path, or {advice}"
        ) from error
    return str(found)
