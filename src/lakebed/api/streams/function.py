"""The function for `foreachBatch` that writes each batch of a stream once."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from lakebed.api.opening import open_as
from lakebed.api.table import Table
from lakebed.commit.stream_batches import StreamBatch
from lakebed.errors import InvalidError
from lakebed.merge.rule import Merger
from lakebed.model.spelling import nearest
from lakebed.write.spec.commit_summary import Commit
from lakebed.write.spec.intake import Intake
from lakebed.write.spec.operation import (
    BULK_INSERT,
    DELETE,
    INSERT,
    INSERT_OVERWRITE,
    INSERT_OVERWRITE_TABLE,
    UPDATE_COLUMNS,
    UPSERT,
    Operation,
)

_MODES: Final[Mapping[str, Operation]] = {
    "upsert": UPSERT,
    "insert": INSERT,
    "bulk_insert": BULK_INSERT,
    "update_columns": UPDATE_COLUMNS,
    "delete": DELETE,
    "insert_overwrite": INSERT_OVERWRITE,
    "insert_overwrite_table": INSERT_OVERWRITE_TABLE,
}
# Where Spark keeps the id of the query whose batch it runs, and of the run since its last start.
_QUERY_ID: Final = "sql.streaming.queryId"
_RUN_ID: Final = "spark.jobGroup.id"

# The last batch that this process wrote, with its run, by table and stream.
_written: dict[tuple[str, str], tuple[int, str]] = {}


@dataclass
class BatchFunction:
    """The function that `foreach_batch` returns; each call writes one batch, once."""

    path: str
    mode: str
    stream: str | None = None
    intake: Intake = field(default_factory=Intake)
    storage_options: Mapping[str, str] | None = field(default=None, repr=False)  # has secrets
    merger: Merger | None = None
    _table: "_StreamTable | None" = field(default=None, init=False, repr=False)

    def __call__(self, rows: Any, batch_id: int) -> None:
        """Write the rows of one batch."""
        table, number = self._open(rows.sparkSession), int(batch_id)
        stream, run = self._identity(rows.sparkSession)
        place = table.path, stream
        if _written.get(place) == (number, run):
            raise InvalidError(
                f"{table.path}: a second write of batch {number} of stream {stream!r}: the table would "
                "take it for a repetition and skip it. Give each write of a batch a name of its own, "
                "foreach_batch(path, stream='<name>')"
            )
        table.write_batch(_MODES[self.mode], rows, self.intake, StreamBatch(stream, number))
        _written[place] = number, run

    def _identity(self, session: Any) -> tuple[str, str]:
        """Return the stream under which a batch is recorded, and the run of the query."""
        query, run = _local_property(session, _QUERY_ID), _local_property(session, _RUN_ID)
        found = "/".join(part for part in (query, self.stream) if part)
        if not found:
            raise InvalidError(
                "foreach_batch: this session does not tell the id of the query (Spark Connect does "
                "not): pass a name, foreach_batch(path, stream='<name>'), and another one with each "
                "new checkpoint"
            )
        return found, run

    def _open(self, session: Any) -> "_StreamTable":
        if self._table is None:
            self._table = open_as(
                _StreamTable, session, self.path, self.storage_options, None, self.merger
            )
        return self._table

    def __getstate__(self) -> dict[str, object]:
        """Return the state to pickle: Spark Connect calls the function in another process."""
        return {**self.__dict__, "_table": None}


class _StreamTable(Table):
    """A table that receives the batches of a stream."""

    def write_batch(
        self, operation: Operation, rows: object, intake: Intake, batch: StreamBatch
    ) -> Commit | None:
        """Write one batch; return None if it is empty, or if it was written before."""
        self._check_writable()
        source = self._engines.for_data(rows).source(rows)
        return self._execute_once(batch, operation, replace(source, intake=intake), None)


def foreach_batch(
    path: str,
    mode: str = "upsert",
    *,
    stream: str | None = None,
    evolve: bool = False,
    fill_missing: bool = False,
    storage_options: Mapping[str, str] | None = None,
    merger: Merger | None = None,
) -> BatchFunction:
    """Return a function for `writeStream.foreachBatch` that writes each batch exactly once.

    A commit records the query and the number of its batch. If Spark repeats a batch after a
    failure, and the table has committed it, the call returns without writing. A batch without rows
    makes no commit.

    Args:
        path: The table, which must exist.
        mode: The write: `"upsert"`, `"insert"`, `"bulk_insert"`, `"update_columns"`, `"delete"`,
            `"insert_overwrite"` or `"insert_overwrite_table"`.
        stream: A name for this write, if a batch is written to the table several times, such as
            rows to upsert and keys to delete. Commits record the batch under the id of the query,
            which is in its checkpoint, and this name. Spark Connect does not pass that id on, so
            the name identifies the query there: use a new name with a new checkpoint.
        evolve: As for `Table.upsert`.
        fill_missing: As for `Table.upsert`.
        storage_options: As for `open_table`.
        merger: As for `open_table`.

    Raises:
        InvalidError: The mode is unknown. Or, in a batch: the table has committed a later batch of
            this stream, or the batch was written twice under one name.

    Example:
        >>> import lakebed
        >>> lakebed.foreach_batch("/data/ledger", mode="upsert").mode
        'upsert'
    """
    if mode not in _MODES:
        raise InvalidError(
            f"mode={mode!r}: expected one of {', '.join(_MODES)}{nearest(str(mode), _MODES)}"
        )
    if stream is not None and (type(stream) is not str or not stream.strip()):
        raise InvalidError(f"stream={stream!r}: expected a name")
    if (fill_missing and mode == "update_columns") or (
        (evolve or fill_missing) and mode == "delete"
    ):
        raise InvalidError(
            f"mode={mode!r}: its rows need not have all columns; remove fill_missing "
            "(and evolve for a delete)"
        )
    return BatchFunction(
        str(path), mode, stream, Intake(evolve, fill_missing), storage_options, merger
    )


def _local_property(session: Any, name: str) -> str:
    """Return a property of the thread that runs a batch; "" if there is none, as on Spark Connect."""
    try:
        return str(session.sparkContext.getLocalProperty(name) or "")
    except AttributeError:
        return ""
