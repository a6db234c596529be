"""The table lock, which admits one writer at a time, including Hudi's writers.

On local disk it is the file of Hudi's FileSystemBasedLockProvider (`commit.file_lock`), on object
stores the file of its StorageBasedLockProvider (`commit.storage_lock`). A table in memory belongs
to one process, for which a lock in memory suffices.
"""

import threading
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import Protocol

from lakebed.commit.file_lock import FileLock
from lakebed.commit.storage_lock import StorageLock
from lakebed.errors import LockedError, OptionError, UnsupportedError
from lakebed.format.timeline.lock_file import DISK_LOCK_PATH
from lakebed.model.clock import Clock
from lakebed.model.options.writers import LOCK_PROVIDERS, LockOptions
from lakebed.storage.paths import parse_location
from lakebed.storage.storage import Storage

GUARD_PATH = ".hoodie/.locks/lakebed.lock"
_POLL_SECONDS = 0.05
LOCK_WAIT_SECONDS = 60.0
"""Lock timeout before any work has started."""
LOCK_WAIT_AT_END_SECONDS = 600.0
"""Lock timeout when work that is done would be lost."""

_PROVIDER = "hoodie.write.lock.provider"
_FOLDER = "hoodie.write.lock.filesystem.path"


class HeldLock(Protocol):
    """A lock while it is held."""

    def check(self) -> None:
        """Raise ConflictError unless we still hold the lock; call this before irreversible steps.

        A lock can be lost if storage or this process was suspended.
        """
        ...


class TableLock(Protocol):
    """A lock that keeps other writers out of one table."""

    def hold(self, clock: Clock, wait_seconds: float) -> AbstractContextManager[HeldLock]:
        """Hold the lock; raise LockedError if it does not become free in time."""
        ...


@dataclass(frozen=True, slots=True)
class KeptLock:
    """A lock that cannot be lost while this process lives."""

    def check(self) -> None:
        """Do nothing: this lock cannot be lost."""


@dataclass(frozen=True, slots=True)
class InProcessLock:
    """Excludes other threads of this process that write to the same table URL."""

    url: str

    @contextmanager
    def hold(self, clock: Clock, wait_seconds: float) -> Iterator[KeptLock]:
        """Hold the lock; raise LockedError if it does not become free in time."""
        with _registry_guard:
            lock = _registry.setdefault(self.url, threading.Lock())
        deadline = clock.now_ms() + wait_seconds * 1000
        while not lock.acquire(blocking=False):
            if clock.now_ms() >= deadline:
                raise LockedError(
                    f"{self.url}: another writer has held the table for {wait_seconds:g} s; "
                    "retry when it is done"
                )
            clock.sleep(_POLL_SECONDS)
        try:
            yield KeptLock()
        finally:
            lock.release()


_registry_guard = threading.Lock()
_registry: dict[str, threading.Lock] = {}


def table_lock(storage: Storage, properties: Mapping[str, str] | None = None) -> TableLock:
    """Return the lock for the table's storage and properties.

    Raises UnsupportedError if the configured lock provider does not fit the storage: writers that
    use it would not see our lock.
    """
    options = lock_options(properties or {})
    path, guard = storage.local_path(DISK_LOCK_PATH), storage.local_path(GUARD_PATH)
    if path is not None and guard is not None:
        _expect(options, "FileSystemBasedLockProvider", storage)
        path = f"{options.folder.rstrip('/')}/lock" if options.folder else path
        return FileLock(path, guard, options.expire_minutes)
    if storage.url.startswith("memory://"):
        _expect(options, "InProcessLockProvider", storage)
        return InProcessLock(storage.url)
    _expect(options, "StorageBasedLockProvider", storage)
    return StorageLock(storage, options.validity_seconds, options.renew_seconds)


def lock_options(properties: Mapping[str, str]) -> LockOptions:
    """Return the lock options of a table; raise an error for an unknown provider."""
    provider = properties.get(_PROVIDER, "").strip()
    if provider and provider not in LOCK_PROVIDERS:
        raise UnsupportedError(
            f"{_PROVIDER}={provider}: this release does not take that lock, and could write at the "
            f"same time as a writer that holds it; expected one of {', '.join(LOCK_PROVIDERS)}"
        )
    options = LockOptions.of(properties)
    validity, renew = options.validity_seconds, options.renew_seconds
    if renew < 1 or validity < 10 * renew:
        raise OptionError(
            f"options hoodie.write.lock.storage.validity.timeout.secs={validity} and "
            f"hoodie.write.lock.storage.renew.interval.secs={renew}: expected 1 s or more, "
            "and a validity of ten times that or more"
        )
    return replace(options, folder=_folder(options.folder))


def _expect(options: LockOptions, fitting: str, storage: Storage) -> None:
    if options.provider and not options.provider.endswith(f".{fitting}"):
        raise UnsupportedError(
            f"{storage.url}: {_PROVIDER}={options.provider} does not lock out other writers of a "
            f"table here; expected {options.provider.rpartition('.')[0]}.{fitting}"
        )


def _folder(text: str) -> str:
    if not text:
        return ""
    scheme, authority, path = parse_location(text)
    absolute = text.startswith(("/", "file:/"))
    if not absolute or scheme != "file" or authority not in ("", "localhost"):
        raise OptionError(f"option {_FOLDER}={text}: expected an absolute path on a local disk")
    return f"/{path}"
