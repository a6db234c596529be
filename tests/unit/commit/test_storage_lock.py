"""One writer at a time on an object store, among threads, processes and the dead."""

import json
import multiprocessing
import threading
import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lakebed
from lakebed.commit.lock import table_lock
from lakebed.commit.storage_lock import StorageLock
from lakebed.errors import (
    ConflictError,
    CorruptError,
    LakebedError,
    LockedError,
    UnavailableError,
)
from lakebed.format.timeline.lock_file import LOCK_FILE_PATH, LockFile
from lakebed.model.clock import ManualClock, SystemClock
from lakebed.storage.objects import ObjectStorage, memory_storage
from lakebed.storage.open import open_storage
from lakebed.storage.storage import Storage
from support.faulty import FaultyStorage
from support.s3 import S3Server
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

NEVER = 3600.0  # renewals by hand only
START = ManualClock().ms
OTHER = "00000000-0000-0000-0000-00000000beef"


def quiet(storage: Storage) -> StorageLock:
    return StorageLock(storage, renew_seconds=NEVER)


def lock_file(storage: Storage) -> LockFile:
    return LockFile.parse(storage.read(LOCK_FILE_PATH), "it")


def put(storage: Storage, lock: LockFile) -> None:
    storage.put(LOCK_FILE_PATH, lock.encode())


class Cloud(FaultyStorage):
    """A memory that passes for a store of several processes, with a hook on each operation."""

    def __init__(self, inner: Storage, before: Any = None, after: Any = None) -> None:
        super().__init__(inner)
        self._before, self._after = before, after

    @property
    def url(self) -> str:
        return "s3://bucket/table"

    def run(self, op: str, act: Any) -> Any:
        if self._before is not None:
            self._before(op)
        result = super().run(op, act)
        if self._after is not None:
            self._after(op)
        return result


class TestTheFile:
    def test_its_bytes_are_those_of_hudi(self):
        line = b'{"expired":false,"validUntil":1700000000123,"owner":"own-1"}'
        assert LockFile("own-1", 1700000000123).encode() == line
        assert LockFile.parse(line, "it") == LockFile("own-1", 1700000000123)

    @given(st.text(), st.integers(0, 253_402_300_799_999), st.booleans())
    def test_what_is_written_is_read(self, owner, until, expired):
        lock = LockFile(owner, until, expired)
        assert LockFile.parse(lock.encode(), "it") == lock

    def test_fields_of_a_later_version_are_left_alone(self):
        line = b'{"owner":"o","new":[1],"expired":true,"validUntil":5}'
        assert LockFile.parse(line, "it") == LockFile("o", 5, expired=True)

    @pytest.mark.parametrize(
        "line",
        [
            b"",
            b"\xff",
            b"null",
            b"[]",
            b"{}",
            b'"owner"',
            b'{"expired":false,"validUntil":1}',
            b'{"expired":null,"validUntil":1,"owner":"o"}',
            b'{"expired":0,"validUntil":1,"owner":"o"}',
            b'{"expired":false,"validUntil":true,"owner":"o"}',
            b'{"expired":false,"validUntil":1.5,"owner":"o"}',
            b'{"expired":false,"validUntil":-1,"owner":"o"}',
            b'{"expired":false,"validUntil":253402300800000,"owner":"o"}',
            b'{"expired":false,"validUntil":' + b"9" * 5000 + b',"owner":"o"}',
            b'{"expired":false,"validUntil":1,"owner":null}',
            b"[" * 30_000,
            b" " * 70_000 + b'{"expired":true,"validUntil":1,"owner":"o"}',
        ],
        ids=range(17),
    )
    def test_a_file_that_says_something_else_is_refused_by_name(self, line):
        storage = memory_storage()
        storage.put(LOCK_FILE_PATH, line)
        with (
            pytest.raises(CorruptError, match=r"memory://table/\.hoodie/\.locks/table_lock\.json"),
            quiet(storage).hold(ManualClock(), 0),
        ):
            pytest.fail("took a lock that cannot be understood")
        assert storage.read(LOCK_FILE_PATH) == line


