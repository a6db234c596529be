"""Avro schemas as Hudi stores them."""

import io
import json
import tarfile
from pathlib import Path

import fastavro
import pyarrow as pa
import pytest

from lakebed.errors import CorruptError, SchemaError, UnsupportedError
from lakebed.format.avro.avro_schema import (
    MAX_DEPTH,
    MAX_TEXT_CHARS,
    arrow_to_avro,
    avro_to_arrow,
    sanitize_name,
    with_meta_fields,
)
from lakebed.format.names.meta_columns import META_COLUMNS

FIXTURES = Path(__file__).parents[2] / "golden" / "fixtures" / "hudi-1.2"


def hudi_schemas(table):
    """Every schema in the completed commits of a table that Hudi 1.2.0 wrote."""
    with tarfile.open(FIXTURES / f"{table}.tar.gz") as archive:
        for member in archive.getmembers():
            if "/.hoodie/timeline/" in member.name and member.name.endswith("commit"):
                data = archive.extractfile(member).read()
                for commit in fastavro.reader(io.BytesIO(data)):
                    yield commit["extraMetadata"]["schema"]


def column(avro, default=False):
    field = {"name": "c", "type": avro}
    if default:
        field["default"] = None
    return json.dumps({"type": "record", "name": "r", "namespace": "n", "fields": [field]})


@pytest.mark.parametrize("table", ["mor9_types", "cow9_nomdt", "mor9_isdeleted", "cow9_composite"])
def test_our_text_equals_hudis_byte_for_byte(table):
    schemas = list(hudi_schemas(table))
    assert schemas
    for text in schemas:
        assert arrow_to_avro(avro_to_arrow(text), table) == text


def test_hudis_types_become_the_arrow_types_that_spark_shows():
    schema = avro_to_arrow(next(hudi_schemas("mor9_types")))
    assert schema.field("dec").type == pa.decimal128(10, 2)
    assert schema.field("tsp").type == pa.timestamp("us", "UTC")
    assert schema.field("dte").type == pa.date32()
    assert schema.field("arr").type == pa.list_(pa.field("element", pa.int32()))
    assert schema.field("mp").type == pa.map_(pa.string(), pa.int64())
    assert schema.field("st").type == pa.struct([("x", pa.int32()), ("y", pa.string())])
    assert all(field.nullable for field in schema)


def test_nested_names_follow_the_path_of_columns():
    inner = pa.struct([("d", pa.decimal128(38, 18)), ("deep", pa.struct([("x", pa.int8())]))])
    record = json.loads(arrow_to_avro(pa.schema([("a", pa.list_(inner))]), "t"))
    struct = record["fields"][0]["type"][1]["items"][1]
    assert (struct["namespace"], struct["name"]) == ("hoodie.t.t_record", "a")
    decimal, deep = (field["type"][1] for field in struct["fields"])
    assert (decimal["namespace"], decimal["name"], decimal["size"]) == (
        "hoodie.t.t_record.a.d",
        "fixed",
        16,
    )
    assert (deep["namespace"], deep["name"]) == ("hoodie.t.t_record.a", "deep")
    assert deep["fields"][0]["type"][1] == {"type": "int", "lakebed.type": "byte"}


def test_our_text_is_a_schema_to_an_avro_library():
    every = pa.schema(
        [
            pa.field("id", pa.int64(), nullable=False),
            ("b", pa.int8()),
            ("d", pa.decimal128(20, 4)),
            ("e", pa.list_(pa.decimal128(20, 4))),
            ("t", pa.timestamp("us")),
            ("m", pa.map_(pa.string(), pa.struct([("d", pa.decimal128(9, 0))]))),
        ]
    )
    parsed = fastavro.parse_schema(json.loads(with_meta_fields(arrow_to_avro(every, "t"))))
    assert parsed["name"] == "hoodie.t.t_record"


@pytest.mark.parametrize(
    ("name", "wanted"),
    [("trips", "trips"), ("my-table.v2", "my__table__v2"), ("2024", "__024"), ("表", "__")],
)
def test_table_names_are_masked_as_hudi_masks_them(name, wanted):
    assert sanitize_name(name) == wanted
    assert json.loads(arrow_to_avro(pa.schema([("c", pa.int32())]), name))["namespace"] == (
        f"hoodie.{wanted}"
    )


@pytest.mark.parametrize("name", ["a b", "a.b", "表", "1a", "", "a-b"])
def test_a_name_that_avro_cannot_hold_is_refused_with_its_path(name):
    schema = pa.schema([("s", pa.struct([(name, pa.int32())]))])
    with pytest.raises(SchemaError, match="Avro") as error:
        arrow_to_avro(schema, "t")
    assert f"s.{name}" in str(error.value)


@pytest.mark.parametrize(
    "t",
    [pa.null(), pa.uint8(), pa.float16(), pa.duration("us"), pa.time64("us"), pa.binary(3)],
    ids=str,
)
def test_a_type_that_hudi_cannot_hold_is_refused_by_name(t):
    with pytest.raises(SchemaError, match=r"'s\.element\.x'.*" + str(t).split("[")[0]):
        arrow_to_avro(pa.schema([("s", pa.list_(pa.struct([("x", t)])))]), "t")


