"""The pending plans of table services: their file groups, and the files that they read."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import cycle
from typing import cast

from lakebed.errors import CorruptError
from lakebed.format.names.instant_name import Action, State
from lakebed.format.timeline.ocf import Record
from lakebed.format.timeline.plans import PlanKind, parse_plan
from lakebed.table.config.table_config import TableConfig
from lakebed.table.config.tombstone_retention import PLAN_CUTOFF, tombstone_cutoff
from lakebed.table.files.file_group import FileGroupId, PendingCompaction, named_group
from lakebed.timeline.active import ActiveTimeline
from lakebed.timeline.timeline import Timeline, TimelineInstant

LOG_FILES_TAKEN = "LOG_FILES_TAKEN"
"""The metric of an operation that only merges logs, in a hybrid plan: the number of logs."""

PLAN_WIDENS = "lakebed.widen"
"""The extra metadata of a compaction that widens: its column groups, as a JSON list."""

# A clustering of an older Hudi is planned as a replacecommit; the plan of a write is empty.
_KINDS = {
    Action.COMPACTION: PlanKind.COMPACTION_PLAN,
    Action.LOGCOMPACTION: PlanKind.COMPACTION_PLAN,
    Action.CLUSTERING: PlanKind.REQUESTED_REPLACE,
    Action.REPLACECOMMIT: PlanKind.REQUESTED_REPLACE,
}


@dataclass(frozen=True, slots=True)
class PlannedGroup:
    """One file group of a pending plan, and the names of its files that the plan reads."""

    instant: TimelineInstant
    group: FileGroupId
    files: tuple[str, ...]
    # Whether the group gets a new base file: a hybrid compaction only merges the logs of some
    # groups.
    is_full: bool = True
    # The instant before which deletes are dropped, if the plan records it.
    cutoff: str | None = None


def planned_groups(
    active: ActiveTimeline, timeline: Timeline, *actions: Action
) -> Iterator[PlannedGroup]:
    """Yield the file groups in the pending plans of `actions`, or of all services."""
    for instant in timeline.pending(*(actions or _KINDS)):
        data = active.read(instant, State.REQUESTED)
        if not data and instant.plan_action is Action.REPLACECOMMIT:
            continue
        name = instant.name_of(State.REQUESTED).encode()
        try:
            plan = parse_plan(_KINDS[instant.plan_action], data, f"instant {name}")
        except CorruptError as error:
            raise CorruptError(
                f"{error}. Restore the file from a backup, or drop the plan with "
                f"rollback({instant.requested!r}, delete_plan=True); no row is lost with it"
            ) from error
        yield from groups_of_plan(instant, plan)


def groups_of(active: ActiveTimeline, instant: TimelineInstant) -> Iterator[PlannedGroup]:
    """Return the file groups in the plan of an instant, which may be completed."""
    plan = active.read_plan(_KINDS[instant.plan_action], instant, State.REQUESTED)
    return groups_of_plan(instant, plan)


def groups_of_plan(instant: TimelineInstant, plan: Record) -> Iterator[PlannedGroup]:
    """Yield the file groups in the parsed `plan` of a pending instant."""
    extra = cast("dict[str, str]", plan.get("extraMetadata") or {})
    groups = widened_groups(extra, f"the plan of {instant.plan_action} {instant.requested}")
    for slice_, widened in zip(_slices(plan), cycle(groups or (None,)), strict=False):
        paths = [*cast("list[str]", slice_["deltaFilePaths"] or []), slice_["dataFilePath"]]
        names = [str(path).rpartition("/")[2] for path in paths if path]
        group = named_group(str(slice_["partitionPath"] or ""), str(slice_["fileId"]), names)
        if widened is not None:
            group = replace(group, column_group=widened)
        metrics = cast("dict[str, float]", slice_.get("metrics") or {})
        full = instant.plan_action is Action.COMPACTION and LOG_FILES_TAKEN not in metrics
        yield PlannedGroup(instant, group, tuple(names), full, extra.get(PLAN_CUTOFF))


def widened_groups(extra: Mapping[str, str], what: str) -> tuple[str, ...]:
    """Return the column groups of a plan that widens, one for each operation of a file group.

    Empty for other plans. Raises CorruptError, naming `what`, if they are not listed as JSON.
    """
    text = extra.get(PLAN_WIDENS)
    if text is None:
        return ()
    try:
        names = json.loads(text)
        if names and isinstance(names, list) and all(isinstance(name, str) for name in names):
            return tuple(names)
    except ValueError:
        pass
    raise CorruptError(f"{what}: {PLAN_WIDENS}={text}: expected the names of column groups")


def slice_boundaries(
    groups: Iterable[PlannedGroup], timeline: Timeline, config: TableConfig
) -> Mapping[FileGroupId, tuple[PendingCompaction, ...]]:
    """Return the pending compactions that will put a new base file under later logs, by group.

    `groups` are the file groups of the pending plans. In a read as of an instant, plans made later
    are ignored: otherwise the result would change when they are executed.
    """
    found: dict[FileGroupId, tuple[PendingCompaction, ...]] = {}
    for planned in groups:
        requested = planned.instant.requested
        if planned.is_full and (timeline.until is None or requested <= timeline.until):
            cutoff = tombstone_cutoff(config, requested, planned.cutoff)
            pending = PendingCompaction(requested, cutoff)
            found[planned.group] = (*found.get(planned.group, ()), pending)
    return found


def _slices(plan: Record) -> Iterator[Record]:
    """Yield the entry of each file group in a plan of compaction or of clustering."""
    yield from cast("list[Record]", plan.get("operations") or [])
    clustering = cast("Record", plan.get("clusteringPlan") or {})
    for group in cast("list[Record]", clustering.get("inputGroups") or []):
        yield from cast("list[Record]", group["slices"] or [])
