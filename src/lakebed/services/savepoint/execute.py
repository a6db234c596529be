"""Create savepoints, list them, and delete them.

The instant of a savepoint is that of the commit that it keeps. Cleaning keeps the files that the
savepoint lists, and archiving keeps its commit.
"""

from dataclasses import dataclass
from typing import cast

from lakebed.commit.hold import TableHold, hold_table
from lakebed.errors import ExistsError, InvalidError, NotFoundError
from lakebed.format.names.instant_name import Action, State
from lakebed.format.timeline.plans import PlanKind, parse_plan
from lakebed.model.instant import Instant
from lakebed.services.rollback.execute import settle
from lakebed.services.rollback.still_readable import check_archive, check_pending_cleans
from lakebed.services.savepoint.plan import SavepointMetadata, check_retained, choose_commit
from lakebed.table.files.damage import check_whole
from lakebed.table.snapshot import Snapshot, load_snapshot
from lakebed.timeline.timeline import Timeline, TimelineInstant
from lakebed.write.pipeline import WriteTarget


@dataclass(frozen=True, slots=True)
class Savepoint:
    """One savepoint: the commit that it keeps, its user, time and comment, and its files."""

    instant: Instant
    completion_time: Instant
    user: str
    comment: str
    at_ms: int
    paths: tuple[str, ...]

    def __str__(self) -> str:
        why = f": {self.comment}" if self.comment else ""
        return f"savepoint {self.instant} keeps {len(self.paths)} files{why}"


def savepoint(
    target: WriteTarget, instant: Instant | None = None, user: str = "", comment: str = ""
) -> Savepoint:
    """Keep the commit `instant`, by default the newest, from cleaning and archiving.

    Raises ExistsError if the commit has a savepoint, and InvalidError for a commit that is
    archived, or whose files cleaning may have deleted.
    """
    settle(target)
    with hold_table(target.storage, target.clock, target.commits) as hold:
        commit = choose_commit(hold.timeline, instant)
        kept = hold.timeline.find(commit.requested, Action.SAVEPOINT)
        if kept is not None and kept.is_completed:
            raise ExistsError(
                f"savepoint {commit.requested}: already exists, created at {kept.completion}"
            )
        paths = _needed_paths(hold, commit.requested)
        metadata = SavepointMetadata(user, hold.clock.now_ms(), comment, paths)
        # A savepoint that was started and never completed is started again.
        own = hold.start(_pending(commit.requested))
        completion = hold.complete(own, metadata.encode())
        return _describe(commit.requested, completion, metadata)


def delete_savepoint(target: WriteTarget, instant: Instant) -> None:
    """Delete a savepoint; raise NotFoundError if there is none for the commit.

    Raises an error if commits after it are archived, as Hudi does optionally: the active timeline
    would start at the released commit, and commits archived after it would no longer be visible.
    """
    settle(target)
    with hold_table(target.storage, target.clock, target.commits) as hold:
        found = hold.timeline.find(instant, Action.SAVEPOINT)
        if found is None:
            raise NotFoundError(f"savepoint {instant}: {_known(hold.snapshot)}")
        _check_archive(hold, found)
        hold.lock.check()
        # The reverse of its creation: a crash in between leaves a savepoint that was never
        # completed.
        if found.is_completed:
            name = found.name_of(State.COMPLETED).encode()
            hold.storage.delete(f"{hold.active.folder}/{name}")
        hold.active.delete_pending(Action.SAVEPOINT, instant)


def _check_archive(hold: TableHold, found: TimelineInstant) -> None:
    after = Timeline(tuple(i for i in hold.timeline.instants if i != found))
    try:
        check_archive(hold.snapshot, after)
    except InvalidError as error:
        raise InvalidError(
            f"savepoint {found.requested}: commits after it are archived, and their rows would be "
            "lost without it; keep it"
        ) from error


def savepoints(snapshot: Snapshot) -> tuple[Savepoint, ...]:
    """Return the completed savepoints, oldest commit first."""
    return tuple(
        read_savepoint(snapshot, found)
        for found in snapshot.timeline.select(Action.SAVEPOINT)
        if found.is_completed
    )


def find_savepoint(snapshot: Snapshot, instant: Instant) -> Savepoint:
    """Return the savepoint of a commit; raise NotFoundError, listing the others, if it has none."""
    found = snapshot.timeline.find(instant, Action.SAVEPOINT)
    if found is None or not found.is_completed:
        raise NotFoundError(f"savepoint {instant}: {_known(snapshot)}")
    return read_savepoint(snapshot, found)


def read_savepoint(snapshot: Snapshot, instant: TimelineInstant) -> Savepoint:
    """Read a completed savepoint."""
    what = f"instant {instant.file_name}"
    metadata = SavepointMetadata.parse(snapshot.commits.active.read(instant), what)
    return _describe(instant.requested, instant.completion or "", metadata)


def _needed_paths(hold: TableHold, instant: Instant) -> tuple[str, ...]:
    """Return the files that a read as of `instant` opens.

    Raises an error if a clean has deleted any of them, or may still do so.
    """
    check_retained(instant, _retained(hold.snapshot))
    seen = load_snapshot(hold.storage, hold.config, instant, hold.snapshot.commits)
    check_whole(seen.slices)
    paths = {file.path for slice_ in seen.slices for file in slice_.files}
    check_pending_cleans(hold.snapshot, paths, f"the savepoint {instant}")
    return tuple(sorted(paths))


def _retained(snapshot: Snapshot) -> Instant:
    """Return the instant before which a completed or planned clean may delete files."""
    retained = ""
    for clean in snapshot.timeline.select(Action.CLEAN):
        earliest = ""
        state = State.COMPLETED if clean.is_completed else State.REQUESTED
        what = f"instant {clean.name_of(state).encode()}"
        data = snapshot.commits.active.read(clean, state)
        if clean.is_completed:
            values = parse_plan(PlanKind.CLEAN, data, what)
            earliest = cast("str | None", values["earliestCommitToRetain"]) or ""
        elif data:
            values = parse_plan(PlanKind.CLEANER_PLAN, data, what)
            action = cast("dict[str, str] | None", values["earliestInstantToRetain"])
            earliest = action["timestamp"] if action else ""
        retained = max(retained, earliest)
    return retained


def _pending(instant: Instant) -> TimelineInstant:
    return TimelineInstant(instant, Action.SAVEPOINT, State.INFLIGHT, None, Action.SAVEPOINT)


def _describe(instant: Instant, completion: Instant, metadata: SavepointMetadata) -> Savepoint:
    return Savepoint(
        instant, completion, metadata.user, metadata.comment, metadata.at_ms, metadata.paths
    )


def _known(snapshot: Snapshot) -> str:
    held = [i for i in snapshot.timeline.select(Action.SAVEPOINT) if i.is_completed]
    names = ", ".join(i.requested for i in held) or "none"
    return f"expected the instant of a savepoint; there are: {names}"
