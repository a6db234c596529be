"""A write among others: what it waits for, what it refuses, what it takes back."""

import multiprocessing
import threading
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from lakebed.commit.lock import table_lock
from lakebed.commit.transaction import begin
from lakebed.errors import ConflictError, CorruptError, ExistsError, LockedError
from lakebed.format.timeline.commit_metadata import CommitMetadata
from lakebed.model.clock import ManualClock
from lakebed.storage.objects import memory_storage
from lakebed.storage.storage import Storage
from support.faulty import FaultyStorage
from support.tables import (
    SCHEMA,
    batch,
    check_files,
    check_no_leftovers,
    contents,
    make,
    reopen,
    user_rows,
)

LATER = "20991231235959999"
TIMELINE = ".hoodie/timeline"


class Intruder(FaultyStorage):
    """Does something to the table right before the `nth` operation whose name fits."""

    def __init__(self, inner: Storage, before: str, deed: Any, nth: int = 1) -> None:
        super().__init__(inner)
        self._before, self._deed, self._left = before, deed, nth
        self.done = False

    def run(self, op: str, act: Any) -> Any:
        if self._before in op:
            self._left -= 1
            if self._left == 0:
                self._deed(self.inner, op)
                self.done = True
        return super().run(op, act)


def test_the_first_write_waits_for_nobody_and_leaves_its_three_files():
    table = make()
    commit = table.insert(batch(("a", 1, 1, "p")))
    names = sorted(entry.path for entry in table._storage.list(TIMELINE))
    assert names == [
        f"{TIMELINE}/{commit.instant}.commit.requested",
        f"{TIMELINE}/{commit.instant}.inflight",
        f"{TIMELINE}/{commit.instant}_{commit.completion_time}.commit",
    ]
    assert commit.completion_time > commit.instant


def test_instants_grow_although_the_clock_stands_still():
    table = make(clock=ManualClock())
    commits = [table.insert(batch((f"k{i}", 1, 1, "p"))) for i in range(5)]
    times = [time for commit in commits for time in (commit.instant, commit.completion_time)]
    assert times == sorted(set(times))


def test_instants_grow_although_the_clock_goes_back():
    table = make()
    first = table.insert(batch(("a", 1, 1, "p")))
    second = reopen(table._storage, ManualClock(ms=0)).insert(batch(("b", 1, 1, "p")))
    assert second.instant > first.completion_time
    assert len(user_rows(table)) == 2


def test_a_write_waits_for_the_lock_and_then_gives_up():
    table = make()
    with (
        table_lock(table._storage).hold(ManualClock(), 0),
        pytest.raises(LockedError, match="has held the table for 60 s"),
    ):
        table.insert(batch(("a", 1, 1, "p")))
    assert user_rows(table) == {}


FOREIGN = {
    "a completed commit": f"{TIMELINE}/{LATER}_21000101000000000.commit",
    "a requested commit": f"{TIMELINE}/{LATER}.commit.requested",
    "a requested deltacommit": f"{TIMELINE}/{LATER}.deltacommit.requested",
    "a replacecommit": f"{TIMELINE}/{LATER}_21000101000000000.replacecommit",
    "a clustering plan": f"{TIMELINE}/{LATER}.clustering.requested",
    "a restore": f"{TIMELINE}/{LATER}.restore.requested",
}


@pytest.mark.parametrize("deed", FOREIGN)
@pytest.mark.parametrize("before", ["open_write .hoodie/.temp", "close p/", "names p"])
def test_a_foreign_writer_between_begin_and_complete_wins(deed, before):
    storage = memory_storage()
    make(storage).insert(batch(("a", 1, 1, "p")))
    rows, objects = user_rows(reopen(storage)), contents(storage)
    content = CommitMetadata(operation_type="INSERT").encode()
    intruder = Intruder(storage, before, lambda inner, _: inner.put(FOREIGN[deed], content))
    with pytest.raises(ConflictError, match=f"overtaken by another: .*{LATER}.*retry"):
        reopen(intruder).insert(batch(("a", 2, 2, "p"), ("b", 2, 2, "p")))
    storage.delete(FOREIGN[deed])
    assert contents(storage) == objects, "ours is taken back whole"
    assert user_rows(reopen(storage)) == rows
    reopen(storage).insert(batch(("c", 1, 1, "p")))


@pytest.mark.parametrize(
    ("before", "nth"),
    [("close p/", 1), ("names p", 1), *((f"names {TIMELINE}", nth) for nth in (3, 4, 5, 6))],
)
def test_a_foreign_writer_that_rolls_ours_back_wins(before, nth):
    storage = memory_storage()
    make(storage).insert(batch(("a", 1, 1, "p")))
    objects = contents(storage)

    def roll_back(inner: Storage, _: str) -> None:
        for entry in list(inner.list(TIMELINE)):
            if entry.path not in objects:
                inner.delete(entry.path)

    intruder = Intruder(storage, before, roll_back, nth)
    with pytest.raises(ConflictError, match=r"rolled (it )?back"):
        reopen(intruder).insert(batch(("b", 2, 2, "p")))
    assert contents(storage) == objects


def test_an_instant_that_another_writer_took_is_left_to_it():
    storage = memory_storage()
    make(storage)

    def take(inner: Storage, op: str) -> None:
        inner.put(op.removeprefix("put_if_absent "), b"theirs")

    intruder = Intruder(storage, ".commit.requested", take)
    with pytest.raises(ExistsError):
        reopen(intruder).insert(batch(("b", 2, 2, "p")))
    [left] = storage.list(TIMELINE)
    assert storage.read(left.path) == b"theirs"


