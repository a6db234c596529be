"""From a scan to a stream of Arrow batches, in this process."""

from collections.abc import Iterator

import pyarrow as pa

from lakebed.index.scan import Scan
from lakebed.table.changes.scan import ChangeScan
from lakebed.table.projection import with_columns


def read_stream(scan: Scan) -> pa.RecordBatchReader:
    """Give the rows of `scan` as a stream; files are opened as it is read."""
    scan.check_readable()
    full = scan.full_schema
    schema = pa.schema([full.field(name) for name in scan.columns])
    predicate = scan.predicate()
    wanted = scan.columns_with(predicate)

    def batches() -> Iterator[pa.RecordBatch]:
        for slice_ in scan.slices:
            for batch in scan.read(slice_, wanted, predicate):
                yield with_columns(batch, [batch.column(n) for n in schema.names], schema)

    return pa.RecordBatchReader.from_batches(schema, batches())


def read_changes(scan: ChangeScan) -> pa.RecordBatchReader:
    """Give the change rows of `scan` as a stream, file group by file group."""
    batches = (batch for group in scan.groups for batch in scan.read(group))
    return pa.RecordBatchReader.from_batches(scan.schema, batches)
