"""Writes one sorted run as the records of an Avro block."""

import pyarrow as pa

from lakebed.format.avro.avro_rows.encode import encode_records
from lakebed.storage.streams import WriteStream
from lakebed.table.store.new_run import NewRun

# How many rows are encoded at once: the kernel encodes whole columns.
_ENCODE_ROWS = 16_384


class AvroRunWriter(NewRun):
    """Writes one run as records.

    The head of a block includes the number of records, which is known only at the end, so the
    caller writes it.
    """

    def __init__(self, stream: WriteStream, path: str, schema_text: str) -> None:
        super().__init__(stream, path)
        self._schema_text = schema_text

    def _append(self, batch: pa.RecordBatch) -> None:
        for start in range(0, batch.num_rows, _ENCODE_ROWS):
            rows = _plain(batch.slice(start, _ENCODE_ROWS))
            self._stream.write(encode_records(rows, self._schema_text))


def _plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the batch with its dictionary columns decoded."""
    columns = [
        column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
        for column in batch.columns
    ]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)
