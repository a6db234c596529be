"""The files that a savepoint keeps, and the commits that can still be kept: pure functions."""

from dataclasses import dataclass
from typing import Self, cast

from lakebed.errors import InvalidError, NotFoundError
from lakebed.format.timeline.plans import PlanKind, encode_plan, parse_plan
from lakebed.model.instant import Instant
from lakebed.services.rollback.plan import by_partition
from lakebed.table.files.retention import savepoint_paths
from lakebed.timeline.timeline import Timeline, TimelineInstant


@dataclass(frozen=True, slots=True)
class SavepointMetadata:
    """Hudi's HoodieSavepointMetadata: user, time, comment, and the paths that it keeps."""

    user: str
    at_ms: int
    comment: str
    paths: tuple[str, ...]

    def encode(self) -> bytes:
        """Encode a completed savepoint; data files are listed by name under their partition."""
        partitions = {
            partition: {
                "partitionPath": partition,
                "savepointDataFile": [path.rpartition("/")[2] for path in paths],
            }
            for partition, paths in by_partition(self.paths).items()
        }
        values = {
            "savepointedBy": self.user,
            "savepointedAt": self.at_ms,
            "comments": self.comment,
            "partitionMetadata": partitions,
        }
        return encode_plan(PlanKind.SAVEPOINT, values)

    @classmethod
    def parse(cls, data: bytes, what: str) -> Self:
        """Parse a completed savepoint; raise CorruptError, naming `what`, if that fails."""
        values = parse_plan(PlanKind.SAVEPOINT, data, what)
        return cls(
            cast("str", values["savepointedBy"]),
            cast("int", values["savepointedAt"]),
            cast("str", values["comments"]),
            savepoint_paths(data, what),
        )


def choose_commit(timeline: Timeline, instant: Instant | None) -> TimelineInstant:
    """Return the completed commit to keep, by default the newest; raise an error if none exists."""
    if instant is None:
        if not timeline.commits:
            raise InvalidError("savepoint: expected a completed commit to keep, found none")
        return timeline.commits[-1]
    found = timeline.completed(instant)
    if found is not None:
        return found
    if timeline.is_archived(instant):
        raise InvalidError(
            f"savepoint {instant}: it may be archived (the active timeline begins at "
            f"{timeline.first_active}); expected a commit of the active timeline"
        )
    raise NotFoundError(
        f"savepoint {instant}: expected a completed commit, found none of this instant"
    )


def check_retained(instant: Instant, retained: Instant) -> None:
    """Raise InvalidError for a commit before `retained`, whose files cleaning may delete."""
    if instant < retained:
        raise InvalidError(
            f"savepoint {instant}: it may have been cleaned; cleaning keeps {retained} and later"
        )
