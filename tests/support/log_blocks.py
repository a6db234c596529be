"""The blocks of an inline log that is held in memory, with their content."""

from collections.abc import Iterator

from lakebed.format.logs.log_block import CorruptSpan, LogBlock
from lakebed.format.logs.log_scan import scan_blocks


def iter_blocks(data: bytes, what: str) -> Iterator[LogBlock | CorruptSpan]:
    """Yield the blocks and damaged spans of a log file."""
    for found in scan_blocks(lambda at, length: data[at : at + length], len(data), what):
        if isinstance(found, CorruptSpan):
            yield found
        else:
            content = data[found.content_offset : found.content_offset + found.content_length]
            yield LogBlock(found.type, found.headers, content, found.offset)
