"""One atomic write: start, write, check for conflicts, complete.

A single writer holds the table's lock from start to end. With several writers, the lock is held
only to start and to complete, and the commits completed in between decide whether the write may
complete.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import chain

from lakebed.commit.attempt import Attempt, finishing
from lakebed.commit.conflict import (
    Footprint,
    Reads,
    find_conflict,
    footprint,
    group_place,
)
from lakebed.commit.hold import TableHold, hold_table
from lakebed.commit.lock import LOCK_WAIT_SECONDS
from lakebed.commit.stream_batches import StreamBatch, check_none_of
from lakebed.errors import ConflictError
from lakebed.format.names.instant_name import Action
from lakebed.format.timeline.commit_metadata import CommitMetadata
from lakebed.format.timeline.plans import PlanKind, encode_plan
from lakebed.model.clock import Clock
from lakebed.model.instant import Instant
from lakebed.storage.storage import Storage
from lakebed.table.config.table_config import ConcurrencyMode, TableType
from lakebed.table.files.commit_cache import CommitCache
from lakebed.table.files.file_group import FileGroupId
from lakebed.table.files.pending_plans import planned_groups
from lakebed.timeline.timeline import COMMIT_ACTIONS, Timeline, TimelineInstant

_CHANGES = COMMIT_ACTIONS | {Action.CLUSTERING, Action.ROLLBACK, Action.RESTORE}


@dataclass(slots=True)
class Transaction(Attempt):
    """A write that has started: its instant, and the table as of its start."""

    def commit(
        self,
        metadata: CommitMetadata,
        touched: Iterable[str],
        *,
        looked: frozenset[str] | None = frozenset(),
        blind: bool = False,
        reads: Reads | None = None,
    ) -> Instant:
        """Complete the write unless it conflicts with another; return its completion time.

        `looked`, `blind` and `reads` describe the rows that the write has read; see `Footprint`.
        """

        def check(hold: TableHold) -> None:
            index = hold.config.index
            ours = footprint("ours", metadata, index, looked=looked, blind=blind, reads=reads)
            self._check_alone(hold, ours, metadata)

        return self.complete(metadata, touched, check)

    def _check_alone(self, hold: TableHold, ours: Footprint, metadata: CommitMetadata) -> None:
        """Raise ConflictError if completing would undo or duplicate concurrent changes."""
        timeline = hold.timeline
        if not any(i.requested == self.instant.requested for i in timeline.instants):
            raise ConflictError(
                f"{self.storage.url}: another writer rolled back our instant "
                f"{self.instant.requested}; retry the write"
            )
        known = self.snapshot.timeline
        newer = [i for i in timeline.commits if known.completed(i.requested) is None]
        check_none_of(hold.snapshot, newer, StreamBatch.of(metadata.extra_metadata))
        reason = (
            self._undone(timeline)
            or (self._unlocked(timeline) if self.hold is not None else None)
            or self._columns(hold, metadata)
            or self._planned_before_drop(hold)
            or self._met(hold, ours)
            or self._torn(hold, ours)
        )
        if reason is not None:
            raise ConflictError(
                f"{self.storage.url}: our write {self.instant.requested} was overtaken by another: "
                f"{reason}; ours was rolled back, retry it"
            )

    def _undone(self, timeline: Timeline) -> str | None:
        """Return a message if a commit that existed at our start was rolled back, or None."""
        there = {instant.requested for instant in timeline.commits}
        for instant in self.snapshot.timeline.commits:
            if instant.requested not in there and not timeline.is_archived(instant.requested):
                return f"{instant.action} {instant.requested} was rolled back"
        return None

    def _unlocked(self, timeline: Timeline) -> str | None:
        """Return a message if an instant was started while we held the lock, or None."""
        before = {(i.requested, i.action) for i in self.snapshot.timeline.instants}
        before.add((self.instant.requested, self.instant.action))
        for instant in timeline.instants:
            if instant.action in _CHANGES and (instant.requested, instant.action) not in before:
                return f"{instant.action} {instant.requested} was started without the table's lock"
        return None

    def _met(self, hold: TableHold, ours: Footprint) -> str | None:
        """Return why a newer commit or a pending plan conflicts with ours, or None."""
        known = {instant.requested for instant in self.snapshot.timeline.commits}
        others = [i for i in hold.timeline.commits if i.requested not in known]
        return find_conflict(
            ours,
            [_footprint(hold, instant) for instant in others],
            _planned(hold),
            hold.config.concurrency,
        )

    def _columns(self, hold: TableHold, metadata: CommitMetadata) -> str | None:
        """Return a message if the table's columns changed and this write lacks the change."""
        if hold.snapshot.column_groups != self.snapshot.column_groups:
            return "the table's column groups changed"
        now, ours = hold.snapshot.schema_text, (metadata.extra_metadata or {}).get("schema")
        if now in (self.snapshot.schema_text, ours) or ours is None:
            return None
        return "the table's columns changed"

    def _planned_before_drop(self, hold: TableHold) -> str | None:
        """Return a message if a pending compaction may need a column group that this drops."""
        requested = self.instant.requested
        if all(group.until != requested for group in hold.config.column_groups):
            return None
        pending = hold.timeline.pending(Action.COMPACTION, Action.LOGCOMPACTION)
        return f"{pending[0].plan_action} {pending[0].requested} is pending" if pending else None

    def _torn(self, hold: TableHold, ours: Footprint) -> str | None:
        """Return a message if a newer compaction separates this write's column groups, or None.

        In a group that was compacted since this write started, its rows are newer than the
        compacted base file; in other groups, instants decide. So the write could win in one and
        lose in another.
        """
        free = hold.config.concurrency is ConcurrencyMode.NON_BLOCKING
        if not (free and hold.snapshot.column_groups):
            return None
        newer = self._newer_compactions(hold)
        divided: dict[FileGroupId, set[frozenset[str]]] = defaultdict(set)
        for group in chain.from_iterable(ours.groups.values()):
            divided[group.whole].add(frozenset(newer.get(group, ())))
        torn = min((whole for whole, seen in divided.items() if len(seen) > 1), default=None)
        if torn is None:
            return None
        return f"a compaction of some column groups of file group {torn.file_id} is newer"

    def _newer_compactions(self, hold: TableHold) -> dict[FileGroupId, set[str]]:
        """Return the full compactions that were planned after this write started, by file group."""
        newer: dict[FileGroupId, set[str]] = defaultdict(set)
        for planned in planned_groups(hold.active, hold.timeline, Action.COMPACTION):
            if planned.is_full and planned.instant.requested > self.instant.requested:
                newer[planned.group].add(planned.instant.requested)
        for commit in hold.timeline.commits:
            if (
                commit.plan_action is Action.COMPACTION
                and commit.requested > self.instant.requested
            ):
                done = _footprint(hold, commit)
                for group in chain.from_iterable(done.groups[place] for place in done.rewritten):
                    newer[group].add(commit.requested)
        return newer