class TestAcquire:
    def test_the_first_makes_the_file_and_leaves_it_expired(self):
        storage, clock = memory_storage(), ManualClock()
        with quiet(storage).hold(clock, 0):
            held = lock_file(storage)
            assert held.valid_until_ms == START + 300_000
            assert not held.expired
            assert str(uuid.UUID(held.owner)) == held.owner
        assert lock_file(storage) == LockFile(held.owner, START + 300_000, expired=True)

    def test_what_another_released_is_free_at_once(self):
        storage = memory_storage()
        put(storage, LockFile(OTHER, START + 200_000, expired=True))
        with quiet(storage).hold(ManualClock(), 0):
            assert lock_file(storage).owner != OTHER

    def test_a_second_writer_is_told_who_holds_the_table_and_until_when(self):
        storage, clock = memory_storage(), ManualClock()
        with quiet(storage).hold(clock, 0):
            before, owner = storage.read(LOCK_FILE_PATH), lock_file(storage).owner
            with (
                pytest.raises(
                    LockedError,
                    match=rf"table_lock\.json: another writer has held the table for 5 s .*{owner}"
                    r", valid until 2023-11-14T22:18:20\.000\+00:00",
                ),
                quiet(storage).hold(clock, 5),
            ):
                pytest.fail("two hold the lock")
            assert 5000 <= clock.ms - START < 6000
            assert storage.read(LOCK_FILE_PATH) == before
        with quiet(storage).hold(clock, 0):
            pass

    @pytest.mark.parametrize(("passed", "free"), [(0, False), (500, False), (501, True)])
    def test_a_dead_owner_is_waited_for_until_its_time_has_passed(self, passed, free):
        storage = memory_storage()
        put(storage, LockFile(OTHER, START))
        clock = ManualClock(START + passed)
        if free:
            with quiet(storage).hold(clock, 0):
                assert lock_file(storage).owner != OTHER
        else:
            with pytest.raises(LockedError, match=OTHER), quiet(storage).hold(clock, 0):
                pytest.fail("took the lock of a live owner")

    def test_a_writer_that_waits_long_enough_takes_over_from_the_dead(self, caplog):
        storage, clock = memory_storage(), ManualClock()
        put(storage, LockFile(OTHER, START + 300_000))
        with quiet(storage).hold(clock, 400):
            assert 300_500 < clock.ms - START < 301_000
        assert f"held by {OTHER}" in caplog.text

    @pytest.mark.parametrize("left", [None, LockFile(OTHER, START - 1000)])
    def test_of_two_that_see_it_free_one_gets_it(self, left):
        storage, clock = memory_storage(), ManualClock()
        if left is not None:
            put(storage, left)
        faster: list[Any] = []

        def intrude(op: str) -> None:
            if op.startswith("put_if") and not faster:
                faster.append(quiet(storage).hold(clock, 0))
                faster[0].__enter__()

        cloud = Cloud(storage, before=intrude)
        with pytest.raises(LockedError), quiet(cloud).hold(clock, 0):
            pytest.fail("two hold the lock")
        faster[0].__exit__(None, None, None)
        with quiet(cloud).hold(clock, 0):
            pass

    def test_an_error_gives_the_lock_back(self):
        storage = memory_storage()
        with pytest.raises(RuntimeError), quiet(storage).hold(ManualClock(), 0):
            raise RuntimeError
        assert lock_file(storage).expired

    def test_threads_take_turns(self):
        storage, inside, most = memory_storage(), 0, 0

        def work():
            nonlocal inside, most
            for _ in range(3):
                with StorageLock(storage).hold(SystemClock(), 30):
                    inside += 1
                    most = max(most, inside)
                    inside -= 1

        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert most == 1
        assert lock_file(storage).expired


