"""The in-process engine behind the public API."""

from collections.abc import Callable

import pyarrow as pa

from lakebed.engine.read import read_changes, read_stream
from lakebed.engine.write import open_stream, stage_stream
from lakebed.errors import SchemaError
from lakebed.model.executor import Executor, LocalExecutor
from lakebed.scan.scan import Scan
from lakebed.table.changes.scan import ChangeScan
from lakebed.table.config.given_schema import given_schema, without_pandas_index
from lakebed.table.snapshot import Snapshot
from lakebed.write.pipeline import Source


class ArrowEngine:
    """Runs everything in this process, on Arrow."""

    executor: Executor = LocalExecutor()

    def schema(self, schema: object) -> pa.Schema:
        """Return the given columns as an Arrow schema."""
        found = given_schema(schema)
        if found is not None:
            return found
        raise SchemaError(
            "schema: expected a pyarrow Schema, a DDL string or Arrow data (a pyarrow Table, a "
            f"pandas or Polars frame) where no Spark session is given, found {type(schema).__name__}"
        )

    def source(self, data: object) -> Source:
        """Return the columns of `data` and a source that stages its rows."""
        if isinstance(data, (pa.Table, pa.RecordBatch)):
            return Source(
                without_pandas_index(data.schema),
                lambda spec, _: stage_stream(open_stream(data), spec),
                repeatable=True,
            )
        stream = open_stream(data)
        return Source(stream.schema, lambda spec, _: stage_stream(stream, spec))

    def scanned(self, schema: pa.Schema, scan: Callable[[Snapshot], Scan]) -> Source:
        """Return a source that stages the rows of a scan of the table as of the start of the write."""
        return Source(
            schema,
            lambda spec, snapshot: stage_stream(self.read(scan(snapshot)), spec),
            reads_table=True,
            repeatable=True,
        )

    def read(self, scan: Scan) -> pa.RecordBatchReader:
        """Return the rows of `scan` as a stream."""
        return read_stream(scan, self._threads)

    def collected(self, rows: pa.RecordBatchReader) -> pa.Table:
        """Return the rows of a stream as one table."""
        return rows.read_all()

    def count(self, rows: pa.RecordBatchReader) -> int:
        """Count the rows of a stream."""
        return sum(batch.num_rows for batch in rows)

    def changes(self, scan: ChangeScan) -> pa.RecordBatchReader:
        """Return the change rows of `scan` as a stream."""
        return read_changes(scan, self._threads)

    @property
    def _threads(self) -> int:
        """Return how many threads may read: as many as run tasks."""
        return self.executor.threads if isinstance(self.executor, LocalExecutor) else 1
