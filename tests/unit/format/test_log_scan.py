import struct

import pytest

from lakebed.errors import CorruptError, UnsupportedError
from lakebed.format.logs.log_block import (
    MAGIC,
    BlockType,
    CorruptSpan,
    HeaderKey,
    LogBlock,
    encode_block,
)
from lakebed.format.logs.log_scan import BlockSpan, scan_blocks
from support.fixtures import files
from support.log_blocks import iter_blocks

LOGS = [
    (name, path)
    for name in ("mor9_isdeleted", "mor9_bucket_parquet", "mor9_logcompact", "mini_rollback_cmd")
    for path in sorted(files(name))
    if ".log." in path and not path.startswith(".hoodie")
]


class Reads:
    """Answers ranges of `data` and keeps what was asked."""

    def __init__(self, data):
        self.data = data
        self.asked = []

    def __call__(self, at, length):
        assert at >= 0
        assert 0 < length <= len(self.data) - at
        self.asked.append((at, length))
        return self.data[at : at + length]

    def scan(self):
        return list(scan_blocks(self, len(self.data), "f"))


def block(content=b"", schema="s", kind=BlockType.PARQUET_DATA):
    return LogBlock(kind, {HeaderKey.INSTANT_TIME: "1", HeaderKey.SCHEMA: schema}, content)


def test_place_of_the_content_is_that_of_the_block():
    data = encode_block(block(b"aaaa")) + encode_block(block(b"", kind=BlockType.DELETE))
    first, second = Reads(data).scan()
    assert data[first.content_offset : first.content_offset + first.content_length] == b"aaaa"
    assert (first.offset, first.end, second.offset, second.end) == (
        0,
        second.offset,
        first.end,
        len(data),
    )
    assert (first.type, second.type) == (BlockType.PARQUET_DATA, BlockType.DELETE)
    assert first.headers == {HeaderKey.INSTANT_TIME: "1", HeaderKey.SCHEMA: "s"}
    assert first.instant == "1"


def test_block_without_instant_is_corrupt_when_asked_for_it():
    (place,) = Reads(encode_block(LogBlock(BlockType.DELETE, {}, b""))).scan()
    with pytest.raises(CorruptError, match="INSTANT_TIME"):
        _ = place.instant


@pytest.mark.parametrize(("name", "path"), LOGS)
def test_scan_of_a_real_log_finds_the_blocks_and_reads_no_long_content(name, path):
    data = files(name)[path]
    assert all(isinstance(place, BlockSpan) for place in Reads(data).scan())
    assert [len(found.content) for found in iter_blocks(data, "f")] == [
        place.content_length for place in Reads(data).scan()
    ]


@pytest.mark.parametrize(("name", "path"), LOGS)
def test_real_log_cut_at_every_byte_never_gives_a_torn_block(name, path):
    data = files(name)[path]
    whole = Reads(data).scan()
    for size in range(len(data)):
        left = [place for place in whole if place.end <= size]
        found = Reads(data[:size]).scan()
        assert found[: len(left)] == left
        rest = found[len(left) :]
        assert all(isinstance(span, CorruptSpan) for span in rest)
        at = left[-1].end if left else 0
        for span in rest:
            assert span.offset == at
            at += span.size_bytes
        assert at == size


def test_content_is_not_read_and_a_block_costs_two_reads():
    data = b"".join(encode_block(block(bytes(1 << 20))) for _ in range(4))
    reads = Reads(data)
    assert len(reads.scan()) == 4
    assert len(reads.asked) == 5
    assert sum(length for _, length in reads.asked) < 5 * (33 << 10)


def test_small_file_costs_one_read():
    reads = Reads(encode_block(block(bytes(100))) * 3)
    assert len(reads.scan()) == 3
    assert len(reads.asked) == 1


def test_long_header_is_read_whole():
    text = "é" * (1 << 19)
    data = encode_block(block(bytes(1 << 20), text)) + encode_block(block())
    first, second = Reads(data).scan()
    assert first.headers[HeaderKey.SCHEMA] == text
    assert second.end == len(data)


def test_next_block_is_found_wherever_the_reads_of_the_search_meet():
    torn = encode_block(block(b"a"))[:-1]
    first_read = 32 << 10
    for meeting in (first_read, first_read - 5 + (1 << 20)):
        for at in range(meeting - 7, meeting + 3):
            data = torn + bytes(at - len(torn)) + encode_block(block(b"b"))
            span, place = Reads(data).scan()
            assert (span.offset, span.size_bytes, place.offset) == (0, at, at)
            assert data[place.content_offset : place.content_offset + 1] == b"b"


def test_file_of_nothing_but_magics_ends_soon():
    data = (MAGIC + struct.pack(">q", 40) + MAGIC) * 20_000
    reads = Reads(data)
    assert all(isinstance(span, CorruptSpan) for span in reads.scan())
    assert len(reads.asked) < 100


def test_lengths_inside_a_block_are_checked_before_they_are_read():
    for count, entry in ((1, (0, 1 << 30)), (1 << 30, (0, 0)), (1, (0, -1)), (-1, (0, 0))):
        body = struct.pack(">iiiii", 1, 3, count, *entry) + bytes(64)
        length = len(body) + 8
        data = MAGIC + struct.pack(">q", length) + body + struct.pack(">q", length + 6)
        reads = Reads(data)
        with pytest.raises((CorruptError, UnsupportedError), match=r"^f, block at byte 0: "):
            reads.scan()
        assert max(length for _, length in reads.asked) <= len(data)


def test_file_that_is_shorter_than_its_size_is_corrupt():
    data = encode_block(block(bytes(100)))
    with pytest.raises(CorruptError, match=r"^f: expected 200 bytes at byte 0 of 200, found "):
        list(scan_blocks(lambda at, length: data[at : at + length], 200, "f"))
