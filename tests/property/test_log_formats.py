"""Logs as columns and places: the fast ways agree with the plain ones, and nothing else gets out."""

import json
import string
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakebed.errors import CorruptError, LakebedError, UnsupportedError
from lakebed.format.compiled import kernels
from lakebed.format.logs.delete_block import OrderingKind
from lakebed.format.logs.delete_columns import decode_deletes, encode_deletes, parse_deletes
from lakebed.format.logs.log_block import BlockType, CorruptSpan, HeaderKey, LogBlock, encode_block
from lakebed.format.logs.log_scan import scan_blocks
from lakebed.format.logs.native_footer import (
    FooterKind,
    LogFooter,
    encode_log_footer,
    parse_log_footer,
)
from lakebed.format.logs.order_mark import is_marked_ordered, mark_ordered
from support.delete_records import (
    NO_ORDERING,
    DeleteRecord,
    OrderingValue,
    encode_delete_block,
    parse_delete_block,
)
from support.log_blocks import iter_blocks

engines = pytest.mark.parametrize("kernel", [False, True], ids=["twin", "kernel"])
TEXT = st.text(max_size=20)
INT32 = st.integers(-(1 << 31), (1 << 31) - 1) | st.integers(-2, 2)
INT64 = st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(-2, 2)
DECIMALS = st.decimals(Decimal("-1e20"), Decimal("1e20"), places=15, allow_nan=False)
PLAIN = {
    OrderingKind.BOOLEAN: st.booleans(),
    OrderingKind.INT: INT32,
    OrderingKind.LONG: INT64,
    OrderingKind.FLOAT: st.floats(width=32),
    OrderingKind.DOUBLE: st.floats(),
    OrderingKind.BYTES: st.binary(max_size=9),
    OrderingKind.STRING: TEXT,
    OrderingKind.DATE: INT32,
    OrderingKind.DECIMAL: DECIMALS,
    OrderingKind.TIME_MICROS: INT64,
    OrderingKind.TIMESTAMP_MICROS: INT64,
    OrderingKind.LOCAL_DATE: INT32,
}
VALUES = st.sampled_from(OrderingKind).flatmap(
    lambda kind: st.builds(OrderingValue, st.just(kind), PLAIN[kind])
)
ALONE = VALUES.filter(lambda value: value.kind is not OrderingKind.LOCAL_DATE)
# The byte 2 begins a record: texts full of it have many false starts.
KEYS = TEXT | st.text("\x02\x00\x04k", max_size=30)
RECORDS = st.builds(
    DeleteRecord,
    KEYS,
    st.none() | KEYS,
    st.none() | ALONE | st.lists(st.none() | VALUES, max_size=4).map(tuple),
)


def shown(parsed):
    """Return each delete with its ordering values, as text: NaN is itself there."""
    keys, arrays, counts = parsed.keys.to_pylist(), parsed.is_array.tolist(), parsed.count.tolist()
    rows = [[None] * max(count, 1) for count in counts]
    for number, field in enumerate(parsed.fields):
        for kind, places, values in field.values:
            for row, value in zip(places.tolist(), values.to_pylist(), strict=True):
                assert field.branch[row] == kind
                assert field.is_zero[row] == (kind is OrderingKind.INT and value == 0)
                rows[row][number] = (kind, value)
    return [
        (key, repr(tuple(row[:count]) if is_array else row[0]))
        for key, is_array, count, row in zip(keys, arrays, counts, rows, strict=True)
    ]


def spelled(records):
    """Return what `shown` should give."""

    def pair(value):
        return None if value is None else (value.kind, value.value)

    return [
        (
            record.record_key,
            repr(
                tuple(map(pair, record.ordering))
                if isinstance(record.ordering, tuple)
                else pair(record.ordering)
            ),
        )
        for record in records
    ]


