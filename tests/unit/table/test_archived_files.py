"""A lost file shows also when the commit that wrote it is archived, and nothing else ever does."""

import itertools

import pytest

from lakebed.errors import CorruptError
from lakebed.format.names.data_names import parse_data_name
from lakebed.model.clock import ManualClock
from lakebed.model.executor import LocalExecutor
from lakebed.model.options.services import ArchiveOptions, CleanOptions
from lakebed.services.archive.execute import archive
from lakebed.services.clean.execute import clean
from lakebed.services.verify.findings import Code, Severity
from lakebed.services.verify.verify import verify
from lakebed.storage.objects import memory_storage
from lakebed.table.files.archived_files import ARCHIVED_FILES_PATH, read_archived_files
from support.tables import batch, contents, copy_of, make, reopen, user_rows

CLEAN = CleanOptions(commits_retained=1, min_age_seconds=0)
OPTIONS = ArchiveOptions(2, 3, clean=CLEAN, delta_commits=1)
BY_HAND = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}


def written(count=6, **changes):
    """Return a table with two rows in partition A, and then `count` commits to partition B."""
    storage = memory_storage()
    settings = {"table_type": "MERGE_ON_READ", "ordering": ("ts",), "buckets": 1, **changes}
    table = make(storage, ManualClock(step_ms=1), properties=BY_HAND, **settings)
    table.upsert(batch(("a1", 1, 1, "A"), ("a2", 1, 1, "A")))
    for number in range(count):
        table.upsert(batch((f"b{number}", 1, 1, "B")))
    return table


def data_of(storage, partition):
    return sorted(e.path for e in storage.list(partition) if not e.path.endswith("metadata"))


def errors(storage):
    report = verify(storage, ManualClock(1_700_000_100_000), LocalExecutor(1), quick=True)
    return [f for f in report if f.severity is Severity.ERROR]


@pytest.mark.parametrize("table_type", ["MERGE_ON_READ", "COPY_ON_WRITE"])
def test_a_lost_file_of_an_archived_commit_is_named_where_its_rows_are_needed(table_type):
    table = written(table_type=table_type)
    storage = table._storage
    assert archive(table._target(), OPTIONS)
    rows = user_rows(reopen(storage))
    [victim] = data_of(storage, "A")
    whole = storage.read(victim)
    for left in (None, whole[:-9]):
        storage.delete(victim)
        if left is not None:
            storage.put(victim, left)
        again = reopen(storage)
        with pytest.raises(CorruptError, match=victim) as raised:
            again.read()
        assert "2 were written to it" in str(raised.value)
        assert str(parse_data_name(victim.rpartition("/")[2]).instant) in str(raised.value)
        assert again.read(where="dt = 'B'").read_all().num_rows == 6
        assert {error.path for error in errors(storage)} == {victim}
    storage.put(victim, whole)
    assert user_rows(again) == rows
    assert errors(storage) == []


def test_verify_finds_it_from_the_archive_alone_where_another_engine_archived():
    table = written()
    storage = table._storage
    archive(table._target(), OPTIONS)
    storage.delete(ARCHIVED_FILES_PATH)
    assert errors(storage) == []
    [victim] = data_of(storage, "A")
    storage.delete(victim)
    [error] = errors(storage)
    assert (error.code, error.path) == (Code.FILE_MISSING, victim)
    assert "2 were written to it" in error.message


def test_what_was_archived_without_being_written_down_is_watched_from_the_next_archiving_on():
    table = written()
    storage = table._storage
    archive(table._target(), OPTIONS)
    storage.delete(ARCHIVED_FILES_PATH)
    for number in range(6):
        table.upsert(batch((f"c{number}", 1, 1, "C")))
    archive(table._target(), OPTIONS)
    [victim] = data_of(storage, "A")
    storage.delete(victim)
    with pytest.raises(CorruptError, match=victim):
        reopen(storage).read()


def test_a_file_that_was_lost_before_its_commit_was_archived_stays_lost():
    table = written()
    storage = table._storage
    [victim] = data_of(storage, "A")
    storage.delete(victim)
    assert archive(table._target(), OPTIONS)
    with pytest.raises(CorruptError, match=victim):
        reopen(storage).read()


