"""The in-process engine, as the front door sees it."""

from collections.abc import Sequence

import pyarrow as pa

from lakebed.engine.read import read_stream
from lakebed.engine.write import open_stream, stage_stream
from lakebed.errors import SchemaError
from lakebed.model.executor import Executor, LocalExecutor
from lakebed.table.snapshot import Snapshot
from lakebed.write.pipeline import Stage


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

    def source(self, data: object) -> tuple[pa.Schema, Stage]:
        """Give the schema of `data` and what stages its rows."""
        stream = open_stream(data)
        return stream.schema, lambda spec: stage_stream(stream, spec)

    def read(
        self, snapshot: Snapshot, columns: Sequence[str], where: str | None
    ) -> pa.RecordBatchReader:
        """Give the rows of `snapshot` as a stream."""
        return read_stream(snapshot, columns, where)
