"""A crash, an error or a lost answer at every single storage operation of every write.

Afterwards the table is as it was before or as the operation makes it, never in between;
the next write works and leaves nothing of the dead one behind.
"""

import functools
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

from lakebed.errors import LakebedError, UnavailableError
from lakebed.format.names.instant_name import InstantName, State
from lakebed.model.clock import ManualClock
from lakebed.storage.objects import memory_storage
from lakebed.storage.storage import Storage
from lakebed.table.config.properties_file import load_config
from support.crash_points import Unseen, When, Work
from support.faulty import Silent
from support.indexes import add_indexes, check_indexes
from support.pairs import pairwise
from support.tables import (
    SCHEMA,
    Rows,
    batch,
    check_files,
    check_no_leftovers,
    contents,
    copy_of,
    exists,
    make,
    reopen,
    user_rows,
)

START = 1_700_000_000_000
FIRST = batch(("a", 1, 1, "p"), ("b", 1, 1, "p"), ("c", 1, 1, "p"), ("d", 1, 1, "q"))
CHANGES = batch(("a", 2, 2, "p"), ("e", 2, 2, "p"), ("d", 2, 0, "q"))
NEW_PARTITIONS = batch(("a", 3, 3, "r"), ("f", 3, 3, "s"), ("b", 3, 3, "p"))
LATER = batch(("z", 9, 9, "p"), ("y", 9, 9, "new"))


def clock() -> ManualClock:
    # The clock of the process that recovers starts no later: instants must still grow.
    return ManualClock(ms=START)


def without_index(storage: Storage) -> None:
    """Leave a table as another engine would: with files, but without a word of its index."""
    path = ".hoodie/hoodie.properties"
    lines = storage.read(path).decode().splitlines(keepends=True)
    kept = [line for line in lines if "index" not in line]
    assert len(kept) < len(lines)
    storage.put(path, "".join(kept).encode())


def prepare_nothing(storage: Storage) -> None:
    pass


def prepare_empty(storage: Storage) -> None:
    # Every commit gets a run of the file index.
    make(storage, clock(), ordering=("ts",), properties={"lakebed.file.index.min.files": "1"})


def prepare_filled(storage: Storage) -> None:
    prepare_empty(storage)
    reopen(storage, clock()).bulk_insert(FIRST)
    add_indexes(reopen(storage, clock()))


def prepare_without_index(storage: Storage) -> None:
    prepare_filled(storage)
    without_index(storage)


def prepare_change_data(storage: Storage) -> None:
    properties = {"hoodie.table.cdc.enabled": "true"}
    make(storage, clock(), ordering=("ts",), properties=properties)
    reopen(storage, clock()).bulk_insert(FIRST)


def prepare_record_index(storage: Storage) -> None:
    make(storage, clock(), ordering=("ts",), index="record")
    reopen(storage, clock()).bulk_insert(FIRST)


def prepare_lost_record_index(storage: Storage) -> None:
    prepare_record_index(storage)
    storage.delete(".hoodie/lakebed/record_index/manifest.json")


def create(storage: Storage) -> None:
    make(storage, clock(), ordering=("ts",))


def write(storage: Storage, operation: str, rows: pa.Table, **index: Any) -> None:
    getattr(reopen(storage, clock()), operation)(rows, **index)


@dataclass(frozen=True)
class Case:
    """A table, and what is done to it."""

    prepare: Callable[[Storage], None]
    act: Callable[[Storage], None]


CASES = {
    "create": Case(prepare_nothing, create),
    "bulk_insert into an empty table": Case(
        prepare_empty, lambda s: write(s, "bulk_insert", FIRST)
    ),
    "insert into existing file groups": Case(prepare_filled, lambda s: write(s, "insert", CHANGES)),
    "insert into new partitions": Case(
        prepare_filled, lambda s: write(s, "insert", NEW_PARTITIONS)
    ),
    "insert with change data": Case(prepare_change_data, lambda s: write(s, "insert", CHANGES)),
    "insert nothing": Case(prepare_filled, lambda s: write(s, "insert", SCHEMA.empty_table())),
    "upsert with a record index": Case(
        prepare_record_index, lambda s: write(s, "upsert", NEW_PARTITIONS)
    ),
    "upsert that builds the record index again": Case(
        prepare_lost_record_index, lambda s: write(s, "upsert", CHANGES)
    ),
    "first write that stores the index": Case(
        prepare_without_index, lambda s: write(s, "insert", CHANGES, index="bucket", buckets=2)
    ),
}

WHENS: tuple[When, ...] = ("before", "after")
OUTAGES = pairwise(
    list(itertools.product([name for name in CASES if name != "create"], WHENS, [2, 1_000_000]))
)
State_ = tuple[bool, Rows]


