"""Arithmetic as in Spark's ANSI mode: exact integers and decimals, or an error.

Both operands have the same type, except that decimals may differ in precision and scale. Binding
determines the types of operands and results.
"""

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.expr.decimals import WIDEST, fit, scaled, truncate, unscaled, widen
from lakebed.expr.types import INTEGERS, MAX_DIGITS, is_real
from lakebed.expr.values import Data, Values, checked, null_of

_ZERO = "division by zero"
_UNCHECKED: dict[str, Callable[[Data, Data], Data]] = {
    "+": pc.add,
    "-": pc.subtract,
    "*": pc.multiply,
}
_CHECKED: dict[str, Callable[[Data, Data], Data]] = {
    "+": pc.add_checked,
    "-": pc.subtract_checked,
    "*": pc.multiply_checked,
}


def combine(sign: str, left: Data, right: Data, kind: pa.DataType) -> Values:
    """Return the sum, difference or product of two columns, of type `kind`."""
    if is_real(kind):
        return Values(_UNCHECKED[sign](left, right))
    if kind in INTEGERS:
        return _integers(sign, left, right)
    if sign == "*":
        one = pc.cast(left, pa.decimal256(left.type.precision, left.type.scale))
        other = pc.cast(right, pa.decimal256(right.type.precision, right.type.scale))
        exact = pc.multiply(one, other)
        return fit(pc.cast(exact, pa.decimal256(WIDEST, exact.type.scale)), kind)
    scale = max(left.type.scale, right.type.scale)
    # One digit less than the maximum, so that the sum has the maximum precision.
    inner = pa.decimal256(WIDEST - 1, scale)
    return fit(_UNCHECKED[sign](pc.cast(left, inner), pc.cast(right, inner)), kind)


def divide(left: Data, right: Data, kind: pa.DataType) -> Values:
    """Return the quotient as a double or a decimal of type `kind`."""
    right, zeros = _without_zeros(left, right)
    if is_real(kind):
        return Values(pc.divide(left, right), *zeros)
    places = quotient_places(left.type, right.type, kind)
    digits, more = left.type.precision + places, left.type.scale + places
    numerator = unscaled(pc.cast(left, pa.decimal256(WIDEST, more)), digits)
    denominator = unscaled(widen(right), right.type.precision)
    # Rounding half up needs only one digit more than the result keeps.
    whole = truncate(_wide(pc.divide(numerator, denominator)))
    found = fit(scaled(whole, more - right.type.scale), kind)
    return found.with_errors(zeros)


def quotient_places(left: pa.DataType, right: pa.DataType, kind: pa.DataType) -> int:
    """Return the number of digits to append to a dividend for a quotient of type `kind`."""
    return int(max(0, kind.scale + 1 + right.scale - left.scale))


def is_quotient_exact(left: pa.DataType, right: pa.DataType, kind: pa.DataType) -> bool:
    """Return whether a quotient can be computed in 256 bits with the same result as in Spark.

    Spark rounds twice, first to 38 fractional digits. That changes the result only if the divisor
    has about as many fractional digits.
    """
    digits = left.precision + quotient_places(left, right, kind)
    fits = digits + right.precision + 1 <= WIDEST
    return bool(fits and right.precision + kind.scale < MAX_DIGITS)


def is_remainder_exact(left: pa.DataType, right: pa.DataType) -> bool:
    """Return whether a remainder can be computed in 256 bits."""
    scale = max(left.scale, right.scale)
    digits = left.precision + right.precision + 2 * scale - left.scale - right.scale
    return bool(digits + 2 <= WIDEST)


def divide_whole(left: Data, right: Data) -> Values:
    """Return the quotient of two 64-bit integers, truncated to an integer."""
    right, zeros = _without_zeros(left, right)
    least = pa.scalar(-(1 << 63))
    overflows = pc.and_(pc.equal(left, least), pc.equal(right, pa.scalar(-1)))
    found = checked(pc.divide(left, right), pc.invert(overflows), "overflow of BIGINT")
    return found.with_errors(zeros)