def test_a_map_wants_string_keys():
    with pytest.raises(SchemaError, match=r"'m'.*string map keys.*int64"):
        arrow_to_avro(pa.schema([("m", pa.map_(pa.int64(), pa.int64()))]), "t")


@pytest.mark.parametrize(
    ("avro", "wanted"),
    [
        (["string", "null"], pa.string()),
        (["null", {"type": "enum", "name": "e", "symbols": ["A"]}], pa.string()),
        (["null", {"type": "fixed", "name": "f", "size": 3}], pa.binary()),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 3},
            pa.decimal128(9, 3),
        ),
        ({"type": "bytes", "logicalType": "decimal", "precision": 9}, pa.decimal128(9, 0)),
        ({"type": "long", "logicalType": "timestamp-millis"}, pa.timestamp("us", "UTC")),
        ({"type": "long", "logicalType": "local-timestamp-micros"}, pa.timestamp("us")),
        ({"type": "long", "logicalType": "time-micros"}, pa.time64("us")),
        ({"type": "int", "logicalType": "time-millis"}, pa.time64("us")),
        ({"type": "string", "logicalType": "uuid"}, pa.string()),
        ({"type": "string", "avro.java.string": "String"}, pa.string()),
        ({"type": "int", "logicalType": "not-known"}, pa.int32()),
        ({"type": {"type": "int"}}, pa.int32()),
    ],
)
def test_other_spellings_of_hudi_writers_are_read(avro, wanted):
    assert avro_to_arrow(column(avro)).field("c").type == wanted


def test_a_named_type_may_be_used_again_by_short_and_full_name():
    point = {"type": "record", "name": "P", "fields": [{"name": "x", "type": "int"}]}
    fields = [
        {"name": "a", "type": point},
        {"name": "b", "type": ["null", "P"]},
        {"name": "c", "type": "n.P"},
    ]
    schema = avro_to_arrow(
        json.dumps({"type": "record", "name": "r", "namespace": "n", "fields": fields})
    )
    assert schema.field("a").type == schema.field("b").type == schema.field("c").type
    assert [f.nullable for f in schema] == [False, True, False]


@pytest.mark.parametrize(
    "avro",
    [
        "null",
        ["null"],
        ["null", "int", "string"],
        {"type": "long", "logicalType": "timestamp-nanos"},
        {"type": "fixed", "name": "d", "size": 12, "logicalType": "duration"},
        {"type": "bytes", "logicalType": "decimal", "precision": 39, "scale": 0},
        {"type": "array", "items": ["null", "n.r"]},
        {"type": "int", "lakebed.type": "nibble"},
    ],
    ids=str,
)
def test_what_no_column_can_hold_is_unsupported_and_names_the_field(avro):
    with pytest.raises(UnsupportedError, match="'c"):
        avro_to_arrow(column(avro))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '"string"',
        "{}",
        '{"type":"record","name":"r"}',
        '{"type":"record","fields":[]}',
        '{"type":"record","name":"r","fields":[1]}',
        '{"type":"record","name":"r","fields":[{"name":7,"type":"int"}]}',
        '{"type":"record","name":"r","fields":[{"name":"c"}]}',
        '{"type":"record","name":"r","fields":[{"name":"c","type":"Unknown"}]}',
        '{"type":"record","name":"r","fields":[{"name":"c","type":"int"},{"name":"c","type":"int"}]}',
        column({"type": "bytes", "logicalType": "decimal", "precision": "9"}),
        "[" * 100_000,
        '{"type":' * 5_000,
    ],
    ids=lambda text: text[:40],
)
def test_text_that_is_no_schema_is_corrupt(text):
    with pytest.raises(CorruptError):
        avro_to_arrow(text)


def test_text_without_end_is_refused_before_it_is_parsed():
    with pytest.raises(CorruptError, match="characters"):
        avro_to_arrow(" " * (MAX_TEXT_CHARS + 1))


def test_nesting_is_bounded_both_ways():
    avro, arrow = "int", pa.int32()
    for _ in range(MAX_DEPTH + 1):
        avro, arrow = {"type": "array", "items": avro}, pa.list_(arrow)
    with pytest.raises(UnsupportedError, match="nested deeper"):
        avro_to_arrow(column(avro))
    with pytest.raises(SchemaError, match="levels of nesting"):
        arrow_to_avro(pa.schema([("c", arrow)]), "t")


def test_types_that_multiply_by_reference_are_bounded():
    fields = [{"name": "c0", "type": {"type": "record", "name": "R0", "fields": []}}]
    for i in range(1, 40):
        twice = [{"name": n, "type": f"R{i - 1}"} for n in ("x", "y")]
        fields.append(
            {"name": f"c{i}", "type": {"type": "record", "name": f"R{i}", "fields": twice}}
        )
    with pytest.raises(UnsupportedError, match="types in a schema"):
        avro_to_arrow(json.dumps({"type": "record", "name": "r", "fields": fields}))


def test_meta_fields_come_first_and_only_once():
    text = arrow_to_avro(pa.schema([("c", pa.int32())]), "t")
    once = with_meta_fields(text)
    assert avro_to_arrow(once).names == [*META_COLUMNS, "c"]
    assert with_meta_fields(once) == once
    assert '{"name":"_hoodie_commit_time","type":["null","string"],"doc":"","default":null}' in once
