import datetime as dt
import io
import json
import struct
from decimal import Context, Decimal

import fastavro
import numpy as np
import pyarrow as pa
import pytest

from lakebed.errors import CorruptError, InvalidError, KeyValueError, SchemaError, UnsupportedError
from lakebed.format.compiled import kernels
from lakebed.format.logs.delete_block import SCHEMA, OrderingKind
from lakebed.format.logs.delete_columns import decode_deletes, encode_deletes, parse_deletes
from lakebed.format.logs.log_block import BlockType
from support.delete_records import (
    NO_ORDERING,
    DeleteRecord,
    OrderingValue,
    encode_delete_block,
    parse_delete_block,
)
from support.fixtures import files
from support.log_blocks import iter_blocks

MANY = 3000
KEYS = pa.array(["a", "é😀", ""])


@pytest.fixture(autouse=True, params=[False, True], ids=["twin", "kernel"])
def _machine(request):
    with kernels(request.param):
        yield


def value(kind, number):
    return OrderingValue(OrderingKind[kind], number)


def block(*orderings, repeat=1):
    """Write deletes of k0, k1, ... with these orderings, over and over."""
    numbers = range(len(orderings) * repeat)
    return encode_delete_block(
        [DeleteRecord(f"k{n}", "p", orderings[n % len(orderings)]) for n in numbers]
    )


@pytest.mark.parametrize(
    ("kind", "values", "branch", "plain"),
    [
        (pa.bool_(), [True, False], "BOOLEAN", None),
        (pa.int8(), [-128, 127], "INT", None),
        (pa.int16(), [-1, 300], "INT", None),
        (pa.int32(), [-(1 << 31), 5], "INT", None),
        (pa.int64(), [-(1 << 63), (1 << 63) - 1], "LONG", None),
        (pa.float32(), [1.5, -0.0], "FLOAT", None),
        (pa.float64(), [0.1, float("inf")], "DOUBLE", None),
        (pa.string(), ["", "é😀"], "STRING", None),
        (pa.binary(), [b"", b"\x00\xff"], "BYTES", None),
        (pa.decimal128(10, 2), [Decimal("-1.28"), Decimal("99999999.99")], "DECIMAL", None),
        # Hudi's reader compares a date with an int, and a timestamp with a long, and no other.
        (pa.date32(), [dt.date(1969, 12, 31), dt.date(2024, 1, 1)], "INT", [-1, 19723]),
        (pa.timestamp("us", "UTC"), [1, -1], "LONG", [1, -1]),
        (pa.timestamp("us"), [1, 1 << 50], "LONG", [1, 1 << 50]),
    ],
)
def test_each_type_has_the_branch_that_hudi_writes_and_can_compare(kind, values, branch, plain):
    column = pa.array([*values, None], kind)
    content = encode_deletes(KEYS, "p", [column])
    wanted = [value(branch, one) for one in plain or values]
    assert parse_delete_block(content, "f") == [
        DeleteRecord(key, "p", ordering)
        for key, ordering in zip(KEYS.to_pylist(), [*wanted, NO_ORDERING], strict=True)
    ]
    found = decode_deletes(content, [kind], "f")
    assert found.keys.equals(KEYS)
    assert found.ordering[0].equals(column)
    assert found.no_ordering.tolist() == [False, False, True]


def test_deletes_without_ordering_have_the_bytes_of_hudi():
    want = bytes.fromhex("00000003 00000014 0202046b30021432303234 2d30312d3031 040000")
    for none in (None, [], [pa.nulls(1, pa.int64())], [pa.nulls(1, pa.int64()), pa.nulls(1)][:1]):
        assert encode_deletes(pa.array(["k0"]), "2024-01-01", none) == want
    found = decode_deletes(want, [pa.int64()], "f")
    assert found.keys.to_pylist() == ["k0"]
    assert (found.ordering[0].to_pylist(), found.no_ordering.tolist()) == ([None], [True])


