"""Drop a table whose folder is to hold another one, as Hudi's SaveMode.Overwrite does.

Not one atomic step, on any store. So a mark says first that the table is being dropped, then its
properties go, with which it is no table any more, then all else; then come the properties of the
other one, and the mark goes last: whoever dies half-way leaves no table that could be misread,
and the next one who makes a table here goes on.
"""

from collections.abc import Mapping
from typing import Final

from lakebed.commit.hold import LOCK_WAIT_SECONDS, TableHold, hold_table
from lakebed.commit.lock import table_lock
from lakebed.commit.rollback import TEMP_FOLDER
from lakebed.errors import LockedError
from lakebed.format.timeline.lock_file import DISK_LOCK_PATH
from lakebed.model.clock import Clock
from lakebed.storage.storage import Storage
from lakebed.table.config.properties_file import BACKUP_PATH, PROPERTIES_PATH, create_properties

MARK_PATH: Final = ".hoodie/lakebed.dropping"
# Locks are held, and staged rows are those of the table to come.
_KEPT: Final = (".hoodie/.locks/", DISK_LOCK_PATH, f"{TEMP_FOLDER}/")


def replace_table(storage: Storage, clock: Clock, properties: Mapping[str, str]) -> None:
    """Delete everything of the table but its locks and staged rows; make another one."""
    with hold_table(storage, clock) as hold:
        _check_quiet(hold)
        storage.put(MARK_PATH, b"")
        hold.lock.check()
        # The backup first: without the file itself a reader would take it.
        storage.delete(BACKUP_PATH)
        storage.delete(PROPERTIES_PATH)
        _delete_rest(storage)
        create_properties(storage, properties)
        storage.delete(MARK_PATH)


def finish_drop(storage: Storage, clock: Clock, properties: Mapping[str, str]) -> bool:
    """Make a table where a process died that was dropping one; False if there was none.

    Who is still at it holds the lock. ExistsError if a table has been made meanwhile.
    """
    if not _is_marked(storage):
        return False
    with table_lock(storage).hold(clock, LOCK_WAIT_SECONDS):
        if not _is_marked(storage):
            return False
        if PROPERTIES_PATH.rpartition("/")[2] not in storage.names(".hoodie"):
            _delete_rest(storage)
        create_properties(storage, properties)
        storage.delete(MARK_PATH)
    return True


def _is_marked(storage: Storage) -> bool:
    return MARK_PATH.rpartition("/")[2] in storage.names(".hoodie")


def _check_quiet(hold: TableHold) -> None:
    """Raise an error while another writer is at work, in whatever mode of concurrency.

    A file that it closes after we have listed them would stay, and to the table to come a file
    older than its timeline is one of a commit that was archived.
    """
    for instant in hold.timeline.pending():
        if hold.is_alive(instant):
            raise LockedError(
                f"{hold.storage.url}: cannot replace the table: it has active writers; "
                f"{instant.action} {instant.requested} is under way: try again when it has ended"
            )


def _delete_rest(storage: Storage) -> None:
    for entry in list(storage.list()):
        if entry.path != MARK_PATH and not entry.path.startswith(_KEPT):
            storage.delete(entry.path)
