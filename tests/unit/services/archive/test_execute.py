"""Archiving tables: the same rows, a shorter timeline, and nothing becomes data that was none."""

import contextlib
import functools

import pytest

from lakebed.errors import InvalidError, LakebedError
from lakebed.format.names.data_names import parse_data_name
from lakebed.format.names.instant_name import Action, InstantName
from lakebed.model.clock import ManualClock
from lakebed.model.options.services import ArchiveOptions, CleanOptions
from lakebed.services.archive.execute import archive
from lakebed.services.clean.execute import clean
from lakebed.storage.objects import memory_storage
from lakebed.storage.storage import Storage
from lakebed.timeline.active import ActiveTimeline
from lakebed.timeline.archived import read_archived, read_manifest
from support.crash_points import Unseen, When, Work
from support.tables import batch, contents, copy_of, make, reopen, user_rows

CLEAN = CleanOptions(commits_retained=2, min_age_seconds=0)
BY_HAND = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}
OPTIONS = ArchiveOptions(4, 6, merge_files=2, clean=CLEAN)
START = 1_700_000_000_000


def filled(count: int = 8, **changes):
    properties = {**BY_HAND, **changes.pop("properties", {})}
    storage, clock = changes.pop("storage", None), ManualClock(step_ms=1)
    table = make(storage, clock, buckets=1, properties=properties, **changes)
    commits = [write(table, number) for number in range(count)]
    return table, commits


def write(table, number: int, partition: str = "p") -> str:
    return table.upsert(batch((f"k{number % 3}", number, number, partition))).instant


def active(storage) -> list[str]:
    return [i.requested for i in ActiveTimeline(storage).load().instants]


def archived(storage) -> list[tuple[str, str]]:
    return [(row.requested, row.action) for row in read_archived(storage)]


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_the_oldest_instants_move_and_the_rows_stay(table_type):
    table, commits = filled(12, table_type=table_type, ordering=("ts",))
    rows = user_rows(table)
    before = contents(table._storage)
    done = archive(table._target(), OPTIONS)
    left = active(table._storage)
    assert left == commits[-len(left) :]
    assert len(left) == (4 if table_type == "COPY_ON_WRITE" else 5)
    assert [requested for requested, _ in archived(table._storage)] == commits[: -len(left)]
    assert (done.archived, done.first, done.first_active) == (12 - len(left), commits[0], left[0])
    assert f"archived {12 - len(left)} instants" in str(done)
    again = reopen(table._storage)
    assert user_rows(again) == rows
    for row in read_archived(table._storage):
        name = f".hoodie/timeline/{row.requested}_{row.completion}.{row.action}"
        assert row.metadata == before[name]
    assert again.history().num_rows == 12
    for instant in commits[: -len(left)]:
        with pytest.raises(InvalidError, match="archived"):
            user_rows(again, instant)
    write(again, 20)
    assert len(user_rows(again)) == len(rows)


def test_a_short_timeline_stays():
    table, _ = filled(6)
    before = contents(table._storage)
    assert archive(table._target(), OPTIONS) is None
    assert contents(table._storage) == before


def test_options_come_from_the_tables_properties():
    given = {
        "hoodie.keep.min.commits": "3",
        "hoodie.keep.max.commits": "4",
        "hoodie.clean.commits.retained": "1",
        "lakebed.clean.min.age.seconds": "0",
    }
    table, _ = filled(6, properties=given)
    assert archive(table._target()).archived == 3


def test_cleans_go_along_with_their_plans():
    table, _ = filled(4)
    clean(table._target(), CLEAN)
    for number in range(5):
        write(table, number)
    archive(table._target(), OPTIONS)
    [found] = [
        row
        for row in read_archived(table._storage, columns=("metadata", "plan"))
        if row.action == "clean"
    ]
    assert found.plan
    assert found.metadata
    assert not [p for p in contents(table._storage) if ".clean" in p.rpartition("/")[2]]


def test_retained_moments_can_be_read_after_cleaning_and_archiving():
    table, commits = filled(12)
    before = {instant: user_rows(table, instant) for instant in commits}
    done = clean(table._target(), CLEAN)
    archive(table._target(), OPTIONS)
    again = reopen(table._storage)
    readable = []
    for instant in commits:
        with contextlib.suppress(InvalidError):
            assert user_rows(again, instant) == before[instant]
            readable.append(instant)
    assert readable == [i for i in commits if i >= done.earliest_retained]


def test_a_replaced_group_is_cleaned_before_its_commit_is_archived():
    table, _ = filled(3)
    write(table, 1, "q")
    gone = table.delete_partitions(["q"]).instant
    for number in range(9):
        write(table, number)
    rows = user_rows(table)
    archive(table._target(), OPTIONS)
    assert gone in active(table._storage)
    assert user_rows(reopen(table._storage)) == rows
    clean(table._target(), CLEAN)
    archive(table._target(), OPTIONS)
    assert gone not in active(table._storage)
    assert user_rows(reopen(table._storage)) == rows


