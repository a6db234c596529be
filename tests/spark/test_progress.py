"""Progress of Spark jobs: it moves as tasks complete, ends with the job, and breaks nothing."""

import pathlib
import threading
import time
from dataclasses import dataclass
from types import SimpleNamespace

import pytest

from lakebed.errors import CorruptError
from lakebed.spark.executor import SparkExecutor
from lakebed.spark.progress import reporting

WAIT_SECONDS = 120


@dataclass(frozen=True)
class Item:
    """Work that is worth a task of its own, and is done once a file is there."""

    number: int
    awaited: str | None = None
    cost_bytes: int = 64 << 20


def work(item: Item, task: object) -> int:
    end = time.monotonic() + WAIT_SECONDS
    while item.awaited is not None and not pathlib.Path(item.awaited).exists():
        assert time.monotonic() < end, "no progress was reported"
        time.sleep(0.01)
    return item.number


def polling() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if "_poll" in thread.name]


def test_tasks_that_are_done_are_reported_while_others_run(spark, tmp_path):
    seen = tmp_path / "seen"
    reported = []

    def report(done: int) -> None:
        reported.append(done)
        if done:
            seen.touch()

    # The first waits for a report of the others.
    items = [Item(0, str(seen)), *(Item(number) for number in range(1, 4))]
    results = list(SparkExecutor(spark).run(work, items, "wait", report))
    assert sorted(results) == [0, 1, 2, 3]
    first = next(done for done in reported if done)
    assert 0 < first < len(items)
    assert reported == sorted(reported)
    assert polling() == []
    assert not list(spark.sparkContext.getJobTags())


def fail(item: Item, task: object) -> int:
    work(item, task)
    raise CorruptError("bad")


def test_a_report_that_fails_leaves_the_job_alone_and_a_job_that_fails_ends_the_reports(
    spark, tmp_path
):
    asked = tmp_path / "asked"

    def report(done: int) -> None:
        asked.touch()
        raise RuntimeError("the terminal is gone")

    assert list(SparkExecutor(spark).run(work, [Item(7, str(asked))], "wait", report)) == [7]
    asked.unlink()
    with pytest.raises(CorruptError, match="bad"):
        list(SparkExecutor(spark).run(fail, [Item(7, str(asked))], "wait", report))
    assert polling() == []
    assert not list(spark.sparkContext.getJobTags())


def test_a_session_without_a_status_is_not_watched():
    with reporting(SimpleNamespace(), lambda done, tasks: None):
        assert polling() == []
