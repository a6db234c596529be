"""Archive a table's timeline, entirely under the table's lock.

First, files that would become visible once their instant is archived are deleted. Then the instants
are added to the archive, and only then removed from the active timeline, in Hudi's order: pending
files before completed ones (a pending file alone is a write to roll back), oldest first (the
timeline must have no gap). A crash in between leaves instants in both places, which is harmless;
the next archiving removes them from the active timeline.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from lakebed.commit.hold import TableHold, hold_table
from lakebed.commit.indexed_files import delete_runs
from lakebed.errors import NotFoundError
from lakebed.format.names.instant_name import Action, State
from lakebed.model.instant import Instant
from lakebed.model.options.services import ArchiveOptions
from lakebed.services.archive.archived_files_record import record_archived_files
from lakebed.services.archive.plan import MOVABLE, plan_archive
from lakebed.services.clean.clean_input import data_files, read_replaced, without_archived
from lakebed.services.clean.plan import safe_limit
from lakebed.services.indexing.build import account_for_commits
from lakebed.services.record_index import account_for_record_index
from lakebed.storage.storage import Entry
from lakebed.table.files.visibility import Visibility
from lakebed.timeline.archive_writer import (
    KEPT_MANIFESTS,
    append_archived,
    clean_archive,
    merge_levels,
)
from lakebed.timeline.archived import ArchivedInstant, read_archived
from lakebed.timeline.timeline import Timeline, TimelineInstant
from lakebed.write.pipeline import WriteTarget

# Whatever may be the instant in the name of a data file.
_INSTANTS: Final = re.compile("_([0-9]{14,20})(?=[_.])")
_PLANNED: Final = frozenset(
    {
        Action.CLEAN,
        Action.REPLACECOMMIT,
        Action.CLUSTERING,
        Action.COMPACTION,
        Action.LOGCOMPACTION,
    }
)
"""Actions whose plan is kept in the archive."""


@dataclass(frozen=True, slots=True)
class Archive:
    """The result of archiving; `finished` counts instants archived before but left active."""

    archived: int
    first: Instant
    last: Instant
    first_active: Instant
    deleted_files: int
    merged_levels: int
    finished: int

    def __str__(self) -> str:
        """Return the result as one sentence."""
        if not self.archived:
            return f"removed {self.finished} instants, archived before, from the active timeline"
        return (
            f"archived {self.archived} instants, {self.first} to {self.last}; "
            f"the active timeline begins at {self.first_active}"
        )


def archive(target: WriteTarget, options: ArchiveOptions | None = None) -> Archive | None:
    """Move the oldest instants to the archived timeline; return None if there are none to move."""
    with hold_table(target.storage, target.clock, target.commits) as hold:
        settled = options or ArchiveOptions.of(hold.config.properties)
        finished = _finish(hold)
        chosen = _plan(hold, settled)
        if not chosen:
            return _report(hold, (), finished=finished) if finished else None
        leftovers = _delete_leftovers(hold, _without(hold.timeline, chosen))
        hold.lock.check()
        history = hold.config.history_path
        ends = chosen[0].requested, chosen[-1].requested
        append_archived(hold.storage, *ends, _rows(hold, chosen), history)
        _take_from_active(hold, chosen)
        merged = merge_levels(hold.storage, history, settled.merge_files)
        clean_archive(hold.storage, history, KEPT_MANIFESTS + merged)
        return _report(hold, chosen, leftovers, merged, finished)


def _report(
    hold: TableHold,
    chosen: tuple[TimelineInstant, ...],
    leftovers: int = 0,
    merged: int = 0,
    finished: int = 0,
) -> Archive:
    requested = [instant.requested for instant in chosen] or [""]
    first_active = hold.timeline.first_active or ""
    return Archive(
        len(chosen), requested[0], requested[-1], first_active, leftovers, merged, finished
    )


def _finish(hold: TableHold) -> int:
    """Remove instants from the active timeline that an interrupted archiving had already archived."""
    completed = hold.timeline.ended(*MOVABLE)
    if not completed:
        return 0
    rows = read_archived(
        hold.storage, hold.config.history_path, columns=(), since=completed[0].requested
    )
    archived = {(row.requested, row.action) for row in rows}
    twice = tuple(i for i in completed if (i.requested, str(i.action)) in archived)
    if twice:
        _take_from_active(hold, twice)
    return len(twice)


def _plan(hold: TableHold, options: ArchiveOptions) -> tuple[TimelineInstant, ...]:
    kind, zone = hold.config.table_type, hold.config.zone
    # Cleaning keeps files that were superseded recently, which only active commits show.
    young = safe_limit(hold.timeline, options.clean, hold.clock.now_ms(), zone)
    if not plan_archive(hold.timeline, options, kind, zone, young):
        return ()
    replaced = read_replaced(hold.snapshot)
    part = hold.snapshot.within(partition for partition, _ in replaced)
    there = {(file.partition, file.name.file_id) for file in data_files(part.entries())}
    # Without the commit that replaced them, remaining files would become visible again.
    uncleaned = (replaced[group] for group in there & replaced.keys())
    return plan_archive(hold.timeline, options, kind, zone, min((young, *uncleaned)))


def _without(timeline: Timeline, chosen: tuple[TimelineInstant, ...]) -> Timeline:
    """Return the timeline without the `chosen` instants."""
    gone = frozenset(chosen)
    return Timeline(tuple(i for i in timeline.instants if i not in gone))


def _delete_leftovers(hold: TableHold, later: Timeline) -> int:
    """Delete files that are not visible now but would be on the timeline `later`."""
    visibility = hold.snapshot.visibility
    timeline, changes = hold.timeline, dict[Instant, bool]()

    def may_change(entry: Entry) -> bool:
        # Most files of a large table are of instants that were archived long ago.
        for instant in _INSTANTS.findall(entry.path):
            if instant not in changes:
                is_old = timeline.completed(instant) is None and timeline.is_committed(instant)
                changes[instant] = later.is_archived(instant) and not is_old
            if changes[instant]:
                return True
        return False

    found = (
        file
        for file in data_files(filter(may_change, hold.snapshot.entries()))
        if later.is_archived(file.name.instant) and visibility.of(file) is Visibility.LEFTOVER
    )
    gone = without_archived(hold.snapshot, found)
    for file in gone:
        hold.storage.delete(file.path)
    return len(gone)


def _rows(hold: TableHold, chosen: tuple[TimelineInstant, ...]) -> Iterator[ArchivedInstant]:
    for instant in chosen:
        assert instant.completion is not None, "only completed instants are archived"
        plan = _read_plan(hold, instant) if instant.plan_action in _PLANNED else None
        content = hold.active.read(instant)
        yield ArchivedInstant(
            instant.requested, instant.completion, str(instant.action), content, plan
        )


def _read_plan(hold: TableHold, instant: TimelineInstant) -> bytes | None:
    try:
        return hold.active.read(instant, State.REQUESTED) or None
    except NotFoundError:
        return None  # a completed file alone is an instant too


def _take_from_active(hold: TableHold, instants: tuple[TimelineInstant, ...]) -> None:
    """Delete the timeline files of archived instants: pending files first, then oldest first.

    Before that, the data files that they leave behind are recorded, because no active commit lists
    them afterwards.
    """
    hold.lock.check()
    record_archived_files(hold, instants)
    account_for_commits(hold)
    account_for_record_index(hold)
    hold.lock.check()
    for instant in instants:
        hold.active.delete_pending(instant.plan_action, instant.requested)
    for instant in sorted(instants, key=lambda one: one.requested):
        hold.storage.delete(f"{hold.active.folder}/{instant.file_name}")
    delete_runs(hold, (instant.requested for instant in instants))
    hold.refresh()
    # Repeated, so that the indexes need not read the archive for the removed commits.
    account_for_commits(hold)
    account_for_record_index(hold)
