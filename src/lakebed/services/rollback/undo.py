"""Removes one instant from the table, in an order in which no reader sees a part of it.

The completed file is deleted first: from then on the instant is not committed, whatever is left of
it. Then its data files are deleted, and last its pending files: as long as one exists, data files
may be left.
"""

from collections.abc import Iterable

from lakebed.commit.column_groups import forget_instant
from lakebed.commit.hold import TableHold
from lakebed.commit.rollback import delete_side_files, delete_temp
from lakebed.errors import LockedError
from lakebed.format.names.instant_name import State
from lakebed.format.timeline.heartbeat import heartbeat_path
from lakebed.storage.storage import Storage
from lakebed.timeline.timeline import TimelineInstant


def refuse_if_alive(hold: TableHold, instant: TimelineInstant) -> None:
    """Raise LockedError if another process may still be working on a pending instant."""
    if not instant.is_completed and hold.is_alive(instant):
        raise LockedError(
            f"{hold.storage.url}: {instant.action} {instant.requested} is pending with a heartbeat: "
            "a process may still be working on it"
        )


def undo(
    hold: TableHold, instant: TimelineInstant, paths: Iterable[str], *, keep_plan: bool = False
) -> None:
    """Delete the timeline files of `instant` and its data files, which are `paths`.

    With `keep_plan` its requested file stays. Missing files are not an error, so this can be
    repeated after a crash.
    """
    hold.lock.check()
    if instant.is_completed:
        _keep_pending(hold, instant)
        hold.storage.delete(_path(hold, instant, State.COMPLETED))
    # Ends the attempt for its tasks too, before their files are listed.
    hold.storage.delete(heartbeat_path(instant.requested))
    for path in paths:
        hold.storage.delete(path)
    delete_side_files(hold.storage, instant.requested)
    delete_temp(hold.storage, instant.requested)
    forget_instant(hold.storage, instant.requested)
    if keep_plan:
        hold.storage.delete(_path(hold, instant, State.INFLIGHT))
    else:
        hold.active.delete_pending(instant.plan_action, instant.requested)


def address(storage: Storage, path: str) -> str:
    """Return the full path of a file below the table, as Hudi writes it in its plans."""
    return storage.local_path(path) or f"{storage.url}/{path}"


def _keep_pending(hold: TableHold, instant: TimelineInstant) -> None:
    """Write a pending file if there is none: one must remain once the completed one is deleted."""
    names = frozenset(hold.storage.names(hold.active.folder))
    pending = [instant.name_of(state).encode() for state in (State.INFLIGHT, State.REQUESTED)]
    if not names.intersection(pending):
        hold.storage.put(_path(hold, instant, State.INFLIGHT), b"")


def _path(hold: TableHold, instant: TimelineInstant, state: State) -> str:
    return f"{hold.active.folder}/{instant.name_of(state).encode()}"
