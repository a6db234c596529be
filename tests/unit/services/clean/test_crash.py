"""A crash or an outage at every storage operation of a clean: rows stay, and the next finishes."""

import functools

import pytest

from lakebed.errors import LakebedError
from lakebed.format.names.data_names import parse_data_name
from lakebed.model.clock import ManualClock
from lakebed.model.options.services import CleanOptions
from lakebed.services.clean.execute import clean
from lakebed.storage.objects import memory_storage
from lakebed.storage.storage import Storage
from support.crash_points import Unseen, When, Work
from support.tables import batch, check_no_leftovers, contents, copy_of, make, reopen, user_rows

BY_HAND = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}
OPTIONS = CleanOptions(commits_retained=2, min_age_seconds=0)
START = 1_700_000_000_000


def clock() -> ManualClock:
    return ManualClock(ms=START)


@functools.cache
def facts():
    """Return the clean, the commits with their rows, and the files left."""
    storage = memory_storage()
    table = make(storage, clock(), buckets=1, properties=BY_HAND)
    commits = {}
    for number in range(4):
        done = table.upsert(batch(("a", number, number, "p"), ("b", number, number, "q")))
        commits[done.instant] = user_rows(table)
    done = table.delete_partitions(["q"])
    commits[done.instant] = user_rows(table)
    for number in (8, 9):
        done = table.upsert(batch(("a", number, number, "p")))
        commits[done.instant] = user_rows(table)
    first = min(commits)
    storage.put(f"p/late-0_7-7-7_{int(first) + 1}.parquet", b"left over")
    storage.put(f".hoodie/.heartbeat/{first}", b"")
    work = Work.of(contents(storage), act)
    return work, commits, data_files(work.done)


def act(storage: Storage):
    later = ManualClock(ms=START + 60_000)
    return clean(reopen(storage, later)._target(), OPTIONS)


def data_files(storage: Storage) -> set[str]:
    return {path for path in contents(storage) if parse_data_name(path.rpartition("/")[2])}


def check_readable(storage: Storage, what: str) -> None:
    """Every moment reads as it was or is refused, and the newest two are there."""
    _, commits, _ = facts()
    table = reopen(storage)
    newest = sorted(commits)[-2:]
    assert user_rows(table) == commits[newest[-1]], what
    for instant, rows in commits.items():
        try:
            assert user_rows(table, instant) == rows, what
        except LakebedError:
            assert instant not in newest, what


def recover(storage: Storage, what: str) -> None:
    _, _, left = facts()
    check_readable(storage, what)
    act(storage)
    assert data_files(storage) == left, what
    assert act(storage) is None, what
    check_readable(storage, what)
    for path in contents(storage):
        assert ".heartbeat" not in path, what
        assert "late" not in path, what


def test_the_case_deletes_versions_groups_and_leftovers():
    work, _, left = facts()
    gone = data_files(copy_of(work.objects)) - left
    assert {path.partition("/")[0] for path in gone} == {"p", "q"}
    assert any("late" in path for path in gone)
    assert len(gone) >= 8
    assert len(work.ops) > 30


def test_after_a_crash_at_any_operation_the_next_clean_finishes():
    work, _, _ = facts()
    for storage, what in work.crashes(work.ends()):
        recover(storage, what)


@pytest.mark.parametrize("when", ["before", "after"])
def test_after_an_operation_without_an_answer_the_next_clean_finishes(when: When):
    work, _, _ = facts()
    unseen = Unseen()
    for storage, what, _ in work.outages(work.steps(when)):
        if unseen(storage):
            recover(storage, what)


def test_a_clean_leaves_nothing_but_named_files():
    work, _, _ = facts()
    storage = copy_of(work.objects)
    act(storage)
    names = contents(storage)
    for path in list(names):
        if path.endswith((".clean", ".clean.requested", ".clean.inflight")):
            storage.delete(path)
    check_no_leftovers(storage)
