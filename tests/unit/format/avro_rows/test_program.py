"""Schemas that are wrong, endless or too large are refused by name, before any record is read."""

import json

import pyarrow as pa
import pytest

from lakebed.errors import CorruptError, LakebedError, UnsupportedError
from lakebed.format.avro.avro_rows.block import encode_head, read_avro_block
from lakebed.format.avro.avro_rows.encode import encode_records
from lakebed.format.avro.avro_rows.program import make_program
from lakebed.format.avro.avro_schema import MAX_TEXT_CHARS, avro_to_arrow


def open_block(text):
    content = encode_head(0)
    return list(
        read_avro_block(
            lambda at, length: content[at : at + length], len(content), text, None, what="block"
        )
    )


def nested(kind, levels):
    for _ in range(levels):
        kind = {"type": "array", "items": kind}
    return kind


def chain(length):
    """Return records of which each holds the one before it, by name."""
    first = {"type": "record", "name": "r0", "fields": [{"name": "x", "type": "int"}]}
    return [first] + [
        {"type": "record", "name": f"r{at}", "fields": [{"name": "x", "type": f"r{at - 1}"}]}
        for at in range(1, length)
    ]


REFUSED = {
    "itself": (["null", "row"], "holds itself"),
    "too deep": (nested("int", 80), "deeper than 64"),
    "two branches": (["null", "int", "string"], "a union of null and one type"),
    "null twice": (["null", "null", "int"], "each branch of a union once"),
    "only null": ("null", "can only be null"),
    "nanoseconds": ({"type": "long", "logicalType": "timestamp-nanos"}, "timestamp-nanos"),
    "union inside": ({"type": ["null", "int"]}, "a union inside a type object"),
    "nothing": ({"type": "array", "items": {"type": "fixed", "name": "f", "size": 0}}, "no bytes"),
    "empty": ({"type": "array", "items": {"type": "record", "name": "e", "fields": []}}, "no bytes"),
    "no size": ({"type": "fixed", "name": "f"}, "the size of a fixed, found None"),
    "size as text": ({"type": "fixed", "name": "f", "size": "4"}, "the size of a fixed"),
    "negative size": ({"type": "fixed", "name": "f", "size": -1}, "the size of a fixed, found -1"),
    "large size": ({"type": "fixed", "name": "f", "size": 1 << 40}, "at most 1048576 bytes"),
    "no symbols": ({"type": "enum", "name": "e"}, "symbols of an enum"),
    "symbols": ({"type": "enum", "name": "e", "symbols": [1]}, "symbols of an enum"),
    "none": ({"type": "enum", "name": "e", "symbols": []}, "each symbol of an enum once"),
    "twice": ({"type": "enum", "name": "e", "symbols": ["A", "A"]}, "each symbol of an enum once"),
    "half a pair": ({"type": "enum", "name": "e", "symbols": ["\ud800"]}, "expected JSON"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_schema_that_cannot_be_read_is_refused_by_name(name, schema):
    kind, reason = REFUSED[name]
    with pytest.raises(LakebedError, match=reason) as error:
        open_block(schema(kind))
    assert isinstance(error.value, CorruptError | UnsupportedError)
    with pytest.raises(LakebedError, match=reason):
        encode_records(pa.RecordBatch.from_pydict({"c0": [1]}), schema(kind))


def test_records_that_hold_one_another_by_name_may_not_go_too_deep(schema):
    assert open_block(schema(*chain(60))) == []
    with pytest.raises(UnsupportedError, match="deeper than 64"):
        open_block(schema(*chain(100)))


def test_a_named_type_is_the_last_one_of_that_name_as_for_avro_to_arrow(schema):
    text = schema(
        {"type": "fixed", "name": "f", "size": 2}, "f", {"type": "enum", "name": "f", "symbols": ["A"]}, "f"
    )  # fmt: skip
    program = make_program(text, None)
    assert [node.field for node in program.nodes] == list(avro_to_arrow(text))
    assert [node.shape.size for node in program.nodes] == [2, 2, 0, 0]


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (" " * (MAX_TEXT_CHARS + 1), "expected at most"),
        ("[" * 1_000_000, "expected JSON"),
        (
            json.dumps(
                {
                    "type": "record",
                    "name": "row",
                    "fields": [{"name": f"f{at}", "type": "int"} for at in range(300_000)],
                }
            ),
            "more than 100000 types",
        ),
    ],
    ids=["long", "deep", "wide"],
)
def test_a_huge_schema_is_refused_quickly(text, reason):
    with pytest.raises(LakebedError, match=reason):
        open_block(text)


def test_what_is_asked_for_again_is_made_once(schema):
    text = schema("int", "string")
    assert make_program(text, ["c0", "c1"]) is make_program(text, ("c1", "c0"))
    assert make_program(text, ["c0"]) is not make_program(text, None)
