"""From a scan to a stream of Arrow batches, in this process."""

from collections.abc import Iterator, Sequence
from functools import partial

import pyarrow as pa

from lakebed.engine.parallel import read_parallel
from lakebed.model.packing import Weighed
from lakebed.scan.scan import Scan
from lakebed.table.changes.plan import GroupChanges
from lakebed.table.changes.scan import ChangeScan
from lakebed.table.files.file_group import FileSlice
from lakebed.table.read.projection import with_columns

# Less than this is read before threads have started.
_PARALLEL_BYTES = 8 << 20


def read_stream(scan: Scan, threads: int = 1) -> pa.RecordBatchReader:
    """Return the rows of `scan` as a stream; files are opened as it is read.

    Large scans are read by several threads: slices come as they become ready, the rows of each
    together and in order.
    """
    scan.check_readable()
    full = scan.full_schema
    schema = pa.schema([full.field(name) for name in scan.columns])
    wanted = scan.needed_columns

    def read(slice_: FileSlice) -> Iterator[pa.RecordBatch]:
        for batch in scan.read(slice_, wanted):
            yield with_columns(batch, [batch.column(n) for n in schema.names], schema)

    opens = [partial(read, slice_) for slice_ in scan.slices]
    batches = read_parallel(opens, _useful_threads(scan.slices, threads))
    return pa.RecordBatchReader.from_batches(schema, batches)


def read_changes(scan: ChangeScan, threads: int = 1) -> pa.RecordBatchReader:
    """Return the change rows of `scan` as a stream; those of a file group come together."""

    def read(group: GroupChanges) -> Iterator[pa.RecordBatch]:
        return scan.read(group)

    opens = [partial(read, group) for group in scan.groups]
    batches = read_parallel(opens, _useful_threads(scan.groups, threads))
    return pa.RecordBatchReader.from_batches(scan.schema, batches)


def _useful_threads(items: Sequence[Weighed], threads: int) -> int:
    cost = sum(item.cost_bytes for item in items)
    return threads if cost > _PARALLEL_BYTES else 1
