"""Whether the options of a write say what its table says."""

from dataclasses import fields
from typing import Final

from lakebed.api.create_checks import GENERATOR
from lakebed.api.settings import CHANGEABLE
from lakebed.errors import OptionError
from lakebed.format.names.record_key import KeyGenerator
from lakebed.model.options import stored_name
from lakebed.model.save_options import SaveOptions
from lakebed.table.config.table_config import TableConfig
from lakebed.table.config.writer_index import NUM_BUCKETS

_NAME: Final = "hoodie.table.name"
_CLASS: Final = "hoodie.table.keygenerator.class"
_PAYLOAD: Final = "hoodie.compaction.payload.class"
_MODE: Final = "hoodie.record.merge.mode"
_DELETE_MARKER: Final = ("hoodie.payload.delete.field", "hoodie.payload.delete.marker")
_CDC: Final = "hoodie.table.cdc.enabled"
_INDEX: Final = "hoodie.index.type"


def check_stored(config: TableConfig, options: SaveOptions) -> dict[str, str]:
    """Reject options that contradict the table; give those that it can take over."""
    changes = {}
    for name, value in options.properties.items():
        stored = config.properties.get(stored_name(name))
        if name.startswith(CHANGEABLE):
            if (stored or "").lower() != value.lower():
                changes[name] = value
        elif not _agrees(config, name, value):
            raise OptionError(
                f"option {options.given[name]}={value} contradicts the table {config.name!r}, which "
                f"has {_held(config, name)}; leave it out, or write to another path"
            )
    return changes


def _held(config: TableConfig, name: str) -> str:
    """Show the property that an option contradicts, under the name that the table has it by."""
    held = config.properties
    if name in (GENERATOR, _CLASS):
        name = GENERATOR if held.get(GENERATOR) else _CLASS
    if name == _PAYLOAD and not held.get(_PAYLOAD):
        name = _MODE
    stored = held.get(stored_name(name))
    return f"no {stored_name(name)}" if stored is None else f"{stored_name(name)}={stored}"


def _agrees(config: TableConfig, name: str, value: str) -> bool:
    before = dict(config.properties)
    if name == _NAME:
        return value == config.name
    if name == _CDC:
        return before.get(_CDC, "false").lower() == value.lower()
    if name in _DELETE_MARKER:
        # One of the two changes nothing by itself.
        return (config.delete_marker or ("", ""))[_DELETE_MARKER.index(name)] == value
    if name in (GENERATOR, _CLASS):
        return KeyGenerator.parse(value) is config.key_generator
    if name == _PAYLOAD:
        before.pop(_MODE, None)
    if name == _INDEX and config.index is None:
        return True  # the first write names it
    if name == NUM_BUCKETS and config.index is not None and not config.index.is_settled:
        return True  # the same
    after = TableConfig.parse({**before, stored_name(name): value}, "the options of this write")
    return all(
        getattr(after, field.name) == getattr(config, field.name)
        for field in fields(config)
        if field.name != "properties"
    )
