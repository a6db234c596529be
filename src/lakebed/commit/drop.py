"""Drop a table, or replace it by another one in its folder, as Hudi's SaveMode.Overwrite does.

No store can do this atomically. So a marker first records that the table is being dropped. Then
the properties are deleted, so that the folder is no longer a table, and then everything else. Last,
the properties of the new table are written and the marker is deleted. A crash in between leaves no
table that could be misread, and the next process that creates a table here resumes the drop.
"""

from collections.abc import Mapping
from typing import Final

from lakebed.commit.hold import TableHold, hold_table
from lakebed.commit.lock import LOCK_WAIT_SECONDS, table_lock
from lakebed.commit.rollback import TEMP_FOLDER
from lakebed.errors import LockedError
from lakebed.format.timeline.lock_file import DISK_LOCK_PATH
from lakebed.model.clock import Clock
from lakebed.storage.storage import Storage
from lakebed.table.config.properties_file import BACKUP_PATH, PROPERTIES_PATH, create_properties

MARK_PATH: Final = ".hoodie/lakebed.dropping"
# Kept: locks, which are held, and staged rows, which belong to the new table.
LOCK_FILES: Final = (".hoodie/.locks/", DISK_LOCK_PATH)
"""The files of a folder that remain when its table is dropped: its lock, which is held."""
_KEPT: Final = (*LOCK_FILES, f"{TEMP_FOLDER}/")


def drop_table(storage: Storage, clock: Clock) -> None:
    """Delete all files of the table, or resume an interrupted drop.

    Raises NotFoundError if there is no table, and LockedError while a writer is active.
    """
    if not _is_marked(storage) or _has_properties(storage):
        with hold_table(storage, clock) as hold:
            _begin_drop(hold)
            _delete_rest(storage, LOCK_FILES)
            storage.delete(MARK_PATH)
        return
    with table_lock(storage).hold(clock, LOCK_WAIT_SECONDS):
        if _is_marked(storage) and not _has_properties(storage):
            _delete_rest(storage, LOCK_FILES)
            storage.delete(MARK_PATH)


def replace_table(storage: Storage, clock: Clock, properties: Mapping[str, str]) -> None:
    """Delete all files of the table except its locks and staged rows, and create the new table."""
    with hold_table(storage, clock) as hold:
        _begin_drop(hold)
        _delete_rest(storage, _KEPT)
        create_properties(storage, properties)
        storage.delete(MARK_PATH)


def finish_drop(storage: Storage, clock: Clock, properties: Mapping[str, str]) -> bool:
    """Resume an interrupted drop and create the new table; return False if none was interrupted.

    Waits for a process that is still dropping the table. Raises ExistsError if another process has
    created a table in the meantime.
    """
    if not _is_marked(storage):
        return False
    with table_lock(storage).hold(clock, LOCK_WAIT_SECONDS):
        if not _is_marked(storage):
            return False
        if not _has_properties(storage):
            _delete_rest(storage, _KEPT)
        create_properties(storage, properties)
        storage.delete(MARK_PATH)
    return True


def _begin_drop(hold: TableHold) -> None:
    """Record that the table is being dropped, and make its folder no longer a table."""
    _check_quiet(hold)
    hold.storage.put(MARK_PATH, b"")
    hold.lock.check()
    # Delete the backup first: if only the properties were missing, readers would use the backup.
    hold.storage.delete(BACKUP_PATH)
    hold.storage.delete(PROPERTIES_PATH)


def _is_marked(storage: Storage) -> bool:
    return MARK_PATH.rpartition("/")[2] in storage.names(".hoodie")


def _has_properties(storage: Storage) -> bool:
    return PROPERTIES_PATH.rpartition("/")[2] in storage.names(".hoodie")


def _check_quiet(hold: TableHold) -> None:
    """Raise an error while another writer is active, in any concurrency mode.

    A file that such a writer closes after the listing would survive, and the new table would take
    it for a file of an archived commit.
    """
    for instant in hold.timeline.pending():
        if hold.is_alive(instant):
            raise LockedError(
                f"{hold.storage.url}: cannot drop the table: it has active writers; "
                f"{instant.action} {instant.requested} is in progress; retry when it has ended"
            )


def _delete_rest(storage: Storage, kept: tuple[str, ...]) -> None:
    for entry in list(storage.list()):
        if entry.path != MARK_PATH and not entry.path.startswith(kept):
            storage.delete(entry.path)
