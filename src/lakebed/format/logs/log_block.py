"""Blocks of an inline log file, log format version 1.

A file is a sequence of blocks, without a file header. Integers are big-endian.

    6   magic "#HUDI#"
    8   length: bytes from the next field to the end of the block
    4   log format version (1)
    4   block type
    4   number of header entries, each: int32 key, int32 length, UTF-8 string
    8   content length
    n   content
    4   number of footer entries (0)
    8   total length: length + 6

Agrees with Hudi's HoodieLogFormatWriter; `log_scan` is the reader.
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from lakebed.errors import CorruptError, InvalidError

MAGIC: Final = b"#HUDI#"
FORMAT_VERSION: Final = 1
INT: Final = struct.Struct(">i")
LONG: Final = struct.Struct(">q")
PREFIX: Final = struct.Struct(">6sq")
FRAME_SIZE: Final = 4 + 4 + 4 + 8 + 4 + 8
"""The minimum `length`, without headers and content."""


class BlockType(IntEnum):
    """The kind of content of a block. The values are stored on disk: do not change them."""

    COMMAND = 0
    DELETE = 1
    CORRUPT = 2  # never on disk; used by Hudi's readers for a damaged span
    AVRO_DATA = 3
    HFILE_DATA = 4
    PARQUET_DATA = 5
    CDC_DATA = 6


class HeaderKey(IntEnum):
    """Keys of a block's headers.

    Values and names are stored on disk, the names in footers of native logs: do not change them.
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
"""COMMAND_BLOCK_TYPE of a block that rolls back the earlier blocks of TARGET_INSTANT_TIME."""


@dataclass(frozen=True, slots=True)
class LogBlock:
    """One block; `offset` is its position in the file."""

    type: BlockType
    headers: Mapping[HeaderKey, str]
    content: bytes
    offset: int = field(default=0, compare=False)

    @property
    def instant(self) -> str:
        """Return the instant in the block's headers; raise CorruptError if it is missing."""
        try:
            return self.headers[HeaderKey.INSTANT_TIME]
        except KeyError:
            raise CorruptError(
                f"{self.type.name} block at byte {self.offset}: expected a header INSTANT_TIME"
            ) from None


@dataclass(frozen=True, slots=True)
class CorruptSpan:
    """A part of a log file that is not an intact block, for example after a torn write."""

    offset: int
    size_bytes: int
    reason: str


def encode_block(block: LogBlock) -> bytes:
    """Encode a block, with headers sorted by key."""
    head, tail = encode_frame(block.type, block.headers, len(block.content))
    return b"".join((head, block.content, tail))


def encode_frame(
    kind: BlockType, headers: Mapping[HeaderKey, str], content_length: int
) -> tuple[bytes, bytes]:
    """Encode the bytes before and after a block's content, so that content can be streamed."""
    if kind is BlockType.CORRUPT:
        raise InvalidError("log block: the type CORRUPT is never written")
    entries = b"".join(
        INT.pack(key) + INT.pack(len(text)) + text
        for key, text in sorted((HeaderKey(k), v.encode()) for k, v in headers.items())
    )
    length = FRAME_SIZE + len(entries) + content_length
    head = b"".join(
        (
            PREFIX.pack(MAGIC, length),
            struct.pack(">iii", FORMAT_VERSION, kind, len(headers)),
            entries,
            LONG.pack(content_length),
        )
    )
    return head, INT.pack(0) + LONG.pack(length + len(MAGIC))
