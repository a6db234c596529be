"""Avro blocks are read as a stream of columns, equal to what fastavro reads; wrong bytes are named."""

import itertools
from datetime import UTC, date, datetime, time
from decimal import Decimal

import pyarrow as pa
import pytest

from lakebed.errors import CorruptError, UnsupportedError
from lakebed.format.avro.avro_rows import block
from lakebed.format.avro.avro_schema import avro_to_arrow

ENUM = {"type": "enum", "name": "side", "symbols": ["LEFT", "RIGHT", "BOTH"]}
FIXED = {"type": "fixed", "name": "four", "size": 4}
INNER = {
    "type": "record",
    "name": "inner",
    "fields": [
        {"name": "a", "type": ["null", "long"]},
        {"name": "b", "type": "string"},
        {"name": "deep", "type": ["null", {"type": "array", "items": "bytes"}]},
    ],
}


def logical(kind, name, **more):
    return {"type": kind, "logicalType": name, **more}


def decimal(precision, scale, **more):
    return logical("bytes", "decimal", precision=precision, scale=scale) | more


def fixed_decimal(size, precision, scale):
    return decimal(precision, scale, type="fixed", name="d", size=size)


VALUES = {
    "boolean": ("boolean", [True, False]),
    "int": ("int", [0, -1, 63, 64, -65, 2**31 - 1, -(2**31)]),
    "byte": ({"type": "int", "lakebed.type": "byte"}, [-128, 127]),
    "short": ({"type": "int", "lakebed.type": "short"}, [-(2**15), 2**15 - 1]),
    "long": ("long", [0, 1, -1, 2**63 - 1, -(2**63), 2**62, 10**12]),
    "float": ("float", [0.0, -0.5, 3.5, float("inf")]),
    "double": ("double", [0.0, -0.1, 1e300, float("-inf")]),
    "string": ("string", ["", "a", "12345678", "123456789", "ü", "𝄞 and €" * 9, "\0"]),
    "bytes": ("bytes", [b"", b"\xff\x00", bytes(range(256))]),
    "fixed": (FIXED, [b"abcd", b"\0\0\0\xff"]),
    "enum": (ENUM, ["LEFT", "BOTH", "RIGHT"]),
    "date": (logical("int", "date"), [date(1970, 1, 1), date(1, 1, 1), date(9999, 12, 31)]),
    "time-millis": (logical("int", "time-millis"), [time(0), time(23, 59, 59, 999_000)]),
    "time-micros": (logical("long", "time-micros"), [time(0), time(23, 59, 59, 999_999)]),
    "timestamp-millis": (
        logical("long", "timestamp-millis"),
        [datetime(1969, 7, 20, 20, 17, 40, 1000, UTC), datetime(2024, 1, 1, tzinfo=UTC)],
    ),
    "timestamp-micros": (
        logical("long", "timestamp-micros"),
        [datetime(1969, 7, 20, 20, 17, 40, 1, UTC), datetime(9999, 12, 31, tzinfo=UTC)],
    ),
    "local-timestamp-millis": (
        logical("long", "local-timestamp-millis"),
        [datetime(1900, 1, 1, 0, 0, 0, 1000), datetime(2024, 1, 1)],
    ),
    "local-timestamp-micros": (
        logical("long", "local-timestamp-micros"),
        [datetime(1900, 1, 1, 0, 0, 0, 1), datetime(2024, 1, 1)],
    ),
    "uuid": (logical("string", "uuid"), ["6d5a2bb6-7f0d-4d6b-a6a4-39f46f3aba43"]),
    "decimal": (decimal(5, 2), [Decimal("0.00"), Decimal("-999.99"), Decimal("1.28")]),
    "wide decimal": (decimal(38, 0), [Decimal(10**38 - 1), Decimal(1 - 10**38), Decimal(2**64)]),
    "fixed decimal": (fixed_decimal(5, 10, 2), [Decimal("-0.01"), Decimal("99999999.99")]),
    "padded decimal": (fixed_decimal(20, 38, 3), [Decimal("-1.000"), Decimal(2**120).scaleb(-3)]),
    "record": (INNER, [{"a": None, "b": "", "deep": None}, {"a": 7, "b": "x", "deep": [b"1", b""]}]),
    "array": ({"type": "array", "items": ["null", "int"]}, [[], [1, None, 2], [None]]),
    "arrays": (
        {"type": "array", "items": {"type": "array", "items": INNER}},
        [[], [[], [{"a": 1, "b": "y", "deep": [b"z"]}], []], [[{"a": None, "b": "", "deep": []}]]],
    ),
    "map": ({"type": "map", "values": "double"}, [{}, {"k": 1.5, "": 2.0}]),
    "maps": (
        {"type": "map", "values": ["null", {"type": "map", "values": {"type": "array", "items": "int"}}]},
        [{"x": None, "y": {"z": [1, 2], "w": []}}, {}],
    ),
}  # fmt: skip


