import io
import json
import zlib

import fastavro
import pytest

from lakebed.errors import CorruptError, InvalidError, UnsupportedError
from lakebed.format.avro.avro_binary import encode_bytes, encode_long
from lakebed.format.timeline.ocf import MAGIC, decode_record, encode_record, full_name

SCHEMA = {
    "type": "record",
    "name": "Thing",
    "namespace": "org.example",
    "fields": [
        {"name": "text", "type": ["null", {"type": "string", "avro.java.string": "String"}],
         "default": None},
        {"name": "count", "type": "long", "default": 7},
        {"name": "tags", "type": {"type": "array", "items": "string"}, "default": []},
    ],
}  # fmt: skip
VALUES = {"text": "é", "count": -300, "tags": ["a", ""]}


def container(schema, body, codec=None, count=1, sync=b"s" * 16, end=None):
    """Build a container file by hand, right or wrong."""
    metadata = {
        b"avro.schema": schema if isinstance(schema, bytes) else json.dumps(schema).encode()
    }
    if codec:
        metadata[b"avro.codec"] = codec
    entries = b"".join(encode_bytes(k) + encode_bytes(v) for k, v in metadata.items())
    header = MAGIC + encode_long(len(metadata)) + entries + encode_long(0) + sync
    return header + encode_long(count) + encode_bytes(body) + (sync if end is None else end)


def record(*fields, name="R"):
    return {"type": "record", "name": name, "fields": [
        {"name": f"f{i}", "type": kind} for i, kind in enumerate(fields)]}  # fmt: skip


def test_record_comes_back_with_its_name():
    assert decode_record(encode_record(SCHEMA, VALUES), "f") == ("org.example.Thing", VALUES)


def test_fastavro_reads_what_we_write():
    reader = fastavro.reader(io.BytesIO(encode_record(SCHEMA, VALUES)))
    assert list(reader) == [VALUES]
    assert json.loads(reader.metadata["avro.schema"]) == SCHEMA


def test_we_read_what_fastavro_writes_in_both_codecs():
    for codec in ("null", "deflate"):
        out = io.BytesIO()
        fastavro.writer(out, SCHEMA, [VALUES], codec=codec)
        assert decode_record(out.getvalue(), "f") == ("org.example.Thing", VALUES)


def test_same_record_gives_the_same_bytes():
    assert encode_record(SCHEMA, VALUES) == encode_record(SCHEMA, dict(VALUES))


def test_field_that_is_left_out_takes_its_default():
    assert decode_record(encode_record(SCHEMA, {}), "f")[1] == {
        "text": None, "count": 7, "tags": []}  # fmt: skip


@pytest.mark.parametrize(
    "values",
    [{"other": 1}, {"text": 5}, {"count": "x"}, {"count": 1 << 64}, {"tags": [None]}, {"tags": 3}],
)
def test_values_that_do_not_fit_the_schema_are_refused(values):
    with pytest.raises(InvalidError, match=r"org\.example\.Thing"):
        encode_record(SCHEMA, values)


def test_reader_schema_fills_and_drops_fields():
    older = {**SCHEMA, "fields": [SCHEMA["fields"][0], {"name": "gone", "type": "long"}]}
    data = encode_record(older, {"text": "x", "gone": 1})
    readers = {"org.example.Thing": SCHEMA}
    assert decode_record(data, "f", readers)[1] == {"text": "x", "count": 7, "tags": []}


def test_record_of_another_name_is_corrupt_for_a_reader():
    with pytest.raises(CorruptError, match=r"expected one of \['org.example.Other'\]"):
        decode_record(encode_record(SCHEMA, VALUES), "f", {"org.example.Other": SCHEMA})


def test_type_that_does_not_resolve_is_corrupt():
    text = {**SCHEMA, "fields": [{"name": "count", "type": "string"}]}
    with pytest.raises(CorruptError, match="f: "):
        decode_record(encode_record(text, {"count": "x"}), "f", {"org.example.Thing": SCHEMA})


def test_empty_file_is_corrupt_by_name():
    with pytest.raises(CorruptError, match=r"x\.commit: .*found 0 bytes"):
        decode_record(b"", "x.commit")


def test_json_of_layout_1_is_refused_in_words():
    with pytest.raises(CorruptError, match="found JSON"):
        decode_record(b'{"compacted": false}', "x.commit")


