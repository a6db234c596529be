"""Which engine serves a call: Spark where there is a session and a DataFrame, else Arrow."""

from collections.abc import Callable
from typing import Any, Protocol

import pyarrow as pa

from lakebed.engine.engine import ArrowEngine
from lakebed.errors import InvalidError
from lakebed.index.scan import Scan
from lakebed.model.executor import Executor
from lakebed.table.changes.scan import ChangeScan
from lakebed.table.snapshot import Snapshot
from lakebed.write.pipeline import Source


class Engine(Protocol):
    """What the front door asks of an engine."""

    executor: Executor

    def schema(self, schema: object) -> pa.Schema:
        """Take a schema that a caller gave."""
        ...

    def source(self, data: object) -> Source:
        """Give the columns of `data` and what stages its rows."""
        ...

    def scanned(self, schema: pa.Schema, scan: Callable[[Snapshot], Scan]) -> Source:
        """Give what stages the rows of a scan of the table as the write finds it."""
        ...

    def read(self, scan: Scan) -> Any:
        """Give the rows of `scan`."""
        ...

    def collected(self, rows: Any) -> pa.Table:
        """Return what `read` or `changes` gave as one Arrow table."""
        ...

    def count(self, rows: Any) -> int:
        """Count the rows of what `read` gave."""
        ...

    def changes(self, scan: ChangeScan) -> Any:
        """Give the change rows of `scan`."""
        ...


class Engines:
    """The engines of one table: Arrow always, Spark where the user gave a session."""

    def __init__(self, spark: Any | None) -> None:
        self._arrow = ArrowEngine()
        self._spark = None
        if spark is not None:
            # The one lazy import of pyspark: without a session nothing pays for it.
            from lakebed.spark.engine import SparkEngine  # noqa: PLC0415

            if not hasattr(spark, "createDataFrame"):
                raise InvalidError(
                    f"spark: want a SparkSession or None, found {type(spark).__name__}"
                )
            self._spark = SparkEngine(spark)

    @property
    def main(self) -> Engine:
        """Give the engine that reads and runs tasks."""
        return self._arrow if self._spark is None else self._spark

    def for_data(self, data: object) -> Engine:
        """Give the engine that stages `data`."""
        if self._spark is not None and self._spark.accepts(data):
            return self._spark
        if type(data).__module__.startswith("pyspark."):
            raise InvalidError(
                "a DataFrame needs a session: open the table with open_table(spark, path)"
            )
        return self._arrow