def plain(value, kind):
    """Make dicts of the maps that Arrow gives as pairs."""
    if value is None:
        return None
    if pa.types.is_map(kind):
        return {key: plain(item, kind.item_type) for key, item in value}
    if pa.types.is_list(kind):
        return [plain(item, kind.value_type) for item in value]
    if pa.types.is_struct(kind):
        return {field.name: plain(value[field.name], field.type) for field in kind}
    return value


def rows_of(batches):
    found = []
    for batch in batches:
        batch.validate(full=True)
        kind = pa.struct(list(batch.schema))
        found += [plain(row, kind) for row in batch.to_pylist()]
    return found


@pytest.mark.parametrize("name", VALUES)
def test_every_type_reads_as_fastavro_wrote_it(name, schema, record, content, read):
    kind, values = VALUES[name]
    again = kind["name"] if isinstance(kind, dict) and "name" in kind else kind
    if name == "arrays":
        again = {"type": "array", "items": {"type": "array", "items": "inner"}}
    text = schema(kind, ["null", again])
    rows = [{"c0": value, "c1": other} for value in values for other in (value, None)]
    batches = read(content([record(text, row) for row in rows]), text)
    assert rows_of(batches) == rows
    assert [batch.schema for batch in batches] == [avro_to_arrow(text)]


@pytest.mark.parametrize("union", [["null", "int"], ["int", "null"], ["int"]])
def test_a_union_is_read_by_the_order_of_its_branches(union, schema, record, content, read):
    text = schema(union, "string")
    rows = [{"c0": value, "c1": "x"} for value in (5, None if len(union) > 1 else 6)]
    assert rows_of(read(content([record(text, row) for row in rows]), text)) == rows


@pytest.mark.parametrize("wanted", [["c4", "c1"], ["c2", "none such", "c3"], ["c5"], ["c0"]])
def test_columns_come_in_the_order_of_the_schema_and_others_are_passed_over(
    wanted, schema, record, content, read
):
    names = ["maps", "fixed decimal", "arrays", "string", "enum", "boolean"]
    text = schema(*(VALUES[name][0] for name in names))
    row = {f"c{at}": VALUES[name][1][0] for at, name in enumerate(names)}
    (batch,) = read(content([record(text, row)] * 3), text, wanted)
    kept = [name for name in row if name in wanted]
    assert batch.schema == pa.schema([avro_to_arrow(text).field(name) for name in kept])
    assert rows_of([batch]) == [{name: row[name] for name in kept}] * 3


def test_without_columns_the_number_of_rows_stays(schema, record, content, read):
    text = schema("int", {"type": "array", "items": "string"})
    batches = read(content([record(text, {"c0": 1, "c1": ["a"]})] * 5), text, [], max_rows=2)
    assert [(batch.num_rows, batch.num_columns) for batch in batches] == [(2, 0), (2, 0), (1, 0)]


def test_a_block_without_records_gives_no_batch(schema, read):
    assert read(block.encode_head(0), schema("int")) == []


def test_a_record_without_fields_is_a_row(schema, content, read):
    (batch,) = read(content([b"", b""]), schema())
    assert batch.num_rows == 2