def test_files_that_are_no_data_go_before_they_would_be_taken_for_data():
    table, commits = filled(8)
    rows = user_rows(table)
    some = next(p for p in contents(table._storage) if commits[0] in p and p.endswith(".parquet"))
    data = table._storage.read(some)
    rolled_back = f"{int(commits[0]) + 1}"
    left = {f"p/late-0_7-7-7_{commits[1]}.parquet", f"new/late-0_7-7-7_{rolled_back}.parquet"}
    recent = f"p/late-0_7-7-7_{commits[-1]}.parquet"
    for path in (*left, recent):
        table._storage.put(path, data)
    assert archive(table._target(), OPTIONS).deleted_files == 2
    assert not left & contents(table._storage).keys()
    assert recent in contents(table._storage)
    assert user_rows(reopen(table._storage)) == rows


def test_what_an_archiver_that_died_left_twice_is_taken_from_the_active_timeline():
    table, commits = filled(8)
    before = contents(table._storage)
    archive(table._target(), OPTIONS)
    for path, data in before.items():
        if commits[2] in path or commits[3] in path:
            table._storage.put(path, data)
    done = archive(table._target(), OPTIONS)
    assert (done.archived, done.finished) == (0, 2)
    assert "removed 2 instants" in str(done)
    assert active(table._storage) == commits[4:]
    assert archive(table._target(), OPTIONS) is None


def test_archiving_again_and_again_keeps_the_archive_small():
    table, commits = filled(7)
    for number in range(30):
        commits.append(write(table, number))
        clean(table._target(), CLEAN)
        archive(table._target(), OPTIONS)
    names = table._storage.names(".hoodie/timeline/history")
    assert len([name for name in names if name.startswith("manifest_")]) <= 8
    assert len(read_manifest(table._storage)) <= 5
    seen = [requested for requested, action in archived(table._storage) if action == "commit"]
    seen += [i for i in active(table._storage) if i in commits]
    assert seen == commits
    assert len(user_rows(reopen(table._storage))) == 3


@functools.cache
def facts():
    """Return the objects at the start, the rows, and the operations of archiving."""
    storage = memory_storage()
    table = make(storage, ManualClock(ms=START), buckets=1, properties=BY_HAND)
    commits = [write(table, number) for number in range(3)]
    commits.append(write(table, 1, "q"))
    commits.append(table.delete_partitions(["q"]).instant)
    commits += [write(table, number) for number in range(5)]
    late = ManualClock(ms=START + 60_000)
    assert clean(reopen(storage, late)._target(), CLEAN) is not None
    archive(reopen(storage, late)._target(), ArchiveOptions(8, 9, clean=CLEAN))
    commits += [write(reopen(storage, late), number) for number in range(3)]
    old = next(p for p in contents(storage) if commits[-1] in p and p.startswith("p/"))
    first = ActiveTimeline(storage).load().first_active
    storage.put(f"p/late-0_7-7-7_{int(first) + 1}.parquet", storage.read(old))
    return Work.of(contents(storage), act), commits, user_rows(reopen(storage))


def act(storage: Storage):
    return archive(reopen(storage, ManualClock(ms=START + 120_000))._target(), OPTIONS)


def check(storage: Storage, what: str) -> None:
    _, commits, rows = facts()
    assert user_rows(reopen(storage)) == rows, what
    words = {str(action) for action in (Action.COMMIT, Action.REPLACECOMMIT)}
    seen = {requested for requested, action in archived(storage) if action in words}
    seen |= {c.requested for c in ActiveTimeline(storage).load().commits}
    assert seen == set(commits), what


def recover(storage: Storage, what: str) -> None:
    check(storage, what)
    act(storage)
    assert act(storage) is None, what
    check(storage, what)
    both = {requested for requested, _ in archived(storage)} & set(active(storage))
    assert not both, what
    assert len(ActiveTimeline(storage).load().commits) == 4, what
    # No file of an instant that left the timeline half.
    for name in storage.names(".hoodie/timeline"):
        assert InstantName.parse(name) is not None
    pending = ActiveTimeline(storage).load().pending()
    assert not pending, what
    assert not [p for p in contents(storage) if "late" in p and parse_data_name(p[2:])], what


def test_the_case_archives_merges_and_deletes():
    work, _, _ = facts()
    done = act(copy_of(work.objects))
    assert done.archived >= 5
    assert done.merged_levels == 1
    assert done.deleted_files == 1
    assert len(work.ops) > 40


def test_after_a_crash_at_any_operation_the_table_is_whole_and_the_next_finishes():
    work, _, _ = facts()
    for storage, what in work.crashes(work.ends()):
        recover(storage, what)


@pytest.mark.parametrize("when", ["before", "after"])
def test_after_an_operation_without_an_answer_the_next_archiving_finishes(when: When):
    work, _, _ = facts()
    unseen = Unseen()
    for storage, what, _ in work.outages(work.steps(when), refused=LakebedError):
        if unseen(storage):
            recover(storage, what)


def test_what_was_the_newest_a_moment_ago_is_not_lost_to_a_query():
    """However fast commits follow: cleaning knows of the active ones only."""
    given = {"hoodie.keep.min.commits": "3", "hoodie.keep.max.commits": "4"}
    table, _ = filled(12, properties=given)
    assert archive(table._target()) is None
    assert clean(table._target()) is None
