"""Blocks of an inline log file, log format version 1.

A file is blocks one after another, without a header of its own. Integers are big-endian.

    6   magic "#HUDI#"
    8   length: bytes from the next field to the end of the block
    4   log format version (1)
    4   block type
    4   number of header entries, each: int32 key, int32 length, UTF-8 text
    8   content length
    n   content
    4   number of footer entries (0)
    8   total length: length + 6

Agrees with Hudi's HoodieLogFormatWriter and HoodieLogFileReader.
"""

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from lakebed.errors import CorruptError, InvalidError, UnsupportedError

MAGIC: Final = b"#HUDI#"
FORMAT_VERSION: Final = 1
_INT: Final = struct.Struct(">i")
_LONG: Final = struct.Struct(">q")
_PREFIX: Final = struct.Struct(">6sq")
_FRAME_SIZE: Final = 4 + 4 + 4 + 8 + 4 + 8
"""The smallest `length`: no headers, no content."""


class BlockType(IntEnum):
    """What a block holds. The values are on disk: do not change."""

    COMMAND = 0
    DELETE = 1
    CORRUPT = 2  # never on disk; Hudi's readers use it for a damaged stretch
    AVRO_DATA = 3
    HFILE_DATA = 4
    PARQUET_DATA = 5
    CDC_DATA = 6


class HeaderKey(IntEnum):
    """Keys of a block's headers. The values are on disk: do not change.

    The names are on disk as well, in the footers of native log files.
    """

    INSTANT_TIME = 0
    TARGET_INSTANT_TIME = 1
    SCHEMA = 2
    COMMAND_BLOCK_TYPE = 3
    COMPACTED_BLOCK_TIMES = 4
    RECORD_POSITIONS = 5
    BLOCK_IDENTIFIER = 6
    IS_PARTIAL = 7
    BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS = 8


ROLLBACK_COMMAND: Final = "0"
"""COMMAND_BLOCK_TYPE of a block that takes back the blocks of TARGET_INSTANT_TIME before it."""


@dataclass(frozen=True, slots=True)
class LogBlock:
    """One block; `offset` is where it was found in its file."""

    type: BlockType
    headers: Mapping[HeaderKey, str]
    content: bytes
    offset: int = field(default=0, compare=False)

    @property
    def instant(self) -> str:
        """The instant that wrote the block; CorruptError where it has none."""
        try:
            return self.headers[HeaderKey.INSTANT_TIME]
        except KeyError:
            raise CorruptError(
                f"{self.type.name} block at byte {self.offset}: want a header INSTANT_TIME"
            ) from None


@dataclass(frozen=True, slots=True)
class CorruptSpan:
    """A stretch of a log file that is no whole block, as a torn write leaves it."""

    offset: int
    size_bytes: int
    reason: str


def encode_block(block: LogBlock) -> bytes:
    """Write a block. Headers go in the order of their keys."""
    if block.type is BlockType.CORRUPT:
        raise InvalidError("log block: the type CORRUPT is never written")
    entries = b"".join(
        _INT.pack(key) + _INT.pack(len(text)) + text
        for key, text in sorted((HeaderKey(k), v.encode()) for k, v in block.headers.items())
    )
    body = b"".join(
        (
            struct.pack(">iii", FORMAT_VERSION, block.type, len(block.headers)),
            entries,
            _LONG.pack(len(block.content)),
            block.content,
            _INT.pack(0),
        )
    )
    length = len(body) + _LONG.size
    return _PREFIX.pack(MAGIC, length) + body + _LONG.pack(length + len(MAGIC))


def iter_blocks(data: bytes, what: str) -> Iterator[LogBlock | CorruptSpan]:
    """Give the blocks of a log file in order, and the damaged stretches between them.

    As in Hudi, a stretch is damaged where the magic is missing, a length reaches past the
    end, the two lengths differ, or neither a magic nor the end follows; it ends at the
    next magic. A block that is whole but cannot be understood is an error.
    """
    offset = 0
    while offset < len(data):
        reason, end = _check_frame(data, offset)
        if reason:
            end = data.find(MAGIC, offset + 1)
            end = len(data) if end < 0 else end
            yield CorruptSpan(offset, end - offset, reason)
        else:
            yield _parse_body(data, offset, end, what)
        offset = end


def _check_frame(data: bytes, offset: int) -> tuple[str, int]:
    """Say why no whole block stands at `offset`, or give the empty text and its end."""
    if not data.startswith(MAGIC, offset):
        return "want the magic #HUDI#", 0
    if len(data) - offset < _PREFIX.size:
        return "the file ends in the length", 0
    _, length = _PREFIX.unpack_from(data, offset)
    end = offset + _PREFIX.size + length
    if length < _FRAME_SIZE or end > len(data):
        return f"length {length} does not fit the {len(data) - offset} bytes left", 0
    (total,) = _LONG.unpack_from(data, end - _LONG.size)
    if total - len(MAGIC) != length:
        return f"length {length} at the start, {total - len(MAGIC)} at the end", 0
    # A rest shorter than a magic is a torn next block, and says nothing about this one.
    if len(data) - end >= len(MAGIC) and not data.startswith(MAGIC, end):
        return "no magic follows the block", 0
    return "", end


def _parse_body(data: bytes, offset: int, end: int, what: str) -> LogBlock:
    name = f"{what}, block at byte {offset}"
    version, code, count = struct.unpack_from(">iii", data, offset + _PREFIX.size)
    if version != FORMAT_VERSION:
        raise UnsupportedError(f"{name}: log format version {version}, want {FORMAT_VERSION}")
    if code not in BlockType.__members__.values() or code == BlockType.CORRUPT:
        raise UnsupportedError(f"{name}: unknown block type {code}")
    cursor = _Cursor(data, offset + _PREFIX.size + 12, end - _LONG.size, name)
    headers = _parse_headers(cursor, count)
    content = cursor.take(cursor.int64())
    if (footers := cursor.int32()) != 0:
        raise UnsupportedError(f"{name}: {footers} footer entries, want none")
    if cursor.at != cursor.end:
        raise CorruptError(f"{name}: {cursor.end - cursor.at} bytes left over in the block")
    return LogBlock(BlockType(code), headers, content, offset)


def _parse_headers(cursor: "_Cursor", count: int) -> dict[HeaderKey, str]:
    if count < 0:
        raise CorruptError(f"{cursor.name}: {count} header entries")
    headers: dict[HeaderKey, str] = {}
    for _ in range(count):  # each takes bytes, so a count that is too large runs into the end
        key = cursor.int32()
        text = cursor.take(cursor.int32())
        if key not in HeaderKey.__members__.values():
            raise UnsupportedError(f"{cursor.name}: unknown header key {key}")
        try:
            headers[HeaderKey(key)] = text.decode()
        except UnicodeDecodeError as error:
            raise CorruptError(
                f"{cursor.name}: header {HeaderKey(key).name} is no UTF-8"
            ) from error
    return headers


class _Cursor:
    """Reads the fields of one block, never past its end."""

    def __init__(self, data: bytes, at: int, end: int, name: str) -> None:
        self._data = data
        self.at = at
        self.end = end
        self.name = name

    def take(self, size: int) -> bytes:
        if not 0 <= size <= self.end - self.at:
            raise CorruptError(
                f"{self.name}: want {size} bytes, the block has {self.end - self.at} left"
            )
        self.at += size
        return self._data[self.at - size : self.at]

    def int32(self) -> int:
        value: int = _INT.unpack(self.take(_INT.size))[0]
        return value

    def int64(self) -> int:
        value: int = _LONG.unpack(self.take(_LONG.size))[0]
        return value
