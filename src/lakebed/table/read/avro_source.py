"""The rows of an Avro block inside a log, read as a stream of columns."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa

from lakebed.errors import CorruptError
from lakebed.format.avro.avro_rows.block import read_avro_block
from lakebed.format.avro.avro_schema import avro_to_arrow
from lakebed.storage.storage import Storage
from lakebed.table.read.parquet_source import BUFFER_BYTES, READ_ROWS


class AvroSource:
    """An open Avro block, made by `open_avro`. It has the interface of a ParquetSource."""

    __slots__ = ("_file", "_length", "_offset", "_schema_text", "_what", "schema")

    def __init__(
        self, file: pa.NativeFile, offset: int, length: int, schema_text: str, what: str
    ) -> None:
        self._file = file
        self._offset = offset
        self._length = length
        self._schema_text = schema_text
        self._what = what
        self.schema = avro_to_arrow(schema_text)

    def read(
        self,
        columns: Sequence[str],
        *,
        buffer_bytes: int = BUFFER_BYTES,
        max_rows: int = READ_ROWS,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of `columns`, which the block has, in block order."""
        return read_avro_block(
            self._read_at,
            self._length,
            self._schema_text,
            columns,
            buffer_bytes=buffer_bytes,
            max_rows=max_rows,
            what=self._what,
        )

    def _read_at(self, offset: int, length: int) -> bytes:
        data: bytes = self._file.read_at(length, self._offset + offset)
        return data


@contextmanager
def open_avro(
    storage: Storage, path: str, what: str, *, offset: int, length: int, schema_text: str
) -> Iterator[AvroSource]:
    """Open the Avro block of `length` bytes at `offset` of `path`; errors name `what`."""
    with storage.open_read(path) as file:
        if offset < 0 or length < 0 or offset + length > file.size():
            raise CorruptError(
                f"{what}: expected {length} bytes at byte {offset}, the file has {file.size()}"
            )
        yield AvroSource(file, offset, length, schema_text, what)
