"""A rollback leaves the table as it was before the instant, or refuses by name."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.commit.hold import hold_table
from lakebed.errors import CorruptError, InvalidError, LockedError, NotFoundError, UnsupportedError
from lakebed.format.names.data_names import parse_data_name
from lakebed.format.names.instant_name import Action, State
from lakebed.format.timeline.heartbeat import heartbeat_path
from lakebed.format.timeline.plans import PlanKind, encode_plan, parse_plan
from lakebed.model.options.services import CleanOptions, CleanPolicy
from lakebed.services.clean.execute import clean
from lakebed.services.compaction.execute import execute_compaction
from lakebed.services.compaction.schedule import schedule_compaction
from lakebed.services.rollback.execute import finish_pending, rollback
from lakebed.services.rollback.plan import RollbackPlan
from lakebed.services.savepoint.execute import savepoint
from lakebed.storage.objects import memory_storage
from lakebed.storage.open import open_storage
from lakebed.storage.storage import Storage
from lakebed.timeline.active import load_timeline
from support.fixtures import files, unpack
from support.tables import batch, copy_of, make, reopen, rows_of, user_rows
from unit.services.rollback.histories import (
    FIRST,
    FOURTH,
    KINDS,
    SECOND,
    THIRD,
    actions,
    check_whole,
    clock,
    data_files,
    filled,
    target_of,
    target_on,
    timeline_of,
)

MOR = "MERGE_ON_READ, inline logs"
KEEP_ONE = CleanOptions(
    CleanPolicy.KEEP_LATEST_FILE_VERSIONS, file_versions_retained=1, min_age_seconds=0
)


@pytest.mark.parametrize("kind", KINDS)
def test_commits_that_are_rolled_back_newest_first_give_back_every_state_before(kind: str):
    table = make(None, clock(), ordering=("ts",), **KINDS[kind])
    states, commits = [user_rows(table)], []
    for write, rows in (
        (table.bulk_insert, FIRST),
        (table.upsert, SECOND),
        (table.insert, THIRD),
        (table.upsert, FOURTH),
    ):
        commits.append(write(rows))
        states.append(user_rows(table))
    for commit in reversed(commits):
        assert user_rows(table) == states.pop()
        written = [stat.path for stat in commit.write_stats]
        done = rollback(target_of(table), commit.instant)
        assert done.rolled_back == commit.instant
        assert done.files_deleted == len(written) > 0
        assert not set(written) & set(data_files(table._storage))
        assert user_rows(table) == states[-1]
        assert user_rows(reopen(table._storage)) == states[-1]
        assert commit.instant not in {i.requested for i in timeline_of(table).instants}
        check_whole(table._storage)
    assert actions(table, Action.ROLLBACK) == sorted(actions(table, Action.ROLLBACK))
    assert len(actions(table, Action.ROLLBACK)) == 4


@pytest.mark.parametrize("kind", KINDS)
def test_a_write_after_a_rollback_is_as_if_the_rolled_back_one_had_never_been(kind: str):
    with_, without = filled(kind=kind), filled(kind=kind)
    rollback(target_of(with_), with_.upsert(SECOND).instant)
    for table in (with_, without):
        table.upsert(THIRD)
    assert user_rows(with_) == user_rows(without)
    own = actions(with_, Action.ROLLBACK)[0]
    assert all(i.requested > own for i in timeline_of(with_).commits[1:])


def test_overwritten_and_deleted_partitions_come_back():
    table = filled()
    before = rows_of(table)
    for act in (
        lambda: table.insert_overwrite(batch(("z", 9, 9, "p"))),
        lambda: table.insert_overwrite(batch(("z", 9, 9, "p")), whole_table=True),
        lambda: table.delete_partitions(["p"]),
    ):
        commit = act()
        assert rows_of(table) != before
        rollback(target_of(table), commit.instant)
        assert rows_of(table) == before
        check_whole(table._storage)


def test_the_plan_and_the_result_say_what_went_as_hudi_says_it(tmp_path):
    storage = open_storage(str(tmp_path / "t"))
    table = filled(storage)
    commit = table.upsert(SECOND)
    done = rollback(target_of(table), commit.instant)
    folder = tmp_path / "t" / ".hoodie" / "timeline"
    plan = parse_plan(
        PlanKind.ROLLBACK_PLAN, (folder / f"{done.instant}.rollback.requested").read_bytes(), "plan"
    )
    assert plan["instantToRollback"] == {"commitTime": commit.instant, "action": "commit"}
    named = [f for request in plan["RollbackRequests"] for f in request["filesToBeDeleted"]]
    assert sorted(named) == sorted(str(tmp_path / "t" / s.path) for s in commit.write_stats)
    result = parse_plan(
        PlanKind.ROLLBACK,
        (folder / f"{done.instant}_{done.completion_time}.rollback").read_bytes(),
        "result",
    )
    assert result["commitsRollback"] == [commit.instant]
    assert result["totalFilesDeleted"] == len(named)
    held = result["partitionMetadata"].values()
    assert sorted(f for partition in held for f in partition["successDeleteFiles"]) == sorted(named)
    assert f"rolled back commit {commit.instant}: {len(named)} files" in str(done)


def test_only_the_newest_commit_can_go():
    table = filled()
    old = table.upsert(SECOND)
    new = table.upsert(THIRD)
    before = rows_of(table)
    with pytest.raises(InvalidError, match=f"only the newest.*commit {new.instant}"):
        rollback(target_of(table), old.instant)
    assert rows_of(table) == before
    check_whole(table._storage)


def test_a_savepointed_commit_stays():
    table = filled()
    commit = table.upsert(SECOND)
    savepoint(target_of(table), commit.instant)
    with pytest.raises(InvalidError, match="a savepoint keeps it"):
        rollback(target_of(table), commit.instant)


def test_an_instant_that_is_not_there_or_no_write_is_refused():
    table = filled()
    commit = table.upsert(SECOND)
    done = rollback(target_of(table), commit.instant)
    with pytest.raises(NotFoundError, match=commit.instant):
        rollback(target_of(table), commit.instant)
    with pytest.raises(InvalidError, match="found a rollback"):
        rollback(target_of(table), done.instant)
    with pytest.raises(InvalidError, match="archived"):
        rollback(target_of(table), "20200101000000000")


def test_a_commit_whose_predecessor_was_cleaned_away_stays():
    table = filled()
    commit = table.upsert(SECOND)
    assert clean(target_of(table), KEEP_ONE) is not None
    before = rows_of(table)
    with pytest.raises(InvalidError, match="cannot be"):
        rollback(target_of(table), commit.instant)
    assert rows_of(table) == before
    assert not timeline_of(table).pending()


def test_older_versions_that_were_cleaned_away_do_not_matter():
    table = filled()
    for number in range(3):
        table.upsert(batch(("a", number, 10 + number, "p")))
    before = rows_of(table)
    commit = table.upsert(SECOND)
    two = replace(KEEP_ONE, file_versions_retained=2)
    assert clean(target_of(table), two) is not None
    rollback(target_of(table), commit.instant)
    assert rows_of(table) == before


def test_an_overwrite_whose_file_groups_were_cleaned_away_stays():
    table = filled()
    commit = table.insert_overwrite(batch(("z", 9, 9, "p")), whole_table=True)
    assert clean(target_of(table), KEEP_ONE) is not None
    with pytest.raises(InvalidError, match="cannot be"):
        rollback(target_of(table), commit.instant)
    assert set(user_rows(table)) == {("p", "z")}


def test_a_clean_that_is_planned_and_would_delete_what_comes_back_is_in_the_way():
    table = filled()
    commit = table.upsert(SECOND)
    superseded = [p for p in data_files(table._storage) if commit.instant not in p]
    with hold_table(table._storage, table._clock) as hold:
        paths = {"p": [{"filePath": f"memory://x/{p}", "isBootstrapBaseFile": False}
                       for p in superseded if p.startswith("p/")]}  # fmt: skip
        values = {
            "policy": "KEEP_LATEST_COMMITS",
            "version": 2,
            "filePathsToBeDeletedPerPartition": paths,
        }
        hold.request(Action.CLEAN, encode_plan(PlanKind.CLEANER_PLAN, values))
    with pytest.raises(InvalidError, match=r"clean \d+ is pending and would delete p/"):
        rollback(target_of(table), commit.instant)


def compacted() -> tuple:
    table = filled(kind=MOR)
    table.upsert(SECOND)
    planned = schedule_compaction(target_of(table), force=True)
    assert planned is not None
    return table, planned.instant


def test_a_completed_compaction_gives_the_logs_back():
    table, instant = compacted()
    before = rows_of(table)
    execute_compaction(target_of(table), instant)
    files = data_files(table._storage)
    done = rollback(target_of(table), instant.requested)
    assert done.files_deleted == len(files) - len(data_files(table._storage)) > 0
    assert rows_of(table) == before
    check_whole(table._storage)


def test_a_completed_compaction_whose_logs_were_cleaned_away_stays():
    table, instant = compacted()
    execute_compaction(target_of(table), instant)
    before = rows_of(table)
    assert clean(target_of(table), KEEP_ONE) is not None
    with pytest.raises(InvalidError):
        rollback(target_of(table), instant.requested)
    assert rows_of(table) == before


def test_a_commit_that_a_planned_compaction_reads_stays():
    table, instant = compacted()
    commit = timeline_of(table).commits[-1].requested
    with pytest.raises(InvalidError, match=f"compaction {instant.requested} \\(requested\\)"):
        rollback(target_of(table), commit)


def _user(row: dict) -> dict:
    return {name: value for name, value in row.items() if not name.startswith("_hoodie_")}


def half_compacted() -> tuple:
    """Leave a compaction as a process that died leaves it: in flight, with a base file."""
    table, instant = compacted()
    storage = table._storage
    storage.put(f".hoodie/timeline/{instant.requested}.compaction.inflight", b"")
    for path in data_files(storage):
        name = parse_data_name(path.rpartition("/")[2])
        if path.endswith(".parquet"):
            storage.put(path.replace(name.instant, instant.requested), storage.read(path))
    return table, instant.requested


def test_of_a_pending_compaction_the_files_go_and_the_plan_stays():
    table, instant = half_compacted()
    before = rows_of(table)
    done = rollback(target_of(table), instant)
    assert done.plan_kept
    assert done.files_deleted > 0
    assert "plan stays" in str(done)
    check_whole(table._storage, [instant])
    assert timeline_of(table).find(instant, Action.COMPACTION).state is State.REQUESTED
    assert rows_of(table) == before
    execute_compaction(target_of(table), instant)
    assert user_rows(table) == {key: _user(row) for key, row in before.items()}
    check_whole(table._storage)


def test_a_plan_can_be_dropped():
    table, instant = half_compacted()
    before = rows_of(table)
    assert not rollback(target_of(table), instant, delete_plan=True).plan_kept
    check_whole(table._storage)
    assert rows_of(table) == before


def test_a_plan_that_nobody_began_has_nothing_to_roll_back_but_itself():
    table, instant = compacted()
    with pytest.raises(InvalidError, match="has not begun"):
        rollback(target_of(table), instant.requested)
    rollback(target_of(table), instant.requested, delete_plan=True)
    check_whole(table._storage)


def begin_write(table) -> str:
    """Leave a write as a process that died leaves it: pending, with a data file."""
    storage = table._storage
    with hold_table(storage, table._clock) as hold:
        instant = hold.start(hold.request(Action.COMMIT)).requested
    path = data_files(storage)[0]
    old = parse_data_name(path.rpartition("/")[2]).instant
    storage.put(path.replace(old, instant), storage.read(path))
    return instant


def test_a_write_that_died_is_rolled_back():
    table = filled()
    before = rows_of(table)
    instant = begin_write(table)
    assert rollback(target_of(table), instant).files_deleted == 1
    assert rows_of(table) == before
    check_whole(table._storage)


def test_what_a_dead_writer_left_does_not_keep_a_commit():
    table = filled()
    before = rows_of(table)
    commit = table.upsert(SECOND)
    begin_write(table)
    rollback(target_of(table), commit.instant)
    assert rows_of(table) == before
    check_whole(table._storage)


def test_a_write_that_is_alive_is_left_alone():
    table = filled()
    instant = begin_write(table)
    beat = {"owner": "o", "process": "", "at": table._clock.now_ms(), "holdsLock": False}
    table._storage.put(heartbeat_path(instant), json.dumps(beat).encode())
    files = data_files(table._storage)
    with pytest.raises(LockedError, match=instant):
        rollback(target_of(table), instant)
    assert data_files(table._storage) == files


def begin_rollback(table, commit) -> str:
    """Leave a rollback that was planned only."""
    plan = RollbackPlan(commit.instant, commit.action, tuple(s.path for s in commit.write_stats))
    with hold_table(table._storage, table._clock) as hold:
        return hold.request(Action.ROLLBACK, plan.encode(str)).requested


def test_a_pending_rollback_is_finished_by_whoever_comes_next():
    table = filled()
    before = rows_of(table)
    commit = table.upsert(SECOND)
    own = begin_rollback(table, commit)
    with hold_table(table._storage, table._clock, clear=False) as hold:
        (done,) = finish_pending(hold)
        assert finish_pending(hold) == ()
    assert (done.instant, done.rolled_back) == (own, commit.instant)
    assert rows_of(table) == before
    check_whole(table._storage)


def test_a_pending_rollback_of_a_commit_that_others_built_on_is_dropped():
    table = filled()
    commit = table.upsert(SECOND)
    own = begin_rollback(table, commit)
    objects = {e.path: table._storage.read(e.path) for e in table._storage.list(".hoodie/timeline")}
    # Another engine that did not look: it writes although a rollback is pending.
    pending = [path for path in objects if f"{own}.rollback" in path]
    for path in pending:
        table._storage.delete(path)
    later = table.upsert(THIRD)
    for path in pending:
        table._storage.put(path, objects[path])
    before = rows_of(table)
    with hold_table(table._storage, table._clock, clear=False) as hold:
        assert finish_pending(hold) == ()
    assert rows_of(table) == before
    assert not timeline_of(table).pending()
    rollback(target_of(table), later.instant)


def test_a_commit_without_pending_files_can_go_too():
    table = filled()
    before = rows_of(table)
    commit = table.upsert(SECOND)
    for name in (f"{commit.instant}.commit.requested", f"{commit.instant}.inflight"):
        table._storage.delete(f".hoodie/timeline/{name}")
    rollback(target_of(table), commit.instant)
    assert rows_of(table) == before
    check_whole(table._storage)


def test_the_last_active_commit_stays_while_older_ones_are_archived(tmp_path):
    storage = open_storage(str(unpack("cow9_archive", tmp_path)))
    timeline = load_timeline(storage)
    last = timeline.commits[-1]
    for instant in timeline.instants:
        if instant != last:
            for state in State:
                storage.delete(f".hoodie/timeline/{instant.name_of(state).encode()}")
    before = user_rows(reopen(storage))
    with pytest.raises(InvalidError, match="is archived, and its rows would become invisible"):
        rollback(target_on(storage), last.requested)
    assert user_rows(reopen(storage)) == before
    assert before


def without_metadata_table(name: str) -> Storage:
    """Return a table of Hudi's as if its metadata table had been retired."""
    held = {p: data for p, data in files(name).items() if not p.startswith(".hoodie/metadata/")}
    path = ".hoodie/hoodie.properties"
    lines = held[path].splitlines(keepends=True)
    held[path] = b"".join(line for line in lines if b"metadata.partitions" not in line)
    return copy_of(held)


