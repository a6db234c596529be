"""A table while its lock is held; every change of the timeline goes through this module."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import cast

from lakebed.commit.heartbeat import is_alive
from lakebed.commit.lock import LOCK_WAIT_SECONDS, HeldLock, table_lock
from lakebed.commit.metadata_table import (
    check_indexing,
    is_of_another_engine,
    must_retire,
    refuse_writer,
    retire,
)
from lakebed.commit.rollback import delete_temp, roll_back
from lakebed.errors import (
    ExistsError,
    LakebedError,
    LockedError,
    NotFoundError,
    UnfinishedError,
)
from lakebed.format.names.instant_name import Action, State
from lakebed.format.timeline.plans import PlanKind
from lakebed.model.clock import Clock
from lakebed.model.instant import Instant, next_instant
from lakebed.model.options.writers import HeartbeatOptions
from lakebed.storage.storage import Storage
from lakebed.table.config.properties_file import load_config
from lakebed.table.config.table_config import ConcurrencyMode, TableConfig
from lakebed.table.config.writable import check_writable
from lakebed.table.files.commit_cache import CommitCache
from lakebed.table.snapshot import Snapshot, load_snapshot
from lakebed.timeline.active import ActiveTimeline
from lakebed.timeline.timeline import COMMIT_ACTIONS, Timeline, TimelineInstant

log = logging.getLogger(__name__)

OUR_PLAN = ("lakebed", "1")
"""The extra metadata that marks a clustering or a clean as ours: only Lakebed completes its plan."""
_BLOCKING = frozenset({Action.ROLLBACK, Action.RESTORE})


@dataclass(slots=True)
class TableHold:
    """A locked table, which no other process changes: its current properties and timeline."""

    storage: Storage
    clock: Clock
    lock: HeldLock
    config: TableConfig
    snapshot: Snapshot

    @property
    def active(self) -> ActiveTimeline:
        """Return the timeline on storage."""
        return self.snapshot.commits.active

    @property
    def timeline(self) -> Timeline:
        """Return the timeline as of the last refresh."""
        return self.snapshot.timeline

    @property
    def pulse(self) -> HeartbeatOptions:
        """Return the heartbeat interval of this table's writers."""
        return HeartbeatOptions.of(self.config.properties)

    def refresh(self) -> None:
        """Reload the table, after checking that we still hold the lock."""
        self.lock.check()
        self.config = load_config(self.storage)
        self.snapshot = load_snapshot(self.storage, self.config, commits=self.snapshot.commits)

    def next_instant(self) -> Instant:
        """Return a new instant, later than all existing instants."""
        return next_instant(self.clock.now_ms(), self.config.zone, self.timeline.last_instant)

    def request(self, action: Action, plan: bytes = b"") -> TimelineInstant:
        """Add a requested instant to the timeline, and return it."""
        requested = self.next_instant()
        try:
            instant = self.active.create_requested(action, requested, plan)
        except ExistsError:
            raise  # The instant belongs to another writer.
        except LakebedError:
            self.active.delete_pending(action, requested)
            raise
        self._note(instant)
        return instant

    def start(self, instant: TimelineInstant, content: bytes = b"") -> TimelineInstant:
        """Mark an instant as in-flight, if it is not already."""
        try:
            started = self.active.transition_to_inflight(
                instant.plan_action, instant.requested, content
            )
        except ExistsError:
            return instant
        self._note(started)
        return started

    def complete(self, instant: TimelineInstant, content: bytes) -> Instant:
        """Write the completed file of an instant; return its completion time."""
        completion = self.next_instant()
        self.lock.check()
        try:
            self.active.complete(instant.plan_action, instant.requested, completion, content)
        except LakebedError:
            # A put that timed out may have taken effect: the timeline decides.
            found = self.active.load().find(instant.requested, instant.plan_action)
            if found is None or found.completion != completion:
                raise
        done = instant.plan_action.completed
        self._note(replace(instant, action=done, state=State.COMPLETED, completion=completion))
        return completion

    def _note(self, changed: TimelineInstant) -> None:
        """Update an instant in our copy of the timeline."""
        key = changed.requested, changed.plan_action
        others = (i for i in self.timeline.instants if (i.requested, i.plan_action) != key)
        instants = sorted([*others, changed], key=lambda instant: instant.requested)
        timeline = replace(self.timeline, instants=tuple(instants))
        self.snapshot = Snapshot(self.storage, self.config, timeline, self.snapshot.commits)

    def retire_metadata_table(self) -> None:
        """Retire Hudi's metadata table if there is one, because our change would make it stale."""
        if not must_retire(self.storage, self.config):
            return
        for instant in self.timeline.pending():
            if self.is_alive(instant) and is_of_another_engine(self.storage, instant.requested):
                raise refuse_writer(self.storage.url, instant.action, instant.requested)
        self.lock.check()
        self.config = retire(self.storage, self.config)
        self.snapshot = Snapshot(self.storage, self.config, self.timeline, self.snapshot.commits)

    def is_alive(self, instant: TimelineInstant) -> bool:
        """Return whether another process may still be working on a pending instant."""
        return is_alive(self.storage, self.clock, instant.requested, self.pulse)


