"""Columns as a DDL string."""

import pyarrow as pa
import pytest

from lakebed.errors import SchemaError
from lakebed.table.config.ddl import parse_ddl, type_text


def test_every_type_of_a_table_is_spelled_and_read_back():
    schema = pa.schema(
        [
            ("a", pa.bool_()),
            ("b", pa.int8()),
            ("c", pa.int16()),
            ("d", pa.int32()),
            ("e", pa.int64()),
            ("f", pa.float32()),
            ("g", pa.float64()),
            ("h", pa.decimal128(12, 2)),
            ("i", pa.string()),
            ("j", pa.binary()),
            ("k", pa.date32()),
            ("l", pa.timestamp("us", "UTC")),
            ("m", pa.timestamp("us")),
            ("n", pa.list_(pa.field("element", pa.struct([("x y", pa.int32())])))),
            ("o", pa.map_(pa.string(), pa.list_(pa.field("element", pa.float64())))),
        ]
    )
    text = ", ".join(f"{field.name} {type_text(field.type)}" for field in schema)
    assert parse_ddl(text.replace("x y", "`x y`")) == schema


def test_names_nullability_comments_and_case_are_read_as_spark_reads_them():
    found = parse_ddl("`a``b` Int NOT NULL COMMENT 'it''s', c: STRUCT<d: STRING NOT NULL, e INT>")
    assert found.names == ["a`b", "c"]
    assert not found.field(0).nullable
    assert not found.field(1).type.field("d").nullable
    assert parse_ddl("v DEC, w NUMERIC(5), x VARCHAR(10)").types == [
        pa.decimal128(10, 0),
        pa.decimal128(5, 0),
        pa.string(),
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "found no columns"),
        ("id", "expected a type at character 3, found the end"),
        ("id BIGNIT", "expected a type such as BIGINT.*at character 4, found 'bignit'"),
        ("id BIGINT v INT", "expected a comma at character 11, found 'v'"),
        ("id BIGINT,", "expected a column name at character 11, found the end"),
        ("id DECIMAL(40,2)", r"DECIMAL\(40,2\) at character 4: expected 1 to 38 digits"),
        ("id ARRAY<INT", "expected '>' at character 13, found the end"),
        ("id INT; DROP", "expected a name, a type or a comma at character 7, found ';'"),
        ("id INT NOT v", "expected NULL"),
    ],
)
def test_a_mistake_is_named_with_its_place(text: str, words: str):
    with pytest.raises(SchemaError, match=words):
        parse_ddl(text)
