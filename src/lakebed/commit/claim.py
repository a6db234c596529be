"""Carry out an instant that was planned before: one executor at a time, outside the lock."""

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from lakebed.commit.fence import Fence
from lakebed.commit.heartbeat import Heartbeat
from lakebed.commit.hold import END_WAIT_SECONDS, LOCK_WAIT_SECONDS, TableHold, hold_table
from lakebed.commit.reconcile import delete_unnamed
from lakebed.commit.rollback import delete_files_of, delete_temp
from lakebed.errors import ConflictError, LakebedError, TakenError
from lakebed.model.clock import Clock
from lakebed.model.instant import Instant
from lakebed.storage.storage import Storage
from lakebed.table.config.table_config import TableConfig
from lakebed.table.files.commit_cache import CommitCache
from lakebed.table.snapshot import Snapshot
from lakebed.timeline.timeline import TimelineInstant

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Claim:
    """An instant that this process carries out, and the table when it took it."""

    storage: Storage
    clock: Clock
    config: TableConfig
    snapshot: Snapshot
    instant: TimelineInstant
    fence: Fence
    heartbeat: Heartbeat = field(repr=False)
    wait_seconds: float = LOCK_WAIT_SECONDS
    completion: Instant | None = field(default=None, init=False)
    # True while the completed file may or may not exist: then nothing must be taken back.
    in_doubt: bool = field(default=False, init=False)

    def complete(self, content: bytes, named: Iterable[str], touched: Iterable[str]) -> Instant:
        """Make the result visible; give its completion time.

        `named` are the paths that `content` names, `touched` the partitions that tasks wrote to.
        """
        with self.locked() as hold:
            self.fence.check()
            self.heartbeat.close()
            delete_unnamed(self.storage, self.instant.requested, frozenset(named), touched)
            self.in_doubt = True
            try:
                self.completion = hold.complete(self.instant, content)
            except LakebedError:
                self.in_doubt = is_completed(hold, self.instant)
                raise
        return self.completion

    @contextmanager
    def locked(self) -> Iterator[TableHold]:
        """Hold the table's lock for a moment."""
        with hold_table(
            self.storage,
            self.clock,
            self.snapshot.commits,
            wait_seconds=self.wait_seconds,
            clear=False,
        ) as hold:
            yield hold


def is_completed(hold: TableHold, instant: TimelineInstant) -> bool:
    """Return whether an instant may have completed; True where storage does not answer."""
    try:
        found = hold.active.load().find(instant.requested, instant.plan_action)
    except LakebedError:
        return True
    return found is not None and found.is_completed


@contextmanager
def claim(
    storage: Storage,
    clock: Clock,
    commits: CommitCache,
    instant: TimelineInstant,
    *,
    wait_seconds: float = LOCK_WAIT_SECONDS,
) -> Iterator[Claim]:
    """Take a requested instant and carry it out; without `complete` its plan stays pending.

    TakenError if a live executor has it, ConflictError if it is gone or done already. What a
    dead executor of it left is deleted first.
    """
    owner = clock.new_uuid()
    heartbeat = Heartbeat(storage, clock, instant.requested, owner)
    with hold_table(storage, clock, commits, wait_seconds=wait_seconds) as hold:
        found = hold.timeline.find(instant.requested, instant.plan_action)
        if found is None or found.is_completed:
            state = "gone" if found is None else f"done since {found.completion}"
            raise ConflictError(
                f"{storage.url}: {instant.plan_action} {instant.requested} is {state}; there is "
                "nothing left to do"
            )
        if hold.is_alive(found):
            raise TakenError(
                f"{storage.url}: {found.plan_action} {found.requested} is being carried out by "
                "another process; wait for it"
            )
        heartbeat.start(hold.pulse, holds_lock=False)
        try:
            delete_files_of(storage, found.requested)
            delete_temp(storage, found.requested)
            taken = Claim(
                storage,
                clock,
                hold.config,
                hold.snapshot,
                hold.start(found),
                Fence(storage, found.requested, owner),
                heartbeat,
                max(wait_seconds, END_WAIT_SECONDS),
            )
        except BaseException:
            _close(heartbeat)
            raise
    try:
        yield taken
    finally:
        heartbeat.stop()
        if taken.completion is None and not taken.in_doubt:
            _give_back(taken)
        _sweep(taken)


def _close(heartbeat: Heartbeat) -> None:
    try:
        heartbeat.close()
    except LakebedError:
        log.exception("a heartbeat could not be deleted; it runs out by itself")


def _give_back(taken: Claim) -> None:
    """Delete the files of this attempt; under the lock, for another may take the instant over."""
    try:
        with taken.locked():
            taken.fence.check()
            taken.heartbeat.close()
            delete_files_of(taken.storage, taken.instant.requested)
    except LakebedError:
        # The first error matters more; who takes the instant next deletes what is left.
        log.warning("could not give back %s", taken.instant.requested, exc_info=True)


def _sweep(taken: Claim) -> None:
    try:
        delete_temp(taken.storage, taken.instant.requested)
    except LakebedError:
        log.warning("temporary runs of %s stay", taken.instant.requested, exc_info=True)
