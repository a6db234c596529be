"""Roll back an instant that never completed.

Data files are deleted first and the pending instant last, so that after a crash in between, the
next writer rolls the instant back again.
"""

from collections.abc import Set

from lakebed.commit.column_groups import forget_instant
from lakebed.format.names.data_names import parse_data_name
from lakebed.format.timeline.heartbeat import heartbeat_path
from lakebed.model.instant import Instant
from lakebed.storage.storage import Storage
from lakebed.table.listing import table_files
from lakebed.timeline.active import ActiveTimeline
from lakebed.timeline.timeline import TimelineInstant

TEMP_FOLDER = ".hoodie/.temp/lakebed"
SIDE_FOLDER = ".hoodie/lakebed"


def temp_path(instant: str, name: str) -> str:
    """Return the path of a temporary run of an instant; readers ignore such files."""
    return f"{TEMP_FOLDER}/{instant}-{name}.arrow"


def delete_temp(storage: Storage, instant: str = "", *, keep: Set[str] = frozenset()) -> None:
    """Delete the temporary runs of `instant`, or of all instants that are not in `keep`."""
    for name in storage.names(TEMP_FOLDER):
        if name.startswith(instant) and name.partition("-")[0] not in keep:
            storage.delete(f"{TEMP_FOLDER}/{name}")


def roll_back(storage: Storage, active: ActiveTimeline, instant: TimelineInstant) -> None:
    """Delete every file of the pending `instant`, then the instant itself.

    The heartbeat is deleted first, so that tasks stop closing files. Files are listed a second
    time, because a task may have seen the heartbeat just before it was deleted.
    """
    storage.delete(heartbeat_path(instant.requested))
    delete_files_of(storage, instant.requested)
    delete_temp(storage, instant.requested)
    forget_instant(storage, instant.requested)
    active.delete_pending(instant.plan_action, instant.requested)
    delete_files_of(storage, instant.requested)


def delete_files_of(storage: Storage, instant: str) -> list[str]:
    """Delete every file whose name has `instant`; return the paths of the data files."""
    gone = files_by_instant(storage, {instant})[instant]
    for path in gone:
        storage.delete(path)
    delete_side_files(storage, instant)
    return gone


def files_by_instant(storage: Storage, instants: Set[Instant]) -> dict[Instant, list[str]]:
    """Return the paths of all data files of `instants`, from one listing."""
    found: dict[Instant, list[str]] = {instant: [] for instant in instants}
    for entry in table_files(storage):
        name = parse_data_name(entry.path.rpartition("/")[2])
        if name is not None and name.instant in found:
            found[name.instant].append(entry.path)
    return found


def side_path(folder: str, instant: str, name: str) -> str:
    """Return the path of a file of an instant in `folder` that is not a data file."""
    return f"{SIDE_FOLDER}/{folder}/{instant}_{name}"


def is_side_path(path: str) -> bool:
    """Return whether `path` was returned by `side_path`."""
    return path.startswith(f"{SIDE_FOLDER}/")


def delete_side_files(storage: Storage, instant: str) -> None:
    """Delete the files of an instant whose paths come from `side_path`."""
    for entry in list(storage.list(SIDE_FOLDER)):
        if entry.path.rpartition("/")[2].startswith(f"{instant}_"):
            storage.delete(entry.path)
