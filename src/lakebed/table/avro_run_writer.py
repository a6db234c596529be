"""Write one sorted run as the records of an Avro block."""

from types import TracebackType
from typing import Self

import pyarrow as pa

from lakebed.errors import InvalidError
from lakebed.format.avro_rows.encode import encode_records
from lakebed.format.meta_columns import RECORD_KEY
from lakebed.storage.storage import WriteStream
from lakebed.table.run_writer import KeyOrder

# What is encoded at once: the kernel works on whole columns, the stream takes the bytes.
_ENCODE_ROWS = 16_384


class AvroRunWriter:
    """Writes records to `stream`, which it then owns, as `RunWriter` does Parquet.

    What stands before the records of a block, their number, is not known before the end, so
    the caller writes it.
    """

    def __init__(self, stream: WriteStream, path: str, schema_text: str) -> None:
        self._stream = stream
        self._path = path
        self._schema_text = schema_text
        self._order = KeyOrder(path)
        self._rows = 0
        self._size_bytes: int | None = None
        self._aborted = False

    @property
    def rows(self) -> int:
        """How many rows were taken so far."""
        return self._rows

    @property
    def min_key(self) -> str | None:
        """The first key taken; None before it."""
        return self._order.min_key

    @property
    def max_key(self) -> str | None:
        """The last key taken so far; None before the first."""
        return self._order.max_key

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows of exactly the run's schema, with keys above those before."""
        if not batch.num_rows:
            return
        self._order.check(batch.column(RECORD_KEY))
        self._rows += batch.num_rows
        for start in range(0, batch.num_rows, _ENCODE_ROWS):
            rows = _plain(batch.slice(start, _ENCODE_ROWS))
            self._stream.write(encode_records(rows, self._schema_text))

    def close(self) -> int:
        """Publish the stream and give its size. Closing twice gives the same."""
        if self._aborted:
            raise InvalidError(f"{self._path}: close after abort")
        if self._size_bytes is None:
            self._size_bytes = self._stream.tell()
            self._stream.close()
        return self._size_bytes

    def abort(self) -> None:
        """Drop everything written. After `close`, or the second time, this does nothing."""
        if self._size_bytes is None and not self._aborted:
            self._aborted = True
            self._stream.abort()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None or self._aborted:
            self.abort()
            return
        try:
            self.close()
        except BaseException:
            self.abort()
            raise


def _plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Give dictionary columns as what they stand for."""
    columns = [
        column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
        for column in batch.columns
    ]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)
