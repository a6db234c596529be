"""One write, all or nothing: lock, roll back the dead, begin, reconcile, complete.

The lock is held from begin to end, so an instant found pending at the beginning has no
live writer of ours. Nothing is visible before the completed file appears, which is one
atomic put; whatever fails before it is taken back.
"""

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from lakebed.commit.lock import HeldLock, table_lock
from lakebed.commit.rollback import delete_temp, roll_back
from lakebed.errors import (
    ConflictError,
    ExistsError,
    LakebedError,
    LockedError,
    UnsupportedError,
)
from lakebed.format.commit_metadata import CommitMetadata
from lakebed.format.instant_name import Action
from lakebed.format.names import parse_data_name
from lakebed.format.plans import PlanKind, encode_plan
from lakebed.model.clock import Clock
from lakebed.model.instant import next_instant
from lakebed.storage.storage import Storage
from lakebed.table.config import TableConfig, TableType
from lakebed.table.file_group import join_path
from lakebed.table.properties_file import load_config
from lakebed.table.retained import named_files
from lakebed.table.snapshot import CommitCache, Snapshot, load_snapshot
from lakebed.timeline.active import ActiveTimeline
from lakebed.timeline.timeline import COMMIT_ACTIONS, Timeline, TimelineInstant

log = logging.getLogger(__name__)

LOCK_WAIT_SECONDS = 60.0
_BLOCKING = frozenset({Action.CLUSTERING, Action.ROLLBACK, Action.RESTORE})


@dataclass(slots=True)
class Transaction:
    """A write that has begun: its instant, and the table as it was then."""

    storage: Storage
    config: TableConfig
    clock: Clock
    snapshot: Snapshot
    instant: TimelineInstant
    lock: HeldLock
    completion: str | None = field(default=None, init=False)
    # True while the completed file may or may not exist: then nothing must be taken back.
    in_doubt: bool = field(default=False, init=False)

    def complete(self, metadata: CommitMetadata, touched: Iterable[str]) -> str:
        """Make the write visible; give its completion time.

        `touched` are the partitions that tasks wrote to: files of this instant there
        that `metadata` does not name were left by attempts that failed or ran twice.
        """
        self._reconcile(frozenset(named_files(metadata)), touched)
        timeline = self.active.load()
        self._check_conflict(timeline)
        completion = next_instant(self.clock.now_ms(), self.config.zone, timeline.last_instant)
        data = metadata.encode()
        self.lock.check()
        self.in_doubt = True
        try:
            self.active.complete(self.instant.action, self.instant.requested, completion, data)
        except LakebedError:
            # A put that timed out may have taken effect; only the timeline knows.
            if self.active.load().completed(self.instant.requested) is None:
                self.in_doubt = False
                raise
        self.completion = completion
        return completion

    @property
    def active(self) -> ActiveTimeline:
        """Give the timeline that the write is on."""
        return self.snapshot.commits.active

    def _reconcile(self, named: frozenset[str], touched: Iterable[str]) -> None:
        for partition in sorted(set(touched)):
            for text in self.storage.names(partition):
                name = parse_data_name(text)
                path = join_path(partition, text)
                if name is None or name.instant != self.instant.requested or path in named:
                    continue
                log.warning("%s: left by a task attempt that does not count", path)
                self.storage.delete(path)

    def _check_conflict(self, timeline: Timeline) -> None:
        """Refuse to complete on a table that somebody changed without our lock."""
        before = {(i.requested, i.action) for i in self.snapshot.timeline.instants}
        before.add((self.instant.requested, self.instant.action))
        for instant in timeline.instants:
            if (
                instant.action in COMMIT_ACTIONS | _BLOCKING
                and (instant.requested, instant.action) not in before
            ):
                raise ConflictError(
                    f"{self.storage.url}: another writer began {instant.action} "
                    f"{instant.requested} during ours ({self.instant.requested}); ours is taken "
                    "back, retry it"
                )
        if not any(i.requested == self.instant.requested for i in timeline.instants):
            raise ConflictError(
                f"{self.storage.url}: another writer rolled back our instant "
                f"{self.instant.requested}; retry the write"
            )


