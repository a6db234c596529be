"""Which instants a restore rolls back, and its files on the timeline."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Self, cast

from lakebed.errors import CorruptError
from lakebed.format.names.instant_name import Action
from lakebed.format.timeline.plans import PlanKind, encode_plan, parse_plan
from lakebed.model.instant import Instant
from lakebed.services.rollback.plan import instant_info
from lakebed.timeline.timeline import COMMIT_ACTIONS, WRITE_ACTIONS, Timeline, TimelineInstant


@dataclass(frozen=True, slots=True)
class RestorePlan:
    """The savepoint to restore, and the instants to roll back with their actions, in order."""

    savepoint: Instant
    instants: tuple[tuple[Instant, str], ...]

    def encode(self) -> bytes:
        """Encode Hudi's HoodieRestorePlan."""
        values = {
            "instantsToRollback": [instant_info(*instant) for instant in self.instants],
            "version": 2,
            "savepointToRestoreTimestamp": self.savepoint,
        }
        return encode_plan(PlanKind.RESTORE_PLAN, values)

    @classmethod
    def parse(cls, data: bytes, what: str) -> Self:
        """Parse a plan of Lakebed or of Hudi; raise CorruptError, naming `what`, if that fails."""
        values = parse_plan(PlanKind.RESTORE_PLAN, data, what)
        savepoint = cast("str | None", values["savepointToRestoreTimestamp"])
        if savepoint is None:
            raise CorruptError(f"{what}: expected the savepoint to restore, found none")
        infos = cast("list[dict[str, str]]", values["instantsToRollback"])
        return cls(savepoint, tuple((info["commitTime"], info["action"]) for info in infos))


def plan_restore(timeline: Timeline, savepoint: Instant) -> tuple[TimelineInstant, ...]:
    """Return the instants to roll back: all writes after the savepoint, the newest first.

    Writes requested after the savepoint count, as for a reader as of the savepoint, and also
    pending plans and writes that never completed, whenever they were requested. As in Hudi a
    pending clustering is rolled back first, because it claims file groups.
    """
    gone = [
        instant
        for instant in timeline.instants
        if (instant.requested > savepoint and instant.action in WRITE_ACTIONS)
        or (not instant.is_completed and instant.action in COMMIT_ACTIONS)
    ]
    clustering = [i for i in gone if i.action is Action.CLUSTERING]
    others = [i for i in gone if i.action is not Action.CLUSTERING]
    return (*reversed(clustering), *reversed(others))


def encode_restored(
    began: Instant,
    took_ms: int,
    plan: RestorePlan,
    rollbacks: Mapping[Instant, Mapping[str, object]],
) -> bytes:
    """Encode Hudi's HoodieRestoreMetadata."""
    return encode_plan(
        PlanKind.RESTORE,
        {
            "startRestoreTime": began,
            "timeTakenInMillis": took_ms,
            "instantsToRollback": _requested(plan.instants),
            "hoodieRestoreMetadata": {
                instant: [dict(values)] for instant, values in rollbacks.items()
            },
            "restoreInstantInfo": [instant_info(*instant) for instant in plan.instants],
        },
    )


def _requested(instants: Iterable[tuple[Instant, str]]) -> list[Instant]:
    return [requested for requested, _ in instants]