class TestRenewal:
    def test_a_thread_renews_until_the_release(self):
        renewed = threading.Semaphore(0)
        storage = memory_storage()
        cloud = Cloud(
            storage, after=lambda op: renewed.release() if "put_if_unchanged" in op else None
        )
        clock = ManualClock()
        with StorageLock(cloud, renew_seconds=0.001).hold(clock, 0):
            first = lock_file(storage)
            clock.ms += 100_000
            while renewed.acquire(blocking=False):
                pass  # renewals from before
            for _ in range(2):  # the first may have looked at the clock before, too
                assert renewed.acquire(timeout=30)
            later = lock_file(storage)
            assert later.owner == first.owner
            assert later.valid_until_ms >= START + 400_000
        assert not [t for t in threading.enumerate() if t.name == "lakebed-lock"]
        assert lock_file(storage).expired

    def test_no_two_renewals_have_the_same_bytes_although_the_clock_stands_still(self):
        storage, clock = memory_storage(), ManualClock()
        with quiet(storage).hold(clock, 0) as lock:
            seen = [storage.read(LOCK_FILE_PATH)]
            for move in (0, 0, -5000, 0):
                clock.ms += move
                lock.renew()
                seen.append(storage.read(LOCK_FILE_PATH))
        assert len(set(seen)) == len(seen)

    @pytest.mark.parametrize(("passed", "renews"), [(0, False), (150_000, False), (150_001, True)])
    def test_a_check_renews_only_with_little_time_left(self, passed, renews):
        storage, clock = memory_storage(), ManualClock()
        with quiet(storage).hold(clock, 0) as lock:
            before = storage.read(LOCK_FILE_PATH)
            clock.ms += passed
            lock.check()
            assert (storage.read(LOCK_FILE_PATH) != before) == renews
            assert lock_file(storage).valid_until_ms - clock.ms >= 150_000

    def test_a_check_without_storage_fails(self):
        storage, clock, down = memory_storage(), ManualClock(), False

        def fail(op: str) -> None:
            if down and op.startswith(("put_if_unchanged", "head")):
                raise UnavailableError("down")

        with quiet(Cloud(storage, before=fail)).hold(clock, 0) as lock:
            down = True
            for _ in range(2):
                with pytest.raises(UnavailableError):
                    lock.check()
                clock.ms += 400_000
            down = False

    def test_an_outage_is_outlived(self):
        storage, clock, down = memory_storage(), ManualClock(), True

        def fail(op: str) -> None:
            if "put_if_unchanged" in op and down:
                raise UnavailableError("down")

        with quiet(Cloud(storage, before=fail)).hold(clock, 0) as lock:
            with pytest.raises(UnavailableError):
                lock.renew()
            down = False
            clock.ms += 1_000_000  # long past its time, but it was not taken
            lock.check()
            assert lock_file(storage).valid_until_ms == clock.ms + 300_000

    def test_the_thread_tries_again_after_an_outage(self):
        storage, outages, renewed = memory_storage(), [1, 2], threading.Event()

        def fail(op: str) -> None:
            if "put_if_unchanged" in op and outages:
                outages.pop()
                raise UnavailableError("down")

        def tell(op: str) -> None:
            if "put_if_unchanged" in op:
                renewed.set()

        lock = StorageLock(Cloud(storage, fail, tell), renew_seconds=0.001)
        with lock.hold(ManualClock(), 0):
            assert renewed.wait(30)
        assert lock_file(storage).expired

    def test_a_renewal_whose_answer_was_lost_is_known_as_ours(self):
        storage, lose = memory_storage(), True

        def fail(op: str) -> None:
            if "put_if_unchanged" in op and lose:
                raise UnavailableError("no answer")

        with quiet(Cloud(storage, after=fail)).hold(ManualClock(), 0) as lock:
            with pytest.raises(UnavailableError):
                lock.renew()
            lose = False
            lock.check()
        assert lock_file(storage).expired


class TestLoss:
    @pytest.mark.parametrize("expired", [False, True])
    def test_check_names_the_one_who_took_the_table(self, expired):
        storage, clock = memory_storage(), ManualClock()
        theirs = LockFile(OTHER, START + 900_000, expired)
        with quiet(storage).hold(clock, 0) as lock:
            put(storage, theirs)
            for _ in range(2):
                with pytest.raises(ConflictError, match=rf"lost: .*{OTHER}, valid until 2023"):
                    lock.check()
        assert lock_file(storage) == theirs, "a lock of others is not released"

    def test_two_processes_one_of_which_slept(self):
        storage, clock = memory_storage(), ManualClock()
        with quiet(storage).hold(clock, 0) as slept:
            slept.check()
            clock.ms += 300_502
            with quiet(storage).hold(clock, 0) as awake:
                with pytest.raises(ConflictError, match="is lost: held by"):
                    slept.check()
                awake.check()
            with pytest.raises(ConflictError, match="is lost: released by"):
                slept.check()

    def test_a_lock_file_that_is_gone_is_a_lost_lock(self):
        storage = memory_storage()
        with quiet(storage).hold(ManualClock(), 0) as lock:
            storage.delete(LOCK_FILE_PATH)
            with pytest.raises(ConflictError, match="is lost: no holder"):
                lock.check()
        assert contents(storage) == {}

    def test_the_thread_stops_when_the_lock_is_lost(self):
        storage = memory_storage()
        with StorageLock(storage, renew_seconds=0.001).hold(ManualClock(), 0):
            [renewer] = [t for t in threading.enumerate() if t.name == "lakebed-lock"]
            put(storage, theirs := LockFile(OTHER, START + 900_000))
            renewer.join(30)
            assert not renewer.is_alive()
        assert lock_file(storage) == theirs


