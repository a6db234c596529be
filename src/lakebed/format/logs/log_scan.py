"""Find the blocks of an inline log file without reading their content.

This takes two short reads per block: one of its headers, and one of the length at its end together
with the headers of the next block. `log_block` documents the bytes. As in Hudi's
HoodieLogFileReader, a span is damaged if it lacks the magic, its length extends past the end of the
file, its two lengths differ, or neither a magic nor the end of the file follows; it extends to the
next magic. A block that is intact but unsupported raises an error.
"""

import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from lakebed.errors import CorruptError, UnknownFormatError
from lakebed.format.logs.log_block import (
    FORMAT_VERSION,
    FRAME_SIZE,
    INT,
    LONG,
    MAGIC,
    PREFIX,
    BlockType,
    CorruptSpan,
    HeaderKey,
    LogBlock,
)

ReadRange = Callable[[int, int], bytes]

_HEAD: Final = struct.Struct(">iii")
_TAIL: Final = struct.Struct(">iq")
_READ_AHEAD: Final = 32 << 10
"""The minimum size of a read: enough for most schemas, and for a small file."""
_SEARCH_STEP: Final = 1 << 20
MAX_HEADER_BYTES: Final = 64 << 20
"""The maximum size of a header value, far larger than any schema or record positions."""


@dataclass(frozen=True, slots=True)
class BlockSpan:
    """An intact block from `offset` to `end`, and the position of its content."""

    type: BlockType
    headers: Mapping[HeaderKey, str]
    content_offset: int
    content_length: int
    offset: int
    end: int

    @property
    def instant(self) -> str:
        """Return the instant in the block's headers; raise CorruptError if it is missing."""
        return LogBlock(self.type, self.headers, b"", self.offset).instant


def scan_blocks(read_range: ReadRange, size: int, what: str) -> Iterator[BlockSpan | CorruptSpan]:
    """Yield the blocks and damaged spans of a log file of `size` bytes, in order.

    `read_range(offset, length)` is called only for bytes inside the file, and for at most a header
    and 32 KiB (1 MiB to search for the next block). Raises CorruptError if it returns fewer bytes
    than requested, because then the file has changed.
    """
    window = _Window(read_range, size, what)
    offset = 0
    while offset < size:
        reason, end = _check_frame(window, offset)
        if reason:
            end = window.find_magic(offset + 1)
            yield CorruptSpan(offset, end - offset, reason)
        else:
            yield _parse_place(window, offset, end, what)
        offset = end


class _Window:
    """Access to bytes of the file by offset, from the last two reads if possible.

    Two reads are kept, because a block's headers are parsed after its end is checked.
    """

    def __init__(self, read_range: ReadRange, size: int, what: str) -> None:
        self._read_range = read_range
        self._reads: list[tuple[int, bytes]] = []
        self._what = what
        self.size = size

    def get(self, at: int, length: int) -> bytes:
        """Return `length` bytes, or fewer at the end of the file."""
        length = min(length, self.size - at)
        start, data = self._holding(at, length, _READ_AHEAD)
        return data[at - start : at - start + length]

    def find_magic(self, at: int) -> int:
        """Return the offset of the first magic at or after `at`, or the end of the file."""
        while self.size - at >= len(MAGIC):
            start, data = self._holding(at, len(MAGIC), _SEARCH_STEP)
            found = data.find(MAGIC, at - start)
            if found >= 0:
                return start + found
            at = start + len(data) - len(MAGIC) + 1
        return self.size

    def _holding(self, at: int, length: int, ahead: int) -> tuple[int, bytes]:
        """Return the offset and data of a read that contains `length` bytes from `at`.

        A new read is at least `ahead` bytes long, unless the file ends.
        """
        for index, (start, data) in enumerate(self._reads):
            if start <= at and at + length <= start + len(data):
                self._reads.append(self._reads.pop(index))
                return start, data
        wanted = min(max(length, ahead), self.size - at)
        data = self._read_range(at, wanted)
        if len(data) != wanted:
            raise CorruptError(
                f"{self._what}: expected {wanted} bytes at byte {at} of {self.size}, found {len(data)}"
            )
        self._reads = [*self._reads[-1:], (at, data)]
        return at, data


