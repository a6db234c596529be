"""Runs tasks on Spark's workers: each takes the number of an item and returns one pickled row.

There is exactly one `collect` per run, directly on the writing DataFrame: any operator above it
could run tasks again or skip some.
"""

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark import TaskContext, cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from lakebed.errors import LakebedError, UnavailableError
from lakebed.model.executor import Item, Report, Result, TaskId
from lakebed.model.packing import cost_of, pack, useful_tasks
from lakebed.spark.errors import pack_error, translated, unpack_error
from lakebed.spark.parallelism import parallelism
from lakebed.spark.progress import reporting
from lakebed.spark.session import check_session

RESULT_DDL = "result binary, failure binary"
_RESULT_SCHEMA = pa.schema([("result", pa.binary()), ("failure", pa.binary())])


class SparkExecutor:
    """The Executor over `mapInArrow`."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def run(
        self,
        task: Callable[[Item, TaskId], Result],
        items: Sequence[Item],
        label: str,
        report: Report | None = None,
    ) -> Iterator[Result]:
        """Run `task` on every item; yield the results when all items are done.

        Spark reports how many tasks are done, not which: `report` gets that share of the items.
        """
        if not items:
            return
        check_session(self._spark)
        # Items are pickled here, so that one that cannot be pickled fails with its own message. A
        # user's merger may be a lambda, which plain pickle rejects.
        packed = cloudpickle.dumps(list(items))

        def work(numbers: Iterator[int]) -> Iterator[pa.RecordBatch]:
            unpacked = pickle.loads(packed)  # noqa: S301 - packed by this driver
            for number in numbers:
                # Items of one task write separate files, so each has its own id.
                id_ = replace(task_id(), partition=number)
                yield run_packed(partial(task, unpacked[number], id_))

        def share(done: int, tasks: int) -> None:
            if report is not None:
                report(len(items) * done // tasks)

        with translated(), reporting(self._spark, share if report else None):
            frame = spread(self._spark, [cost_of(item) for item in items], work, RESULT_DDL)
            results = collect_results(self._spark, frame, label)
        # A missing result would mean a file in no commit, whose rows would be lost silently.
        if len(results) != len(items):
            raise UnavailableError(
                f"{label}: expected {len(items)} results from Spark, found {len(results)}; retry"
            )
        yield from results


def spread(
    spark: SparkSession,
    costs: Sequence[int],
    work: Callable[[Iterator[int]], Iterator[pa.RecordBatch]],
    schema: StructType | str,
) -> DataFrame:
    """Apply `work` to the numbers of items with these `costs`, grouped into tasks by cost.

    The items are pickled with `work`: one stage, no shuffle, and values that items share are
    pickled once.
    """
    packs = pack(costs, useful_tasks(costs, parallelism(spark)))

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        numbers = (number for batch in batches for number in batch.column(0).to_pylist())
        return work(item for number in numbers for item in packs[number])

    return spark.range(0, len(packs), 1, len(packs)).mapInArrow(run, schema)


def task_id() -> TaskId:
    """Return the id of this task attempt; only valid inside a task."""
    context = TaskContext.get()
    assert context is not None, "only inside a Spark task"
    return TaskId(context.partitionId(), context.stageId(), context.taskAttemptId())


def run_packed(work: Callable[[], Any]) -> pa.RecordBatch:
    """Run `work` in a worker; return its result, or a Lakebed error, as one pickled row.

    A Lakebed error is returned as a value: if it were raised, Spark would retry the task four times
    and get the same error. A storage outage is raised, as another attempt may help.
    """
    result = failure = None
    try:
        result = pickle.dumps(work())
    except UnavailableError:
        raise
    except LakebedError as error:
        failure = pack_error(error)
    columns = [pa.array([value], pa.binary()) for value in (result, failure)]
    return pa.RecordBatch.from_arrays(columns, schema=_RESULT_SCHEMA)


def collect_results(spark: SparkSession, frame: DataFrame, label: str) -> list[Any]:
    """Run `frame` once and return the unpickled results; raise the first Lakebed error."""
    tag = f"lakebed-{label}".replace(",", " ")
    spark.addTag(tag)
    try:
        rows = frame.collect()
    finally:
        spark.removeTag(tag)
    for row in rows:
        if row["failure"] is not None:
            raise unpack_error(bytes(row["failure"]))
    return [pickle.loads(bytes(row["result"])) for row in rows]  # noqa: S301 - our own tasks wrote it