@pytest.mark.parametrize("name", ["mor9_bucket_parquet", "cow9_nomdt"])
def test_commits_of_hudi_go_newest_first(name: str):
    storage = without_metadata_table(name)
    commits = [i.requested for i in load_timeline(storage).commits]
    assert len(commits) > 1
    states = [user_rows(reopen(storage), instant) for instant in commits]
    for instant, before in zip(reversed(commits[1:]), reversed(states[:-1]), strict=True):
        rollback(target_on(storage), instant)
        assert user_rows(reopen(storage)) == before


def test_a_clustering_of_hudi_gives_its_file_groups_back():
    storage = without_metadata_table("cow9_services")
    before = user_rows(reopen(storage))
    clustering = load_timeline(storage).commits[-1]
    assert clustering.plan_action is Action.CLUSTERING
    rollback(target_on(storage), clustering.requested)
    assert user_rows(reopen(storage)) == before


def test_a_compaction_whose_plan_alone_knows_what_is_gone_stays():
    table = filled(kind=MOR)
    update = table.upsert(SECOND)
    table.insert(batch(("far", 1, 1, "far")))
    planned = schedule_compaction(target_of(table), force=True)
    execute_compaction(target_of(table), planned.instant)
    expected = rows_of(table)
    archive(table, {i.requested for i in timeline_of(table).commits[:2]})
    lost = str(update.write_stats[0].path)
    table._storage.delete(lost)
    with pytest.raises(InvalidError, match="which it read, was cleaned since") as refusal:
        rollback(target_of(table), planned.instant.requested)
    assert lost in str(refusal.value)
    assert rows_of(table) == expected


