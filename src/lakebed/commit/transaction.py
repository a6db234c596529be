"""One write, all or nothing: begin, write, see whether others were in the way, complete.

Up to `complete` nothing is visible, and that is one atomic put; whatever fails before it is
taken back. A single writer holds the table's lock from begin to end. Where several may write,
the lock is held only to begin and to complete; a heartbeat shows in between that the write is
alive, and what others completed meanwhile decides whether it may complete.
"""

import logging
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from lakebed.commit.claim import is_completed
from lakebed.commit.conflict import (
    Footprint,
    GroupKey,
    Reads,
    find_conflict,
    footprint,
    group_key,
)
from lakebed.commit.fence import Fence
from lakebed.commit.heartbeat import Heartbeat
from lakebed.commit.hold import END_WAIT_SECONDS, LOCK_WAIT_SECONDS, TableHold, hold_table
from lakebed.commit.reconcile import delete_unnamed
from lakebed.commit.rollback import delete_temp, roll_back
from lakebed.errors import ConflictError, LakebedError, NotFoundError
from lakebed.format.names.instant_name import Action
from lakebed.format.timeline.commit_metadata import CommitMetadata
from lakebed.format.timeline.plans import PlanKind, encode_plan
from lakebed.model.clock import Clock
from lakebed.storage.storage import Storage
from lakebed.table.config.table_config import ConcurrencyMode, TableConfig, TableType
from lakebed.table.files.commit_cache import CommitCache
from lakebed.table.files.planned import planned_groups
from lakebed.table.files.retained import named_files
from lakebed.table.snapshot import Snapshot
from lakebed.timeline.active import ActiveTimeline
from lakebed.timeline.timeline import COMMIT_ACTIONS, Timeline, TimelineInstant

log = logging.getLogger(__name__)

_CHANGES = COMMIT_ACTIONS | {Action.CLUSTERING, Action.ROLLBACK, Action.RESTORE}


@dataclass(slots=True)
class Transaction:
    """A write that has begun: its instant, and the table as it was then."""

    storage: Storage
    config: TableConfig
    clock: Clock
    snapshot: Snapshot
    instant: TimelineInstant
    fence: Fence
    heartbeat: Heartbeat = field(repr=False)
    wait_seconds: float = LOCK_WAIT_SECONDS
    # While the lock is held all along.
    hold: TableHold | None = field(default=None, repr=False)
    completion: str | None = field(default=None, init=False)
    # True while the completed file may or may not exist: then nothing must be taken back.
    in_doubt: bool = field(default=False, init=False)

    def complete(
        self,
        metadata: CommitMetadata,
        touched: Iterable[str],
        *,
        looked: frozenset[str] | None = frozenset(),
        blind: bool = False,
        reads: Reads | None = None,
    ) -> str:
        """Make the write visible; give its completion time.

        `touched` are the partitions that tasks wrote to: files of this instant there that
        `metadata` does not name were left by attempts that failed or ran twice. `looked`,
        `blind` and `reads` say what the write depends on, see `Footprint`.
        """
        with self.locked() as hold:
            self.heartbeat.close()
            named = frozenset(named_files(metadata))
            delete_unnamed(self.storage, self.instant.requested, named, touched)
            # As late as can be: a writer without our lock may be at work.
            hold.refresh()
            index = hold.config.index
            ours = footprint("ours", metadata, index, looked=looked, blind=blind, reads=reads)
            self._check_alone(hold, ours, metadata)
            # Not before: a write that is refused or taken back leaves it as it was.
            hold.retire_metadata_table()
            self.config = hold.config
            self.in_doubt = True
            try:
                self.completion = hold.complete(self.instant, metadata.encode())
            except LakebedError:
                self.in_doubt = is_completed(hold, self.instant)
                raise
        return self.completion

    @contextmanager
    def locked(self) -> Iterator[TableHold]:
        """Hold the table's lock, with the table as it is by now."""
        if self.hold is not None:
            yield self.hold
            return
        with hold_table(
            self.storage,
            self.clock,
            self.snapshot.commits,
            # All the work of the write would be for nothing.
            wait_seconds=max(self.wait_seconds, END_WAIT_SECONDS),
            clear=False,
            retires=False,
        ) as hold:
            yield hold

    @property
    def active(self) -> ActiveTimeline:
        """Return the timeline that the write is on."""
        return self.snapshot.commits.active

    def _check_alone(self, hold: TableHold, ours: Footprint, metadata: CommitMetadata) -> None:
        """Raise ConflictError where completing would undo or double what others did meanwhile."""
        timeline = hold.timeline
        if not any(i.requested == self.instant.requested for i in timeline.instants):
            raise ConflictError(
                f"{self.storage.url}: another writer rolled back our instant "
                f"{self.instant.requested}; retry the write"
            )
        reason = (
            self._undone(timeline)
            or (self._unlocked(timeline) if self.hold is not None else None)
            or self._columns(hold, metadata)
            or self._met(hold, ours)
        )
        if reason is not None:
            raise ConflictError(
                f"{self.storage.url}: our write {self.instant.requested} was overtaken by another: "
                f"{reason}; ours is taken back, retry it"
            )

    def _undone(self, timeline: Timeline) -> str | None:
        """Return which commit that we built on is not there any more."""
        there = {instant.requested for instant in timeline.commits}
        for instant in self.snapshot.timeline.commits:
            if instant.requested not in there and not timeline.is_archived(instant.requested):
                return f"{instant.action} {instant.requested} was rolled back"
        return None

    def _unlocked(self, timeline: Timeline) -> str | None:
        """Return who began to change the table although we hold its lock."""
        before = {(i.requested, i.action) for i in self.snapshot.timeline.instants}
        before.add((self.instant.requested, self.instant.action))
        for instant in timeline.instants:
            if instant.action in _CHANGES and (instant.requested, instant.action) not in before:
                return f"{instant.action} {instant.requested} was begun without the table's lock"
        return None

    def _met(self, hold: TableHold, ours: Footprint) -> str | None:
        """Return which commit since ours began touched the same file groups."""
        known = {instant.requested for instant in self.snapshot.timeline.commits}
        others = [i for i in hold.timeline.commits if i.requested not in known]
        return find_conflict(
            ours,
            [_footprint(hold, instant) for instant in others],
            _planned(hold),
            hold.config.concurrency,
        )

    def _columns(self, hold: TableHold, metadata: CommitMetadata) -> str | None:
        """Return whether the table's columns changed under a write that knows only the old ones."""
        now, ours = hold.snapshot.schema_text, (metadata.extra_metadata or {}).get("schema")
        if now in (self.snapshot.schema_text, ours) or ours is None:
            return None
        return "the table's columns changed"