def _compacted(table):
    table.upsert(batch(("a1", 2, 2, "A")))
    table.compact()


def _overwritten(table):
    table.insert_overwrite(batch(("a1", 2, 2, "A")))


def _dropped(table):
    table.upsert(batch(("a1", 2, 2, "A")))
    table.delete_partitions(["A"])


def _restored(table):
    table.savepoint()
    table.upsert(batch(("a1", 9, 9, "A")))
    saved = table.savepoints()[0].instant
    table.restore(saved)
    table.delete_savepoint(saved)


def _rolled_back(table):
    table.rollback(table.upsert(batch(("a1", 9, 9, "A"))).instant)


@pytest.mark.parametrize(
    "change",
    [_compacted, _overwritten, _dropped, _restored, _rolled_back],
    ids=lambda f: f.__name__,
)
def test_nothing_is_taken_for_lost_that_a_service_or_a_write_took_away(change):
    table = written()
    storage = table._storage
    archive(table._target(), OPTIONS)
    for _ in range(2):
        change(table)
        for number in range(4):
            table.upsert(batch((f"c{number}", 1, 1, "C")))
            clean(table._target(), CLEAN)
            user_rows(reopen(storage))
            assert errors(storage) == []
        archive(table._target(), OPTIONS)
        user_rows(reopen(storage))
        assert errors(storage) == []
    known = {file.path for file in read_archived_files(storage).files}
    # What is still named may be superseded by commits that are active, and is there otherwise.
    assert known


def test_what_is_written_down_is_not_used_once_another_engine_archived():
    table = written()
    storage = table._storage
    archive(table._target(), OPTIONS)
    stale = storage.read(ARCHIVED_FILES_PATH)
    table.delete_partitions(["A"])
    for number in range(6):
        table.upsert(batch((f"c{number}", 1, 1, "C")))
        clean(table._target(), CLEAN)
    archive(table._target(), OPTIONS)
    assert data_of(storage, "A") == []
    # As if the second archiving had been Apache Hudi's: it names files of partition A still.
    storage.put(ARCHIVED_FILES_PATH, stale)
    assert {dt for dt, _ in user_rows(reopen(storage))} == {"B", "C"}
    assert errors(storage) == []


def test_bytes_that_archiving_did_not_write_are_ignored_and_noted():
    table = written()
    archive(table._target(), OPTIONS)
    rows = user_rows(table)
    whole = table._storage.read(ARCHIVED_FILES_PATH)
    torn = whole[:40] + b"\xff" + whole[41:]
    of_older_release = whole[:-4]
    for data in (b"", b"x" * 99, whole[:-5], torn, of_older_release):
        storage = copy_of({**contents(table._storage), ARCHIVED_FILES_PATH: data})
        assert user_rows(reopen(storage)) == rows
        report = verify(storage, ManualClock(1_700_000_100_000), LocalExecutor(1), quick=True)
        assert report.is_sound
        [note] = [f for f in report if f.path == ARCHIVED_FILES_PATH]
        assert note.code is Code.ARCHIVE_BAD
        again = reopen(storage, ManualClock(1_700_000_100_000, step_ms=1))
        for number in range(4):
            again.upsert(batch((f"c{number}", 1, 1, "C")))
        assert archive(again._target(), OPTIONS)
        assert read_archived_files(storage) is not None


def test_every_flipped_bit_of_what_is_written_down_is_noticed():
    """pyarrow trusts a footer: one bit can hide rows, and another one end the process."""
    table = written()
    archive(table._target(), OPTIONS)
    whole = table._storage.read(ARCHIVED_FILES_PATH)
    for at, bit in itertools.product(range(len(whole)), range(8)):
        torn = whole[:at] + bytes([whole[at] ^ (1 << bit)]) + whole[at + 1 :]
        table._storage.put(ARCHIVED_FILES_PATH, torn)
        with pytest.raises(CorruptError, match="checksum"):
            read_archived_files(table._storage)
