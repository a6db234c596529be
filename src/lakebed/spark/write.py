"""From a DataFrame to staged runs, in one crossing from the JVM to Python."""

from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from lakebed.spark.errors import translated
from lakebed.spark.executor import RESULT_DDL, collect_results, run_packed, task_id
from lakebed.spark.session import check_reachable
from lakebed.write.spec import WriteSpec
from lakebed.write.staging import Segment, stage_runs


def stage_frame(spark: SparkSession, frame: DataFrame, spec: WriteSpec) -> list[Segment]:
    """Write the rows of `frame` as sorted temporary runs, each task for itself."""

    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # One row per task, which `collect` gives whole or not at all.
        yield run_packed(lambda: list(stage_runs(batches, spec, task_id())))

    check_reachable(spec.storage)
    with translated():
        staged = frame.mapInArrow(work, RESULT_DDL)
        return [segment for part in collect_results(spark, staged, "stage") for segment in part]
