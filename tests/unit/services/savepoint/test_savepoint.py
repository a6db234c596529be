"""A savepoint names every file that a reader as of its commit opens."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.commit.hold import hold_table
from lakebed.errors import CorruptError, ExistsError, InvalidError, NotFoundError
from lakebed.format.names.instant_name import Action
from lakebed.format.timeline.plans import PlanKind, encode_plan, parse_plan
from lakebed.model.options.services import ArchiveOptions, CleanOptions, CleanPolicy
from lakebed.services.archive.execute import archive
from lakebed.services.clean.execute import clean
from lakebed.services.compaction.execute import execute_compaction
from lakebed.services.compaction.schedule import schedule_compaction
from lakebed.services.savepoint.execute import delete_savepoint, savepoint, savepoints
from lakebed.services.savepoint.plan import SavepointMetadata
from lakebed.table.snapshot import load_snapshot
from support.fixtures import files
from support.tables import batch, copy_of, make, reopen, rows_of
from unit.services.rollback.histories import (
    FOURTH,
    KINDS,
    SECOND,
    THIRD,
    clock,
    filled,
    target_of,
    timeline_of,
)

KEEP_ONE = CleanOptions(
    CleanPolicy.KEEP_LATEST_FILE_VERSIONS, file_versions_retained=1, min_age_seconds=0
)

PASSES = CleanOptions(commits_retained=1, min_age_seconds=0)


def held(table):
    return savepoints(load_snapshot(table._storage, table.config))


@pytest.mark.parametrize("kind", KINDS)
def test_a_savepoint_keeps_what_its_commit_reads_through_cleaning_and_compaction(kind: str):
    table = filled(kind=kind)
    kept = table.upsert(SECOND).instant
    expected = rows_of(table)
    made = savepoint(target_of(table), user="me", comment="before the change")
    assert made.instant == kept
    assert held(table) == (made,)
    files = {row["path"] for row in table.files().to_pylist()}
    assert set(made.paths) == files
    table.upsert(THIRD)
    table.upsert(FOURTH)
    if "MERGE" in kind:
        planned = schedule_compaction(target_of(table), force=True)
        execute_compaction(target_of(table), planned.instant)
    clean(target_of(table), KEEP_ONE)
    assert set(made.paths) <= {entry.path for entry in table._storage.list()}
    assert rows_of(table, kept) == expected


@pytest.mark.parametrize("kind", KINDS)
def test_a_savepoint_is_read_after_cleaning_has_passed_it(kind: str):
    table = filled(kind=kind)
    kept = table.upsert(SECOND).instant
    expected = rows_of(table)
    savepoint(target_of(table))
    between = table.upsert(THIRD).instant
    for number in range(5):
        table.upsert(FOURTH)
        if "MERGE" in kind and number in (1, 3):
            planned = schedule_compaction(target_of(table), force=True)
            execute_compaction(target_of(table), planned.instant)
    assert clean(target_of(table), PASSES) is not None
    assert rows_of(table, kept) == expected
    assert table.lookup([{"id": "e", "dt": "p"}], as_of=kept).num_rows == 1
    with pytest.raises(InvalidError, match=f"these savepoints can be read: {kept}"):
        table.read(as_of=between)
    delete_savepoint(target_of(table), kept)
    with pytest.raises(InvalidError, match="the table was cleaned since"):
        table.read(as_of=kept)


@pytest.mark.parametrize("kind", KINDS)
def test_a_savepoint_is_read_after_the_commits_around_it_were_archived(kind: str):
    """Hudi archives beyond savepoints on request (hoodie.archive.beyond.savepoint)."""
    table = filled(kind=kind)
    kept = table.upsert(SECOND).instant
    expected = rows_of(table)
    savepoint(target_of(table))
    for number in range(8):
        table.upsert(batch((f"n{number}", number, number, "p")))
        if "MERGE" in kind:
            planned = schedule_compaction(target_of(table), force=True)
            execute_compaction(target_of(table), planned.instant)
    # The table is cleaned while the savepoint is there, and archived as if it were not.
    clean(target_of(table), PASSES)
    folder = table.config.timeline_path
    saved = {
        f"{folder}/{name}": table._storage.read(f"{folder}/{name}")
        for name in table._storage.names(folder)
        if name.startswith(kept)
    }
    delete_savepoint(target_of(table), kept)
    archive(target_of(table), ArchiveOptions(2, 3, delta_commits=1, clean=PASSES))
    for path, data in saved.items():
        table._storage.put(path, data)
    table = reopen(table._storage)
    assert (timeline_of(table).first_active or "") > kept
    assert rows_of(table, kept) == expected


def test_a_savepoint_without_a_write_that_overlapped_it_is_not_read_after_cleaning():
    table = filled(kind="MERGE_ON_READ, inline logs")
    overlapping = table.upsert(SECOND)
    kept = table.upsert(THIRD).instant
    savepoint(target_of(table))
    done = table.upsert(FOURTH).completion_time
    folder = table.config.timeline_path
    name = f"{folder}/{overlapping.instant}_{overlapping.completion_time}.deltacommit"
    data = table._storage.read(name)
    table._storage.delete(name)
    table._storage.put(f"{folder}/{overlapping.instant}_{done}.deltacommit", data)
    table = reopen(table._storage, table._clock)
    for _ in range(3):
        table.upsert(FOURTH)
    planned = schedule_compaction(target_of(table), force=True)
    execute_compaction(target_of(table), planned.instant)
    table.upsert(FOURTH)
    clean(target_of(table), PASSES)
    with pytest.raises(InvalidError, match=f"does not hold commit {overlapping.instant}"):
        table.read(as_of=kept)


def test_a_lost_file_of_a_savepoint_is_named():
    table = filled()
    made = savepoint(target_of(table))
    for _ in range(3):
        table.upsert(SECOND)
    assert clean(target_of(table), PASSES) is not None
    table._storage.delete(made.paths[0])
    with pytest.raises(InvalidError, match=f"as of {made.instant}.*{made.paths[0]}"):
        table.read(as_of=made.instant)


def test_an_older_commit_can_be_kept():
    table = filled()
    first = timeline_of(table).commits[0].requested
    paths = {row["path"] for row in table.files().to_pylist()}
    table.upsert(SECOND)
    assert set(savepoint(target_of(table), first).paths) == paths


def test_the_file_is_as_hudi_writes_it():
    table = filled()
    made = savepoint(target_of(table), user="me", comment="why")
    names = [n for n in table._storage.names(".hoodie/timeline") if "savepoint" in n]
    assert sorted(names) == sorted(
        [f"{made.instant}.savepoint.inflight", f"{made.instant}_{made.completion_time}.savepoint"]
    )
    data = table._storage.read(f".hoodie/timeline/{made.instant}_{made.completion_time}.savepoint")
    values = parse_plan(PlanKind.SAVEPOINT, data, "it")
    assert (values["savepointedBy"], values["comments"]) == ("me", "why")
    assert values["savepointedAt"] == made.at_ms
    partitions = values["partitionMetadata"]
    assert set(partitions) == {"p", "q"}
    assert {f"p/{name}" for name in partitions["p"]["savepointDataFile"]} == {
        path for path in made.paths if path.startswith("p/")
    }
    assert str(made) == f"savepoint {made.instant} keeps {len(made.paths)} files: why"


def test_a_table_without_partitions_has_one_partition_without_a_name():
    table = make(None, clock(), partition_by=())
    table.bulk_insert(batch(("a", 1, 1, "x")))
    made = savepoint(target_of(table))
    assert set(made.paths) == {row["path"] for row in table.files().to_pylist()}
    assert held(table) == (made,)


def test_one_commit_has_one_savepoint():
    table = filled()
    made = savepoint(target_of(table))
    with pytest.raises(ExistsError, match=made.completion_time):
        savepoint(target_of(table))


def test_a_commit_that_is_not_there_cannot_be_kept():
    table = make(None, clock())
    with pytest.raises(InvalidError, match="found none"):
        savepoint(target_of(table))
    table.bulk_insert(batch(("a", 1, 1, "p")))
    with pytest.raises(NotFoundError, match="29990101000000000"):
        savepoint(target_of(table), "29990101000000000")
    with pytest.raises(InvalidError, match="archived"):
        savepoint(target_of(table), "20200101000000000")


def test_a_commit_that_cleaning_has_passed_cannot_be_kept():
    table = filled()
    first = timeline_of(table).commits[0].requested
    table.upsert(SECOND)
    table.upsert(THIRD)
    options = CleanOptions(commits_retained=1, min_age_seconds=0)
    assert clean(target_of(table), options) is not None
    with pytest.raises(InvalidError, match="it may have been cleaned"):
        savepoint(target_of(table), first)
    assert held(table) == ()


@pytest.mark.parametrize("says", ["earliest", "files"])
def test_a_commit_that_a_planned_clean_is_about_to_pass_cannot_be_kept(says: str):
    table = filled()
    first = timeline_of(table).commits[0].requested
    paths = [row["path"] for row in table.files().to_pylist() if row["partition"] == "p"]
    second = table.upsert(SECOND).instant
    earliest = {"timestamp": second, "action": "commit", "state": "COMPLETED"}
    listed = {"p": [{"filePath": f"/x/{path}", "isBootstrapBaseFile": False} for path in paths]}
    values = {
        "policy": "KEEP_LATEST_COMMITS",
        "version": 2,
        "earliestInstantToRetain": earliest if says == "earliest" else None,
        "filePathsToBeDeletedPerPartition": listed if says == "files" else {},
    }
    with hold_table(table._storage, table._clock) as hold:
        hold.request(Action.CLEAN, encode_plan(PlanKind.CLEANER_PLAN, values))
    with pytest.raises(
        InvalidError, match="may have been cleaned" if says == "earliest" else "would delete"
    ):
        savepoint(target_of(table), first)


def test_a_savepoint_can_be_deleted_and_made_again():
    table = filled()
    made = savepoint(target_of(table))
    delete_savepoint(target_of(table), made.instant)
    assert held(table) == ()
    assert not timeline_of(table).select(Action.SAVEPOINT)
    with pytest.raises(NotFoundError, match="there are: none"):
        delete_savepoint(target_of(table), made.instant)
    assert savepoint(target_of(table)).paths == made.paths


def test_a_savepoint_with_archived_commits_after_it_is_not_let_go():
    """Hudi archives beyond savepoints on request (hoodie.archive.beyond.savepoint)."""
    table = filled()
    kept = savepoint(target_of(table)).instant
    for number in range(8):
        table.upsert(batch((f"n{number}", number, number, "p")))
    expected = rows_of(table)
    folder = table.config.timeline_path
    saved = {
        f"{folder}/{name}": table._storage.read(f"{folder}/{name}")
        for name in table._storage.names(folder)
        if name.startswith(kept)
    }
    delete_savepoint(target_of(table), kept)
    archive(
        target_of(table),
        ArchiveOptions(2, 3, clean=CleanOptions(commits_retained=1, min_age_seconds=0)),
    )
    for path, data in saved.items():
        table._storage.put(path, data)
    assert rows_of(reopen(table._storage)) == expected
    with pytest.raises(InvalidError, match="commits after it are archived"):
        delete_savepoint(target_of(reopen(table._storage)), kept)
    assert rows_of(reopen(table._storage)) == expected
    # Where another engine has let it go, rows do not count; but none of their files may be deleted.
    [completed] = [path for path in saved if path.endswith(".savepoint")]
    table._storage.delete(completed)
    table._storage.delete(f"{folder}/{kept}.savepoint.inflight")
    there = {entry.path for entry in table._storage.list("p")}
    clean(target_of(reopen(table._storage, clock())), CleanOptions(min_age_seconds=0))
    archive(
        target_of(reopen(table._storage, clock())),
        ArchiveOptions(1, 2, clean=CleanOptions(commits_retained=1, min_age_seconds=0)),
    )
    assert {entry.path for entry in table._storage.list("p")} == there


def test_one_that_was_begun_only_is_no_savepoint_and_can_be_completed_or_deleted():
    table = filled()
    instant = timeline_of(table).commits[0].requested
    table._storage.put(f".hoodie/timeline/{instant}.savepoint.inflight", b"")
    assert held(table) == ()
    delete_savepoint(target_of(table), instant)
    table._storage.put(f".hoodie/timeline/{instant}.savepoint.inflight", b"")
    made = savepoint(target_of(table))
    assert held(table) == (made,)


def test_a_savepoint_of_hudi_is_read():
    storage = copy_of(files("cow9_restore"))
    table = reopen(storage)
    (found,) = held(table)
    assert found.instant == "20261115061312367"
    assert {path.partition("/")[0] for path in found.paths} == {"2024-01-01", "2024-01-02"}


def test_bytes_that_are_no_savepoint_are_refused_by_name():
    with pytest.raises(CorruptError, match="this one"):
        SavepointMetadata.parse(b"nothing", "this one")


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
PATH = st.builds(
    "/".join, st.lists(st.text("abc=1 ", min_size=1, max_size=5), min_size=1, max_size=3)
)


@given(
    st.builds(
        SavepointMetadata,
        user=TEXT,
        at_ms=st.integers(0, 2**62),
        comment=TEXT,
        paths=st.sets(PATH, max_size=5).map(lambda paths: tuple(sorted(paths))),
    )
)
def test_what_is_written_is_read_back(metadata: SavepointMetadata):
    assert SavepointMetadata.parse(metadata.encode(), "it") == metadata
