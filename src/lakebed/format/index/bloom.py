"""Bloom filters in the footers of base files, in the format of Apache Hudi.

    org.apache.hudi.bloomfilter       base64 of a filter as Hadoop writes it, big-endian:
    simple filter     int32 version -1, int32 hashes, byte 1 (murmur), int32 bits,
                      ceil(bits / 8) bytes, the first bit of each the lowest
    dynamic filter    int32 version -1, int32 hashes, byte 1, int32 bits,
                      int32 keys per row, int32 keys in the last row, int32 rows,
                      then that many simple filters: a key is in one of them
    hoodie_bloom_filter_type_code     DYNAMIC_V0 for the second, otherwise the first

Agrees with Hudi's SimpleBloomFilter, InternalDynamicBloomFilter and Hadoop's MurmurHash. Writers
with a Bloom index, Hudi's and Lakebed's, rely on these filters: if a filter lacked a key of its
file, an upsert of the key would duplicate the row.
"""

import base64
import binascii
import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import CorruptError, UnsupportedError

FOOTER_BLOOM: Final = "org.apache.hudi.bloomfilter"
FOOTER_BLOOM_TYPE: Final = "hoodie_bloom_filter_type_code"
_SIMPLE: Final = "SIMPLE"
_DYNAMIC: Final = "DYNAMIC_V0"
_HEADER: Final = struct.Struct(">iibi")
_DYNAMIC_TAIL: Final = struct.Struct(">iii")
_MURMUR: Final = 1
_MAX_HASHES: Final = 1_000
_M: Final = np.uint32(0x5BD1E995)

Words = npt.NDArray[np.uint32]
Bits = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class BloomFilter:
    """A filter, whose rows are bit vectors; a simple filter has one row."""

    hashes: int
    rows: tuple[Bits, ...]

    def missing(self, keys: pa.StringArray) -> pa.Array:
        """Return for each key whether it is missing from the filter; keys must not be null."""
        hashed = KeyHashes(keys)
        alive = [np.ones(len(keys), dtype=bool) for _ in self.rows]
        for values in hashed.take(self.hashes):
            for row, bits in enumerate(self.rows):
                alive[row] &= bits[_positions(values, len(bits))]
        held = np.any(np.stack(alive), axis=0)
        # Hudi does not hash an empty key.
        return pa.array(~held[hashed.places] & (hashed.lengths > 0))


class BloomWriter:
    """Builds the filter of a file from its keys, in bounded memory.

    Up to `entries` keys become a simple filter of exactly the necessary size. More keys become a
    dynamic filter, whose first row takes `entries` keys and each further row twice as many as the
    one before. (Hudi writes at most two rows of equal size, so its filters of large files match
    nearly every key.)
    """

    def __init__(self, entries: int, false_positives: float) -> None:
        self._entries = entries
        self._false_positives = false_positives
        self._hashes = _num_hashes(false_positives)
        # All keys so far, while they fit a simple filter.
        self._held: list[pa.StringArray] = []
        self._num_held = 0
        self._rows: list[Bits] = []
        self._room = 0
        self._in_last = 0

    def add(self, keys: pa.StringArray) -> None:
        """Add keys, which must not be null."""
        if not self._rows and self._num_held + len(keys) <= self._entries:
            self._held.append(keys)
            self._num_held += len(keys)
            return
        held, self._held, self._num_held = [*self._held, keys], [], 0
        for batch in held:
            self._put(batch)

    def _put(self, keys: pa.StringArray) -> None:
        start = 0
        while start < len(keys):
            if not self._room:
                self._room = self._entries << len(self._rows)
                self._rows.append(self._empty(self._room))
                self._in_last = 0
            piece = keys.slice(start, self._room)
            self._set(self._rows[-1], piece)
            start += len(piece)
            self._room -= len(piece)
            self._in_last += len(piece)

    def _empty(self, entries: int) -> Bits:
        return np.zeros(_num_bits(entries, self._false_positives), dtype=bool)

    def _set(self, bits: Bits, keys: pa.StringArray) -> None:
        for values in KeyHashes(keys).take(self._hashes):
            bits[_positions(values, len(bits))] = True

    def footer(self) -> dict[str, str]:
        """Return the footer entries of the filter."""
        if not self._rows:
            bits = self._empty(max(1, self._num_held))
            for keys in self._held:
                self._set(bits, keys)
            return {FOOTER_BLOOM: _encode(self._simple(bits)), FOOTER_BLOOM_TYPE: _SIMPLE}
        head = _HEADER.pack(-1, self._hashes, _MURMUR, len(self._rows[0]))
        tail = _DYNAMIC_TAIL.pack(self._entries, self._in_last, len(self._rows))
        rows = b"".join(map(self._simple, self._rows))
        return {FOOTER_BLOOM: _encode(head + tail + rows), FOOTER_BLOOM_TYPE: _DYNAMIC}

    def _simple(self, bits: Bits) -> bytes:
        packed = np.packbits(bits, bitorder="little").tobytes()
        return _HEADER.pack(-1, self._hashes, _MURMUR, len(bits)) + packed


