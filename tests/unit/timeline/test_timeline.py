"""The timeline as a value: from file names to which instants count."""

import pytest

from lakebed.errors import CorruptError, FileNameError, UnsupportedError
from lakebed.format.names.instant_name import Action, InstantName, State
from lakebed.timeline.timeline import Timeline, TimelineInstant


def at(number):
    """Return the n-th instant of a made-up day."""
    return f"202401010000{number:05d}"


T1, T2, T3, T4, T5, T6, T7, T8, T9 = (at(number) for number in range(1, 10))


def pending(action, requested, *, inflight=True):
    states = (State.REQUESTED, State.INFLIGHT) if inflight else (State.REQUESTED,)
    return [InstantName(requested, action, state).encode() for state in states]


def completed(action, requested, completion, word=None):
    done = InstantName(requested, word or action, State.COMPLETED, completion).encode()
    return [*pending(action, requested), done]


def test_the_files_of_one_instant_are_one_instant_in_its_newest_state():
    timeline = Timeline.parse(
        [
            *completed(Action.COMMIT, T1, T2),
            *pending(Action.DELTACOMMIT, T3),
            *pending(Action.CLEAN, T4, inflight=False),
        ]
    )
    assert timeline.instants == (
        TimelineInstant(T1, Action.COMMIT, State.COMPLETED, T2, Action.COMMIT),
        TimelineInstant(T3, Action.DELTACOMMIT, State.INFLIGHT, None, Action.DELTACOMMIT),
        TimelineInstant(T4, Action.CLEAN, State.REQUESTED, None, Action.CLEAN),
    )


def test_the_order_of_the_names_does_not_matter():
    names = [
        *completed(Action.COMPACTION, T3, T5, Action.COMMIT),
        *completed(Action.COMMIT, T1, T2),
    ]
    assert Timeline.parse(names) == Timeline.parse(names[::-1]) == Timeline.parse(sorted(names))


@pytest.mark.parametrize(
    ("plan", "done"),
    [
        (Action.COMPACTION, Action.COMMIT),
        (Action.LOGCOMPACTION, Action.DELTACOMMIT),
        (Action.CLUSTERING, Action.REPLACECOMMIT),
    ],
)
def test_a_completed_table_service_is_a_commit_that_still_knows_its_plan(plan, done):
    (instant,) = Timeline.parse(completed(plan, T1, T2, done)).commits
    assert (instant.action, instant.plan_action) == (done, plan)
    assert instant.name_of(State.REQUESTED).encode() == f"{T1}.{plan}.requested"
    assert instant.file_name == f"{T1}_{T2}.{done}"


def test_a_completed_file_alone_is_enough():
    (instant,) = Timeline.parse([f"{T1}_{T2}.commit"]).commits
    assert instant == TimelineInstant(T1, Action.COMMIT, State.COMPLETED, T2, Action.COMMIT)


def test_commits_are_the_completed_writes_by_requested_time():
    timeline = Timeline.parse(
        [
            *completed(Action.REPLACECOMMIT, T5, T6),
            *completed(Action.DELTACOMMIT, T3, T9),
            *completed(Action.COMMIT, T1, T2),
            *completed(Action.CLEAN, T7, T8),
            *completed(Action.ROLLBACK, T4, T6),
            *pending(Action.COMMIT, at(10)),
        ]
    )
    assert [commit.requested for commit in timeline.commits] == [T1, T3, T5]
    assert timeline.completed(T3) is timeline.commits[1]
    assert timeline.completed(T7) is None
    assert timeline.completion_of(T3) == T9
    assert timeline.completion_of(T7) is None
    assert timeline.completion_of(at(10)) is None


def test_pending_instants_are_found_by_action():
    timeline = Timeline.parse(
        [
            *completed(Action.COMMIT, T1, T2),
            *pending(Action.COMPACTION, T3),
            *pending(Action.CLUSTERING, T4, inflight=False),
        ]
    )
    assert [instant.requested for instant in timeline.pending()] == [T3, T4]
    assert [instant.requested for instant in timeline.pending(Action.COMPACTION)] == [T3]
    assert timeline.pending(Action.LOGCOMPACTION) == ()


