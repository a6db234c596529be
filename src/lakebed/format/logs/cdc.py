"""Change data capture: the modes of supplemental logging, and the records of a `.cdc` log.

    OP_KEY_ONLY         op, record_key           record `Record`, unions with the string first
    DATA_BEFORE         op, record_key, before   record `CDC` in the namespace of the table's record
    DATA_BEFORE_AFTER   op, ts_ms, before, after the same

`before` and `after` are rows without meta columns. `ts_ms` is the instant as a string, not
milliseconds. Agrees with Hudi's HoodieCDCUtils, from which the schemas are copied.
"""

import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Final, Self, cast

from lakebed.errors import CorruptError, UnsupportedError

ENABLED: Final = "hoodie.table.cdc.enabled"
LOGGING_MODE: Final = "hoodie.table.cdc.supplemental.logging.mode"

OP: Final = "op"
TS_MS: Final = "ts_ms"
KEY: Final = "record_key"
BEFORE: Final = "before"
AFTER: Final = "after"

_KEY_ONLY_SCHEMA: Final = (
    '{"type":"record","name":"Record","fields":[{"name":"op","type":["string","null"]},'
    '{"name":"record_key","type":["string","null"]}]}'
)


class ChangeOp(StrEnum):
    """The kind of change to a row. The values are stored on disk: do not change them."""

    INSERT = "i"
    UPDATE = "u"
    DELETE = "d"


class LoggingMode(StrEnum):
    """How much of each change a `.cdc` log stores. Stored on disk: do not change the values."""

    OP_KEY_ONLY = "OP_KEY_ONLY"
    DATA_BEFORE = "DATA_BEFORE"
    DATA_BEFORE_AFTER = "DATA_BEFORE_AFTER"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a mode, ignoring case as Hudi does; raise UnsupportedError for any other string."""
        try:
            return cls(text.strip().upper())
        except ValueError:
            raise UnsupportedError(
                f"{LOGGING_MODE}={text!r}: expected {', '.join(mode.lower() for mode in cls)}"
            ) from None

    @property
    def fields(self) -> tuple[str, ...]:
        """Return the fields of a record, in order."""
        match self:
            case LoggingMode.OP_KEY_ONLY:
                return (OP, KEY)
            case LoggingMode.DATA_BEFORE:
                return (OP, KEY, BEFORE)
            case LoggingMode.DATA_BEFORE_AFTER:
                return (OP, TS_MS, BEFORE, AFTER)

    @property
    def has_before(self) -> bool:
        """Return whether records hold the row before the change."""
        return BEFORE in self.fields

    @property
    def has_after(self) -> bool:
        """Return whether records hold the row after the change."""
        return AFTER in self.fields


def logging_mode(properties: Mapping[str, str]) -> LoggingMode | None:
    """Return the logging mode of a table with these properties; None if it does not log changes."""
    if properties.get(ENABLED, "false").strip().lower() != "true":
        return None
    text = properties.get(LOGGING_MODE, "").strip()
    return LoggingMode.parse(text) if text else LoggingMode.DATA_BEFORE_AFTER


def cdc_schema(mode: LoggingMode, table_schema: str) -> str:
    """Return the Avro schema of change records; `table_schema` must have no meta fields."""
    if mode is LoggingMode.OP_KEY_ONLY:
        return _KEY_ONLY_SCHEMA
    row = _parse(table_schema)
    namespace = row.get("namespace") or str(row["name"]).rpartition(".")[0]
    # The first field that holds a row defines the record type; the other refers to it by name.
    types: dict[str, object] = dict.fromkeys((OP, TS_MS, KEY), "string")
    types[BEFORE] = {name: value for name, value in row.items() if name != "namespace"}
    types[AFTER] = row["name"]
    record: dict[str, object] = {"type": "record", "name": "CDC"}
    if namespace:
        record["namespace"] = namespace
    record["doc"] = ""
    record["fields"] = [
        {"name": name, "type": ["null", types[name]], "doc": "", "default": None}
        for name in mode.fields
    ]
    return json.dumps(record, separators=(",", ":"), ensure_ascii=False)


def _parse(table_schema: str) -> dict[str, object]:
    try:
        row = json.loads(table_schema)
    except (ValueError, RecursionError) as error:
        raise CorruptError(f"Avro schema of the table: {error}") from error
    if not isinstance(row, dict) or row.get("type") != "record":
        raise CorruptError("Avro schema of the table: expected a record")
    if not isinstance(row.get("name"), str) or not isinstance(row.get("fields"), list):
        raise CorruptError("Avro schema of the table: expected a record with a name and fields")
    return cast("dict[str, object]", row)