@engines
@settings(max_examples=150)
@given(st.lists(RECORDS, max_size=12))
def test_deletes_of_any_kind_come_back(kernel, records):
    content = encode_delete_block(records)
    assert spelled(parse_delete_block(content, "f")) == spelled(records)
    with kernels(kernel):
        assert shown(parse_deletes(content, "f")) == spelled(records)


def broken(data, content):
    found = bytearray(content)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(found)))
        found[at : at + data.draw(st.integers(0, 3))] = data.draw(
            st.binary(max_size=3) | st.sampled_from([b"\x02", b"\x00", b"\x18\x00", b"\xff"])
        )
    return bytes(found)


@engines
@settings(max_examples=300)
@given(st.lists(RECORDS, min_size=1, max_size=4), st.data())
def test_broken_bytes_are_the_deletes_that_they_spell_or_corrupt(kernel, records, data):
    body = broken(data, encode_delete_block(records)[8:])
    content = b"\x00\x00\x00\x03" + len(body).to_bytes(4, "big") + body
    try:
        with kernels(kernel):
            found = shown(parse_deletes(content, "f"))
    except CorruptError as error:
        assert str(error).startswith("f: ")  # noqa: PT017
        return
    assert found == spelled(parse_delete_block(content, "f"))


@settings(max_examples=200)
@given(st.binary(max_size=60))
def test_any_bytes_are_delete_columns_or_our_error(body):
    content = b"\x00\x00\x00\x03" + len(body).to_bytes(4, "big") + body
    for types in ([], [pa.int32()], [pa.timestamp("us"), pa.string()]):
        try:
            decode_deletes(content, types, "f")
        except CorruptError as error:
            assert str(error).startswith("f: ")  # noqa: PT017


COLUMNS = {
    pa.bool_(): (PLAIN[OrderingKind.BOOLEAN], OrderingKind.BOOLEAN),
    pa.int16(): (st.integers(-(1 << 15), (1 << 15) - 1), OrderingKind.INT),
    pa.int32(): (INT32, OrderingKind.INT),
    pa.int64(): (INT64, OrderingKind.LONG),
    pa.float32(): (st.floats(width=32, allow_nan=False), OrderingKind.FLOAT),
    pa.float64(): (st.floats(allow_nan=False), OrderingKind.DOUBLE),
    pa.binary(): (st.binary(max_size=9), OrderingKind.BYTES),
    pa.string(): (TEXT, OrderingKind.STRING),
    pa.date32(): (INT32, OrderingKind.INT),
    pa.decimal128(38, 15): (DECIMALS, OrderingKind.DECIMAL),
    pa.timestamp("us"): (INT64, OrderingKind.LONG),
    pa.timestamp("us", "UTC"): (INT64, OrderingKind.LONG),
}
NUMBERS = {pa.date32(): pa.int32(), pa.timestamp("us"): pa.int64(), pa.timestamp("us", "UTC"): pa.int64()}  # fmt: skip


@st.composite
def deletes(draw):
    """Draw keys, ordering types, and one row of values per key, None for a delete without."""
    kinds = draw(st.lists(st.sampled_from(list(COLUMNS)), min_size=1, max_size=3))
    row = st.tuples(*[COLUMNS[kind][0] for kind in kinds])
    pairs = draw(st.lists(st.tuples(KEYS, st.none() | row), max_size=10))
    return [key for key, _ in pairs], kinds, [values for _, values in pairs]


@engines
@settings(max_examples=150)
@given(deletes(), TEXT)
def test_columns_are_written_as_their_records_are_and_come_back(kernel, drawn, partition):
    keys, kinds, rows = drawn
    columns = [
        pa.array([row and row[n] for row in rows], NUMBERS.get(kind, kind)).cast(kind)
        for n, kind in enumerate(kinds)
    ]
    orderings = [NO_ORDERING if row is None else _ordering(row, kinds) for row in rows]
    with kernels(kernel):
        content = encode_deletes(pa.array(keys, pa.string()), partition, columns)
        found = decode_deletes(content, kinds, "f")
    assert content == encode_delete_block(
        [DeleteRecord(key, partition, one) for key, one in zip(keys, orderings, strict=True)]
    )
    assert found.keys.to_pylist() == keys
    assert found.no_ordering.tolist() == [one == NO_ORDERING for one in orderings]
    for got, want in zip(found.ordering, columns, strict=True):
        gone = pa.array(found.no_ordering, pa.bool_())
        assert got.equals(pa.compute.if_else(gone, pa.scalar(None, want.type), want))


