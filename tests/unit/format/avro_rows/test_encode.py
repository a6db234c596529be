"""Columns become the records that fastavro writes; what the schema cannot hold is named."""

import io
import json
from datetime import UTC, datetime, time
from decimal import Decimal

import fastavro
import numpy as np
import pyarrow as pa
import pytest

from lakebed.errors import InvalidError, UnsupportedError
from lakebed.format.avro.avro_rows.encode import encode_records
from lakebed.format.avro.avro_schema import avro_to_arrow

INNER = {
    "type": "record",
    "name": "inner",
    "fields": [
        {"name": "a", "type": ["null", "long"]},
        {"name": "b", "type": {"type": "array", "items": "string"}},
    ],
}


def fastavro_records(text, rows):
    schema = fastavro.parse_schema(json.loads(text))
    parts = []
    for row in rows:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, schema, row)
        parts.append(out.tell().to_bytes(4, "big") + out.getvalue())
    return b"".join(parts)


def batch_of(text, rows):
    return pa.RecordBatch.from_pylist(rows, schema=avro_to_arrow(text))


SCHEMA_ROWS = [
    ("boolean", [True, False]),
    ("int", [0, -1, 2**31 - 1, -(2**31)]),
    ({"type": "int", "lakebed.type": "byte"}, [-128, 127]),
    ("long", [2**63 - 1, -(2**63), 0, 64, -65]),
    ("float", [1.5, -0.0]),
    ("double", [1e300, -2.5]),
    ("string", ["", "€uro", "123456789" * 3]),
    ("bytes", [b"", b"\xff"]),
    ({"type": "fixed", "name": "f", "size": 3}, [b"abc"]),
    ({"type": "enum", "name": "e", "symbols": ["A", "B"]}, ["B", "A"]),
    ({"type": "long", "logicalType": "timestamp-millis"}, [datetime(1960, 1, 1, 0, 0, 0, 5000, UTC)]),
    ({"type": "int", "logicalType": "time-millis"}, [time(1, 2, 3, 4000)]),
    (
        {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 2},
        [Decimal(v).scaleb(-2) for v in (0, -1, 127, 128, -127, -129, 2**64, -(2**100), 10**37)],
    ),
    (
        {"type": "fixed", "name": "d", "size": 5, "logicalType": "decimal", "precision": 10, "scale": 0},
        [Decimal(0), Decimal(-(10**10) + 1), Decimal(255)],
    ),
    (
        {"type": "fixed", "name": "w", "size": 20, "logicalType": "decimal", "precision": 38, "scale": 0},
        [Decimal(-1), Decimal(10**38 - 1)],
    ),
    (INNER, [{"a": None, "b": []}, {"a": 5, "b": ["x", ""]}]),
    ({"type": "array", "items": ["int", "null"]}, [[], [1, None]]),
    ({"type": "map", "values": {"type": "array", "items": "int"}}, [{}, {"k": [1], "l": []}]),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "values"), SCHEMA_ROWS, ids=lambda part: str(part)[:50])
def test_every_type_is_written_as_fastavro_writes_it(kind, values, schema):
    again = kind["name"] if isinstance(kind, dict) and "name" in kind else kind
    text = schema(kind, ["null", again], [again, "null"], [again])
    rows = [
        {"c0": value, "c1": value if at % 2 else None, "c2": None if at % 2 else value, "c3": value}
        for at, value in enumerate(values * 2)
    ]
    batch = batch_of(text, rows)
    for start in range(len(rows)):
        wanted = fastavro_records(text, rows[start:])
        assert encode_records(batch[start:], text).to_pybytes() == wanted


def test_a_decimal_takes_as_few_bytes_as_in_java(schema):
    """BigInteger.toByteArray; fastavro takes a byte more for -128."""
    text = schema({"type": "bytes", "logicalType": "decimal", "precision": 5})
    batch = batch_of(text, [{"c0": Decimal(-128)}, {"c0": Decimal(-32768)}])
    wanted = b"\0\0\0\2" + b"\x02\x80" + b"\0\0\0\3" + b"\x04\x80\x00"
    assert encode_records(batch, text).to_pybytes() == wanted


