"""Which version of a key survives, according to `hoodie.properties`.

    hoodie.record.merge.mode           the mode; absent in version 6
    hoodie.compaction.payload.class    one of Hudi's classes or the user's own; up to version 8
    hoodie.record.merge.strategy.id    a UUID of zeros: the payload class decides
    hoodie.table.partial.update.mode   from version 9: which values of the winner are replaced
    hoodie.record.merge.property.*     from version 9: parameters that payload classes hard-coded

From version 9 on Hudi expresses its own payload classes by the other properties and keeps their
names in `hoodie.table.legacy.payload.class`, which has no effect. Up to version 8 Hudi runs the
classes themselves; only behaviour observed in Apache Hudi 1.2.0 is reproduced here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from lakebed.errors import OptionError, UnsupportedError
from lakebed.merge.rule import Fill
from lakebed.model.options import table

PARTIAL_UPDATE_MODE = table.PARTIAL_UPDATE_MODE.name
PAYLOAD_CLASS = table.PAYLOAD_CLASS.name
STRATEGY_ID = "hoodie.record.merge.strategy.id"

_MODE = table.MERGE_MODE.name
_DELETE_FIELD = table.DELETE_FIELD.stored_name
_DELETE_MARKER = table.DELETE_MARKER.stored_name
_UNAVAILABLE = table.UNAVAILABLE.stored_name
_LEGACY_PAYLOAD = "hoodie.table.legacy.payload.class"
_PAYLOAD_STRATEGY = "00000000-0000-0000-0000-000000000000"
_PARTIAL_SINCE = 9


class MergeMode(StrEnum):
    """Which version of a key survives. The values are stored on disk: do not change them."""

    COMMIT_TIME_ORDERING = "COMMIT_TIME_ORDERING"
    EVENT_TIME_ORDERING = "EVENT_TIME_ORDERING"
    # A custom merger or payload class: rows that need no merge can still be read.
    CUSTOM = "CUSTOM"


_STRATEGIES = {
    MergeMode.COMMIT_TIME_ORDERING: "ce9acb64-bde0-424c-9b91-f6ebba25356d",
    MergeMode.EVENT_TIME_ORDERING: "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5",
    MergeMode.CUSTOM: _PAYLOAD_STRATEGY,
}


@dataclass(frozen=True, slots=True)
class MergeSettings:
    """The merge settings in a table's properties.

    `delete_marker` is the column and the value that mark a row as a delete. The other fields are
    those of a MergeRule.
    """

    mode: MergeMode
    fill: Fill | None = None
    natural_deletes: bool = False
    delete_marker: tuple[str, str] | None = None


_CUSTOM = MergeSettings(MergeMode.CUSTOM)
_COMMIT_TIME = MergeSettings(MergeMode.COMMIT_TIME_ORDERING)
_EVENT_TIME = MergeSettings(MergeMode.EVENT_TIME_ORDERING)
_MODEL = "org.apache.hudi.common.model."
_NON_DEFAULTS = _MODEL + "OverwriteNonDefaultsWithLatestAvroPayload"
_PARTIAL_UPDATE = _MODEL + "PartialUpdateAvroPayload"
_AWS_DMS = _MODEL + "AWSDmsAvroPayload"
_POSTGRES = _MODEL + "debezium.PostgresDebeziumAvroPayload"
_MYSQL = _MODEL + "debezium.MySqlDebeziumAvroPayload"
_DMS_DELETE = ("Op", "D")
_DEBEZIUM_DELETE = ("_change_operation_type", "d")
_DEBEZIUM_ORDERING = {
    _POSTGRES: ("_event_lsn",),
    _MYSQL: ("_event_bin_file", "_event_pos"),
}
_PLAIN_PAYLOADS = {
    _MODEL + "OverwriteWithLatestAvroPayload": _COMMIT_TIME,
    _MODEL + "DefaultHoodieRecordPayload": _EVENT_TIME,
    _MODEL + "EventTimeAvroPayload": _EVENT_TIME,
}
_PAYLOADS = {
    **_PLAIN_PAYLOADS,
    _NON_DEFAULTS: MergeSettings(MergeMode.COMMIT_TIME_ORDERING, Fill()),
    _PARTIAL_UPDATE: MergeSettings(MergeMode.EVENT_TIME_ORDERING, Fill()),
    _AWS_DMS: MergeSettings(MergeMode.COMMIT_TIME_ORDERING, delete_marker=_DMS_DELETE),
    _POSTGRES: MergeSettings(
        MergeMode.EVENT_TIME_ORDERING,
        Fill("__debezium_unavailable_value"),
        delete_marker=_DEBEZIUM_DELETE,
    ),
    _MYSQL: MergeSettings(MergeMode.EVENT_TIME_ORDERING, delete_marker=_DEBEZIUM_DELETE),
}
# Up to version 8. Debezium's payloads are left out: with that for Postgres, Hudi 1.2.0 leaves the
# marker of an unavailable value in the row; that for MySQL compares `_event_seq` as two numbers.
_OLD_PAYLOADS = {
    **_PLAIN_PAYLOADS,
    _NON_DEFAULTS: _PAYLOADS[_NON_DEFAULTS],
    _PARTIAL_UPDATE: MergeSettings(MergeMode.EVENT_TIME_ORDERING, Fill(), natural_deletes=True),
    _AWS_DMS: _PAYLOADS[_AWS_DMS],
}


def parse_merge(
    properties: Mapping[str, str], version: int, ordering: tuple[str, ...], where: str
) -> MergeSettings:
    """Return the merge settings; the mode is CUSTOM for settings that are not supported here."""
    found = _by_mode(properties, version, where)
    if version >= _PARTIAL_SINCE:
        found = _with_partial_updates(found, properties)
    if found.natural_deletes and len(ordering) > 1:
        # The payload class knows only one ordering field.
        return _CUSTOM
    mode = found.mode
    if mode is MergeMode.EVENT_TIME_ORDERING and not ordering:
        mode = MergeMode.COMMIT_TIME_ORDERING
    marker = _delete_marker(properties) or found.delete_marker
    return MergeSettings(mode, found.fill, found.natural_deletes, marker)


def payload_properties(payload: str, ordering: tuple[str, ...], version: int) -> dict[str, str]:
    """Return the properties that Hudi stores in a new table for one of its payload classes."""
    known = _payloads(version)
    if payload not in known:
        raise OptionError(
            f"option {PAYLOAD_CLASS}={payload}: in table version {version} expected one of "
            f"{', '.join(known)}, or none and a custom merger"
        )
    wanted = _DEBEZIUM_ORDERING.get(payload, ordering)
    if ordering != wanted:
        raise OptionError(
            f"option {PAYLOAD_CLASS}={payload}: expected ordering={list(wanted)}, by which Hudi orders "
            f"these changes, found {list(ordering)}"
        )
    settings = known[payload]
    if settings.mode is MergeMode.EVENT_TIME_ORDERING and not ordering:
        raise OptionError(f"option {PAYLOAD_CLASS}={payload} needs ordering=<column>")
    if version < _PARTIAL_SINCE:
        plain = payload in _PLAIN_PAYLOADS
        mode = settings.mode if plain else MergeMode.CUSTOM
        return {_MODE: mode, PAYLOAD_CLASS: payload, STRATEGY_ID: _STRATEGIES[mode]}
    found = {_MODE: str(settings.mode), _LEGACY_PAYLOAD: payload}
    if settings.fill is not None:
        marker = settings.fill.marker
        found[PARTIAL_UPDATE_MODE] = "IGNORE_DEFAULTS" if marker is None else "FILL_UNAVAILABLE"
        if marker is not None:
            found[_UNAVAILABLE] = marker
    if settings.delete_marker is not None:
        found[_DELETE_FIELD], found[_DELETE_MARKER] = settings.delete_marker
    return found


def check_partial_updates(options: Mapping[str, str], version: int) -> None:
    """Raise an error if a new table of `version` cannot have the partial updates in `options`."""
    text = options.get(PARTIAL_UPDATE_MODE)
    if text is None:
        return
    if version < _PARTIAL_SINCE:
        raise OptionError(
            f"option {PARTIAL_UPDATE_MODE}={text}: expected table version {_PARTIAL_SINCE} or later, "
            f"found {version}"
        )
    marker = table.UNAVAILABLE.name
    if text.upper() == "FILL_UNAVAILABLE" and not (options.get(marker) or PAYLOAD_CLASS in options):
        raise OptionError(f"option {PARTIAL_UPDATE_MODE}={text}: expected {marker} with it")


def _payloads(version: int) -> Mapping[str, MergeSettings]:
    return _OLD_PAYLOADS if version < _PARTIAL_SINCE else _PAYLOADS


def _by_mode(properties: Mapping[str, str], version: int, where: str) -> MergeSettings:
    text = properties.get(_MODE, "").strip().upper()
    payload = properties.get(PAYLOAD_CLASS, "").strip()
    if text and text not in MergeMode.__members__:
        raise UnsupportedError(f"{where}: {_MODE}={text} is not supported")
    if text and text != MergeMode.CUSTOM:
        return MergeSettings(MergeMode(text))
    if not text and not payload:
        # Without ordering fields, `parse_merge` changes this to COMMIT_TIME_ORDERING.
        return _EVENT_TIME
    # From version 9 on, and for a payload class equivalent to a mode, CUSTOM means a merger.
    if text and (version >= _PARTIAL_SINCE or payload in _PLAIN_PAYLOADS):
        return _CUSTOM
    by_payload = payload in _PLAIN_PAYLOADS or _is_by_payload(properties)
    return _payloads(version).get(payload, _CUSTOM) if by_payload else _CUSTOM


def _is_by_payload(properties: Mapping[str, str]) -> bool:
    """Return whether the payload class decides; version 6 stores the strategy under an older name."""
    return properties.get(STRATEGY_ID, "").strip() in ("", _PAYLOAD_STRATEGY)


def _with_partial_updates(found: MergeSettings, properties: Mapping[str, str]) -> MergeSettings:
    text = properties.get(PARTIAL_UPDATE_MODE, "").strip()
    if not text or found.mode is MergeMode.CUSTOM:
        return found
    if text == "IGNORE_DEFAULTS":
        return replace(found, fill=Fill())
    if text == "FILL_UNAVAILABLE":
        marker = properties.get(_UNAVAILABLE)
        # Without a marker, no value is treated as unavailable.
        return replace(found, fill=None if marker is None else Fill(marker))
    return _CUSTOM


def _delete_marker(properties: Mapping[str, str]) -> tuple[str, str] | None:
    field = properties.get(_DELETE_FIELD, "").strip()
    marker = properties.get(_DELETE_MARKER, "").strip()
    return (field, marker) if field and marker else None
