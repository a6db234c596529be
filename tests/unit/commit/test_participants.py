"""What becomes visible with a commit besides its data files: all of it, or nothing."""

import pytest

from lakebed.commit.rollback import side_path
from lakebed.commit.transaction import begin
from lakebed.errors import ConflictError, UnavailableError
from lakebed.format.timeline.commit_metadata import CommitMetadata
from lakebed.model.clock import ManualClock
from support.faulty import FaultyStorage, SimulatedCrash
from support.tables import batch, contents, make, reopen

SCHEMA_TEXT = '{"type":"record","name":"t","fields":[]}'
METADATA = CommitMetadata(operation_type="UPSERT", extra_metadata={"schema": SCHEMA_TEXT})


class Notes:
    """Writes one file with its instant, and remembers what it was asked to do."""

    def __init__(self, fails=False):
        self.published = []
        self.fails = fails

    def prepare(self, hold, instant, metadata):
        path = side_path("notes", instant, "0.txt")
        hold.storage.put(path, (metadata.operation_type or "").encode())
        return {"notes": path}

    def publish(self, hold, instant, completion):
        self.published.append((instant, completion))
        if self.fails:
            raise UnavailableError("the store is down")


def write(storage, notes, **options):
    with begin(storage, ManualClock(), **options) as transaction:
        transaction.participants.append(notes)
        transaction.commit(METADATA, ())
    return transaction


def side_files(storage):
    return [path for path in contents(storage) if path.startswith(".hoodie/lakebed/")]


def test_the_commit_names_what_a_participant_prepared_and_tells_it_when_it_counts():
    table = make()
    notes = Notes()
    done = write(table._storage, notes)
    path = side_path("notes", done.instant.requested, "0.txt")
    assert contents(table._storage)[path] == b"UPSERT"
    [commit] = done.active.load().commits
    metadata = CommitMetadata.parse(done.active.read(commit), "the commit")
    assert metadata.extra_metadata == {"schema": SCHEMA_TEXT, "notes": path}
    assert notes.published == [(done.instant.requested, done.completion)]


def test_a_participant_that_fails_after_the_commit_does_not_undo_it():
    table = make()
    done = write(table._storage, Notes(fails=True))
    assert len(done.active.load().commits) == 1
    assert side_files(table._storage)


def test_a_refused_write_leaves_no_file_of_its_participants():
    table = make()
    with pytest.raises(ConflictError), begin(table._storage, ManualClock()) as transaction:
        transaction.participants.append(Notes())
        table._storage.put(".hoodie/timeline/20991231235959999.commit.requested", b"")
        transaction.commit(METADATA, ())
    assert side_files(table._storage) == []


@pytest.mark.parametrize("when", ["before", "after"])
def test_after_a_crash_at_any_operation_side_files_are_there_exactly_if_the_commit_is(when):
    at = 0
    while True:
        at += 1
        table = make()
        storage = FaultyStorage(table._storage, at, when)
        try:
            write(storage, Notes())
        except SimulatedCrash:
            # The next writer rolls back what the dead one left.
            reopen(table._storage).insert(batch(("a", 1, 1, "p")))
        history = reopen(table._storage).history().to_pylist()
        ours = [commit["instant"] for commit in history if commit["operation"] == "UPSERT"]
        named = [side_path("notes", instant, "0.txt") for instant in ours]
        assert side_files(table._storage) == named
        if not storage.crashed:
            break
    assert at > 10


def test_a_rollback_of_a_completed_commit_takes_its_side_files_along():
    table = make()
    done = write(table._storage, Notes())
    table = reopen(table._storage)
    table.rollback(done.instant.requested)
    assert side_files(table._storage) == []