def archive(table, instants) -> None:
    """Take instants off the active timeline, as if they had been archived."""
    for instant in timeline_of(table).commits:
        if instant.requested in instants:
            for state in State:
                table._storage.delete(f".hoodie/timeline/{instant.name_of(state).encode()}")


def test_a_commit_whose_archived_predecessor_is_gone_stays():
    table = filled()
    first = timeline_of(table).commits[0].requested
    table.insert(batch(("far", 1, 1, "far")))
    update = table.upsert(SECOND)
    archive(table, {first})
    expected = rows_of(table)
    for path in data_files(table._storage):
        if first in path and path.startswith("q/"):
            table._storage.delete(path)
    with pytest.raises(InvalidError, match="of partition 'q', which it rewrote or replaced"):
        rollback(target_of(table), update.instant)
    assert rows_of(table) == expected


def test_a_commit_whose_archived_predecessor_a_clean_names_stays():
    table = filled()
    first = timeline_of(table).commits[0].requested
    second = table.upsert(batch(("d", 5, 5, "q")))
    table.insert(batch(("far", 1, 1, "far")))
    update = table.upsert(batch(("d", 6, 6, "q")))
    archive(table, {first, second.instant})
    (lost,) = [path for path in data_files(table._storage) if second.instant in path]
    table._storage.delete(lost)
    expected = rows_of(table)
    partition = {
        "partitionPath": "q",
        "policy": "KEEP_LATEST_COMMITS",
        "deletePathPatterns": [],
        "successDeleteFiles": [lost.rpartition("/")[2]],
        "failedDeleteFiles": [],
    }
    with hold_table(table._storage, table._clock) as hold:
        values = {
            "startCleanTime": "20240101000000000",
            "timeTakenInMillis": 1,
            "totalFilesDeleted": 1,
            "earliestCommitToRetain": "",
            "partitionMetadata": {"q": partition},
        }
        hold.complete(hold.request(Action.CLEAN), encode_plan(PlanKind.CLEAN, values))
    with pytest.raises(InvalidError, match="without it, which was cleaned since") as refusal:
        rollback(target_of(table), update.instant)
    assert lost in str(refusal.value)
    assert rows_of(table) == expected


