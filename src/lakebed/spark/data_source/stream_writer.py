"""The stream into a table: `df.writeStream.format("lakebed")`.

For each micro-batch, Spark makes a writer, pickles it to the tasks, and makes another writer, in
another process, to commit. So the tasks' messages carry the plan of the write.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from lakebed.errors import LakebedError, UnavailableError, UnsupportedError
from lakebed.model.executor import TaskId
from lakebed.spark.errors import pack_error, plainly, unpack_error
from lakebed.spark.executor import task_id


class BatchSave(Protocol):
    """A planned write of one batch."""

    def stage(self, batches: Iterable[pa.RecordBatch], task: TaskId) -> Any:
        """Stage the rows of one task."""
        ...

    def give_up(self) -> None:
        """Delete the rows that the tasks staged."""
        ...

    def finish_batch(self, staged: Iterable[Any], number: int) -> object:
        """Write the rows that the tasks staged, once."""
        ...


class StreamSave(Protocol):
    """A stream into a table, implemented by `lakebed.api.streams.saving`, which is above this layer."""

    def plan(self) -> BatchSave:
        """Plan the write of a batch; create the table if it does not exist."""
        ...


@dataclass
class StagedBatch(WriterCommitMessage):
    """The result of one task, or the error that it raised, and the plan of the write."""

    save: BatchSave
    rows: Any = None
    failure: bytes | None = None


def make_stream_writer(stream: StreamSave, *, overwrite: bool) -> "StreamWriter":
    """Return the writer of one micro-batch."""
    if overwrite:
        raise UnsupportedError(
            'format lakebed cannot write a stream in outputMode("complete"): use "append", or '
            'lakebed.foreach_batch(path, mode="insert_overwrite_table")'
        )
    return StreamWriter(stream)


class StreamWriter(DataSourceStreamArrowWriter):
    """Stages the rows of a micro-batch in tasks, and commits them once."""

    def __init__(self, stream: StreamSave) -> None:
        self._stream = stream
        self._save: BatchSave | None = None

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedBatch:
        """Stage the rows of one task.

        A Lakebed error is returned as a value: if it were raised, Spark would retry the task and
        get the same error.
        """
        assert self._save is not None, "planned before it was pickled"
        try:
            return StagedBatch(self._save, self._save.stage(iterator, task_id()))
        except UnavailableError:
            raise
        except LakebedError as error:
            return StagedBatch(self._save, failure=pack_error(error))

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Write the staged rows unless an earlier attempt has; Spark calls `abort` if this fails."""
        with plainly():
            staged = _staged(messages)
            for message in staged:
                if message.failure is not None:
                    raise unpack_error(message.failure)
            if len(staged) != len(messages):
                raise UnavailableError(
                    f"expected the staged rows of {len(messages)} tasks, found {len(staged)}; start "
                    "the query again"
                )
            if staged:
                staged[0].save.finish_batch((message.rows for message in staged), batchId)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Delete the staged rows; if no task has returned, the next attempt does."""
        del batchId
        for message in _staged(messages)[:1]:
            message.save.give_up()

    def __getstate__(self) -> dict[str, object]:
        """Plan the write: only the writer that Spark pickles to the tasks stages rows."""
        with plainly():
            self._save = self._save or self._stream.plan()
        return {"_stream": None, "_save": self._save}


def _staged(messages: Sequence[WriterCommitMessage | None]) -> list[StagedBatch]:
    return [message for message in messages if isinstance(message, StagedBatch)]
