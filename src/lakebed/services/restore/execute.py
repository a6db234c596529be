"""Restores a table to a savepoint.

Instants are rolled back one by one, the newest first, so concurrent readers see the table as it was
after one of its commits. From the first deletion on, no writer may start until the restore is
completed.
"""

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

from lakebed.commit.hold import TableHold, hold_table
from lakebed.commit.rollback import files_by_instant
from lakebed.errors import ConflictError, CorruptError, InvalidError
from lakebed.format.names.instant_name import LAYOUT_1, Action, State
from lakebed.model.instant import Instant
from lakebed.services.restore.plan import RestorePlan, encode_restored, plan_restore
from lakebed.services.rollback.execute import finish_pending
from lakebed.services.rollback.plan import RollbackPlan, by_partition, rollback_values, write_at
from lakebed.services.rollback.still_readable import before
from lakebed.services.rollback.undo import address, refuse_if_alive, undo
from lakebed.services.savepoint.execute import Savepoint, find_savepoint
from lakebed.table.files.damage import describe
from lakebed.table.files.needed_files import NamedFile, needed_files
from lakebed.table.snapshot import Snapshot
from lakebed.timeline.archived import read_archived
from lakebed.timeline.timeline import COMMIT_ACTIONS, WRITE_ACTIONS, TimelineInstant
from lakebed.write.pipeline import WriteTarget

log = logging.getLogger(__name__)

_WAY_OUT = (
    "Nothing was changed. Restore the file from a backup, under the same name, and restore again; "
    "or restore an older savepoint"
)


@dataclass(frozen=True, slots=True)
class Restore:
    """The result of a restore; `rolled_back` are the instants it rolled back, newest first."""

    instant: Instant
    completion_time: Instant
    savepoint: Instant
    rolled_back: tuple[Instant, ...]
    files_deleted: int

    def __str__(self) -> str:
        return (
            f"restored {self.savepoint}: {len(self.rolled_back)} instants rolled back, "
            f"{self.files_deleted} files deleted"
        )


def restore(target: WriteTarget, savepoint: Instant) -> Restore:
    """Restore the table to what a reader as of `savepoint` sees; complete an interrupted restore.

    The savepoint stays. Raises an error while a writer is alive, and if later instants are
    archived, which cannot be rolled back.
    """
    with hold_table(target.storage, target.clock, target.commits, clear=False) as hold:
        if hold.timeline.pending(Action.RESTORE):
            return _resume(hold, savepoint)
        finish_pending(hold)
        gone = _check(hold, savepoint)
        plan = RestorePlan(savepoint, tuple((i.requested, str(i.action)) for i in gone))
        own = hold.start(hold.request(Action.RESTORE, plan.encode()))
        return _carry_out(hold, own, plan)


def _check(hold: TableHold, savepoint: Instant) -> tuple[TimelineInstant, ...]:
    """Return the instants to roll back; raise an error if the restore is impossible."""
    snapshot = hold.snapshot
    kept = find_savepoint(snapshot, savepoint)
    if snapshot.timeline.completed(savepoint) is None:
        raise CorruptError(f"savepoint {savepoint}: the commit that it keeps is missing")
    for other in snapshot.timeline.select(Action.SAVEPOINT):
        if other.requested > savepoint:
            raise InvalidError(
                f"savepoint {savepoint}: the later savepoint {other.requested} keeps a commit that "
                "would be rolled back; delete that savepoint first"
            )
    archive = read_archived(hold.storage, hold.config.history_path, columns=(), since=savepoint)
    for row in archive:
        if row.requested > savepoint and row.action in COMMIT_ACTIONS:
            raise InvalidError(
                f"savepoint {savepoint}: {row.action} {row.requested} is later and archived, and "
                "archived instants cannot be rolled back"
            )
    gone = plan_restore(hold.timeline, savepoint)
    for instant in gone:
        refuse_if_alive(hold, instant)
    older = before(snapshot, [i for i in gone if i.is_completed])
    _check_kept(hold, kept, older)
    return gone


