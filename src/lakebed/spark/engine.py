"""The Spark engine behind the public API."""

from collections.abc import Callable, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from lakebed.errors import InvalidError, SchemaError
from lakebed.merge.rule import Merger
from lakebed.model.executor import Executor
from lakebed.scan.scan import Scan
from lakebed.spark.errors import translated
from lakebed.spark.executor import SparkExecutor
from lakebed.spark.locate import stage_joined
from lakebed.spark.merging import SparkMerge, upserted_frame
from lakebed.spark.read import (
    FramePlan,
    changes_frame,
    evaluates_alike,
    held_frame,
    plan_frame,
    read_frame,
)
from lakebed.spark.schema import arrow_to_spark, spark_to_arrow
from lakebed.spark.session import check_session
from lakebed.table.changes.scan import ChangeScan
from lakebed.table.config.given_schema import given_schema
from lakebed.table.snapshot import Snapshot
from lakebed.write.clauses.plan import MergePlan
from lakebed.write.pipeline import Source
from lakebed.write.spec.write_spec import WriteSpec
from lakebed.write.staging import Staged


class SparkEngine:
    """Runs reads and writes on a Spark session, classic or Connect."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self.executor: Executor = SparkExecutor(spark)

    def accepts(self, data: object) -> bool:
        """Return whether `data` is a DataFrame; the in-process engine accepts Arrow data."""
        return isinstance(data, DataFrame)

    def schema(self, schema: object) -> pa.Schema:
        """Return the given columns as an Arrow schema: from Spark types, a DDL string, or Arrow."""
        if isinstance(schema, DataFrame):
            schema = schema.schema
        if isinstance(schema, StructType):
            return spark_to_arrow(schema)
        if isinstance(schema, str):
            try:
                return spark_to_arrow(StructType.fromDDL(schema))
            except SchemaError:
                raise
            except Exception as error:  # the parser's exception classes differ by session
                raise SchemaError(f"schema {schema!r}: {error}") from error
        found = given_schema(schema)
        if found is not None:
            return found
        raise SchemaError(
            "schema: expected a DataFrame, a Spark StructType, a DDL string, a pyarrow Schema or "
            f"Arrow data, found {type(schema).__name__}"
        )

    def source(self, data: object) -> Source:
        """Return the columns of a DataFrame and a source that stages its rows."""
        if not isinstance(data, DataFrame):
            raise InvalidError(f"expected a DataFrame, found {type(data).__name__}")
        frame = data
        if frame.isStreaming:
            raise InvalidError("this DataFrame is a stream; write each batch with foreachBatch")
        check_session(self._spark)
        schema = spark_to_arrow(frame.schema)

        def stage(spec: WriteSpec, snapshot: Snapshot) -> list[Staged]:
            return stage_joined(self._spark, frame, spec, snapshot)

        return Source(schema, stage, looks_up=True, repeatable=True)

    def columns(self, data: object) -> pa.Schema:
        """Return the columns of a DataFrame."""
        assert isinstance(data, DataFrame), data
        return spark_to_arrow(data.schema)

    def scanned(self, schema: pa.Schema, scan: Callable[[Snapshot], Scan]) -> Source:
        """Return a source that stages the rows of a scan of the table as of the start of the write."""
        check_session(self._spark)

        def stage(spec: WriteSpec, snapshot: Snapshot) -> list[Staged]:
            frame = read_frame(self._spark, plan_frame(self._spark, scan(snapshot)))
            return stage_joined(self._spark, frame, spec, snapshot)

        return Source(schema, stage, looks_up=True, reads_table=True, repeatable=True)

    def merged(
        self,
        plan: MergePlan,
        frame: DataFrame | None,
        merger: Merger | None,
        read: Sequence[str],
    ) -> Source:
        """Return a source of the rows that a merge writes; `read` are the columns it reads."""
        check_session(self._spark)
        if frame is not None and frame.isStreaming:
            raise InvalidError("this DataFrame is a stream; merge each batch with foreachBatch")
        if frame is not None and plan.is_upsert:
            return self.source(upserted_frame(plan, frame, self._spark))
        return SparkMerge(self._spark, plan, frame, merger, read, self.is_exact).source()

    def first_rows(self, frame: DataFrame, rows: int) -> pa.Table | None:
        """Return all rows of a DataFrame, or None if it has more than `rows`."""
        with translated():
            found = frame.limit(rows + 1).toArrow()
        if found.num_rows > rows:
            return None
        return found.cast(spark_to_arrow(frame.schema))

    def plan(self, scan: Scan) -> FramePlan:
        """Decide which slices of `scan` Spark reads itself."""
        return plan_frame(self._spark, scan)

    def read(self, plan: FramePlan, held: pa.Table | None = None) -> DataFrame:
        """Return the rows of a plan as a DataFrame.

        `held` are the rows of `plan.merged`, if already read.
        """
        return read_frame(self._spark, plan, held)

    @property
    def is_exact(self) -> bool:
        """Return whether Spark evaluates predicates as the in-process engine does."""
        return evaluates_alike(self._spark)

    def collected(self, rows: DataFrame) -> pa.Table:
        """Return the rows of a DataFrame as one Arrow table, with the types of a table's columns."""
        with translated():
            found = rows.toArrow()
        # The session's time zone only affects how a timestamp is displayed.
        return found.cast(spark_to_arrow(rows.schema))

    def count(self, rows: DataFrame) -> int:
        """Count the rows of a DataFrame."""
        with translated():
            return int(rows.count())

    def changes(self, scan: ChangeScan) -> DataFrame:
        """Return the change rows of `scan` as a DataFrame."""
        return changes_frame(self._spark, scan)

    def changes_held(self, scan: ChangeScan, held: pa.Table) -> DataFrame:
        """Return a DataFrame of change rows that this process has already read."""
        return held_frame(self._spark, held, arrow_to_spark(scan.schema))

    def setting(self, name: str) -> str | None:
        """Return the session's setting `name`; None if it is not set."""
        value = self._spark.conf.get(name, None)
        return None if value is None else str(value)
