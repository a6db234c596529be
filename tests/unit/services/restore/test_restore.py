"""A restore gives exactly the rows as of its savepoint, whatever was done since."""

import contextlib
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakebed.api.table import Table
from lakebed.commit.hold import hold_table
from lakebed.errors import (
    ConflictError,
    CorruptError,
    InvalidError,
    LockedError,
    NotFoundError,
)
from lakebed.format.names.instant_name import Action
from lakebed.format.timeline.heartbeat import heartbeat_path
from lakebed.format.timeline.plans import PlanKind, parse_plan
from lakebed.model.options.services import CleanOptions, CleanPolicy
from lakebed.services.clean.execute import clean
from lakebed.services.compaction.execute import execute_compaction
from lakebed.services.compaction.schedule import schedule_compaction
from lakebed.services.restore.execute import restore
from lakebed.services.restore.plan import RestorePlan
from lakebed.services.rollback.execute import rollback
from lakebed.services.savepoint.execute import delete_savepoint, savepoint, savepoints
from lakebed.table.snapshot import load_snapshot
from lakebed.timeline.active import load_timeline
from support.fixtures import files
from support.tables import batch, contents, copy_of, reopen, rows_of, user_rows
from unit.services.rollback.histories import (
    FOURTH,
    KINDS,
    SECOND,
    THIRD,
    actions,
    check_whole,
    filled,
    target_of,
    timeline_of,
)

KEEP_ONE = CleanOptions(
    CleanPolicy.KEEP_LATEST_FILE_VERSIONS, file_versions_retained=1, min_age_seconds=0
)


def compact(table: Table) -> None:
    planned = schedule_compaction(target_of(table), force=True)
    if planned is not None:
        execute_compaction(target_of(table), planned.instant)


STEPS: dict[str, Any] = {
    "upsert": lambda table, n: table.upsert(batch(("a", n, n, "p"), (f"n{n}", n, n, "q"))),
    "insert": lambda table, n: table.insert(batch((f"i{n}", n, n, "r"))),
    "delete": lambda table, n: table.delete(where="id = 'b'"),
    "overwrite": lambda table, n: table.insert_overwrite(batch((f"o{n}", n, n, "p"))),
    "overwrite all": lambda table, n: table.insert_overwrite(
        batch((f"o{n}", n, n, "s")), whole_table=True
    ),
    "delete partition": lambda table, n: table.delete_partitions(["p"]),
    "compact": lambda table, n: compact(table),
    "plan a compaction": lambda table, n: schedule_compaction(target_of(table), force=True),
    "clean": lambda table, n: clean(target_of(table), KEEP_ONE),
    "roll back": lambda table, n: (
        table.upsert(batch(("x", n, n, "p")))
        and rollback(target_of(table), timeline_of(table).commits[-1].requested)
    ),
}
COMPACTING = {"compact", "plan a compaction"}


def run(table: Table, steps: list[str], begin: int) -> None:
    for number, step in enumerate(steps, begin):
        if step in COMPACTING and table.config.table_type == "COPY_ON_WRITE":
            continue
        if step == "delete partition" and "p" not in {
            row["partition"] for row in table.files().to_pylist()
        }:
            continue
        # One that meets a planned compaction may be refused, and then it is no step.
        with contextlib.suppress(ConflictError):
            STEPS[step](table, number)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    kind=st.sampled_from(sorted(KINDS)),
    before=st.lists(st.sampled_from(sorted(set(STEPS) - {"roll back"})), max_size=3),
    after=st.lists(st.sampled_from(sorted(STEPS)), min_size=1, max_size=5),
)
def test_a_restore_gives_the_rows_as_of_the_savepoint(
    kind: str, before: list[str], after: list[str]
):
    table = filled(kind=kind)
    run(table, before, 10)
    expected = rows_of(table)
    made = savepoint(target_of(table))
    run(table, after, 20)
    done = restore(target_of(table), made.instant)
    assert rows_of(reopen(table._storage)) == expected
    assert done.savepoint == made.instant
    pending = {i.requested for i in timeline_of(table).pending() if i.requested < made.instant}
    check_whole(table._storage, pending, cleaned="clean" in before + after)
    assert savepoints(load_snapshot(table._storage, table.config)) == (made,)
    last = max(i.requested for i in timeline_of(table).commits)
    assert last == made.instant
    table.upsert(batch(("g", 4, 4, "new")))
    assert set(rows_of(table)) == {*expected, ("new", "g")}


