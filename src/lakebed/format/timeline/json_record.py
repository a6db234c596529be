"""Timeline records as JSON, the form of commits in timeline layout 1.

The keys are the fields of the Avro record for the same file in layout 2 (`avro_models`), whose
schema defines the valid values. As in Hudi, any key may be missing, and unknown keys are dropped.
"""

import json
from collections.abc import Mapping
from typing import Final, cast

from lakebed.errors import CorruptError
from lakebed.format.timeline.ocf import Record, Schema

JSON_MARK: Final = b"{"
"""The first byte of such a file; an Avro container never starts with it."""

_LIMITS: Final = {"int": 1 << 31, "long": 1 << 63}
_SHOWN: Final = 60


def decode_json_record(data: bytes, what: str, schema: Schema) -> Record:
    """Return the values in the JSON object `data` for the fields of `schema`.

    A missing field is None. Raises CorruptError, naming `what`, if the data is invalid.
    """
    try:
        values = json.loads(data.decode("utf-8"))
    # RecursionError: nested brackets. ValueError: also numbers of thousands of digits.
    except (ValueError, RecursionError) as error:
        raise CorruptError(
            f"{what}: expected JSON, found {len(data)} bytes that are invalid or truncated: {error}"
        ) from error
    record = _value(values, schema, what, "")
    assert isinstance(record, dict), "the schema is a record"
    return record


def _value(value: object, schema: object, what: str, where: str) -> object:
    """Check a value, and return it as an Avro decoder would."""
    if isinstance(schema, list):  # optional: the other branch is null
        if value is None:
            return None
        schema = next(branch for branch in schema if branch != "null")
    details = cast("Mapping[str, object]", schema) if isinstance(schema, Mapping) else {}
    kind = details.get("type", schema)
    if kind == "record" and isinstance(value, dict):
        fields = cast("list[Mapping[str, object]]", details["fields"])
        return {
            str(field["name"]): _value(
                value.get(field["name"]), field["type"], what, f"{where}.{field['name']}"
            )
            for field in fields
        }
    if kind == "map" and isinstance(value, dict):
        # A null, which Java's maps allow and Avro's do not, is treated as a missing key.
        return {
            str(_text(key, what, where)): _value(item, details["values"], what, f"{where}[{key!r}]")
            for key, item in value.items()
            if item is not None
        }
    if kind == "array" and isinstance(value, list):
        items = details["items"]
        return [_value(item, items, what, f"{where}[{at}]") for at, item in enumerate(value)]
    if kind == "string" and isinstance(value, str):
        return _text(value, what, where)
    if kind == "boolean" and isinstance(value, bool):
        return value
    limit = _LIMITS.get(str(kind))
    if limit is not None and type(value) is int and -limit <= value < limit:
        return value
    raise _wrong(value, str(kind), what, where)


def _text(value: str, what: str, where: str) -> str:
    """Return `value`; raise CorruptError if it contains an unpaired surrogate."""
    if not value.isascii():
        try:
            value.encode("utf-8")
        except UnicodeEncodeError:
            raise _wrong(value, "text", what, where) from None
    return value


def _wrong(value: object, wanted: str, what: str, where: str) -> CorruptError:
    found = repr(value)
    found = found if len(found) <= _SHOWN else f"{found[:_SHOWN]}..."
    return CorruptError(
        f"{what}: {where.lstrip('.') or 'the file'}: expected {wanted}, found {found}"
    )
