"""From a DataFrame to staged runs, in one transfer from the JVM to Python."""

from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from lakebed.model.options.writers import DISTRIBUTION
from lakebed.spark.errors import translated
from lakebed.spark.executor import RESULT_DDL, collect_results, run_packed, task_id
from lakebed.spark.session import check_reachable
from lakebed.write.spec.operation import Kind
from lakebed.write.spec.write_spec import WriteSpec
from lakebed.write.staging import LogPolicy, Staged, stage_runs

# The number of rows per file group from which a separate log of each task is worthwhile.
MIN_LOG_ROWS = 2_048


def stage_frame(spark: SparkSession, frame: DataFrame, spec: WriteSpec) -> list[Staged]:
    """Write the rows of `frame` as sorted runs, each task separately."""
    policy = _policy(spec)

    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # There is one row per task, which `collect` returns completely or not at all.
        yield run_packed(lambda: list(stage_runs(batches, spec, task_id(), policy)))

    check_reachable(spec.storage)
    with translated():
        staged = frame.mapInArrow(work, RESULT_DDL)
        return [item for part in collect_results(spark, staged, "stage") for item in part]


def _policy(spec: WriteSpec) -> LogPolicy:
    """Return the policy: tasks write logs directly if their order does not matter.

    The tasks of one write have no order that a log's name could carry. With ordering fields no
    order is needed, and deletes by key are all alike; otherwise the runs of all tasks are merged by
    arrival.
    """
    mode = DISTRIBUTION.value(spec.config.properties)
    alike = spec.operation.kind is Kind.DELETE or all(
        part.rule.ordering_fields for part in spec.parts
    )
    direct = alike and spec.rule.is_associative and not spec.is_partial and mode != "hash"
    return LogPolicy(spec.appends_logs and direct, 0 if mode == "none" else MIN_LOG_ROWS)
