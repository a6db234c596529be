"""A crash or a lost answer at every storage operation of every operation on a merge-on-read table.

Afterwards the table is as it was before or as the operation makes it; the next write works and
leaves nothing of the dead one behind.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

from lakebed.model.clock import ManualClock
from lakebed.storage.objects import memory_storage
from lakebed.storage.storage import Storage
from support.crash_points import Work
from support.machine import memory_of
from support.tables import (
    SCHEMA,
    Rows,
    batch,
    check_files,
    check_no_leftovers,
    contents,
    copy_of,
    make,
    reopen,
    user_rows,
)

START = 1_700_000_000_000
Act = Callable[[Any], object]
FIRST = batch(("a", 1, 1, "p"), ("b", 1, 1, "p"), ("c", 1, 1, "q"), ("d", 1, 9, "q"))
CHANGES = batch(("a", 2, 2, "p"), ("e", 2, 2, "p"), ("d", 2, 0, "q"), ("f", 2, 2, "r"))
LATER = batch(("z", 9, 9, "p"), ("y", 9, 9, "new"), ("x", 9, 9, "q"))
SOME = pa.table({"id": ["a", "c"], "dt": ["p", "q"], "ts": [5, 5], "v": [7, 8]}).cast(
    pa.schema([SCHEMA.field(name) for name in ("id", "dt", "ts", "v")])
)
MARKED = CHANGES.append_column("_hoodie_is_deleted", pa.array([True, False, True, False]))


def in_two_flushes(act: Act) -> Act:
    """Return each batch of the input a flush, and so a log file, of its own."""

    def flushing(table: Any) -> None:
        with memory_of(table, 1):
            act(table)

    return flushing


def stream(*tables: pa.Table) -> pa.RecordBatchReader:
    batches = [found for table in tables for found in table.to_batches()]
    return pa.RecordBatchReader.from_batches(tables[0].schema, batches)


EFFECTS = ("put", "delete", "open_write", "close", "abort", "make_folder")
OPERATIONS: dict[str, Act] = {
    "bulk_insert": lambda t: t.bulk_insert(CHANGES),
    "insert": lambda t: t.insert(batch(("g", 3, 3, "p"), ("h", 3, 3, "s"))),
    "upsert": lambda t: t.upsert(CHANGES),
    "upsert in two flushes": in_two_flushes(
        lambda t: t.upsert(stream(CHANGES, batch(("a", 3, 3, "p"), ("f", 3, 3, "r"))))
    ),
    "upsert with deletes": lambda t: t.upsert(MARKED),
    "update_columns": lambda t: t.update_columns(SOME),
    "delete by keys": lambda t: t.delete([{"id": "a", "dt": "p"}, {"id": "d", "dt": "q"}]),
    "delete by predicate": lambda t: t.delete(where="ts = 1 AND id <> 'b'"),
    "insert_overwrite": lambda t: t.insert_overwrite(batch(("n", 4, 4, "p"), ("m", 4, 4, "r"))),
    "insert_overwrite of all": lambda t: t.insert_overwrite(
        batch(("n", 4, 4, "p")), whole_table=True
    ),
    "delete_partitions": lambda t: t.delete_partitions(["q"]),
}
KINDS: dict[str, dict[str, Any]] = {
    "inline logs": {"table_type": "MERGE_ON_READ", "table_version": 9},
    "native logs": {"table_type": "MERGE_ON_READ", "table_version": 10},
    "copy on write": {"table_type": "COPY_ON_WRITE"},
    "simple index": {"table_type": "MERGE_ON_READ", "index": "simple"},
    "global index": {"table_type": "MERGE_ON_READ", "index": "global_simple"},
}


@dataclass(frozen=True)
class Case:
    """A kind of table, and what is done to it."""

    kind: str
    operation: str


# Every operation on inline logs; elsewhere those that go another way there.
CASES = [
    *(Case("inline logs", name) for name in OPERATIONS),
    Case("native logs", "upsert with deletes"),
    Case("native logs", "upsert in two flushes"),
    Case("copy on write", "upsert with deletes"),
    Case("copy on write", "update_columns"),
    Case("simple index", "upsert"),
    Case("global index", "upsert"),
]


def named(case: Case) -> str:
    return f"{case.operation}, {case.kind}"


def clock(count: int) -> ManualClock:
    # A process that comes later may have a clock that is behind, but its own random ids.
    made = ManualClock(ms=START)
    for _ in range(count):
        made.new_uuid()
    return made


def act(case: Case, storage: Storage) -> None:
    OPERATIONS[case.operation](reopen(storage, clock(20)))


@functools.cache
def prepared(kind: str) -> dict[str, bytes]:
    """Return the objects of a table with base files and a log."""
    storage = memory_storage()
    table = make(storage, clock(0), ordering=("ts",), **KINDS[kind])
    table.bulk_insert(FIRST)
    table.upsert(batch(("b", 2, 3, "p")))
    return contents(storage)


@functools.cache
def facts(case: Case) -> tuple[Work, Rows, Rows]:
    """Return the work, and the rows before and after it."""
    objects = prepared(case.kind)
    work = Work.of(objects, functools.partial(act, case))
    check_no_leftovers(work.done)
    return work, user_rows(reopen(copy_of(objects))), user_rows(reopen(work.done))


def recover(storage: Storage, rows: Rows, what: str) -> None:
    """Assert that the next write works, is right, and leaves nothing of the dead one."""
    table = reopen(storage, clock(40))
    table.upsert(LATER)
    added = {(row["dt"], row["id"]): row for row in LATER.to_pylist()}
    assert user_rows(reopen(storage)) == {**rows, **added}, what
    check_no_leftovers(storage)
    check_files(table)


def test_every_operation_changes_the_table():
    for case in CASES:
        work, before, after = facts(case)
        assert before != after, case
        assert len(work.points("after", EFFECTS)) >= 3, case


@pytest.mark.parametrize("case", CASES, ids=named)
def test_after_a_crash_at_any_operation_the_table_is_whole(case: Case):
    work, before, after = facts(case)
    seen = []
    for storage, what in work.crashes(work.ends()):
        now = user_rows(reopen(storage))
        assert now in (before, after), what
        seen.append(now == after)
        recover(storage, now, what)
    # It becomes visible once, and late.
    assert seen == sorted(seen)
    assert not seen[0]


@pytest.mark.parametrize("case", CASES, ids=named)
def test_an_operation_without_an_answer_fails_the_call_or_changes_nothing(case: Case):
    work, before, after = facts(case)
    # A seventh is enough of the reads, which are many and alike.
    points = [point for point in work.points("before", EFFECTS, every=7) if point[0] % 2]
    points += [point for point in work.points("after", EFFECTS, every=7) if point[0] % 2 == 0]
    for storage, what, failed in work.outages(points):
        assert user_rows(reopen(storage)) == (before if failed else after), what
        if failed:
            check_no_leftovers(storage)