def test_what_a_dead_writer_left_is_taken_back_by_the_next():
    storage = memory_storage()
    make(storage).insert(batch(("a", 1, 1, "p")))
    data = next(d for p, d in contents(storage).items() if p.endswith(".parquet"))
    storage.put(f"{TIMELINE}/20300101000000000.commit.requested", b"")
    storage.put(f"{TIMELINE}/20300101000000000.inflight", b"")
    storage.put("p/00000000-dead-0_0-0-0_20300101000000000.parquet", data)
    storage.put(".hoodie/.temp/lakebed/20300101000000000-0-0-0-0.arrow", b"x")
    storage.put(".hoodie/.temp/lakebed/20200101000000000-0-0-0-0.arrow", b"x")
    assert len(user_rows(reopen(storage))) == 1
    reopen(storage).insert(batch(("b", 1, 1, "p")))
    assert len(user_rows(reopen(storage))) == 2
    check_no_leftovers(storage)


def test_temporary_files_of_hudi_are_not_ours_to_delete():
    storage = memory_storage()
    make(storage)
    theirs = ".hoodie/.temp/20300101000000000/MARKERS0"
    storage.put(theirs, b"x")
    reopen(storage).insert(batch(("b", 1, 1, "p")))
    assert theirs in contents(storage)


def test_a_pending_write_with_a_heartbeat_is_not_touched():
    storage = memory_storage()
    make(storage)
    storage.put(f"{TIMELINE}/20300101000000000.commit.requested", b"")
    storage.put(".hoodie/.heartbeat/20300101000000000", b"")
    objects = contents(storage)
    with pytest.raises(LockedError, match="20300101000000000 is pending with a heartbeat"):
        reopen(storage).insert(batch(("b", 1, 1, "p")))
    assert contents(storage) == objects


@pytest.mark.parametrize("word", ["rollback", "restore"])
def test_a_pending_rollback_or_restore_that_nobody_can_read_is_refused(word):
    storage = memory_storage()
    make(storage)
    storage.put(f"{TIMELINE}/20300101000000000.{word}.requested", b"")
    objects = contents(storage)
    with pytest.raises(CorruptError):
        reopen(storage).insert(batch(("b", 1, 1, "p")))
    assert contents(storage) == objects


def test_a_transaction_that_is_left_without_completing_is_taken_back():
    table = make()
    before = contents(table._storage)
    with begin(table._storage, ManualClock()) as transaction:
        assert transaction.instant.requested
        assert contents(table._storage) != before
    assert contents(table._storage) == before


def test_an_interrupt_takes_the_write_back():
    table = make()
    before = contents(table._storage)

    def batches():
        yield batch(("a", 1, 1, "p")).to_batches()[0]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        table.insert(pa.RecordBatchReader.from_batches(SCHEMA, batches()))
    assert contents(table._storage) == before


def test_files_that_a_failed_attempt_left_are_deleted_before_the_commit():
    storage = memory_storage()
    make(storage)

    def leave(inner: Storage, _: str) -> None:
        name = next(p for p in contents(inner) if p.startswith("p/") and p.endswith(".parquet"))
        file_id, _, instant = name[2:].split("_")
        inner.put(f"p/{file_id}_9-9-9_{instant}", inner.read(name))
        inner.put(f"p/00000007-other-0_9-9-9_{instant}", inner.read(name))

    intruder = Intruder(storage, "names p", leave)
    commit = reopen(intruder).insert(batch(("a", 1, 1, "p")))
    assert intruder.done
    left = [path for path in contents(storage) if path.endswith(".parquet")]
    assert left == [stat.path for stat in commit.write_stats]


def test_a_table_opened_before_another_named_the_index_learns_it():
    storage = memory_storage()
    make(storage)
    lines = storage.read(".hoodie/hoodie.properties").decode().splitlines(keepends=True)
    bare = "".join(line for line in lines if "index" not in line)
    storage.put(".hoodie/hoodie.properties", bare.encode())
    one, two = reopen(storage), reopen(storage)
    one.insert(batch(("a", 1, 1, "p")), index="bucket", buckets=2)
    with pytest.raises(lakebed.InvalidError, match=r"is written with .*buckets=2.*found .*=8"):
        two.insert(batch(("b", 1, 1, "p")), index="bucket", buckets=8)
    two.insert(batch(("b", 1, 1, "p")))
    assert len(user_rows(reopen(storage))) == 2
    check_files(one)


ROUNDS = 4


def insert_rounds(path: str, who: str) -> None:
    table = lakebed.open_table(None, path)
    for n in range(ROUNDS):
        table.insert(batch((f"{who}{n}", n, n, "p"), (f"{who}{n}", n, n, who), ("same", n, n, "p")))


def test_two_threads_that_insert_lose_nothing(tmp_path):
    path = str(tmp_path / "t")
    make_on_disk(path)
    threads = [threading.Thread(target=insert_rounds, args=(path, who)) for who in "xy"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    check_rounds(path)


def test_two_processes_that_insert_lose_nothing(tmp_path):
    path = str(tmp_path / "t")
    make_on_disk(path)
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=insert_rounds, args=(path, who)) for who in "xy"]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
    assert [process.exitcode for process in processes] == [0, 0]
    check_rounds(path)


def make_on_disk(path: str) -> None:
    lakebed.create_table(
        None, path, SCHEMA, key="id", partition_by="dt", table_type="COPY_ON_WRITE", buckets=2
    )


def check_rounds(path: str) -> None:
    table = lakebed.open_table(None, path)
    wanted = {("p", f"{who}{n}") for who in "xy" for n in range(ROUNDS)}
    wanted |= {(who, f"{who}{n}") for who in "xy" for n in range(ROUNDS)}
    assert set(user_rows(table)) == wanted | {("p", "same")}
    assert table.history().num_rows == 2 * ROUNDS
    check_files(table)
    check_no_leftovers(table._storage)
