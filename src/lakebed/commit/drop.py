"""Drop a table whose folder is to hold another one, as Hudi's SaveMode.Overwrite does.

Not one atomic step, on any store. So a mark says first that the table is being dropped, then its
properties go, with which it is no table any more, then all else, and the mark last: whoever dies
half-way leaves no table that could be misread, and the next one who makes a table here goes on.
"""

from typing import Final

from lakebed.commit.hold import hold_table
from lakebed.commit.rollback import TEMP_FOLDER
from lakebed.format.lock_file import DISK_LOCK_PATH
from lakebed.model.clock import Clock
from lakebed.storage.storage import Storage
from lakebed.table.properties_file import BACKUP_PATH, PROPERTIES_PATH

MARK_PATH: Final = ".hoodie/lakebed.dropping"
# Locks are held, and staged rows are those of the table to come.
_KEPT: Final = (".hoodie/.locks/", DISK_LOCK_PATH, f"{TEMP_FOLDER}/")


def drop_table(storage: Storage, clock: Clock) -> None:
    """Delete everything of the table but its locks and rows that are staged."""
    with hold_table(storage, clock) as hold:
        storage.put(MARK_PATH, b"")
        hold.lock.check()
        # The backup first: without the file itself a reader would take it.
        storage.delete(BACKUP_PATH)
        storage.delete(PROPERTIES_PATH)
        _delete_rest(storage)


def finish_drop(storage: Storage) -> bool:
    """Go on where somebody who dropped a table died; False where nobody did."""
    if MARK_PATH.rpartition("/")[2] not in storage.names(".hoodie"):
        return False
    _delete_rest(storage)
    return True


def _delete_rest(storage: Storage) -> None:
    for entry in list(storage.list()):
        if entry.path != MARK_PATH and not entry.path.startswith(_KEPT):
            storage.delete(entry.path)
    storage.delete(MARK_PATH)
