"""Checks the instants themselves: states, plans, and work that was never completed."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from lakebed.errors import InvalidError, LakebedError
from lakebed.format.names.instant_name import LAYOUT_2, Action, State
from lakebed.format.timeline.plans import PlanKind, parse_plan
from lakebed.model.instant import parse_instant
from lakebed.services.verify.findings import Code, Finding, Mend, Severity
from lakebed.services.verify.inventory import Inventory
from lakebed.table.files.file_group import FileGroupId, PendingCompaction
from lakebed.table.files.pending_plans import PlannedGroup, groups_of_plan, slice_boundaries
from lakebed.timeline.timeline import COMMIT_ACTIONS, Timeline, TimelineInstant

_DAY_MS: Final = 86_400_000
_PLANS: Final = {
    Action.COMPACTION: PlanKind.COMPACTION_PLAN,
    Action.LOGCOMPACTION: PlanKind.COMPACTION_PLAN,
    Action.CLUSTERING: PlanKind.REQUESTED_REPLACE,
    Action.CLEAN: PlanKind.CLEANER_PLAN,
    Action.ROLLBACK: PlanKind.ROLLBACK_PLAN,
    Action.RESTORE: PlanKind.RESTORE_PLAN,
    Action.INDEXING: PlanKind.INDEX_PLAN,
}
_NEXT_STEP: Final = {
    Action.COMPACTION: "lakebed compact --execute {0} executes it, lakebed rollback --delete-plan {0} drops it",
    Action.LOGCOMPACTION: "lakebed compact --execute {0} executes it, lakebed rollback --delete-plan {0} drops it",
    Action.CLUSTERING: "let the engine that planned it execute it, or drop it: lakebed rollback --delete-plan {0}",
    Action.CLEAN: "the next lakebed clean completes it",
    Action.ROLLBACK: "let the engine that started it complete it: others cannot write before",
    Action.RESTORE: "let the engine that started it complete it: others cannot write before",
}


def check_states(timeline: Timeline, names: frozenset[str]) -> Iterator[Finding]:
    """Check that each instant went through requested, in-flight and completed, in this order.

    `names` are the files of the timeline.
    """
    for instant in timeline.instants:
        requested = instant.name_of(State.REQUESTED).encode()
        timed = instant.layout == LAYOUT_2 and instant.completion is not None
        if timed and (instant.completion or "") <= instant.requested:
            yield Finding(
                Severity.ERROR,
                Code.INSTANT_STATES,
                f"{instant.action} {instant.requested}: completed at {instant.completion}, which "
                "is not after it began; as of and incremental reads depend on these times",
                path=instant.file_name,
                instant=instant.requested,
                advice="rename the file: the second time in its name comes after the first",
            )
        if requested not in names and instant.action is not Action.SAVEPOINT:
            pending = not instant.is_completed
            yield Finding(
                Severity.WARNING if pending else Severity.NOTE,
                Code.INSTANT_STATES,
                f"{instant.action} {instant.requested}: its {instant.state.lower()} file exists, "
                f"but {requested} does not; its writer omitted it or it was deleted",
                path=instant.file_name,
                instant=instant.requested,
            )


def check_plans(
    inventory: Inventory,
) -> tuple[Mapping[FileGroupId, tuple[PendingCompaction, ...]], list[Finding]]:
    """Read the plans of pending instants; return compactions by file group, and findings."""
    planned: list[PlannedGroup] = []
    findings = []
    for instant in inventory.timeline.pending():
        kind = _PLANS.get(instant.action)
        if kind is None:
            continue
        name = instant.name_of(State.REQUESTED).encode()
        try:
            data = inventory.commits.active.read(instant, State.REQUESTED)
            plan = parse_plan(kind, data, f"instant {name}")
        except LakebedError as error:
            findings.append(
                Finding(
                    Severity.ERROR,
                    Code.INSTANT_UNREADABLE,
                    str(error),
                    path=name,
                    instant=instant.requested,
                    advice=f"drop the plan: lakebed rollback --delete-plan {instant.requested}",
                )
            )
            continue
        if instant.action is Action.COMPACTION:
            planned += groups_of_plan(instant, plan)
    return slice_boundaries(planned, inventory.timeline, inventory.config), findings


def check_pending(
    timeline: Timeline,
    zone: str,
    now_ms: int,
    is_alive: Callable[[TimelineInstant], bool],
    files: Mapping[str, int],
) -> Iterator[Finding]:
    """Check whether pending instants are in progress, waiting, or dead.

    `files` counts the data files that each instant has written so far.
    """
    for instant in timeline.pending():
        age_ms = _age_ms(instant.requested, zone, now_ms)
        what = f"{instant.action} {instant.requested} is {instant.state.lower()} {_since(age_ms)}"
        old = age_ms is None or age_ms > _DAY_MS
        held = files.get(instant.requested, 0)
        wrote = f" and has written {held} data files" if held else ""
        if is_alive(instant):
            yield Finding(
                Severity.WARNING if old else Severity.NOTE,
                Code.INSTANT_PENDING,
                f"{what}{wrote}; its writer has a heartbeat and seems to be active",
                path=instant.file_name,
                instant=instant.requested,
            )
        elif instant.action in COMMIT_ACTIONS:
            yield Finding(
                Severity.WARNING if old or held else Severity.NOTE,
                Code.INSTANT_PENDING,
                f"{what}{wrote}, and has no heartbeat: its writer died, or holds the lock",
                path=instant.file_name,
                instant=instant.requested,
                mend=Mend.ROLL_BACK,
                advice="the next write rolls it back by itself",
            )
        else:
            yield Finding(
                Severity.WARNING if old else Severity.NOTE,
                Code.INSTANT_PENDING,
                f"{what}{wrote}, and no process is working on it",
                path=instant.file_name,
                instant=instant.requested,
                advice=_NEXT_STEP.get(instant.action, "").format(instant.requested),
            )


def _age_ms(requested: str, zone: str, now_ms: int) -> int | None:
    try:
        return now_ms - parse_instant(requested, zone)
    except InvalidError:
        return None


def _since(age_ms: int | None) -> str:
    if age_ms is None:
        return "since an invalid time"
    if age_ms < 0:
        return "from a time in the future"
    if age_ms > 2 * _DAY_MS:
        return f"for {age_ms // _DAY_MS} days"
    return f"for {age_ms // 3_600_000} h {age_ms // 60_000 % 60} min"
