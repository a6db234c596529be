"""Create savepoints, list them, and delete them.

The instant of a savepoint is that of the commit that it keeps. Cleaning keeps the files that the
savepoint lists, and archiving keeps its commit.
"""

from dataclasses import dataclass

from lakebed.commit.hold import TableHold, hold_table
from lakebed.errors import ExistsError, InvalidError, NotFoundError
from lakebed.format.names.instant_name import Action, State
from lakebed.model.instant import Instant
from lakebed.services.rollback.execute import settle
from lakebed.services.rollback.still_readable import check_archive, check_pending_cleans
from lakebed.services.savepoint.plan import SavepointMetadata, check_retained, choose_commit
from lakebed.table.files.damage import check_whole
from lakebed.table.files.retention import earliest_retained
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
        read_savepoint(snapshot, found) for found in snapshot.timeline.ended(Action.SAVEPOINT)
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
    check_retained(instant, earliest_retained(hold.active, hold.timeline))
    seen = load_snapshot(hold.storage, hold.config, instant, hold.snapshot.commits)
    check_whole(seen.slices)
    paths = {file.path for slice_ in seen.slices for file in slice_.files}
    check_pending_cleans(hold.snapshot, paths, f"the savepoint {instant}")
    return tuple(sorted(paths))


def _pending(instant: Instant) -> TimelineInstant:
    return TimelineInstant(instant, Action.SAVEPOINT, State.INFLIGHT, None, Action.SAVEPOINT)


def _describe(instant: Instant, completion: Instant, metadata: SavepointMetadata) -> Savepoint:
    return Savepoint(
        instant, completion, metadata.user, metadata.comment, metadata.at_ms, metadata.paths
    )


def _known(snapshot: Snapshot) -> str:
    held = snapshot.timeline.ended(Action.SAVEPOINT)
    names = ", ".join(i.requested for i in held) or "none"
    return f"expected the instant of a savepoint; there are: {names}"
