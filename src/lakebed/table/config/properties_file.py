"""`.hoodie/hoodie.properties`: created once, read at every open, changed through a backup.

Like Hudi, Lakebed writes the backup before the file is replaced, and falls back to it if the file
is missing or its checksum does not match.
"""

from collections.abc import Mapping
from functools import lru_cache

from lakebed.errors import CorruptError, ExistsError, NotFoundError
from lakebed.format.files.properties import encode_properties, parse_properties
from lakebed.storage.storage import Storage
from lakebed.table.config.table_config import TableConfig

PROPERTIES_PATH = ".hoodie/hoodie.properties"
BACKUP_PATH = ".hoodie/hoodie.properties.backup"
_SIDECAR_PATH = ".hoodie/.hoodie.properties.crc"


def create_properties(storage: Storage, properties: Mapping[str, str]) -> TableConfig:
    """Create the table with one atomic put; of concurrent calls, all but one raise ExistsError."""
    config = TableConfig.parse(properties, f"{storage.url}: new table")
    # Hudi cannot open a table, even an empty one, without these folders.
    storage.make_folder(config.history_path)
    try:
        storage.put_if_absent(PROPERTIES_PATH, encode_properties(properties, _COMMENT))
    except ExistsError:
        raise ExistsError(
            f"{storage.url}: a table already exists here; open it with open_table"
        ) from None
    return config


def load_config(storage: Storage) -> TableConfig:
    """Read the table's configuration."""
    try:
        return _read(storage, PROPERTIES_PATH)
    except (NotFoundError, CorruptError) as error:
        try:
            return _read(storage, BACKUP_PATH)
        except NotFoundError:
            if isinstance(error, NotFoundError):
                raise NotFoundError(
                    f"{storage.url}: no table here ({PROPERTIES_PATH} is missing); "
                    "create_table or a first write creates one"
                ) from None
            raise error from None


def update_properties(storage: Storage, changes: Mapping[str, str | None]) -> TableConfig:
    """Change properties of an existing table; raise ChangedError if they change meanwhile.

    A property whose new value is None is removed.
    """
    etag = storage.head(PROPERTIES_PATH).etag
    wanted = {**_read(storage, PROPERTIES_PATH).properties, **changes}
    merged = {name: value for name, value in wanted.items() if value is not None}
    updated = TableConfig.parse(merged, f"{storage.url}: changed properties")
    storage.put(BACKUP_PATH, storage.read(PROPERTIES_PATH))
    # The checksum that Hadoop's local file system keeps beside a file of Hudi's: with a stale
    # checksum Hudi could not open the table, without one it does not check the file.
    storage.delete(_SIDECAR_PATH)
    storage.put_if_unchanged(PROPERTIES_PATH, encode_properties(merged, _COMMENT), etag)
    storage.delete(BACKUP_PATH)
    return updated


_COMMENT = ("Properties of a Hudi table, written by Lakebed",)


def _read(storage: Storage, path: str) -> TableConfig:
    where = f"{storage.url}: {path}"
    data = storage.read(path)
    # Every writer ends the last line too; a truncated last value could name another timeline.
    if not data.endswith((b"\n", b"\r")):
        raise CorruptError(f"{where}: the last line has no line end: the file was truncated")
    return _parse(data, where)


@lru_cache(maxsize=16)
def _parse(data: bytes, where: str) -> TableConfig:
    """Parse properties; cached, because every lookup reads them and they seldom change."""
    properties = parse_properties(data, where)
    if not properties:
        raise CorruptError(f"{where}: holds no properties; the file was truncated")
    return TableConfig.parse(properties, where)