def _ordering(row, kinds):
    values = [OrderingValue(COLUMNS[k][1], v) for k, v in zip(kinds, row, strict=True)]
    return tuple(values) if len(values) > 1 else values[0]


HEADERS = st.dictionaries(st.sampled_from(HeaderKey), TEXT)
KINDS = [kind for kind in BlockType if kind is not BlockType.CORRUPT]
BLOCKS = st.builds(LogBlock, st.sampled_from(KINDS), HEADERS, st.binary(max_size=40))


def scanned(data):
    """Scan with every read checked: inside the file, and never more than it holds."""

    def read(at, length):
        assert 0 < length <= len(data) - at
        return data[at : at + length]

    return list(scan_blocks(read, len(data), "f"))


@settings(max_examples=300)
@given(st.lists(BLOCKS, min_size=1, max_size=3), st.data())
def test_scan_of_broken_bytes_covers_the_file_or_raises_our_error(blocks, data):
    content = broken(data, b"".join(map(encode_block, blocks)))
    try:
        found = scanned(content)
    except (CorruptError, UnsupportedError) as error:
        assert str(error).startswith("f, block at byte ")  # noqa: PT017
        return
    at = 0
    for place in found:
        assert place.offset == at
        at = at + place.size_bytes if isinstance(place, CorruptSpan) else place.end
    assert at == len(content)
    assert [type(p) is CorruptSpan for p in found] == [
        type(b) is CorruptSpan for b in iter_blocks(content, "f")
    ]


FREE_KEYS = [
    key for key in HeaderKey if key not in {HeaderKey.INSTANT_TIME, HeaderKey.SCHEMA}
    and "POSITIONS" not in key.name
]  # fmt: skip
COMMANDS = st.fixed_dictionaries(
    {HeaderKey.COMMAND_BLOCK_TYPE: TEXT, HeaderKey.TARGET_INSTANT_TIME: TEXT}
)
FOOTERS = st.builds(
    LogFooter,
    st.sampled_from(FooterKind),
    st.none() | TEXT,
    st.none() | TEXT,
    st.tuples(st.dictionaries(st.sampled_from(FREE_KEYS), TEXT), COMMANDS).map(
        lambda two: two[0] | two[1]
    ),
    st.none() | st.booleans(),
)


@given(FOOTERS, st.dictionaries(TEXT, TEXT, max_size=2))
def test_log_footer_comes_back_from_among_other_entries(footer, others):
    assert parse_log_footer(others | encode_log_footer(footer), "f") == footer


@given(FOOTERS)
def test_log_footer_without_its_json_loses_the_schema_only(footer):
    entries = encode_log_footer(footer)
    del entries["hudi.log.format.metadata"]
    found = parse_log_footer(entries, "f")
    assert (found.kind, found.instant, found.headers) == (
        footer.kind,
        footer.instant,
        footer.headers,
    )
    assert found.schema is None


@given(st.text(string.printable, max_size=40) | st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.sampled_from(["VERSION", "SCHEMA", "type", "x"]), inner, max_size=3),
).map(json.dumps))  # fmt: skip
def test_any_text_is_a_footer_or_a_schema_or_our_error(text):
    try:
        footer = parse_log_footer({"hudi.log.format.metadata": text}, "f")
        assert footer.version <= 2
    except (CorruptError, UnsupportedError) as error:
        assert str(error).startswith("f: ")  # noqa: PT017
    try:
        assert is_marked_ordered(mark_ordered(text))
    except LakebedError as error:
        assert str(error).startswith("schema: ")  # noqa: PT017