def test_several_ordering_fields_have_the_bytes_of_hudi():
    columns = [pa.array([100, None, 3]), pa.array([0.5, None, float("-inf")])]
    content = encode_deletes(pa.array(["k0", "k1", "k2"]), "", columns)
    assert content[8:].startswith(
        bytes.fromhex("06 02046b30 0200 18020406c8010a000000000000e03f00")
    )
    records = parse_delete_block(content, "f")
    assert records[1].ordering == NO_ORDERING
    found = decode_deletes(content, [pa.int64(), pa.float64()], "f")
    assert [column.to_pylist() for column in found.ordering] == [c.to_pylist() for c in columns]
    assert found.no_ordering.tolist() == [False, True, False]


def test_another_reader_of_avro_finds_the_same_by_our_schema():
    columns = [pa.array([7, None], pa.int32()), pa.array(["é", None])]
    content = encode_deletes(pa.array(["a", "b"]), "p", columns)
    schema = fastavro.parse_schema(json.loads(SCHEMA))
    found = fastavro.schemaless_reader(io.BytesIO(content[8:]), schema)
    assert found["deleteRecordList"] == [
        {
            "recordKey": "a",
            "partitionPath": "p",
            "orderingVal": {"value": [{"value": 7}, {"value": "é"}]},
        },
        {"recordKey": "b", "partitionPath": "p", "orderingVal": {"value": 0}},
    ]


def test_no_deletes_are_the_empty_block():
    empty = encode_deletes(pa.array([], pa.string()), "p", None)
    assert empty == encode_delete_block([])
    found = decode_deletes(empty, [pa.int64(), pa.string()], "f")
    assert (len(found.keys), [len(column) for column in found.ordering]) == (0, [0, 0])


def test_sliced_columns_are_written_from_where_they_begin():
    kinds = [pa.decimal128(12, 3), pa.string(), pa.bool_(), pa.date32()]
    columns = [pa.array([9, 8, 7, 6]).cast(pa.int32()).cast(pa.decimal128(13, 3)),
               pa.array(["w", "x", "y", "z"]), pa.array([True, False, None, True]),
               pa.array([1, 2, 3, 4], pa.int32()).cast(pa.date32())]  # fmt: skip
    columns[2] = columns[2].fill_null(False)
    kinds[0] = columns[0].type
    keys = pa.array(["a", "b", "c", "d"])
    content = encode_deletes(keys[1:3], "p", [column[1:3] for column in columns])
    found = decode_deletes(content, kinds, "f")
    assert found.keys.to_pylist() == ["b", "c"]
    assert all(got.equals(want[1:3]) for got, want in zip(found.ordering, columns, strict=True))


def test_int_0_in_an_array_is_a_value_of_an_int_column_and_none_of_another():
    zero = NO_ORDERING
    content = block((zero, zero), (zero, value("LONG", 5)), (None, None), ())
    found = decode_deletes(content, [pa.int32(), pa.int64()], "f")
    # The second zero cannot be a long's, but the first is an int's.
    assert found.no_ordering.tolist() == [False, False, True, True]
    assert found.ordering[0].to_pylist() == [0, 0, None, None]
    assert found.ordering[1].to_pylist() == [None, 5, None, None]
    both = decode_deletes(block((zero, zero)), [pa.int64(), pa.string()], "f")
    assert both.no_ordering.tolist() == [True]


