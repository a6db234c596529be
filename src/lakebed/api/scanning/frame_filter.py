"""Reads an expression of Polars by its public interface alone, into predicates.

Polars gives the inputs of an expression, but not its operation. So each operation that is known is
applied to the inputs, and compared with the expression: nothing is taken for what it is not.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

import polars as pl
import pyarrow as pa

from lakebed.api.scanning.terms import Terms
from lakebed.scan.spelling import column_text, like_text

if TYPE_CHECKING:
    from polars._typing import ClosedInterval

_MAX_DEPTH = 200

_SIGNS: dict[str, Callable[[pl.Expr, pl.Expr], pl.Expr]] = {
    "=": lambda left, right: left == right,
    "<": lambda left, right: left < right,
    "<=": lambda left, right: left <= right,
    ">": lambda left, right: left > right,
    ">=": lambda left, right: left >= right,
    "<>": lambda left, right: left != right,
    "<=>": lambda left, right: left.eq_missing(right),
}
_FLIPPED = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<=", "<>": "<>", "<=>": "<=>"}
_WITHIN: dict["ClosedInterval", tuple[str, str]] = {
    "both": (">=", "<="),
    "left": (">=", "<"),
    "right": (">", "<="),
    "none": (">", "<"),
}


def filter_texts(expression: pl.Expr, schema: pa.Schema) -> list[str | None]:
    """Return predicates that are all true where the expression is; None for parts left out."""
    terms = Terms(schema)
    return [_implied(part, terms, 0) for part in _conjuncts(expression)]


def _conjuncts(expression: pl.Expr) -> list[pl.Expr]:
    """Return the operands of a chain of AND, the first first."""
    waiting = [expression]
    found: list[pl.Expr] = []
    while waiting:
        one = waiting.pop()
        both = _split(one, lambda left, right: left & right)
        if both is None or len(found) + len(waiting) >= _MAX_DEPTH:
            found.append(one)
        else:
            waiting.extend(reversed(both))
    return found


def _implied(one: pl.Expr, terms: Terms, depth: int) -> str | None:
    """Return a predicate that is true wherever `one` is; None if there is none to write."""
    if depth > _MAX_DEPTH:
        return None
    if both := _split(one, lambda left, right: left | right):
        parts = [_implied(part, terms, depth + 1) for part in both]
        known = [f"({part})" for part in parts if part is not None]
        return " OR ".join(known) if len(known) == len(parts) else None
    if both := _split(one, lambda left, right: left & right):
        parts = [_implied(part, terms, depth + 1) for part in both]
        return " AND ".join(f"({part})" for part in parts if part is not None) or None
    return _within(one, terms) or _negated(one, terms) or _exact(one, terms)


def _within(one: pl.Expr, terms: Terms) -> str | None:
    """Return the predicate of a test for values, a range or a prefix."""
    inputs = list(reversed(one.meta.pop()))
    path = _path(inputs[0]) if len(inputs) > 1 else None
    if path is None or not all(bound.meta.is_literal() for bound in inputs[1:]):
        return None
    if len(inputs) == 2:
        column, values = inputs
        if one.meta.eq(column.is_in(values)):
            found = _values(values)
            return None if found is None else terms.listed(path, found)
        if one.meta.eq(column.str.starts_with(values)) and terms.is_string(path):
            prefix = _scalar(values).as_py()
            return like_text(column_text(*path), "", prefix, "%") if type(prefix) is str else None
    if len(inputs) == 3:
        column, low, high = inputs
        for closed, signs in _WITHIN.items():
            if one.meta.eq(column.is_between(low, high, closed)):
                pairs = zip(signs, (low, high), strict=True)
                parts = [terms.compared(path, sign, _scalar(bound)) for sign, bound in pairs]
                return " AND ".join(f"({part})" for part in parts if part is not None) or None
    return None


def _negated(one: pl.Expr, terms: Terms) -> str | None:
    inputs = one.meta.pop()
    if len(inputs) != 1 or not one.meta.eq(~inputs[0]):
        return None
    exact = _exact(inputs[0], terms)
    return None if exact is None else f"NOT ({exact})"


def _exact(one: pl.Expr, terms: Terms) -> str | None:
    """Return a predicate that is true, false and null where `one` is; None if there is none."""
    path = _path(one)
    if path is not None:
        return column_text(*path) if terms.is_boolean(path) else None
    inputs = one.meta.pop()
    if len(inputs) == 1 and inputs[0].meta.is_column():
        column = column_text(inputs[0].meta.output_name())
        if one.meta.eq(inputs[0].is_null()):
            return f"{column} IS NULL"
        return f"{column} IS NOT NULL" if one.meta.eq(inputs[0].is_not_null()) else None
    for sign, make in _SIGNS.items():
        if both := _split(one, make):
            left, right = both
            if left.meta.is_literal():
                left, right, sign = right, left, _FLIPPED[sign]  # noqa: PLW2901 - as one
            path = _path(left)
            if path is None or not right.meta.is_literal():
                return None
            return terms.compared(path, sign, _scalar(right))
    return None


def _split(
    one: pl.Expr, make: Callable[[pl.Expr, pl.Expr], pl.Expr]
) -> tuple[pl.Expr, pl.Expr] | None:
    """Return the operands if an expression is what `make` makes of its two inputs."""
    inputs = one.meta.pop()
    if len(inputs) != 2:
        return None
    for left, right in (inputs[::-1], inputs):
        if one.meta.eq(make(left, right)):
            return left, right
    return None


def _path(one: pl.Expr) -> tuple[str, ...] | None:
    """Return the names of a column, or of a field of a struct; None for other expressions."""
    if one.meta.is_column():
        return (one.meta.output_name(),)
    inputs = one.meta.pop()
    if len(inputs) != 1 or (above := _path(inputs[0])) is None:
        return None
    name = one.meta.output_name(raise_if_undetermined=False)
    if name is None or not one.meta.eq(inputs[0].struct.field(name)):
        return None
    return (*above, name)


def _scalar(literal: pl.Expr) -> pa.Scalar:
    """Return the value of a literal with its type; null for a series, and where Arrow has no such."""
    values = _array(pl.select(literal).to_series())
    return values[0] if len(values) == 1 else pa.scalar(None)


def _values(literal: pl.Expr) -> pa.Array | None:
    """Return the values of a literal list or series; None where Arrow has no such type."""
    values = pl.select(literal).to_series()
    found = _array(values.explode() if isinstance(values.dtype, pl.List) else values)
    return None if pa.types.is_null(found.type) and len(found) else found


def _array(values: pl.Series) -> pa.Array:
    """Return values as an array; nulls of type null where Arrow has no such type."""
    try:
        return values.to_arrow()
    except (pl.exceptions.PolarsError, pa.ArrowException):
        return pa.nulls(len(values))
