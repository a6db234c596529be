import struct

import pytest

from lakebed.errors import CorruptError, InvalidError, UnsupportedError
from lakebed.format.logs.log_block import (
    MAGIC,
    ROLLBACK_COMMAND,
    BlockType,
    CorruptSpan,
    HeaderKey,
    LogBlock,
    encode_block,
)
from support.log_blocks import iter_blocks

A = LogBlock(BlockType.AVRO_DATA, {HeaderKey.INSTANT_TIME: "20240101000000001"}, b"aaaa")
B = LogBlock(BlockType.DELETE, {HeaderKey.SCHEMA: "é", HeaderKey.INSTANT_TIME: "2"}, b"")


def frame(body):
    """Put a whole frame around `body`, which may be anything."""
    length = len(body) + 8
    return MAGIC + struct.pack(">q", length) + body + struct.pack(">q", length + 6)


def body(version=1, code=3, count=0, headers=b"", content=b"", size=None, footers=0):
    size = len(content) if size is None else size
    head = struct.pack(">iii", version, code, count) + headers
    return head + struct.pack(">q", size) + content + struct.pack(">i", footers)


def test_rollback_command_has_the_bytes_of_hudi():
    block = LogBlock(
        BlockType.COMMAND,
        {
            HeaderKey.INSTANT_TIME: "20250126040936578",
            HeaderKey.COMMAND_BLOCK_TYPE: ROLLBACK_COMMAND,
            HeaderKey.TARGET_INSTANT_TIME: "20250126040826878",
        },
        b"",
    )
    data = encode_block(block)
    assert len(data) == 105
    assert data[:14] == MAGIC + struct.pack(">q", 91)
    assert data[-8:] == struct.pack(">q", 97)
    assert list(iter_blocks(data, "f")) == [block]


def test_blocks_come_back_in_order_with_their_places():
    data = encode_block(A) + encode_block(B)
    found = list(iter_blocks(data, "f"))
    assert found == [A, B]
    assert [block.offset for block in found] == [0, len(encode_block(A))]


def test_empty_file_has_no_blocks():
    assert list(iter_blocks(b"", "f")) == []


def test_block_cut_anywhere_leaves_the_block_before_it():
    whole, second = encode_block(A), encode_block(B)
    for size in range(1, len(second)):
        first, torn = iter_blocks(whole + second[:size], "f")
        assert first == A
        assert (torn.offset, torn.size_bytes) == (len(whole), size)


def test_torn_block_in_the_middle_is_skipped_up_to_the_next_magic():
    torn = encode_block(A)[:-5]
    data = encode_block(A) + torn + encode_block(B)
    first, span, last = iter_blocks(data, "f")
    assert (first, last) == (A, B)
    assert span == CorruptSpan(len(encode_block(A)), len(torn), span.reason)


def test_bytes_before_the_first_magic_are_a_damaged_stretch():
    span, block = iter_blocks(b"garbage" + encode_block(A), "f")
    assert (span.offset, span.size_bytes) == (0, 7)
    assert block == A


def test_lengths_that_differ_are_a_damaged_stretch():
    data = bytearray(encode_block(A))
    data[-1] ^= 1
    (span,) = iter_blocks(bytes(data), "f")
    assert "at the end" in span.reason


def test_block_followed_by_garbage_is_damaged_as_in_hudi():
    (span,) = iter_blocks(encode_block(A) + b"not a magic", "f")
    assert span.reason == "no magic follows the block"


@pytest.mark.parametrize("length", [-1, 0, 27, 1 << 62, -(1 << 63)])
def test_impossible_length_is_a_damaged_stretch(length):
    (span,) = iter_blocks(MAGIC + struct.pack(">q", length) + b"\x00" * 64, "f")
    assert "length" in span.reason


@pytest.mark.parametrize(
    "content",
    [body(version=2), body(code=2), body(code=7), body(code=-1), body(footers=1),
     body(count=1, headers=struct.pack(">ii", 9, 0))],
)  # fmt: skip
def test_whole_block_that_we_do_not_know_is_unsupported(content):
    with pytest.raises(UnsupportedError, match=r"x\.log, block at byte 0"):
        list(iter_blocks(frame(content), "x.log"))


@pytest.mark.parametrize(
    "content",
    [body(count=-1), body(count=1 << 30), body(size=1 << 60), body(size=-1), body() + b"x",
     body(count=1, headers=struct.pack(">ii", 0, -4)),
     body(count=1, headers=struct.pack(">ii", 0, 1) + b"\xff")],
)  # fmt: skip
def test_whole_block_with_broken_inside_is_corrupt(content):
    with pytest.raises(CorruptError, match=r"x\.log, block at byte 0"):
        list(iter_blocks(frame(content), "x.log"))


def test_corrupt_is_no_block_to_write():
    with pytest.raises(InvalidError):
        encode_block(LogBlock(BlockType.CORRUPT, {}, b""))


def test_block_without_instant_is_corrupt_when_asked_for_it():
    assert A.instant == "20240101000000001"
    with pytest.raises(CorruptError, match="INSTANT_TIME"):
        _ = LogBlock(BlockType.DELETE, {}, b"").instant


def test_numbers_on_disk_do_not_change():
    assert [t.value for t in BlockType] == list(range(7))
    assert [k.value for k in HeaderKey] == list(range(9))
    assert BlockType.PARQUET_DATA == 5
    assert HeaderKey.IS_PARTIAL == 7
