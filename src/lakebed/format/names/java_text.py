"""Format column values as Java strings, for keys and folders that must equal Hudi's.

`column_text` formats a column as Hudi's upsert does (`HoodieAvroUtils.getNestedFieldValAsString` on
the Avro form of a row):

    integers, timestamps   decimal; a timestamp is its microseconds since 1970
    float, double          Float.toString, Double.toString
    decimal                BigDecimal.toString: scale kept, an exponent below 1E-6
    date                   LocalDate.toString: 2024-01-02, +10000-01-01, -0001-12-31
    boolean, string        true or false, the string itself
    binary                 two lower-case hex digits per byte

Floats are formatted as by JDK 8 to 18, which (unlike JDK 19) does not always choose the shortest
string for a value: 4.9E-324 instead of 5E-324, 6.1098727269992094E-151 instead of 16 digits. The
digits come from the algorithm of Steele and White, with three quirks of the JDK's
`FloatingDecimal`:

* the distance to the neighbour below a power of two counts as half, on both sides;
* in exponent form two digits are generated before the stop rule is applied;
* small values are computed in 32 or 64 bit integers, whose margin may overflow.

Floats cost Python time per distinct value; everything else is Arrow or numpy.
"""

import math
import struct
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import KeyValueError, SchemaError

# The number of bits of 5**i, where the JDK counts none for 5**0. Beyond this table, it assumes #
# three bits per power.
_FIVE_BITS = [0] + [(5**i).bit_length() for i in range(1, 27)]
_FRACTION_BITS = 52
_SMALL_EXPONENTS = range(-21, 63)


def double_text(value: float) -> str:
    """Format a 64-bit float like `Double.toString`.

    >>> [double_text(v) for v in (1.5, 1e10, 100.0, 1e-3, 2e-323, -0.0)]
    ['1.5', '1.0E10', '100.0', '0.001', '2.0E-323', '-0.0']
    """
    (bits,) = struct.unpack("<Q", struct.pack("<d", value))
    exponent = (bits >> 52) & 0x7FF
    return _float_text(value, bits & ((1 << 52) - 1), exponent, 52)


def float_text(value: float) -> str:
    """Format a 32-bit float like `Float.toString`; `value` must fit 32 bits exactly.

    >>> float_text(0.10000000149011612)
    '0.1'
    """
    (bits,) = struct.unpack("<I", struct.pack("<f", value))
    exponent = (bits >> 23) & 0xFF
    return _float_text(value, bits & ((1 << 23) - 1), exponent, 23)


def spell_distinct(column: pa.Array, spell: Callable[..., str | None]) -> pa.StringArray:
    """Return every value as a string, calling `spell` once per distinct value; null stays null."""
    encoded = column if pa.types.is_dictionary(column.type) else pc.dictionary_encode(column)
    values = encoded.dictionary.to_pylist()
    texts = [None if value is None else spell(value) for value in values]
    return pa.array(texts, pa.string()).take(encoded.indices)


def column_text(column: pa.Array, field: str) -> pa.StringArray:
    """Return every value of the column `field`, formatted as by Hudi's upsert; null stays null.

    Raises SchemaError for types that Hudi accepts neither in keys nor in partitions: lists,
    structs, maps, times and durations.
    """
    kind = column.type
    if pa.types.is_dictionary(kind):
        return column_text(column.dictionary, field).take(column.indices)
    if pa.types.is_float64(kind):
        # Compare bits: -0.0 and 0.0 are different keys, although Arrow considers them equal.
        return spell_distinct(column.view(pa.int64()), _double_bits_text)
    if pa.types.is_float32(kind):
        return spell_distinct(column.view(pa.int32()), _float_bits_text)
    if pa.types.is_date(kind):
        return _date_text(column)
    if pa.types.is_timestamp(kind):
        return _timestamp_text(column, field)
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return _hex_text(column.cast(pa.large_binary()))
    if pa.types.is_fixed_size_binary(kind):
        return _hex_text(column.cast(pa.binary()).cast(pa.large_binary()))
    if any(fits(kind) for fits in _CAST):
        return column.cast(pa.string())
    raise SchemaError(
        f"column {field!r}: expected a number, string, boolean, date, timestamp or binary "
        f"for a key or partition, found {kind}"
    )


