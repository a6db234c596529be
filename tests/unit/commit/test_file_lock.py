"""One writer at a time on a disk: among our own, with Hudi's files, and with the dead."""

import errno
import json
import multiprocessing
import os
import threading
import time
import uuid
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.commit.file_lock import FileLock
from lakebed.commit.lock import table_lock
from lakebed.errors import ConflictError, InvalidError, LakebedError, LockedError, UnavailableError
from lakebed.format.timeline.lock_file import VALID_UNTIL_OFFSET, DiskLockFile
from lakebed.model.clock import Clock, ManualClock, SystemClock
from lakebed.storage.local import LocalStorage
from support.tables import batch, make, reopen, user_rows

NEVER = 3600.0  # renewals by hand only
START = ManualClock().ms
HERE, THERE = "boot-1/ns/12.34", "boot-2/ns/12.34"
SECONDS = 1_000_000_000


def disk_lock(root: Path, expire_minutes: int = 0, renew_seconds: float = NEVER) -> FileLock:
    guard = str(root / ".locks" / "guard")
    return FileLock(str(root / "lock"), guard, expire_minutes, renew_seconds=renew_seconds)


def clock_of(process: str = HERE, ms: int = START, ended: str = "") -> ManualClock:
    return ManualClock(ms, name=process, ended=frozenset({ended} - {""}))


def content(root: Path) -> DiskLockFile:
    found = DiskLockFile.parse((root / "lock").read_bytes())
    assert found is not None
    return found


def leave(root: Path, data: bytes, age_seconds: float = 0) -> None:
    """Leave a lock file of that age, as seen by a clock that stands at START."""
    (root / "lock").write_bytes(data)
    touched = START * 1_000_000 - int(age_seconds * SECONDS)
    os.utime(root / "lock", ns=(touched, touched))


def names(root: Path) -> list[str]:
    return sorted(path.name for path in root.iterdir())


def guard_of(root: Path) -> str:
    status = (root / ".locks" / "guard").stat()
    return f"{status.st_dev:x}:{status.st_ino:x}"


def refused(lock: FileLock, clock: Clock, wait_seconds: float = 0) -> str:
    with pytest.raises(LockedError) as caught, lock.hold(clock, wait_seconds):
        pytest.fail("two hold the lock")
    return str(caught.value)


class TestTheFile:
    @given(st.text(), st.text(), st.text(), st.integers(0, 253_402_300_799_999))
    def test_what_is_written_is_read(self, owner, process, guard, until):
        lock = DiskLockFile(owner, process, guard, until)
        assert DiskLockFile.parse(lock.encode()) == lock

    @given(*[st.integers(0, 253_402_300_799_999)] * 2)
    def test_a_new_time_fits_in_the_place_of_the_old(self, old, new):
        before, after = (DiskLockFile("o", "p", "g", ms) for ms in (old, new))
        data = bytearray(before.encode())
        place = after.encode_valid_until()
        data[VALID_UNTIL_OFFSET : VALID_UNTIL_OFFSET + len(place)] = place
        assert bytes(data) == after.encode()

    @pytest.mark.parametrize(
        "data",
        [
            b"",
            b"\xff",
            b"null",
            b"[]",
            b"{}",
            b"[" * 30_000,
            b"{lockCreateTime='2024-01-01 00:00:00.000', lockThreadName='main'}",
            b'{"validUntil":1,"writer":"other","owner":"o","process":"p","guard":"g"}',
            b'{"validUntil":true,"writer":"lakebed","owner":"o","process":"p","guard":"g"}',
            b'{"validUntil":-1,"writer":"lakebed","owner":"o","process":"p","guard":"g"}',
            b'{"validUntil":1,"writer":"lakebed","owner":1,"process":"p","guard":"g"}',
            b'{"validUntil":1,"writer":"lakebed","owner":"o","process":"p"}',
            bytes(VALID_UNTIL_OFFSET) + b"  1700000000123",
        ],
        ids=range(13),
    )
    def test_what_others_write_is_not_ours(self, data):
        assert DiskLockFile.parse(data) is None


