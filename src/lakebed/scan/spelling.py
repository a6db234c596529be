"""Writes columns and values of other engines as the text of a predicate."""

import datetime as dt
import decimal
import math
from collections.abc import Iterable

import pyarrow as pa

from lakebed.errors import InvalidError, UnsupportedError
from lakebed.expr.predicate import Predicate

MAX_LIST = 1_000
"""A longer list of values is not written."""


def understood(texts: Iterable[str | None], schema: pa.Schema) -> str | None:
    """Return those of `texts` that are predicates on `schema` as one; None if there are none."""
    kept = [text for text in texts if text is not None and _is_understood(text, schema)]
    return " AND ".join(f"({text})" for text in kept) or None


def _is_understood(text: str, schema: pa.Schema) -> bool:
    try:
        Predicate.parse(text, schema)
    except (InvalidError, UnsupportedError):
        return False
    return True


def column_text(*path: str) -> str:
    """Return the name of a column, or of a field of a struct.

    >>> print(column_text("select"), column_text("place", "a`b"))
    `select` `place`.`a``b`
    """
    return ".".join(f"`{part.replace('`', '``')}`" for part in path)


def literal_text(value: object) -> str | None:
    """Return a typed SQL literal for a value; None if it cannot be written unambiguously."""
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return f"CAST('{value!r}' AS DOUBLE)" if math.isfinite(value) else None
    if isinstance(value, str):
        return string_text(value)
    return _moment(value) if isinstance(value, dt.date) else _decimal(value)


def string_text(text: str) -> str:
    """Return a string literal."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def like_text(column: str, before: str, text: str, after: str) -> str:
    r"""Return the test whether a column is `text` between two patterns.

    >>> print(like_text("s", "", "5%", "%"))
    s LIKE '5\\%%'
    """
    escaped = text.replace("\\", r"\\").replace("%", r"\%").replace("_", r"\_")
    return f"{column} LIKE {string_text(f'{before}{escaped}{after}')}"


def _decimal(value: object) -> str | None:
    if not isinstance(value, decimal.Decimal) or not value.is_finite():
        return None
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int), value
    scale = max(0, -exponent)
    precision = max(len(digits) + max(0, exponent), scale, 1)
    return f"CAST('{value:f}' AS DECIMAL({precision}, {scale}))" if precision <= 38 else None


def _moment(value: dt.date) -> str:
    if not isinstance(value, dt.datetime):
        return f"CAST('{value.isoformat()}' AS DATE)"
    if value.tzinfo is None:
        return f"CAST('{value.isoformat(' ', 'microseconds')}' AS TIMESTAMP_NTZ)"
    utc = value.astimezone(dt.UTC).replace(tzinfo=None)
    return f"CAST('{utc.isoformat(' ', 'microseconds')}Z' AS TIMESTAMP)"
