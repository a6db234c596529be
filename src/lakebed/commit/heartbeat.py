"""Heartbeats, which show that the writer of an instant is alive.

The heartbeat is also the fence of a write: it exists from before the first task starts until the
write completes or is rolled back, both under the table's lock.
"""

from contextlib import ExitStack
from dataclasses import replace

from lakebed.commit.renewal import renewing
from lakebed.errors import ConflictError, NotFoundError
from lakebed.format.timeline.heartbeat import HEARTBEAT_MAX_BYTES, Beat, heartbeat_path
from lakebed.model.clock import Clock
from lakebed.model.options.writers import HeartbeatOptions
from lakebed.storage.storage import Storage


class Heartbeat:
    """The heartbeat of one attempt at an instant; a thread renews it."""

    def __init__(self, storage: Storage, clock: Clock, instant: str, owner: str) -> None:
        self._storage = storage
        self._clock = clock
        self._path = heartbeat_path(instant)
        self._owner = owner
        self._etag = ""
        self._renewal = ExitStack()

    def start(self, pulse: HeartbeatOptions, *, holds_lock: bool) -> None:
        """Write the heartbeat, replacing any existing one, and start to renew it.

        The caller must hold the lock and have checked the existing heartbeat. With `holds_lock`,
        the writer keeps the lock until it ends; the lock then proves it alive, so the heartbeat is
        not renewed.
        """
        beat = Beat(self._owner, self._clock.process(), self._clock.now_ms(), holds_lock)
        self._etag = self._storage.put(self._path, beat.encode())
        if holds_lock:
            return
        seconds = pulse.interval_ms / 1000
        self._renewal.enter_context(
            renewing("heartbeat", self._path, lambda: self._renew(beat), seconds)
        )

    def stop(self) -> None:
        """Stop renewing the heartbeat, but keep its file."""
        self._renewal.close()

    def close(self) -> bool:
        """Delete the heartbeat, so that this attempt's tasks fail; the caller holds the lock.

        Returns whether the attempt was still ours.
        """
        self.stop()
        beat = read_beat(self._storage, self._path)
        if beat is None or beat.owner != self._owner:
            return False
        self._storage.delete(self._path)
        return True

    def _renew(self, first: Beat) -> None:
        beat = replace(first, at_ms=self._clock.now_ms())
        try:
            self._etag = self._storage.put_if_unchanged(self._path, beat.encode(), self._etag)
        except ConflictError as error:
            # If the response to an earlier renewal was lost, the existing file is ours. Its tag is
            # read first, so that a successor's file is never replaced.
            try:
                etag = self._storage.head(self._path).etag
            except NotFoundError:
                raise error from None
            found = read_beat(self._storage, self._path)
            if found is None or found.owner != self._owner:
                raise
            self._etag = self._storage.put_if_unchanged(self._path, beat.encode(), etag)


def read_beat(storage: Storage, path: str) -> Beat | None:
    """Read a heartbeat of ours; return None if there is none, or if another engine wrote it."""
    try:
        return Beat.parse(storage.read_range(path, 0, HEARTBEAT_MAX_BYTES))
    except NotFoundError:
        return None


def is_alive(storage: Storage, clock: Clock, instant: str, pulse: HeartbeatOptions) -> bool:
    """Return whether a process may still be working on a pending instant.

    The caller holds the lock. So a writer whose heartbeat says that it holds the lock to the end is
    dead.
    """
    path = heartbeat_path(instant)
    try:
        modified_ms = storage.head(path).modified_ms
    except NotFoundError:
        return False
    beat = read_beat(storage, path)
    now = clock.now_ms()
    if beat is None:
        return now - modified_ms < pulse.expiry_ms
    if beat.holds_lock or clock.is_gone(beat.process):
        return False
    return now - beat.at_ms < pulse.expiry_ms