def state(storage: Storage) -> State_:
    """Return whether there is a table, and its rows."""
    return (True, user_rows(reopen(storage))) if exists(storage) else (False, {})


@functools.cache
def facts(name: str) -> tuple[Work, State_, State_]:
    """Return the work, and the state before and after it."""
    case = CASES[name]
    start = memory_storage()
    case.prepare(start)
    work = Work.of(contents(start), case.act)
    check_no_leftovers(work.done)
    return work, state(start), state(work.done)


def completed(storage: Storage) -> int:
    names = [entry.path.rpartition("/")[2] for entry in storage.list(".hoodie/timeline")]
    parsed = [InstantName.parse(name) for name in names]
    return sum(found is not None and found.state is State.COMPLETED for found in parsed)


def commit_operation(ops: tuple[str, ...]) -> int:
    """Return the number of the operation that makes a write visible."""
    found = [n for n, op in enumerate(ops, 1) if op.startswith("put") and op.endswith(".commit")]
    assert len(found) == 1
    return found[0]


def recover(storage: Storage, now: State_, what: str) -> None:
    """Assert that the next write works, is right, and leaves nothing of the dead one."""
    is_table, rows = now
    if not is_table:
        create(storage)
    index = {} if load_config(storage).index else {"index": "bucket", "buckets": 2}
    table = reopen(storage, clock())
    table.insert(LATER, **index)
    added = {(r["dt"], r["id"]): r for r in LATER.to_pylist()}
    assert user_rows(reopen(storage)) == {**rows, **added}, what
    check_no_leftovers(storage)
    check_files(table)
    check_indexes(reopen(storage), covered=True)


def test_no_crash_leaves_anything_that_one_after_a_change_does_not_leave():
    work, _, _ = facts("insert into existing file groups")
    every = work.points("before") + work.points("after")
    left, ends = (
        {frozenset(contents(storage).items()) for storage, _ in work.crashes(points)}
        for points in (every, work.ends())
    )
    assert left == ends
    assert len(ends) > 5


def test_the_cases_do_what_their_names_say():
    for name in CASES:
        work, before, after = facts(name)
        assert (before != after) or name == "insert nothing"
        assert len(work.ops) >= 2
    assert sum(len(facts(name)[0].ops) for name in CASES) > 150


@pytest.mark.parametrize("name", CASES)
def test_after_a_crash_at_any_operation_the_table_is_whole(name: str):
    work, before, after = facts(name)
    commits = completed(copy_of(work.objects))
    for storage, what in work.crashes(work.ends()):
        now = state(storage)
        assert now in (before, after), what
        if name != "create":
            assert now == (after if completed(storage) > commits else before), what
        recover(storage, now, what)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("name", CASES)
def test_one_operation_without_an_answer_fails_the_call_or_changes_nothing(name: str, when: When):
    work, before, after = facts(name)
    failures, unseen = 0, Unseen()
    for storage, what, failed in work.outages(work.steps(when)):
        failures += failed
        if not unseen(storage, failed):
            continue
        now = state(storage)
        if failed:
            lost = name == "create" and when == "after"
            assert now == before or (lost and now == after), what
            check_no_leftovers(storage)
        else:
            # Temporary runs may stay when the sweep fails; the next write takes them.
            assert now == after, what
        recover(storage, now, what)
    assert failures > 0
    assert name == "create" or failures < len(work.ops), "the sweep after a commit must not fail it"


@pytest.mark.parametrize(("name", "when", "length"), OUTAGES)
def test_after_an_outage_of_several_operations_the_table_is_whole(
    name: str, when: When, length: int
):
    work, before, after = facts(name)
    unseen = Unseen()
    for storage, what, failed in work.outages(work.steps(when), length, refused=LakebedError):
        if not unseen(storage, failed):
            continue
        now = state(storage)
        assert now in ((before, after) if failed else (after,)), what
        recover(storage, now, what)


@pytest.mark.parametrize("name", [name for name in CASES if name != "create"])
def test_a_commit_whose_answer_is_lost_is_not_taken_back(name: str):
    work, _, after = facts(name)
    storage = copy_of(work.objects)
    work.act(Silent(storage, commit_operation(work.ops), "after"))
    assert state(storage) == after
    check_no_leftovers(storage)


@pytest.mark.parametrize("name", [name for name in CASES if name != "create"])
def test_a_commit_in_doubt_is_left_to_the_timeline(name: str):
    work, _, after = facts(name)
    storage = copy_of(work.objects)
    with pytest.raises(UnavailableError):
        work.act(Silent(storage, commit_operation(work.ops), "after", 2))
    assert state(storage) == after, "it had taken effect, so its rows are there"
    recover(storage, after, name)