def _footprint(hold: TableHold, instant: TimelineInstant) -> Footprint:
    metadata = hold.snapshot.commits.read(instant)
    what, groups = f"{instant.action} {instant.requested}", hold.snapshot.column_groups.names
    return footprint(what, metadata, hold.config.index, column_groups=groups)


def _planned(hold: TableHold) -> dict[FileGroupId, str]:
    """Return the places in pending plans of table services, each with a name for its plan."""
    found: dict[FileGroupId, str] = {}
    for planned in planned_groups(hold.active, hold.timeline):
        group = planned.group
        if group.file_id in hold.snapshot.replaced.get(group.partition, frozenset()):
            continue  # the plan does not contain the bucket's new file group
        # Older versions of Hudi plan a clustering as a replacecommit.
        rewrites = planned.instant.plan_action is Action.REPLACECOMMIT
        action = Action.CLUSTERING if rewrites else planned.instant.plan_action
        found[group_place(hold.config.index, group)] = f"{action} {planned.instant.requested}"
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
    """Start a write; roll it back unless it completes.

    With `replaces`, the write is a replacecommit, which can replace file groups.
    """
    with ExitStack() as held:
        hold = held.enter_context(
            hold_table(storage, clock, commits, wait_seconds=wait_seconds, retires=False)
        )
        single = hold.config.concurrency is ConcurrencyMode.SINGLE_WRITER
        snapshot = hold.snapshot
        transaction = Transaction.start(
            hold,
            snapshot,
            _request(hold, replaces=replaces),
            wait_seconds=wait_seconds,
            holds_lock=single,
        )
        if not single:
            held.close()
        with finishing(transaction):
            yield transaction


def _request(hold: TableHold, *, replaces: bool) -> TimelineInstant:
    if replaces:
        # Hudi expects a plan for a replacecommit; that of a write is empty.
        return hold.request(Action.REPLACECOMMIT, encode_plan(PlanKind.REQUESTED_REPLACE, {}))
    on_write = hold.config.table_type is TableType.COPY_ON_WRITE
    return hold.request(Action.COMMIT if on_write else Action.DELTACOMMIT)
