"""Choose the engine for each call: Spark if there is a session, otherwise Arrow.

Even with a session, this process does small work itself, because a round of Spark tasks takes
longer than reading a few files. The limit is `lakebed.spark.driver.max.bytes`.
"""

from collections.abc import Callable
from typing import Any, Protocol

import pyarrow as pa

from lakebed.engine.engine import ArrowEngine
from lakebed.engine.merging.source import (
    as_repeatable,
    collect_source,
    merged_source,
    upserted_source,
)
from lakebed.errors import InvalidError, UnsupportedError
from lakebed.merge.rule import Merger
from lakebed.model.executor import Executor, NearExecutor
from lakebed.model.options.writers import DRIVER_MAX_BYTES
from lakebed.scan.scan import Scan
from lakebed.table.changes.scan import ChangeScan
from lakebed.table.config.table_config import TableConfig
from lakebed.table.read.source_cache import SourceCache
from lakebed.table.snapshot import Snapshot
from lakebed.write.clauses.bind import BoundMerge, bind_merge
from lakebed.write.clauses.clause import MergeStatement
from lakebed.write.clauses.plan import MergePlan, plan_merge, source_schema
from lakebed.write.clauses.targets import keys_to_look_up, scan_target
from lakebed.write.pipeline import Source
from lakebed.write.spec.write_spec import DEFAULT_MEMORY_BYTES

# Passing rows from this process to Spark is slower than reading them in Spark's tasks, so the
# limit for rows held in this process is this many times lower than the limit for bytes read.
_HELD = 32
# A source of a merge with at most this many rows is merged in this process.
_MERGED_ROWS = 10_000
# Approximate ratio of the size of rows in memory to the size of their file.
_UNPACKED = 4

ScanPlan = Callable[[Snapshot], Scan]


class Engine(Protocol):
    """The methods that the public API needs from an engine."""

    executor: Executor

    def schema(self, schema: object) -> pa.Schema:
        """Return the columns that the caller describes, as an Arrow schema."""
        ...

    def source(self, data: object) -> Source:
        """Return a source that stages the rows of `data`."""
        ...

    def scanned(self, schema: pa.Schema, scan: Callable[[Snapshot], Scan]) -> Source:
        """Return a source that stages the rows of a scan, planned when the write begins."""
        ...

    def columns(self, data: object) -> pa.Schema:
        """Return the columns of rows that a caller passes."""
        ...

    def collected(self, rows: Any) -> pa.Table:
        """Return the result of `read` or `changes` as one Arrow table."""
        ...

    def count(self, rows: Any) -> int:
        """Count the rows of the result of `read`."""
        ...

    def changes(self, scan: ChangeScan) -> Any:
        """Return the change rows of `scan`."""
        ...


