"""Writes the change data of one rewritten base file: a `.cdc` log beside it.

Up to table version 9 it is an inline log of CDC blocks with Avro records, from version 10 on a
native Parquet file. A rewrite that changed nothing has a log without records: Hudi's readers reject
a rewritten base file that has none.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Self

import pyarrow as pa
import pyarrow.parquet as pq

from lakebed.format.avro.avro_rows.block import encode_head
from lakebed.format.avro.avro_rows.encode import encode_records
from lakebed.format.files.footer import FOOTER_AVRO_SCHEMA
from lakebed.format.logs.cdc import (
    AFTER,
    BEFORE,
    KEY,
    OP,
    TS_MS,
    LoggingMode,
    cdc_schema,
    logging_mode,
)
from lakebed.format.logs.log_block import BlockType, HeaderKey, encode_frame
from lakebed.format.logs.native_footer import FOOTER_KINDS, LogFooter, encode_log_footer
from lakebed.format.names.data_names import InlineLogName, LogKind, NativeLogName
from lakebed.format.names.meta_columns import COMMIT_SEQNO, COMMIT_TIME
from lakebed.merge.rule import MergeRule
from lakebed.merge.window import merge_runs
from lakebed.storage.storage import Storage
from lakebed.table.changes.cdc_changes import ChangeFinder, Changes, each_once
from lakebed.table.config.schema import storage_schema
from lakebed.table.config.table_config import TableConfig
from lakebed.table.files.file_group import BaseFile, FileGroupId, join_path
from lakebed.table.read.base_file import read_footer
from lakebed.table.read.conform import conform_array
from lakebed.table.read.run_reader import Needs, open_run
from lakebed.table.read.run_source import RunKind, RunSource
from lakebed.table.store.new_run import NewFile
from lakebed.table.store.run_writer import ParquetSink

BLOCK_BYTES = 16 << 20
"""How many bytes of changes are buffered before they are written as a block or a row group."""

_NATIVE_VERSION = 10
_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class CdcTarget:
    """The target of change data: its file group, instant and task.

    `schema` is the table's schema and `schema_text` the same schema in Avro, both without meta
    columns.
    """

    storage: Storage
    config: TableConfig
    group: FileGroupId
    write_token: str
    instant: str
    schema: pa.Schema
    schema_text: str


class _Log(NewFile, ABC):
    """The two kinds of log: nothing is visible before `close`."""

    @abstractmethod
    def put(self, records: pa.RecordBatch) -> None:
        """Append records."""


class ChangeLog:
    """Compares the rows that are written with the old base file, and logs the changes.

    As a context manager it aborts unless it was closed.
    """

    def __init__(
        self,
        target: CdcTarget,
        mode: LoggingMode,
        old: Iterable[pa.RecordBatch],
        block_bytes: int = BLOCK_BYTES,
    ) -> None:
        self._target = target
        self._block_bytes = block_bytes
        self._mode = mode
        schema = target.schema
        self._finder = ChangeFinder(
            old, schema if mode.has_before else None, schema if mode.has_after else None
        )
        text = cdc_schema(mode, target.schema_text)
        self._schema = _record_schema(mode, schema)
        self._pending: list[pa.RecordBatch] = []
        self._pending_bytes = 0
        self._started = False
        native = target.config.version >= _NATIVE_VERSION
        self._log: _Log = (
            _NativeCdc(target, self._schema, text) if native else _InlineCdc(target, text)
        )

    def put(self, rows: pa.RecordBatch) -> None:
        """Add the next rows of the new base file, with their commit times and sequence numbers.

        Null in both means a new row of this write.
        """
        self._take(self._finder.put(rows))

    def close(self) -> dict[str, int]:
        """Write the remaining changes and make the log visible; return its path and size."""
        self._take(self._finder.finish())
        if self._pending or not self._started:
            self._flush()
        return {self._log.path: self._log.close()}

    def abort(self) -> None:
        """Discard everything. After `close` this does nothing."""
        self._log.abort()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.abort()

    def _take(self, found: Iterator[Changes]) -> None:
        for changes in found:
            records = self._records(changes)
            self._pending.append(records)
            self._pending_bytes += records.nbytes
            if self._pending_bytes >= self._block_bytes:
                self._flush()

    def _records(self, changes: Changes) -> pa.RecordBatch:
        columns = {
            OP: changes.ops,
            TS_MS: pa.repeat(pa.scalar(self._target.instant), len(changes.keys)),
            KEY: changes.keys,
            BEFORE: changes.before,
            AFTER: changes.after,
        }
        return pa.RecordBatch.from_arrays(
            [columns[name] for name in self._mode.fields], schema=self._schema
        )

    def _flush(self) -> None:
        self._log.put(pa.concat_batches(self._pending) if self._pending else _empty(self._schema))
        self._pending, self._pending_bytes, self._started = [], 0, True


def open_change_log(target: CdcTarget, old: BaseFile | None, rule: MergeRule) -> ChangeLog | None:
    """Start the change data of a base file that replaces `old`; return None if none is logged.

    Without an old base file all rows are new.
    """
    mode = logging_mode(target.config.properties)
    if mode is None:
        return None
    rows = iter(()) if old is None else _old_rows(target, old, mode, rule)
    return ChangeLog(target, mode, rows)


def _old_rows(
    target: CdcTarget, old: BaseFile, mode: LoggingMode, rule: MergeRule
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the old base file in key order, each key once.

    Another writer's file may be unsorted; a file that holds a key twice is rejected.
    """
    footer = read_footer(target.storage, old.path)
    stamps = [pa.field(name, pa.string()) for name in (COMMIT_TIME, COMMIT_SEQNO)]
    rows = list(target.schema) if mode.has_before else []
    ordering = [target.schema.field(name) for name in rule.ordering_fields]
    needs = Needs(
        tuple(field.with_nullable(True) for field in (*stamps, *rows)),
        tuple(field.with_nullable(True) for field in ordering),
        buffer_bytes=target.config.read_buffer_bytes,
    )
    source = RunSource(
        old.path, RunKind.DATA, old.name.instant, ordered=footer.is_ordered, is_base=True
    )
    run = open_run(target.storage, source, needs)
    rows_of = merge_runs([run], MergeRule(rule.ordering_fields), pa.schema(needs.all_fields))
    return each_once(rows_of, source.name)


