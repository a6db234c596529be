"""One attempt at an instant, of a write or a planned service, from heartbeat to completed file.

Nothing is visible before `complete`, which ends in one atomic put; an attempt that fails before
that is undone. A heartbeat shows that the attempt is alive, and a fence keeps its tasks from
leaving files behind once it is no longer in progress.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol, Self

from lakebed.commit.fence import Fence
from lakebed.commit.heartbeat import Heartbeat
from lakebed.commit.hold import TableHold, hold_table
from lakebed.commit.indexed_files import index_files
from lakebed.commit.lock import LOCK_WAIT_AT_END_SECONDS, LOCK_WAIT_SECONDS
from lakebed.commit.reconcile import delete_unnamed
from lakebed.commit.rollback import delete_files_of, delete_temp, roll_back
from lakebed.errors import ConflictError, LakebedError, NotFoundError
from lakebed.format.timeline.commit_metadata import CommitMetadata
from lakebed.model.clock import Clock
from lakebed.model.instant import Instant
from lakebed.storage.storage import Storage
from lakebed.table.config.table_config import TableConfig
from lakebed.table.files.retention import named_files
from lakebed.table.snapshot import Snapshot
from lakebed.timeline.active import ActiveTimeline
from lakebed.timeline.timeline import TimelineInstant

log = logging.getLogger(__name__)

Check = Callable[[TableHold], None]
"""Raises an error if the instant must not complete, given the current state of the table."""


class Participant(Protocol):
    """Another writer of files that become visible with an instant, such as the runs of an index.

    It writes its files to paths from `side_path`, so that a rollback can find them by name: after a
    crash there is no other record of them.
    """

    def prepare(
        self, hold: TableHold, instant: Instant, metadata: CommitMetadata
    ) -> Mapping[str, str]:
        """Write the files that must exist before the instant completes.

        Returns entries for the commit's extra metadata.
        """

    def publish(self, hold: TableHold, instant: Instant, completion: Instant) -> None:
        """Do the work that must follow the commit; a failure does not undo the commit."""


@dataclass(slots=True)
class Attempt:
    """An instant that this process executes, and the table as of its start.

    A failed attempt removes its instant from the timeline, or, with `keeps_plan`, only its files.
    """

    storage: Storage
    clock: Clock
    config: TableConfig
    snapshot: Snapshot
    instant: TimelineInstant
    fence: Fence
    heartbeat: Heartbeat = field(repr=False)
    wait_seconds: float = LOCK_WAIT_SECONDS
    keeps_plan: bool = False
    # Set if this attempt holds the lock from start to end.
    hold: TableHold | None = field(default=None, repr=False)
    participants: list[Participant] = field(default_factory=list)
    completion: Instant | None = field(default=None, init=False)
    # True while it is unknown whether the completed file exists. Nothing may be undone then.
    in_doubt: bool = field(default=False, init=False)

    @classmethod
    def start(
        cls,
        hold: TableHold,
        snapshot: Snapshot,
        instant: TimelineInstant,
        *,
        wait_seconds: float = LOCK_WAIT_SECONDS,
        keeps_plan: bool = False,
        holds_lock: bool = False,
    ) -> Self:
        """Mark a requested instant as in-flight; restore the previous state on an error.

        `snapshot` is the table without the instant. The caller holds the lock.
        """
        owner = hold.clock.new_uuid()
        heartbeat = Heartbeat(hold.storage, hold.clock, instant.requested, owner)
        try:
            heartbeat.start(hold.pulse, holds_lock=holds_lock)
            if keeps_plan:
                # Delete what an earlier attempt left; its tasks can no longer close files.
                _delete_files(hold, instant)
            started = hold.start(instant)
        except BaseException:
            _end(hold, heartbeat, instant, keeps_plan=keeps_plan)
            raise
        return cls(
            hold.storage,
            hold.clock,
            hold.config,
            snapshot,
            started,
            Fence(hold.storage, instant.requested, owner),
            heartbeat,
            wait_seconds,
            keeps_plan,
            hold if holds_lock else None,
        )

    @property
    def active(self) -> ActiveTimeline:
        """Return the timeline that contains the instant."""
        return self.snapshot.commits.active

    def complete(
        self, metadata: CommitMetadata, touched: Iterable[str], check: Check | None = None
    ) -> Instant:
        """Commit the result and return the completion time.

        `touched` are the partitions that tasks wrote to. Files of this instant there that
        `metadata` does not list were left by failed or repeated task attempts, and are deleted.
        """
        with self.locked() as hold:
            if not self.heartbeat.close():
                raise ConflictError(
                    f"{self.storage.url}: another process rolled back our instant "
                    f"{self.instant.requested} or took it over; retry"
                )
            try:
                metadata = self._make_ready(hold, metadata, touched, check)
            except BaseException:
                # The heartbeat is gone, so without the lock another process may take over the plan.
                if self.keeps_plan:
                    _try_delete_files(hold, self.instant)
                raise
            self.config = hold.config
            self.in_doubt = True
            try:
                self.completion = hold.complete(self.instant, metadata.encode())
            except LakebedError:
                self.in_doubt = _is_completed(hold, self.instant)
                raise
            self._publish(hold, self.completion, metadata)
        return self.completion

    def _make_ready(
        self,
        hold: TableHold,
        metadata: CommitMetadata,
        touched: Iterable[str],
        check: Check | None,
    ) -> CommitMetadata:
        """Do all the work that precedes the commit; return the metadata to commit."""
        named = frozenset(named_files(metadata))
        delete_unnamed(self.storage, self.instant.requested, named, touched)
        metadata = self._prepare(hold, metadata)
        if check is not None:
            # As late as possible: a writer that does not take our lock may be active.
            hold.refresh()
            check(hold)
        # Not earlier: an attempt that is rejected or undone must not change the metadata table.
        hold.retire_metadata_table()
        return metadata

    def _prepare(self, hold: TableHold, metadata: CommitMetadata) -> CommitMetadata:
        told: dict[str, str] = {}
        for participant in self.participants:
            told |= participant.prepare(hold, self.instant.requested, metadata)
        extra = {**(metadata.extra_metadata or {}), **told}
        return replace(metadata, extra_metadata=extra) if told else metadata

    def _publish(self, hold: TableHold, completion: Instant, metadata: CommitMetadata) -> None:
        requested = self.instant.requested
        works = [partial(p.publish, hold, requested, completion) for p in self.participants]
        for work in (partial(index_files, hold, requested, metadata), *works):
            try:
                work()
            except LakebedError:
                log.exception("%s is complete; the work that follows a commit failed", requested)

    @contextmanager
    def locked(self) -> Iterator[TableHold]:
        """Yield the current state of the table under its lock, taking the lock if necessary."""
        if self.hold is not None:
            yield self.hold
            return
        with hold_table(
            self.storage,
            self.clock,
            self.snapshot.commits,
            # A timeout here would lose all the work.
            wait_seconds=max(self.wait_seconds, LOCK_WAIT_AT_END_SECONDS),
            clear=False,
            retires=False,
        ) as hold:
            yield hold


@contextmanager
def finishing(attempt: Attempt) -> Iterator[None]:
    """Undo an attempt that does not complete, even if it is interrupted."""
    try:
        yield
    except NotFoundError as error:
        # A process that considers us dead may delete our files while we work.
        if not attempt.in_doubt and (conflict := _overtaken(attempt)) is not None:
            raise conflict from error
        raise
    finally:
        attempt.heartbeat.stop()
        if attempt.completion is None and not attempt.in_doubt:
            _undo(attempt)
        else:
            _sweep(attempt)


def _overtaken(attempt: Attempt) -> ConflictError | None:
    try:
        attempt.fence.check()
    except ConflictError as conflict:
        return conflict
    except LakebedError:
        return None
    return None


def _undo(attempt: Attempt) -> None:
    try:
        with attempt.locked() as hold:
            _end(hold, attempt.heartbeat, attempt.instant, keeps_plan=attempt.keeps_plan)
    except LakebedError:
        # Keep the first error; the next writer undoes the instant.
        log.exception("could not undo %s; the next writer will", attempt.instant.requested)


def _end(
    hold: TableHold, heartbeat: Heartbeat, instant: TimelineInstant, *, keeps_plan: bool
) -> None:
    """Undo an attempt: delete its files and, unless `keeps_plan`, its instant.

    `hold` must be the table's lock: without it, another process could take over the instant.
    """
    heartbeat.stop()
    try:
        if keeps_plan:
            if heartbeat.close():
                _delete_files(hold, instant)
            return
        found = hold.timeline.find(instant.requested, instant.plan_action)
        # Another engine may have executed the plan.
        over = hold.timeline.is_archived(instant.requested) if not found else found.is_completed
        if not over:
            roll_back(hold.storage, hold.active, instant)
    except LakebedError:
        # Keep the first error; the next writer undoes the instant.
        log.exception("could not undo %s; the next writer will", instant.requested)


def _delete_files(hold: TableHold, instant: TimelineInstant) -> None:
    delete_files_of(hold.storage, instant.requested)
    delete_temp(hold.storage, instant.requested)


def _try_delete_files(hold: TableHold, instant: TimelineInstant) -> None:
    try:
        _delete_files(hold, instant)
    except LakebedError:
        # Keep the first error; the next attempt deletes the files.
        log.exception("could not delete the files of %s", instant.requested)


def _sweep(attempt: Attempt) -> None:
    try:
        delete_temp(attempt.storage, attempt.instant.requested)
    except LakebedError:
        # The next writer removes temporary runs that are left behind.
        log.exception("could not delete temporary runs of %s", attempt.instant.requested)


def _is_completed(hold: TableHold, instant: TimelineInstant) -> bool:
    """Return whether an instant may be completed, which is assumed if storage does not answer."""
    try:
        found = hold.active.load().find(instant.requested, instant.plan_action)
    except LakebedError:
        return True
    return found is not None and found.is_completed
