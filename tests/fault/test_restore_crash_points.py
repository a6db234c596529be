"""A crash at every storage operation of rollback, savepoint, restore, upgrade and downgrade.

Afterwards readers see the table as it was before or as it is after (of a restore: as of one of
the commits that it takes back), and the same call, or the next writer, finishes the work.
"""

import contextlib
import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from lakebed.api.table import Table
from lakebed.commit.hold import hold_table
from lakebed.errors import NotFoundError
from lakebed.format.names.instant_name import Action
from lakebed.model.clock import ManualClock
from lakebed.services.compaction.execute import execute_compaction
from lakebed.services.compaction.schedule import schedule_compaction
from lakebed.services.restore.execute import restore
from lakebed.services.rollback.execute import finish_pending, rollback
from lakebed.services.savepoint.execute import delete_savepoint, savepoint, savepoints
from lakebed.services.upgrade.execute import downgrade, upgrade
from lakebed.services.upgrade.facts import native_logs
from lakebed.storage.objects import memory_storage
from lakebed.storage.storage import Storage
from lakebed.table.config.properties_file import load_config
from lakebed.table.snapshot import load_snapshot
from lakebed.timeline.active import load_timeline
from lakebed.timeline.timeline import WRITE_ACTIONS
from lakebed.write.pipeline import WriteTarget
from support.crash_points import Unseen, When, Work
from support.tables import Rows, batch, contents, copy_of, make, reopen, user_rows

START = 1_700_000_000_000
FIRST = batch(("a", 1, 1, "p"), ("b", 1, 1, "p"), ("d", 1, 1, "q"))
SECOND = batch(("a", 2, 2, "p"), ("e", 2, 2, "r"))
LATER = batch(("z", 9, 9, "p"), ("y", 9, 9, "new"))


def opened(storage: Storage) -> Table:
    return reopen(storage, ManualClock(ms=START, step_ms=1))


def next_process(storage: Storage) -> Table:
    """Open the table in a process that knows that the first one is dead."""
    clock = ManualClock(ms=START, step_ms=1, name="second", ended=frozenset({"manual"}))
    return reopen(storage, clock)


def target(storage: Storage) -> WriteTarget:
    return opened(storage)._target()


def prepare(storage: Storage, **changes: Any) -> Table:
    clock = ManualClock(ms=START, step_ms=1)
    table = make(storage, clock, ordering=("ts",), buckets=1, **changes)
    table.bulk_insert(FIRST)
    return table


def compact(table: Table) -> None:
    planned = schedule_compaction(table._target(), force=True)
    assert planned is not None
    execute_compaction(table._target(), planned.instant)


def last(storage: Storage) -> str:
    return load_timeline(storage).commits[-1].requested


@dataclass(frozen=True)
class Case:
    """A table, what is done to it, and how it is done again."""

    prepare: Callable[[Storage], object]
    act: Callable[[Storage], object]


MOR = {"table_type": "MERGE_ON_READ"}


def updated(storage: Storage, **changes: Any) -> None:
    prepare(storage, **changes).upsert(SECOND)


def overwritten(storage: Storage) -> None:
    prepare(storage).insert_overwrite(SECOND)


def compacted(storage: Storage) -> None:
    table = prepare(storage, **MOR)
    table.upsert(SECOND)
    compact(table)


ROLLBACKS = {
    "of a commit": Case(updated, lambda s: rollback(target(s), last(s))),
    "of a deltacommit": Case(lambda s: updated(s, **MOR), lambda s: rollback(target(s), last(s))),
    "of a replacecommit": Case(overwritten, lambda s: rollback(target(s), last(s))),
    "of a compaction": Case(compacted, lambda s: rollback(target(s), last(s))),
}


@functools.cache
def facts(kind: str, name: str) -> tuple[Work, Rows, Rows]:
    """Return the work, and the rows before and after it."""
    case = ALL[kind][name]
    start = memory_storage()
    case.prepare(start)
    work = Work.of(contents(start), case.act)
    return work, user_rows(opened(start)), user_rows(opened(work.done))


def crashes(kind: str, name: str) -> Iterator[tuple[Storage, str]]:
    """Yield what each crash leaves, but those at a lock, which test_service_crash_points tries."""
    work, _, _ = facts(kind, name)
    first, *others = work.ends()
    locks = {n for n, op in enumerate(work.ops, 1) if "/.locks/" in op}
    yield from work.crashes([first, *(at for at in others if at[0] not in locks)])


def check_writable(storage: Storage, rows: Rows, what: str) -> None:
    """Assert that the next write works, is right, and that nothing of the dead one is left."""
    next_process(storage).upsert(LATER)
    added = {(r["dt"], r["id"]): r for r in LATER.to_pylist()}
    assert user_rows(opened(storage)) == {**rows, **added}, what
    timeline = load_timeline(storage)
    assert not timeline.pending(), what
    written = {i.requested for i in timeline.select(*WRITE_ACTIONS)}
    for entry in storage.list():
        if not entry.path.startswith(".hoodie") and entry.path.endswith((".parquet", ".log")):
            assert any(instant in entry.path for instant in written), (what, entry.path)
        assert not entry.path.startswith(".hoodie/.temp"), what


