"""Instants on storage: loading, and each step of an instant's life."""

import threading

import pytest

from lakebed.errors import ConflictError, CorruptError, ExistsError, InvalidError, NotFoundError
from lakebed.format.instant_name import Action, State
from lakebed.storage.local import LocalStorage
from lakebed.timeline.active import TIMELINE_FOLDER, ActiveTimeline, load_timeline
from lakebed.timeline.timeline import Timeline, TimelineInstant

T1, T2, T3, T4 = (f"2024010100000000{number}" for number in range(1, 5))


@pytest.fixture
def storage(tmp_path):
    return LocalStorage(str(tmp_path))


def names(storage):
    _, entries = storage.list_names(TIMELINE_FOLDER)
    return [entry.path.rpartition("/")[2] for entry in entries]


@pytest.fixture
def active(storage):
    return ActiveTimeline(storage)


def begin(active, action=Action.DELTACOMMIT, requested=T1, plan=b""):
    if action is not Action.SAVEPOINT:
        active.create_requested(action, requested, plan)
    return active.transition_to_inflight(action, requested)


def test_a_table_without_a_timeline_folder_has_no_instants(storage):
    assert load_timeline(storage) == Timeline()


def test_an_instant_goes_through_its_three_states(active, storage):
    requested = active.create_requested(Action.COMMIT, T1)
    assert active.load().instants == (requested,)
    inflight = active.transition_to_inflight(Action.COMMIT, T1, b"profile")
    assert active.load().instants == (inflight,)
    done = active.complete(Action.COMMIT, T1, T2, b"metadata")
    assert active.load().instants == (done,)
    assert [requested.state, inflight.state, done.state] == [*State]
    assert done == TimelineInstant(T1, Action.COMMIT, State.COMPLETED, T2, Action.COMMIT)
    assert names(storage) == [f"{T1}.commit.requested", f"{T1}.inflight", f"{T1}_{T2}.commit"]
    assert active.read(done) == b"metadata"
    assert active.read(done, State.INFLIGHT) == b"profile"
    assert active.read(done, State.REQUESTED) == b""


def test_a_compaction_completes_as_a_commit_and_keeps_its_plan(active, storage):
    inflight = begin(active, Action.COMPACTION, plan=b"plan")
    done = active.complete(Action.COMPACTION, T1, T2, b"metadata")
    assert done.file_name == f"{T1}_{T2}.commit"
    assert done.file_name in names(storage)
    assert active.load().commits == (done,)
    assert active.read(inflight, State.REQUESTED) == b"plan"
    assert active.read(done, State.REQUESTED) == b"plan"


def test_a_savepoint_has_no_requested_file(active):
    begin(active, Action.COMMIT)
    active.complete(Action.COMMIT, T1, T2, b"")
    with pytest.raises(InvalidError, match="savepoint"):
        active.create_requested(Action.SAVEPOINT, T1)
    begin(active, Action.SAVEPOINT)
    done = active.complete(Action.SAVEPOINT, T1, T3, b"kept")
    assert active.load().select(Action.SAVEPOINT) == (done,)
    assert active.read(done) == b"kept"


def test_text_that_is_no_instant_is_refused(active, storage):
    with pytest.raises(InvalidError, match="'2024'"):
        active.create_requested(Action.COMMIT, "2024")
    assert names(storage) == []


def test_a_state_that_an_instant_does_not_have_is_not_found(active):
    requested = active.create_requested(Action.CLEAN, T1, b"plan")
    assert active.read(requested) == b"plan"
    with pytest.raises(NotFoundError):
        active.read(requested, State.INFLIGHT)


def test_an_instant_cannot_be_requested_twice(active):
    first = active.create_requested(Action.COMMIT, T1, b"first")
    with pytest.raises(ExistsError):
        active.create_requested(Action.COMMIT, T1, b"second")
    assert active.read(first) == b"first"


def test_an_instant_cannot_go_in_flight_twice(active):
    begin(active)
    with pytest.raises(ExistsError):
        active.transition_to_inflight(Action.DELTACOMMIT, T1)