def test_a_plan_of_hudi_is_read():
    held = files("mor9_rollback")
    data = held[".hoodie/timeline/20261115061721761.rollback.requested"]
    assert RollbackPlan.parse(data, "it") == RollbackPlan(
        "20261115061338757",
        "deltacommit",
        ("2024-01-01/.00000000-1d52-4209-8513-a0cd479ee5a9-0_20261115061338757.log.1_0-286-446",),
    )
    with pytest.raises(CorruptError, match="this plan"):
        RollbackPlan.parse(data[:40], "this plan")
    nothing = encode_plan(PlanKind.ROLLBACK_PLAN, {})
    with pytest.raises(CorruptError, match="this plan: expected the instant"):
        RollbackPlan.parse(nothing, "this plan")


NAMES = st.text("abc=-_. é", min_size=1, max_size=6)
PATHS = st.builds(
    lambda folders, name: "/".join([*folders, name]), st.lists(NAMES, max_size=2), NAMES
)


@given(
    st.integers(10**16, 10**17 - 1).map(str),
    st.sampled_from([*map(str, Action)]),
    st.sets(PATHS, max_size=5),
)
def test_a_plan_that_is_written_is_read_back(instant: str, action: str, paths: set[str]):
    plan = RollbackPlan(instant, action, tuple(sorted(paths)))
    assert RollbackPlan.parse(plan.encode(lambda path: f"/somewhere/{path}"), "it") == plan


def test_a_pending_restore_is_in_the_way():
    table = filled()
    with hold_table(table._storage, table._clock) as hold:
        hold.request(Action.RESTORE, b"")
    with pytest.raises(UnsupportedError, match=r"restore \d+ is pending"):
        rollback(target_of(table), timeline_of(table).commits[-1].requested)


def test_a_folder_in_memory_is_a_table_of_its_own():
    storage = memory_storage()
    table = filled(storage)
    rollback(target_of(table), timeline_of(table).commits[-1].requested)
    assert load_timeline(storage).commits == ()
    assert user_rows(table) == {}