def _footprint(hold: TableHold, instant: TimelineInstant) -> Footprint:
    metadata = hold.snapshot.commits.read(instant)
    return footprint(f"{instant.action} {instant.requested}", metadata, hold.config.index)


def _planned(hold: TableHold) -> dict[GroupKey, str]:
    """Return the file groups in the plans of table services that are pending."""
    found: dict[GroupKey, str] = {}
    for planned in planned_groups(hold.active, hold.timeline):
        partition, file_id = planned.group.partition, planned.group.file_id
        if file_id in hold.snapshot.replaced.get(partition, frozenset()):
            continue  # ended since: a new file group of its bucket is another one
        # An older Hudi plans a clustering as a replacecommit.
        rewrites = planned.instant.plan_action is Action.REPLACECOMMIT
        action = Action.CLUSTERING if rewrites else planned.instant.plan_action
        place = group_key(hold.config.index, partition, file_id)
        found[place] = f"{action} {planned.instant.requested}"
    return found


@contextmanager
def begin(
    storage: Storage,
    clock: Clock,
    commits: CommitCache | None = None,
    *,
    replaces: bool = False,
    wait_seconds: float = LOCK_WAIT_SECONDS,
) -> Iterator[Transaction]:
    """Begin a write; take it back unless it completes.

    One that `replaces` file groups is a replacecommit.
    """
    with ExitStack() as held:
        hold = held.enter_context(
            hold_table(storage, clock, commits, wait_seconds=wait_seconds, retires=False)
        )
        transaction = _start(hold, _action(hold.config, replaces), wait_seconds)
        if hold.config.concurrency is not ConcurrencyMode.SINGLE_WRITER:
            transaction.hold = None
            held.close()
        try:
            yield transaction
        except BaseException as error:
            overtaken = _overtaken(transaction, error)
            # Also for an interrupt: the caller must find the table as it was before.
            if transaction.completion is None and not transaction.in_doubt:
                _take_back(transaction)
            transaction.heartbeat.stop()
            if overtaken is not None:
                raise overtaken from error
            raise
        if transaction.completion is None:
            _take_back(transaction)
        else:
            _sweep(transaction)


def _action(config: TableConfig, replaces: bool) -> Action:
    if replaces:
        return Action.REPLACECOMMIT
    on_write = config.table_type is TableType.COPY_ON_WRITE
    return Action.COMMIT if on_write else Action.DELTACOMMIT


def _start(hold: TableHold, action: Action, wait_seconds: float) -> Transaction:
    # Hudi reads the plan of a replacecommit, which for a write says nothing.
    is_replace = action is Action.REPLACECOMMIT
    plan = encode_plan(PlanKind.REQUESTED_REPLACE, {}) if is_replace else b""
    snapshot = hold.snapshot
    instant = hold.request(action, plan)
    owner = hold.clock.new_uuid()
    heartbeat = Heartbeat(hold.storage, hold.clock, instant.requested, owner)
    try:
        single = hold.config.concurrency is ConcurrencyMode.SINGLE_WRITER
        heartbeat.start(hold.pulse, holds_lock=single)
        instant = hold.start(instant)
    except BaseException:
        heartbeat.stop()
        hold.active.delete_pending(action, instant.requested)
        raise
    fence = Fence(hold.storage, instant.requested, owner)
    return Transaction(
        hold.storage,
        hold.config,
        hold.clock,
        snapshot,
        instant,
        fence,
        heartbeat,
        wait_seconds,
        hold,
    )


def _overtaken(transaction: Transaction, error: BaseException) -> ConflictError | None:
    """Return the conflict that explains why a file of ours is gone; None where there is none.

    Whoever takes us for dead deletes our files under our hands.
    """
    if not isinstance(error, NotFoundError) or transaction.in_doubt:
        return None
    try:
        transaction.fence.check()
    except ConflictError as conflict:
        return conflict
    except LakebedError:
        return None
    return None


def _take_back(transaction: Transaction) -> None:
    transaction.heartbeat.stop()
    try:
        with transaction.locked():
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
