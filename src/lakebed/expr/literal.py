"""Values of literals: numbers, and strings that are converted to another type.

Only unambiguous formats are accepted. Others that Spark accepts, such as names of time zones and
years with more than four digits, are rejected with an error that names them.
"""

import datetime as dt
import decimal
import re
from dataclasses import dataclass

import pyarrow as pa

from lakebed.errors import InvalidError
from lakebed.expr.casts import BLANKS, cast, decimal_value
from lakebed.expr.types import MAX_DIGITS, type_name

_NUMBER = re.compile(
    r"(?P<digits>-?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,4})?)(?P<suffix>[A-Za-z]{0,2})",
    re.ASCII,
)
WHOLE = re.compile(r"-?[0-9]{1,40}", re.ASCII)
_DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,4})?", re.ASCII)
_SUFFIXES = {"Y": pa.int8(), "S": pa.int16(), "L": pa.int64(), "F": pa.float32()}
_DATE = r"(?P<y>[0-9]{4})(-(?P<m>[0-9]{1,2})(-(?P<d>[0-9]{1,2})"
_CLOCK = r"(?P<H>[0-9]{1,2}):(?P<M>[0-9]{1,2})(:(?P<S>[0-9]{1,2})(\.(?P<f>[0-9]{1,9}))?)?"
_ZONE = r"(?P<zone>Z|(?P<sign>[+-])(?P<zh>0[0-9]|1[0-7]):(?P<zm>[0-5][0-9]))?"
# When casting to a date, Spark ignores everything after a blank or a T.
_DAY = re.compile(_DATE + r"([ T].*)?)?)?", re.ASCII | re.DOTALL)
_TIME = re.compile(rf"{_DATE}([ T]{_CLOCK}{_ZONE})?)?)?", re.ASCII)


def number(text: str) -> pa.Scalar:
    """Return the value of a number literal, with the type that Spark gives it.

    >>> number("1.50").type, number("5Y").type
    (Decimal128Type(decimal128(3, 2)), DataType(int8))
    """
    found = _NUMBER.fullmatch(text)
    if found is None:
        raise InvalidError(f"{text[:60]} is not a number")
    digits, suffix = found["digits"], found["suffix"].upper()
    if suffix in ("Y", "S", "L") and not WHOLE.fullmatch(digits):
        raise InvalidError(f"{text[:60]} is not a number")
    if suffix == "BD":
        return _exact(digits)
    if suffix == "D" or (not suffix and "e" in digits.lower()):
        return _finite(digits, pa.float64())
    if suffix == "F":
        return _finite(digits, pa.float32())
    if suffix:
        return parse_text(digits, _SUFFIXES[suffix])
    if WHOLE.fullmatch(digits):
        for kind in (pa.int32(), pa.int64()):
            half = 1 << (kind.bit_width - 1)
            if -half <= int(digits) < half:
                return pa.scalar(int(digits), kind)
    return _exact(digits)


def parse_text(text: str, kind: pa.DataType) -> pa.Scalar:
    """Convert a string to a value of type `kind`; raise InvalidError if it has no such value."""
    try:
        if pa.types.is_decimal(kind):
            return pa.scalar(_decimal(text, kind), kind)
        if pa.types.is_date(kind):
            return pa.scalar(_date(text), kind)
        if pa.types.is_timestamp(kind):
            return pa.scalar(_parse_time(text, kind), kind)
        found = cast(pa.array([text], pa.string()), kind)
    except (pa.ArrowException, ValueError, ArithmeticError) as error:
        reason = "" if not str(error) else f": {error}"
        raise InvalidError(f"{text[:60]!r} is not a {type_name(kind)}{reason}") from error
    if found.failed is not None:
        raise InvalidError(f"{text[:60]!r} is not a {type_name(kind)}")
    return found.data[0]


def _exact(digits: str) -> pa.Scalar:
    exact = decimal.Decimal(digits)
    if exact.as_tuple().exponent > 0:  # type: ignore[operator]
        exact = exact.quantize(decimal.Decimal(1), context=decimal.Context(prec=20_000))
    exponent = exact.as_tuple().exponent
    assert isinstance(exponent, int), exact
    precision = max(len(exact.as_tuple().digits), -exponent)
    if precision > MAX_DIGITS:
        raise InvalidError(f"{digits[:60]}: expected at most {MAX_DIGITS} digits")
    return pa.scalar(exact, pa.decimal128(precision, -exponent))


def _finite(digits: str, kind: pa.DataType) -> pa.Scalar:
    made = parse_text(digits, kind)
    if abs(made.as_py()) == float("inf"):
        raise InvalidError(f"{digits[:60]} is outside the range of {type_name(kind)}")
    return made


def _decimal(text: str, kind: pa.DataType) -> decimal.Decimal:
    trimmed = text.strip(BLANKS)
    if not _DECIMAL.fullmatch(trimmed):
        raise ValueError
    made = decimal_value(decimal.Decimal(trimmed), kind)
    if made is None:
        raise ValueError("it has too many digits")
    return made


def _date(text: str) -> dt.date:
    found = _DAY.fullmatch(text.strip(BLANKS))
    if found is None:
        raise ValueError
    return dt.date(int(found["y"]), int(found["m"] or 1), int(found["d"] or 1))


def _parse_time(text: str, kind: pa.DataType) -> dt.datetime:
    found = _TIME.fullmatch(text.strip(BLANKS))
    if found is None or (kind.tz is None and found["zone"]):
        raise ValueError
    hour, minute, second = (int(found[part] or 0) for part in "HMS")
    micros = int((found["f"] or "")[:6].ljust(6, "0"))
    zone = dt.UTC
    if found["sign"]:
        ahead = dt.timedelta(hours=int(found["zh"]), minutes=int(found["zm"]))
        zone = dt.timezone(-ahead if found["sign"] == "-" else ahead)
    year, month, day = int(found["y"]), int(found["m"] or 1), int(found["d"] or 1)
    time = dt.datetime(year, month, day, hour, minute, second, micros, zone)
    return time if kind.tz is not None else time.replace(tzinfo=None)


@dataclass(frozen=True, slots=True)
class Like:
    """A LIKE pattern: as a regex, its literal prefix, and whether it is only that prefix."""

    regex: str
    prefix: str
    is_whole: bool


def parse_like(pattern: str, escape: str = "\\") -> Like:
    r"""Parse a LIKE pattern.

    >>> print(parse_like("a%_").regex, parse_like("a%_").prefix)
    \A(?s:a.*.)\z a
    """
    out: list[str] = []
    plain: list[str] = []
    is_whole = True
    letters = iter(pattern)
    for letter in letters:
        if letter in "%_" and letter != escape:
            out.append(".*" if letter == "%" else ".")
            is_whole = False
            continue
        meant = letter
        if letter == escape:
            meant = next(letters, "")
            if meant not in ("%", "_", escape) or not meant:
                raise InvalidError(
                    f"pattern {pattern[:60]!r}: expected %, _ or {escape} after a {escape}, "
                    f"found {meant!r}"
                )
        if is_whole:
            plain.append(meant)
        is_bare = not meant.isascii() or meant.isalnum()
        out.append(meant if is_bare else rf"\x{{{ord(meant):x}}}")
    return Like(rf"\A(?s:{''.join(out)})\z", "".join(plain), is_whole)
