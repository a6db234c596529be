"""One writer at a time on local disk: Hudi's lock file, guarded by an operating system lock.

The lock file is that of Hudi's FileSystemBasedLockProvider: its existence is the lock, so Hudi's
writers and ours exclude each other. Our writers take the operating system lock (the guard) first;
a process that dies releases it. So if the holder of the guard finds a lock file that was created
under the same guard, the owner of that file is dead.

Two habits of Hudi make the existence of our file insufficient. Hudi checks for the file, and then
creates or truncates it, so a Hudi writer that starts at the same time may empty our file. And Hudi
deletes the file when it closes a lock, whoever created it. So our file names its owner, and `check`
reads it.

On a disk that several machines share without operating system locks, the guard excludes only the
writers of one machine, and two of them may take over the same dead lock at once. So a second file
names the last writer that took the lock: `check` raises ConflictError for all others, even if the
lock file disappeared or came back in the meantime.
"""

import contextlib
import errno
import fcntl
import logging
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from lakebed.commit.renewal import renewing
from lakebed.errors import (
    ConflictError,
    InvalidError,
    LakebedError,
    LockedError,
    NotFoundError,
    UnavailableError,
)
from lakebed.format.timeline.lock_file import LOCK_FILE_MAX_BYTES, VALID_UNTIL_OFFSET, DiskLockFile
from lakebed.model.clock import Clock
from lakebed.storage.durable import NewFile
from lakebed.storage.paths import TEMPORARY_PREFIX

log = logging.getLogger(__name__)

VALIDITY_SECONDS = 60.0
RENEW_SECONDS = 2.0  # Short, because a renewal also restores a file that Hudi deleted.
_POLL_SECONDS = 0.05
_SETTLE_SECONDS = 0.2
# Errors that remain until the user changes the permissions or removes a conflicting file.
_CALLER = (
    errno.EACCES,
    errno.EPERM,
    errno.EROFS,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.EEXIST,
    errno.ELOOP,
)