_CAST = (
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_string_view,
    pa.types.is_integer,
    pa.types.is_boolean,
    pa.types.is_decimal128,
    pa.types.is_decimal256,
    pa.types.is_null,
)


def _double_bits_text(bits: int) -> str:
    return double_text(struct.unpack("<d", struct.pack("<q", bits))[0])


def _float_bits_text(bits: int) -> str:
    return float_text(struct.unpack("<f", struct.pack("<i", bits))[0])


def _timestamp_text(column: pa.Array, field: str) -> pa.StringArray:
    try:
        micros = column.cast(pa.timestamp("us", column.type.tz))
    except pa.ArrowInvalid as error:
        raise KeyValueError(
            f"column {field!r}: expected whole microseconds that fit 64 bits, found {error}"
        ) from error
    return micros.view(pa.int64()).cast(pa.string())


def _date_text(column: pa.Array) -> pa.StringArray:
    encoded = pc.dictionary_encode(column.cast(pa.date32()).view(pa.int32()))
    days = np.asarray(encoded.dictionary.to_pylist(), dtype=np.int64)
    if not len(days):
        return pa.nulls(len(column), pa.string())  # numpy cannot pad an empty array
    dates = np.datetime_as_string(days.astype("datetime64[D]"), unit="D")
    # Like Java, put a plus before years over 9999, and pad negative years to four digits.
    texts = np.where(days >= 2_932_897, np.char.add("+", dates), dates)
    unsigned = np.char.zfill(np.char.lstrip(dates, "-"), 10)
    texts = np.where(days < -719_528, np.char.add("-", unsigned), texts)
    return pa.array(texts.tolist(), pa.string()).take(encoded.indices)


_HEX = np.frombuffer(bytes(range(256)).hex().encode(), dtype=np.uint16)


def _hex_text(column: pa.LargeBinaryArray) -> pa.StringArray:
    if len(column) == 0:
        return pa.array([], pa.string())
    _, offset_bytes, data_bytes = column.buffers()
    offsets = np.frombuffer(offset_bytes, np.int64)[column.offset : column.offset + len(column) + 1]
    data = np.frombuffer(data_bytes or b"", np.uint8)[offsets[0] : offsets[-1]]
    texts = pa.LargeStringArray.from_buffers(
        len(column),
        pa.py_buffer(2 * (offsets - offsets[0])),
        pa.py_buffer(_HEX[data]),
    ).cast(pa.string())
    return pc.if_else(column.is_valid(), texts, pa.scalar(None, pa.string()))


def _float_text(value: float, fraction: int, exponent: int, width: int) -> str:
    """Format a float whose fraction has `width` bits; `exponent` is biased."""
    if math.isnan(value):
        return "NaN"
    minus = "-" if math.copysign(1.0, value) < 0 else ""
    if math.isinf(value):
        return f"{minus}Infinity"
    if value == 0:
        return f"{minus}0.0"
    if exponent:
        significant = width + 1
        fraction |= 1 << width
    else:
        significant = fraction.bit_length()
        shift = width + 1 - significant
        fraction <<= shift
        exponent = 1 - shift
    bias = 1023 if width == 52 else 127
    digits, point = _digits(exponent - bias, fraction << (_FRACTION_BITS - width), significant)
    return minus + _place_point(digits, point)


def _place_point(digits: str, point: int) -> str:
    """Format `0.digits * 10**point`: plainly between 1e-3 and 1e7, otherwise with an exponent."""
    if 0 < point < 8:
        return f"{digits[:point].ljust(point, '0')}.{digits[point:] or '0'}"
    if -3 < point <= 0:
        return f"0.{'0' * -point}{digits}"
    return f"{digits[0]}.{digits[1:] or '0'}E{point - 1}"


