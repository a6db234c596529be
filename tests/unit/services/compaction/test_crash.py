"""A crash or an outage at every storage operation of a compaction: rows stay, the next finishes."""

import functools
import pickle
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from lakebed.model.clock import ManualClock
from lakebed.model.executor import LocalExecutor, TaskId
from lakebed.model.options.services import CompactionOptions
from lakebed.services.compaction.execute import execute_compaction, pending_compactions
from lakebed.services.compaction.schedule import schedule_compaction
from lakebed.storage.local import LocalStorage
from lakebed.storage.objects import memory_storage
from lakebed.storage.storage import Storage
from lakebed.table.snapshot import load_snapshot
from support.crash_points import Unseen, When, Work
from support.tables import (
    Rows,
    batch,
    check_files,
    check_no_leftovers,
    contents,
    make,
    reopen,
    user_rows,
)

BY_HAND = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}
OPTIONS = CompactionOptions(blocks_threshold=2, log_ratio=2.0)
START = 1_700_000_000_000
LATER = START + 3_600_000


def history(storage: Storage) -> None:
    """Make one file group with large logs and one with small ones, so that hybrid does both."""
    table = make(
        storage,
        ManualClock(ms=START),
        table_type="MERGE_ON_READ",
        ordering=("ts",),
        buckets=1,
        properties=BY_HAND,
    )
    rows = ((f"k{n:04d}", n * 7919 % 2**30, 1, "q") for n in range(500))
    table.upsert(batch(("a", 1, 1, "p"), ("b", 1, 1, "p"), *rows))
    for ts in (2, 3):
        table.upsert(batch(("a", ts, ts, "p"), ("k0000", ts, ts, "q")))
    table.delete([{"id": "b", "dt": "p"}, {"id": "k0001", "dt": "q"}])


@functools.cache
def facts(mode: str) -> tuple[Work, Rows]:
    storage = memory_storage()
    history(storage)
    work = Work.of(contents(storage), functools.partial(act, mode=mode, now=START + 60_000))
    return work, user_rows(reopen(storage))


def act(storage: Storage, mode: str, now: int) -> None:
    """Plan if nothing is planned, and carry out what is."""
    table = reopen(storage, ManualClock(ms=now))
    snapshot = load_snapshot(storage, table.config)
    if not pending_compactions(snapshot):
        schedule_compaction(table._target(), OPTIONS, mode, force=True)
    for pending in pending_compactions(load_snapshot(storage, table.config)):
        execute_compaction(table._target(), pending)


def recover(storage: Storage, mode: str, what: str) -> None:
    _, rows = facts(mode)
    assert user_rows(reopen(storage)) == rows, what
    act(storage, mode, LATER)
    table = reopen(storage)
    assert user_rows(table) == rows, what
    assert not pending_compactions(load_snapshot(storage, table.config)), what
    check_files(table)
    check_no_leftovers(storage)


CHANGES = ("put", "delete", "open_write", "close")


def test_the_case_makes_a_base_file_and_a_log():
    for mode, kinds in (("full", "bb"), ("log", "ll"), ("hybrid", "bl")):
        work, _ = facts(mode)
        closed = [op for op in work.ops if op.startswith("close")]
        found = "".join(sorted("l" if ".log." in op else "b" for op in closed))
        assert found == kinds, work.ops
        assert work.objects


@pytest.mark.parametrize("mode", ["full", "log", "hybrid"])
def test_after_a_crash_behind_any_change_the_next_compaction_finishes(mode: str):
    work, _ = facts(mode)
    for storage, what in work.crashes(work.ends()):
        recover(storage, mode, what)


@pytest.mark.parametrize("when", ["before", "after"])
def test_after_an_operation_without_an_answer_the_next_compaction_finishes(when: When):
    work, _ = facts("hybrid")
    # Of those that only look a third will do.
    points = work.points(when, CHANGES, every=3 if when == "before" else 0)
    unseen = Unseen()
    for storage, what, _ in work.outages(points):
        if unseen(storage):
            recover(storage, "hybrid", what)


class PicklingExecutor:
    """Hands tasks over as Spark does: as bytes, and some of them twice."""

    def run(
        self, task: Callable[[Any, TaskId], Any], items: Sequence[Any], label: str
    ) -> Iterator[Any]:
        del label
        for number, item in enumerate(items):
            sent = pickle.dumps((task, item))
            for attempt in range(2):
                there, work = pickle.loads(sent)
                result = pickle.dumps(there(work, TaskId(number, 7, attempt)))
            yield pickle.loads(result)


@pytest.mark.parametrize("mode", ["full", "log", "hybrid"])
def test_tasks_of_another_process_that_run_twice_leave_one_result(mode: str, tmp_path: Path):
    storage = LocalStorage(tmp_path)
    history(storage)
    table = reopen(storage, ManualClock(ms=START + 60_000))
    rows = user_rows(table)
    table._engines.main.executor = PicklingExecutor()
    planned = schedule_compaction(table._target(), OPTIONS, mode, force=True)
    assert planned is not None
    target = table._target()
    assert not isinstance(target.executor, LocalExecutor)
    execute_compaction(target, planned.instant)
    assert user_rows(reopen(storage)) == rows
    check_no_leftovers(storage)
