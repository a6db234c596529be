"""The compiled hash of many strings.

It is used for large inputs only (`bucket_hash.KERNEL_MIN_BYTES`), because importing numba is slow; see
`format/compiled.py`.
"""

from collections.abc import Callable
from functools import cache

import numpy as np
import numpy.typing as npt

from lakebed.format.compiled import load_compiled

Fold = Callable[[npt.NDArray[np.uint8], npt.NDArray[np.int64], npt.NDArray[np.int32]], None]


@cache
def load_fold() -> Fold:
    """Return the kernel, compiled or loaded from the cache once per process.

    Its arguments are UTF-8 bytes, len + 1 offsets into them, and one hash per string; it sets each
    hash to `31 * hash + Java's String.hashCode(text)` in 32 bits. The offsets must ascend and be
    inside the bytes, which is not checked.
    """
    return load_compiled(__file__, _compile)


def _compile(cached: bool) -> Fold:
    import numba as nb  # noqa: PLC0415 - see the module's docstring

    data = nb.types.Array(nb.uint8, 1, "C", readonly=True)
    offsets = nb.types.Array(nb.int64, 1, "C", readonly=True)
    kernel = nb.njit(nb.void(data, offsets, nb.int32[::1]), cache=cached, nogil=True)(_fold)
    fold: Fold = kernel
    return fold


def _fold(
    data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64], hashes: npt.NDArray[np.int32]
) -> None:
    """Hash the UTF-16 units of UTF-8 strings, in 64 bits, whose low 32 bits are those of Java."""
    for row in range(hashes.shape[0]):
        at = offsets[row]
        end = offsets[row + 1]
        value = np.int64(0)
        while at < end:
            lead = np.int64(data[at])
            if lead < 0x80:
                value = value * 31 + lead
                at += 1
                continue
            size = 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4
            if at + size > end:
                break  # not UTF-8: do not read the next string
            code = lead & (0xFF >> (size + 1))
            for step in range(1, size):
                code = (code << 6) | (np.int64(data[at + step]) & 0x3F)
            if size == 4:
                code -= 0x10000
                value = value * 31 + (0xD800 + (code >> 10))
                code = 0xDC00 + (code & 0x3FF)
            value = value * 31 + code
            at += size
        total = (np.int64(hashes[row]) * 31 + value) & 0xFFFFFFFF
        hashes[row] = np.int32(total - 0x100000000 if total >= 0x80000000 else total)