def test_unknown_codec_is_unsupported():
    with pytest.raises(UnsupportedError, match="snappy"):
        decode_record(container(record("long"), b"\x02", b"snappy"), "f")


@pytest.mark.parametrize(
    "data",
    [
        b"PAR1",
        container(record("long"), b"\x02", count=2),
        container(record("long"), b"\x02", count=0),
        container(record("long"), b"\x02", end=b"t" * 16),
        container(record("long"), b"\x02") + b"\x00",
        container(record("long"), b"\x02\x02"),
        container(record("long"), b""),
        container(record("long"), b"\x80" * 11),
        container(record("string"), b"\x7fab"),
        container(record("string"), b"\x02\xff"),
        container(record(["null", "long"]), b"\x08"),
        container(record("long"), b"junk", b"deflate"),
        container(b"\xff", b""),
        container(b"[", b""),
        container(b"7", b""),
        container(b'"long"', b"\x02"),
        container(record("unheard"), b""),
        container(record({"type": "fixed", "name": "f", "size": 1 << 40}), b""),
        container({"type": "record", "name": "R", "fields": 3}, b""),
        container({"type": "record", "name": 3, "fields": []}, b""),
        container(record({"type": ["null"]}), b""),
        container(record({"type": []}), b""),
        container(b'{"type":"array","items":' * 5000, b""),
        MAGIC + encode_long(1 << 40),
        MAGIC + encode_long(1) + encode_long(1 << 60),
        MAGIC + encode_long(1) + encode_long(-5),
    ],
)
def test_broken_file_is_corrupt_and_named(data):
    with pytest.raises(CorruptError, match=r"20240101\.commit"):
        decode_record(data, "20240101.commit")


@pytest.mark.parametrize(
    "schema",
    [
        record({"type": "array", "items": "null"}),
        record({"type": "array", "items": record(name="Empty")}),
        record(record(name="Empty"), {"type": "array", "items": "Empty"}),
        record({"type": "array", "items": record(record(name="Empty"), "null", name="Holder")}),
    ],
)
def test_array_of_nothing_does_not_run_for_ever(schema):
    with pytest.raises(CorruptError, match="without bytes"):
        decode_record(container(schema, encode_long(1 << 50)), "f")


def test_type_that_holds_itself_is_refused():
    with pytest.raises(CorruptError, match="holds itself"):
        decode_record(container(record(["null", "R"]), b"\x02" * 100_000), "f")


def test_bomb_of_zeros_is_refused_before_it_fills_memory():
    inflater = zlib.compressobj(1, wbits=-15)
    chunk = b"\x00" * (1 << 20)
    body = b"".join(inflater.compress(chunk) for _ in range(129)) + inflater.flush()
    with pytest.raises(CorruptError, match="at most"):
        decode_record(container(record("bytes"), body, b"deflate"), "f")


def test_full_name_joins_the_namespace_once():
    assert full_name({"name": "a.B", "namespace": "c"}) == "a.B"
    assert full_name({"name": "B", "namespace": "a"}) == "a.B"
    assert full_name({"name": "B"}) == "B"


def test_records_of_records_of_nothing_are_refused_before_they_double_without_end():
    inner = record(name="R0")
    for number in range(1, 31):
        inner = record(inner, f"R{number - 1}", name=f"R{number}")
    with pytest.raises(CorruptError, match="more than 32 free values"):
        decode_record(container(inner, b""), "f")


def test_many_fields_of_nothing_in_each_item_of_an_array_are_refused():
    item = record(*["null"] * 1000, name="Item")
    with pytest.raises(CorruptError, match="free values"):
        decode_record(container(record({"type": "array", "items": ["null", item]}), b"\x00"), "f")


def test_bomb_of_a_few_kilobytes_is_refused_before_it_becomes_millions_of_values():
    item = record("int", name="Item")
    body = encode_long(32 << 20) + bytes(32 << 20) + b"\x00"
    data = container(
        record({"type": "array", "items": item}), zlib.compress(body, 9, wbits=-15), b"deflate"
    )
    assert len(data) < 40_000
    with pytest.raises(CorruptError, match=r"f: .*at most 4194304 bytes"):
        decode_record(data, "f")
