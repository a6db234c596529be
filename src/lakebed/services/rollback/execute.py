"""Rolls back an instant, and completes interrupted rollbacks."""

import logging
from dataclasses import dataclass

from lakebed.commit.hold import TableHold, hold_table
from lakebed.commit.rollback import delete_files_of, files_by_instant
from lakebed.errors import InvalidError, UnsupportedError
from lakebed.format.names.instant_name import Action, State
from lakebed.format.timeline.plans import PlanKind, encode_plan
from lakebed.model.instant import Instant
from lakebed.services.rollback.plan import (
    RollbackPlan,
    Spell,
    check_newest,
    find_write,
    rollback_values,
    write_at,
)
from lakebed.services.rollback.planned_order import check_order_is_kept
from lakebed.services.rollback.still_readable import check_predecessor
from lakebed.services.rollback.undo import address, refuse_if_alive, undo
from lakebed.timeline.timeline import PLANNED_ACTIONS, TimelineInstant
from lakebed.write.pipeline import WriteTarget

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Rollback:
    """The result of a rollback: its own instant, and the instant that it rolled back."""

    instant: Instant
    completion_time: Instant
    rolled_back: Instant
    action: str
    files_deleted: int
    plan_kept: bool = False

    def __str__(self) -> str:
        kept = "; its plan stays and can be executed again" if self.plan_kept else ""
        return f"rolled back {self.action} {self.rolled_back}: {self.files_deleted} files deleted{kept}"


def rollback(target: WriteTarget, instant: Instant, *, delete_plan: bool = False) -> Rollback:
    """Roll back a pending instant, or the newest completed one.

    For a pending compaction, log compaction or clustering only the attempt is removed; the plan
    stays, to be executed again, unless `delete_plan` is set. A completed instant is rejected if
    later ones may have read its files, if a savepoint keeps it, if it is archived, or if the state
    before it was cleaned. A compaction is rejected if writes that depend on it have completed on
    top of it.
    """
    settle(target)
    completed = find_write(target.commits.active.load(), instant).is_completed
    # Leftovers of dead writers after a completed instant do not prevent its rollback.
    with hold_table(target.storage, target.clock, target.commits, clear=completed) as hold:
        found = find_write(hold.timeline, instant)
        if not found.is_completed:
            return _roll_back_pending(hold, found, delete_plan=delete_plan)
        check_newest(hold.timeline, found)
        check_predecessor(hold.snapshot, found)
        check_order_is_kept(hold.snapshot, found)
        return _roll_back(hold, found, keep_plan=False)


def settle(target: WriteTarget) -> None:
    """Complete pending rollbacks; take the table's lock only if there are any."""
    if target.commits.active.load().pending(Action.ROLLBACK, Action.RESTORE):
        with hold_table(target.storage, target.clock, target.commits, clear=False) as hold:
            finish_pending(hold)


def finish_pending(hold: TableHold) -> tuple[Rollback, ...]:
    """Complete every interrupted rollback, of any engine.

    A rollback that has not started deleting and would be rejected now is dropped. Raises
    UnsupportedError if a restore is pending: only `restore` may continue it.
    """
    refuse_pending_restore(hold)
    return tuple(
        done
        for own in hold.timeline.pending(Action.ROLLBACK)
        if (done := _finish(hold, own)) is not None
    )


def refuse_pending_restore(hold: TableHold) -> None:
    """Raise UnsupportedError if there is an interrupted restore."""
    for instant in hold.timeline.pending(Action.RESTORE):
        raise UnsupportedError(
            f"{hold.storage.url}: restore {instant.requested} is pending; call restore with its "
            "savepoint again to finish it"
        )


def _roll_back_pending(hold: TableHold, found: TimelineInstant, *, delete_plan: bool) -> Rollback:
    refuse_if_alive(hold, found)
    keep_plan = found.plan_action in PLANNED_ACTIONS and not delete_plan
    if keep_plan and found.state is State.REQUESTED:
        raise InvalidError(
            f"{found.action} {found.requested}: it has not begun, so there is nothing to roll back; "
            "delete_plan=True drops the plan itself"
        )
    if not keep_plan:
        check_order_is_kept(hold.snapshot, found)
    return _roll_back(hold, found, keep_plan=keep_plan)


def _roll_back(hold: TableHold, found: TimelineInstant, *, keep_plan: bool) -> Rollback:
    paths = files_by_instant(hold.storage, {found.requested})[found.requested]
    plan = RollbackPlan(found.requested, str(found.action), tuple(paths))
    own = hold.start(hold.request(Action.ROLLBACK, plan.encode(_spell(hold))))
    return _carry_out(hold, own, plan, found, keep_plan=keep_plan)


def _carry_out(
    hold: TableHold,
    own: TimelineInstant,
    plan: RollbackPlan,
    found: TimelineInstant | None,
    *,
    keep_plan: bool,
) -> Rollback:
    """Execute `plan` and complete the rollback; `found` is None if nothing of the instant is left."""
    began_ms = hold.clock.now_ms()
    paths = set(plan.paths)
    if found is not None:
        undo(hold, found, plan.paths, keep_plan=keep_plan)
        # A task that was about to close its file saw the instant alive.
        paths.update(delete_files_of(hold.storage, found.requested))
    done = RollbackPlan(plan.instant, plan.action, tuple(sorted(paths)))
    took_ms = hold.clock.now_ms() - began_ms
    values = rollback_values(done, own.requested, took_ms, _spell(hold))
    completion = hold.complete(own, encode_plan(PlanKind.ROLLBACK, values))
    hold.refresh()
    return Rollback(own.requested, completion, plan.instant, plan.action, len(paths), keep_plan)


def _finish(hold: TableHold, own: TimelineInstant) -> Rollback | None:
    refuse_if_alive(hold, own)
    name = own.name_of(State.REQUESTED).encode()
    plan = RollbackPlan.parse(hold.active.read(own, State.REQUESTED), f"instant {name}")
    log.warning("finishing rollback %s of %s", own.requested, plan.instant)
    # None means that only the completion of the rollback is missing.
    found = write_at(hold.timeline, plan.instant)
    if found is not None and found.is_completed:
        try:
            check_newest(hold.timeline, found)
            check_predecessor(hold.snapshot, found)
        except InvalidError as error:
            # Nothing was deleted yet, and other writers have committed since.
            log.warning("dropping rollback %s: %s", own.requested, error)
            hold.active.delete_pending(Action.ROLLBACK, own.requested)
            hold.refresh()
            return None
    elif found is not None:
        refuse_if_alive(hold, found)
    keep_plan = plan.action in {str(action) for action in PLANNED_ACTIONS}
    return _carry_out(hold, hold.start(own), plan, found, keep_plan=keep_plan)


def _spell(hold: TableHold) -> Spell:
    return lambda path: address(hold.storage, path)
