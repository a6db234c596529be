"""Convert 32-bit to 64-bit floats as Hudi does, by way of the decimal string.

Hudi reads a float column as double by `Double.parseDouble(Float.toString(value))`, so 0.1 stays
0.1, while a numeric cast would return 0.10000000149011612. The string is that of JDK 8 to 18, which
`java_text.float_text` produces for one value at a time. Here, the digits of a whole column are
computed in 64-bit integers. Numbers that need more bits (magnitudes below about 1e-12 or above
4.6e18, except zero) are converted through the string, once per distinct value.
"""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakebed.format.names.java_text import float_text

_Ints = npt.NDArray[np.int64]
_Doubles = npt.NDArray[np.float64]

# All are exact doubles, so a multiplication or division by one of them rounds only once.
_TENS = np.array([10**power for power in range(23)], dtype=np.float64)
_WHOLE_TENS = np.array([10**power for power in range(19)], dtype=np.int64)
_FIVES = np.array([5**power for power in range(27)], dtype=np.int64)
# The number of bits of 5**i, where the JDK counts none for 5**0.
_FIVE_BITS = np.array([0, *((5**power).bit_length() for power in range(1, 28))], dtype=np.int64)
# The number of trailing digits that a float with i spare bits cannot represent.
_SPARE_DIGITS = np.array([len(str(1 << power)) - 1 for power in range(40)], dtype=np.int64)
_SIGNIFICANT = 24


def widen_floats(values: npt.NDArray[np.float32]) -> _Doubles:
    """Return the doubles that Hudi reads for `values`.

    >>> widen_floats(np.array([0.1, -2.5, 1.4e-45], dtype=np.float32)).tolist()
    [0.1, -2.5, 1.4e-45]
    """
    with np.errstate(invalid="ignore"):  # a NaN
        widened = values.astype(np.float64)
    bits = values.view(np.int32)
    exponents = ((bits >> 23) & 0xFF).astype(np.int64)
    # Zero, infinity and NaN keep their value; so do whole numbers that a float holds exactly.
    plain = (widened == np.trunc(widened)) & (np.abs(widened) < 2.0**_SIGNIFICANT)
    rest = np.flatnonzero(~plain & (exponents != 0xFF))
    if not rest.size:
        return widened
    exponent = exponents[rest] - 127
    fraction = (bits[rest] & 0x7FFFFF).astype(np.int64) | 1 << 23
    # The position of the lowest set bit.
    zeros = np.frexp((fraction & -fraction).astype(np.float64))[1].astype(np.int64) - 1
    used = _SIGNIFICANT - zeros
    whole = used - exponent - 1 <= 0
    made = np.full(rest.size, np.nan)
    normal = exponents[rest] > 0
    for mask, make in (
        (normal & whole & (exponent < 63), _whole_numbers),
        (normal & ~whole, _fractions),
    ):
        chosen = np.flatnonzero(mask)
        if chosen.size:
            made[chosen] = make(exponent[chosen], fraction[chosen], used[chosen])
    left = np.flatnonzero(np.isnan(made))
    distinct, places = np.unique(np.abs(values[rest[left]]), return_inverse=True)
    texts = [float(float_text(value)) for value in distinct.tolist()]
    made[left] = np.array(texts, dtype=np.float64)[places]
    widened[rest] = np.copysign(made, widened[rest])
    return widened


def widen_column(column: pa.FloatArray) -> pa.DoubleArray:
    """Return a column of floats as doubles, preserving nulls."""
    # The value stored at a null is arbitrary.
    values = column.fill_null(0.0) if column.null_count else column
    widened = widen_floats(values.to_numpy(zero_copy_only=False))
    nulls = column.is_null().to_numpy(zero_copy_only=False) if column.null_count else None
    return pa.array(widened, mask=nulls, from_pandas=False)