class TestWrites:
    def test_stores_of_several_processes_have_it(self):
        cloud = Cloud(memory_storage())
        assert table_lock(cloud) == StorageLock(cloud, 300, 30)

    def test_a_write_whose_lock_was_lost_is_taken_back(self):
        storage, clock = memory_storage(), ManualClock(step_ms=1)
        make(storage).insert(batch(("a", 1, 1, "p")))
        objects = contents(storage)

        def steal(op: str) -> None:
            if op == "names p":  # after the data is written, before the commit
                put(storage, LockFile(OTHER, clock.ms + 900_000))

        with pytest.raises(ConflictError, match=OTHER):
            reopen(Cloud(storage, before=steal), clock).insert(batch(("b", 2, 2, "p")))
        storage.delete(LOCK_FILE_PATH)
        assert contents(storage) == objects

    def test_a_pending_instant_is_not_rolled_back_by_one_who_lost_the_lock(self):
        storage, clock = memory_storage(), ManualClock(step_ms=1)
        make(storage)
        pending = ".hoodie/timeline/20300101000000000.commit.requested"
        storage.put(pending, b"")

        def steal(op: str) -> None:
            if op.startswith("head .hoodie/.heartbeat"):
                put(storage, LockFile(OTHER, clock.ms + 900_000))

        with pytest.raises(ConflictError, match=OTHER):
            reopen(Cloud(storage, before=steal), clock).insert(batch(("b", 2, 2, "p")))
        assert pending in contents(storage)

    def test_a_live_writer_is_waited_for_and_not_rolled_back(self):
        storage, clock = memory_storage(), ManualClock(step_ms=1)
        make(storage)
        other = reopen(Cloud(storage), clock)

        def intrude(op: str) -> None:
            if op.startswith("close p/"):
                with pytest.raises(LakebedError, match="another writer has held the table"):
                    other.insert(batch(("b", 2, 2, "p")))

        reopen(Cloud(storage, before=intrude), clock).insert(batch(("a", 1, 1, "p")))
        other.insert(batch(("b", 2, 2, "p")))
        assert set(user_rows(other)) == {("p", "a"), ("p", "b")}
        check_no_leftovers(storage)


ROUNDS = 3


def insert_rounds(url: str, options: dict[str, str], who: str, ready, go) -> None:
    table = lakebed.open_table(None, url, options)
    ready.release()
    assert go.wait(60)
    for n in range(ROUNDS):
        table.insert(batch((f"{who}{n}", n, n, "p"), (f"{who}{n}", n, n, who), ("same", n, n, "p")))


def test_two_processes_that_insert_into_one_table_on_s3_lose_nothing(s3_server: S3Server):
    url, options = f"s3://{s3_server.bucket}/{uuid.uuid4()}", s3_server.options()
    table = lakebed.create_table(
        None,
        url,
        SCHEMA,
        key="id",
        partition_by="dt",
        table_type="COPY_ON_WRITE",
        buckets=2,
        storage_options=options,
    )
    context = multiprocessing.get_context("spawn")
    ready, go = context.Semaphore(0), context.Event()
    processes = [
        context.Process(target=insert_rounds, args=(url, options, who, ready, go)) for who in "xy"
    ]
    for process in processes:
        process.start()
    try:
        for _ in processes:
            assert ready.acquire(timeout=60)
        go.set()
        for process in processes:
            process.join(60)
        assert [process.exitcode for process in processes] == [0, 0]
    finally:
        for process in processes:
            process.kill()
    wanted = {("p", f"{who}{n}") for who in "xy" for n in range(ROUNDS)}
    wanted |= {(who, f"{who}{n}") for who in "xy" for n in range(ROUNDS)}
    assert set(user_rows(table)) == wanted | {("p", "same")}
    assert table.history().num_rows == 2 * ROUNDS
    check_files(table)
    storage = open_storage(url, options)
    assert isinstance(storage, ObjectStorage)
    check_no_leftovers(storage)
    assert json.loads(storage.read(LOCK_FILE_PATH))["expired"] is True
