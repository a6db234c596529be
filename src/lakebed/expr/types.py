"""The types of a predicate's values, and the common type of two of them in Spark's ANSI mode.

A comparison casts both sides to one type: a float and an integer or a decimal to double, an integer
and a decimal to a decimal wide enough for both, a date and a timestamp to the timestamp of midnight
in UTC, a string to the other type. Arithmetic on decimals has its own result types, with as many
digits as the exact result needs, but at most 38.
"""

from collections.abc import Sequence

import pyarrow as pa

TIMESTAMP = pa.timestamp("us", "UTC")
TIMESTAMP_NTZ = pa.timestamp("us")
INTEGERS = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
LONGS = range(-(1 << 63), 1 << 63)
TIMES = (pa.date32(), TIMESTAMP_NTZ, TIMESTAMP)
MAX_DIGITS = 38
_DIGITS = dict(zip(INTEGERS, (3, 5, 10, 20), strict=True))
# Spark keeps at least this many fractional digits when it must reduce the scale.
_MIN_SCALE = 6
_NEGATED_DIGITS = 34
_NAMED = {
    **dict.fromkeys(("TINYINT", "BYTE"), pa.int8()),
    **dict.fromkeys(("SMALLINT", "SHORT"), pa.int16()),
    **dict.fromkeys(("INT", "INTEGER"), pa.int32()),
    **dict.fromkeys(("BIGINT", "LONG"), pa.int64()),
    **dict.fromkeys(("FLOAT", "REAL"), pa.float32()),
    "DOUBLE": pa.float64(),
    "STRING": pa.string(),
    "BINARY": pa.binary(),
    "BOOLEAN": pa.bool_(),
    "DATE": pa.date32(),
    **dict.fromkeys(("TIMESTAMP", "TIMESTAMP_LTZ"), TIMESTAMP),
    "TIMESTAMP_NTZ": TIMESTAMP_NTZ,
}
_NAMES = {kind: name for name, kind in reversed(_NAMED.items())}


def type_named(name: str, sizes: Sequence[str] = ()) -> pa.DataType | None:
    """Return the type with this upper-case SQL name, or None if there is none.

    >>> type_named("DECIMAL", ["10", "2"]), type_named("VARCHAR", ["5"])
    (Decimal128Type(decimal128(10, 2)), None)
    """
    if name in ("DECIMAL", "DEC", "NUMERIC") and len(sizes) <= 2:
        precision, scale = ([int(size) for size in sizes] + [10, 0][len(sizes) :])[:2]
        fits = 0 <= scale <= precision <= MAX_DIGITS and precision > 0
        return pa.decimal128(precision, scale) if fits else None
    return None if sizes else _NAMED.get(name)


def type_name(kind: pa.DataType) -> str:
    """Return the SQL name of a type."""
    if pa.types.is_decimal(kind):
        return f"DECIMAL({kind.precision},{kind.scale})"
    return str(_NAMES.get(kind, "NULL" if pa.types.is_null(kind) else str(kind).upper()))


def is_number(kind: pa.DataType) -> bool:
    """Return whether `kind` is an integer, a decimal or a floating point number."""
    return kind in INTEGERS or is_real(kind) or pa.types.is_decimal(kind)


def is_real(kind: pa.DataType) -> bool:
    """Return whether `kind` is a float or a double."""
    return kind in (pa.float32(), pa.float64())


def is_negated_exactly(kind: pa.DataType) -> bool:
    """Return whether Spark negates `kind` exactly; it rounds decimals to 34 digits."""
    return not pa.types.is_decimal(kind) or kind.precision <= _NEGATED_DIGITS


def is_supported(kind: pa.DataType) -> bool:
    """Return whether values of `kind` can be compared; others can only be tested for null."""
    return kind in _NAMES or pa.types.is_decimal(kind)


def as_decimal(kind: pa.DataType) -> pa.DataType:
    """Return the decimal type that holds all values of an integer type; other types unchanged."""
    return pa.decimal128(_DIGITS[kind], 0) if kind in INTEGERS else kind


def comparison_type(kinds: Sequence[pa.DataType]) -> pa.DataType | None:
    """Return the type in which Spark compares values of `kinds`; None if not supported.

    A string with two or more other types is unsupported: Spark's choice depends on their order.
    """
    known = list(dict.fromkeys(kind for kind in kinds if not pa.types.is_null(kind)))
    if not known:
        return pa.null()
    others = [kind for kind in known if kind != pa.string()]
    if others and len(others) < len(known):
        return _type_beside_text(others[0]) if len(others) == 1 else None
    return common_type(known)


def common_type(kinds: Sequence[pa.DataType]) -> pa.DataType | None:
    """Return the type of a CASE, COALESCE or IF with values of `kinds`; None if unsupported."""
    known = list(dict.fromkeys(kind for kind in kinds if not pa.types.is_null(kind)))
    if not known:
        return pa.null()
    kind = known[0] if is_supported(known[0]) else None
    for other in known[1:]:
        kind = None if kind is None else _wider(kind, other)
    return kind


def _wider(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    if left in INTEGERS and right in INTEGERS:
        return max(left, right, key=INTEGERS.index)
    if left in TIMES and right in TIMES:
        return max(left, right, key=TIMES.index)
    if not (is_number(left) and is_number(right)):
        return None
    if is_real(left) or is_real(right):
        return pa.float64()
    one, other = as_decimal(left), as_decimal(right)
    scale = max(one.scale, other.scale)
    precision = max(one.precision - one.scale, other.precision - other.scale) + scale
    # With more than 38 digits, Spark rounds or fails.
    return pa.decimal128(precision, scale) if precision <= MAX_DIGITS else None


def _type_beside_text(kind: pa.DataType) -> pa.DataType | None:
    """Return the type to which Spark casts a string compared with a value of `kind`, or None."""
    if kind in INTEGERS:
        return pa.int64()
    if is_number(kind):
        return pa.float64()
    return kind if is_supported(kind) else None


def sum_type(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    """Return the type of a sum or difference of two decimals."""
    scale = max(left.scale, right.scale)
    whole = max(left.precision - left.scale, right.precision - right.scale)
    return _cut(whole + scale + 1, scale)


def product_type(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    """Return the type of a product of two decimals."""
    return _cut(left.precision + right.precision + 1, left.scale + right.scale)


def quotient_type(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    """Return the type of a quotient of two decimals."""
    scale = max(_MIN_SCALE, left.scale + right.precision + 1)
    return _cut(left.precision - left.scale + right.scale + scale, scale)


def remainder_type(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    """Return the type of a remainder of two decimals."""
    scale = max(left.scale, right.scale)
    whole = min(left.precision - left.scale, right.precision - right.scale)
    return _cut(whole + scale, scale)


def _cut(precision: int, scale: int) -> pa.DataType:
    if precision <= MAX_DIGITS:
        return pa.decimal128(precision, scale)
    kept = max(MAX_DIGITS - (precision - scale), min(scale, _MIN_SCALE))
    return pa.decimal128(MAX_DIGITS, kept)
