"""Avro's binary encoding for whole columns: what `avro_binary` does for one value.

Positions are int64 arrays of offsets into one uint8 array. Nothing is read past its end: a value
that would extend beyond it is not `ok`, and its number is undefined.
"""

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Bytes = npt.NDArray[np.uint8]
Longs = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

_MAX_BYTES: Final = 10


def encode_longs(values: Longs) -> pa.LargeBinaryArray:
    """Encode integers.

    >>> [value.hex() for value in encode_longs(np.array([0, -1, 300])).to_pylist()]
    ['00', '01', 'd804']
    """
    rest = ((values << 1) ^ (values >> 63)).view(np.uint64)
    largest = int(rest.max(initial=0))
    width = max(1, -(-largest.bit_length() // 7))
    groups = np.empty((len(rest), width), dtype=np.uint8)
    sizes = np.ones(len(rest), dtype=np.int64)
    for place in range(width):
        groups[:, place] = (rest & 0x7F).astype(np.uint8)
        rest = rest >> np.uint64(7)
        more = rest > 0
        groups[more, place] |= 0x80
        sizes += more
    return ragged(groups, np.arange(width) < sizes[:, None])


def encode_sized(values: pa.Array) -> pa.Array:
    """Encode strings or bytes with a length prefix."""
    data = values.cast(pa.large_binary())
    lengths = pc.binary_length(data).to_numpy(zero_copy_only=False)
    return join([encode_longs(lengths.astype(np.int64)), data])


def fixed(values: npt.NDArray[np.generic]) -> pa.LargeBinaryArray:
    """Return the bytes of each number as they are in memory."""
    matrix = np.ascontiguousarray(values).view(np.uint8).reshape(len(values), -1)
    return ragged(matrix, np.ones(matrix.shape, dtype=bool))


def ragged(matrix: Bytes, kept: Flags) -> pa.LargeBinaryArray:
    """Return one value per row of `matrix`: the bytes of the row that are kept."""
    offsets = np.zeros(len(matrix) + 1, dtype=np.int64)
    np.cumsum(kept.sum(axis=1), out=offsets[1:])
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(matrix[kept])]
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(matrix), buffers)


def join(parts: list[pa.Array | bytes]) -> pa.Array:
    """Concatenate the values of the parts row by row."""
    columns = [pa.scalar(p, pa.large_binary()) if isinstance(p, bytes) else p for p in parts]
    return pc.binary_join_element_wise(*columns, pa.scalar(b"", pa.large_binary()))


def read_longs(data: Bytes, at: Longs) -> tuple[Longs, Longs, Flags]:
    """Read an integer at each position: the numbers, the positions after them, and which are ok."""
    value = np.zeros(len(at), dtype=np.uint64)
    after = at.copy()
    going = np.ones(len(at), dtype=bool)
    ok = at >= 0
    for place in range(_MAX_BYTES):
        ok &= ~going | (after < len(data))
        byte = np.where(going, data.take(after, mode="clip"), 0).astype(np.uint64)
        if place == _MAX_BYTES - 1:
            ok &= byte < 2  # more than 64 bits, or unterminated
        value |= (byte & 0x7F) << np.uint64(7 * place)
        after += going
        going = going & (byte >= 0x80)
        if not going.any():
            break
    signed = (value >> np.uint64(1)).view(np.int64) ^ -(value & np.uint64(1)).view(np.int64)
    return signed, after, ok


def read_slices(data: pa.Buffer, starts: Longs, ends: Longs) -> pa.Array:
    """Return the bytes from each start to its end; the slices must ascend and not overlap.

    The data must be shorter than 2 GiB.
    """
    # Build one array in which every second value is the gap between two slices: Arrow does the
    # copying.
    offsets = np.empty(2 * len(starts), dtype=np.int32)
    offsets[0::2] = starts
    offsets[1::2] = ends
    buffers = [None, pa.py_buffer(offsets), data]
    both = pa.BinaryArray.from_buffers(pa.binary(), max(0, len(offsets) - 1), buffers)
    return both.take(pa.array(np.arange(0, len(offsets), 2)))