def restored() -> tuple[Table, Any, list[str]]:
    table = filled()
    made = savepoint(target_of(table))
    later = [table.upsert(SECOND).instant, table.upsert(THIRD).instant]
    return table, made, later


def test_the_plan_and_the_result_are_as_hudi_writes_them():
    table, made, later = restored()
    done = restore(target_of(table), made.instant)
    folder = ".hoodie/timeline"
    data = table._storage.read(f"{folder}/{done.instant}.restore.requested")
    values = parse_plan(PlanKind.RESTORE_PLAN, data, "plan")
    assert values == {
        "instantsToRollback": [
            {"commitTime": instant, "action": "commit"} for instant in reversed(later)
        ],
        "savepointToRestoreTimestamp": made.instant,
        "version": 2,
    }
    data = table._storage.read(f"{folder}/{done.instant}_{done.completion_time}.restore")
    values = parse_plan(PlanKind.RESTORE, data, "result")
    assert values["instantsToRollback"] == list(reversed(later)) == list(done.rolled_back)
    assert set(values["hoodieRestoreMetadata"]) == set(later)
    (rolled,) = values["hoodieRestoreMetadata"][later[0]]
    assert rolled["commitsRollback"] == [later[0]]
    deleted = sum(held[0]["totalFilesDeleted"] for held in values["hoodieRestoreMetadata"].values())
    assert deleted == done.files_deleted > 0
    assert str(done) == (
        f"restored {made.instant}: 2 instants rolled back, {deleted} files deleted"
    )
    assert not actions(table, Action.ROLLBACK)


def test_a_restore_to_the_newest_commit_changes_no_row():
    table = filled()
    made = savepoint(target_of(table))
    before = rows_of(table)
    assert restore(target_of(table), made.instant).rolled_back == ()
    assert rows_of(table) == before


def test_a_restore_can_be_done_again_and_to_an_older_savepoint():
    table = filled()
    first, rows_first = savepoint(target_of(table)), rows_of(table)
    table.upsert(SECOND)
    second, rows_second = savepoint(target_of(table)), rows_of(table)
    table.upsert(THIRD)
    restore(target_of(table), second.instant)
    assert rows_of(table) == rows_second
    table.upsert(FOURTH)
    restore(target_of(table), second.instant)
    assert rows_of(table) == rows_second
    with pytest.raises(InvalidError, match=second.instant):
        restore(target_of(table), first.instant)
    delete_savepoint(target_of(table), second.instant)
    restore(target_of(table), first.instant)
    assert rows_of(table) == rows_first
    check_whole(table._storage)


def test_a_commit_without_a_savepoint_is_refused_with_the_savepoints_that_there_are():
    table, made, later = restored()
    with pytest.raises(NotFoundError, match=f"there are: {made.instant}"):
        restore(target_of(table), later[0])


def test_a_savepoint_of_which_a_file_is_lost_is_refused_before_anything_is_touched():
    table, made, _ = restored()
    table._storage.delete(made.paths[0])
    before = contents(table._storage)
    with pytest.raises((CorruptError, InvalidError), match=made.paths[0].rpartition("/")[2]):
        restore(target_of(table), made.instant)
    after = contents(table._storage)
    assert {p: d for p, d in after.items() if "/.locks/" not in p} == {
        p: d for p, d in before.items() if "/.locks/" not in p
    }


@pytest.mark.parametrize("kind", sorted(KINDS))
@pytest.mark.parametrize("change", [-3, 3], ids=["cut", "longer"])
def test_a_savepoint_of_which_a_file_has_another_size_is_refused_before_anything_is_touched(
    kind: str, change: int
):
    table = filled(kind=kind)
    made = savepoint(target_of(table))
    table.upsert(batch(("z", 2, 2, "new")))  # nothing takes the place of what the savepoint keeps
    path = made.paths[0]
    data = table._storage.read(path)
    table._storage.put(path, data[:change] if change < 0 else data + bytes(change))
    before = contents(table._storage)
    with pytest.raises(CorruptError) as caught:
        restore(target_of(reopen(table._storage, table._clock)), made.instant)
    for told in (
        path,
        f"commit {made.instant}",
        f"wrote {len(data)} bytes, found {len(data) + change}",
        "Nothing was changed. Restore the file",
    ):
        assert told in str(caught.value)
    after = contents(table._storage)
    assert {p: d for p, d in after.items() if "/.locks/" not in p} == {
        p: d for p, d in before.items() if "/.locks/" not in p
    }
    table._storage.put(path, data)
    restore(target_of(reopen(table._storage, table._clock)), made.instant)
    check_whole(table._storage)