def test_a_savepoint_stands_beside_the_commit_that_it_keeps():
    timeline = Timeline.parse(
        [*completed(Action.COMMIT, T1, T2), f"{T1}.savepoint.inflight", f"{T1}_{T5}.savepoint"]
    )
    assert [instant.action for instant in timeline.instants] == [Action.COMMIT, Action.SAVEPOINT]
    assert [commit.completion for commit in timeline.commits] == [T2]
    assert [instant.completion for instant in timeline.select(Action.SAVEPOINT)] == [T5]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (f"{T1}_{T2}.commit", f"{T1}_{T3}.commit"),
        (f"{T1}_{T2}.commit", f"{T1}_{T2}.deltacommit"),
        (f"{T1}_{T2}.clean", f"{T1}_{T3}.commit"),
        (f"{T1}.compaction.requested", f"{T1}_{T2}.deltacommit"),
        (f"{T1}.deltacommit.inflight", f"{T1}_{T2}.commit"),
        (f"{T1}.clean.inflight", f"{T1}.deltacommit.requested"),
        (f"{T1}.compaction.requested", f"{T1}.inflight"),
    ],
)
def test_files_that_contradict_each_other_are_corrupt_and_both_named(one, other):
    for names in ([one, other], [other, one]):
        with pytest.raises(CorruptError) as caught:
            Timeline.parse(names)
        assert one in str(caught.value)
        assert other in str(caught.value)


def test_of_a_clean_that_two_completed_the_first_counts():
    names = [*completed(Action.CLEAN, T1, T3), *completed(Action.CLEAN, T1, T2)]
    for order in (names, names[::-1]):
        [found] = Timeline.parse(order).instants
        assert found == TimelineInstant(T1, Action.CLEAN, State.COMPLETED, T2, Action.CLEAN)


def test_files_that_are_no_instants_are_left_out():
    names = [".DS_Store", f".{T1}.commit.requested.crc", "history", "hoodie.properties"]
    assert Timeline.parse(names) == Timeline()


@pytest.mark.parametrize(
    ("name", "error"),
    [
        (f"{T1}.commit.inflight", FileNameError),
        (f"{T1}_{T2}.compaction", FileNameError),
        (f"{T1}_x.commit", FileNameError),
        (f"{T1}_{T2}.unheard", UnsupportedError),
        (f"{T1}.commit", UnsupportedError),
        (f"{T1}.{'9' * 17}.commit", CorruptError),
        (f"{T1}x{T2}.commit", None),
        (f"{'٣' * 17}.commit.requested", None),
        (f"{T1}_{'٣' * 17}.commit", FileNameError),
    ],
)
def test_names_that_no_writer_makes_are_treated_as_their_parser_does(name, error):
    if error is None:
        assert Timeline.parse([name]) == Timeline()
        return
    with pytest.raises(error) as caught:
        Timeline.parse([name])
    assert name in str(caught.value)


@pytest.mark.parametrize("digits", [14, 18, 20])
def test_instants_of_other_lengths_are_read_too(digits):
    requested = "2024010200000000000000"[:digits]
    names = [f"{requested}.deltacommit.requested", f"{requested}_{T9}.deltacommit"]
    (commit,) = Timeline.parse(names).commits
    assert commit.requested == requested


def test_an_instant_is_found_by_time_and_plan_in_any_state():
    timeline = Timeline.parse(
        [
            *completed(Action.COMPACTION, T1, T2, Action.COMMIT),
            f"{T1}_{T4}.savepoint",
            *pending(Action.CLEAN, T3),
        ]
    )
    assert timeline.find(T1, Action.COMPACTION).completion == T2
    assert timeline.find(T1, Action.SAVEPOINT).completion == T4
    assert timeline.find(T3, Action.CLEAN).file_name == f"{T3}.clean.inflight"
    assert timeline.find(T1, Action.COMMIT) is None
    assert timeline.find(T2, Action.COMPACTION) is None


def test_an_empty_timeline_has_nothing_committed():
    timeline = Timeline.parse([])
    assert timeline.first_active is None
    assert timeline.last_instant is None
    assert not timeline.is_committed(T1)
    assert not timeline.is_archived(T1)


def test_a_file_older_than_the_first_write_is_archived_and_so_committed():
    timeline = Timeline.parse(
        [*completed(Action.COMMIT, T5, T6), *completed(Action.COMMIT, T7, T8)]
    )
    assert timeline.first_active == T5
    assert timeline.is_committed(T1)
    assert timeline.is_archived(T1)
    assert timeline.is_committed(T5)
    assert not timeline.is_archived(T5)
    assert not timeline.is_committed(T6)
    assert not timeline.is_committed(T9)


