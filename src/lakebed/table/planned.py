"""What table services have planned and not completed: which file groups, reading which files."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

from lakebed.format.instant_name import Action, State
from lakebed.format.ocf import Record
from lakebed.format.plans import PlanKind, parse_plan
from lakebed.table.file_group import FileGroupId
from lakebed.timeline.active import ActiveTimeline
from lakebed.timeline.timeline import Timeline, TimelineInstant

# A clustering of older Hudi is planned as a replacecommit; the plan of a write says nothing.
_KINDS = {
    Action.COMPACTION: PlanKind.COMPACTION_PLAN,
    Action.LOGCOMPACTION: PlanKind.COMPACTION_PLAN,
    Action.CLUSTERING: PlanKind.REQUESTED_REPLACE,
    Action.REPLACECOMMIT: PlanKind.REQUESTED_REPLACE,
}


@dataclass(frozen=True, slots=True)
class PlannedGroup:
    """One file group of a pending plan, and the names of the files that the plan reads of it."""

    instant: TimelineInstant
    group: FileGroupId
    files: tuple[str, ...]


def planned_groups(
    active: ActiveTimeline, timeline: Timeline, *actions: Action
) -> Iterator[PlannedGroup]:
    """Give the file groups in the pending plans of `actions`, or of all services."""
    for instant in timeline.pending(*(actions or _KINDS)):
        data = active.read(instant, State.REQUESTED)
        if not data and instant.plan_action is Action.REPLACECOMMIT:
            continue
        name = instant.name_of(State.REQUESTED).encode()
        plan = parse_plan(_KINDS[instant.plan_action], data, f"instant {name}")
        for slice_ in _slices(plan):
            group = FileGroupId(str(slice_["partitionPath"] or ""), str(slice_["fileId"]))
            paths = [*cast("list[str]", slice_["deltaFilePaths"] or []), slice_["dataFilePath"]]
            names = (str(path).rpartition("/")[2] for path in paths if path)
            yield PlannedGroup(instant, group, tuple(names))


def _slices(plan: Record) -> Iterator[Record]:
    """Give what a plan of either kind says of each file group."""
    yield from cast("list[Record]", plan.get("operations") or [])
    clustering = cast("Record", plan.get("clusteringPlan") or {})
    for group in cast("list[Record]", clustering.get("inputGroups") or []):
        yield from cast("list[Record]", group["slices"] or [])
