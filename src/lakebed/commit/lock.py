"""One writer at a time: the lock on a table.

On local disk an operating system lock, which a process that dies gives back by itself.
Elsewhere a lock within this process; writers of other processes are noticed before a
commit completes (`commit.transaction`).
"""

import fcntl
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Protocol

from lakebed.errors import LockedError, UnavailableError
from lakebed.model.clock import Clock
from lakebed.storage.storage import Storage

LOCK_PATH = ".hoodie/.locks/lakebed.lock"
_POLL_SECONDS = 0.05


class TableLock(Protocol):
    """Keeps other writers out of one table."""

    def hold(self, clock: Clock, wait_seconds: float) -> AbstractContextManager[None]:
        """Hold the lock; LockedError if it does not come free in time."""
        ...


@dataclass(frozen=True, slots=True)
class InProcessLock:
    """Excludes the threads of this process, by the table's address."""

    url: str

    @contextmanager
    def hold(self, clock: Clock, wait_seconds: float) -> Iterator[None]:
        """Hold the lock; LockedError if it does not come free in time."""
        with _registry_guard:
            lock = _registry.setdefault(self.url, threading.Lock())
        _wait(lambda: lock.acquire(blocking=False), clock, wait_seconds, self.url)
        try:
            yield
        finally:
            lock.release()


_registry_guard = threading.Lock()
_registry: dict[str, threading.Lock] = {}


@dataclass(frozen=True, slots=True)
class LocalDiskLock:
    """Excludes threads and processes of this machine, by an OS lock on a side file.

    The file stays; its existence means nothing, so a crash leaves no stale lock.
    """

    path: str

    @contextmanager
    def hold(self, clock: Clock, wait_seconds: float) -> Iterator[None]:
        """Hold the lock; LockedError if it does not come free in time."""
        try:
            os.makedirs(os.path.dirname(self.path), exist_ok=True)
            handle = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise UnavailableError(f"lock file {self.path}: {error}") from error
        try:
            _wait(lambda: _try_flock(handle), clock, wait_seconds, self.path)
            yield
        finally:
            os.close(handle)


def table_lock(storage: Storage) -> TableLock:
    """Give the lock that fits where the table lies."""
    path = storage.local_path(LOCK_PATH)
    return InProcessLock(storage.url) if path is None else LocalDiskLock(path)


def _try_flock(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _wait(attempt: Callable[[], bool], clock: Clock, wait_seconds: float, what: str) -> None:
    deadline = clock.now_ms() + wait_seconds * 1000
    while not attempt():
        if clock.now_ms() >= deadline:
            raise LockedError(
                f"{what}: another writer has held the table for {wait_seconds:g} s; "
                "retry when it is done"
            )
        clock.sleep(_POLL_SECONDS)