def _check_frame(window: _Window, offset: int) -> tuple[str, int]:
    """Return an empty string and the end of the intact block at `offset`, or why there is none."""
    prefix = window.get(offset, PREFIX.size)
    left = window.size - offset
    if not prefix.startswith(MAGIC):
        return "expected the magic #HUDI#", 0
    if len(prefix) < PREFIX.size:
        return "the file ends in the length", 0
    length: int = PREFIX.unpack(prefix)[1]
    if not FRAME_SIZE <= length <= left - PREFIX.size:
        return f"length {length} does not fit the {left} bytes left", 0
    end = offset + PREFIX.size + length
    # The first field, the number of footer entries, is checked later.
    tail = window.get(end - _TAIL.size, _TAIL.size + len(MAGIC))
    _, total = _TAIL.unpack_from(tail)
    if total - len(MAGIC) != length:
        return f"length {length} at the start, {total - len(MAGIC)} at the end", 0
    # A shorter remainder is a torn next block, which does not affect this one.
    if window.size - end >= len(MAGIC) and not tail.endswith(MAGIC):
        return "no magic follows the block", 0
    return "", end


def _parse_place(window: _Window, offset: int, end: int, what: str) -> BlockSpan:
    name = f"{what}, block at byte {offset}"
    version, code, count = _HEAD.unpack(window.get(offset + PREFIX.size, _HEAD.size))
    if version != FORMAT_VERSION:
        raise UnknownFormatError(f"{name}: log format version {version}, expected {FORMAT_VERSION}")
    if code not in BlockType.__members__.values() or code == BlockType.CORRUPT:
        raise UnknownFormatError(f"{name}: unknown block type {code}")
    cursor = _Cursor(window, offset + PREFIX.size + _HEAD.size, end - LONG.size, name)
    headers = _parse_headers(cursor, count)
    length = cursor.int64()
    content_offset = cursor.skip(length)
    if (footers := cursor.int32()) != 0:
        raise UnknownFormatError(f"{name}: {footers} footer entries, expected none")
    if cursor.at != cursor.end:
        raise CorruptError(f"{name}: {cursor.end - cursor.at} bytes left over in the block")
    return BlockSpan(BlockType(code), headers, content_offset, length, offset, end)


def _parse_headers(cursor: "_Cursor", count: int) -> dict[HeaderKey, str]:
    if count < 0:
        raise CorruptError(f"{cursor.name}: {count} header entries")
    headers: dict[HeaderKey, str] = {}
    for _ in range(count):  # each consumes bytes, so a count that is too large reaches the end
        key = cursor.int32()
        length = cursor.int32()
        if key not in HeaderKey.__members__.values():
            raise UnknownFormatError(f"{cursor.name}: unknown header key {key}")
        if length > MAX_HEADER_BYTES and length <= cursor.end - cursor.at:
            raise UnknownFormatError(
                f"{cursor.name}: header {HeaderKey(key).name} of {length} bytes, expected at most "
                f"{MAX_HEADER_BYTES}"
            )
        text = cursor.take(length)
        try:
            headers[HeaderKey(key)] = text.decode()
        except UnicodeDecodeError as error:
            raise CorruptError(
                f"{cursor.name}: header {HeaderKey(key).name} is not UTF-8"
            ) from error
    return headers


class _Cursor:
    """Reads successive fields of one block, never past its end."""

    def __init__(self, window: _Window, at: int, end: int, name: str) -> None:
        self._window = window
        self.at = at
        self.end = end
        self.name = name

    def skip(self, size: int) -> int:
        """Skip `size` bytes and return their start."""
        if not 0 <= size <= self.end - self.at:
            raise CorruptError(
                f"{self.name}: expected {size} bytes, the block has {self.end - self.at} left"
            )
        self.at += size
        return self.at - size

    def take(self, size: int) -> bytes:
        return self._window.get(self.skip(size), size)

    def int32(self) -> int:
        value: int = INT.unpack(self.take(INT.size))[0]
        return value

    def int64(self) -> int:
        value: int = LONG.unpack(self.take(LONG.size))[0]
        return value
