"""Row positions in a log header: base64 of a 64-bit Roaring bitmap, portable form.

    uint64  number of 32-bit bitmaps, little-endian
    each    uint32 upper half of its positions, then a RoaringBitmap in its standard form

Positions count rows of a base file from 0. Agrees with Hudi's LogReaderUtils and the
RoaringFormatSpec's 64-bit extension.
"""

import base64
import binascii
from typing import Final

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap64

from lakebed.errors import CorruptError, InvalidError

_MAX_POSITIONS: Final = 1 << 26
"""More rows than one block can change; a few bytes of a bitmap can stand for far more."""


def encode_positions(positions: npt.NDArray[np.int64]) -> str:
    """Write row positions, in any order; one that comes twice counts once.

    >>> encode_positions(np.array([1]))
    'AQAAAAAAAAAAAAAAOjAAAAEAAAAAAAAAEAAAAAEA'
    """
    if positions.size and int(positions.min()) < 0:
        raise InvalidError(f"row position {int(positions.min())}: want 0 or more")
    bitmap = BitMap64(positions.astype(np.uint64))
    return base64.b64encode(bitmap.serialize()).decode("ascii")


def parse_positions(text: str, what: str) -> npt.NDArray[np.int64]:
    """Give the row positions in ascending order, or raise CorruptError that names `what`."""
    try:
        data = base64.b64decode(text, validate=True)
        bitmap = BitMap64.deserialize(data)
    except (binascii.Error, ValueError, LookupError, RuntimeError) as error:
        raise CorruptError(f"{what}: want record positions as a Roaring bitmap: {error}") from error
    if len(bitmap) > _MAX_POSITIONS:
        raise CorruptError(f"{what}: {len(bitmap)} record positions, want at most {_MAX_POSITIONS}")
    found = np.asarray(bitmap.to_array(), dtype=np.uint64)
    if found.size and int(found.max()) >= 1 << 63:
        raise CorruptError(f"{what}: record position {int(found.max())} is no row of a file")
    return found.astype(np.int64)