def test_the_completion_time_of_an_archived_commit_is_not_on_the_active_timeline():
    timeline = Timeline.parse(completed(Action.DELTACOMMIT, T5, T6))
    assert timeline.is_committed(T1)
    assert timeline.completion_of(T1) is None


def test_a_pending_write_begins_the_timeline_and_is_not_committed():
    timeline = Timeline.parse(
        [*pending(Action.DELTACOMMIT, T3), *completed(Action.DELTACOMMIT, T5, T6)]
    )
    assert timeline.first_active == T3
    assert not timeline.is_committed(T3)
    assert not timeline.is_committed(T4)
    assert timeline.is_committed(T2)


def test_cleans_and_rollbacks_do_not_begin_the_timeline():
    timeline = Timeline.parse(
        [
            *completed(Action.CLEAN, T1, T2),
            *completed(Action.ROLLBACK, T3, T4),
            *completed(Action.COMMIT, T6, T7),
        ]
    )
    assert timeline.first_active == T6
    assert timeline.is_committed(T5)


def test_a_savepointed_commit_left_behind_does_not_begin_the_timeline():
    timeline = Timeline.parse(
        [
            *completed(Action.COMMIT, T2, T3),
            f"{T2}_{T4}.savepoint",
            *completed(Action.COMMIT, T7, T8),
        ]
    )
    assert timeline.first_active == T7
    assert timeline.is_committed(T5)
    assert timeline.is_committed(T2)
    assert not timeline.is_archived(T2)
    assert not timeline.as_of(T1).is_archived(T2)


def test_a_savepointed_commit_begins_the_timeline_when_it_is_all_there_is():
    timeline = Timeline.parse([*completed(Action.COMMIT, T2, T3), f"{T2}_{T4}.savepoint"])
    assert timeline.first_active == T2
    assert timeline.is_committed(T1)
    assert not timeline.is_committed(T3)


def test_as_of_compares_requested_times():
    timeline = Timeline.parse(
        [
            *completed(Action.COMMIT, T2, T3),
            *completed(Action.COMMIT, T4, T9),
            *completed(Action.COMMIT, T6, T7),
            *pending(Action.COMPACTION, T5),
        ]
    )
    then = timeline.as_of(T5)
    assert [commit.requested for commit in then.commits] == [T2, T4]
    assert then.completion_of(T4) == T9
    assert then.is_committed(T4)
    assert not then.is_committed(T6)
    assert then.completed(T6) is None
    assert then.completion_of(T6) is None
    assert then.pending(Action.COMPACTION) == timeline.pending(Action.COMPACTION)
    assert then.last_instant == timeline.last_instant


def test_as_of_includes_the_instant_itself_and_never_widens():
    timeline = Timeline.parse(
        [*completed(Action.COMMIT, T2, T3), *completed(Action.COMMIT, T4, T5)]
    )
    assert [commit.requested for commit in timeline.as_of(T4).commits] == [T2, T4]
    assert timeline.as_of(T3).as_of(T9) == timeline.as_of(T3)


def test_as_of_a_time_in_the_archive_shows_what_was_archived_until_then():
    timeline = Timeline.parse(completed(Action.COMMIT, T5, T6)).as_of(T3)
    assert timeline.commits == ()
    assert timeline.is_committed(T2)
    assert timeline.is_committed(T3)
    assert not timeline.is_committed(T4)
    assert not timeline.is_committed(T5)


def test_the_last_instant_is_the_greatest_time_of_all_states():
    first = completed(Action.COMMIT, T1, T8)
    assert Timeline.parse(first).last_instant == T8
    assert Timeline.parse([*first, *pending(Action.CLEAN, T9, inflight=False)]).last_instant == T9
    assert Timeline.parse([*first, *pending(Action.CLEAN, T7)]).last_instant == T8


def test_the_last_instant_takes_14_digits_as_the_end_of_their_second():
    timeline = Timeline.parse(
        ["20240101000000.deltacommit.requested", "20240101000000005.deltacommit.requested"]
    )
    assert timeline.last_instant == "20240101000000"
