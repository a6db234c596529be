"""One writer at a time on an object store: a lock file that its owner keeps renewing.

The file and the rules are those of Hudi's StorageBasedLockProvider, so Hudi's writers and ours
exclude each other. Only conditional writes pass the file from one owner to the next; clocks only
decide when an owner that stopped renewing is considered dead.
"""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from lakebed.commit.renewal import renewing
from lakebed.errors import (
    ChangedError,
    ConflictError,
    CorruptError,
    ExistsError,
    LakebedError,
    LockedError,
    NotFoundError,
)
from lakebed.format.timeline.lock_file import LOCK_FILE_MAX_BYTES, LOCK_FILE_PATH, LockFile
from lakebed.model.clock import Clock
from lakebed.storage.storage import Storage

log = logging.getLogger(__name__)

VALIDITY_SECONDS = 300.0
RENEW_SECONDS = 30.0
_POLL_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class StorageLock:
    """Excludes every writer that uses the same lock file, on any machine.

    If the holder dies, other writers wait until the lock's validity has expired.
    """

    storage: Storage
    validity_seconds: float = VALIDITY_SECONDS
    renew_seconds: float = RENEW_SECONDS

    @contextmanager
    def hold(self, clock: Clock, wait_seconds: float) -> Iterator["HeldStorageLock"]:
        """Hold the lock; raise LockedError if it does not become free in time."""
        held = self._acquire(clock, wait_seconds)
        try:
            with renewing("lock", _name(self.storage), held.renew, self.renew_seconds):
                yield held
        finally:
            held.release()

    def _acquire(self, clock: Clock, wait_seconds: float) -> "HeldStorageLock":
        # Each hold has its own owner id: two threads of one process are two writers.
        owner = clock.new_uuid()
        deadline = clock.now_ms() + wait_seconds * 1000
        while True:
            holder = self._try_acquire(clock, owner)
            if isinstance(holder, HeldStorageLock):
                return holder
            if clock.now_ms() >= deadline:
                raise LockedError(
                    f"{_name(self.storage)}: another writer has held the table for "
                    f"{wait_seconds:g} s ({_describe(holder)}); retry when it is done or, if "
                    "it is dead, when its validity has expired"
                )
            clock.sleep(_POLL_SECONDS)

    def _try_acquire(self, clock: Clock, owner: str) -> "HeldStorageLock | LockFile | None":
        """Take the lock, or return its holder if it is taken.

        Returns None if the lock changed hands during the attempt.
        """
        found = _read(self.storage)
        now = clock.now_ms()
        if found is not None and found[1].is_held(now):
            return found[1]
        validity_ms = int(self.validity_seconds * 1000)
        lock = LockFile(owner, now + validity_ms)
        try:
            if found is None:
                etag = self.storage.put_if_absent(LOCK_FILE_PATH, lock.encode())
            else:
                etag = self.storage.put_if_unchanged(LOCK_FILE_PATH, lock.encode(), found[0])
        except (ExistsError, ChangedError):
            return None
        if found is not None and not found[1].expired:
            log.warning("%s: %s; taken over", _name(self.storage), _describe(found[1]))
        return HeldStorageLock(self.storage, clock, validity_ms, lock, etag)


class HeldStorageLock:
    """The lock while this process holds it."""

    def __init__(
        self, storage: Storage, clock: Clock, validity_ms: int, lock: LockFile, etag: str
    ) -> None:
        self._storage = storage
        self._clock = clock
        self._validity_ms = validity_ms
        self._lock = lock
        self._etag = etag
        self._guard = threading.Lock()  # guards the two fields above, and the file while it is ours

    def check(self) -> None:
        """Raise ConflictError unless we hold the lock; renew it if half of its validity has passed.

        The store decides who holds the lock, not the clock: a process that was suspended for too
        long finds the file of its successor.
        """
        with self._guard:
            left_ms = self._lock.valid_until_ms - self._clock.now_ms()
            # Stores allow about one write per second to an object: renew only when necessary.
            if left_ms * 2 < self._validity_ms or self._present_etag() != self._etag:
                self._write(expired=False)

    def renew(self) -> None:
        """Extend the lock by its full validity period; raise ConflictError if it is no longer ours.

        An expired lock that no other writer has taken is renewed as well.
        """
        with self._guard:
            self._write(expired=False)

    def release(self) -> None:
        """Release the lock; if that fails, the lock expires by itself."""
        try:
            with self._guard:
                self._write(expired=True)
        except LakebedError:
            # The write under the lock is already committed or rolled back.
            log.warning("%s: could not be released", _name(self._storage), exc_info=True)

    def _present_etag(self) -> str | None:
        try:
            return self._storage.head(LOCK_FILE_PATH).etag
        except NotFoundError:
            return None

    def _write(self, *, expired: bool) -> None:
        try:
            self._put(expired=expired)
        except ChangedError:
            self._find_own()
            self._put(expired=expired)

    def _put(self, *, expired: bool) -> None:
        if expired:
            lock = replace(self._lock, expired=True)
        else:
            # S3 derives the tag from the content, so equal bytes would have equal tags.
            after = self._lock.valid_until_ms + 1
            lock = replace(
                self._lock, valid_until_ms=max(self._clock.now_ms() + self._validity_ms, after)
            )
        self._etag = self._storage.put_if_unchanged(LOCK_FILE_PATH, lock.encode(), self._etag)
        self._lock = lock

    def _find_own(self) -> None:
        """Adopt the stored file if we wrote it: the response to a renewal may have been lost."""
        found = _read(self._storage)
        if found is None or found[1].owner != self._lock.owner:
            raise ConflictError(
                f"{_name(self._storage)}: our lock (owner {self._lock.owner}) is lost: "
                f"{_describe(found and found[1])}; retry the write"
            )
        self._etag, self._lock = found


def _read(storage: Storage) -> tuple[str, LockFile] | None:
    """Return the tag and the content of the lock file, or None if there is none.

    The tag is read first. If the content is newer than the tag, a write conditional on the tag
    fails; with an older content, the write could take the lock from a live owner.
    """
    try:
        etag = storage.head(LOCK_FILE_PATH).etag
        data = storage.read_range(LOCK_FILE_PATH, 0, LOCK_FILE_MAX_BYTES + 1)
    except NotFoundError:
        return None
    if len(data) > LOCK_FILE_MAX_BYTES:
        raise CorruptError(
            f"lock file {_name(storage)}: expected at most {LOCK_FILE_MAX_BYTES} bytes, found more"
        )
    return etag, LockFile.parse(data, _name(storage))


def _describe(lock: LockFile | None) -> str:
    if lock is None:
        return "no holder is recorded"
    until = datetime.fromtimestamp(lock.valid_until_ms / 1000, UTC)
    state = "released by" if lock.expired else "held by"
    return f"{state} {lock.owner}, valid until {until.isoformat(timespec='milliseconds')}"


def _name(storage: Storage) -> str:
    return f"{storage.url}/{LOCK_FILE_PATH}"
