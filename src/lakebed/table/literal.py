"""The literals of a predicate: a number's or a text's value, in the type that Spark gives it.

Only spellings whose value is beyond doubt are taken; Spark knows more of them, and these
are refused by name.
"""

import datetime as dt
import decimal
import math
import re

import pyarrow as pa

from lakebed.errors import InvalidError

TIMESTAMP = pa.timestamp("us", "UTC")
TIMESTAMP_NTZ = pa.timestamp("us")
_MAX_DIGITS = 38
_INTEGER = re.compile(r"[+-]?[0-9]{1,40}", re.ASCII)
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,4})?", re.ASCII)
_NAMED = {
    **dict.fromkeys(("inf", "+inf", "infinity", "+infinity"), math.inf),
    **dict.fromkeys(("-inf", "-infinity"), -math.inf),
    "nan": math.nan,
}
_CASTS = {
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "DATE": pa.date32(),
    "TIMESTAMPTZ": TIMESTAMP,
    "TIMESTAMPLTZ": TIMESTAMP,
    "TIMESTAMPNTZ": TIMESTAMP_NTZ,
}
_DATE = r"(?P<y>[0-9]{4})-(?P<m>[0-9]{1,2})-(?P<d>[0-9]{1,2})"
_CLOCK = r"(?P<H>[0-9]{1,2}):(?P<M>[0-9]{1,2}):(?P<S>[0-9]{1,2})(\.(?P<f>[0-9]{1,6}))?"
_ZONE = r"(?P<zone>Z|(?P<sign>[+-])(?P<zh>0[0-9]|1[0-7]):(?P<zm>[0-5][0-9]))?"
# To a date Spark cuts off whatever follows a blank or a T.
_DAY = re.compile(_DATE + r"([ T].*)?", re.ASCII | re.DOTALL)
_MOMENT = re.compile(rf"{_DATE}([ T]{_CLOCK}{_ZONE})?", re.ASCII)


def number(text: str) -> pa.Scalar:
    """Give a number as it is written: int, bigint, decimal, or double with an exponent.

    >>> number("1.50").type
    Decimal128Type(decimal128(3, 2))
    """
    if "e" in text.lower():
        return as_type(text, pa.float64())
    if not _NUMBER.fullmatch(text):
        raise InvalidError(f"{text[:60]} is no number")
    if _INTEGER.fullmatch(text):
        value = int(text)
        for kind, bits in ((pa.int32(), 31), (pa.int64(), 63)):
            if -(1 << bits) <= value < 1 << bits:
                return pa.scalar(value, kind)
    exact = decimal.Decimal(text)
    scale = _scale(exact)
    precision = max(len(exact.as_tuple().digits), scale)
    if precision > _MAX_DIGITS:
        raise InvalidError(f"{text[:60]}: want at most {_MAX_DIGITS} digits")
    return pa.scalar(exact, pa.decimal128(precision, scale))


def type_named(name: str, sizes: list[int]) -> pa.DataType | None:
    """Give the type that sqlglot calls `name`, None for one that literals are not cast to."""
    if name == "DECIMAL" and len(sizes) != 1:
        precision, scale = sizes or (10, 0)
        return pa.decimal128(precision, scale) if 0 <= scale <= precision <= _MAX_DIGITS else None
    return None if sizes else _CASTS.get(name)


def as_type(text: str, kind: pa.DataType) -> pa.Scalar:
    """Give the value of `kind` that `text` spells, or raise InvalidError."""
    try:
        value = _value(text, kind)
        made = None if value is None else pa.scalar(value, kind)
    except (pa.ArrowException, ValueError, OverflowError) as error:
        raise InvalidError(f"{text[:60]!r} is no value of type {kind}: {error}") from error
    if made is None:
        raise InvalidError(f"{text[:60]!r} is no value of type {kind}")
    return made


def _value(
    text: str, kind: pa.DataType
) -> int | float | decimal.Decimal | dt.date | dt.datetime | None:
    if pa.types.is_integer(kind):
        return int(text) if _INTEGER.fullmatch(text) else None
    if pa.types.is_floating(kind):
        return _real(text, kind)
    if pa.types.is_decimal(kind):
        return _decimal(text, kind)
    if pa.types.is_date(kind):
        found = _DAY.fullmatch(text)
        return found and dt.date(*(int(found[part]) for part in "ymd"))
    if pa.types.is_timestamp(kind):
        return _moment(text, kind)
    return None


def _real(text: str, kind: pa.DataType) -> float | None:
    named = _NAMED.get(text.lower())
    if named is not None:
        return named
    # Through a double a text would be rounded twice on its way to a float.
    if not _NUMBER.fullmatch(text) or (kind == pa.float32() and "e" in text.lower()):
        return None
    value = float(pa.scalar(text.removeprefix("+")).cast(kind).as_py())
    return value if math.isfinite(value) else None


def _decimal(text: str, kind: pa.DataType) -> decimal.Decimal | None:
    if not _NUMBER.fullmatch(text) or "e" in text.lower():
        return None
    exact = decimal.Decimal(text)
    return exact if _scale(exact) <= kind.scale else None  # Spark would round


def _scale(exact: decimal.Decimal) -> int:
    exponent = exact.as_tuple().exponent
    assert isinstance(exponent, int), exact
    return max(0, -exponent)


def _moment(text: str, kind: pa.DataType) -> dt.datetime | None:
    found = _MOMENT.fullmatch(text)
    if found is None or (kind.tz is None and found["zone"]):
        return None
    clock = [int(found[part] or 0) for part in "HMS"]
    micros = int((found["f"] or "").ljust(6, "0"))
    zone = dt.UTC
    if found["sign"]:
        ahead = dt.timedelta(hours=int(found["zh"]), minutes=int(found["zm"]))
        zone = dt.timezone(-ahead if found["sign"] == "-" else ahead)
    day = [int(found[part]) for part in "ymd"]
    moment = dt.datetime(day[0], day[1], day[2], clock[0], clock[1], clock[2], micros, zone)
    return moment if kind.tz is not None else moment.replace(tzinfo=None)


def like_regex(pattern: str) -> str:
    """Give the regular expression of a LIKE pattern, whose escape is the backslash."""

    def one(found: re.Match[str]) -> str:
        part = found.group()
        if part in ("%", "_"):
            return ".*" if part == "%" else "."
        if part[0] == "\\" and part not in (r"\%", r"\_", r"\\"):
            raise InvalidError(
                f"pattern {pattern[:60]!r}: want %, _ or \\ after a \\, found {part[1:]!r}"
            )
        return rf"\x{{{ord(part[-1]):x}}}"

    body = re.sub(r"\\.?|[^A-Za-z0-9\u0080-\U0010ffff]", one, pattern, flags=re.DOTALL)
    return rf"\A(?s:{body})\z"