@pytest.mark.parametrize("buffer_bytes", [1, 30, 64, 1000])
def test_whatever_the_buffer_the_rows_are_the_same(buffer_bytes, schema, record, content):
    text = schema("string", {"type": "array", "items": "long"})
    rows = [{"c0": "x" * (7 * at % 50), "c1": list(range(at % 9))} for at in range(100)]
    rows[50]["c0"] = "long" * 100
    data = content([record(text, row) for row in rows])
    reads = []

    def read_at(at, length):
        reads.append((at, length))
        return data[at : at + length]

    batches = block.read_avro_block(
        read_at, len(data), text, None, buffer_bytes=buffer_bytes, what="block"
    )
    assert rows_of(batches) == rows
    assert max(length for _, length in reads) <= max(buffer_bytes + 8, 430)
    assert all(before[0] + before[1] == after[0] for before, after in itertools.pairwise(reads))
    assert sum(length for _, length in reads) == len(data)


def test_no_batch_has_more_rows_than_asked_for(schema, record, content, read):
    text = schema("int")
    batches = read(content([record(text, {"c0": at}) for at in range(10)]), text, max_rows=4)
    assert [batch.num_rows for batch in batches] == [4, 4, 2]
    assert [row["c0"] for row in rows_of(batches)] == list(range(10))


def test_a_batch_keeps_nothing_of_the_one_before_it(schema, record, content, read):
    text = schema(["null", "string"], ["null", "int"], ["null", ARRAY])
    rows = [{"c0": "x", "c1": 1, "c2": [1, 2]}, {"c0": None, "c1": None, "c2": None}] * 3
    data = content([record(text, row) for row in rows])
    assert rows_of(read(data, text, max_rows=1)) == rows


def test_many_items_find_room(schema, record, content, read):
    """More than the first guess, in one record and over many, on two levels."""
    text = schema({"type": "array", "items": {"type": "array", "items": ["null", "int"]}}, "string")
    rows = [
        {"c0": [list(range(at % 7)) for _ in range(at)], "c1": f"row {at}"} for at in range(150)
    ]
    rows[3]["c0"] = [[None] * 5000, [1]]
    assert rows_of(read(content([record(text, row) for row in rows]), text)) == rows


def test_items_in_several_blocks_with_and_without_a_size_are_one_list(schema, content, read):
    text = schema({"type": "array", "items": "int"}, "int")
    data = bytes([4, 2, 4, 3, 4, 6, 8, 2, 10, 0, 12])  # 2 items; -2 items of 2 bytes; 1 item; end
    assert rows_of(read(content([data]), text)) == [{"c0": [1, 2, 3, 4, 5], "c1": 6}]
    assert rows_of(read(content([data]), text, ["c1"])) == [{"c1": 6}]