@dataclass(frozen=True, slots=True)
class FileLock:
    """Excludes every writer that uses the lock file `path`, including Hudi's.

    If one of our writers dies, our next writer on the same machine continues at once, and one on
    another machine when the lock's validity has expired; Hudi's writers wait until one of ours has
    removed the file. The file of a dead Hudi writer is taken over when it is older than
    `expire_minutes`; 0, Hudi's default, means never.
    """

    path: str
    guard_path: str
    expire_minutes: int = 0
    validity_seconds: float = VALIDITY_SECONDS
    renew_seconds: float = RENEW_SECONDS

    @property
    def owner_path(self) -> str:
        """Return the path of the file that names the writer that holds the lock, or died with it."""
        return f"{os.path.dirname(self.guard_path)}/{os.path.basename(self.path)}.owner"

    @contextmanager
    def hold(self, clock: Clock, wait_seconds: float) -> Iterator["HeldFileLock"]:
        """Hold the lock; raise LockedError if it does not become free in time."""
        deadline = clock.now_ms() + wait_seconds * 1000
        with self._guard(clock, deadline, wait_seconds) as guard:
            held = HeldFileLock(self, clock, guard)
            try:
                self._acquire(held, clock, deadline, wait_seconds)
                with renewing("lock", self.path, held.check, self.renew_seconds):
                    yield held
            finally:
                held.release()

    @contextmanager
    def _guard(self, clock: Clock, deadline: float, wait_seconds: float) -> Iterator[str]:
        """Hold the operating system lock and yield its name, which is unique on this machine."""
        with _failures(self.guard_path):
            os.makedirs(os.path.dirname(self.guard_path), exist_ok=True)
            handle = os.open(self.guard_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            while not _try_flock(handle, self.guard_path):
                if clock.now_ms() >= deadline:
                    raise self._locked(_look(self.path), clock, wait_seconds)
                clock.sleep(_POLL_SECONDS)
            yield _guard_name(os.fstat(handle))
        finally:
            # Closing the handle does not unlock while a forked child has it open.
            with contextlib.suppress(OSError):
                fcntl.flock(handle, fcntl.LOCK_UN)
            os.close(handle)

    def _acquire(
        self, held: "HeldFileLock", clock: Clock, deadline: float, wait_seconds: float
    ) -> None:
        contested = False
        while True:
            seen = _look(self.path)
            contested = contested or (seen is not None and not held.has_guard_of(seen.lock))
            if self._is_free(seen, held, clock):
                if held.create() and not contested and held.sign():
                    return
                contested = True
                # Writers without our guard may still interfere: Hudi deletes the file twice when
                # it releases a lock, and a process that takes over from a dead one may have moved
                # our file aside.
                clock.sleep(_SETTLE_SECONDS)
                if held.sign():
                    return
            if clock.now_ms() >= deadline:
                raise self._locked(_look(self.path), clock, wait_seconds)
            clock.sleep(_POLL_SECONDS)

    def _is_free(self, seen: "_Seen | None", held: "HeldFileLock", clock: Clock) -> bool:
        """Return whether the lock file can be created, after removing the file of a dead writer."""
        if seen is None:
            return True
        if not self._is_dead(seen, held, clock):
            return False
        log.warning("%s: %s; taken over", self.path, _describe(seen, clock))
        return held.remove(seen)

    def _is_dead(self, seen: "_Seen", held: "HeldFileLock", clock: Clock) -> bool:
        lock = seen.lock
        if lock is None:
            age_ms = clock.now_ms() - seen.modified_ms
            return self.expire_minutes > 0 and age_ms > self.expire_minutes * 60_000
        if held.has_guard_of(lock) or clock.is_gone(lock.process):
            return True
        return not lock.is_held(clock.now_ms())

    def _locked(self, seen: "_Seen | None", clock: Clock, wait_seconds: float) -> LockedError:
        advice = "retry when it is done"
        if seen is not None and seen.lock is None:
            advice += (
                "; if no writer is active, delete the file (hoodie.write.lock.filesystem.expire="
                "<minutes> in the table's properties does that by age)"
            )
        return LockedError(
            f"{self.path}: another writer has held the table for {wait_seconds:g} s "
            f"({_describe(seen, clock)}); {advice}"
        )


class HeldFileLock:
    """The lock while this process holds it."""

    def __init__(self, lock: FileLock, clock: Clock, guard: str) -> None:
        self._path = lock.path
        self._guard_path = lock.guard_path
        self._owner_path = lock.owner_path
        self._clock = clock
        self._validity_ms = int(lock.validity_seconds * 1000)
        # Each hold has its own owner id: two threads of one process are two writers.
        self._lock = DiskLockFile(clock.new_uuid(), clock.process(), guard, 0)
        self._mutex = threading.Lock()  # guards the fields above, and the file while it is ours

    def create(self) -> bool:
        """Create the lock file with its content atomically; return False if it already exists."""
        self._lock = self._prolonged()
        with _failures(self._path):
            new = NewFile(self._path)
            try:
                new.file.write(self._lock.encode())
                new.file.flush()
                new.link()
            except FileExistsError:
                return False
            finally:
                new.drop()
        return True

    def sign(self) -> bool:
        """Record that we took the lock last; return whether the lock file is ours before and after."""
        if not self.is_there():
            return False
        with _failures(self._owner_path), open(self._owner_path, "w", encoding="ascii") as file:
            file.write(self._lock.owner)
        return self.is_there()

    def is_there(self) -> bool:
        """Return whether the lock file is ours."""
        seen = _look(self._path)
        return seen is not None and self._is_ours(seen.lock)

    def has_guard_of(self, lock: DiskLockFile | None) -> bool:
        """Return whether `lock` was created under the guard that we hold: then its owner is dead.

        Guard names are comparable only on one machine; False if a machine's name is unknown.
        """
        if lock is None:
            return False
        machine = lock.process.rpartition("/")[0]
        return (
            machine != ""
            and machine == self._lock.process.rpartition("/")[0]
            and lock.guard == self._lock.guard
        )

    def check(self) -> None:
        """Extend the lock by its validity period; raise ConflictError if we no longer hold it.

        If the file was deleted, as a closing Hudi writer does, it is created again while we hold
        the guard. If another process has created or emptied it, that process holds the lock, and
        if another writer of ours has taken the lock since, it may have committed.
        """
        with self._mutex:
            if (self._prolong() or self._bring_back()) and self._is_signed():
                return
            raise ConflictError(
                f"{self._path}: our lock (owner {self._lock.owner}) is lost: "
                f"{_describe(_look(self._path), self._clock)}; retry the write"
            )

    def remove(self, seen: "_Seen") -> bool:
        """Remove the lock file if it is still as `seen`; return whether it was.

        Of several processes that try, only one succeeds. The file is moved aside before it is
        compared; if another writer has created it in the meantime, it is moved back.
        """
        folder = os.path.dirname(self._path)
        aside = f"{folder}/{TEMPORARY_PREFIX}{self._lock.owner}"
        try:
            with _failures(self._path):
                os.rename(self._path, aside)
        except NotFoundError:
            return False
        with _failures(self._path):
            same = _look(aside) == seen
            if not same:
                with contextlib.suppress(FileExistsError):
                    os.link(aside, self._path)
            os.unlink(aside)
        if same and seen.lock is None:
            # Hadoop's local file system stores a checksum next to each file.
            with contextlib.suppress(FileNotFoundError):
                os.unlink(f"{folder}/.{os.path.basename(self._path)}.crc")
        return same

    def release(self) -> None:
        """Release the lock."""
        try:
            if self._is_signed():
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(self._owner_path)
            seen = _look(self._path)
            if seen is not None and self._is_ours(seen.lock):
                self.remove(seen)
        except LakebedError:
            # The write under the lock is committed or rolled back, and the next holder of the guard
            # recognizes the file as stale.
            log.warning("%s: could not be released", self._path, exc_info=True)

    def _prolong(self) -> bool:
        """Extend the validity in the file; return whether the file is ours, before and after."""
        try:
            with _failures(self._path), open(self._path, "r+b", buffering=0) as file:
                if not self._is_ours(DiskLockFile.parse(file.read(LOCK_FILE_MAX_BYTES))):
                    return False
                self._lock = self._prolonged()
                # Write only this field: if another writer empties the file now, the result must not
                # look like our lock.
                os.pwrite(file.fileno(), self._lock.encode_valid_until(), VALID_UNTIL_OFFSET)
        except NotFoundError:
            return False
        return self.is_there()

    def _bring_back(self) -> bool:
        if _look(self._path) is not None or not self._has_guard() or not self._is_signed():
            return False
        if not self.create():
            return False
        log.warning("%s: deleted by another writer while we held it; created again", self._path)
        return True

    def _is_signed(self) -> bool:
        """Return whether no other writer of ours has taken the lock since we did."""
        try:
            with _failures(self._owner_path), open(self._owner_path, encoding="ascii") as file:
                return file.read() == self._lock.owner
        except NotFoundError:
            return False

    def _has_guard(self) -> bool:
        """Return whether our guard still blocks new writers: its file may have been replaced."""
        try:
            with _failures(self._guard_path):
                return self._lock.guard == _guard_name(os.stat(self._guard_path))
        except NotFoundError:
            return False

    def _is_ours(self, lock: DiskLockFile | None) -> bool:
        return lock is not None and lock.owner == self._lock.owner

    def _prolonged(self) -> DiskLockFile:
        return replace(self._lock, valid_until_ms=self._clock.now_ms() + self._validity_ms)


@dataclass(frozen=True, slots=True)
class _Seen:
    """The state of a lock file; `lock` is None if another engine wrote the file."""

    inode: int
    modified_ns: int
    size: int
    lock: DiskLockFile | None

    @property
    def modified_ms(self) -> int:
        return self.modified_ns // 1_000_000


def _look(path: str) -> _Seen | None:
    try:
        with _failures(path), open(path, "rb", buffering=0) as file:
            status = os.fstat(file.fileno())
            lock = DiskLockFile.parse(file.read(LOCK_FILE_MAX_BYTES))
    except NotFoundError:
        return None
    return _Seen(status.st_ino, status.st_mtime_ns, status.st_size, lock)


def _describe(seen: _Seen | None, clock: Clock) -> str:
    if seen is None:
        return "no holder is recorded"
    age_seconds = max(0, clock.now_ms() - seen.modified_ms) / 1000
    if seen.lock is not None:
        return (
            f"held by {seen.lock.owner}, process {seen.lock.process}, seen {age_seconds:.1f} s ago"
        )
    return f"a lock file of another engine, {seen.size} bytes, {age_seconds:.0f} s old"


def _guard_name(status: os.stat_result) -> str:
    return f"{status.st_dev:x}:{status.st_ino:x}"


def _try_flock(handle: int, path: str) -> bool:
    try:
        with _failures(path):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except LockedError:
        return False
    return True


@contextmanager
def _failures(path: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise NotFoundError(f"lock file {path}: no such file") from error
    except BlockingIOError as error:
        raise LockedError(f"lock file {path}: held by another process") from error
    except OSError as error:
        kind = InvalidError if error.errno in _CALLER else UnavailableError
        raise kind(f"lock file {path}: {error.strerror or error}") from error