@pytest.mark.parametrize(
    ("ordering", "kind", "want"),
    [
        (value("LONG", 7), pa.int32(), 7),
        (value("INT", 7), pa.int64(), 7),
        (value("INT", 7), pa.float64(), 7.0),
        (value("FLOAT", 0.5), pa.float64(), 0.5),
        (value("FLOAT", 0.1), pa.float64(), 0.1),
        (value("DOUBLE", 0.5), pa.float32(), 0.5),
        (value("INT", 7), pa.decimal128(12, 2), Decimal("7.00")),
        (value("DECIMAL", Decimal("7.25")), pa.decimal128(4, 2), Decimal("7.25")),
        (value("DATE", 1), pa.date32(), dt.date(1970, 1, 2)),
        (value("INT", 1), pa.date32(), dt.date(1970, 1, 2)),
        (value("TIMESTAMP_MICROS", 1), pa.timestamp("us"), dt.datetime(1970, 1, 1, 0, 0, 0, 1)),
        (value("TIMESTAMP_MICROS", 1000), pa.timestamp("ms"), dt.datetime(1970, 1, 1, 0, 0, 0, 1000)),
        (value("LONG", 1), pa.timestamp("ms"), dt.datetime(1970, 1, 1, 0, 0, 0, 1000)),
        (value("LONG", 10**13), pa.timestamp("ms"), dt.datetime(1970, 4, 26, 17, 46, 40)),
        (value("STRING", "x"), pa.large_string(), "x"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("repeat", [1, MANY])
def test_values_of_another_branch_become_the_columns_type(ordering, kind, want, repeat):
    found = decode_deletes(block(ordering, repeat=repeat), [kind], "f")
    assert found.ordering[0].type == kind
    assert found.ordering[0].to_pylist() == [want] * repeat
    assert not found.no_ordering.any()


@pytest.mark.parametrize(
    ("ordering", "kind"),
    [
        (value("LONG", 1 << 31), pa.int32()),
        (value("LONG", (1 << 53) + 1), pa.float64()),
        (value("DOUBLE", 0.1), pa.float32()),
        (value("DECIMAL", Decimal("7.255")), pa.decimal128(4, 2)),
        (value("DECIMAL", Decimal(700)), pa.decimal128(4, 2)),
        (value("LONG", 700), pa.decimal128(4, 2)),
        (value("STRING", "7"), pa.int64()),
        (value("LONG", 7), pa.string()),
        (value("BYTES", b"7"), pa.string()),
        (value("TIMESTAMP_MICROS", 7), pa.timestamp("ms")),
        (value("INT", 7), pa.bool_()),
        (value("TIME_MICROS", 7), pa.int64()),
        ((value("LONG", 7), value("LONG", 8)), pa.int64()),
    ],
)
@pytest.mark.parametrize("after", [3, MANY])
def test_value_that_the_column_cannot_hold_is_corrupt_and_names_the_key(ordering, kind, after):
    records = [DeleteRecord(f"k{n}", "p", NO_ORDERING) for n in range(after)]
    content = encode_delete_block([*records, DeleteRecord("bad", "p", ordering), *records])
    with pytest.raises(CorruptError, match=r"^f: delete of key 'bad': expected "):
        decode_deletes(content, [kind], "f")


def test_first_of_many_values_that_do_not_fit_is_named():
    for bad in (0, 1, MANY // 2, MANY - 1):
        numbers = [5] * MANY
        numbers[bad] = 1 << 40
        numbers[MANY - 1] = 1 << 41
        keys = pa.array([f"k{n}" for n in range(MANY)])
        content = encode_deletes(keys, "p", [pa.array(numbers)])
        with pytest.raises(CorruptError, match=f"key 'k{bad}': .* LONG "):
            decode_deletes(content, [pa.int8()], "f")


def test_delete_without_a_key_is_corrupt():
    for more in (0, MANY):
        records = [DeleteRecord(None, "p"), *[DeleteRecord("k", "p")] * more]
        with pytest.raises(CorruptError, match=r"f: delete 0 of .* has no key"):
            decode_deletes(encode_delete_block(records), [], "f")


def test_ordering_of_a_table_that_has_none_is_only_looked_at():
    content = block((value("LONG", 1), value("LONG", 2)), NO_ORDERING, value("STRING", "x"))
    found = decode_deletes(content, [], "f")
    assert found.ordering == []
    assert found.no_ordering.tolist() == [False, True, False]


def test_large_block_of_mixed_deletes_comes_back():
    rows = 10_000
    generator = np.random.default_rng(1)
    sizes = generator.integers(0, 60, rows)
    keys = pa.array([f"{n}:" + "k" * size for n, size in enumerate(sizes)])
    numbers = pa.array(generator.integers(-(1 << 62), 1 << 62, rows), mask=sizes == 0)
    texts = pa.array([None if size == 0 else "é" * (size % 5) for size in sizes])
    for columns in ([numbers], [texts], [numbers, texts]):
        content = encode_deletes(keys, "dt=2024-01-01", columns)
        found = decode_deletes(content, [column.type for column in columns], "f")
        assert found.keys.equals(keys)
        assert all(got.equals(want) for got, want in zip(found.ordering, columns, strict=True))
        assert found.no_ordering.tolist() == (sizes == 0).tolist()


def test_a_key_of_megabytes_comes_back():
    keys = pa.array(["a", "k" * (20 << 20), "z"])
    content = encode_deletes(keys, "p", [pa.array([1, 2, 3])])
    assert decode_deletes(content, [pa.int64()], "f").keys.equals(keys)


@pytest.mark.parametrize("name", ["mor9_isdeleted", "mor9_multiorder", "mor9_bucket_avro"])
def test_delete_blocks_that_hudi_wrote_are_read_as_their_records_are(name):
    blocks = [
        found
        for path, data in files(name).items()
        if ".log." in path and not path.startswith(".hoodie")
        for found in iter_blocks(data, path)
        if found.type is BlockType.DELETE
    ]
    assert blocks
    for found in blocks:
        records = parse_delete_block(found.content, "f")
        keys = decode_deletes(found.content, [], "f").keys.to_pylist()
        assert keys == [record.record_key for record in records]


def test_bytes_of_long_blocks_that_are_broken_are_corrupt():
    content = encode_deletes(pa.array([f"k{n}" for n in range(MANY)]), "p", None)
    with pytest.raises(CorruptError, match=r"^f: "):
        decode_deletes(content[:-1], [], "f")
    with pytest.raises(CorruptError, match=r"^f: "):
        decode_deletes(struct.pack(">ii", 3, len(content) - 9) + content[8:-1], [], "f")
    with pytest.raises(UnsupportedError, match="version 2"):
        decode_deletes(b"\x00\x00\x00\x02" + content[4:], [], "f")
    # Half a character in one key.
    with pytest.raises(CorruptError, match=r"^f: byte .*recordKey': expected UTF-8"):
        decode_deletes(content.replace(b"k2999", b"k299\xff"), [], "f")


@pytest.mark.parametrize(
    "rest",
    [
        "00 1a 00 00", "00 30 00", "00 30 00 00", "00 31 00", "00 19 00", "00 17 00", "00 ff 00 00",
        # A number of more than 64 bits, one without end, an array that ends in its negative count,
        # one with more behind its end, a text of negative length.
        "00 06 ff ff ff ff ff ff ff ff ff 02 00", "00 06 ff ff ff ff ff ff ff ff ff ff 01 00",
        "00 18 02 01 00", "00 18 02 02 00 04 00", "00 0e 01 00",
        "00 0e ff ff ff ff ff ff ff ff ff 02 00",
        # A decimal of 39 digits; a partition path of a third branch; one that is no text.
        "00 12 20 7f" + "ff" * 15 + "00", "04 02 70 00 00", "02 02 ff 00 00",
    ],
)  # fmt: skip
def test_record_that_is_broken_is_corrupt(rest):
    body = bytes.fromhex("02 02026b" + rest)
    content = struct.pack(">ii", 3, len(body)) + body
    with pytest.raises(CorruptError, match=r"^f: "):
        decode_deletes(content, [], "f")


def test_decimals_have_the_shortest_bytes_at_every_length():
    ends = [1 << bits for bits in range(0, 127, 7)]
    numbers = [n for end in ends for n in (end - 1, end, -end, -end - 1) if abs(n) < 10**38]
    values = [Decimal(n).scaleb(-15, Context(prec=40)) for n in numbers]
    keys = pa.array([str(n) for n in range(len(values))])
    column = pa.array(values, pa.decimal128(38, 15))
    content = encode_deletes(keys[2:], "p", [column[2:]])
    assert content == encode_delete_block(
        [DeleteRecord(str(n), "p", value("DECIMAL", values[n])) for n in range(2, len(values))]
    )
    assert decode_deletes(content, [column.type], "f").ordering[0].equals(column[2:])


def test_decimal_of_no_bytes_is_corrupt():
    # Java's BigInteger has no form without bytes, so neither has Hudi.
    body = b"\x80\x20" + bytes.fromhex("02026b001200") * 2048 + b"\x00"
    with pytest.raises(CorruptError, match=r"^f: byte .* expected a decimal"):
        decode_deletes(struct.pack(">ii", 3, len(body)) + body, [pa.decimal128(9, 2)], "f")


def test_records_need_no_partition_path():
    records = [DeleteRecord("k" * 100, None), DeleteRecord("é", "p"), DeleteRecord("z" * 99, None)]
    found = decode_deletes(encode_delete_block(records), [], "f")
    assert found.keys.to_pylist() == [record.record_key for record in records]


@pytest.mark.parametrize("version", [1, 2, 4])
def test_other_versions_are_unsupported(version):
    with pytest.raises(UnsupportedError, match=f"version {version}"):
        decode_deletes(struct.pack(">iib", version, 1, 0), [], "f")


@pytest.mark.parametrize("ordering", ["00", "18 00"], ids=["null", "an array that is null"])
def test_list_in_several_parts_and_with_sizes_is_read(ordering):
    one = bytes.fromhex("02026b 00" + ordering)
    body = b"\x02" + one + b"\x01" + bytes([2 * len(one)]) + one + b"\x00"
    found = decode_deletes(struct.pack(">ii", 3, len(body)) + body, [pa.int64()], "f")
    assert found.keys.to_pylist() == ["k", "k"]
    assert found.no_ordering.tolist() == [True, True]


def test_every_cut_and_every_flipped_byte_is_corrupt_or_a_valid_list():
    records = [DeleteRecord(f"k{n}", "p", value("STRING", "x")) for n in range(3)]
    data = encode_delete_block([*records, DeleteRecord("k", "p", (NO_ORDERING,))])
    for at in range(len(data)):
        with pytest.raises((CorruptError, UnsupportedError), match=r"^f: "):
            decode_deletes(data[:at], [], "f")
        for flip in (1, 2, 16, 128, 255):
            try:
                parse_deletes(data[:at] + bytes([data[at] ^ flip]) + data[at + 1 :], "f")
            except (CorruptError, UnsupportedError) as error:
                assert str(error).startswith("f")  # noqa: PT017


def test_what_no_block_can_hold_is_refused_before_it_is_written():
    two = pa.array(["a", "b"])
    with pytest.raises(KeyValueError, match="nulls"):
        encode_deletes(pa.array(["a", None]), "p", None)
    with pytest.raises(KeyValueError, match="key 'b': expected all ordering values or none"):
        encode_deletes(two, "p", [pa.array([1, 2]), pa.array([1, None])])
    with pytest.raises(KeyValueError, match="ordering values"):
        long = pa.array([Decimal("1e-16"), Decimal(1)], pa.decimal128(30, 20))
        encode_deletes(two, "p", [long])
    with pytest.raises(SchemaError, match=r"list<item: int64>"):
        encode_deletes(two, "p", [pa.array([[1], [2]])])
    with pytest.raises(InvalidError):
        decode_deletes(encode_deletes(two, "p", [pa.array([1, 2])]), [pa.list_(pa.int64())], "f")
