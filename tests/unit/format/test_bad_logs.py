"""Blocks that lie about themselves: named, without making room for what they claim."""

import struct

import pytest

from lakebed.errors import CorruptError, LakebedError, UnsupportedError
from lakebed.format.avro.avro_binary import encode_long
from lakebed.format.avro.avro_rows.block import read_avro_block
from lakebed.format.logs.delete_columns import decode_deletes
from lakebed.format.logs.log_block import BlockType, HeaderKey, LogBlock, encode_block
from lakebed.format.logs.log_scan import scan_blocks
from support.fixtures import files
from support.log_blocks import iter_blocks
from support.measured import measure

HEADERS = {HeaderKey.INSTANT_TIME: "1", HeaderKey.SCHEMA: "s"}
BLOCK = encode_block(LogBlock(BlockType.DELETE, HEADERS, b"content"))
COUNT, FIRST_KEY, FIRST_LENGTH = 22, 26, 30


def scan(data):
    return list(iter_blocks(data, "the log"))


def scan_or_refusal(data):
    try:
        return scan(data), None
    except LakebedError as error:
        return [], str(error)


def patched(at, value, form=">i"):
    packed = struct.pack(form, value)
    return BLOCK[:at] + packed + BLOCK[at + len(packed) :]


@pytest.mark.parametrize("count", [-1, 3, 1 << 30, (1 << 31) - 1])
def test_a_number_of_headers_that_are_not_there_is_named(count):
    with pytest.raises(LakebedError, match="the log, block at byte 0: "):
        scan(patched(COUNT, count))


@pytest.mark.parametrize("length", [-1, 1 << 30, (1 << 31) - 1])
def test_a_header_that_reaches_past_its_block_is_corrupt(length):
    with pytest.raises(CorruptError, match=f"the log, block at byte 0: expected {length} bytes"):
        scan(patched(FIRST_LENGTH, length))


@pytest.mark.parametrize("key", [9, -1, 1 << 30])
def test_a_header_of_the_future_is_refused_by_its_number(key):
    with pytest.raises(UnsupportedError, match=f"unknown header key {key}"):
        scan(patched(FIRST_KEY, key))


@pytest.mark.parametrize("code", [2, 7, -1, 1 << 30])
def test_a_block_type_of_the_future_is_refused_by_its_number(code):
    with pytest.raises(UnsupportedError, match=f"unknown block type {code}"):
        scan(patched(18, code))


@pytest.mark.parametrize("version", [0, 2, 3, -1])
def test_a_log_format_of_the_future_is_refused_by_its_number(version):
    with pytest.raises(UnsupportedError, match=f"log format version {version}, expected 1"):
        scan(patched(14, version))


def test_a_schema_of_a_hundred_megabytes_is_refused_unread():
    size = 100 << 20
    headers = {HeaderKey.INSTANT_TIME: "1", HeaderKey.SCHEMA: "s" * size}
    data = encode_block(LogBlock(BlockType.DELETE, headers, b""))
    asked = []

    def read_range(at, length):
        asked.append(length)
        return data[at : at + length]

    with pytest.raises(UnsupportedError, match=f"header SCHEMA of {size} bytes, expected at most"):
        list(scan_blocks(read_range, len(data), "the log"))
    assert sum(asked) < 1 << 20


@pytest.mark.parametrize("name", ["mor9_bucket_avro", "mor9_bucket_parquet", "mor9_isdeleted"])
def test_every_length_and_number_of_a_real_block_set_wrong_is_named_or_no_block(name):
    path = next(p for p in sorted(files(name)) if ".log." in p and not p.startswith(".hoodie"))
    data = files(name)[path]
    good = scan(data)
    for at in range(6, 34):
        for byte in (0x00, 0x7F, 0xFF):
            if data[at] == byte:
                continue
            broken = data[:at] + bytes([byte]) + data[at + 1 :]
            found, said = scan_or_refusal(broken)
            if said is not None:
                assert "the log, block at byte 0" in said
                continue
            # One that is whole may be of another known type; nothing else is left to differ.
            assert not isinstance(found[0], LogBlock) or found[0].type is not good[0].type


def avro(schema, *records):
    content = struct.pack(">ii", 3, len(records))
    content += b"".join(struct.pack(">i", len(record)) + record for record in records)
    batches = read_avro_block(
        lambda at, length: content[at : at + length], len(content), schema, None, what="the block"
    )
    return [row for batch in batches for row in batch.to_pylist()]


def array_of(items):
    return f'{{"type":"record","name":"r","fields":[{{"name":"a","type":{{"type":"array","items":{items}}}}}]}}'


@pytest.mark.parametrize("count", [1 << 20, 1 << 40, (1 << 62)])
@pytest.mark.parametrize(
    "items",
    [
        '"null"',
        '{"type":"record","name":"e","fields":[]}',
        '{"type":"record","name":"e","fields":[{"name":"f","type":{"type":"fixed","name":"x","size":0}}]}',
        '["null","int"]',
    ],
)
def test_an_array_of_more_items_than_bytes_is_refused_at_once(items, count):
    with pytest.raises(LakebedError):
        avro(array_of(items), encode_long(count) + encode_long(0))


def test_a_recursive_schema_is_refused_by_the_name_of_its_type():
    with pytest.raises(UnsupportedError, match="the record 'r' holds itself"):
        avro(
            '{"type":"record","name":"r","fields":[{"name":"a","type":["null","r"]}]}', b"\x02" * 9
        )


def test_a_schema_nested_without_end_is_refused():
    deep = '{"type":"array","items":' * 100_000
    for schema in (
        deep,
        array_of(deep),
        array_of('{"type":"array","items":' * 70 + '"int"' + "}" * 70),
    ):
        with pytest.raises(LakebedError, match="Avro"):
            avro(schema, b"\x00")


def test_a_schema_that_doubles_with_every_type_is_refused():
    fields = ['{"name":"f0","type":{"type":"record","name":"t0","fields":[]}}']
    fields += [
        f'{{"name":"f{i}","type":{{"type":"record","name":"t{i}","fields":['
        f'{{"name":"a","type":"t{i - 1}"}},{{"name":"b","type":"t{i - 1}"}}]}}}}'
        for i in range(1, 40)
    ]
    schema = f'{{"type":"record","name":"r","fields":[{",".join(fields)}]}}'
    taken = measure(
        "avro(schema, b'')", f"from unit.format.test_bad_logs import avro\nschema = {schema!r}"
    )
    assert taken.said is not None
    assert "UnsupportedError" in taken.said
    assert taken.megabytes < 200
    assert taken.seconds < 10


@pytest.mark.parametrize("count", [1 << 31, 1 << 62, -(1 << 62)])
def test_a_delete_block_of_more_deletes_than_bytes_is_corrupt(count):
    body = encode_long(count) + b"\x02\x02a\x00\x00\x00"
    with pytest.raises(CorruptError, match="the block"):
        decode_deletes(struct.pack(">ii", 3, len(body)) + body, [], "the block")
