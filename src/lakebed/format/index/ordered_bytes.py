r"""Values of any ordered type as bytes that compare like the values.

The key of an index entry is the concatenation of the encoded values of its columns, the partition
path and the record key. Each part marks its own end, so keys compare part by part, and all keys
with the same leading parts are adjacent.

    null               00
    any other value    01, then
      BOOLEAN            one byte
      integers, dates,   eight bytes, big-endian, the sign bit flipped; timestamps in microseconds
        timestamps
      FLOAT, DOUBLE      the bits of the double: all flipped if negative, else only the sign bit
      DECIMAL            the unscaled value in 16 bytes (32 beyond 38 digits), the sign bit flipped
      STRING, BINARY     the bytes, 00 as 00 ff, and 00 00 at the end

Null sorts first, and NaN after all other numbers. -0.0 and 0.0 are the same value, as are all NaNs.
Integers of any width have the same bytes.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import SchemaError

NULL = b"\x00"
"""The encoding of null."""

VALUE = b"\x01"
"""The first byte of the encoding of any other value."""

_END = b"\x00\x00"
_Bytes = npt.NDArray[np.uint8]


def is_ordered(kind: pa.DataType) -> bool:
    """Return whether values of type `kind` can be part of a key."""
    tests = (
        pa.types.is_boolean,
        pa.types.is_signed_integer,
        pa.types.is_floating,
        pa.types.is_decimal,
        pa.types.is_date32,
        pa.types.is_timestamp,
        _is_text,
    )
    return any(test(kind) for test in tests)


def encode_rows(columns: Sequence[pa.Array], tail: pa.Array | None = None) -> pa.BinaryArray:
    r"""Return the key of each row: the concatenated encodings of its values in `columns`.

    `tail` contains the end of each key, already encoded.

    >>> encode_rows([pa.array([7, None], pa.int64()), pa.array(["a", "b"])]).to_pylist()
    [b'\x01\x80\x00\x00\x00\x00\x00\x00\x07\x01a\x00\x00', b'\x00\x01b\x00\x00']
    """
    parts = [_encode_column(column) for column in columns]
    if tail is not None:
        parts.append(tail.cast(pa.large_binary()))
    # A batch stays below 2 GiB, so 32-bit offsets suffice.
    return pc.binary_join_element_wise(*parts, _empty()).cast(pa.binary())


def encode_keys(partition: str, keys: pa.Array) -> pa.BinaryArray:
    r"""Return `encode_rows` of partition path and record key, for rows of one partition.

    >>> encode_keys("p", pa.array(["a"])).to_pylist()
    [b'\x01p\x00\x00\x01a\x00\x00']
    """
    return _encode_text(keys, encode_values([partition], [pa.string()]) + VALUE).cast(pa.binary())


def encode_values(values: Sequence[object], kinds: Sequence[pa.DataType]) -> bytes:
    """Return the common prefix of all keys whose leading values are `values`."""
    if not values:
        return b""
    columns = [pa.array([value], kind) for value, kind in zip(values, kinds, strict=True)]
    return bytes(encode_rows(columns)[0].as_py())


def leading_values(key: bytes, kinds: Sequence[pa.DataType]) -> bytes:
    r"""Return the prefix of a key that encodes values of these types.

    >>> leading_values(encode_values(["a", 7, "x"], [pa.string(), pa.int64(), pa.string()]), [pa.string()])
    b'\x01a\x00\x00'
    """
    at = 0
    for kind in kinds:
        if key[at : at + 1] == NULL:
            at += 1
        elif _is_text(kind):
            at = key.index(NULL, at + 1)
            while key[at : at + 2] != _END:
                at = key.index(NULL, at + 2)
            at += 2
        else:
            at += 1 + _width(kind)
    return key[:at]


def after_prefix(prefix: bytes) -> bytes | None:
    r"""Return the smallest key greater than all keys that start with `prefix`, or None.

    >>> after_prefix(bytes([1, 255])), after_prefix(bytes([255]))
    (b'\x02', None)
    """
    kept = prefix.rstrip(b"\xff")
    return kept[:-1] + bytes([kept[-1] + 1]) if kept else None


def _encode_column(column: pa.Array) -> pa.Array:
    kind = column.type
    if not is_ordered(kind):
        raise SchemaError(f"a column of type {kind} has no order that an index could keep")
    valid = column.drop_null()
    encoded = _encode_text(valid, VALUE) if _is_text(kind) else _as_binary(_fixed_width(valid))
    if column.null_count == 0:
        return encoded
    nulls = pa.nulls(len(column), pa.large_binary())
    filled = pc.replace_with_mask(nulls, column.is_valid(), encoded)
    return pc.fill_null(filled, pa.scalar(NULL, pa.large_binary()))


def _encode_text(valid: pa.Array, before: bytes) -> pa.Array:
    """Return non-null strings, escaped and terminated, with the bytes `before` in front of each."""
    # Large binary, because escaping lengthens strings.
    plain = valid.cast(pa.large_binary())
    data = plain.buffers()[2]
    if data is not None and 0 in np.frombuffer(data, np.uint8):
        # This also works on binary values, byte by byte.
        plain = pc.replace_substring(plain, NULL, NULL + b"\xff")
    marks = pa.scalar(before, pa.large_binary()), pa.scalar(_END, pa.large_binary())
    return pc.binary_join_element_wise(marks[0], plain, marks[1], _empty())


def _width(kind: pa.DataType) -> int:
    """Return the size of an encoded value of fixed width, without its first byte."""
    if pa.types.is_boolean(kind):
        return 1
    return int(kind.byte_width) if pa.types.is_decimal(kind) else 8


def _fixed_width(valid: pa.Array) -> _Bytes:
    """Return the encoded values as rows of a matrix, without the leading byte VALUE."""
    kind = valid.type
    if pa.types.is_boolean(kind):
        truths: _Bytes = valid.cast(pa.uint8()).to_numpy(zero_copy_only=False)
        return truths.reshape(-1, 1)
    if pa.types.is_decimal(kind):
        return _decimals(valid)
    if pa.types.is_floating(kind):
        # Adding 0.0 turns -0.0 into 0.0; NaNs have many bit patterns.
        reals = valid.cast(pa.float64()).to_numpy(zero_copy_only=False) + 0.0
        reals[np.isnan(reals)] = np.nan
        bits = reals.view(np.uint64)
        negative = bits >> np.uint64(63) == 1
        return _big_endian(np.where(negative, ~bits, bits | np.uint64(1 << 63)))
    if pa.types.is_timestamp(kind):
        valid = valid.cast(pa.timestamp("us", kind.tz), safe=False).cast(pa.int64())
    elif pa.types.is_date32(kind):
        valid = valid.cast(pa.int32())
    whole = valid.cast(pa.int64()).to_numpy(zero_copy_only=False).view(np.uint64)
    return _big_endian(whole ^ np.uint64(1 << 63))


def _big_endian(numbers: npt.NDArray[np.uint64]) -> _Bytes:
    return numbers.astype(">u8").view(np.uint8).reshape(-1, 8)


def _decimals(valid: pa.Array) -> _Bytes:
    width = valid.type.byte_width
    data = valid.buffers()[1]
    raw = np.frombuffer(data, np.uint8)[valid.offset * width :][: len(valid) * width]
    digits = raw.reshape(-1, width)[:, ::-1].copy()
    digits[:, 0] ^= 0x80
    return digits


def _as_binary(values: _Bytes) -> pa.Array:
    rows, width = values.shape
    marked = np.empty((rows, width + 1), np.uint8)
    marked[:, 0] = VALUE[0]
    marked[:, 1:] = values
    fixed = pa.Array.from_buffers(
        pa.binary(width + 1), rows, [None, pa.py_buffer(marked.reshape(-1))]
    )
    return fixed.cast(pa.binary()).cast(pa.large_binary())


def _empty() -> pa.Scalar:
    return pa.scalar(b"", pa.large_binary())


def _is_text(kind: pa.DataType) -> bool:
    tests = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary)
    return any(test(kind) for test in tests) or bool(pa.types.is_large_binary(kind))