class TestHold:
    def test_the_file_is_there_while_the_lock_is_held_and_says_whose_it_is(self, tmp_path):
        clock = clock_of()
        with disk_lock(tmp_path).hold(clock, 0):
            found = json.loads((tmp_path / "lock").read_bytes())
            assert found["writer"] == "lakebed"
            assert found["validUntil"] == START + 60_000
            assert found["process"] == HERE
            assert found["guard"] == guard_of(tmp_path)
        assert names(tmp_path) == [".locks"]

    def test_the_next_has_another_name(self, tmp_path):
        clock, owners = clock_of(), set()
        for _ in range(3):
            with disk_lock(tmp_path).hold(clock, 0):
                owners.add(content(tmp_path).owner)
        assert len(owners) == 3

    def test_a_second_writer_is_told_who_holds_the_table(self, tmp_path):
        clock = clock_of()
        with disk_lock(tmp_path).hold(clock, 0):
            message = refused(disk_lock(tmp_path), clock, 5)
            assert message.startswith(f"{tmp_path}/lock: another writer has held the table for 5 s")
            assert content(tmp_path).owner in message
            assert HERE in message

    def test_folders_that_are_missing_are_made(self, tmp_path):
        lock = FileLock(str(tmp_path / "a/b/lock"), str(tmp_path / "c/d/guard"))
        with lock.hold(clock_of(), 0):
            assert (tmp_path / "a/b/lock").exists()

    def test_an_interrupt_before_it_is_sure_leaves_no_file(self, tmp_path):
        leave(tmp_path, b"")
        slept: list[float] = []

        class Interrupted(ManualClock):
            def sleep(self, seconds: float) -> None:
                slept.append(seconds)
                if len(slept) == 2:
                    assert content(tmp_path)
                    raise KeyboardInterrupt
                (tmp_path / "lock").unlink()

        with pytest.raises(KeyboardInterrupt), disk_lock(tmp_path).hold(Interrupted(), 5):
            pass
        assert names(tmp_path) == [".locks"]

    def test_a_handle_that_a_child_inherited_does_not_keep_the_lock(self, tmp_path, monkeypatch):
        inherited: list[int] = []
        opened = os.open

        def fork(path, *how):
            handle = opened(path, *how)
            if str(path).endswith("guard"):
                inherited.append(os.dup(handle))
            return handle

        with monkeypatch.context() as patch:
            patch.setattr("os.open", fork)
            with disk_lock(tmp_path).hold(clock_of(), 0):
                refused(disk_lock(tmp_path), clock_of())
        with disk_lock(tmp_path).hold(clock_of(), 0):
            pass
        for handle in inherited:
            os.close(handle)

    @pytest.mark.parametrize("broken", ["lock", "guard"])
    def test_a_lock_file_that_cannot_be_made_is_named(self, tmp_path, broken):
        (tmp_path / "file").write_text("")
        paths = {"lock": str(tmp_path / "lock"), "guard": str(tmp_path / "guard")}
        paths[broken] = str(tmp_path / "file" / broken)
        with (
            pytest.raises(
                InvalidError, match=rf"lock file .*file/{broken}: (Not a directory|File exists)"
            ),
            FileLock(paths["lock"], paths["guard"]).hold(clock_of(), 0),
        ):
            pass

    def test_a_disk_without_locks_is_said(self, tmp_path, monkeypatch):
        def flock(*_):
            raise OSError(errno.ENOLCK, "No locks available")

        monkeypatch.setattr("fcntl.flock", flock)
        with (
            pytest.raises(UnavailableError, match="guard: No locks available"),
            disk_lock(tmp_path).hold(clock_of(), 0),
        ):
            pass


class Racer(ManualClock):
    """Stands still but lets others go on, and has names of its own."""

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def new_uuid(self) -> str:
        return str(uuid.uuid4())