def _check_kept(hold: TableHold, kept: Savepoint, older: Snapshot) -> None:
    """Raise CorruptError if a file that the savepoint keeps is lost, or has changed."""
    for partition, paths in by_partition(kept.paths).items():
        there = frozenset(hold.storage.names(partition))
        for path in paths:
            if path.rpartition("/")[2] not in there:
                raise CorruptError(
                    f"savepoint {kept.instant}: {path}, which it keeps, is missing. {_WAY_OUT}"
                )
    wanted = frozenset(kept.paths)
    for lost in (file for files in older.damage.values() for file in files):
        if lost.path in wanted:
            raise CorruptError(f"savepoint {kept.instant}: {describe(lost)}. {_WAY_OUT}")
    for file, found in _grown(older):
        if file.path in wanted:
            raise CorruptError(
                f"savepoint {kept.instant}: {file.path}, of commit {file.instant}: its commit wrote "
                f"{file.size_bytes} bytes, found {found}; it was changed since. {_WAY_OUT}"
            )


def _grown(snapshot: Snapshot) -> Iterator[tuple[NamedFile, int]]:
    """Yield the files that are longer than their commit wrote them, with the sizes found."""
    if snapshot.config.timeline_layout == LAYOUT_1:
        return  # a later commit may have appended to the log of another
    sizes = {file.path: file.size_bytes for file in snapshot.files}
    commits = ((commit, snapshot.commits.read(commit)) for commit in snapshot.timeline.commits)
    # In a table that Hudi upgraded, several commits may list the same log, each with its size at
    # that time.
    named = sorted(chain(*needed_files(commits).values()), key=lambda file: file.size_bytes)
    for path, file in {file.path: file for file in named}.items():
        if 0 < file.size_bytes < (found := sizes.get(path, 0)):
            yield file, found


def finish_restore(hold: TableHold) -> Restore | None:
    """Complete an interrupted restore; return None if there is none."""
    return _resume(hold, None) if hold.timeline.pending(Action.RESTORE) else None


def _resume(hold: TableHold, savepoint: Instant | None) -> Restore:
    own = hold.timeline.pending(Action.RESTORE)[0]
    name = own.name_of(State.REQUESTED).encode()
    plan = RestorePlan.parse(hold.active.read(own, State.REQUESTED), f"instant {name}")
    if savepoint is not None and plan.savepoint != savepoint:
        raise ConflictError(
            f"{hold.storage.url}: restore {own.requested} to savepoint {plan.savepoint} is pending; "
            f"finish it with restore({plan.savepoint!r}) before restoring another"
        )
    planned = {instant for instant, _ in plan.instants}
    for found in hold.timeline.instants:
        refuse_if_alive(hold, found)
        late = found.requested > own.requested and found.action in WRITE_ACTIONS
        if late and found.requested not in planned:
            raise ConflictError(
                f"{hold.storage.url}: {found.action} {found.requested} began on a partially restored "
                f"table (restore {own.requested} is pending); its writer must roll it back"
            )
    log.warning("finishing restore %s to savepoint %s", own.requested, plan.savepoint)
    return _carry_out(hold, hold.start(own), plan)


def _carry_out(hold: TableHold, own: TimelineInstant, plan: RestorePlan) -> Restore:
    began_ms = hold.clock.now_ms()
    files = files_by_instant(hold.storage, {instant for instant, _ in plan.instants})
    rollbacks: dict[Instant, dict[str, object]] = {}
    deleted = 0
    for instant, action in plan.instants:
        found = write_at(hold.timeline, instant)
        paths = files[instant]
        if found is not None:
            undo(hold, found, paths)
        deleted += len(paths)
        rolled = RollbackPlan(instant, action, tuple(paths))
        rollbacks[instant] = rollback_values(
            rolled, own.requested, 0, lambda path: address(hold.storage, path)
        )
    _sweep(hold, plan)
    took_ms = hold.clock.now_ms() - began_ms
    completion = hold.complete(own, encode_restored(own.requested, took_ms, plan, rollbacks))
    hold.refresh()
    names = tuple(instant for instant, _ in plan.instants)
    return Restore(own.requested, completion, plan.savepoint, names, deleted)


def _sweep(hold: TableHold, plan: RestorePlan) -> None:
    """Delete files that appeared meanwhile, of tasks that still saw their instant as pending."""
    left = files_by_instant(hold.storage, {instant for instant, _ in plan.instants})
    for paths in left.values():
        for path in paths:
            hold.storage.delete(path)
