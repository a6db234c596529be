"""One record with unions of several types: what fastavro writes is read, and written again."""

import pyarrow as pa
import pytest

from lakebed.errors import CorruptError, UnsupportedError
from lakebed.format.avro.avro_rows.record import decode_record, encode_record

NAMED = {"type": "record", "name": "named", "fields": [{"name": "n", "type": ["null", "int"]}]}
INNER = ["null", "double", "named"]
UNION = ["null", "int", "string", "boolean", NAMED, {"type": "array", "items": INNER}]
ROWS = [None, 1, "x", -5, True, {"n": 7}, {"n": None}, [], [None, 0.5, {"n": 3}], "", 1 << 30]


def framed(record):
    return len(record).to_bytes(4, "big") + record


@pytest.mark.parametrize("many", [1, 500])
def test_a_union_of_several_types_is_a_dense_union_and_comes_back(schema, record, many):
    text = schema({"type": "array", "items": UNION}, ["null", "long", "string"], ["null", "string"])
    content = framed(record(text, {"c0": ROWS * many, "c1": "é", "c2": None}))
    found = decode_record(b"head" + content, 4, text, "f")
    found.validate(full=True)
    assert pa.types.is_union(found.column(0).type.value_type)
    assert found.column(0).to_pylist() == [ROWS * many]
    assert found.column(1).to_pylist() == ["é"]
    assert bytes(encode_record(found, text)) == content


def test_values_may_share_an_entry_and_a_missing_column_is_null(schema):
    text = schema({"type": "array", "items": UNION}, ["null", "long", "string"])
    kind = decode_record(framed(b"\x00\x00"), 0, text, "f").column(0).type
    children = [pa.nulls(0, kind.value_type.field(n).type) for n in range(6)]
    children[2] = pa.array(["same"])
    parts = [None, pa.py_buffer(b"\x02\x02"), pa.py_buffer(bytes(8))]
    union = pa.Array.from_buffers(kind.value_type, 2, parts, children=children)
    listed = pa.ListArray.from_arrays(pa.array([0, 2], pa.int32()), union, kind)
    row = pa.RecordBatch.from_arrays([listed], names=["c0"])
    written = bytes(encode_record(row, text))
    assert written == framed(b"\x04" + b"\x04\x08same" * 2 + b"\x00" + b"\x00")


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"\x0c", "a branch that the union has, found 6"),
        (b"\x01", "a branch that the union has, found -1"),
        (b"", "ends in a value"),
        (b"\xff" * 11, "more than 64 bits"),
        (b"\x04\x02\xff", "expected UTF-8"),
        (b"\x00\x00", "1 bytes of the record are left over"),
        (b"\x06\x02", "expected a boolean of 0 or 1, found 2"),
    ],
)
def test_bytes_that_are_wrong_are_corrupt_and_the_field_is_named(schema, body, reason):
    with pytest.raises(CorruptError, match=f"f: byte .*{reason}"):
        decode_record(framed(body), 0, schema(UNION), "f")


@pytest.mark.parametrize(
    "content", [b"", b"\x00\x00\x00", framed(b"\x00") + b"x", framed(b"\x00")[:-1]]
)
def test_a_length_that_is_not_that_of_the_rest_is_corrupt(schema, content):
    with pytest.raises(CorruptError, match=r"f: expected \d+ bytes, found \d+"):
        decode_record(content, 0, schema(UNION), "f")


@pytest.mark.parametrize("union", [["int", "null", "string"], ["int", "string", "long"]])
def test_a_union_of_several_types_begins_with_null(schema, union):
    with pytest.raises(UnsupportedError, match="a union of null and one type"):
        decode_record(framed(b"\x00"), 0, schema(union), "f")
