"""A crash or an outage at every storage operation of a clean: rows stay, and the next finishes."""

import contextlib
import functools
from typing import Literal

import pytest

from lakebed.errors import LakebedError, UnavailableError
from lakebed.format.names import parse_data_name
from lakebed.model.clock import ManualClock
from lakebed.services.clean.execute import clean
from lakebed.services.clean.options import CleanOptions
from lakebed.storage.objects import memory_storage
from lakebed.storage.storage import Storage
from support.faulty import FaultyStorage, SimulatedCrash
from support.tables import batch, check_no_leftovers, contents, copy_of, make, reopen, user_rows

BY_HAND = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}
OPTIONS = CleanOptions(commits_retained=2, min_age_seconds=0)
START = 1_700_000_000_000
When = Literal["before", "after"]


def clock() -> ManualClock:
    return ManualClock(ms=START)


@functools.cache
def facts():
    """Give the objects at the start, the commits with their rows, the files left, the operations."""
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
    objects = contents(storage)
    dry = FaultyStorage(copy_of(objects))
    act(dry)
    return objects, commits, data_files(dry.inner), tuple(dry.ops)


def act(storage: Storage):
    later = ManualClock(ms=START + 60_000)
    return clean(reopen(storage, later)._target(), OPTIONS)


def data_files(storage: Storage) -> set[str]:
    return {path for path in contents(storage) if parse_data_name(path.rpartition("/")[2])}


def check_readable(storage: Storage, what: str) -> None:
    """Every moment reads as it was or is refused, and the newest two are there."""
    _, commits, _, _ = facts()
    table = reopen(storage)
    newest = sorted(commits)[-2:]
    assert user_rows(table) == commits[newest[-1]], what
    for instant, rows in commits.items():
        try:
            assert user_rows(table, instant) == rows, what
        except LakebedError:
            assert instant not in newest, what


def recover(storage: Storage, what: str) -> None:
    _, _, left, _ = facts()
    check_readable(storage, what)
    act(storage)
    assert data_files(storage) == left, what
    assert act(storage) is None, what
    check_readable(storage, what)
    for path in contents(storage):
        assert ".heartbeat" not in path, what
        assert "late" not in path, what


def test_the_case_deletes_versions_groups_and_leftovers():
    objects, _, left, ops = facts()
    gone = data_files(copy_of(objects)) - left
    assert {path.partition("/")[0] for path in gone} == {"p", "q"}
    assert any("late" in path for path in gone)
    assert len(gone) >= 8
    assert len(ops) > 30


def steps(ops: tuple[str, ...], when: When) -> list[tuple[int, str]]:
    """Number the operations; after one that changes nothing all is as before the next."""
    changes = ("put", "delete", "close")
    numbered = enumerate(ops, 1)
    return [(n, op) for n, op in numbered if when == "before" or op.startswith(changes)]


@pytest.mark.parametrize("when", ["before", "after"])
def test_after_a_crash_at_any_operation_the_next_clean_finishes(when: When):
    objects, _, _, ops = facts()
    for n, op in steps(ops, when):
        storage = copy_of(objects)
        with pytest.raises(SimulatedCrash):
            act(FaultyStorage(storage, n, when))
        recover(storage, f"crash {when} operation {n}, {op}")


class Flaky(FaultyStorage):
    """Does not answer one operation; the process lives on."""

    def run(self, op, act):
        with self._lock:
            self.ops.append(op)
            fails = len(self.ops) == self.fail_at
        if fails and self.when == "before":
            raise UnavailableError(f"no answer: {op}")
        result = act()
        if fails:
            raise UnavailableError(f"answer lost: {op}")
        return result


@pytest.mark.parametrize("when", ["before", "after"])
def test_after_an_operation_without_an_answer_the_next_clean_finishes(when: When):
    objects, _, _, ops = facts()
    for n, op in steps(ops, when):
        storage = copy_of(objects)
        with contextlib.suppress(UnavailableError):
            act(Flaky(storage, n, when))
        recover(storage, f"no answer {when} operation {n}, {op}")


def test_a_clean_leaves_nothing_but_named_files():
    objects, _, _, _ = facts()
    storage = copy_of(objects)
    act(storage)
    names = contents(storage)
    for path in list(names):
        if path.endswith((".clean", ".clean.requested", ".clean.inflight")):
            storage.delete(path)
    check_no_leftovers(storage)
