"""Take back what an instant that never completed left behind.

Data files go first and the pending instant last: whoever dies half-way leaves an
instant that the next writer takes back again.
"""

from lakebed.format.names import parse_data_name
from lakebed.storage.storage import Storage
from lakebed.table.snapshot import table_files
from lakebed.timeline.active import ActiveTimeline
from lakebed.timeline.timeline import TimelineInstant

TEMP_FOLDER = ".hoodie/.temp/lakebed"


def temp_path(instant: str, name: str) -> str:
    """Name a temporary run of an instant; no reader looks there."""
    return f"{TEMP_FOLDER}/{instant}-{name}.arrow"


def delete_temp(storage: Storage, instant: str = "") -> None:
    """Delete an instant's temporary runs.

    Without `instant` those of all: only where no other write can be under way.
    """
    for name in storage.names(TEMP_FOLDER):
        if name.startswith(instant):
            storage.delete(f"{TEMP_FOLDER}/{name}")


def roll_back(storage: Storage, active: ActiveTimeline, instant: TimelineInstant) -> None:
    """Delete every data file that carries the pending `instant`, then the instant itself.

    Then once more the files: a task that was about to close its file saw the instant alive.
    """
    _delete_files(storage, instant.requested)
    delete_temp(storage, instant.requested)
    active.delete_pending(instant.plan_action, instant.requested)
    _delete_files(storage, instant.requested)


def _delete_files(storage: Storage, instant: str) -> None:
    for entry in list(table_files(storage)):
        name = parse_data_name(entry.path.rpartition("/")[2])
        if name is not None and name.instant == instant:
            storage.delete(entry.path)