class TestTheDead:
    def test_a_file_made_under_the_guard_that_we_have_is_of_the_dead(self, tmp_path, caplog):
        clock, lock = clock_of(), disk_lock(tmp_path)
        with lock.hold(clock, 0):
            pass
        dead = DiskLockFile("dead", "boot-1/ns/99.1", guard_of(tmp_path), START + 900_000)
        leave(tmp_path, dead.encode())
        with lock.hold(clock, 0):
            assert content(tmp_path).owner != "dead"
        assert "held by dead" in caplog.text
        assert names(tmp_path) == [".locks"]

    @pytest.mark.parametrize("process", [THERE, "", "somebody"])
    @pytest.mark.parametrize(("passed", "free"), [(0, False), (500, False), (501, True)])
    def test_one_of_another_machine_is_waited_for_until_its_time_has_passed(
        self, tmp_path, process, passed, free
    ):
        lock = disk_lock(tmp_path)
        with lock.hold(clock_of(), 0):
            pass
        theirs = DiskLockFile("theirs", process, guard_of(tmp_path), START).encode()
        leave(tmp_path, theirs)
        clock = clock_of(process=process if "/" not in process else HERE, ms=START + passed)
        if free:
            with lock.hold(clock, 0):
                assert content(tmp_path).owner != "theirs"
        else:
            assert "held by theirs" in refused(lock, clock)
            assert (tmp_path / "lock").read_bytes() == theirs

    def test_one_under_another_guard_is_waited_for(self, tmp_path):
        leave(tmp_path, DiskLockFile("theirs", HERE, "0:0", START + 9000).encode())
        assert "held by theirs" in refused(disk_lock(tmp_path), clock_of(), 5)
        with disk_lock(tmp_path).hold(clock_of(), 10):
            pass

    def test_one_whose_process_has_ended_is_free(self, tmp_path):
        leave(tmp_path, DiskLockFile("dead", THERE, "0:0", START + 900_000).encode())
        with disk_lock(tmp_path).hold(clock_of(ended=THERE), 0):
            assert content(tmp_path).owner != "dead"

    @pytest.mark.parametrize("_", range(5))
    def test_of_many_that_take_over_at_most_one_gets_it(self, tmp_path, _):
        """Each has a guard of its own, as machines that share a disk without locks have.

        One that stands still in the middle may believe that it has the lock; the check that comes
        before every commit tells it otherwise. If two disturb each other, both may have to retry.
        """
        leave(tmp_path, DiskLockFile("dead", THERE, "0:0", START - 1000).encode())
        start, end = threading.Barrier(8), threading.Barrier(8)
        inside: list[int] = []

        def race(number: int) -> None:
            lock = FileLock(str(tmp_path / "lock"), str(tmp_path / f"guard{number}"))
            start.wait()
            try:
                with lock.hold(Racer(name=f"boot-{number}/ns/1.1"), 0) as held:
                    end.wait()
                    held.check()
                    inside.append(number)
            except LockedError:
                end.wait()
            except ConflictError:
                pass

        threads = [threading.Thread(target=race, args=(n,)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(inside) <= 1
        last = FileLock(str(tmp_path / "lock"), str(tmp_path / "guard0"))
        with last.hold(Racer(name="boot-0/ns/1.1"), 0) as held:
            held.check()

    @pytest.mark.parametrize("comes_back", [False, True])
    def test_a_writer_that_lost_it_for_a_while_is_told(self, tmp_path, comes_back):
        """Writers that do not exclude each other may take over the same dead lock.

        One of them moves the file of another aside, which was no longer the dead one's; a third
        finds none, commits and releases the lock; and then the file may be put back.
        """
        (tmp_path / ".locks").mkdir()
        ours, theirs = (
            FileLock(str(tmp_path / "lock"), str(tmp_path / ".locks" / name), renew_seconds=NEVER)
            for name in ("ours", "theirs")
        )
        with ours.hold(clock_of(), 0) as held:
            (tmp_path / "lock").rename(tmp_path / "aside")
            with theirs.hold(clock_of(THERE), 0) as other:
                other.check()
            if comes_back:
                (tmp_path / "aside").rename(tmp_path / "lock")
            with pytest.raises(ConflictError, match=r"is lost: .* retry the write"):
                held.check()

    def test_a_file_that_changes_hands_while_it_is_taken_away_is_put_back(
        self, tmp_path, monkeypatch
    ):
        leave(tmp_path, DiskLockFile("dead", THERE, "0:0", START - 1000).encode())
        fresh = DiskLockFile("fresh", THERE, "0:0", START + 900_000).encode()
        rename = os.rename

        def overtaken(source: str, target: str) -> None:
            monkeypatch.undo()
            (tmp_path / "lock").unlink()
            leave(tmp_path, fresh)
            rename(source, target)

        monkeypatch.setattr("os.rename", overtaken)
        assert "held by" in refused(disk_lock(tmp_path), clock_of())
        assert (tmp_path / "lock").read_bytes() == fresh
        assert names(tmp_path) == [".locks", "lock"]


class TestHudi:
    @pytest.mark.parametrize("data", [b"", b"{lockCreateTime='2024-01-01'}"])
    def test_its_file_keeps_us_out_and_the_error_says_what_to_do(self, tmp_path, data):
        leave(tmp_path, data, age_seconds=1e6)
        clock = clock_of()
        message = refused(disk_lock(tmp_path), clock, 5)
        assert message.startswith(f"{tmp_path}/lock: another writer has held the table for 5 s")
        assert f"of another engine, {len(data)} bytes" in message
        assert "1000005 s old" in message
        assert "delete the file" in message
        assert "hoodie.write.lock.filesystem.expire" in message
        assert (tmp_path / "lock").read_bytes() == data

    @pytest.mark.parametrize(("age", "free"), [(119, False), (120, False), (120.1, True)])
    def test_its_file_is_taken_over_when_it_is_older_than_the_option_says(
        self, tmp_path, age, free
    ):
        leave(tmp_path, b"", age_seconds=age)
        (tmp_path / ".lock.crc").write_bytes(b"crc\0\0\0\2\0")
        lock = disk_lock(tmp_path, expire_minutes=2)
        if free:
            with lock.hold(clock_of(), 0):
                assert names(tmp_path) == [".locks", "lock"]
                assert content(tmp_path).process == HERE
        else:
            refused(lock, clock_of())
            assert names(tmp_path) == [".lock.crc", ".locks", "lock"]

    def test_the_age_does_not_free_a_lock_of_ours(self, tmp_path):
        theirs = DiskLockFile("theirs", THERE, "0:0", START + 1000).encode()
        leave(tmp_path, theirs, age_seconds=1e6)
        refused(disk_lock(tmp_path, expire_minutes=1), clock_of())

    def test_its_release_lets_us_in(self, tmp_path):
        (tmp_path / "lock").write_bytes(b"")
        timer = threading.Timer(0.3, (tmp_path / "lock").unlink)
        timer.start()
        with disk_lock(tmp_path).hold(SystemClock(), 30):
            assert content(tmp_path)
        timer.join()

    def test_its_second_deletion_on_release_does_not_cost_us_the_lock(self, tmp_path):
        """Hudi deletes on unlock, and again on close: whatever is there by then."""
        leave(tmp_path, b"")
        slept: list[float] = []

        class Release(ManualClock):
            def sleep(self, seconds: float) -> None:
                slept.append(seconds)
                if len(slept) <= 2:
                    (tmp_path / "lock").unlink()
                super().sleep(seconds)

        with disk_lock(tmp_path).hold(Release(), 5):
            assert content(tmp_path)
        assert len(slept) == 4

    def test_one_that_comes_in_between_wins(self, tmp_path):
        leave(tmp_path, b"")
        slept: list[float] = []

        class Release(ManualClock):
            def sleep(self, seconds: float) -> None:
                slept.append(seconds)
                if len(slept) == 1:
                    (tmp_path / "lock").unlink()
                elif len(slept) == 2:
                    (tmp_path / "lock").write_bytes(b"")
                super().sleep(seconds)

        refused(disk_lock(tmp_path), Release(), 5)
        assert (tmp_path / "lock").read_bytes() == b""


class TestCheck:
    def test_it_renews_the_lock_in_place(self, tmp_path):
        clock = clock_of()
        with disk_lock(tmp_path).hold(clock, 0) as held:
            before = (tmp_path / "lock").stat().st_ino
            clock.ms += 1_000_000  # long past its time, but it was not taken
            held.check()
            assert content(tmp_path).valid_until_ms == clock.ms + 60_000
            assert (tmp_path / "lock").stat().st_ino == before

    def test_a_file_that_was_deleted_is_made_again(self, tmp_path, caplog):
        with disk_lock(tmp_path).hold(clock_of(), 0) as held:
            owner = content(tmp_path).owner
            (tmp_path / "lock").unlink()
            held.check()
            assert content(tmp_path).owner == owner
        assert "deleted by another writer" in caplog.text
        assert names(tmp_path) == [".locks"]

    @pytest.mark.parametrize("again", [True, False])
    def test_without_the_guard_a_file_that_was_deleted_is_lost(self, tmp_path, again):
        with disk_lock(tmp_path).hold(clock_of(), 0) as held:
            guard = tmp_path / ".locks" / "guard"
            guard.unlink()
            if again:
                guard.write_bytes(b"")
            held.check()
            (tmp_path / "lock").unlink()
            with pytest.raises(ConflictError, match=r"is lost: .* retry the write"):
                held.check()

    @pytest.mark.parametrize(
        "theirs",
        [b"", b"{lockCreateTime=''}", DiskLockFile("theirs", THERE, "0:0", START).encode()],
    )
    @pytest.mark.parametrize("in_place", [True, False])
    def test_a_file_that_is_now_of_others_is_lost_and_stays(self, tmp_path, theirs, in_place):
        with disk_lock(tmp_path).hold(clock_of(), 0) as held:
            if not in_place:
                (tmp_path / "lock").unlink()
            leave(tmp_path, theirs)  # in place, as Hudi does when it comes at the same moment
            for _ in range(2):
                with pytest.raises(ConflictError, match=rf"{tmp_path}/lock: our lock .* is lost"):
                    held.check()
        assert (tmp_path / "lock").read_bytes() == theirs

    def test_a_file_that_is_emptied_between_look_and_renewal_is_lost(self, tmp_path, monkeypatch):
        pwrite = os.pwrite

        def overtaken(handle: int, data: bytes, offset: int) -> int:
            os.truncate(tmp_path / "lock", 0)
            return pwrite(handle, data, offset)

        with disk_lock(tmp_path).hold(clock_of(), 0) as held:
            monkeypatch.setattr("os.pwrite", overtaken)
            with pytest.raises(ConflictError, match="is lost"):
                held.check()
        assert (tmp_path / "lock").exists()

    def test_a_file_that_is_replaced_between_look_and_renewal_is_lost(self, tmp_path, monkeypatch):
        theirs = DiskLockFile("theirs", THERE, "0:0", START + 900_000).encode()
        pwrite = os.pwrite

        def overtaken(handle: int, data: bytes, offset: int) -> int:
            (tmp_path / "lock").unlink()
            leave(tmp_path, theirs)
            return pwrite(handle, data, offset)

        with disk_lock(tmp_path).hold(clock_of(), 0) as held:
            monkeypatch.setattr("os.pwrite", overtaken)
            with pytest.raises(ConflictError, match="held by theirs"):
                held.check()
        assert (tmp_path / "lock").read_bytes() == theirs

    def test_a_disk_that_fails_is_said(self, tmp_path, monkeypatch):
        def broken(*_):
            raise OSError(errno.EIO, "Input/output error")

        with disk_lock(tmp_path).hold(clock_of(), 0) as held:
            with monkeypatch.context() as patch:
                patch.setattr("os.pwrite", broken)
                with pytest.raises(UnavailableError, match="lock: Input/output error"):
                    held.check()
            held.check()

    def test_a_release_that_fails_is_logged_and_hinders_nobody(self, tmp_path, monkeypatch, caplog):
        def broken(*_):
            raise OSError(errno.EIO, "Input/output error")

        clock = clock_of()
        with monkeypatch.context() as patch, disk_lock(tmp_path).hold(clock, 0):
            patch.setattr("os.rename", broken)
        assert "could not be released" in caplog.text
        assert (tmp_path / "lock").exists()
        with disk_lock(tmp_path).hold(clock, 0):
            pass


class TestRenewal:
    def test_a_thread_renews_brings_back_and_ends_with_the_release(self, tmp_path):
        clock = clock_of()
        with disk_lock(tmp_path, renew_seconds=0.001).hold(clock, 0):
            clock.ms += 5000
            await_true(lambda: content(tmp_path).valid_until_ms == clock.ms + 60_000)
            (tmp_path / "lock").unlink()
            await_true((tmp_path / "lock").exists)
            owner = content(tmp_path).owner
        assert owner
        assert not [t for t in threading.enumerate() if t.name == "lakebed-lock"]
        assert names(tmp_path) == [".locks"]

    def test_it_stops_when_the_lock_is_lost(self, tmp_path):
        with disk_lock(tmp_path, renew_seconds=0.001).hold(clock_of(), 0):
            [renewer] = [t for t in threading.enumerate() if t.name == "lakebed-lock"]
            leave(tmp_path, b"")
            renewer.join(30)
            assert not renewer.is_alive()
        assert (tmp_path / "lock").read_bytes() == b""


def await_true(condition) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline


class TestWrites:
    def test_a_write_leaves_no_lock_and_minds_one_of_hudi(self, tmp_path):
        storage, clock = LocalStorage(str(tmp_path)), ManualClock(step_ms=1)
        table = make(storage, clock)
        table.insert(batch(("a", 1, 1, "p")))
        assert not (tmp_path / ".hoodie/lock").exists()
        (tmp_path / ".hoodie/lock").write_bytes(b"")
        with pytest.raises(LockedError, match=r"\.hoodie/lock: another writer has held the table"):
            table.insert(batch(("b", 1, 1, "p")))
        (tmp_path / ".hoodie/lock").unlink()
        table.insert(batch(("b", 1, 1, "p")))
        assert set(user_rows(reopen(storage))) == {("p", "a"), ("p", "b")}

    def test_the_lock_of_a_write_lies_where_the_properties_say(self, tmp_path):
        far = tmp_path / "far"
        far.mkdir()
        (far / "lock").write_bytes(b"")
        given = {"hoodie.write.lock.filesystem.path": f"file://{far}"}
        table = make(LocalStorage(str(tmp_path / "t")), ManualClock(step_ms=1), properties=given)
        with pytest.raises(LockedError, match=f"{far}/lock: another writer has held the table"):
            table.insert(batch(("a", 1, 1, "p")))
        (far / "lock").unlink()
        table.insert(batch(("a", 1, 1, "p")))
        assert names(far) == []

    def test_a_write_whose_lock_another_took_is_taken_back(self, tmp_path):
        class Stolen(LocalStorage):
            def open_write(self, path, **how):
                (tmp_path / ".hoodie/lock").write_bytes(b"")
                return super().open_write(path, **how)

        storage, clock = LocalStorage(str(tmp_path)), ManualClock(step_ms=1)
        make(storage, clock).insert(batch(("a", 1, 1, "p")))
        with pytest.raises(ConflictError, match=r"\.hoodie/lock: our lock .* is lost"):
            reopen(Stolen(str(tmp_path)), clock).insert(batch(("b", 1, 1, "p")))
        assert (tmp_path / ".hoodie/lock").read_bytes() == b""
        assert set(user_rows(reopen(storage))) == {("p", "a")}


PROCESSES, ROUNDS = 4, 25


def count_up(root: str, ready, go) -> None:
    lock = table_lock(LocalStorage(root))
    counter = Path(root, "counter")
    ready.release()
    assert go.wait(120)
    for _ in range(ROUNDS):
        with lock.hold(SystemClock(), 60) as held:
            count = int(counter.read_text())
            held.check()
            counter.write_text(str(count + 1))


def hold_until_killed(root: str, held) -> None:
    with table_lock(LocalStorage(root)).hold(SystemClock(), 5):
        held.set()
        time.sleep(200)


def test_processes_lose_no_increment(tmp_path):
    (tmp_path / "counter").write_text("0")
    context = multiprocessing.get_context("spawn")
    ready, go = context.Semaphore(0), context.Event()
    processes = [
        context.Process(target=count_up, args=(str(tmp_path), ready, go)) for _ in range(PROCESSES)
    ]
    for process in processes:
        process.start()
    try:
        for _ in processes:
            assert ready.acquire(timeout=120)
        go.set()
        for process in processes:
            process.join(120)
        assert [process.exitcode for process in processes] == [0] * PROCESSES
    finally:
        for process in processes:
            process.kill()
    assert (tmp_path / "counter").read_text() == str(PROCESSES * ROUNDS)
    assert os.listdir(tmp_path / ".hoodie") == [".locks"]


def test_a_process_that_is_killed_frees_the_table_at_once(tmp_path):
    context = multiprocessing.get_context("spawn")
    held = context.Event()
    process = context.Process(target=hold_until_killed, args=(str(tmp_path), held))
    process.start()
    lock = table_lock(LocalStorage(str(tmp_path)))
    try:
        assert held.wait(120)
        with pytest.raises(LakebedError), lock.hold(SystemClock(), 0.2):
            pytest.fail("two hold the lock")
        process.kill()
        process.join(30)
        assert (tmp_path / ".hoodie/lock").exists()
        with lock.hold(SystemClock(), 0):
            assert content(tmp_path / ".hoodie").guard
    finally:
        process.kill()