def test_no_rows_are_no_bytes(schema):
    text = schema("string", {"type": "array", "items": INNER})
    assert encode_records(batch_of(text, []), text).to_pybytes() == b""
    assert encode_records(batch_of(text, [{"c0": "a", "c1": []}])[1:], text).size == 0


def test_columns_are_found_by_name_and_those_not_there_are_null(schema):
    text = schema("int", ["null", {"type": "array", "items": INNER}], ["string", "null"])
    batch = pa.RecordBatch.from_pydict({"c2": ["x"], "more": [1], "c0": pa.array([7], pa.int32())})
    wanted = fastavro_records(text, [{"c0": 7, "c1": None, "c2": "x"}])
    assert encode_records(batch, text).to_pybytes() == wanted


def test_fields_of_a_struct_are_found_by_name(schema):
    text = schema(INNER)
    kind = pa.struct([("b", pa.large_list(pa.large_string())), ("z", pa.int8())])
    batch = pa.RecordBatch.from_arrays([pa.array([{"b": ["x"], "z": 1}], kind)], ["c0"])
    wanted = fastavro_records(text, [{"c0": {"a": None, "b": ["x"]}}])
    assert encode_records(batch, text).to_pybytes() == wanted


def test_other_types_with_the_same_values_are_taken(schema):
    text = schema(
        "string", "long", {"type": "array", "items": ["null", "string"]}, ["null", "bytes"]
    )
    columns = {
        "c0": pa.array(["a", "b", "a"]).dictionary_encode(),
        "c1": pa.array([1, 2, 3], pa.int8()),
        "c2": pa.array([["x"], [None], []], pa.list_(pa.dictionary(pa.int8(), pa.string()))),
        "c3": pa.array([b"1", None, b""], pa.large_binary()),
    }
    rows = [
        {"c0": "a", "c1": 1, "c2": ["x"], "c3": b"1"},
        {"c0": "b", "c1": 2, "c2": [None], "c3": None},
        {"c0": "a", "c1": 3, "c2": [], "c3": b""},
    ]
    assert encode_records(pa.RecordBatch.from_pydict(columns), text).to_pybytes() == (
        fastavro_records(text, rows)
    )


def test_what_lies_below_a_null_is_not_written(schema):
    text = schema(["null", INNER], ["null", {"type": "array", "items": "int"}])
    lists = pa.array([["hidden"], ["x"]], pa.list_(pa.string()))
    mask = pa.array([True, False])
    structs = pa.StructArray.from_arrays([pa.array([1, 2]), lists], ["a", "b"], mask=mask)
    numbers = pa.ListArray.from_buffers(
        pa.list_(pa.int32()),
        2,
        [pa.py_buffer(b"\2"), pa.py_buffer(np.array([0, 2, 3], np.int32))],
        children=[pa.array([7, 8, 9], pa.int32())],
    )
    batch = pa.RecordBatch.from_arrays([structs, numbers], ["c0", "c1"])
    rows = [{"c0": None, "c1": None}, {"c0": {"a": 2, "b": ["x"]}, "c1": [9]}]
    assert encode_records(batch, text).to_pybytes() == fastavro_records(text, rows)