ARRAY = {"type": "array", "items": "int"}
WRONG = {
    "empty": ("int", b"", "ends in a value"),
    "cut varint": ("int", b"\x80", "ends in a value"),
    "int of 33 bits": ("int", b"\x80\x80\x80\x80\x10", "cannot hold: 2147483648"),
    "byte": ({"type": "int", "lakebed.type": "byte"}, b"\x80\x02", "cannot hold: 128"),
    "eleven bytes": ("long", b"\xff" * 10 + b"\x01", "more than 64 bits"),
    "65 bits": ("long", b"\xff" * 9 + b"\x02", "more than 64 bits"),
    "boolean": ("boolean", b"\x02", "0 or 1, found 2"),
    "float": ("float", b"123", "ends in a value"),
    "double": ("double", b"1234567", "ends in a value"),
    "fixed": (FIXED, b"123", "ends in a value"),
    "negative length": ("string", b"\x01", "does not fit the record: -1"),
    "text too long": ("string", b"\x04a", "does not fit the record: 2"),
    "huge text": ("bytes", b"\xfe" + b"\xff" * 8 + b"\x01", "does not fit the record"),
    "union index": (["null", "int"], b"\x04", "found 2"),
    "negative index": (["null", "int"], b"\x01", "found -1"),
    "lone union": (["int"], b"\x02\x00", "found 1"),
    "enum": (ENUM, b"\x06", "cannot hold: 3"),
    "negative enum": (ENUM, b"\x01", "cannot hold: -1"),
    "no UTF-8": ("string", b"\x02\xff", "expected UTF-8"),
    "surrogate": ("string", b"\x06\xed\xa0\x80", "expected UTF-8"),
    "overlong": ("string", b"\x04\xc0\x80", "expected UTF-8"),
    "overlong 3": ("string", b"\x06\xe0\x80\x80", "expected UTF-8"),
    "overlong 4": ("string", b"\x08\xf0\x80\x80\x80", "expected UTF-8"),
    "beyond": ("string", b"\x08\xf4\x90\x80\x80", "expected UTF-8"),
    "cut text": ("string", b"\x04\xe2\x82", "expected UTF-8"),
    "stray byte": ("string", b"\x06a\x80b", "expected UTF-8"),
    "map key": ({"type": "map", "values": "int"}, b"\x02\x02\xff\x02\x00", "c1.v.key.*expected UTF-8"),
    "decimal": (decimal(3, 0), b"\x04\x03\xe8", "at most 3 digits"),
    "negative decimal": (decimal(3, 0), b"\x04\xfc\x18", "at most 3 digits"),
    "empty decimal": (decimal(3, 0), b"\x00", "at most 3 digits"),
    "decimal of 17 bytes": (decimal(38, 0), b"\x22\x01" + b"\0" * 16, "at most 38 digits"),
    "decimal of 128 bits": (decimal(38, 0), b"\x20\x80" + b"\0" * 15, "at most 38 digits"),
    "decimal of 129 bits": (decimal(38, 0), b"\x22\x00\xff" + b"\0" * 15, "at most 38 digits"),
    "time": (logical("int", "time-millis"), b"\x80\xf0\xb2\x52", "cannot hold: 86400000"),
    "timestamp": (logical("long", "timestamp-millis"), b"\xfe" + b"\xff" * 8 + b"\x01", "cannot hold"),
    "left over": ("int", b"\x00\x00", "1 bytes of the record are left over"),
    "no items": (ARRAY, b"\x04\x00", "does not fit the record: 2"),
    "no end of items": (ARRAY, b"\x02\x00", "ends in a value"),
    "many items": (ARRAY, b"\xfe" + b"\xff" * 8 + b"\x01\x00", "does not fit the record"),
    "least count": (ARRAY, b"\xff" * 9 + b"\x01\x00\x00", "does not fit the record"),
    "size of items": (ARRAY, b"\x01\x04\x00\x00", "size differs from that of their block"),
    "size too large": (ARRAY, b"\x01\x08\x00\x00", "size differs from that of their block"),
    "negative size": (ARRAY, b"\x01\x01\x00\x00", "size differs from that of their block"),
    "inside": (INNER, b"\x00\x00\x02\x02\x04a", "c1.v.deep.element"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_wrong_bytes_are_named_by_record_byte_and_field(name, schema, content, read):
    kind, data, reason = WRONG[name]
    text = schema(
        "int", ["null", {"type": "record", "name": "r", "fields": [{"name": "v", "type": kind}]}]
    )
    with pytest.raises(CorruptError, match=reason) as error:
        rows_of(read(content([b"\x02\x00", b"\x02\x02" + data]), text))
    where = "byte 21:" if name == "left over" else "byte [0-9]+, field 'c1[.]v"
    error.match(f"block of f.log, record 1, {where}")


def test_every_cut_of_a_block_is_found(schema, record, content, read):
    text = schema("string", ["null", ARRAY], "double")
    rows = [{"c0": "abc", "c1": [1, 2], "c2": 0.5}, {"c0": "", "c1": None, "c2": 1.0}]
    data = content([record(text, row) for row in rows])
    for end in range(len(data)):
        with pytest.raises(CorruptError, match=r"block of f[.]log"):
            read(data[:end], text)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda data: data + b"\0", "1 bytes are left over after its 2 records, from byte 20 on"),
        (lambda data: data[:4] + b"\0\0\0\1" + data[8:], "6 bytes are left over after its 1 rec"),
        (lambda data: data[:4] + b"\0\0\0\3" + data[8:], "3 records in 20 bytes, which hold 2"),
        (lambda data: data[:4] + b"\xff" * 4 + data[8:], "-1 records"),
        (lambda data: data[:4] + b"\x7f\xff\xff\xff" + data[8:], "2147483647 records"),
        (lambda data: data[:17] + b"\3" + data[18:], "record 1, byte 14: a record of 3 bytes does"),
        (lambda data: data[:17] + b"\1" + data[18:], "record 1, byte 18, field 'c0': the record ends"),
        (lambda data: data[:14] + b"\xff" + data[15:], "record 1, byte 14: a record of 42781"),
        (lambda data: data[:8] + b"\x7f\xff\xff\xff" + data[12:], "record 0, byte 8: a record of 2"),
    ],
)  # fmt: skip
def test_counts_and_lengths_must_agree(change, reason, schema, content, read):
    data = content([b"\x80\x01", b"\x80\x01"])
    assert len(read(data, schema("int"))[0]) == 2
    with pytest.raises(CorruptError, match=reason):
        read(change(data), schema("int"))


