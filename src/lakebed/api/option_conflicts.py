"""Check that a table's options are consistent, and that a write's options match its table."""

from dataclasses import fields
from typing import Final

from lakebed.commit.lock import table_lock
from lakebed.errors import OptionError
from lakebed.format.names.record_key import KeyGenerator
from lakebed.model.options import table
from lakebed.model.options.registry import get_option
from lakebed.model.options.save import SaveOptions
from lakebed.model.options.services import ArchiveOptions
from lakebed.storage.storage import Storage
from lakebed.table.config.table_config import TableConfig
from lakebed.table.config.writable import check_writable
from lakebed.table.config.writer_index import NUM_BUCKETS

_DELETE_MARKER: Final = (table.DELETE_FIELD.name, table.DELETE_MARKER.name)
_GENERATORS: Final = (table.GENERATOR.name, table.GENERATOR_CLASS.name)


def check_settings(storage: Storage, config: TableConfig) -> None:
    """Raise an error for settings that are valid individually but with which no write can start."""
    check_writable(config)
    table_lock(storage, config.properties)
    ArchiveOptions.of(config.properties)


def check_stored(config: TableConfig, options: SaveOptions) -> dict[str, str]:
    """Return the options that the table should store from now on.

    Raises OptionError if an option contradicts the table.
    """
    changes = {}
    for name, value in options.properties.items():
        option = get_option(name)
        if option.is_changeable:
            if config.properties.get(option.stored_name, "").lower() != value.lower():
                changes[name] = value
        elif not _agrees(config, name, value):
            raise OptionError(
                f"option {options.given[name]}={value} contradicts the table {config.name!r}, which "
                f"has {_held(config, name)}; omit it, or write to another path"
            )
    return changes


def _held(config: TableConfig, name: str) -> str:
    """Return the table's property that an option contradicts, as `name=value`."""
    held = config.properties
    if name in _GENERATORS:
        name = next((one for one in _GENERATORS if held.get(one)), name)
    if name == table.PAYLOAD_CLASS.name and not held.get(name):
        name = table.MERGE_MODE.name
    stored_name = get_option(name).stored_name
    return f"{stored_name}={held[stored_name]}" if stored_name in held else f"no {stored_name}"


def _agrees(config: TableConfig, name: str, value: str) -> bool:
    before = dict(config.properties)
    if name == table.NAME.name:
        return value == config.name
    if name == table.CDC.name:
        return before.get(name, "false").lower() == value.lower()
    if name in _DELETE_MARKER:
        # One of the two has no effect by itself.
        return (config.delete_marker or ("", ""))[_DELETE_MARKER.index(name)] == value
    if name in _GENERATORS:
        return KeyGenerator.parse(value) is config.key_generator
    if name == table.PAYLOAD_CLASS.name:
        before.pop(table.MERGE_MODE.name, None)
    if name == table.INDEX_TYPE.name and config.index is None:
        return True  # the first write determines the index
    if name == NUM_BUCKETS and config.index is not None and not config.index.is_settled:
        return True  # the first write determines the number of buckets
    after = TableConfig.parse(
        {**before, get_option(name).stored_name: value}, "the options of this write"
    )
    if name == table.INDEX_TYPE.name and after.index is not None and config.index is not None:
        return after.index.agrees(config.index)
    return all(
        getattr(after, field.name) == getattr(config, field.name)
        for field in fields(config)
        if field.name != "properties"
    )
