"""Converts Spark's pushed filters to a predicate.

A filter is only a hint here: Spark applies each filter again, so a filter that is not understood,
or whose value cannot be written unambiguously, is left out.
"""

import datetime as dt
import decimal
import math
from collections.abc import Callable, Iterable

import pyarrow as pa
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

from lakebed.errors import InvalidError, UnsupportedError
from lakebed.expr.predicate import Predicate

_SIGNS: dict[type[Filter], str] = {
    EqualTo: "=",
    EqualNullSafe: "<=>",
    GreaterThan: ">",
    GreaterThanOrEqual: ">=",
    LessThan: "<",
    LessThanOrEqual: "<=",
}
_PATTERNS: dict[type[Filter], Callable[[str], str]] = {
    StringStartsWith: lambda text: f"{text}%",
    StringEndsWith: lambda text: f"%{text}",
    StringContains: lambda text: f"%{text}%",
}
_MAX_LIST = 1_000


def to_predicate(filters: Iterable[Filter], schema: pa.Schema) -> str | None:
    """Combine the filters that are understood into one predicate; return None if there are none."""
    spelled = []
    for one in filters:
        text = _spell(one)
        if text is not None and _is_understood(text, schema):
            spelled.append(text)
    return " AND ".join(f"({text})" for text in spelled) or None


def _is_understood(text: str, schema: pa.Schema) -> bool:
    try:
        Predicate.parse(text, schema)
    except (InvalidError, UnsupportedError):
        return False
    return True


def _spell(one: Filter) -> str | None:
    if isinstance(one, Not):
        inner = _spell(one.child)
        return None if inner is None else f"NOT ({inner})"
    path: tuple[str, ...] = getattr(one, "attribute", ())
    if len(path) != 1:
        return None  # a field of a struct
    column = f"`{path[0].replace('`', '``')}`"
    if isinstance(one, (IsNull, IsNotNull)):
        return f"{column} IS {'NOT ' if isinstance(one, IsNotNull) else ''}NULL"
    return _compared(column, one)


def _compared(column: str, one: Filter) -> str | None:
    value = getattr(one, "value", None)
    if isinstance(one, In):
        values = list(value or ())
        items = [_literal(item) for item in values[: _MAX_LIST + 1]]
        known = [item for item in items if item is not None]
        whole = 0 < len(known) == len(values)
        return f"{column} IN ({', '.join(known)})" if whole else None
    if type(one) in _PATTERNS:
        if not isinstance(value, str):
            return None
        escaped = value.replace("\\", r"\\").replace("%", r"\%").replace("_", r"\_")
        return f"{column} LIKE {_quoted(_PATTERNS[type(one)](escaped))}"
    literal = _literal(value)
    sign = _SIGNS.get(type(one))
    return None if literal is None or sign is None else f"{column} {sign} {literal}"


def _literal(value: object) -> str | None:
    """Return a typed SQL literal for a value; None if it cannot be written unambiguously."""
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return f"CAST('{value!r}' AS DOUBLE)" if math.isfinite(value) else None
    if isinstance(value, str):
        return _quoted(value)
    return _time_literal(value) if isinstance(value, dt.date) else _decimal(value)


def _decimal(value: object) -> str | None:
    if not isinstance(value, decimal.Decimal) or not value.is_finite():
        return None
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int), value
    scale = max(0, -exponent)
    precision = max(len(digits) + max(0, exponent), scale, 1)
    return f"CAST('{value:f}' AS DECIMAL({precision}, {scale}))" if precision <= 38 else None


def _time_literal(value: dt.date) -> str:
    if not isinstance(value, dt.datetime):
        return f"CAST('{value.isoformat()}' AS DATE)"
    if value.tzinfo is None:
        return f"CAST('{value.isoformat(' ', 'microseconds')}' AS TIMESTAMP_NTZ)"
    utc = value.astimezone(dt.UTC).replace(tzinfo=None)
    return f"CAST('{utc.isoformat(' ', 'microseconds')}Z' AS TIMESTAMP)"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