def test_what_is_left_over_is_said_instead_of_the_last_batch(schema, content):
    data = content([b"\x02", b"\x04"]) + b"more"
    batches = block.read_avro_block(
        lambda at, length: data[at : at + length], len(data), schema("int"), None, max_rows=1, what="b"
    )  # fmt: skip
    assert next(batches).to_pylist() == [{"c0": 1}]
    with pytest.raises(CorruptError, match="left over"):
        next(batches)


def test_another_version_is_refused(schema, read):
    with pytest.raises(UnsupportedError, match="version 2, expected 3"):
        read(b"\0\0\0\2\0\0\0\0", schema("int"))


def test_a_file_that_has_become_shorter_is_said(schema, content):
    data = content([b"\x02"] * 100)
    batches = block.read_avro_block(
        lambda at, length: data[at : at + min(length, 50)], len(data), schema("int"), None, what="b"
    )
    with pytest.raises(CorruptError, match="expected 508 bytes at byte 0, found 50"):
        list(batches)


def test_a_record_longer_than_the_bound_is_refused_before_it_is_read(schema):
    length = block.MAX_RECORD_BYTES + 1
    head = block.encode_head(1) + length.to_bytes(4, "big")
    asked = []

    def read_at(at, size):
        asked.append(size)
        return (head + bytes(size))[at : at + size]

    batches = block.read_avro_block(
        read_at, 12 + length, schema("bytes"), None, buffer_bytes=100, what="b"
    )
    with pytest.raises(UnsupportedError, match=f"a record of {length} bytes"):
        list(batches)
    assert max(asked) <= 108


WIDE = {
    "type": "record",
    "name": "wide",
    "fields": [{"name": f"f{at}", "type": ["null", "double"]} for at in range(500)],
}


def test_nulls_of_wide_records_come_in_small_batches(schema, content, read):
    text = schema(["null", WIDE])
    batches = read(content([b"\x00"] * 20_000), text, buffer_bytes=1 << 20)
    assert sum(batch.num_rows for batch in batches) == 20_000
    assert max(batch.nbytes for batch in batches) < 8 << 20
    assert batches[0].column(0).null_count == len(batches[0])


def test_items_that_stand_for_much_more_than_their_bytes_are_refused(schema, content, read):
    text = schema({"type": "array", "items": ["null", WIDE]})
    some = b"\x90\x03" + bytes(200) + b"\0"
    batches = read(content([some] * 50), text, buffer_bytes=1 << 20)
    assert sum(batch.num_rows for batch in batches) == 50
    assert max(batch.nbytes for batch in batches) < 8 << 20
    count = 4000
    bomb = b"\xc0\x3e" + bytes(count) + b"\0"
    with pytest.raises(UnsupportedError, match=r"record 0.*'c0'.*use a larger buffer"):
        read(content([bomb]), text, buffer_bytes=1 << 20)
    assert len(read(content([bomb]), text, ["none"], buffer_bytes=1 << 20)[0]) == 1


def test_a_long_symbol_counts_as_often_as_it_stands(schema, content, read):
    long = {"type": "enum", "name": "e", "symbols": ["x" * 10_000]}
    batches = read(content([b"\0"] * 3000), schema(long), buffer_bytes=1 << 20)
    assert max(batch.nbytes for batch in batches) < 8 << 20
    assert sum(batch.num_rows for batch in batches) == 3000
    huge = {"type": "enum", "name": "e", "symbols": ["x" * 5_000_000]}
    with pytest.raises(UnsupportedError, match="a record of this schema takes"):
        read(content([b"\0"]), schema(huge), buffer_bytes=1 << 20)