def test_what_lies_below_a_null_may_be_anything(schema):
    fields = [
        {"name": "f", "type": {"type": "fixed", "name": "f", "size": 2}},
        {"name": "e", "type": {"type": "enum", "name": "e", "symbols": ["A"]}},
        {"name": "d", "type": {"type": "fixed", "name": "d", "size": 1, "logicalType": "decimal", "precision": 3}},
        {"name": "t", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ]  # fmt: skip
    text = schema(
        [
            "null",
            {"type": "array", "items": ["null", {"type": "record", "name": "s", "fields": fields}]},
        ]
    )
    rows = pa.array(
        [{"f": b"xxx", "e": "Z", "d": Decimal(999), "t": datetime(2024, 1, 1, 0, 0, 0, 7, UTC)}] * 3
    )
    inner = [rows.field(at) for at in range(4)]
    structs = pa.StructArray.from_arrays(
        inner, ["f", "e", "d", "t"], mask=pa.array([True, False, True])
    )
    lists = pa.ListArray.from_arrays(
        pa.array([0, 1, 2, 3], pa.int32()), structs, mask=pa.array([False, True, False])
    )
    null_item = b"\0\0\0\4" + b"\2\2\0\0"
    wanted = null_item + b"\0\0\0\1" + b"\0" + null_item
    batch = pa.RecordBatch.from_arrays([lists], ["c0"])
    assert encode_records(batch, text).to_pybytes() == wanted


@pytest.mark.parametrize(
    ("kind", "values", "reason"),
    [
        ("int", [1, None], r"column 'c0': null in row 1, where the schema has no null"),
        (["int"], [1, None], r"column 'c0': null in row 1"),
        (INNER, [{"a": 1, "b": []}, None], r"column 'c0': null in row 1"),
        (INNER, [{"a": 1, "b": ["x"]}, {"a": 1, "b": None}], r"column 'c0.b': null in row 1"),
        (INNER, [{"a": 1, "b": ["x", None]}], r"column 'c0.b.element': null in row 0"),
        ("int", [2**31], r"column 'c0': expected int32, found int64"),
        ("string", [[1]], r"column 'c0': expected string, found list"),
        ("long", ["x"], r"column 'c0': expected int64, found string"),
        (INNER, [1], r"column 'c0': expected struct<.*, found int64"),
        ({"type": "array", "items": "int"}, [1], r"column 'c0': expected list<.*, found int64"),
        (
            {"type": "enum", "name": "e", "symbols": ["A", "B"]},
            ["A", "C"],
            r"one of A, B, found 'C'",
        ),
        ({"type": "fixed", "name": "f", "size": 2}, [b"ab", b"abc"], r"expected 2 bytes, found 3"),
        (
            {"type": "fixed", "name": "f", "size": 1, "logicalType": "decimal", "precision": 3},
            [Decimal(127), Decimal(128)],
            r"column 'c0': a decimal that does not fit 1 bytes",
        ),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 3},
            [Decimal(1000)],
            r"column 'c0': expected decimal128\(3, 0\), found decimal128\(4, 0\)",
        ),
        (
            {"type": "long", "logicalType": "timestamp-millis"},
            [datetime(2024, 1, 1, 0, 0, 0, 1, UTC)],
            r"column 'c0': the schema has milliseconds, found 1704067200000001 micro",
        ),
    ],
)
def test_a_value_that_the_schema_cannot_hold_is_named(kind, values, reason, schema):
    with pytest.raises(InvalidError, match=reason):
        encode_records(pa.RecordBatch.from_pydict({"c0": pa.array(values)}), schema(kind))


def test_a_column_that_is_not_there_and_cannot_be_null_is_named(schema):
    batch = pa.RecordBatch.from_pydict({"c0": [1]})
    with pytest.raises(InvalidError, match="column 'c1': null in row 0"):
        encode_records(batch, schema("long", "string"))


def test_many_rows_are_written_in_parts(schema):
    text = schema("string", {"type": "array", "items": ["null", "long"]})
    rows = [{"c0": "x" * (at % 5), "c1": [at, None][: at % 3]} for at in range(100)]
    wanted = fastavro_records(text, rows)
    assert encode_records(batch_of(text, rows), text, slice_rows=7).to_pybytes() == wanted
    holed = pa.RecordBatch.from_pydict({"c0": ["x"] * 99 + [None], "c1": [[1]] * 100})
    with pytest.raises(InvalidError, match="column 'c0': null in row 99"):
        encode_records(holed, text, slice_rows=7)


def test_rows_of_too_many_bytes_are_written_in_halves(schema):
    text = schema("string", "bytes")
    rows = [{"c0": "x" * 10, "c1": b"y" * at} for at in range(50)]
    wanted = fastavro_records(text, rows)
    assert encode_records(batch_of(text, rows), text, max_bytes=70).to_pybytes() == wanted
    with pytest.raises(UnsupportedError, match="row 1: expected at most 70 bytes"):
        long = batch_of(text, [rows[0], {"c0": "x" * 71, "c1": b""}])
        encode_records(long, text, max_bytes=70)