def test_a_writer_that_is_alive_is_in_the_way():
    table, made, _ = restored()
    with hold_table(table._storage, table._clock) as hold:
        instant = hold.start(hold.request(Action.COMMIT)).requested
    beat = {"owner": "o", "process": "", "at": table._clock.now_ms(), "holdsLock": False}
    table._storage.put(heartbeat_path(instant), json.dumps(beat).encode())
    with pytest.raises(LockedError, match=instant):
        restore(target_of(table), made.instant)
    table._storage.delete(heartbeat_path(instant))
    assert instant in restore(target_of(table), made.instant).rolled_back
    check_whole(table._storage)


def begin_restore(table: Table, plan: RestorePlan) -> str:
    with hold_table(table._storage, table._clock) as hold:
        return hold.request(Action.RESTORE, plan.encode()).requested


def test_a_pending_restore_is_finished_and_no_other_begins_before():
    table, made, later = restored()
    expected = rows_of(table, made.instant)
    plan = RestorePlan(made.instant, tuple((i, "commit") for i in reversed(later)))
    own = begin_restore(table, plan)
    with pytest.raises(ConflictError, match=f"savepoint {made.instant} is pending"):
        restore(target_of(table), later[0])
    done = restore(target_of(table), made.instant)
    assert (done.instant, done.rolled_back) == (own, tuple(reversed(later)))
    assert rows_of(table) == expected
    table.upsert(FOURTH)
    check_whole(table._storage)


def test_a_pending_restore_is_finished_by_the_next_writer():
    table, made, later = restored()
    other = reopen(copy_of(contents(table._storage)))
    plan = RestorePlan(made.instant, tuple((i, "commit") for i in reversed(later)))
    begin_restore(table, plan)
    table.upsert(FOURTH)
    assert load_timeline(table._storage).pending() == ()
    restore(target_of(other), made.instant)
    other.upsert(FOURTH)
    assert user_rows(table) == user_rows(other)
    check_whole(table._storage)


def test_a_pending_restore_that_somebody_wrote_on_is_left_alone():
    table, made, later = restored()
    own = begin_restore(table, RestorePlan(made.instant, ((later[-1], "commit"),)))
    path = f".hoodie/timeline/{own}.restore.requested"
    data = table._storage.read(path)
    table._storage.delete(path)
    late = table.upsert(FOURTH).instant
    assert late > own
    table._storage.put(path, data)
    before = rows_of(table)
    with pytest.raises(ConflictError, match=late):
        restore(target_of(table), made.instant)
    assert rows_of(table) == before


def test_a_savepoint_after_which_instants_are_archived_is_refused():
    storage = copy_of(files("cow9_archive"))
    first = timeline_of(reopen(storage)).commits[0]
    # As if the archive went beyond an old savepoint.
    old = "20261115061340000"
    for name in (f"{old}.commit.requested", f"{old}.inflight"):
        storage.put(f".hoodie/timeline/{name}", b"")
    found = timeline_of(reopen(storage)).commits[0]
    data = storage.read(f".hoodie/timeline/{found.file_name}")
    storage.put(f".hoodie/timeline/{old}_{old[:-1]}1.commit", data)
    storage.put(f".hoodie/timeline/{old}.savepoint.inflight", b"")
    kept = copy_of(files("cow9_restore"))
    text = next(n for n in kept.names(".hoodie/timeline") if n.endswith(".savepoint"))
    storage.put(
        f".hoodie/timeline/{old}_{old[:-1]}2.savepoint", kept.read(f".hoodie/timeline/{text}")
    )
    with pytest.raises(InvalidError, match="is later and archived"):
        restore(target_of(reopen(storage)), old)
    assert timeline_of(reopen(storage)).completed(first.requested) is not None


INSTANTS = st.integers(10**16, 10**17 - 1).map(str)


@given(INSTANTS, st.lists(st.tuples(INSTANTS, st.sampled_from([*map(str, Action)])), max_size=4))
def test_a_plan_that_is_written_is_read_back(instant: str, gone: list[tuple[str, str]]):
    plan = RestorePlan(instant, tuple(gone))
    assert RestorePlan.parse(plan.encode(), "it") == plan


def test_a_plan_of_hudi_is_read():
    storage = copy_of(files("cow9_restore"))
    data = storage.read(".hoodie/timeline/20261115061332560.restore.requested")
    assert RestorePlan.parse(data, "it") == RestorePlan(
        "20261115061312367", (("20261115061318259", "commit"),)
    )
    with pytest.raises(CorruptError, match="it"):
        RestorePlan.parse(b"", "it")
