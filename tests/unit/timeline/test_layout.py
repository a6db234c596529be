"""Timelines of layout 1: instants in the metadata folder, without a completion time."""

import pytest

from lakebed.errors import CorruptError, UnsupportedError
from lakebed.format.names.instant_name import LAYOUT_1, Action, State
from lakebed.storage.objects import memory_storage
from lakebed.timeline.active import ActiveTimeline, load_timeline
from lakebed.timeline.layout import has_archive, layout_of
from lakebed.timeline.timeline import Timeline, TimelineInstant

T1, T2, T3, T4, T5 = (f"2024010100000000{number}" for number in range(1, 6))
# As Hudi 0.15 leaves them; a clustering is a replacecommit from its plan on.
NAMES = [
    f"{T1}.commit.requested", f"{T1}.inflight", f"{T1}.commit",
    f"{T2}.deltacommit.requested", f"{T2}.deltacommit.inflight", f"{T2}.deltacommit",
    f"{T2}.savepoint.inflight", f"{T2}.savepoint",
    f"{T3}.compaction.requested", f"{T3}.compaction.inflight", f"{T3}.commit",
    f"{T4}.replacecommit.requested", f"{T4}.replacecommit.inflight", f"{T4}.replacecommit",
    f"{T5}.rollback.requested", f"{T5}.rollback.inflight",
    "hoodie.properties", "archived", "metadata", ".aux", f".{T1}.commit.crc",
]  # fmt: skip


def test_the_requested_time_stands_for_the_completion_time():
    timeline = Timeline.parse(NAMES, LAYOUT_1)
    assert [commit.requested for commit in timeline.commits] == [T1, T2, T3, T4]
    assert all(commit.completion == commit.requested for commit in timeline.commits)
    assert timeline.completion_of(T3) == T3
    assert timeline.find(T3, Action.COMPACTION) == TimelineInstant(
        T3, Action.COMMIT, State.COMPLETED, T3, Action.COMPACTION, LAYOUT_1
    )
    assert [instant.requested for instant in timeline.pending()] == [T5]
    assert [instant.requested for instant in timeline.select(Action.SAVEPOINT)] == [T2]


def test_the_files_of_an_instant_have_the_names_that_it_was_parsed_from():
    for instant in Timeline.parse(NAMES, LAYOUT_1).instants:
        assert instant.file_name in NAMES
        if instant.action is not Action.SAVEPOINT:
            assert instant.name_of(State.REQUESTED).encode() in NAMES


def test_as_of_goes_by_requested_times():
    timeline = Timeline.parse(NAMES, LAYOUT_1).as_of(T3)
    assert [commit.requested for commit in timeline.commits] == [T1, T2, T3]
    assert not timeline.is_committed(T4)


def test_instants_of_fourteen_digits_stand_between_those_of_seventeen():
    names = ["20240101000000.commit", "20240101000000500.commit", "20231231235959.commit.requested"]
    timeline = Timeline.parse(names, LAYOUT_1)
    assert [i.requested for i in timeline.instants] == [
        "20231231235959",
        "20240101000000",
        "20240101000000500",
    ]
    assert timeline.first_active == "20231231235959"


@pytest.mark.parametrize(
    "names",
    [
        [f"{T1}.commit", f"{T1}.deltacommit"],
        [f"{T1}.compaction.requested", f"{T1}.deltacommit"],
    ],
)
def test_files_that_contradict_each_other_are_corrupt_with_both_names(names):
    with pytest.raises(CorruptError, match=f"{names[0]} and {names[1]}"):
        Timeline.parse(names, LAYOUT_1)


@pytest.mark.parametrize(
    ("folder", "layout"),
    [(".hoodie", 1), (".hoodie/metadata/.hoodie", 1), (".hoodie/timeline", 2), ("a.hoodie", 2)],
)
def test_the_place_of_a_timeline_says_its_layout(folder, layout):
    assert layout_of(folder) == layout


def test_a_timeline_of_layout_1_is_loaded_and_read_but_never_written():
    storage = memory_storage()
    for name in NAMES:
        storage.put(f".hoodie/{name}", name.encode())
    storage.put(f".hoodie/archived/{T1}.commit", b"not of this timeline")
    active = ActiveTimeline(storage, ".hoodie")
    timeline = active.load()
    assert timeline == Timeline.parse(NAMES, LAYOUT_1) == load_timeline(storage, ".hoodie")
    assert active.read(timeline.commits[2]) == f"{T3}.commit".encode()
    assert active.read(timeline.commits[2], State.REQUESTED) == NAMES[8].encode()
    later = "20250101000000000"
    for attempt in (
        lambda: active.create_requested(Action.COMMIT, later),
        lambda: active.transition_to_inflight(Action.ROLLBACK, T5),
        lambda: active.complete(Action.ROLLBACK, T5, later, b""),
        lambda: active.delete_pending(Action.ROLLBACK, T5),
    ):
        with pytest.raises(UnsupportedError, match="table version 6"):
            attempt()
    assert active.load() == timeline


def test_an_archive_of_layout_1_is_known_by_its_files():
    storage = memory_storage()
    assert not has_archive(storage, ".hoodie/archived")
    storage.put(".hoodie/archived/notes", b"")
    assert not has_archive(storage, ".hoodie/archived")
    storage.put(".hoodie/archived/.commits_.archive.12_1-0-1", b"")
    assert has_archive(storage, ".hoodie/archived")