def _record_schema(mode: LoggingMode, schema: pa.Schema) -> pa.Schema:
    row = pa.struct(list(schema))
    return pa.schema(
        [pa.field(name, row if name in (BEFORE, AFTER) else pa.string()) for name in mode.fields]
    )


def _optional(field: pa.Field) -> pa.Field:
    """Make the fields of a struct nullable: pyarrow expects values even if the struct is null."""
    kind = field.type
    inner = pa.struct([_optional(child) for child in kind]) if pa.types.is_struct(kind) else kind
    return pa.field(field.name, inner)


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], f.type) for f in schema], schema=schema)


class _InlineCdc(_Log):
    """A log of CDC blocks."""

    def __init__(self, target: CdcTarget, schema_text: str) -> None:
        name = InlineLogName(
            target.group.file_id, target.instant, _VERSION, target.write_token, cdc=True
        )
        path = join_path(target.group.partition, name.encode())
        super().__init__(target.storage.open_write(path), path)
        self._schema_text = schema_text
        self._headers = {HeaderKey.INSTANT_TIME: target.instant, HeaderKey.SCHEMA: schema_text}

    def put(self, records: pa.RecordBatch) -> None:
        """Append a block."""
        before, content = (
            encode_head(records.num_rows),
            encode_records(records, self._schema_text),
        )
        size_bytes = len(before) + content.size
        head, tail = encode_frame(BlockType.CDC_DATA, self._headers, size_bytes)
        for part in (head, before, content, tail):
            self._stream.write(part)


class _NativeCdc(_Log):
    """A native log: a Parquet file of change data records."""

    def __init__(self, target: CdcTarget, schema: pa.Schema, schema_text: str) -> None:
        name = NativeLogName(
            target.group.file_id, target.write_token, target.instant, _VERSION, LogKind.CDC
        )
        path = join_path(target.group.partition, name.encode())
        self._schema = storage_schema(pa.schema([_optional(field) for field in schema]))
        footer = LogFooter(FOOTER_KINDS[LogKind.CDC], target.instant, schema_text)
        self._footer = {FOOTER_AVRO_SCHEMA: schema_text, **encode_log_footer(footer)}
        super().__init__(target.storage.open_write(path), path)
        self._sink = ParquetSink(self._stream)
        self._writer = pq.ParquetWriter(
            self._sink, self._schema, compression="zstd", compression_level=1, store_schema=False
        )

    def put(self, records: pa.RecordBatch) -> None:
        """Append a row group."""
        columns = [
            conform_array(column, field, field.name)
            for column, field in zip(records.columns, self._schema, strict=True)
        ]
        self._writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=self._schema))

    def _end(self) -> None:
        self._writer.add_key_value_metadata(self._footer)
        self._writer.close()

    def _drop(self) -> None:
        self._sink.discard()
        self._writer.close()
