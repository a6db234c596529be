"""Convert between Arrow columns and numpy arrays without a copy and without pandas.

`Array.to_numpy` and `pa.array(ndarray)` import pandas on first use, which takes 1.4 s: too long for
a lookup of one key. Using buffers directly avoids the import.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakebed.errors import InvalidError

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]


def to_numpy(column: pa.Array, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Return the values of a fixed-width column as `dtype`; the values of nulls are undefined."""
    values = column.buffers()[1]
    if len(column) == 0 or values is None:
        return np.zeros(len(column), dtype)
    return np.frombuffer(values, dtype)[column.offset : column.offset + len(column)]


def to_bools(column: pa.BooleanArray) -> npt.NDArray[np.bool_]:
    """Return the values of a boolean column without nulls."""
    values = column.buffers()[1]
    if len(column) == 0 or values is None:
        return np.zeros(len(column), np.bool_)
    bits = np.unpackbits(np.frombuffer(values, np.uint8), bitorder="little")
    return bits[column.offset : column.offset + len(column)].view(np.bool_)


def int64_array(values: Ints, nulls: npt.NDArray[np.bool_] | None = None) -> pa.Int64Array:
    """Return `values` as an Arrow column, null where `nulls` is true."""
    valid = None if nulls is None else pa.py_buffer(np.packbits(~nulls, bitorder="little"))
    data = pa.py_buffer(np.ascontiguousarray(values, np.int64))
    return pa.Array.from_buffers(pa.int64(), len(values), [valid, data])


def bool_array(values: npt.NDArray[np.bool_]) -> pa.BooleanArray:
    """Return `values` as an Arrow column."""
    data = pa.py_buffer(np.packbits(values, bitorder="little"))
    return pa.Array.from_buffers(pa.bool_(), len(values), [None, data])


def uint8_array(values: Bytes) -> pa.UInt8Array:
    """Return `values` as an Arrow column."""
    data = pa.py_buffer(np.ascontiguousarray(values, np.uint8))
    return pa.Array.from_buffers(pa.uint8(), len(values), [None, data])


def key_bytes(keys: pa.Array, what: str) -> tuple[Bytes, npt.NDArray[Any]]:
    """Return the bytes of a key column, and len + 1 offsets into them."""
    kind = keys.type
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        width: npt.DTypeLike = np.int32
    elif pa.types.is_large_string(kind) or pa.types.is_large_binary(kind):
        width = np.int64
    else:
        raise InvalidError(f"{what}: expected keys as strings or bytes, found {kind}")
    _, offsets, data = keys.buffers()
    if len(keys) == 0:
        return np.empty(0, np.uint8), np.zeros(1, width)
    places = np.frombuffer(offsets, width)[keys.offset : keys.offset + len(keys) + 1]
    return np.frombuffer(data or b"", np.uint8), places
