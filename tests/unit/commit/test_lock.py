"""One writer at a time, on a disk and within a process."""

import multiprocessing
import threading
from pathlib import Path

import pytest

from lakebed.commit.lock import LOCK_PATH, InProcessLock, LocalDiskLock, table_lock
from lakebed.errors import LockedError, UnavailableError
from lakebed.model.clock import ManualClock, SystemClock
from lakebed.storage.local import LocalStorage
from lakebed.storage.objects import memory_storage


def locks(tmp_path: Path):
    return [InProcessLock(f"memory://{tmp_path}"), LocalDiskLock(str(tmp_path / "d/lock"))]


def test_the_lock_follows_from_where_the_table_lies(tmp_path):
    assert isinstance(table_lock(memory_storage()), InProcessLock)
    assert table_lock(LocalStorage(str(tmp_path))) == LocalDiskLock(str(tmp_path / LOCK_PATH))


@pytest.mark.parametrize("which", [0, 1])
def test_a_second_writer_is_refused_after_its_wait_and_let_in_afterwards(tmp_path, which):
    lock, clock = locks(tmp_path)[which], ManualClock()
    with lock.hold(clock, 5):
        started = clock.ms
        with (
            pytest.raises(LockedError, match="has held the table for 5 s"),
            locks(tmp_path)[which].hold(clock, 5),
        ):
            pytest.fail("two hold the lock")
        assert clock.ms - started >= 5000
    with locks(tmp_path)[which].hold(clock, 0):
        pass


@pytest.mark.parametrize("which", [0, 1])
def test_an_error_gives_the_lock_back(tmp_path, which):
    with pytest.raises(RuntimeError), locks(tmp_path)[which].hold(ManualClock(), 0):
        raise RuntimeError
    with locks(tmp_path)[which].hold(ManualClock(), 0):
        pass


@pytest.mark.parametrize("which", [0, 1])
def test_threads_take_turns(tmp_path, which):
    inside, most = 0, 0

    def work():
        nonlocal inside, most
        for _ in range(5):
            with locks(tmp_path)[which].hold(SystemClock(), 30):
                inside += 1
                most = max(most, inside)
                inside -= 1

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1


def hold_until_told(path: str, held, done) -> None:
    with LocalDiskLock(path).hold(SystemClock(), 5):
        held.set()
        done.wait(30)


def test_a_process_that_dies_gives_the_lock_back(tmp_path):
    context = multiprocessing.get_context("spawn")
    held, done = context.Event(), context.Event()
    path = str(tmp_path / "lock")
    process = context.Process(target=hold_until_told, args=(path, held, done))
    process.start()
    try:
        assert held.wait(30)
        with pytest.raises(LockedError), LocalDiskLock(path).hold(ManualClock(), 0):
            pass
        process.kill()
        process.join(30)
        with LocalDiskLock(path).hold(SystemClock(), 5):
            pass
    finally:
        process.kill()


def test_a_lock_file_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    path = str(tmp_path / "file" / "lock")
    with (
        pytest.raises(UnavailableError, match=r"lock file .*file/lock"),
        LocalDiskLock(path).hold(ManualClock(), 0),
    ):
        pass
