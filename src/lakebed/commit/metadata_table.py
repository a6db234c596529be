"""Hudi's metadata table, `.hoodie/metadata`, which Lakebed retires because it does not maintain it.

Readers that use it take the list of files from its `files` partition, and see no other files. As
Hudi's own writers do when the metadata table is disabled, the properties are cleared first and then
the folder is deleted: a crash in between leaves a table whose files every reader lists. Hudi's next
writer builds a new metadata table.
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
# Deleted last: while it exists, other files may be left to delete.
_PROPERTIES = f"{METADATA_FOLDER}/.hoodie/hoodie.properties"


def check_indexing(url: str, timeline: Timeline) -> None:
    """Raise an error if Hudi is building an index of the table, which would miss our rows."""
    for instant in timeline.pending(Action.INDEXING):
        raise ConflictError(
            f"{url}: indexing {instant.requested} is pending: Hudi is building an index in the "
            "metadata table, which would miss our rows; let it finish, or drop the index in Hudi"
        )


def is_of_another_engine(storage: Storage, instant: str) -> bool:
    """Return whether the heartbeat of a live instant is another engine's."""
    return read_beat(storage, heartbeat_path(instant)) is None


def refuse_writer(url: str, action: str, instant: str) -> LockedError:
    """Return the error for a live writer of another engine, which may use the metadata table."""
    return LockedError(
        f"{url}: {action} {instant} is pending with a heartbeat of another engine, whose writer may "
        "still use Hudi's metadata table, which we would retire; try again when it has ended"
    )


def must_retire(storage: Storage, config: TableConfig) -> bool:
    """Return whether there is a metadata table, or what is left of a retired one."""
    if metadata_partitions(config) or metadata_partitions(config, BEING_BUILT):
        return True
    # The properties of a table that never had a metadata table lack this entry.
    return LIVE in config.properties and _is_there(storage)


def retire(storage: Storage, config: TableConfig) -> TableConfig:
    """Disable the metadata table and delete it; the caller holds the table's lock."""
    named = metadata_partitions(config)
    if named or metadata_partitions(config, BEING_BUILT):
        log.info(
            "%s: retiring Hudi's metadata table (%s): our commits do not write to it; Hudi's next "
            "writer builds a new one",
            storage.url,
            ", ".join(named),
        )
        # Like Hudi, leave the properties with empty values, and keep the index definitions.
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
