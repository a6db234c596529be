"""Take back what an instant that never completed left behind.

Data files go first and the pending instant last: whoever dies half-way leaves an
instant that the next writer takes back again.
"""

from lakebed.format.names import parse_data_name
from lakebed.storage.storage import Storage
from lakebed.table.snapshot import table_files
from lakebed.timeline.active import ActiveTimeline
from lakebed.timeline.timeline import TimelineInstant

TEMP_FOLDER = ".hoodie/.temp"


def temp_folder(instant: str) -> str:
    """Name the folder of an instant's temporary runs; no reader looks there."""
    return f"{TEMP_FOLDER}/{instant}/lakebed"


def delete_temp(storage: Storage, instant: str) -> None:
    """Delete an instant's temporary runs."""
    for entry in list(storage.list(temp_folder(instant))):
        storage.delete(entry.path)


def delete_stale_temp(storage: Storage) -> None:
    """Delete the temporary runs of every instant: call it only where no write is under way."""
    for instant in storage.list_names(TEMP_FOLDER)[0]:
        delete_temp(storage, instant)


def roll_back(storage: Storage, active: ActiveTimeline, instant: TimelineInstant) -> None:
    """Delete every data file that carries the pending `instant`, then the instant itself."""
    for entry in list(table_files(storage)):
        name = parse_data_name(entry.path.rpartition("/")[2])
        if name is not None and name.instant == instant.requested:
            storage.delete(entry.path)
    delete_temp(storage, instant.requested)
    active.delete_pending(instant.plan_action, instant.requested)
