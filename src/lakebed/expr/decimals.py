"""Conversions between decimal types, computed in 256 bits and rounded half up as in Spark."""

import decimal

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.expr.values import Data, Values, checked

WIDEST = 76


def widen(data: Data, scale: int | None = None) -> Data:
    """Return decimals or integers as 256-bit decimals, by default with their own scale."""
    own = data.type.scale if pa.types.is_decimal(data.type) else 0
    return pc.cast(data, pa.decimal256(WIDEST, own if scale is None else scale))


def fit(data: Data, kind: pa.DataType) -> Values:
    """Return wide decimals as decimals of `kind`, rounded half up; rows that are too large fail."""
    if data.type.scale > kind.scale:
        data = pc.round(data, ndigits=kind.scale, round_mode="half_towards_infinity")
    limit = pa.scalar(decimal.Decimal(10) ** (kind.precision - kind.scale), data.type)
    found = checked(data, pc.less(pc.abs(data), limit), f"overflow of {kind}")
    return Values(pc.cast(found.data, kind), found.failed, found.reason)


def truncate(data: Data) -> Data:
    """Return wide decimals truncated to integers, as wide decimals of scale 0."""
    whole = pc.round(data, ndigits=0, round_mode="towards_zero")
    return pc.cast(whole, pa.decimal256(WIDEST, 0))


def unscaled(data: Data, digits: int) -> Data:
    """Return the unscaled values of wide decimals: 1.50 becomes 150."""
    return _as_scale(data, digits, 0)


def scaled(data: Data, scale: int) -> Data:
    """Return integers as the unscaled values of decimals: with scale 2, 150 becomes 1.50."""
    return _as_scale(data, WIDEST, scale)


def _as_scale(data: Data, digits: int, scale: int) -> Data:
    kind = pa.decimal256(digits, scale)
    array = pa.repeat(data, 1) if isinstance(data, pa.Scalar) else data
    made = pa.Array.from_buffers(kind, len(array), array.buffers(), offset=array.offset)
    return made[0] if isinstance(data, pa.Scalar) else made
