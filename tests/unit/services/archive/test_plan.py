"""Which instants may leave the active timeline, and which must not yet."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.errors import OptionError
from lakebed.format.names.instant_name import Action, State
from lakebed.model.instant import format_instant
from lakebed.model.options.services import ArchiveOptions, CleanOptions, CleanPolicy
from lakebed.services.archive.plan import plan_archive
from lakebed.table.config.table_config import TableType
from lakebed.timeline.timeline import Timeline, TimelineInstant

COW, MOR = TableType.COPY_ON_WRITE, TableType.MERGE_ON_READ
OPTIONS = ArchiveOptions(3, 5, clean=CleanOptions(commits_retained=1))


def at(second: int) -> str:
    return format_instant(1_700_000_000_000 + second * 1000, "UTC")


def done(second: int, action: Action = Action.COMMIT) -> TimelineInstant:
    return TimelineInstant(at(second), action, State.COMPLETED, at(second + 1), action)


def pending(second: int, action: Action) -> TimelineInstant:
    return TimelineInstant(at(second), action, State.REQUESTED, None, action)


def commits(count: int, action: Action = Action.COMMIT) -> list[TimelineInstant]:
    return [done(n * 10, action) for n in range(count)]


def plan(instants, options=OPTIONS, table_type=COW, uncleaned=None) -> list[int]:
    order = sorted(instants, key=lambda one: (one.requested, one.action is Action.SAVEPOINT))
    found = plan_archive(Timeline(tuple(order)), options, table_type, "UTC", uncleaned)
    seconds = {at(second): second for second in range(1000)}
    return [seconds[instant.requested] for instant in found]


def test_nothing_goes_before_there_are_more_commits_than_may_be():
    assert plan(commits(5)) == []
    assert plan([]) == []


def test_the_oldest_go_until_the_least_number_is_left():
    assert plan(commits(6)) == [0, 10, 20]
    assert plan(commits(20)) == list(range(0, 170, 10))


def test_what_cleaning_retains_stays_with_two_to_spare():
    retained = ArchiveOptions(3, 5, clean=CleanOptions(commits_retained=10))
    # The first retained is the tenth from the end; nine follow it, and two more are kept.
    assert plan(commits(13), retained) == []
    assert plan(commits(14), retained) == [0, 10, 20]
    hours = ArchiveOptions(2, 3, clean=CleanOptions(CleanPolicy.KEEP_LATEST_BY_HOURS))
    assert plan(commits(20), hours) == []


def test_cleans_and_rollbacks_before_the_last_commit_go_along():
    others = [done(5, Action.CLEAN), done(15, Action.ROLLBACK), done(25, Action.CLEAN)]
    others += [done(2, Action.RESTORE), pending(3, Action.CLEAN)]
    assert plan([*commits(6), *others]) == [0, 5, 10, 15, 20]


def test_one_commit_before_the_first_pending_write_stays():
    assert plan([*commits(6), pending(15, Action.DELTACOMMIT)]) == [0]
    assert plan([*commits(6), pending(15, Action.COMPACTION)]) == [0]
    assert plan([*commits(6)[1:], *commits(9)[6:], pending(5, Action.CLUSTERING)]) == []


def test_what_completed_since_a_pending_write_began_stays_whenever_it_began():
    # That write must still find out that they met in a file group.
    slow = TimelineInstant(at(12), Action.COMMIT, State.COMPLETED, at(40), Action.COMMIT)
    assert plan([*commits(6), slow, pending(25, Action.COMMIT)]) == [0, 10]
    quick = TimelineInstant(at(12), Action.COMMIT, State.COMPLETED, at(24), Action.COMMIT)
    assert plan([*commits(6), quick, pending(25, Action.COMMIT)]) == [0, 10, 12]


def test_nothing_goes_from_the_first_savepoint_on():
    saved = TimelineInstant(at(10), Action.SAVEPOINT, State.COMPLETED, at(99), Action.SAVEPOINT)
    assert plan([*commits(6), saved]) == [0]


def test_a_commit_that_replaced_files_which_are_still_there_stays():
    assert plan(commits(6), uncleaned=at(10)) == [0]
    assert plan(commits(6), uncleaned=at(0)) == []


def test_a_table_of_logs_keeps_what_the_next_compaction_counts():
    options = ArchiveOptions(1, 2, delta_commits=5, clean=CleanOptions(commits_retained=1))
    deltas = commits(8, Action.DELTACOMMIT)
    assert plan(deltas, options, MOR) == [0, 10, 20]
    assert plan(deltas, options, COW) == [0, 10, 20, 30, 40, 50]
    # After a compaction at 45 there are three, too few for the next, which is counted from it.
    assert plan([*deltas, done(45)], options, MOR) == [0, 10, 20, 30, 40]
    few = commits(4, Action.DELTACOMMIT)
    assert plan(few, options, MOR) == []


@given(st.lists(st.tuples(st.sampled_from(Action), st.booleans()), max_size=40))
def test_what_goes_is_the_beginning_of_the_writes_and_all_of_it_is_completed(kinds):
    instants = [
        done(n, kind.completed) if completed else pending(n, kind)
        for n, (kind, completed) in enumerate(kinds)
        if kind is not Action.SAVEPOINT
    ]
    timeline = Timeline(tuple(instants))
    gone = plan_archive(timeline, OPTIONS, COW, "UTC")
    assert all(instant.is_completed for instant in gone)
    left = [i for i in instants if i not in gone]
    writes = [c.requested for c in Timeline(tuple(gone)).commits]
    first = Timeline(tuple(left)).first_active
    assert not writes or first is not None
    assert all(requested < first for requested in writes)
    assert len(timeline.commits) - len(writes) >= min(len(timeline.commits), 3)


def test_options_come_from_hudis_names():
    given_options = {
        "hoodie.keep.min.commits": "4",
        "hoodie.keep.max.commits": "6",
        "hoodie.timeline.compaction.batch.size": "3",
        "hoodie.compact.inline.max.delta.commits": "2",
        "hoodie.clean.commits.retained": "1",
    }
    found = ArchiveOptions.of(given_options)
    assert found == ArchiveOptions(4, 6, 3, 2, CleanOptions(commits_retained=1))
    assert ArchiveOptions.of({}) == ArchiveOptions()
    assert ArchiveOptions.of({"hoodie.keep.min.commits": "40"}).max_commits == 50


@pytest.mark.parametrize(
    "properties",
    [
        {"hoodie.keep.min.commits": "0"},
        {"hoodie.keep.min.commits": "40", "hoodie.keep.max.commits": "40"},
        {"hoodie.keep.max.commits": "12"},
        {"hoodie.timeline.compaction.batch.size": "1"},
    ],
)
def test_values_that_make_no_sense_are_refused_by_name(properties):
    with pytest.raises(OptionError, match=next(reversed(properties))):
        ArchiveOptions.of(properties)