def remainder(left: Data, right: Data, kind: pa.DataType) -> Values:
    """Return the remainder of a division, with the sign of the dividend."""
    right, zeros = _without_zeros(left, right)
    if is_real(kind):
        return Values(_fmod(left, right), *zeros)
    if kind in INTEGERS:
        # The remainder by -1 and by 1 is 0; dividing the smallest integer by -1 would overflow.
        safe = pc.if_else(pc.equal(right, pa.scalar(-1, kind)), pa.scalar(1, kind), right)
        rest = pc.subtract(left, pc.multiply(pc.divide(left, safe), safe))
        return Values(rest, *zeros)
    scale = max(left.type.scale, right.type.scale)
    one, other = (
        unscaled(widen(side, scale), side.type.precision + scale - side.type.scale)
        for side in (left, right)
    )
    times = pc.cast(truncate(_wide(pc.divide(one, other))), pa.decimal256(one.type.precision, 0))
    taken = pc.cast(pc.multiply(times, other), pa.decimal256(WIDEST - 1, 0))
    rest = pc.subtract(pc.cast(one, taken.type), taken)
    return fit(scaled(rest, scale), kind).with_errors(zeros)


def negative(data: Data) -> Values:
    """Return the negated values."""
    return _one_sided(data, pc.negate, pc.negate_checked)


def absolute(data: Data) -> Values:
    """Return the absolute values."""
    return _one_sided(data, pc.abs, pc.abs_checked)


def _one_sided(data: Data, act: Callable[[Data], Data], exact: Callable[[Data], Data]) -> Values:
    if data.type not in INTEGERS:
        return Values(act(data))
    try:
        return Values(exact(data))
    except pa.ArrowInvalid:
        least = pa.scalar(-(1 << (data.type.bit_width - 1)), data.type)
        return checked(act(data), pc.not_equal(data, least), f"overflow of {data.type}")


def _integers(sign: str, left: Data, right: Data) -> Values:
    try:
        return Values(_CHECKED[sign](left, right))
    except pa.ArrowInvalid:
        # At least one row overflows; compute with more digits to find out which.
        kind = left.type
        half = 1 << (kind.bit_width - 1)
        exact = _UNCHECKED[sign](*(pc.cast(side, pa.decimal256(20, 0)) for side in (left, right)))
        low, high = (pc.cast(pa.scalar(end), exact.type) for end in (-half, half - 1))
        inside = pc.and_(pc.less_equal(low, exact), pc.less_equal(exact, high))
        return checked(_UNCHECKED[sign](left, right), inside, f"overflow of {kind}")


def _without_zeros(left: Data, right: Data) -> tuple[Data, tuple[pa.BooleanArray | None, str]]:
    """Return the divisors with nulls for zeros, and which rows divide a non-null value by zero."""
    is_zero = pc.fill_null(pc.equal(right, pa.scalar(0, right.type)), False)
    failed = pc.and_(pc.is_valid(left), is_zero)
    if not pc.any(failed).as_py():
        return right, (None, "")
    return pc.if_else(is_zero, null_of(right.type), right), (failed, _ZERO)


def _fmod(left: Data, right: Data) -> pa.Array:
    sides = [
        side.as_py() if isinstance(side, pa.Scalar) else side.to_numpy(zero_copy_only=False)
        for side in (left, right)
    ]
    kind = left.type
    null = pc.or_(pc.is_null(left), pc.is_null(right))
    one, other = (np.asarray(np.nan if s is None else s, kind.to_pandas_dtype()) for s in sides)
    with np.errstate(all="ignore"):
        rest = np.fmod(one, other)
    size = len(rest) if rest.ndim else 1
    mask = np.asarray(null.as_py() if isinstance(null, pa.Scalar) else null, dtype=bool)
    return pa.array(np.atleast_1d(rest), kind, mask=np.broadcast_to(mask, size))


def _wide(data: Data) -> Data:
    return pc.cast(data, pa.decimal256(WIDEST, data.type.scale))
