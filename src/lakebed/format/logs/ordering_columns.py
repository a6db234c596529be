"""Convert ordering values of deletes between Arrow columns and the branches of the union.

    boolean        boolean          float32   float
    int8 to int32  int              float64   double
    date32         int, days        binary    bytes
    int64          long             string    string
    timestamp      long, its unit   decimal   decimal(30,15)

Hudi 1.2.0 writes these branches from Spark, and cannot compare others with its rows: the date and
timestamp branches cause a ClassCastException. (Hudi fails to write a date that is the only ordering
value, and writes a date among several as a local date; it reads an int in both cases.)
"""

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import SchemaError
from lakebed.format.files.float_widening import widen_column
from lakebed.format.logs.delete_block import OrderingKind

_LAST_MILLIS: Final = 9_999_999_999_999
_INTEGERS: Final = frozenset({OrderingKind.INT, OrderingKind.LONG})
_DAYS: Final = frozenset({OrderingKind.INT, OrderingKind.DATE, OrderingKind.LOCAL_DATE})
_TIME_KINDS: Final = frozenset({OrderingKind.LONG, OrderingKind.TIMESTAMP_MICROS})
_FLOATS: Final = frozenset({OrderingKind.FLOAT, OrderingKind.DOUBLE})

_PLAIN: Final = {
    pa.bool_(): OrderingKind.BOOLEAN,
    pa.float32(): OrderingKind.FLOAT,
    pa.float64(): OrderingKind.DOUBLE,
    pa.date32(): OrderingKind.INT,
}
_WRITTEN: Final = {
    OrderingKind.BOOLEAN: pa.bool_(),
    OrderingKind.INT: pa.int32(),
    OrderingKind.LONG: pa.int64(),
    OrderingKind.FLOAT: pa.float32(),
    OrderingKind.DOUBLE: pa.float64(),
    OrderingKind.BYTES: pa.binary(),
    OrderingKind.STRING: pa.string(),
    OrderingKind.DECIMAL: pa.decimal128(38, 15),
}
"""The types of the branches that Lakebed writes."""


def ordering_kind(kind: pa.DataType) -> OrderingKind:
    """Return the branch for values of an Arrow type; raise SchemaError if there is none."""
    if kind in _PLAIN:
        return _PLAIN[kind]
    if pa.types.is_signed_integer(kind):
        return OrderingKind.LONG if kind == pa.int64() else OrderingKind.INT
    if pa.types.is_timestamp(kind) and kind.unit in {"us", "ms"}:
        return OrderingKind.LONG
    if pa.types.is_decimal(kind):
        return OrderingKind.DECIMAL
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return OrderingKind.STRING
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return OrderingKind.BYTES
    raise SchemaError(f"ordering value of a delete: no form for the type {kind}")


def ordering_values(values: pa.Array) -> tuple[OrderingKind, pa.Array]:
    """Return the branch for the values of a column, and the values in the type of the branch.

    Raises ArrowInvalid if a decimal has more digits than the branch allows.
    """
    kind = ordering_kind(values.type)
    if pa.types.is_date(values.type) or pa.types.is_timestamp(values.type):
        return kind, values.view(_WRITTEN[kind])
    return kind, values.cast(_WRITTEN[kind])


def takes_int(kind: pa.DataType) -> bool:
    """Return whether values of a type are stored in the branch `int`."""
    return ordering_kind(kind) is OrderingKind.INT


def fit_ordering(values: pa.Array, kind: OrderingKind, wanted: pa.DataType) -> pa.Array | None:
    """Return the values of a branch as a column of type `wanted`; None if they have another type.

    The column may have been widened since the write. Raises ArrowInvalid if a value does not fit.
    """
    if pa.types.is_signed_integer(wanted) and kind in _INTEGERS:
        return values.cast(wanted)
    if pa.types.is_timestamp(wanted) and kind in _TIME_KINDS:
        return _fit_times(values, kind, wanted)
    if wanted == pa.date32() and kind in _DAYS:
        return values.cast(pa.int32()).view(wanted)
    if pa.types.is_floating(wanted) and kind in _FLOATS | _INTEGERS:
        return _fit_floats(values, wanted)
    if pa.types.is_decimal(wanted) and kind in _INTEGERS:
        return values.cast(pa.decimal256(76, wanted.scale)).cast(wanted)
    return values.cast(wanted) if kind is ordering_kind(wanted) else None


def _fit_times(values: pa.Array, kind: OrderingKind, wanted: pa.DataType) -> pa.Array:
    if kind is OrderingKind.LONG and wanted.unit == "ms":
        # Hudi guesses the unit: values up to the year 2286 are milliseconds, others microseconds.
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
