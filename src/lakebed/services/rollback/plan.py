"""Which files a rollback removes, whether it is allowed, and its own files on the timeline.

Pure functions: nothing here touches storage. A plan lists the files that were found when it was
made; its executor lists them again, so a plan is never too short.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Self, cast

from lakebed.errors import CorruptError, InvalidError, NotFoundError
from lakebed.format.names.instant_name import Action
from lakebed.format.timeline.plans import PlanKind, encode_plan, parse_plan
from lakebed.model.instant import Instant
from lakebed.table.files.file_group import join_path
from lakebed.timeline.timeline import WRITE_ACTIONS, Timeline, TimelineInstant

Spell = Callable[[str], str]
"""Converts a path below the table to the URL that Hudi would use."""


@dataclass(frozen=True, slots=True)
class RollbackPlan:
    """The instant to roll back, with the action of its newest file, and its data files."""

    instant: Instant
    action: str
    paths: tuple[str, ...] = ()

    def encode(self, spell: Spell) -> bytes:
        """Encode Hudi's HoodieRollbackPlan, which has URLs instead of paths."""
        requests = [
            {
                "partitionPath": partition,
                "fileId": "",
                "latestBaseInstant": "",
                "filesToBeDeleted": [spell(path) for path in paths],
                "logBlocksToBeDeleted": {},
            }
            for partition, paths in by_partition(self.paths).items()
        ]
        info = instant_info(self.instant, self.action)
        values = {"instantToRollback": info, "RollbackRequests": requests}
        return encode_plan(PlanKind.ROLLBACK_PLAN, values)

    @classmethod
    def parse(cls, data: bytes, what: str) -> Self:
        """Parse a plan of Lakebed or of Hudi; raise CorruptError, naming `what`, if that fails."""
        values = parse_plan(PlanKind.ROLLBACK_PLAN, data, what)
        info = cast("dict[str, str] | None", values["instantToRollback"])
        if info is None:
            raise CorruptError(f"{what}: expected the instant to roll back, found none")
        requests = cast("list[dict[str, object]]", values["RollbackRequests"] or [])
        paths = [
            join_path(cast("str", request["partitionPath"]), address.rpartition("/")[2])
            for request in requests
            for address in cast("list[str]", request["filesToBeDeleted"])
        ]
        return cls(info["commitTime"], info["action"], tuple(sorted(paths)))


def instant_info(instant: Instant, action: str) -> dict[str, object]:
    """Return Hudi's HoodieInstantInfo."""
    return {"commitTime": instant, "action": str(action)}


def rollback_values(
    plan: RollbackPlan, began: Instant, took_ms: int, spell: Spell
) -> dict[str, object]:
    """Return the fields of HoodieRollbackMetadata for a `plan` that was executed."""
    partitions = {
        partition: {
            "partitionPath": partition,
            "successDeleteFiles": [spell(path) for path in paths],
            "failedDeleteFiles": [],
            "rollbackLogFiles": {},
            "logFilesFromFailedCommit": {},
        }
        for partition, paths in by_partition(plan.paths).items()
    }
    return {
        "startRollbackTime": began,
        "timeTakenInMillis": took_ms,
        "totalFilesDeleted": len(plan.paths),
        "commitsRollback": [plan.instant],
        "partitionMetadata": partitions,
        "version": 1,
        "instantsRollback": [instant_info(plan.instant, plan.action)],
    }


def by_partition(paths: Iterable[str]) -> Mapping[str, list[str]]:
    """Group paths by partition."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(paths):
        found[path.rpartition("/")[0]].append(path)
    return dict(found)


def write_at(timeline: Timeline, instant: Instant) -> TimelineInstant | None:
    """Return the write of `instant` on the active timeline, in any state; None if there is none."""
    for found in timeline.instants:
        if found.requested == instant and found.action in WRITE_ACTIONS:
            return found
    return None


def find_write(timeline: Timeline, instant: Instant) -> TimelineInstant:
    """Return the instant to roll back; raise an error if it is archived, unknown or not a write."""
    found = write_at(timeline, instant)
    if found is not None:
        return found
    for other in timeline.instants:
        if other.requested == instant:
            raise InvalidError(
                f"instant {instant}: expected a write, compaction, log compaction or clustering to roll "
                f"back, found a {other.action}"
            )
    if timeline.is_archived(instant):
        raise InvalidError(
            f"instant {instant}: it may be archived (the active timeline begins at "
            f"{timeline.first_active}), and archived instants cannot be rolled back"
        )
    raise NotFoundError(f"instant {instant}: not found on the active timeline")


def check_newest(timeline: Timeline, target: TimelineInstant) -> None:
    """Raise an error if a savepoint keeps the completed instant, or later writes build on it."""
    what = f"{target.action} {target.requested}"
    if any(i.requested == target.requested for i in timeline.select(Action.SAVEPOINT)):
        raise InvalidError(f"{what}: a savepoint keeps it; delete the savepoint first")
    later = [
        i for i in timeline.instants if i.action in WRITE_ACTIONS and i.requested > target.requested
    ]
    if later:
        names = ", ".join(_describe(i) for i in reversed(later[-5:]))
        more = f" and {len(later) - 5} more" if len(later) > 5 else ""
        raise InvalidError(
            f"{what}: only the newest commit can be rolled back, and later ones may have read its "
            f"files: {names}{more}; roll those back first, newest first, or restore a savepoint"
        )


def without(timeline: Timeline, gone: Iterable[Instant]) -> Timeline:
    """Return the timeline after the writes of `gone` are rolled back."""
    names = frozenset(gone)
    return Timeline(
        tuple(
            i
            for i in timeline.instants
            if i.requested not in names or i.action not in WRITE_ACTIONS
        )
    )


def _describe(instant: TimelineInstant) -> str:
    state = "" if instant.is_completed else f" ({instant.state.lower()})"
    return f"{instant.plan_action} {instant.requested}{state}"
