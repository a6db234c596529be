"""The in-process engine, as the front door sees it."""

from collections.abc import Callable

import pyarrow as pa

from lakebed.engine.read import read_changes, read_stream
from lakebed.engine.write import open_stream, stage_stream
from lakebed.errors import SchemaError
from lakebed.index.scan import Scan
from lakebed.model.executor import Executor, LocalExecutor
from lakebed.table.changes.scan import ChangeScan
from lakebed.table.snapshot import Snapshot
from lakebed.write.pipeline import Source


class ArrowEngine:
    """Runs everything in this process, on Arrow."""

    executor: Executor = LocalExecutor()

    def schema(self, schema: object) -> pa.Schema:
        """Take a schema that a caller gave."""
        if isinstance(schema, pa.Schema):
            return schema
        raise SchemaError(
            f"schema: want a pyarrow Schema where no Spark session is given, found "
            f"{type(schema).__name__}"
        )

    def source(self, data: object) -> Source:
        """Give the columns of `data` and what stages its rows."""
        if isinstance(data, (pa.Table, pa.RecordBatch)):
            return Source(
                data.schema, lambda spec, _: stage_stream(open_stream(data), spec), repeatable=True
            )
        stream = open_stream(data)
        return Source(stream.schema, lambda spec, _: stage_stream(stream, spec))

    def scanned(self, schema: pa.Schema, scan: Callable[[Snapshot], Scan]) -> Source:
        """Give what stages the rows of a scan of the table as the write finds it."""
        return Source(
            schema,
            lambda spec, snapshot: stage_stream(read_stream(scan(snapshot)), spec),
            reads_table=True,
            repeatable=True,
        )

    def read(self, scan: Scan) -> pa.RecordBatchReader:
        """Give the rows of `scan` as a stream."""
        return read_stream(scan)

    def changes(self, scan: ChangeScan) -> pa.RecordBatchReader:
        """Give the change rows of `scan` as a stream."""
        return read_changes(scan)