def _digits(exponent: int, fraction: int, significant: int) -> tuple[str, int]:
    """Return the JDK's digits and point position for `fraction * 2**(exponent - 52)`.

    The leading bit of `fraction` is bit 52; `significant` is the number of its stored bits.
    """
    tail_zeros = (fraction & -fraction).bit_length() - 1
    used = _FRACTION_BITS + 1 - tail_zeros
    tiny = max(0, used - exponent - 1)
    # The JDK also checks that the bits fit a long, which is always true here.
    if tiny == 0 and exponent in _SMALL_EXPONENTS:
        return _integer_digits(exponent, fraction, significant)

    decimal = _estimate(fraction, exponent)
    b5, s5 = max(0, -decimal), max(0, decimal)
    b2 = b5 + tiny + exponent
    s2 = s5 + tiny
    m2 = b2 - significant
    fraction >>= tail_zeros
    b2 -= used - 1
    common = min(b2, s2)
    b2, s2, m2 = b2 - common, s2 - common, m2 - common
    if used == 1:
        m2 -= 1
    if m2 < 0:
        b2, s2, m2 = b2 - m2, s2 - m2, 0
    bits = max(used + b2 + _five_bits(b5), s2 + 1 + _five_bits(s5 + 1))
    width = 32 if bits < 32 else 64 if bits < 64 else 0
    return _generate((fraction * 5**b5) << b2, 5**s5 << s2, 5**b5 << m2, decimal, width)


def _generate(b: int, s: int, m: int, decimal: int, width: int) -> tuple[str, int]:
    """Divide `b` by `s` digit by digit until the remainder is within the margin `m`.

    `width` is that of the JDK's integers, 0 for BigIntegers, which also stop if both are equal.
    """
    tens = 10 * s
    q, rest = divmod(b, s)
    b, m = 10 * rest, _wrap(10 * m, width)
    low, high = _within(b, m, tens, width)
    digits = []
    if q == 0 and not high:
        decimal -= 1
    else:
        digits.append(q)
    if decimal < -3 or decimal >= 8:
        low = high = False
    while not low and not high:
        q, rest = divmod(b, s)
        b, m = 10 * rest, _wrap(10 * m, width)
        # A margin that has overflowed counts as greater than any remainder.
        low, high = _within(b, m, tens, width) if m > 0 else (True, True)
        digits.append(q)
    twice = 2 * b - tens
    if high and (not low or twice > 0 or (twice == 0 and digits[-1] % 2 == 1)):
        return _round_up(digits, decimal + 1)
    return "".join(map(str, digits)), decimal + 1


def _within(b: int, m: int, tens: int, width: int) -> tuple[bool, bool]:
    total = _wrap(b + m, width)
    return b < m, total > tens if width else total >= tens


def _wrap(value: int, width: int) -> int:
    """Return `value` as a signed integer of `width` bits, wrapping around on overflow."""
    if not width:
        return value
    half = 1 << (width - 1)
    return ((value + half) & ((1 << width) - 1)) - half


def _round_up(digits: list[int], point: int) -> tuple[str, int]:
    number = str(int("".join(map(str, digits))) + 1).rjust(len(digits), "0")
    if len(number) > len(digits):
        return number[:-1], point + 1
    return number, point


def _integer_digits(exponent: int, fraction: int, significant: int) -> tuple[str, int]:
    """Format a whole number, rounding digits that the fraction cannot represent."""
    value = fraction << exponent >> _FRACTION_BITS
    spare = exponent - significant - 1
    drop = len(str(1 << spare)) - 1 if spare > 1 else 0
    if drop:
        value, residue = divmod(value, 10**drop)
        value += residue >= 10**drop >> 1
    text = str(value)
    return text.rstrip("0") or "0", len(text) + drop


def _estimate(fraction: int, exponent: int) -> int:
    """Estimate floor(log10) with floats; `_generate` corrects a result that is one too high."""
    unit = fraction / (1 << _FRACTION_BITS)
    return math.floor((unit - 1.5) * 0.289529654 + 0.176091259 + exponent * 0.301029995663981)


def _five_bits(power: int) -> int:
    return _FIVE_BITS[power] if power < len(_FIVE_BITS) else power * 3