def test_an_instant_that_was_rolled_back_cannot_go_in_flight(active, storage):
    active.create_requested(Action.DELTACOMMIT, T1)
    active.delete_pending(Action.DELTACOMMIT, T1)
    with pytest.raises(ConflictError, match="rolled back"):
        active.transition_to_inflight(Action.DELTACOMMIT, T1)
    assert names(storage) == []


def test_an_instant_that_was_rolled_back_cannot_complete(active, storage):
    begin(active)
    active.delete_pending(Action.DELTACOMMIT, T1)
    with pytest.raises(ConflictError, match="rolled back"):
        active.complete(Action.DELTACOMMIT, T1, T2, b"")
    assert names(storage) == []


def test_an_instant_cannot_complete_twice_even_at_another_time(active):
    begin(active)
    done = active.complete(Action.DELTACOMMIT, T1, T2, b"first")
    for completion in (T2, T3):
        with pytest.raises(ExistsError, match=T2):
            active.complete(Action.DELTACOMMIT, T1, completion, b"second")
    assert active.load().commits == (done,)
    assert active.read(done) == b"first"


def test_of_many_writers_that_complete_one_instant_one_wins(active):
    begin(active)
    gate = threading.Barrier(8)
    winners = []

    def race(number):
        gate.wait()
        try:
            active.complete(Action.DELTACOMMIT, T1, T2, b"%d" % number)
        except ExistsError:
            return
        winners.append(b"%d" % number)

    threads = [threading.Thread(target=race, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (commit,) = active.load().commits
    assert winners == [active.read(commit)]


@pytest.mark.parametrize("completion", [T1, "20230101000000000"])
def test_an_instant_completes_after_it_was_requested(active, completion):
    begin(active)
    with pytest.raises(InvalidError, match=completion):
        active.complete(Action.DELTACOMMIT, T1, completion, b"")


def test_a_rollback_removes_the_in_flight_file_first(tmp_path):
    deleted = []

    class Watched(LocalStorage):
        def delete(self, path):
            deleted.append(path.rpartition("/")[2])
            super().delete(path)

    active = ActiveTimeline(Watched(str(tmp_path)))
    begin(active)
    active.delete_pending(Action.DELTACOMMIT, T1)
    assert deleted == [f"{T1}.deltacommit.inflight", f"{T1}.deltacommit.requested"]
    assert active.load() == Timeline()
    active.delete_pending(Action.DELTACOMMIT, T1)  # again does no harm


def test_loading_reads_no_file_and_no_folder_below(storage, active, tmp_path):
    begin(active)
    storage.put(f"{TIMELINE_FOLDER}/history/{T2}_{T3}.commit", b"")
    storage.put(f"{TIMELINE_FOLDER}/.{T1}.crc", b"")

    class Listed(LocalStorage):
        def read(self, path):
            raise AssertionError(path)

        read_range = open_read = head = list = read

    timeline = load_timeline(Listed(str(tmp_path)))
    assert [instant.requested for instant in timeline.instants] == [T1]


def test_two_completed_files_of_one_instant_are_corrupt(storage):
    for completion in (T2, T3):
        storage.put(f"{TIMELINE_FOLDER}/{T1}_{completion}.commit", b"")
    with pytest.raises(CorruptError, match=rf"{T1}_{T2}.commit and {T1}_{T3}.commit"):
        load_timeline(storage)


def test_a_timeline_lives_in_the_folder_that_the_table_names(storage):
    begin(ActiveTimeline(storage, ".hoodie/elsewhere"))
    assert load_timeline(storage) == Timeline()
    assert load_timeline(storage, ".hoodie/elsewhere").pending()[0].requested == T1


@pytest.mark.parametrize(
    "folder", [".hoodie/../..", "/etc", ".hoodie//timeline", ".hoodie/timeline/"]
)
def test_a_folder_that_leaves_the_table_is_refused(storage, folder):
    with pytest.raises(InvalidError):
        load_timeline(storage, folder)
    with pytest.raises(InvalidError):
        ActiveTimeline(storage, folder).create_requested(Action.COMMIT, T1)
