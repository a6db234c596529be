"""Instants on storage: loading, and each step of an instant's life."""

import secrets
import threading

import pytest

from lakebed.errors import ConflictError, CorruptError, ExistsError, InvalidError, NotFoundError
from lakebed.format.names.instant_name import Action, State
from lakebed.storage.local import LocalStorage
from lakebed.storage.open import open_storage
from lakebed.timeline.active import TIMELINE_FOLDER, ActiveTimeline, load_timeline
from lakebed.timeline.timeline import Timeline, TimelineInstant

T1, T2, T3, T4, T5, T6 = (f"2024010100000000{number}" for number in range(1, 7))


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
    with pytest.raises(ConflictError, match="rolled it back"):
        active.transition_to_inflight(Action.DELTACOMMIT, T1)
    assert names(storage) == []


def test_an_instant_that_was_rolled_back_cannot_complete(active, storage):
    begin(active)
    active.delete_pending(Action.DELTACOMMIT, T1)
    with pytest.raises(ConflictError, match="rolled it back"):
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


class Paged(LocalStorage):
    """A folder of which other processes change something between two pages of a listing."""

    def __init__(self, root, *changes):
        super().__init__(root)
        self.changes = list(changes)

    def names(self, prefix=""):
        first = sorted(super().names(prefix))
        half = len(first) // 2
        if self.changes:
            self.changes.pop(0)()
        later = sorted(set(super().names(prefix)) - set(first[:half]))
        return first[:half] + [name for name in later if half == 0 or name > first[half - 1]]


def complete_early_then_late(active):
    """Complete T1, which a listing has passed already, and then T3, which it has not."""
    active.complete(Action.DELTACOMMIT, T1, T5, b"")
    active.complete(Action.DELTACOMMIT, T3, T6, b"")


def begin_three(active):
    for time in (T1, T2, T3):
        begin(active, requested=time)


def test_a_commit_is_never_seen_without_one_completed_before_it(active, tmp_path):
    begin_three(active)
    seen = load_timeline(Paged(str(tmp_path), lambda: complete_early_then_late(active)))
    assert [commit.requested for commit in seen.commits] == [T1, T3]


def test_what_completes_during_the_second_listing_is_pending(active, tmp_path):
    begin_three(active)
    storage = Paged(str(tmp_path), lambda: None, lambda: complete_early_then_late(active))
    seen = load_timeline(storage)
    assert seen.commits == ()
    assert [pending.requested for pending in seen.pending()] == [T1, T2, T3]
    assert [commit.requested for commit in active.load().commits] == [T1, T3]


def test_a_timeline_that_changes_during_every_listing_is_read_all_the_same(active, tmp_path):
    begin(active)
    active.complete(Action.DELTACOMMIT, T1, T2, b"")
    numbers = iter(range(300))

    def write():
        requested, completion = (f"2024010{day}0000{next(numbers):05d}" for day in (2, 3))
        begin(active, requested=requested)
        active.complete(Action.DELTACOMMIT, requested, completion, b"")

    seen = load_timeline(Paged(str(tmp_path), *[write] * 100))
    completions = [commit.completion for commit in seen.commits]
    everything = [commit.completion for commit in active.load().commits]
    assert completions == everything[: len(completions)]


def test_a_timeline_of_layout_1_is_listed_until_it_stands_still(tmp_path):
    folder = tmp_path / ".hoodie"
    folder.mkdir()
    for time in (T1, T2, T3):
        (folder / f"{time}.commit.requested").touch()
        (folder / f"{time}.inflight").touch()

    def complete():
        (folder / f"{T1}.commit").touch()
        (folder / f"{T3}.commit").touch()

    seen = load_timeline(Paged(str(tmp_path), complete), ".hoodie")
    assert [commit.requested for commit in seen.commits] == [T1, T3]
    changes = [lambda n=n: (folder / f"z{n:03d}").touch() for n in range(200)]
    with pytest.raises(ConflictError, match="changed during each of 100 listings"):
        load_timeline(Paged(str(tmp_path), *changes), ".hoodie")


def test_pages_of_an_s3_listing_do_not_hide_an_earlier_commit(s3_server):
    options = s3_server.options()
    bucket = open_storage(f"s3://{s3_server.bucket}", options)
    table = f"paged/{secrets.token_hex(4)}"
    active = ActiveTimeline(open_storage(f"s3://{s3_server.bucket}/{table}", options))
    begin_three(active)
    for name in (f"{T1}_{T5}.deltacommit", f"{T3}_{T6}.deltacommit"):
        bucket.put(f"between-pages/{table}/{TIMELINE_FOLDER}/{name}", b"{}")
    assert [commit.requested for commit in active.load().commits] == [T1, T3]
    assert not bucket.names("between-pages")
