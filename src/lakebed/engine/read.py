"""From a snapshot to a stream of Arrow batches, in this process."""

from collections.abc import Iterator, Sequence

import pyarrow as pa

from lakebed.format.meta_columns import META_FIELDS
from lakebed.table.base_file import read_base_file
from lakebed.table.predicate import Predicate
from lakebed.table.snapshot import Snapshot, base_files


def read_stream(
    snapshot: Snapshot, columns: Sequence[str], where: str | None
) -> pa.RecordBatchReader:
    """Give the rows of `snapshot` with `columns` as a stream; files are opened as it is read."""
    full = pa.schema([*META_FIELDS, *snapshot.schema])
    schema = pa.schema([full.field(name) for name in columns])
    predicate = Predicate.parse(where, full) if where is not None else None
    # The files are settled now, so that a refusal comes from this call and not mid-stream.
    files = base_files(snapshot.slices)

    def batches() -> Iterator[pa.RecordBatch]:
        wanted = list(columns)
        if predicate is not None:
            wanted += [name for name in predicate.columns if name not in wanted]
        for file in files:
            for batch in read_base_file(snapshot.storage, file.path, snapshot.schema, wanted):
                kept = predicate.filter(batch) if predicate is not None else batch
                if kept.num_rows:
                    yield kept.select(list(columns)).cast(schema)

    return pa.RecordBatchReader.from_batches(schema, batches())
