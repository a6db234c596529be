"""Casts as in Spark's ANSI mode: return the nearest value, or fail.

Strings in columns can be cast to numbers, booleans and binary only; dates, timestamps and decimals
are parsed from string literals (`expr/literal.py`).
"""

import decimal

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.expr.decimals import fit, truncate, widen
from lakebed.expr.types import INTEGERS, TIMES, is_number, is_real, type_name
from lakebed.expr.values import Data, Values, checked

# The characters that Java strips from a string before parsing a number.
BLANKS = "".join(map(chr, range(33)))
_WHOLE = r"\A[+-]?[0-9]+\z"
_NUMBER = r"\A[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[dDfF]?\z"
_NAMED = r"\A([+-]?NaN|(?i)nan|[+-]?(inf|infinity))\z"
_TRUE = ("t", "true", "y", "yes", "1")
_FALSE = ("f", "false", "n", "no", "0")
# With more fractional digits, Arrow may format a decimal with an exponent.
_PLAIN_SCALE = 6


def is_castable(source: pa.DataType, target: pa.DataType) -> bool:
    """Return whether a column of type `source` can be cast to `target`."""
    if source == target or pa.types.is_null(source):
        return True
    if source == pa.string():
        return target in (*INTEGERS, pa.float32(), pa.float64(), pa.bool_(), pa.binary())
    if target == pa.string():
        plain = pa.types.is_decimal(source) and source.scale <= _PLAIN_SCALE
        return plain or source in (*INTEGERS, *TIMES, pa.bool_())
    if is_real(source) and pa.types.is_decimal(target):
        return False
    if source in TIMES or target in TIMES:
        return source in TIMES and target in TIMES
    return all(is_number(kind) or kind == pa.bool_() for kind in (source, target))


def cast(data: Data, target: pa.DataType) -> Values:
    """Return `data` cast to `target`; the caller has checked `is_castable`."""
    source = data.type
    if source == target:
        return Values(data)
    if (source in TIMES and target in TIMES) or pa.types.is_null(source):
        return Values(pc.cast(data, target))
    if source == pa.string():
        return _from_text(data, target)
    if target == pa.string():
        return _to_text(data)
    if target == pa.bool_():
        return Values(pc.not_equal(data, pa.scalar(0, source)))
    return _to_number(pc.cast(data, pa.int8()) if source == pa.bool_() else data, target)


def _to_number(data: Data, target: pa.DataType) -> Values:
    if is_real(target):
        return Values(_to_real(data, target))
    if pa.types.is_decimal(target):
        return fit(widen(data), target)
    return _to_integer(data, target)


def _to_real(data: Data, target: pa.DataType) -> Data:
    if pa.types.is_decimal(data.type):
        # Arrow's direct cast from decimal to double can be off in the last bit; its string cast is
        # exact.
        return pc.cast(pc.cast(data, pa.string()), target)
    # Unsafe, so that values without an exact representation are rounded.
    return pc.cast(data, target, safe=False)


def _to_integer(data: Data, target: pa.DataType) -> Values:
    half = 1 << (target.bit_width - 1)
    reason = f"overflow of {type_name(target)}"
    if pa.types.is_decimal(data.type):
        data = truncate(widen(data))
        low, high = (pc.cast(pa.scalar(end), pa.decimal256(76, 0)) for end in (-half, half - 1))
    elif is_real(data.type):
        data = pc.trunc(pc.cast(data, pa.float64()))
        low, high = pa.scalar(float(-half)), pa.scalar(float(half - 1))
    else:
        data = pc.cast(data, pa.int64())
        low, high = pa.scalar(-half), pa.scalar(half - 1)
    inside = pc.and_(pc.greater_equal(data, low), pc.less_equal(data, high))
    found = checked(data, inside, reason)
    made = found.data
    if is_real(made.type) and target == pa.int64():
        # As in Java, the double 2**63 is cast to the greatest integer.
        edge = pc.equal(made, high)
        inner = pc.cast(pc.if_else(edge, pa.scalar(0.0), made), target)
        return Values(pc.if_else(edge, pa.scalar(half - 1), inner), found.failed, reason)
    return Values(pc.cast(made, target), found.failed, reason)


def _to_text(data: Data) -> Values:
    kind = data.type
    if kind not in TIMES:
        return Values(pc.cast(data, pa.string()))
    year = pc.year(data)
    inside = pc.and_(pc.greater_equal(year, 1), pc.less_equal(year, 9999))
    found = checked(data, inside, "a year outside 1 to 9999 as a string")
    if kind == pa.date32():
        return Values(pc.cast(found.data, pa.string()), found.failed, found.reason)
    text = pc.cast(pc.cast(found.data, pa.timestamp("us")), pa.string())
    text = pc.replace_substring_regex(text, pattern=r"(\.[0-9]*[1-9])0*\z", replacement=r"\1")
    text = pc.replace_substring_regex(text, pattern=r"\.0+\z", replacement="")
    return Values(text, found.failed, found.reason)


def _from_text(data: Data, target: pa.DataType) -> Values:
    if target == pa.binary():
        return Values(pc.cast(data, target))
    reason = f"a string that is not of type {type_name(target)}"
    trimmed = pc.utf8_trim(data, characters=BLANKS)
    if target == pa.bool_():
        lower = pc.ascii_lower(trimmed)
        yes, no = (pc.is_in(lower, value_set=pa.array(words)) for words in (_TRUE, _FALSE))
        is_truth = pc.or_(pc.or_(yes, no), pc.is_null(data))
        return checked(pc.if_else(pc.is_valid(data), yes, None), is_truth, reason)
    if is_real(target):
        return _text_to_real(trimmed, target, reason)
    found = checked(trimmed, pc.match_substring_regex(trimmed, pattern=_WHOLE), reason)
    digits = pc.replace_substring_regex(found.data, pattern=r"\A\+", replacement="")
    digits = pc.replace_substring_regex(digits, pattern=r"\A(-?)0+([0-9])", replacement=r"\1\2")
    # No integer has more than 19 digits; a string with over 70 would not fit into the decimal.
    long = pc.greater(pc.utf8_length(digits), 70)
    digits = pc.if_else(long, pa.scalar("9" * 70), digits)
    whole = _to_integer(pc.cast(digits, pa.decimal256(76, 0)), target)
    return whole.with_errors((found.failed, reason))


def _text_to_real(trimmed: Data, target: pa.DataType, reason: str) -> Values:
    is_named = pc.match_substring_regex(trimmed, pattern=_NAMED)
    is_plain = pc.match_substring_regex(trimmed, pattern=_NUMBER)
    found = checked(trimmed, pc.or_(is_named, is_plain), reason)
    text = pc.replace_substring_regex(found.data, pattern=r"\A[+]", replacement="")
    text = pc.replace_substring_regex(text, pattern=r"([0-9.])[dDfF]\z", replacement=r"\1")
    text = pc.if_else(is_named, pc.ascii_lower(text), text)
    text = pc.replace_substring_regex(text, pattern=r"\A-nan\z", replacement="nan")
    return Values(pc.cast(text, target), found.failed, reason)


def decimal_value(value: decimal.Decimal, kind: pa.DataType) -> decimal.Decimal | None:
    """Return `value` rounded half up to the scale of `kind`, or None if it does not fit."""
    context = decimal.Context(prec=400, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN)
    if value and value.adjusted() > kind.precision:
        return None
    made = value.quantize(
        decimal.Decimal(1).scaleb(-kind.scale), decimal.ROUND_HALF_UP, context=context
    )
    return made if abs(made) < decimal.Decimal(10) ** (kind.precision - kind.scale) else None
