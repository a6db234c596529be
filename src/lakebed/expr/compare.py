"""Comparisons in which NaN equals itself and exceeds any other number, and -0.0 equals 0.0."""

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.expr.types import is_real
from lakebed.expr.values import Data

_Comparison = Callable[[Data, Data], Data]


def _equal(left: Data, right: Data) -> Data:
    return pc.or_(pc.equal(left, right), pc.and_(pc.is_nan(left), pc.is_nan(right)))


def _less(left: Data, right: Data) -> Data:
    return pc.or_(pc.less(left, right), pc.and_(pc.invert(pc.is_nan(left)), pc.is_nan(right)))


_PLAIN: dict[str, _Comparison] = {
    "=": pc.equal,
    "<>": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
_FLOATING: dict[str, _Comparison] = {
    "=": _equal,
    "<>": lambda left, right: pc.invert(_equal(left, right)),
    "<": _less,
    "<=": lambda left, right: pc.invert(_less(right, left)),
    ">": lambda left, right: _less(right, left),
    ">=": lambda left, right: pc.invert(_less(left, right)),
}
COMPARISONS = tuple(_PLAIN)


def compare(sign: str, left: Data, right: Data) -> Data:
    """Return the comparison of values of the same type; null where either value is null."""
    known = _FLOATING if is_real(left.type) else _PLAIN
    return known[sign](left, right)


def same(left: Data, right: Data) -> Data:
    """Return for each row whether two values of the same type are equal or both null."""
    both_null = pc.and_(pc.is_null(left), pc.is_null(right))
    return pc.coalesce(compare("=", left, right), both_null)


def is_among(data: Data, constants: pa.Array) -> Data:
    """Return for each value whether it equals one of `constants`; false for null."""
    if is_real(data.type):
        data, constants = _one_spelling(data), _one_spelling(constants)
    return pc.is_in(data, value_set=constants)


def _one_spelling(data: Data) -> Data:
    """Return floats with one bit pattern for zero and one for NaN: Arrow hashes the bits."""
    nan = pa.scalar(float("nan"), data.type)
    return pc.if_else(pc.is_nan(data), nan, pc.add(data, pa.scalar(0.0, data.type)))
