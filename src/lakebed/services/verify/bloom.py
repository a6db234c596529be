"""Bloom filters in the footers of Apache Hudi's files, which must hold every key of their file.

    org.apache.hudi.bloomfilter       base64 of a filter as Hadoop writes it, big-endian:
    simple filter     int32 version -1, int32 hashes, byte 1 (murmur), int32 bits,
                      ceil(bits / 8) bytes, the first bit of each the lowest
    dynamic filter    int32 version -1, int32 hashes, byte 1, int32 bits,
                      int32 keys per row, int32 keys in the last row, int32 rows,
                      then that many simple filters: a key is in one of them
    hoodie_bloom_filter_type_code     DYNAMIC_V0 for the second, otherwise the first

Agrees with Hudi's SimpleBloomFilter, InternalDynamicBloomFilter and Hadoop's MurmurHash. Hudi's
Bloom index trusts these filters: a key that is missing from its filter is written twice.
"""

import base64
import binascii
import struct
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import CorruptError, UnsupportedError

FOOTER_BLOOM: Final = "org.apache.hudi.bloomfilter"
FOOTER_BLOOM_TYPE: Final = "hoodie_bloom_filter_type_code"
_DYNAMIC: Final = "DYNAMIC_V0"
_HEADER: Final = struct.Struct(">iibi")
_DYNAMIC_TAIL: Final = struct.Struct(">iii")
_MURMUR: Final = 1
_MAX_HASHES: Final = 1_000
_M: Final = np.uint32(0x5BD1E995)

Words = npt.NDArray[np.uint32]


@dataclass(frozen=True, slots=True)
class BloomFilter:
    """The rows of a filter, each a bit vector; a simple filter has one row."""

    hashes: int
    rows: tuple[npt.NDArray[np.bool_], ...]

    def missing(self, keys: pa.StringArray) -> pa.Array:
        """Return for each of `keys`, which has no nulls, whether it is missing from the filter."""
        held = np.zeros(len(keys), dtype=bool)
        lengths = pc.binary_length(keys).to_numpy(zero_copy_only=False)
        for length in np.unique(lengths):
            at = np.flatnonzero(lengths == length)
            # Hudi does not hash an empty key.
            held[at] = length == 0 or self._holds(_matrix(keys.take(pa.array(at)), int(length)))
        return pa.array(~held)

    def _holds(self, data: npt.NDArray[np.int8]) -> npt.NDArray[np.bool_]:
        alive = [np.ones(len(data), dtype=bool) for _ in self.rows]
        seed = np.zeros(len(data), dtype=np.uint32)
        for _ in range(self.hashes):
            seed = murmur(data, seed)
            signed = seed.view(np.int32).astype(np.int64)
            for row, bits in enumerate(self.rows):
                # Java's remainder keeps the sign, which its caller then drops.
                alive[row] &= bits[np.abs(np.fmod(signed, len(bits)))]
        held: npt.NDArray[np.bool_] = np.any(np.stack(alive), axis=0)
        return held


def parse_bloom(text: str, kind: str, what: str) -> BloomFilter:
    """Parse the filter of a footer; raise CorruptError, naming `what`, if it is invalid."""
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise CorruptError(f"{what}: {FOOTER_BLOOM} is not base64 ({error})") from error
    if kind != _DYNAMIC:
        bits, hashes, _ = _parse_simple(data, 0, what)
        return BloomFilter(hashes, (bits,))
    hashes, _, at = _parse_header(data, 0, what)
    if at + _DYNAMIC_TAIL.size > len(data):
        raise _cut(what)
    _, _, count = _DYNAMIC_TAIL.unpack_from(data, at)
    at += _DYNAMIC_TAIL.size
    rows = []
    # Each row takes some bytes, so the data bounds the number of rows.
    for _ in range(count):
        bits, _, at = _parse_simple(data, at, what)
        rows.append(bits)
    if not rows:
        raise CorruptError(f"{what}: {FOOTER_BLOOM} is dynamic, but has no row")
    return BloomFilter(hashes, tuple(rows))


def murmur(data: npt.NDArray[np.int8], seed: Words) -> Words:
    """Hash each row of `data`, keys of equal length, with Hadoop's MurmurHash and its own seed."""
    length = data.shape[1]
    hashed = seed ^ np.uint32(length)
    whole = length // 4 * 4
    words = np.ascontiguousarray(data[:, :whole]).view("<u4").reshape(len(data), length // 4)
    for column in range(length // 4):
        word = words[:, column] * _M
        word ^= word >> np.uint32(24)
        word *= _M
        hashed *= _M
        hashed ^= word
    if length > whole:
        # Bytes are signed in Java, and are sign-extended here.
        tail = data[:, whole:].astype(np.int32).view(np.uint32)
        # Among the remaining bytes the last is the lowest, unlike in the words before.
        for at in range(length - whole):
            hashed ^= tail[:, -1 - at] << np.uint32(8 * at)
        hashed *= _M
    hashed ^= hashed >> np.uint32(13)
    hashed *= _M
    hashed ^= hashed >> np.uint32(15)
    return hashed


def _parse_simple(data: bytes, at: int, what: str) -> tuple[npt.NDArray[np.bool_], int, int]:
    hashes, size, at = _parse_header(data, at, what)
    end = at + (size + 7) // 8
    if end > len(data):
        raise _cut(what)
    bits = np.unpackbits(np.frombuffer(data[at:end], np.uint8), count=size, bitorder="little")
    return bits.astype(bool), hashes, end


def _parse_header(data: bytes, at: int, what: str) -> tuple[int, int, int]:
    if at + _HEADER.size > len(data):
        raise _cut(what)
    version, hashes, kind, size = _HEADER.unpack_from(data, at)
    if version != -1 or kind != _MURMUR:
        raise UnsupportedError(
            f"{what}: {FOOTER_BLOOM} of version {version} with hash {kind}; expected -1 and 1"
        )
    if not 0 < hashes <= _MAX_HASHES or size <= 0:
        raise CorruptError(f"{what}: {FOOTER_BLOOM} with {hashes} hashes over {size} bits")
    return hashes, size, at + _HEADER.size


def _matrix(keys: pa.StringArray, length: int) -> npt.NDArray[np.int8]:
    """Return keys of equal length in bytes as the rows of a matrix."""
    packed = keys.cast(pa.binary()).cast(pa.binary(length))
    values = np.frombuffer(packed.buffers()[1], np.int8, len(keys) * length, packed.offset * length)
    return values.reshape(len(keys), length)


def _cut(what: str) -> CorruptError:
    return CorruptError(f"{what}: {FOOTER_BLOOM} ends before it is whole")