class Engines:
    """The engines of one table: Arrow always, and Spark if the user passed a session.

    `memory_bytes` limits the rows that a task of a write holds before it sorts and stages them.
    """

    def __init__(self, spark: Any | None, memory_bytes: int = DEFAULT_MEMORY_BYTES) -> None:
        self.memory_bytes = memory_bytes
        self._arrow = ArrowEngine()
        self._spark = None
        if spark is not None:
            # The one lazy import of pyspark: without a session it is not loaded.
            from lakebed.spark.engine import SparkEngine  # noqa: PLC0415 - heavy

            if not hasattr(spark, "createDataFrame"):
                raise InvalidError(
                    f"spark: expected a SparkSession or None, found {type(spark).__name__}"
                )
            self._spark = SparkEngine(spark)

    @property
    def main(self) -> Engine:
        """Return the engine for reads: Spark if there is a session."""
        return self._arrow if self._spark is None else self._spark

    @property
    def is_exact(self) -> bool:
        """Return whether predicates are evaluated in ANSI mode and in the time zone UTC."""
        return self._spark is None or self._spark.is_exact

    def executor(self, config: TableConfig) -> Executor:
        """Return the executor for the tasks of writes and services on a table."""
        if self._spark is None:
            return self._arrow.executor
        return NearExecutor(self._arrow.executor, self._spark.executor, self._max_bytes(config))

    def read(self, scan: Scan, cache: SourceCache | None = None) -> Any:
        """Return the rows of `scan`: a DataFrame, or a stream if there is no session.

        Reads of a few keys in this process keep file footers in `cache`.
        """
        if self._spark is None:
            return self._arrow.read(scan, cache)
        limit = self._max_bytes(scan.view.config)
        plan = self._spark.plan(scan)
        if not plan.merged.slices:
            return self._spark.read(plan)
        whole = plan.all_merged()
        near = next((p for p in (whole, plan) if _is_small(p.merged, limit)), None)
        held = (
            None if near is None else _collect(self._arrow.read(near.merged, cache), limit // _HELD)
        )
        return (
            self._spark.read(plan) if near is None or held is None else self._spark.read(near, held)
        )

    def stream(self, scan: Scan, cache: SourceCache | None = None) -> pa.RecordBatchReader:
        """Return the rows of `scan` as a stream of this process, also if there is a session."""
        return self._arrow.read(scan, cache)

    def changes(self, scan: ChangeScan) -> Any:
        """Return the change rows of `scan`."""
        limit = 0 if self._spark is None else self._max_bytes(scan.reader.view.config)
        if self._spark is None or not scan.groups or scan.cost_bytes > limit:
            return self.main.changes(scan)
        held = _collect(self._arrow.changes(scan), limit // _HELD)
        return self._spark.changes(scan) if held is None else self._spark.changes_held(scan, held)

    def scanned(self, schema: pa.Schema, plan: ScanPlan, scan: Scan) -> Source:
        """Return a source that stages the rows that `plan` finds when the write begins.

        `scan` is the current result of `plan`. Spark stages the rows if there are many, or if only
        Spark can evaluate the predicate.
        """
        is_small = self._spark is not None and scan.cost_bytes <= self._max_bytes(scan.view.config)
        if is_small and (scan.predicate is None or self.is_exact):
            return self._arrow.scanned(schema, plan)
        return self.main.scanned(schema, plan)

    def merged(
        self,
        statement: MergeStatement,
        source: object,
        snapshot: Snapshot,
        merger: Merger | None,
    ) -> Source:
        """Return a source of the rows that a merge writes; an update has no `source` of its own."""
        on_spark = self._spark is not None and (
            statement.on is None or self.for_data(source) is self._spark
        )
        groups = snapshot.view(merger).column_groups
        schema: pa.Schema | None = None
        if statement.on is not None:
            engine = self.for_data(source)
            source = source if engine is self._spark else as_repeatable(source)
            schema = source_schema(engine.columns(source))
        plan = plan_merge(statement, snapshot.config, snapshot.schema, groups, schema)
        if not on_spark:
            here = bind_merge(plan, schema)
            if plan.is_upsert:
                return upserted_source(here, source)
            held = None if schema is None else collect_source(source)
            return merged_source(here, held, merger, self._arrow.read)
        assert self._spark is not None, "checked above"
        merge = _bound(plan, schema)
        near = None if merge is None else self._merged_here(merge, source, snapshot, merger)
        if near is not None:
            return near
        read = plan.read_by_spark if merge is None else merge.read
        return self._spark.merged(plan, source, merger, read)

    def _merged_here(
        self, merge: BoundMerge, source: object, snapshot: Snapshot, merger: Merger | None
    ) -> Source | None:
        """Return the source of a small merge that this process evaluates as Spark would, or None."""
        assert self._spark is not None, "without a session there is no choice"
        limit = self._max_bytes(snapshot.config)
        if not self.is_exact or merge.plan.is_upsert or not limit:
            return None
        rows = None
        if merge.plan.statement.on is not None:
            rows = self._spark.first_rows(source, _MERGED_ROWS)
            if rows is None or rows.nbytes > limit // _HELD:
                return None
            rows = collect_source(rows)
        if rows is None or keys_to_look_up(merge.plan, rows) is None:
            scan = scan_target(merge, snapshot, merger)
            if scan.cost_bytes > limit:
                return None
        return merged_source(merge, rows, merger, self._arrow.read)

    def _max_bytes(self, config: TableConfig) -> int:
        assert self._spark is not None, "only Spark has a driver"
        name = DRIVER_MAX_BYTES.name
        said = self._spark.setting(name)
        return DRIVER_MAX_BYTES.value(config.properties if said is None else {name: said})

    def for_data(self, data: object) -> Engine:
        """Return the engine that stages `data`."""
        if self._spark is not None and self._spark.accepts(data):
            return self._spark
        if type(data).__module__.startswith("pyspark."):
            raise InvalidError(
                "a DataFrame needs a session: open the table with open_table(spark, path)"
            )
        return self._arrow


def _bound(plan: MergePlan, source: pa.Schema | None) -> BoundMerge | None:
    """Return the bound merge, or None if only Spark can evaluate its expressions."""
    try:
        return bind_merge(plan, source)
    except UnsupportedError:
        return None


def _is_small(scan: Scan, limit: int) -> bool:
    """Return whether this process reads a scan faster than Spark.

    With a predicate, few rows are expected to match, so only the bytes to read are limited.
    """
    if scan.predicate is not None:
        return scan.cost_bytes <= limit
    size = sum(file.size_bytes for slice_ in scan.slices for file in slice_.files)
    return scan.cost_bytes <= limit and size * _UNPACKED <= limit // _HELD


def _collect(stream: pa.RecordBatchReader, max_bytes: int) -> pa.Table | None:
    """Read a stream to its end; return None if its rows take more than `max_bytes`."""
    batches: list[pa.RecordBatch] = []
    with stream:
        for batch in stream:
            max_bytes -= batch.nbytes
            if max_bytes < 0:
                return None
            batches.append(batch)
        return pa.Table.from_batches(batches, stream.schema)