@contextmanager
def begin(
    storage: Storage,
    config: TableConfig,
    clock: Clock,
    commits: CommitCache | None = None,
    *,
    replaces: bool = False,
    lock_wait_seconds: float = LOCK_WAIT_SECONDS,
) -> Iterator[Transaction]:
    """Begin a write under the table's lock; take it back unless it completes.

    One that `replaces` file groups is a replacecommit.
    """
    config.check_writable()
    with table_lock(storage).hold(clock, lock_wait_seconds) as lock:
        # Others may have changed the properties since the caller read them.
        config = load_config(storage)
        config.check_writable()
        snapshot = _clear_the_way(storage, config, commits, lock)
        transaction = _start(storage, config, clock, snapshot, lock, _action(config, replaces))
        try:
            yield transaction
        except BaseException:
            # Also for an interrupt: the caller must find the table as it was before.
            if transaction.completion is None and not transaction.in_doubt:
                _take_back(transaction)
            raise
        if transaction.completion is None:
            _take_back(transaction)
        else:
            _sweep(transaction)


def _clear_the_way(
    storage: Storage, config: TableConfig, commits: CommitCache | None, lock: HeldLock
) -> Snapshot:
    """Roll back what dead writers left, and refuse where somebody else's work is pending."""
    snapshot = load_snapshot(storage, config, commits=commits)
    dead = []
    for instant in snapshot.timeline.pending():
        if instant.action in _BLOCKING:
            raise UnsupportedError(
                f"{storage.url}: {instant.action} {instant.requested} is pending; let the engine "
                "that began it finish or roll it back before writing"
            )
        if instant.action in COMMIT_ACTIONS:
            dead.append(instant)
    heartbeats = {entry.path for entry in storage.list(".hoodie/.heartbeat")} if dead else set()
    for instant in dead:
        if f".hoodie/.heartbeat/{instant.requested}" in heartbeats:
            raise LockedError(
                f"{storage.url}: {instant.action} {instant.requested} is pending with a heartbeat: "
                "another engine may still be writing it"
            )
        log.warning("rolling back %s %s, which never completed", instant.action, instant.requested)
        lock.check()
        roll_back(storage, snapshot.commits.active, instant)
    delete_temp(storage)
    return load_snapshot(storage, config, commits=snapshot.commits) if dead else snapshot


def _action(config: TableConfig, replaces: bool) -> Action:
    if replaces:
        return Action.REPLACECOMMIT
    on_write = config.table_type is TableType.COPY_ON_WRITE
    return Action.COMMIT if on_write else Action.DELTACOMMIT


def _start(
    storage: Storage,
    config: TableConfig,
    clock: Clock,
    snapshot: Snapshot,
    lock: HeldLock,
    action: Action,
) -> Transaction:
    # Hudi reads the plan of a replacecommit, which for a write says nothing.
    is_replace = action is Action.REPLACECOMMIT
    plan = encode_plan(PlanKind.REQUESTED_REPLACE, {}) if is_replace else b""
    requested = next_instant(clock.now_ms(), config.zone, snapshot.timeline.last_instant)
    active = snapshot.commits.active
    try:
        active.create_requested(action, requested, plan)
        instant = active.transition_to_inflight(action, requested)
    except ExistsError:
        raise  # the instant is another writer's
    except LakebedError:
        active.delete_pending(action, requested)
        raise
    return Transaction(storage, config, clock, snapshot, instant, lock)


def _take_back(transaction: Transaction) -> None:
    try:
        roll_back(transaction.storage, transaction.active, transaction.instant)
    except LakebedError:
        # The first error matters more; the next writer rolls the instant back again.
        log.exception("could not roll back %s; the next write will", transaction.instant.requested)


def _sweep(transaction: Transaction) -> None:
    try:
        delete_temp(transaction.storage, transaction.instant.requested)
    except LakebedError:
        # The write has happened; temporary runs that stay are swept by the next one.
        log.exception("could not delete temporary runs of %s", transaction.instant.requested)
