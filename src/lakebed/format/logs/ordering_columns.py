"""Ordering values of deletes as Arrow columns: which branch of the union holds which type.

    boolean        boolean          float32   float
    int8 to int32  int              float64   double
    date32         int, days        binary    bytes
    int64          long             string    string
    timestamp      long, its unit   decimal   decimal(30,15)

That is what Hudi 1.2.0 writes from Spark, and all that it can compare with its rows: to a date
or timestamp of the branch with that name it answers with a ClassCastException. (A single date
it cannot write at all, one of several it writes as a local date; it reads int for both.)
"""

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import SchemaError
from lakebed.format.avro.avro_columns import encode_longs, encode_sized, fixed, join, ragged
from lakebed.format.files.float_widening import widen_column
from lakebed.format.logs.delete_block import OrderingKind

DECIMAL: Final = pa.decimal128(38, 15)
_LAST_MILLIS: Final = 9_999_999_999_999
_FIXED: Final = {
    pa.bool_(): (OrderingKind.BOOLEAN, np.dtype("u1")),
    pa.float32(): (OrderingKind.FLOAT, np.dtype("<f4")),
    pa.float64(): (OrderingKind.DOUBLE, np.dtype("<f8")),
}
_INTEGERS: Final = frozenset({OrderingKind.INT, OrderingKind.LONG})
_DAYS: Final = frozenset({OrderingKind.INT, OrderingKind.DATE, OrderingKind.LOCAL_DATE})
_MOMENTS: Final = frozenset({OrderingKind.LONG, OrderingKind.TIMESTAMP_MICROS})
_FLOATS: Final = frozenset({OrderingKind.FLOAT, OrderingKind.DOUBLE})

NATURAL: Final = {
    OrderingKind.BOOLEAN: pa.bool_(),
    OrderingKind.FLOAT: pa.float32(),
    OrderingKind.DOUBLE: pa.float64(),
    OrderingKind.BYTES: pa.binary(),
    OrderingKind.STRING: pa.string(),
    OrderingKind.DECIMAL: DECIMAL,
}
"""The type of a branch's values here; int64 for all that are numbers on disk."""


def ordering_kind(kind: pa.DataType) -> OrderingKind:
    """Name the branch that holds values of an Arrow type; SchemaError if there is none."""
    if kind in _FIXED:
        return _FIXED[kind][0]
    if pa.types.is_signed_integer(kind):
        return OrderingKind.LONG if kind == pa.int64() else OrderingKind.INT
    if pa.types.is_timestamp(kind) and kind.unit in {"us", "ms"}:
        return OrderingKind.LONG
    if kind == pa.date32():
        return OrderingKind.INT
    if pa.types.is_decimal(kind):
        return OrderingKind.DECIMAL
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return OrderingKind.STRING
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return OrderingKind.BYTES
    raise SchemaError(f"ordering value of a delete: no form for the type {kind}")


def encode_ordering(values: pa.Array, null: bytes) -> pa.Array:
    """Write each value behind the number of its branch, and `null` for each null.

    ArrowInvalid where a decimal has more digits than the branch holds.
    """
    kind = ordering_kind(values.type)
    tag = bytes([kind << 1])
    if kind is OrderingKind.DECIMAL:
        plain = encode_sized(_unscaled(values.cast(DECIMAL)))
    elif kind in NATURAL and values.type not in _FIXED:
        plain = encode_sized(values.fill_null(pa.scalar(b"", pa.binary()).cast(values.type)))
    else:
        plain = _encode_numbers(values)
    column = join([tag, plain])
    if values.null_count:
        column = pc.if_else(values.is_null(), pa.scalar(null, pa.large_binary()), column)
    return column


def _encode_numbers(values: pa.Array) -> pa.Array:
    if values.type in _FIXED:
        dtype = _FIXED[values.type][1]
        filled = values.fill_null(pa.scalar(0).cast(values.type))
        return fixed(filled.to_numpy(zero_copy_only=False).astype(dtype))
    if pa.types.is_date(values.type):
        values = values.view(pa.int32())
    elif pa.types.is_timestamp(values.type):
        values = values.view(pa.int64())
    return encode_longs(values.cast(pa.int64()).fill_null(0).to_numpy())


def _unscaled(values: pa.Array) -> pa.Array:
    """Return the unscaled integers as the shortest two's complement, as Java's BigInteger does."""
    filled = values.fill_null(pa.scalar(0).cast(values.type))
    start = filled.offset * 16
    raw = np.frombuffer(filled.buffers()[1], dtype=np.uint8)[start : start + len(filled) * 16]
    big = raw.reshape(-1, 16)[:, ::-1]
    sign = np.where(big[:, :1] >= 0x80, 0xFF, 0).astype(np.uint8)
    # A leading byte is one too many if it only repeats the sign of the byte behind it.
    same_sign = (big[:, 1:] >= 0x80) == (sign == 0xFF)
    spare = np.logical_and.accumulate((big[:, :-1] == sign) & same_sign, axis=1)
    kept = np.concatenate([~spare, np.ones((len(big), 1), dtype=bool)], axis=1)
    return ragged(np.ascontiguousarray(big), kept)


def takes_int(kind: pa.DataType) -> bool:
    """Return whether `int` is the branch of a type: only then can an int in an array be a value."""
    return ordering_kind(kind) is OrderingKind.INT


def fit_ordering(values: pa.Array, kind: OrderingKind, wanted: pa.DataType) -> pa.Array | None:
    """Return the values of a branch in a column's type; None where the branch says another type.

    A column may have become wider since; ArrowInvalid where a value does not fit it.
    """
    if pa.types.is_signed_integer(wanted) and kind in _INTEGERS:
        return values.cast(wanted)
    if pa.types.is_timestamp(wanted) and kind in _MOMENTS:
        return _fit_moments(values, kind, wanted)
    if wanted == pa.date32() and kind in _DAYS:
        return values.cast(pa.int32()).view(wanted)
    if pa.types.is_floating(wanted) and kind in _FLOATS | _INTEGERS:
        return _fit_floats(values, wanted)
    if pa.types.is_decimal(wanted) and kind in _INTEGERS:
        return values.cast(pa.decimal256(76, wanted.scale)).cast(wanted)
    return values.cast(wanted) if kind is ordering_kind(wanted) else None


def _fit_moments(values: pa.Array, kind: OrderingKind, wanted: pa.DataType) -> pa.Array:
    if kind is OrderingKind.LONG and wanted.unit == "ms":
        # Hudi's own guess: up to the year 2286 it is milliseconds, beyond that microseconds.
        millis = pc.less_equal(values, _LAST_MILLIS)
        values = pc.if_else(millis, values, pc.divide(values, 1000))
        return values.view(wanted)
    unit = "us" if kind is OrderingKind.TIMESTAMP_MICROS else wanted.unit
    return values.view(pa.timestamp(unit, wanted.tz)).cast(wanted)


def _fit_floats(values: pa.Array, wanted: pa.DataType) -> pa.Array:
    if pa.types.is_float32(values.type) and pa.types.is_float64(wanted):
        return widen_column(values)
    found = values.cast(wanted)
    if pa.types.is_floating(values.type):
        lossy = pc.and_(pc.not_equal(found.cast(values.type), values), pc.invert(pc.is_nan(values)))
        if pc.any(lossy).as_py():
            raise pa.ArrowInvalid(f"a number has more digits than {wanted}")
    return found
