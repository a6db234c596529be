import pytest

from lakebed.errors import FileNameError, InvalidError, UnsupportedError
from lakebed.format.names.instant_name import LAYOUT_1, Action, InstantName, State

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


def test_completed_instant_of_the_other_layout_is_refused():
    with pytest.raises(UnsupportedError, match="layout 2; it is of layout 1"):
        InstantName.parse(f"{T}.commit")
    with pytest.raises(UnsupportedError, match="layout 1; it is of layout 2"):
        InstantName.parse(f"{T}_{C}.commit", LAYOUT_1)


@pytest.mark.parametrize("requested", [T, T[:14]])
@pytest.mark.parametrize("action", [a for a in Action if a.completed is a])
def test_completed_instant_of_layout_1_has_one_time_that_stands_for_both(requested, action):
    instant = InstantName(requested, action, State.COMPLETED, requested, LAYOUT_1)
    assert instant.encode() == f"{requested}.{action}"
    assert InstantName.parse(f"{requested}.{action}", LAYOUT_1) == instant


@pytest.mark.parametrize(("action", "state", "name"), PENDING)
def test_pending_instant_has_the_same_name_in_layout_1(action, state, name):
    instant = InstantName(T, action, state, layout=LAYOUT_1)
    assert instant.encode() == name
    assert InstantName.parse(name, LAYOUT_1) == instant


@pytest.mark.parametrize("name", ["hoodie.properties", "archived", "metadata", ".aux", T])
def test_file_of_the_metadata_folder_that_is_no_instant_is_none(name):
    assert InstantName.parse(name, LAYOUT_1) is None


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        (f"{T}.compaction", "expected the word commit"),
        (f"{T}.foo", "unknown action 'foo'"),
        (f"{T}.commit.requested.bak", "unknown action 'bak'"),
        (f"{T}.", r"or <T>\.<action>$"),
    ],
)
def test_malformed_instant_of_layout_1_is_refused_by_name(name, complaint):
    with pytest.raises((FileNameError, UnsupportedError), match=complaint):
        InstantName.parse(name, LAYOUT_1)


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
        lambda: InstantName(T, Action.COMMIT, State.COMPLETED, C, LAYOUT_1),
    ],
)
def test_instant_that_has_no_name_cannot_be_made(make):
    with pytest.raises(InvalidError):
        make()
