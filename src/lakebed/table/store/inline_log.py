"""Writes an inline log: one file with a data block, Parquet or Avro, and a delete block."""

import zlib

import pyarrow as pa

from lakebed.format.avro.avro_rows.block import encode_head
from lakebed.format.logs.delete_columns import encode_deletes
from lakebed.format.logs.delete_instants import DeleteInstants, record_instants
from lakebed.format.logs.log_block import BlockType, HeaderKey, LogBlock, encode_block, encode_frame
from lakebed.format.logs.order_mark import mark_ordered
from lakebed.format.names.data_names import InlineLogName
from lakebed.storage.spool import MEMORY_BYTES, Spool
from lakebed.storage.streams import WriteStream
from lakebed.table.files.file_group import join_path
from lakebed.table.store.data_writer import DataFileStats, DataFileWriter, NewDataFile
from lakebed.table.store.log_target import Deletes, LogTarget, Rows

LOG_ROW_GROUP_ROWS = 8_192
"""Half the row group size of base files: a lookup reads one row group of every log.

This makes logs 3.5 % larger.
"""


def file_number(path: str) -> int:
    """Return the number that identifies a log in sequence numbers, which contain no path.

    One task writes logs of many file groups, so the task's number would not be unique.
    """
    return zlib.crc32(path.encode())


class InlineLog:
    """One log file of blocks, written in bounded memory.

    The length of a block precedes its content, so the bytes of rows go to a spool first. Deletes
    come at the end, as in Hudi's logs; if they exceed the memory bound, they form an earlier block,
    which is equivalent, since no key has both a row and a delete. Barriers come before the rows.
    Deletes with and without ordering values get separate blocks: hudi-rs rejects a mix.
    """

    def __init__(self, target: LogTarget, memory_bytes: int = MEMORY_BYTES) -> None:
        self._target = target
        self._memory_bytes = memory_bytes
        group = target.group
        name = InlineLogName(
            group.file_id,
            target.instant,
            target.version,
            target.write_token,
            column_group=group.column_group,
        )
        self._path = join_path(group.partition, name.encode())
        self._stream: WriteStream | None = None
        self._spool: Spool | None = None
        self._writer: DataFileWriter | None = None
        self._barriers = _PendingDeletes(memory_bytes)
        self._ordered = _PendingDeletes(memory_bytes)
        self._always = _PendingDeletes(memory_bytes)
        self._rows = 0
        self._deletes = 0
        self._min_key: str | None = None
        self._max_key: str | None = None

    def put_barriers(self, deletes: Deletes) -> None:
        """Add deletes that replay before the rows and deletes of the same keys."""
        if self._barriers.add(deletes):
            self._write_deletes(self._barriers)

    def put_rows(self, rows: Rows) -> None:
        """Add changed rows."""
        target = self._target
        if self._writer is None:
            self._spool = Spool(self._path, self._memory_bytes)
            self._writer = DataFileWriter(
                self._spool,
                NewDataFile(
                    self._path,
                    target.schema,
                    table_name=target.table_name,
                    instant=target.instant,
                    partition_path=target.group.partition,
                    file_name=target.group.file_id,
                    task=file_number(self._path),
                    row_group_rows=LOG_ROW_GROUP_ROWS,
                    page_rows=target.page_rows,
                    avro_schema=target.row_schema if target.avro else None,
                ),
            )
        self._writer.write(
            rows.columns,
            rows.keys,
            commit_times=rows.commit_times,
            commit_seqnos=rows.commit_seqnos,
        )
        self._rows += len(rows.keys)
        self._span(rows.keys)

    def put_deletes(self, deletes: Deletes) -> None:
        """Add deletes."""
        self._span(deletes.keys)
        self._deletes += len(deletes.keys)
        ordered, always = deletes.split()
        for pending, part in ((self._ordered, ordered), (self._always, always)):
            if part is not None and pending.add(part):
                # A barrier must not come after a delete of the same key.
                self._write_deletes(self._barriers)
                self._write_deletes(pending)

    def close(self) -> list[DataFileStats]:
        """Write the file and make it visible; do nothing if nothing was added."""
        self._write_deletes(self._barriers)
        self._write_rows()
        self._write_deletes(self._ordered)
        self._write_deletes(self._always)
        if self._stream is None:
            return []
        size_bytes = self._stream.tell()
        self._stream.close()
        version, keys = self._target.version, (self._min_key, self._max_key)
        return [DataFileStats(self._path, size_bytes, self._rows, *keys, self._deletes, version)]

    def abort(self) -> None:
        """Discard everything."""
        if self._writer is not None:
            self._writer.abort()
        if self._spool is not None:
            self._spool.release()
        if self._stream is not None:
            self._stream.abort()

    def _span(self, keys: pa.StringArray) -> None:
        low, high = keys[0].as_py(), keys[-1].as_py()
        self._min_key = low if self._min_key is None else min(low, self._min_key)
        self._max_key = high if self._max_key is None else max(high, self._max_key)

    def _open(self) -> WriteStream:
        if self._stream is None:
            self._stream = self._target.storage.open_write(self._path)
        return self._stream

    def _headers(self, schema: str) -> dict[HeaderKey, str]:
        return {HeaderKey.INSTANT_TIME: self._target.instant, HeaderKey.SCHEMA: schema}

    def _write_rows(self) -> None:
        if self._writer is None or self._spool is None:
            return
        target = self._target
        content_length = self._writer.close().size_bytes
        schema = mark_ordered(target.row_schema) if target.avro else target.row_schema
        before = encode_head(self._rows) if target.avro else b""
        head, tail = encode_frame(
            BlockType.AVRO_DATA if target.avro else BlockType.PARQUET_DATA,
            self._headers(schema) | target.row_headers,
            len(before) + content_length,
        )
        stream = self._open()
        stream.write(head + before)
        for chunk in self._spool.chunks():
            stream.write(chunk)
        stream.write(tail)
        self._spool.release()

    def _write_deletes(self, pending: "_PendingDeletes") -> None:
        deletes = pending.take()
        if deletes is None:
            return
        content = encode_deletes(deletes.keys, self._target.group.partition, deletes.ordering)
        schema = mark_ordered(self._target.table_schema)
        if deletes.instants is not None:
            schema = record_instants(schema, DeleteInstants.of(deletes.instants))
        headers = self._headers(schema) | self._target.headers
        self._open().write(encode_block(LogBlock(BlockType.DELETE, headers, content)))


class _PendingDeletes:
    """Deletes that wait for their block."""

    def __init__(self, block_bytes: int) -> None:
        self._block_bytes = block_bytes
        self._parts: list[Deletes] = []
        self._bytes = 0

    def add(self, deletes: Deletes) -> bool:
        """Add deletes with keys above all previous keys; return whether they fill a block."""
        self._parts.append(deletes)
        self._bytes += deletes.size_bytes
        return self._bytes >= self._block_bytes

    def take(self) -> Deletes | None:
        """Return all pending deletes as one batch and clear them; None if there are none."""
        parts, self._parts, self._bytes = self._parts, [], 0
        if not parts:
            return None
        columns = zip(*(part.ordering for part in parts), strict=True)
        instants = [part.instants for part in parts if part.instants is not None]
        return Deletes(
            pa.concat_arrays([part.keys for part in parts]),
            [pa.concat_arrays(column) for column in columns],
            pa.concat_arrays(instants) if instants else None,
        )
