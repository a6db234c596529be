"""Writes one sorted run of a file group as log files: changed rows and deletes.

Up to table version 9 this is an inline log of a Parquet block and a delete block, from version 10
on native files; `docs/format/log-files.md` describes both.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import InvalidError, KeyValueError, SchemaError
from lakebed.format.avro.avro_schema import avro_to_arrow, with_meta_fields
from lakebed.format.logs.ordering_columns import takes_int
from lakebed.format.names.meta_columns import COMMIT_SEQNO, COMMIT_TIME, RECORD_KEY
from lakebed.merge.run import BARRIER, COMMIT_TIME_DELETE, DELETED, FLAGS, OPEN
from lakebed.model.options.table import BLOCK_FORMAT
from lakebed.storage.spool import MEMORY_BYTES
from lakebed.storage.storage import Storage
from lakebed.table.config.merge_mode import MergeMode
from lakebed.table.config.schema import storage_type
from lakebed.table.config.table_config import TableConfig
from lakebed.table.files.file_group import FileGroupId
from lakebed.table.read.conform import conform_array
from lakebed.table.store.data_writer import DataFileStats
from lakebed.table.store.inline_log import InlineLog
from lakebed.table.store.log_target import Deletes, LogTarget, Rows
from lakebed.table.store.native_log import NativeLog
from lakebed.table.store.new_run import KeyOrder

_NATIVE_VERSION = 10
"""The table version from which logs are separate files: Hudi does not see them in earlier versions."""

Flags = npt.NDArray[np.uint8]
_Log = InlineLog | NativeLog


@dataclass(frozen=True, slots=True, kw_only=True)
class NewLog:
    """A log to write, `version` of `instant` in a file group of a table.

    `schema` are the columns of its rows: all of the table's or, in a `partial` log, the changed
    columns and the ordering columns. `next_version`, greater than `version` and unused, is for rows
    that must win over all earlier versions. `compacted` are the instants that a log compaction
    replaces with this log.
    """

    storage: Storage
    config: TableConfig
    group: FileGroupId
    write_token: str
    version: int
    instant: str
    schema: pa.Schema
    table_schema_text: str
    partial: bool = False
    next_version: int | None = None
    compacted: tuple[str, ...] = ()

    def target(self) -> LogTarget:
        """Return the target for the writer of either kind of log.

        Raises SchemaError if the log does not match the table.
        """
        table_schema = with_meta_fields(self.table_schema_text)
        ordering = _ordering_fields(self.config, table_schema)
        for field in ordering if self.partial else ():
            if field.name not in self.schema.names:
                raise SchemaError(
                    f"partial log of {self.group.file_id}: expected the ordering column {field.name!r},"
                    f" found {', '.join(self.schema.names)}"
                )
        return LogTarget(
            storage=self.storage,
            table_name=self.config.name,
            group=self.group,
            write_token=self.write_token,
            version=self.version,
            next_version=self.next_version,
            instant=self.instant,
            schema=self.schema,
            row_schema=_with_columns(table_schema, self.schema) if self.partial else table_schema,
            table_schema=table_schema,
            ordering=ordering,
            partial=self.partial,
            page_rows=self.config.sparse_index_rows,
            compacted=self.compacted,
            avro=_writes_avro(self.config, ordering),
            inline=self.config.version < _NATIVE_VERSION,
        )


class LogRunWriter:
    """Writes a run of rows and deletes as a log; without rows no file is written.

    Batches ascend by `_hoodie_record_key`, each key once, and hold the columns of the log.
    `_lakebed_flags` marks deletes, of which only key and ordering values are used. Commit times and
    sequence numbers in the batches are kept.

    A row that must win over all earlier versions (BARRIER) is preceded by a delete of its key that
    wins over them. In native logs this requires a second version; without `next_version`, such a
    row is rejected. Nothing is visible before `close`, and nothing is left after a failure.
    """

    def __init__(self, log: NewLog, memory_bytes: int = MEMORY_BYTES) -> None:
        self._target = target = log.target()
        inline = target.inline
        self._log: _Log = InlineLog(target, memory_bytes) if inline else NativeLog(target)
        self._order = KeyOrder(target.place)
        self._closed = False

    def write(self, batches: Iterable[pa.RecordBatch]) -> list[DataFileStats]:
        """Write all of `batches`, and close."""
        with self:
            for batch in batches:
                self.put(batch)
            return self.close()

    def put(self, batch: pa.RecordBatch) -> None:
        """Add rows and deletes with keys above all previous keys."""
        if batch.num_rows:
            self._order.check(batch.column(RECORD_KEY))
            _put(self._log, batch, self._target)

    def close(self) -> list[DataFileStats]:
        """Make the written files visible and return their statistics."""
        written = self._log.close()
        self._closed = True
        return written

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._closed:
            self._log.abort()


def _writes_avro(config: TableConfig, ordering: tuple[pa.Field, ...]) -> bool:
    """Return whether rows of logs are written as Avro blocks rather than Parquet, the default.

    Hudi 1.2.0 merges Parquet blocks incorrectly if rows are ordered by a string.
    """
    asked = BLOCK_FORMAT.value(config.properties)
    return asked == "avro" or (not asked and any(f.type == pa.string() for f in ordering))


def _ordering_fields(config: TableConfig, table_schema: str) -> tuple[pa.Field, ...]:
    """Return the ordering columns as logs hold them: in storage types, and nullable."""
    if config.merge_mode is MergeMode.COMMIT_TIME_ORDERING:
        return ()
    columns = avro_to_arrow(table_schema)
    for name in config.ordering_fields:
        if name not in columns.names:
            raise SchemaError(f"ordering column {name!r}: the table has no such column")
    return tuple(
        pa.field(name, storage_type(columns.field(name).type)) for name in config.ordering_fields
    )


def _with_columns(table_schema: str, schema: pa.Schema) -> str:
    """Remove the columns that a partial run lacks from an Avro schema with meta fields."""
    record = json.loads(table_schema)
    meta = json.loads(with_meta_fields('{"type":"record","fields":[]}'))["fields"]
    kept = {*schema.names, *(field["name"] for field in meta)}
    record["fields"] = [field for field in record["fields"] if field["name"] in kept]
    missing = kept - {field["name"] for field in record["fields"]}
    if missing:
        raise SchemaError(f"column {min(missing)!r}: the table has no such column")
    return json.dumps(record, separators=(",", ":"))


def _put(log: _Log, batch: pa.RecordBatch, target: LogTarget) -> None:
    """Pass the rows and the deletes of a batch to the log, barriers first."""
    if FLAGS not in batch.schema.names:
        log.put_rows(_rows(batch, target))
        return
    flags = batch.column(FLAGS).to_numpy()
    gone = flags & DELETED != 0
    if target.ordering:
        _check_flags(batch, flags, target)
        barrier = (flags & BARRIER != 0) & (flags & OPEN == 0)
        if barrier.any():
            log.put_barriers(_always_winning(batch.filter(pa.array(barrier)), target))
    if not gone.all():
        log.put_rows(_rows(batch.filter(pa.array(~gone)) if gone.any() else batch, target))
    if gone.any():
        mask = pa.array(gone)
        log.put_deletes(_deletes(batch.filter(mask), flags[gone], target))


def _check_flags(batch: pa.RecordBatch, flags: Flags, target: LogTarget) -> None:
    """Raise InvalidError for a row without ordering value, unless it is an always-winning delete."""
    wrong = (flags & OPEN != 0) & (flags != COMMIT_TIME_DELETE)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise InvalidError(
            f"{target.place}: key {batch.column(RECORD_KEY)[row].as_py()!r} has the flags"
            f" {flags[row]}; without an ordering value expected {COMMIT_TIME_DELETE}"
        )


def _rows(batch: pa.RecordBatch, target: LogTarget) -> Rows:
    names = batch.schema.names
    for name in target.schema.names:
        if name not in names:
            raise SchemaError(
                f"{target.place}: expected the column {name!r}, found {', '.join(names)}"
            )
    carried = (batch.column(n) if n in names else None for n in (COMMIT_TIME, COMMIT_SEQNO))
    return Rows(batch.column(RECORD_KEY), batch.select(target.schema.names), *carried)


def _always_winning(batch: pa.RecordBatch, target: LogTarget) -> Deletes:
    nulls = [pa.nulls(batch.num_rows, field.type) for field in target.ordering]
    return Deletes(batch.column(RECORD_KEY), nulls, _instants(batch, target))


def _check_not_zero(
    keys: pa.StringArray, values: pa.Array, ordered: Flags, field: pa.Field, target: LogTarget
) -> None:
    """Raise an error for a delete at the ordering value 0: in a block it would always win."""
    if not target.inline or len(target.ordering) > 1 or not takes_int(field.type):
        return
    zero = pc.fill_null(pc.equal(values.cast(pa.int32()), 0), False)
    wrong = ordered & zero.to_numpy(zero_copy_only=False)
    if wrong.any():
        at = int(np.argmax(wrong))
        raise KeyValueError(
            f"cannot delete key {keys[at].as_py()!r} at {field.name!r} = {values[at].as_py()}: "
            "Hudi's log format treats this ordering value as missing, and the delete would win "
            "over newer rows. Delete the key with delete(), or use table version 10, or an ordering "
            "column of type bigint"
        )


def _instants(batch: pa.RecordBatch, target: LogTarget) -> pa.StringArray | None:
    """Return the commits that deleted the keys; None unless deletes are from several commits."""
    if not target.ordering or COMMIT_TIME not in batch.schema.names:
        return None
    return pc.fill_null(batch.column(COMMIT_TIME), target.instant)


def _deletes(batch: pa.RecordBatch, flags: Flags, target: LogTarget) -> Deletes:
    ordered = flags & OPEN == 0
    if not target.ordering or not ordered.any():
        return _always_winning(batch, target)
    keys = batch.column(RECORD_KEY)
    columns = []
    for field in target.ordering:
        if field.name not in batch.schema.names:
            raise SchemaError(
                f"{target.place}: deletes with an ordering value need the column {field.name!r}"
            )
        values = conform_array(batch.column(field.name), field, field.name)
        missing = ordered & values.is_null().to_numpy(zero_copy_only=False)
        if missing.any():
            # On storage a null means that the delete always wins.
            key = keys[int(np.argmax(missing))].as_py()
            raise KeyValueError(
                f"ordering column {field.name!r} is null for the delete of key {key!r}"
            )
        _check_not_zero(keys, values, ordered, field, target)
        columns.append(pc.if_else(pa.array(ordered), values, pa.scalar(None, field.type)))
    return Deletes(keys, columns, _instants(batch, target))
