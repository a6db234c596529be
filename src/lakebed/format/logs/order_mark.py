"""The marker of a sorted block: `"hudi.is_ordered": true` on the top record of its schema.

An unknown header in an inline block would make other readers fail, but Avro lets a schema carry
properties, and Hudi and hudi-rs ignore this one. Parquet files have the marker in their footer
(`footer.FOOTER_IS_ORDERED`).
"""

import json
from typing import Final

from lakebed.errors import CorruptError

ORDER_PROPERTY: Final = "hudi.is_ordered"


def mark_ordered(schema_text: str, what: str = "schema") -> str:
    """Add the marker to the Avro schema of a record; everything else stays byte for byte.

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
    """Return whether the schema carries the marker, with JSON's `true` as its value."""
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