@contextmanager
def hold_table(
    storage: Storage,
    clock: Clock,
    commits: CommitCache | None = None,
    *,
    wait_seconds: float = LOCK_WAIT_SECONDS,
    clear: bool = True,
    retires: bool = True,
    gives_up_indexes: bool = False,
) -> Iterator[TableHold]:
    """Hold the table's lock; with `clear`, first roll back the pending instants of dead writers.

    Hudi's metadata table is retired first, unless `retires` is false. If it holds an index that a
    user requested, this raises an error unless `gives_up_indexes` is set.
    """
    config = load_config(storage)
    check_writable(config, gives_up_indexes=gives_up_indexes)
    with table_lock(storage, config.properties).hold(clock, wait_seconds) as lock:
        # Another writer may have changed the properties before we got the lock.
        config = load_config(storage)
        check_writable(config, gives_up_indexes=gives_up_indexes)
        snapshot = load_snapshot(storage, config, commits=commits)
        hold = TableHold(storage, clock, lock, config, snapshot)
        check_indexing(storage.url, hold.timeline)
        if retires:
            hold.retire_metadata_table()
        if clear:
            _clear_the_way(hold)
        yield hold


def _clear_the_way(hold: TableHold) -> None:
    """Roll back instants of dead writers; raise an error if another process is still working."""
    several = hold.config.concurrency is not ConcurrencyMode.SINGLE_WRITER
    live, dead = set(), []
    for instant in hold.timeline.pending():
        if instant.action in _BLOCKING:
            raise UnfinishedError(
                f"{hold.storage.url}: {instant.action} {instant.requested} is pending: the process "
                "that started it did not complete it"
            )
        if hold.is_alive(instant):
            live.add(instant.requested)
            if instant.action in COMMIT_ACTIONS and not several:
                raise LockedError(
                    f"{hold.storage.url}: {instant.action} {instant.requested} is pending with a "
                    "heartbeat: another engine may still be writing it"
                )
        elif instant.action in COMMIT_ACTIONS or _is_our_clustering(hold, instant):
            dead.append(instant)
    if dead:
        hold.retire_metadata_table()
    for instant in dead:
        log.warning("rolling back %s %s, which never completed", instant.action, instant.requested)
        hold.lock.check()
        roll_back(hold.storage, hold.active, instant)
    delete_temp(hold.storage, keep=live)
    if dead:
        hold.refresh()


def _is_our_clustering(hold: TableHold, instant: TimelineInstant) -> bool:
    """Return whether a pending instant is our own clustering, which no process resumes."""
    if instant.action is not Action.CLUSTERING:
        return False
    try:
        values = hold.active.read_plan(PlanKind.REQUESTED_REPLACE, instant, State.REQUESTED)
    except NotFoundError:
        return False
    plan = cast("dict[str, dict[str, str] | None]", values["clusteringPlan"] or {})
    return OUR_PLAN in (plan.get("extraMetadata") or {}).items()