def _whole_numbers(exponent: _Ints, fraction: _Ints, used: _Ints) -> _Doubles:
    """Return whole numbers rounded to the digits that a float can represent."""
    del used
    value = fraction << np.maximum(exponent - 23, 0)
    spare = np.maximum(exponent - _SIGNIFICANT - 1, 0)
    drop = np.where(spare > 1, _SPARE_DIGITS[spare], 0)
    tens = _WHOLE_TENS[drop]
    quotient, residue = np.divmod(value, tens)
    quotient += (drop > 0) & (residue >= tens >> 1)
    return quotient.astype(np.float64) * _TENS[drop]


def _fractions(exponent: _Ints, fraction: _Ints, used: _Ints) -> _Doubles:
    """Return fractions with the JDK's digits; NaN where 64 bits do not suffice."""
    tiny = used - exponent - 1
    unit = fraction / (1 << 23)
    estimate = (unit - 1.5) * 0.289529654 + 0.176091259 + exponent * 0.301029995663981
    decimal = np.floor(estimate).astype(np.int64)
    b5, s5 = np.maximum(0, -decimal), np.maximum(0, decimal)
    b2, s2 = b5 + tiny + exponent, s5 + tiny
    m2 = b2 - _SIGNIFICANT
    b2 = b2 - (used - 1)
    common = np.minimum(b2, s2)
    b2, s2, m2 = b2 - common, s2 - common, m2 - common - (used == 1)
    lift = np.maximum(0, -m2)
    b2, s2, m2 = b2 + lift, s2 + lift, m2 + lift
    held = (b5 < len(_FIVES)) & (s5 < len(_FIVES))
    b5, s5 = np.where(held, b5, 0), np.where(held, s5, 0)
    size = np.maximum(used + b2 + _FIVE_BITS[b5], s2 + 1 + _FIVE_BITS[s5 + 1])
    made = np.full(len(exponent), np.nan)
    kept = np.flatnonzero(held & (size < 64))
    if kept.size:
        odd = fraction[kept] >> (_SIGNIFICANT - used[kept])
        five = _FIVES[b5[kept]]
        made[kept] = _generate(
            (odd * five) << b2[kept],
            _FIVES[s5[kept]] << s2[kept],
            five << m2[kept],
            decimal[kept],
            size[kept] < 32,
        )
    return made


def _generate(
    b: _Ints, s: _Ints, m: _Ints, decimal: _Ints, short: npt.NDArray[np.bool_]
) -> _Doubles:
    """Return the quotients `b / s`, digit by digit, as the JDK rounds them.

    `short` marks values that the JDK computes in 32 bits.
    """
    tens = 10 * s
    q, rest = np.divmod(b, s)
    b, m = 10 * rest, _wrapped(10 * m, short)
    low, high = b < m, _wrapped(b + m, short) > tens
    first = (q != 0) | high
    digits = np.where(first, q, 0)
    count = first.astype(np.int64)
    decimal = decimal - ~first
    scaled = (decimal < -3) | (decimal >= 8)
    low, high = low & ~scaled, high & ~scaled
    going = np.flatnonzero(~low & ~high)
    while going.size:
        q, rest = np.divmod(b[going], s[going])
        digits[going] = digits[going] * 10 + q
        count[going] += 1
        b[going] = 10 * rest
        m[going] = _wrapped(10 * m[going], short[going])
        # A margin that has overflowed counts as greater than any remainder.
        over = m[going] <= 0
        low[going] = over | (b[going] < m[going])
        high[going] = over | (_wrapped(b[going] + m[going], short[going]) > tens[going])
        going = going[~low[going] & ~high[going]]
    twice = b - (tens - b)
    up = high & (~low | (twice > 0) | ((twice == 0) & (digits % 2 == 1)))
    number = (digits + up).astype(np.float64)
    power = decimal + 1 - count
    near = np.abs(power) < len(_TENS)
    scale = _TENS[np.where(near, np.abs(power), 0)]
    return np.where(near, np.where(power < 0, number / scale, number * scale), np.nan)


def _wrapped(values: _Ints, short: npt.NDArray[np.bool_]) -> _Ints:
    """Return `values` with 32-bit overflow where `short` is set."""
    return np.where(short, values.astype(np.int32).astype(np.int64), values)
