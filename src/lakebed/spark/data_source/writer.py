"""The writer of `format("lakebed")`: tasks stage rows, the driver commits them."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from lakebed.errors import LakebedError, UnavailableError
from lakebed.model.executor import TaskId
from lakebed.spark.errors import pack_error, plainly, unpack_error
from lakebed.spark.executor import task_id


class Save(Protocol):
    """A planned write, implemented by `lakebed.api.saving`.

    That layer is above this one, so the implementation is passed in.
    """

    def stage(self, batches: Iterable[pa.RecordBatch], task: TaskId) -> Any:
        """Stage the rows of one task."""
        ...

    def finish(self, staged: Iterable[Any]) -> object:
        """Write the rows that the tasks staged, in one commit."""
        ...

    def give_up(self) -> None:
        """Delete the rows that the tasks staged."""
        ...


@dataclass
class Staged(WriterCommitMessage):
    """The result of one task, or the error that it raised."""

    rows: Any = None
    failure: bytes | None = None


class Writer(DataSourceArrowWriter):
    """Stages rows in tasks, and commits the results of the tasks that succeeded.

    An attempt that failed or ran twice has staged rows that no message refers to: these rows are
    never committed, and are deleted with the rest.
    """

    def __init__(self, save: Save) -> None:
        self._save = save

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        """Stage the rows of one task.

        A Lakebed error is returned as a value: if it were raised, Spark would retry the task and
        get the same error.
        """
        try:
            return Staged(self._save.stage(iterator, task_id()))
        except UnavailableError:
            raise
        except LakebedError as error:
            return Staged(failure=pack_error(error))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Write the staged rows; Spark calls `abort` if this fails."""
        with plainly():
            self._commit(messages)

    def _commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        staged = [message for message in messages if isinstance(message, Staged)]
        for message in staged:
            if message.failure is not None:
                raise unpack_error(message.failure)
        if len(staged) != len(messages):
            raise UnavailableError(
                f"expected the staged rows of {len(messages)} tasks, found {len(staged)}; run the write again"
            )
        self._save.finish(message.rows for message in staged)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Delete the staged rows."""
        del messages
        self._save.give_up()
