"""Finds the data files that cleans, rollbacks and restores deleted, from their instants."""

from collections.abc import Iterator, Mapping
from typing import Final, cast

from lakebed.errors import NotFoundError
from lakebed.format.names.instant_name import Action, State
from lakebed.format.timeline.plans import PlanKind, parse_plan
from lakebed.table.files.file_group import join_path
from lakebed.timeline.active import ActiveTimeline
from lakebed.timeline.timeline import Timeline

_KINDS: Final = {
    Action.CLEAN: PlanKind.CLEAN,
    Action.ROLLBACK: PlanKind.ROLLBACK,
    Action.RESTORE: PlanKind.RESTORE,
}
DELETING: Final = frozenset(str(action) for action in _KINDS)
"""The actions that delete data files."""


def read_deleted(active: ActiveTimeline, timeline: Timeline) -> frozenset[str]:
    """Return the paths that instants of the active timeline deleted, or are about to delete."""
    found: set[str] = set()
    for instant in timeline.select(*_KINDS):
        what = f"instant {instant.file_name}"
        try:
            if instant.is_completed:
                found.update(deleted_files(str(instant.action), active.read(instant), what))
            elif instant.action is Action.CLEAN and (data := active.read(instant, State.REQUESTED)):
                found.update(planned_deletes(parse_plan(PlanKind.CLEANER_PLAN, data, what)))
        except NotFoundError:
            continue  # archived or dropped since the timeline was listed
    return frozenset(found)


def deleted_files(action: str, data: bytes, what: str) -> Iterator[str]:
    """Yield the paths that a completed clean, rollback or restore deleted."""
    values = parse_plan(_KINDS[Action(action)], data, what)
    if action != Action.RESTORE:
        yield from _deleted(values)
        return
    restored = cast("dict[str, list[dict[str, object] | None]]", values["hoodieRestoreMetadata"])
    for rollbacks in restored.values():
        for rollback in rollbacks:
            if rollback is not None:
                yield from _deleted(rollback)


def planned_deletes(plan: Mapping[str, object]) -> Iterator[str]:
    """Yield the paths that the plan of a clean deletes."""
    old = cast("dict[str, list[str]]", plan["filesToBeDeletedPerPartition"] or {})
    for partition, addresses in old.items():
        yield from (join_path(partition, address.rpartition("/")[2]) for address in addresses)
    new = cast(
        "dict[str, list[dict[str, str | None]]]", plan["filePathsToBeDeletedPerPartition"] or {}
    )
    for partition, infos in new.items():
        for info in infos:
            yield join_path(partition, (info["filePath"] or "").rpartition("/")[2])


def _deleted(values: Mapping[str, object]) -> Iterator[str]:
    partitions = cast("dict[str, dict[str, list[str]]]", values["partitionMetadata"] or {})
    for partition, metadata in partitions.items():
        for address in metadata["successDeleteFiles"]:
            yield join_path(partition, address.rpartition("/")[2])