@pytest.mark.parametrize("name", ROLLBACKS)
def test_a_rollback_that_died_reads_as_before_or_after_and_is_finished(name: str):
    _, before, after = facts("rollback", name)
    seen = set()
    for storage, what in crashes("rollback", name):
        now = user_rows(opened(storage))
        assert now in (before, after), what
        begun = bool(load_timeline(storage).select(Action.ROLLBACK))
        with hold_table(storage, next_process(storage)._clock, clear=False) as hold:
            finish_pending(hold)
        finished = user_rows(opened(storage))
        assert finished == (after if begun else before), what
        seen.add(begun)
        check_writable(storage, finished, what)
    assert seen == {True, False}
    assert before != after or name == "of a compaction"


@pytest.mark.parametrize("name", ROLLBACKS)
def test_a_rollback_that_died_can_be_called_again(name: str):
    work, _, after = facts("rollback", name)
    instant = last(copy_of(work.objects))
    for storage, what in crashes("rollback", name):
        # Where it had begun it is finished first, and then there is nothing to roll back.
        with contextlib.suppress(NotFoundError):
            rollback(next_process(storage)._target(), instant)
        assert user_rows(opened(storage)) == after, what
        assert not load_timeline(storage).pending(), what


def saved(storage: Storage) -> None:
    table = prepare(storage, **MOR)
    table.upsert(SECOND)
    savepoint(table._target())


SAVEPOINTS = {
    "made": Case(lambda s: updated(s, **MOR), lambda s: savepoint(target(s))),
    "deleted": Case(saved, lambda s: delete_savepoint(target(s), last(s))),
}


@pytest.mark.parametrize("name", SAVEPOINTS)
def test_a_savepoint_is_there_whole_or_not_at_all(name: str):
    _, before, _ = facts("savepoint", name)
    for storage, what in crashes("savepoint", name):
        assert user_rows(opened(storage)) == before, what
        found = savepoints(load_snapshot(storage, load_config(storage)))
        for kept in found:
            assert set(kept.paths) <= {entry.path for entry in storage.list()}, what
        if not found:
            savepoint(next_process(storage)._target())
        delete_savepoint(next_process(storage)._target(), last(storage))
        assert not load_timeline(storage).select(Action.SAVEPOINT), what
        check_writable(storage, before, what)


def restorable(storage: Storage) -> None:
    table = prepare(storage, **MOR)
    table.upsert(SECOND)
    savepoint(table._target())
    table.upsert(batch(("a", 3, 3, "p")))
    compact(table)
    table.insert_overwrite(batch(("o", 4, 4, "p")))
    schedule_compaction(table._target(), force=True)
    table.upsert(batch(("d", 5, 5, "q")))


def saved_instant(storage: Storage) -> str:
    return load_timeline(storage).select(Action.SAVEPOINT)[0].requested


RESTORES = {"restore": Case(restorable, lambda s: restore(target(s), saved_instant(s)))}


def test_a_restore_that_died_is_finished_when_it_is_called_again_or_by_the_next_writer():
    work, before, after = facts("restore", "restore")
    start = copy_of(work.objects)
    commits = [i.requested for i in load_timeline(start).commits]
    kept = saved_instant(start)
    moments = [user_rows(opened(start), i) for i in commits if i >= kept]
    assert before == moments[-1] != after == moments[0]
    unfinished = 0
    for storage, what in crashes("restore", "restore"):
        assert user_rows(opened(storage)) in moments, what
        if load_timeline(storage).pending(Action.RESTORE):
            unfinished += 1
            other = copy_of(contents(storage))
            check_writable(other, after, what)
            assert not load_timeline(other).pending(Action.RESTORE), what
        done = restore(next_process(storage)._target(), kept)
        assert done.savepoint == kept, what
        assert user_rows(opened(storage)) == after, what
        check_writable(storage, after, what)
    assert unfinished > 5


MOVES = {
    "upgrade": Case(lambda s: updated(s, **MOR), lambda s: upgrade(target(s), 10)),
    "downgrade": Case(
        lambda s: updated(s, **MOR, table_version=10), lambda s: downgrade(target(s), 9)
    ),
}


@pytest.mark.parametrize("name", MOVES)
def test_a_table_is_of_the_old_version_or_of_the_new_one(name: str):
    _, before, after = facts("move", name)
    assert before == after
    move, end = (upgrade, 10) if name == "upgrade" else (downgrade, 9)
    versions = set()
    for storage, what in crashes("move", name):
        assert user_rows(opened(storage)) == before, what
        version = load_config(storage).version
        versions.add(version)
        if version == 9:
            assert native_logs(storage) == [], what
        move(next_process(storage)._target(), end)
        assert load_config(storage).version == end, what
        assert user_rows(opened(storage)) == before, what
        check_writable(storage, before, what)
    assert end in versions
    assert len(versions) == 2


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(
    ("kind", "name"),
    [("rollback", "of a commit"), ("restore", "restore"), ("savepoint", "made")],
)
def test_one_answer_that_is_lost_fails_the_call_or_changes_nothing(
    kind: str, name: str, when: When
):
    work, before, after = facts(kind, name)
    failures, unseen = 0, Unseen()
    for storage, what, failed in work.outages(work.steps(when)):
        failures += failed
        if not unseen(storage, failed):
            continue
        if not failed:
            assert user_rows(opened(storage)) == after, what
            continue
        if kind != "restore":
            assert user_rows(opened(storage)) in (before, after), what
        elif load_timeline(storage).pending(Action.RESTORE):
            restore(target(storage), saved_instant(storage))
            assert user_rows(opened(storage)) == after, what
    assert failures > 0


ALL = {"rollback": ROLLBACKS, "savepoint": SAVEPOINTS, "restore": RESTORES, "move": MOVES}
