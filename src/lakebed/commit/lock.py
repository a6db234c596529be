"""One writer at a time: the lock on a table.

On local disk an operating system lock, which a process that dies gives back by itself.
On object stores a lock file with an expiry (`commit.storage_lock`). A table in memory
has one process only, and a lock within it.
"""

import fcntl
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Protocol

from lakebed.commit.storage_lock import StorageLock
from lakebed.errors import LockedError, UnavailableError
from lakebed.model.clock import Clock
from lakebed.storage.storage import Storage

LOCK_PATH = ".hoodie/.locks/lakebed.lock"
_POLL_SECONDS = 0.05


class HeldLock(Protocol):
    """A lock while it is held."""

    def check(self) -> None:
        """Raise ConflictError unless the table is still ours: call it before what cannot be undone.

        A lock file with an expiry can be lost to others, when storage or this process stood still.
        """
        ...


class TableLock(Protocol):
    """Keeps other writers out of one table."""

    def hold(self, clock: Clock, wait_seconds: float) -> AbstractContextManager[HeldLock]:
        """Hold the lock; LockedError if it does not come free in time."""
        ...


@dataclass(frozen=True, slots=True)
class KeptLock:
    """Held for as long as this process lives."""

    def check(self) -> None:
        """Do nothing: nobody can take it."""


@dataclass(frozen=True, slots=True)
class InProcessLock:
    """Excludes the threads of this process, by the table's address."""

    url: str

    @contextmanager
    def hold(self, clock: Clock, wait_seconds: float) -> Iterator[KeptLock]:
        """Hold the lock; LockedError if it does not come free in time."""
        with _registry_guard:
            lock = _registry.setdefault(self.url, threading.Lock())
        _wait(lambda: lock.acquire(blocking=False), clock, wait_seconds, self.url)
        try:
            yield KeptLock()
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
    def hold(self, clock: Clock, wait_seconds: float) -> Iterator[KeptLock]:
        """Hold the lock; LockedError if it does not come free in time."""
        try:
            os.makedirs(os.path.dirname(self.path), exist_ok=True)
            handle = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise UnavailableError(f"lock file {self.path}: {error}") from error
        try:
            _wait(lambda: _try_flock(handle), clock, wait_seconds, self.path)
            yield KeptLock()
        finally:
            os.close(handle)


def table_lock(storage: Storage) -> TableLock:
    """Give the lock that fits where the table lies."""
    path = storage.local_path(LOCK_PATH)
    if path is not None:
        return LocalDiskLock(path)
    return (
        InProcessLock(storage.url) if storage.url.startswith("memory://") else StorageLock(storage)
    )


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
