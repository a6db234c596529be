"""Encoded values compare as the values do, alone and one after the other."""

import datetime as dt
import math
import struct
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.errors import SchemaError
from lakebed.format.index.ordered_bytes import (
    after_prefix,
    encode_rows,
    encode_values,
    is_ordered,
)

EPOCH = dt.datetime(1970, 1, 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
REALS = st.floats() | st.sampled_from([0.0, -0.0, math.nan, math.inf, -math.inf])
TEXTS = st.text(max_size=12) | st.sampled_from(
    ["", "\x00", "a\x00", "a", "ab", "\x00\xff", "é", "😀"]
)
KINDS = [
    (pa.int64(), INT64),
    (pa.int8(), st.integers(-128, 127)),
    (pa.bool_(), st.booleans()),
    (pa.float64(), REALS),
    (pa.float32(), st.floats(width=32)),
    (pa.string(), TEXTS),
    (pa.large_string(), TEXTS),
    (pa.binary(), st.binary(max_size=12)),
    (pa.date32(), st.dates()),
    (pa.timestamp("us"), st.datetimes()),
    (pa.timestamp("us", "UTC"), st.datetimes(timezones=st.just(dt.UTC))),
    (pa.timestamp("ms"), st.datetimes().map(lambda at: at.replace(microsecond=0))),
    (pa.decimal128(38, 4), st.decimals(-(10**30), 10**30, places=4)),
    (pa.decimal256(60, 2), st.decimals(-(10**50), 10**50, places=2)),
]


def rank(value: object) -> tuple[object, ...]:
    """Order as Spark does: null first, NaN last, strings by their bytes, -0.0 as 0.0."""
    if value is None:
        return (0,)
    if isinstance(value, float):
        return (1, math.isnan(value), 0.0 if math.isnan(value) else value)
    return (1, value.encode() if isinstance(value, str) else value)


@pytest.mark.parametrize(("kind", "values"), KINDS, ids=[str(kind) for kind, _ in KINDS])
def test_bytes_compare_as_values_do(kind, values):
    @given(st.lists(values | st.none(), min_size=2, max_size=20))
    def check(drawn):
        column = pa.array(drawn, kind)
        keys = encode_rows([column]).to_pylist()
        rows = [rank(value) for value in column.to_pylist()]
        for one, left in zip(rows, keys, strict=True):
            for other, right in zip(rows, keys, strict=True):
                assert (one < other) == (left < right)
                assert (one == other) == (left == right)

    check()


@given(st.lists(st.tuples(TEXTS | st.none(), INT64 | st.none(), TEXTS), min_size=2, max_size=15))
def test_several_columns_compare_one_after_the_other(rows):
    kinds = (pa.string(), pa.int64(), pa.string())
    columns = [
        pa.array(column, kind) for column, kind in zip(zip(*rows, strict=True), kinds, strict=True)
    ]
    keys = encode_rows(columns).to_pylist()
    ranks = [tuple(map(rank, row)) for row in rows]
    assert sorted(range(len(rows)), key=ranks.__getitem__) == sorted(
        range(len(rows)), key=keys.__getitem__
    )
    for row, key in zip(rows, keys, strict=True):
        for count in range(4):
            assert key.startswith(encode_values(row[:count], kinds[:count]))


@given(st.binary(max_size=5), st.binary(max_size=5))
def test_what_comes_after_a_prefix_is_the_end_of_its_range(prefix, key):
    end = after_prefix(prefix)
    assert key.startswith(prefix) == (prefix <= key and (end is None or key < end))


def test_the_bytes_are_these():
    assert encode_values([None], [pa.int64()]) == b"\x00"
    assert encode_values([-1], [pa.int64()]) == b"\x01\x7f" + b"\xff" * 7
    assert encode_values([True], [pa.bool_()]) == b"\x01\x01"
    assert encode_values([1.0], [pa.float64()]) == b"\x01\xbf\xf0" + b"\x00" * 6
    assert (
        encode_values([dt.date(1970, 1, 2)], [pa.date32()]) == b"\x01\x80" + b"\x00" * 6 + b"\x01"
    )
    assert encode_values(["a\x00b"], [pa.string()]) == b"\x01a\x00\xffb\x00\x00"
    assert encode_values([Decimal("-0.01")], [pa.decimal128(5, 2)]) == b"\x01\x7f" + b"\xff" * 15


@pytest.mark.parametrize(
    ("narrow", "wide", "value"),
    [
        (pa.int32(), pa.int64(), -5),
        (pa.float32(), pa.float64(), 0.1),
        (pa.string(), pa.large_string(), "x"),
        (pa.decimal128(5, 2), pa.decimal128(20, 2), Decimal("1.25")),
    ],
)
def test_a_wider_type_keeps_the_bytes(narrow, wide, value):
    column = pa.array([value], narrow)
    assert encode_rows([column]) == encode_rows([column.cast(wide)])


def test_one_value_has_one_key():
    odd_nan = struct.unpack("<d", struct.pack("<Q", 0xFFF8000000000001))[0]
    reals = encode_rows([pa.array([0.0, -0.0, math.nan, odd_nan, -math.nan], from_pandas=False)])
    assert reals[0] == reals[1]
    assert reals[2] == reals[3] == reals[4]
    zones = [pa.array([EPOCH], pa.timestamp("us", zone)) for zone in ("UTC", "Asia/Tokyo")]
    assert encode_rows(zones[:1]) == encode_rows(zones[1:])


def test_parts_of_longer_arrays_are_encoded_alike():
    for kind, values in [
        (pa.decimal128(9, 2), ["1.00", None, "-2.50"]),
        (pa.string(), ["a", None, "b"]),
    ]:
        whole = pa.array(
            [None if v is None else Decimal(v) if kind != pa.string() else v for v in values], kind
        )
        assert encode_rows([whole.slice(1)]) == encode_rows([whole]).slice(1)


def test_no_rows_have_no_keys():
    assert encode_rows([pa.array([], pa.string()), pa.array([], pa.int64())]).to_pylist() == []
    assert encode_values([], []) == b""


@pytest.mark.parametrize(
    "kind", [pa.list_(pa.int64()), pa.map_(pa.string(), pa.int64()), pa.struct([("a", pa.int64())])]
)
def test_what_has_no_order_is_refused(kind):
    assert not is_ordered(kind)
    with pytest.raises(SchemaError, match="no order"):
        encode_rows([pa.nulls(1, kind)])
