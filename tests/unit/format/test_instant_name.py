import pytest

from lakebed.errors import FileNameError, InvalidError, UnsupportedError
from lakebed.format.instant_name import Action, InstantName, State

T, C = "20261115060917636", "20261115060920861"
PENDING = [
    (Action.COMMIT, State.REQUESTED, f"{T}.commit.requested"),
    (Action.COMMIT, State.INFLIGHT, f"{T}.inflight"),
    (Action.DELTACOMMIT, State.REQUESTED, f"{T}.deltacommit.requested"),
    (Action.DELTACOMMIT, State.INFLIGHT, f"{T}.deltacommit.inflight"),
    (Action.COMPACTION, State.REQUESTED, f"{T}.compaction.requested"),
    (Action.LOGCOMPACTION, State.INFLIGHT, f"{T}.logcompaction.inflight"),
    (Action.CLUSTERING, State.REQUESTED, f"{T}.clustering.requested"),
    (Action.SAVEPOINT, State.INFLIGHT, f"{T}.savepoint.inflight"),
    (Action.INDEXING, State.REQUESTED, f"{T}.indexing.requested"),
]


@pytest.mark.parametrize(("action", "state", "name"), PENDING)
def test_pending_instant_has_the_name_that_hudi_gives_it(action, state, name):
    instant = InstantName(T, action, state)
    assert instant.encode() == name
    assert InstantName.parse(name) == instant


@pytest.mark.parametrize("action", [a for a in Action if a.completed is a])
def test_completed_instant_carries_both_times(action):
    instant = InstantName(T, action, State.COMPLETED, C)
    assert instant.encode() == f"{T}_{C}.{action}"
    assert InstantName.parse(f"{T}_{C}.{action}") == instant


def test_three_actions_complete_under_another_word():
    changed = {a.value: a.completed.value for a in Action if a.completed is not a}
    assert changed == {
        "compaction": "commit",
        "logcompaction": "deltacommit",
        "clustering": "replacecommit",
    }


@pytest.mark.parametrize(
    "name",
    ["history", "_version_", "", ".hidden", f".{T}.commit.requested.crc", "manifest_1",
     "notes.txt", f"{T}_{C}.commit.tmp", T, "2024.commit"],
)  # fmt: skip
def test_file_that_is_no_instant_is_none(name):
    assert InstantName.parse(name) is None


@pytest.mark.parametrize("name", [f"{T}_{C}.schemacommit", f"{T}.merge.requested", f"{T}.foo"])
def test_unknown_action_is_refused_by_name(name):
    with pytest.raises(UnsupportedError, match="unknown action"):
        InstantName.parse(name)


def test_completed_instant_of_layout_1_is_refused():
    with pytest.raises(UnsupportedError, match="layout 1"):
        InstantName.parse(f"{T}.commit")


@pytest.mark.parametrize(
    "name",
    [
        f"{T}_{C}.compaction",
        f"{T}_{C}.commit.requested",
        f"{T}_x.commit",
        f"{T}_.commit",
        f"{T}_{C}.",
        f"{T}.",
        f"{T}.commit.inflight",
        f"{T}.commit.requested.bak",
        f"{T}.requested",
    ],
)
def test_malformed_instant_is_an_error(name):
    with pytest.raises((FileNameError, UnsupportedError)):
        InstantName.parse(name)


@pytest.mark.parametrize(
    "make",
    [
        lambda: InstantName("2024", Action.COMMIT, State.REQUESTED),
        lambda: InstantName(T, Action.COMMIT, State.COMPLETED),
        lambda: InstantName(T, Action.COMMIT, State.INFLIGHT, C),
        lambda: InstantName(T, Action.COMPACTION, State.COMPLETED, C),
    ],
)
def test_instant_that_has_no_name_cannot_be_made(make):
    with pytest.raises(InvalidError):
        make()
