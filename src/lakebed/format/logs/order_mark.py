"""The marker of a sorted block: `"hudi.is_ordered": true` in the record schema in its header.

Other readers fail on an unknown header of an inline block, but Hudi and hudi-rs ignore an unknown
property of a schema. Parquet files have the marker in their footer (`footer.FOOTER_IS_ORDERED`).
"""

import json
from typing import Final

from lakebed.errors import CorruptError

ORDER_PROPERTY: Final = "hudi.is_ordered"


def mark_ordered(schema_text: str, what: str = "schema") -> str:
    """Add the marker to the Avro schema of a record, leaving its text otherwise unchanged.

    >>> mark_ordered('{"type": "record", "name": "r", "fields": []}')
    '{"type": "record", "name": "r", "fields": [],"hudi.is_ordered":true}'
    """
    record = _parse(schema_text, what)
    if record.get(ORDER_PROPERTY) is True:
        return schema_text
    if ORDER_PROPERTY in record:
        return json.dumps({**record, ORDER_PROPERTY: True}, ensure_ascii=False)
    return f'{schema_text.rstrip()[:-1].rstrip()},"{ORDER_PROPERTY}":true}}'


def is_marked_ordered(schema_text: str, what: str = "schema") -> bool:
    """Return whether the schema has the marker, with the JSON value `true`."""
    return _parse(schema_text, what).get(ORDER_PROPERTY) is True


def _parse(schema_text: str, what: str) -> dict[str, object]:
    try:
        found = json.loads(schema_text)
    except (ValueError, RecursionError) as error:
        raise CorruptError(f"{what}: expected an Avro schema as JSON: {error}") from error
    if not isinstance(found, dict) or found.get("type") != "record":
        raise CorruptError(
            f"{what}: expected the Avro schema of a record, found {schema_text[:60]!r}"
        )
    return found