class KeyHashes:
    """Successive murmur hashes of many keys, each hash being the seed of the next.

    Hashes are in descending order of key length, so that the keys that have a word at some offset
    come first. `places` maps keys to the positions of their hashes.
    """

    def __init__(self, keys: pa.StringArray) -> None:
        self.lengths = pc.binary_length(keys).to_numpy(zero_copy_only=False).astype(np.int64)
        order = np.argsort(-self.lengths, kind="stable")
        self.places = np.empty_like(order)
        self.places[order] = np.arange(len(order))
        self._lengths = self.lengths[order]
        data, starts = _bytes_of(keys)
        starts = starts[order]
        words = self._lengths // 4
        # The first `counts[n]` keys have more than n words.
        counts = len(words) - np.searchsorted(
            words[::-1], np.arange(int(words.max(initial=0))), "right"
        )
        self._mixed = [_mixed(data, starts[:n] + 4 * at) for at, n in enumerate(counts.tolist())]
        self._tails = np.zeros(len(words), dtype=np.uint32)
        for back in range(3):
            # Of the last bytes, which do not fill a word, the last is the lowest. Java's are
            # signed.
            rows = np.flatnonzero(self._lengths % 4 > back)
            values = data[starts[rows] + self._lengths[rows] - 1 - back].view(np.int8)
            self._tails[rows] ^= values.astype(np.int32).view(np.uint32) << np.uint32(8 * back)
        self._tailed = np.flatnonzero(self._lengths % 4)

    def take(self, count: int) -> Iterator[Words]:
        """Yield the first `count` hashes of all keys."""
        seed = np.zeros(len(self._lengths), dtype=np.uint32)
        for _ in range(count):
            seed = self.next(seed)
            yield seed

    def next(self, seed: Words) -> Words:
        """Return the hash of each key, with `seed` containing a seed for each."""
        hashed: Words = seed ^ self._lengths.astype(np.uint32)
        for mixed in self._mixed:
            part = hashed[: len(mixed)]
            part *= _M
            part ^= mixed
        hashed ^= self._tails
        hashed[self._tailed] *= _M
        hashed ^= hashed >> np.uint32(13)
        hashed *= _M
        hashed ^= hashed >> np.uint32(15)
        return hashed


def _mixed(data: npt.NDArray[np.uint8], at: npt.NDArray[np.int64]) -> Words:
    """Return the little-endian words at these offsets, mixed as murmur mixes each word."""
    word = data[at].astype(np.uint32)
    for byte in range(1, 4):
        word |= data[at + byte].astype(np.uint32) << np.uint32(8 * byte)
    word *= _M
    word ^= word >> np.uint32(24)
    word *= _M
    return word


def _positions(hashes: Words, size: int) -> npt.NDArray[np.int64]:
    # In Java, a remainder has the sign of the dividend; Hudi takes the absolute value.
    found: npt.NDArray[np.int64] = np.abs(np.fmod(hashes.view(np.int32).astype(np.int64), size))
    return found


def _num_bits(entries: int, false_positives: float) -> int:
    return math.ceil(entries * -math.log(false_positives) / math.log(2) ** 2)


def _num_hashes(false_positives: float) -> int:
    return max(1, math.ceil(-math.log2(false_positives)))


def _encode(data: bytes) -> str:
    return base64.b64encode(data).decode()


def parse_bloom(text: str, kind: str, what: str) -> BloomFilter:
    """Parse the filter in a footer; raise CorruptError, naming `what`, if it is invalid."""
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
    # The number of rows is bounded, because each consumes bytes of the data.
    for _ in range(count):
        bits, _, at = _parse_simple(data, at, what)
        rows.append(bits)
    if not rows:
        raise CorruptError(f"{what}: {FOOTER_BLOOM} is dynamic, but has no row")
    return BloomFilter(hashes, tuple(rows))


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


def _bytes_of(keys: pa.StringArray) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """Return the bytes of all keys and the offset of each key."""
    texts = keys.cast(pa.string())
    _, offsets, data = texts.buffers()
    starts = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts)]
    return np.frombuffer(data or b"", np.uint8), starts.astype(np.int64)


def _cut(what: str) -> CorruptError:
    return CorruptError(f"{what}: {FOOTER_BLOOM} is truncated")
