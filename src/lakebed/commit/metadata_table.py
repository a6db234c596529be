"""Hudi's metadata table, `.hoodie/metadata`: Lakebed does not maintain it, so a change retires it.

Readers that use it take the list of files from its `files` partition and see no other files. As
Hudi's own writers do when the metadata table is disabled, the properties are cleared first and then
the folder is deleted: a crash in between leaves a table that every reader lists by itself. Hudi's
next writer builds a new metadata table.
"""

import logging

from lakebed.commit.heartbeat import read_beat
from lakebed.errors import ConflictError, LockedError, NotFoundError
from lakebed.format.names.instant_name import Action
from lakebed.format.timeline.heartbeat import heartbeat_path
from lakebed.storage.storage import Storage
from lakebed.table.config.metadata_partitions import BEING_BUILT, LIVE, metadata_partitions
from lakebed.table.config.properties_file import update_properties
from lakebed.table.config.table_config import TableConfig
from lakebed.timeline.timeline import Timeline

log = logging.getLogger(__name__)

METADATA_FOLDER = ".hoodie/metadata"
# Deleted last: as long as it exists, the rest must still be deleted.
_PROPERTIES = f"{METADATA_FOLDER}/.hoodie/hoodie.properties"


def check_indexing(url: str, timeline: Timeline) -> None:
    """Raise an error if Hudi is building an index of the table: it would miss our rows."""
    for instant in timeline.pending(Action.INDEXING):
        raise ConflictError(
            f"{url}: indexing {instant.requested} is pending: Hudi is building an index in the "
            "metadata table, which would miss our rows; let it finish, or drop the index in Hudi"
        )


def is_of_another_engine(storage: Storage, instant: str) -> bool:
    """Return whether a live instant's heartbeat is another engine's: ours name their process."""
    return read_beat(storage, heartbeat_path(instant)) is None


def refuse_writer(url: str, action: str, instant: str) -> LockedError:
    """Return the error for a writer of another engine, which relies on the metadata table."""
    return LockedError(
        f"{url}: {action} {instant} is pending with a heartbeat of another engine, whose writer may "
        "still use Hudi's metadata table, which we would retire; try again when it has ended"
    )


def must_retire(storage: Storage, config: TableConfig) -> bool:
    """Return whether there is a metadata table, or leftovers of one that was retired."""
    if metadata_partitions(config) or metadata_partitions(config, BEING_BUILT):
        return True
    # Only a table that once had a metadata table needs checking; our tables never refer to one.
    return LIVE in config.properties and _is_there(storage)


def retire(storage: Storage, config: TableConfig) -> TableConfig:
    """Retire the metadata table and delete it; the caller holds the table's lock."""
    named = metadata_partitions(config)
    if named or metadata_partitions(config, BEING_BUILT):
        log.info(
            "%s: retiring Hudi's metadata table (%s): our commits do not write to it; Hudi's next "
            "writer builds a new one",
            storage.url,
            ", ".join(named),
        )
        # The values are empty, as Hudi leaves them; its index definitions stay as well.
        config = update_properties(storage, {LIVE: "", BEING_BUILT: ""})
    for entry in list(storage.list(METADATA_FOLDER)):
        if entry.path != _PROPERTIES:
            storage.delete(entry.path)
    storage.delete(_PROPERTIES)
    return config


def _is_there(storage: Storage) -> bool:
    try:
        storage.head(_PROPERTIES)
    except NotFoundError:
        return False
    return True
