"""The progress of a Spark job: its completed tasks, from Spark's status while the job runs.

The status may be late or missing, and a Spark Connect session has none. Progress is only for
display: whatever goes wrong with it, the job continues.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from typing import Final

from pyspark import SparkContext
from pyspark.sql import SparkSession

POLL_SECONDS: Final = 0.5
_END_SECONDS: Final = 5.0

TaskReport = Callable[[int, int], None]
"""Called with the number of completed tasks and the number of all tasks."""

_numbers = count()


@contextmanager
def reporting(spark: SparkSession, report: TaskReport | None) -> Iterator[None]:
    """Report the tasks of the jobs that this thread starts in the block; None reports nothing."""
    context = None if report is None else _context(spark)
    if report is None or context is None:
        yield
        return
    # A tag rather than a job group: the group belongs to the caller, which may cancel jobs by it.
    tag = f"lakebed-progress-{next(_numbers)}"
    ended = threading.Event()
    poll = threading.Thread(target=_poll, args=(context, tag, report, ended), daemon=True)
    with suppress(Exception):
        context.addJobTag(tag)
        poll.start()
    try:
        yield
    finally:
        ended.set()
        if poll.ident is not None:
            poll.join(_END_SECONDS)
        with suppress(Exception):
            context.removeJobTag(tag)


def _context(spark: SparkSession) -> SparkContext | None:
    with suppress(Exception):
        return spark.sparkContext
    return None


def _poll(context: SparkContext, tag: str, report: TaskReport, ended: threading.Event) -> None:
    with suppress(Exception):
        while not ended.wait(POLL_SECONDS):
            done, tasks = _tasks(context, tag)
            if tasks and not ended.is_set():
                report(done, tasks)


def _tasks(context: SparkContext, tag: str) -> tuple[int, int]:
    done = tasks = 0
    tracker = context.statusTracker()
    # Python's tracker knows job groups only, Scala's knows tags too.
    for job in context._jsc.sc().statusTracker().getJobIdsForTag(tag):  # noqa: SLF001
        info = tracker.getJobInfo(job)
        for number in () if info is None else info.stageIds:
            stage = tracker.getStageInfo(number)
            if stage is not None:
                done += stage.numCompletedTasks
                tasks += stage.numTasks
    return done, tasks
