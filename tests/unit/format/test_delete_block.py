import struct
from decimal import Decimal

import pytest

from lakebed.errors import CorruptError, InvalidError, UnsupportedError
from lakebed.format.logs.delete_block import (
    NO_ORDERING,
    DeleteRecord,
    OrderingKind,
    OrderingValue,
    encode_delete_block,
    parse_delete_block,
)


def content(text, version=3):
    data = bytes.fromhex(text)
    return struct.pack(">ii", version, len(data)) + data


@pytest.mark.parametrize(
    ("text", "ordering"),
    [
        ("0202046b30021470617274697469 6f6e31 040000", NO_ORDERING),
        ("0202046b30021470617274697469 6f6e31 06d80400", OrderingValue(OrderingKind.LONG, 300)),
        ("0202046b30021470617274697469 6f6e31 0000", None),
        (
            "0202046b30021470617274697469 6f6e31 18020406c8010a000000000000e03f0000",
            (OrderingValue(OrderingKind.LONG, 100), OrderingValue(OrderingKind.DOUBLE, 0.5)),
        ),
    ],
)
def test_bytes_are_those_of_hudi(text, ordering):
    record = DeleteRecord("k0", "partition1", ordering)
    assert encode_delete_block([record]) == content(text)
    assert parse_delete_block(content(text), "f") == [record]


@pytest.mark.parametrize(
    "value",
    [
        OrderingValue(OrderingKind.BOOLEAN, True),
        OrderingValue(OrderingKind.INT, -(1 << 31)),
        OrderingValue(OrderingKind.LONG, 0),
        OrderingValue(OrderingKind.LONG, -(1 << 63)),
        OrderingValue(OrderingKind.FLOAT, 1.5),
        OrderingValue(OrderingKind.DOUBLE, 0.1),
        OrderingValue(OrderingKind.BYTES, b"\x00\xff"),
        OrderingValue(OrderingKind.STRING, "é😀"),
        OrderingValue(OrderingKind.DATE, -1),
        OrderingValue(OrderingKind.DECIMAL, Decimal("-12.345")),
        OrderingValue(OrderingKind.TIME_MICROS, 1),
        OrderingValue(OrderingKind.TIMESTAMP_MICROS, 1 << 50),
    ],
)
def test_every_kind_of_ordering_value_comes_back_alone_and_in_an_array(value):
    local = OrderingValue(OrderingKind.LOCAL_DATE, 5)
    records = [DeleteRecord("k", None, value), DeleteRecord(None, "", (value, None, local)),
               DeleteRecord("", "p", ())]  # fmt: skip
    assert parse_delete_block(encode_delete_block(records), "f") == records


def test_list_in_several_parts_and_with_sizes_is_read():
    one = "02026b 00 00".replace(" ", "")
    assert (
        parse_delete_block(content(f"02{one}010a{one}00"), "f")
        == [DeleteRecord("k", None, None)] * 2
    )


def test_array_that_is_null_is_no_ordering():
    assert parse_delete_block(content("02 02026b 00 18 00 00"), "f") == [
        DeleteRecord("k", None, None)
    ]


def test_decimal_has_the_shortest_bytes_as_in_java():
    record = DeleteRecord(
        None, None, OrderingValue(OrderingKind.DECIMAL, Decimal(-128).scaleb(-15))
    )
    assert encode_delete_block([record]) == content("02 00 00 12 02 80 00")


@pytest.mark.parametrize("version", [1, 2, 4])
def test_other_versions_are_unsupported(version):
    with pytest.raises(UnsupportedError, match=f"version {version}"):
        parse_delete_block(content("00", version), "f")


def test_every_cut_and_every_flipped_byte_is_corrupt_or_a_valid_list():
    records = [
        DeleteRecord(f"k{i}", "p", OrderingValue(OrderingKind.STRING, "x")) for i in range(3)
    ]
    data = encode_delete_block([*records, DeleteRecord("k", "p", (NO_ORDERING,))])
    for at in range(len(data)):
        with pytest.raises((CorruptError, UnsupportedError)):
            parse_delete_block(data[:at], "f")
        for flip in range(1, 256):
            try:
                parse_delete_block(data[:at] + bytes([data[at] ^ flip]) + data[at + 1 :], "f")
            except (CorruptError, UnsupportedError) as error:
                assert str(error).startswith("f")  # noqa: PT017


@pytest.mark.parametrize(
    "value",
    [
        OrderingValue(OrderingKind.INT, 1 << 31),
        OrderingValue(OrderingKind.LONG, 1 << 63),
        OrderingValue(OrderingKind.LONG, True),
        OrderingValue(OrderingKind.LONG, 1.0),
        OrderingValue(OrderingKind.STRING, b"x"),
        OrderingValue(OrderingKind.FLOAT, 1e300),
        OrderingValue(OrderingKind.DECIMAL, Decimal("1e-16")),
        OrderingValue(OrderingKind.DECIMAL, Decimal("1e30")),
        OrderingValue(OrderingKind.DECIMAL, Decimal("NaN")),
        OrderingValue(OrderingKind.LOCAL_DATE, 1),
    ],
)
def test_value_that_is_not_of_its_kind_is_refused(value):
    with pytest.raises(InvalidError):
        encode_delete_block([DeleteRecord("k", "p", value)])
