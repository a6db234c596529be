"""A crash or a lost answer at every storage operation of work on a table with column groups."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

from lakebed.api.table import Table
from lakebed.errors import LakebedError
from lakebed.model.clock import ManualClock
from lakebed.storage.objects import memory_storage
from lakebed.storage.storage import Storage
from support.crash_points import Unseen, When, Work
from support.tables import check_no_leftovers, contents, make, reopen

START = 1_700_000_000_000
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("ts", pa.int64()),
        ("name", pa.string()),
        ("score", pa.int64()),
        ("scored_at", pa.int64()),
    ]
)
Row = dict[str, Any]


def clock() -> ManualClock:
    return ManualClock(ms=START)


def rows(*given: Row) -> pa.Table:
    return pa.Table.from_pylist(list(given))


def whole(key: int, at: int) -> Row:
    return {"id": key, "ts": at, "name": f"n{key}", "score": key * 10, "scored_at": at}


def scored(key: int, at: int) -> Row:
    return {"id": key, "score": key * 100, "scored_at": at}


def opened(storage: Storage) -> Table:
    return reopen(storage, clock())


def prepare(storage: Storage) -> None:
    make(
        storage,
        clock(),
        schema=SCHEMA,
        ordering=("ts",),
        partition_by=(),
        table_type="MERGE_ON_READ",
        table_version=None,
        column_groups={"risk": "score;scored_at"},
    )
    opened(storage).bulk_insert(rows(*(whole(key, 1) for key in range(4))))
    opened(storage).create_index("by_score", ["score"])
    opened(storage).update_columns(rows(scored(1, 2), scored(9, 2)))
    opened(storage).delete([{"id": 2}])


def _drop(table: Table) -> None:
    table.drop_index("by_score", if_exists=True)
    table.drop_column_group("risk")


CASES: dict[str, Callable[[Table], object]] = {
    "write to all groups": lambda t: t.upsert(rows(whole(0, 5), whole(7, 5))),
    "write to one group": lambda t: t.upsert(rows(scored(0, 5), scored(8, 5))),
    "delete": lambda t: t.delete([{"id": 0}, {"id": 9}]),
    "compact": lambda t: t.compact(),
    "compact all groups into one": lambda t: t.compact(widen=True),
    "compact one group again": lambda t: t.compact(groups=["risk"]),
    "add a group": lambda t: t.add_column_group("web", "clicks BIGINT, seen BIGINT", "seen"),
    "drop a group": _drop,
}


@dataclass(frozen=True)
class State:
    """What readers see: the rows, and how many each column shows."""

    rows: tuple[str, ...]
    columns: tuple[tuple[str, int], ...]


def state(storage: Storage) -> State:
    table = reopen(storage)
    found = table.read().read_all()
    assert table.count() == found.num_rows
    counts = [(n, table.read(columns=[n]).read_all().num_rows) for n in found.schema.names]
    assert {count for _, count in counts} == {found.num_rows}
    if "score" in found.schema.names and len(table.indexes()):
        for row in found.to_pylist():
            value = row["score"]
            where = "score IS NULL" if value is None else f"score = {value}"
            assert row in table.read(where=where).read_all().to_pylist()
    return State(tuple(sorted(map(str, found.to_pylist()))), tuple(counts))


@functools.cache
def facts(name: str) -> tuple[Work, State, State]:
    start = memory_storage()
    prepare(start)
    work = Work.of(contents(start), lambda storage: CASES[name](opened(storage)))
    return work, state(start), state(work.done)


def recover(storage: Storage, what: str) -> None:
    """Assert that the next writes to either group work, and leave nothing of the dead one."""
    before = {row["id"]: row for row in reopen(storage).read().read_all().to_pylist()}
    opened(storage).update_columns(rows({"id": 50, "ts": 9, "name": "later"}))
    after = {row["id"]: row for row in reopen(storage).read().read_all().to_pylist()}
    assert after.pop(50)["name"] == "later", what
    assert after == before, what
    if not what.startswith("compact"):  # whose plan stays until it is executed
        check_no_leftovers(storage)
    state(storage)
    errors = [f for f in reopen(storage).verify().findings if f.severity.name == "ERROR"]
    assert not errors, (what, errors)


def test_the_cases_change_the_table():
    for name in CASES:
        _, before, after = facts(name)
        assert (before != after) != name.startswith("compact")


@pytest.mark.parametrize("name", CASES)
def test_after_a_crash_at_any_operation_each_group_is_whole(name: str):
    work, before, after = facts(name)
    for storage, what in work.crashes(work.ends()):
        assert state(storage) in (before, after), what
        recover(storage, f"{name}: {what}")


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("name", CASES)
def test_one_operation_without_an_answer_fails_the_call_or_changes_nothing(name: str, when: When):
    work, before, after = facts(name)
    unseen = Unseen()
    for storage, what, failed in work.outages(work.steps(when), refused=LakebedError):
        if not unseen(storage, failed):
            continue
        assert state(storage) in ((before, after) if failed else (after,)), what
        recover(storage, f"{name}: {what}")
