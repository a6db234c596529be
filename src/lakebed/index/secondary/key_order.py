"""The order of index keys, found by a few of their bytes in a fraction of the time of a full sort."""

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.merge.arrays import Bytes, Ints, bool_array, int64_array, key_bytes, to_bools

_WORD: Final = 8
# A longer common prefix is not skipped: then keys are compared as a whole.
_MAX_PREFIX: Final = 64
_CHUNK_ROWS: Final = 8192


def key_order(keys: pa.BinaryArray) -> pa.Int64Array:
    r"""Return the positions of keys in ascending order, equal keys only once.

    No key is null or the beginning of another key. The first bytes in which keys differ are sorted
    as numbers that also hold the position of the key. This takes vector instructions, and the keys
    need not be fetched from memory to be compared, unless they agree in these bytes.

    >>> key_order(pa.array([b"b\x00", b"a\x00", b"b\x00"], pa.binary())).to_pylist()
    [1, 0]
    """
    count = len(keys)
    data, offsets = key_bytes(keys, "index keys")
    if count < 2 or len(data) < _WORD:
        words = np.zeros(count, np.uint64)
    else:
        words = _first_words(data, offsets)
    # New memory takes longer than the sort, so the words are changed in place.
    places = np.uint64((1 << count.bit_length()) - 1)
    words &= ~places
    words |= np.arange(count, dtype=np.uint64)
    words.sort()
    tied = np.zeros(count, np.bool_)
    tied[1:] = (words[1:] ^ words[:-1]) <= places
    tied[:-1] |= tied[1:]
    words &= places
    order = int64_array(words.view(np.int64))
    return _break_ties(keys, order, tied) if tied.any() else order


def _first_words(data: Bytes, offsets: Ints) -> npt.NDArray[np.uint64]:
    """Return the 8 bytes of each key that follow the common prefix; missing ones are zero."""
    last = len(data) - _WORD
    at_each_byte: npt.NDArray[np.uint64] = np.ndarray((last + 1,), ">u8", data, 0, (1,))
    starts = offsets[:-1].astype(np.int64)
    lengths = np.diff(offsets)
    skipped = 0
    while True:
        words = at_each_byte[np.minimum(starts, last)].byteswap(inplace=True).view(np.uint64)
        short = np.flatnonzero(lengths < skipped + _WORD)
        if len(short):
            own = _shifted(words[short], np.maximum(starts[short] - last, 0))
            missing = skipped + _WORD - lengths[short]
            words[short] = _shifted(_shifted(own, -missing), missing)
        differing = (int(words.min()) ^ int(words.max())).bit_length()
        common = _WORD - (differing + 7) // 8
        if not common or skipped >= _MAX_PREFIX:
            return words
        starts += common
        skipped += common


def _shifted(words: npt.NDArray[np.uint64], by: Ints) -> npt.NDArray[np.uint64]:
    """Return words shifted left by some bytes, or right if negative."""
    bits = 8 * np.minimum(np.abs(by), _WORD - 1).astype(np.uint64)
    moved = np.where(by < 0, words >> bits, words << bits)
    return np.where(np.abs(by) < _WORD, moved, np.uint64(0))


def _break_ties(
    keys: pa.BinaryArray, order: pa.Int64Array, tied: npt.NDArray[np.bool_]
) -> pa.Int64Array:
    """Sort the keys that agree in their first bytes, and keep one of equal keys."""
    mask = bool_array(tied)
    some = order.filter(mask)
    # Keys that come sorted are in order already.
    chunks = range(0, len(some), _CHUNK_ROWS)
    if all(_rises(keys.take(some.slice(start, _CHUNK_ROWS + 1))) for start in chunks):
        return order
    found = keys.take(some)
    exact = pc.sort_indices(found)
    found = found.take(exact)
    differs = pc.not_equal(found.slice(1), found.slice(0, len(found) - 1))
    kept = ~tied
    kept[np.flatnonzero(tied)] = np.append(True, to_bools(differs))
    return pc.replace_with_mask(order, mask, some.take(exact)).filter(bool_array(kept))


def _rises(keys: pa.BinaryArray) -> bool:
    rising = pc.greater(keys.slice(1), keys.slice(0, len(keys) - 1))
    return bool(pc.all(rising, min_count=0).as_py())
