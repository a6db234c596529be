"""Compiled loops over the bytes of strings, bytes and decimals.

An entry is an offset and a length in the data, `at << 32 | length`. `twin` does the same in plain
Python and shares no code; both run the same tests. Importing numba is slow; see
`format/compiled.py`.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]
Words = npt.NDArray[np.uint64]

Gather = Callable[[Bytes, Words, Ints, Ints, Bytes, Words, bool], int]
Decimals = Callable[[Bytes, Ints, Bytes, Ints, int, int], int]

_int64: Any = np.int64
# _MASKS[n] selects the highest bit, which ASCII lacks, of each of the first n bytes of a word.
_MASKS = np.array([0x8080808080808080 & (1 << 8 * n) - 1 for n in range(9)], np.uint64)


def compile_kernels(cached: bool) -> tuple[Gather, Decimals]:
    """Compile `_gather` and `_decimals`."""
    import numba as nb  # noqa: PLC0415 - see the module's docstring

    data = nb.types.Array(nb.uint8, 1, "C", readonly=True)
    words = nb.types.Array(nb.uint64, 1, "A", readonly=True, aligned=False)
    out_words = nb.types.Array(nb.uint64, 1, "A", aligned=False)
    ints, halves, flags, number = nb.int64[::1], nb.int64[:, ::1], nb.uint8[::1], nb.int64
    gather = number(data, words, ints, ints, flags, out_words, nb.boolean)
    decimals = number(data, ints, flags, halves, number, number)
    return (
        nb.njit(gather, cache=cached, nogil=True)(_gather),
        nb.njit(decimals, cache=cached, nogil=True)(_decimals),
    )


def words_of(data: Bytes) -> Words:
    """Return the eight bytes at each offset as a little-endian number.

    The words overlap and are not aligned. The last seven offsets have none.
    """
    return np.ndarray((max(0, len(data) - 7),), np.uint64, data, strides=(1,))


def _gather(  # noqa: C901, PLR0912 - one function: numba caches no calls of others
    data: Bytes,
    words: Words,
    slots: Ints,
    offsets: Ints,
    out: Bytes,
    out_words: Words,
    text: bool,
) -> int:
    """Copy the bytes of each entry to its offset in `out`; return -1, or the first invalid entry.

    `words` are the words of `data`. `out` is eight bytes longer than needed, because the last word
    of an entry may extend beyond it; the next entry overwrites the excess. With `text`, entries
    must be UTF-8.
    """
    for entry in range(slots.shape[0]):
        at = slots[entry] >> 32
        to = offsets[entry]
        length = offsets[entry + 1] - to
        high = np.uint64(0)
        if at + length + 8 <= data.shape[0]:
            for step in range(0, length, 8):
                word = words[at + step]
                out_words[to + step] = word
                high |= word & _MASKS[min(8, length - step)]
        else:
            for step in range(length):
                out[to + step] = data[at + step]
                high |= np.uint64(data[at + step] & 0x80)
        if not text or high == 0:
            continue
        end = at + length
        while at < end:
            lead = _int64(data[at])
            at += 1
            if lead < 0x80:
                continue
            # Some first bytes restrict the second one, to exclude overlong forms, surrogates and
            # code points that are too large.
            low, top = 0x80, 0xBF
            if lead < 0xC2 or lead > 0xF4:
                return entry
            more = 1 if lead < 0xE0 else 2 if lead < 0xF0 else 3
            if lead == 0xE0:
                low = 0xA0
            elif lead == 0xED:
                top = 0x9F
            elif lead == 0xF0:
                low = 0x90
            elif lead == 0xF4:
                top = 0x8F
            if end - at < more:
                return entry
            for _ in range(more):
                byte = data[at]
                at += 1
                if byte < low or byte > top:
                    return entry
                low, top = 0x80, 0xBF
    return -1


def _decimals(  # noqa: C901 - one loop, as above
    data: Bytes, slots: Ints, valid: Bytes, words: Ints, limit_high: int, limit_low: int
) -> int:
    """Set `words` to the low and high half of each number.

    Return -1, or the first entry whose number exceeds the limit, which is given as two halves too.
    Bytes in front of the last 16 of a number must repeat its sign.
    """
    flip = _int64(-0x8000000000000000)
    for entry in range(slots.shape[0]):
        if valid[entry] == 0:
            continue
        at = slots[entry] >> 32
        length = slots[entry] & 0xFFFFFFFF
        if length == 0:
            return entry
        sign = _int64(-1) if data[at] >= 0x80 else _int64(0)
        low = sign
        high = sign
        for step in range(length):
            if length - step > 16:
                if _int64(data[at + step]) != sign & 0xFF:
                    return entry
                continue
            high = (high << 8) | ((low >> 56) & 0xFF)
            low = (low << 8) | _int64(data[at + step])
        # If there are more than 16 bytes, the number must have the sign of the first byte.
        if (high < 0) != (sign < 0):
            return entry
        words[entry, 0] = low
        words[entry, 1] = high
        if high < 0:
            low = -low
            high = ~high if low != 0 else -high
        if high < 0 or high > limit_high:
            return entry
        # Compare the halves as unsigned numbers.
        if high == limit_high and (low ^ flip) > (limit_low ^ flip):
            return entry
    return -1
