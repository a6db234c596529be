"""Rows as the expected files of the fixtures spell them."""

import datetime as dt
import decimal
from collections.abc import Iterable
from typing import Any

Row = dict[str, Any]


def spell(value: Any) -> Any:
    """Spell one value as JSON: times in ISO text, decimals as text, bytes as `hex:..`."""
    if isinstance(value, dt.datetime):
        return value.replace(tzinfo=None).isoformat()
    if isinstance(value, dt.date):
        return value.isoformat()
    if isinstance(value, decimal.Decimal):
        return str(value)
    if isinstance(value, bytes):
        return f"hex:{value.hex()}"
    if isinstance(value, dict):
        return {key: spell(held) for key, held in value.items()}
    if isinstance(value, list) and value and all(isinstance(held, tuple) for held in value):
        return {key: spell(held) for key, held in value}  # a map, as pyarrow gives it
    if isinstance(value, (list, tuple)):
        return [spell(held) for held in value]
    return value


def spell_rows(rows: Iterable[Row]) -> list[Row]:
    """Spell rows and sort them, by key where they have one."""
    spelled = [{name: spell(value) for name, value in row.items()} for row in rows]
    return sorted(spelled, key=lambda row: (str(row.get("_hoodie_record_key")), repr(row)))
