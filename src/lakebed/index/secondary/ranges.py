"""Convert the constraints of a predicate to ranges of index keys that can satisfy it.

Columns of an index are used from left to right. If the predicate restricts a column to listed
values (null included), the next column is used too; a column restricted to a range is the last one.
The key of every row that satisfies the predicate is in one of the ranges; the ranges may contain
other keys.
"""

import decimal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from lakebed.expr.constraints import Allowed, Constraints, Limit, Value
from lakebed.format.index.ordered_bytes import NULL, VALUE, after_prefix, encode_values
from lakebed.table.read.key_filter import Range

MAX_RANGES = 10_000
_EXACT = decimal.Context(prec=100)


@dataclass(frozen=True, slots=True)
class KeyRanges:
    """The ranges to search, ascending, and the number of index columns that they use."""

    ranges: tuple[Range, ...]
    columns: int


def key_ranges(
    columns: Sequence[str], kinds: Sequence[pa.DataType], constraints: Constraints
) -> KeyRanges | None:
    """Return the key ranges of rows that satisfy `constraints`; None if the index does not help."""
    prefixes = [b""]
    used = 0
    for name, kind in zip(columns, kinds, strict=True):
        allowed = constraints.columns.get(name)
        if allowed is None:
            break
        parts = _finite(allowed, kind)
        if parts is None:
            spans = list(_spans(allowed, kind))
            found = [_below(prefix, span) for prefix in prefixes for span in spans]
            return KeyRanges(tuple(sorted(found, key=lambda span: span[0])), used + 1)
        if len(prefixes) * len(parts) > MAX_RANGES:
            break
        prefixes = [prefix + part for prefix in prefixes for part in parts]
        used += 1
    if not used:
        return None
    return KeyRanges(tuple((prefix, after_prefix(prefix)) for prefix in sorted(prefixes)), used)


def _finite(allowed: Allowed, kind: pa.DataType) -> list[bytes] | None:
    """Return the encoded values that `allowed` lists, including null; None if it is a range."""
    if allowed.values is None:
        return None
    known = (_encoded(value, kind) for value in allowed.values)
    nulls = [NULL] if allowed.null else []
    return [*nulls, *sorted({part for part in known if part is not None})]


def _spans(allowed: Allowed, kind: pa.DataType) -> Iterator[Range]:
    if allowed.null:
        yield NULL, after_prefix(NULL)
    start, end = VALUE, after_prefix(VALUE)
    if allowed.lower is not None:
        start = _start(allowed.lower, kind)
    if allowed.upper is not None:
        end = _end(allowed.upper, kind)
    if end is None or start < end:
        yield start, end


def _start(limit: Limit, kind: pa.DataType) -> bytes:
    value, inclusive = limit.value, limit.inclusive
    if isinstance(value, decimal.Decimal):
        rounded = _rounded(value, kind, decimal.ROUND_CEILING)
        if rounded is None:
            return VALUE  # outside of the column's range: no lower limit
        value, inclusive = rounded, inclusive or rounded != value
    part = _encode(value, kind)
    return part if inclusive else after_prefix(part) or part


def _end(limit: Limit, kind: pa.DataType) -> bytes | None:
    value, inclusive = limit.value, limit.inclusive
    if isinstance(value, decimal.Decimal):
        rounded = _rounded(value, kind, decimal.ROUND_FLOOR)
        if rounded is None:
            return after_prefix(VALUE)
        value, inclusive = rounded, inclusive or rounded != value
    part = _encode(value, kind)
    return after_prefix(part) if inclusive else part


def _encoded(value: Value, kind: pa.DataType) -> bytes | None:
    """Return the encoding of a value, or None if the column cannot have the value."""
    if isinstance(value, decimal.Decimal):
        rounded = _rounded(value, kind, decimal.ROUND_FLOOR)
        return None if rounded is None or rounded != value else _encode(rounded, kind)
    return _encode(value, kind)


def _encode(value: Value, kind: pa.DataType) -> bytes:
    # Constants may have a wider type than the column; the encoding is the same.
    if pa.types.is_floating(kind):
        kind = pa.float64()
    elif pa.types.is_signed_integer(kind):
        kind = pa.int64()
    elif pa.types.is_decimal(kind):
        kind = _widest(kind)
    return encode_values([value], [kind])


def _rounded(value: decimal.Decimal, kind: pa.DataType, rounding: str) -> decimal.Decimal | None:
    """Return a decimal rounded to the column's scale; None if it has too many digits."""
    unit = decimal.Decimal(1).scaleb(-kind.scale)
    made = value.quantize(unit, rounding=rounding, context=_EXACT)
    return made if len(made.as_tuple().digits) <= _widest(kind).precision else None


def _widest(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_decimal128(kind):
        return pa.decimal128(38, kind.scale)
    return pa.decimal256(76, kind.scale)


def _below(prefix: bytes, span: Range) -> Range:
    low, end = span
    return prefix + low, None if end is None else prefix + end
