"""Converts Spark's pushed filters to a predicate.

A filter is only a hint here: Spark applies each filter again, so a filter that is not understood,
or whose value cannot be written unambiguously, is left out.
"""

from collections.abc import Iterable

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

from lakebed.scan.spelling import MAX_LIST, column_text, like_text, literal_text, understood

_SIGNS: dict[type[Filter], str] = {
    EqualTo: "=",
    EqualNullSafe: "<=>",
    GreaterThan: ">",
    GreaterThanOrEqual: ">=",
    LessThan: "<",
    LessThanOrEqual: "<=",
}
_PATTERNS: dict[type[Filter], tuple[str, str]] = {
    StringStartsWith: ("", "%"),
    StringEndsWith: ("%", ""),
    StringContains: ("%", "%"),
}


def to_predicate(filters: Iterable[Filter], schema: pa.Schema) -> str | None:
    """Return the filters that are understood as one predicate; None if there are none."""
    return understood(map(_spell, filters), schema)


def _spell(one: Filter) -> str | None:
    if isinstance(one, Not):
        inner = _spell(one.child)
        return None if inner is None else f"NOT ({inner})"
    path: tuple[str, ...] = getattr(one, "attribute", ())
    if len(path) != 1:
        return None  # a field of a struct
    column = column_text(*path)
    if isinstance(one, (IsNull, IsNotNull)):
        return f"{column} IS {'NOT ' if isinstance(one, IsNotNull) else ''}NULL"
    return _compared(column, one)


def _compared(column: str, one: Filter) -> str | None:
    value = getattr(one, "value", None)
    if isinstance(one, In):
        values = list(value or ())
        items = [literal_text(item) for item in values[:MAX_LIST]]
        known = [item for item in items if item is not None]
        whole = 0 < len(known) == len(values)
        return f"{column} IN ({', '.join(known)})" if whole else None
    if type(one) in _PATTERNS:
        before, after = _PATTERNS[type(one)]
        return like_text(column, before, value, after) if isinstance(value, str) else None
    literal = literal_text(value)
    sign = _SIGNS.get(type(one))
    return None if literal is None or sign is None else f"{column} {sign} {literal}"
