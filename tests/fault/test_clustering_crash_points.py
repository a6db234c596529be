"""A crash or a lost answer at every storage operation of a clustering.

Its rows are the same before and after, whatever happens; the next writer is not in the way of a
dead clustering for long, and leaves nothing of it behind.
"""

import functools

import pytest

from lakebed.api.table import Table
from lakebed.errors import ConflictError
from lakebed.format.names.instant_name import Action
from lakebed.model.clock import ManualClock
from lakebed.storage.objects import memory_storage
from lakebed.storage.storage import Storage
from lakebed.timeline.active import load_timeline
from support.crash_points import Unseen, When, Work
from support.tables import (
    Rows,
    batch,
    check_files,
    check_no_leftovers,
    contents,
    make,
    reopen,
    rows_of,
    user_rows,
)

START = 1_700_000_000_000
EXPIRED = START + 3_600_000
EFFECTS = ("put", "delete", "open_write", "close", "abort")
PROPERTIES = {
    "hoodie.parquet.small.file.limit": "0",
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
}
# Two files of each partition.
OPTIONS = {"hoodie.clustering.plan.strategy.target.file.max.bytes": "200"}
LATER = batch(("a", 9, 9, "p"), ("z", 9, 9, "p"), ("C", 9, 9, "q"))
KINDS = ["COPY_ON_WRITE", "MERGE_ON_READ"]


@functools.cache
def facts(kind: str) -> tuple[Work, Rows]:
    """Return the clustering of a table that is worth it, and the table's rows."""
    storage = memory_storage()
    table = make(
        storage,
        ManualClock(ms=START),
        table_type=kind,
        index="simple",
        ordering=("ts",),
        properties=PROPERTIES,
    )
    for lower in ("ace", "bd"):
        rows = [(key, 1, 1, "p") for key in lower] + [(key.upper(), 1, 1, "q") for key in lower]
        table.bulk_insert(batch(*rows))
    table.upsert(batch(("a", 2, 2, "p"), ("C", 2, 2, "q")))
    table.delete([{"id": "b", "dt": "p"}])
    return Work.of(contents(storage), act), user_rows(table)


def act(storage: Storage) -> None:
    """Cluster in a process of its own, with random ids of its own."""
    clock = ManualClock(ms=START, name="first")
    for _ in range(50):
        clock.new_uuid()
    assert reopen(storage, clock).cluster(options=OPTIONS) is not None


def next_process(storage: Storage, ms: int = START, *, knows: bool = True) -> Table:
    """Open the table in another process, which may know that the first one is dead."""
    ended = frozenset({"first"}) if knows else frozenset()
    clock = ManualClock(ms=ms, name="second", ended=ended)
    for _ in range(100):
        clock.new_uuid()
    return reopen(storage, clock)


def recover(table: Table, rows: Rows, what: str) -> None:
    """Assert that the next write works, is right, and leaves nothing of the dead clustering."""
    table.upsert(LATER)
    added = {(row["dt"], row["id"]): row for row in LATER.to_pylist()}
    assert user_rows(reopen(table._storage)) == {**rows, **added}, what
    assert not load_timeline(table._storage).pending(), what
    check_no_leftovers(table._storage)
    check_files(table)


@pytest.mark.parametrize("kind", KINDS)
def test_the_case_writes_several_files(kind: str):
    work, _ = facts(kind)
    assert sum(op.startswith("close ") for op in work.ops) >= 4


@pytest.mark.parametrize("kind", KINDS)
def test_after_a_crash_behind_any_change_rows_stay_and_the_next_writer_goes_on(kind: str):
    work, rows = facts(kind)
    completed = []
    for storage, what in work.crashes(work.ends()):
        assert user_rows(reopen(storage)) == rows, what
        last = load_timeline(storage).commits[-1]
        completed.append(last.plan_action is Action.CLUSTERING)
        recover(next_process(storage), rows, what)
    # It becomes visible once, and late.
    assert completed == sorted(completed)
    assert not completed[0]


def test_a_dead_clustering_is_in_the_way_until_its_heartbeat_runs_out():
    work, rows = facts("MERGE_ON_READ")
    storage, _ = next(work.crashes(work.points("after", ("close ",))))
    with pytest.raises(ConflictError, match=r"in the clustering \d+, which is pending"):
        next_process(storage, START + 1000, knows=False).upsert(LATER)
    assert user_rows(reopen(storage)) == rows
    recover(next_process(storage, EXPIRED, knows=False), rows, "after the heartbeat")


def test_clustering_again_after_a_crash_finishes_the_work():
    work, rows = facts("MERGE_ON_READ")
    for storage, what in work.crashes(work.points("after", ("put", "close"))):
        table = next_process(storage)
        table.cluster()
        found = rows_of(reopen(storage))
        assert found.keys() == rows.keys(), what
        assert len({row["_hoodie_file_name"] for row in found.values()}) == 2, what
        check_no_leftovers(storage)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("when", ["before", "after"])
def test_an_operation_without_an_answer_fails_the_call_or_changes_nothing(kind: str, when: When):
    work, rows = facts(kind)
    failures, unseen = 0, Unseen()
    # A fifth is enough of the reads, which are many and alike.
    for storage, what, failed in work.outages(work.points(when, EFFECTS, every=5)):
        failures += failed
        if not unseen(storage):
            continue
        assert user_rows(reopen(storage)) == rows, what
        # Also a writer that does not know that the process is over.
        recover(next_process(storage, knows=False), rows, what)
    assert failures > 3
