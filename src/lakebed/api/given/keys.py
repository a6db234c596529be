"""Convert keys given as Python values to Arrow."""

import contextlib
import math
import re
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal

import pyarrow as pa

from lakebed.errors import InvalidError, KeyValueError

_ISO_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)


def keys_to_table(keys: Sequence[object], schema: pa.Schema) -> pa.Table:
    """Return a table from dicts that hold the columns of `schema`; other entries are ignored.

    If `schema` has a single column, plain values are accepted too.
    """
    names = schema.names
    rows = []
    for key in keys:
        row = key if isinstance(key, Mapping) else {names[0]: key} if len(names) == 1 else None
        if row is None:
            raise InvalidError(f"key {key!r}: expected a dict with {', '.join(names)}")
        for name in names:
            if name not in row:
                raise InvalidError(f"key {key!r}: column {name!r} is missing")
        rows.append({field.name: _as_date(row[field.name], field) for field in schema})
        for field in schema:
            _check_whole(row[field.name], field)
    try:
        return pa.Table.from_pylist(rows, schema=schema)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise KeyValueError(f"keys: expected values of {_spelled(schema)}: {error}") from error


def _as_date(value: object, field: pa.Field) -> object:
    """Return the date of an ISO string if the column holds dates; any other value unchanged."""
    if not pa.types.is_date(field.type) or not isinstance(value, str):
        return value
    with contextlib.suppress(ValueError):
        if _ISO_DATE.fullmatch(value):
            return date.fromisoformat(value)
    raise KeyValueError(
        f"key column {field.name!r}: expected a datetime.date or an ISO string such as '2026-01-31', "
        f"found {value!r}"
    )


def _check_whole(value: object, field: pa.Field) -> None:
    """Raise KeyValueError for a value that Arrow would truncate, perhaps to another row's key."""
    cut = pa.types.is_date(field.type) and isinstance(value, datetime)
    if pa.types.is_integer(field.type) and isinstance(value, (float, Decimal)):
        cut = not math.isfinite(value) or value != int(value)
    if cut:
        raise KeyValueError(f"key column {field.name!r}: expected {field.type}, found {value!r}")


def _spelled(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)
