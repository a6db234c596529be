"""Record keys: the texts that Apache Hudi 1.2.0 was seen to write, and what it refuses."""

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

from lakebed.errors import InvalidError, KeyValueError, SchemaError, UnsupportedError
from lakebed.format.names.record_key import KeyGenerator, key_texts, record_keys

INSTANT = dt.datetime(2024, 1, 2, 3, 4, 5, 678901, tzinfo=dt.UTC)

# The upsert column of what Hudi 1.2.0 wrote, one key column each.
WRITTEN_BY_HUDI = [
    (pa.array([7], pa.int32()), "7"),
    (pa.array([-7], pa.int64()), "-7"),
    (pa.array([7], pa.int16()), "7"),
    (pa.array([7], pa.int8()), "7"),
    (pa.array([1.5]), "1.5"),
    (pa.array([1e10]), "1.0E10"),
    (pa.array([1.5], pa.float32()), "1.5"),
    (pa.array([Decimal("12.30")], pa.decimal128(10, 2)), "12.30"),
    (pa.array([True]), "true"),
    (pa.array([dt.date(2024, 1, 2)]), "2024-01-02"),
    (pa.array([INSTANT], pa.timestamp("us", "UTC")), "1704164645678901"),
    (pa.array([INSTANT.replace(tzinfo=None)], pa.timestamp("us")), "1704164645678901"),
    (pa.array([b"x"]), "78"),
    (pa.array(["é0"]), "é0"),
]


@pytest.mark.parametrize(
    ("column", "key"), WRITTEN_BY_HUDI, ids=lambda value: str(getattr(value, "type", value))
)
def test_a_plain_key_reads_as_hudi_wrote_it(column, key):
    assert record_keys({"id": column}, ["id"], False).to_pylist() == [key]


def test_a_composite_key_names_its_fields_in_the_given_order():
    columns = {"name": pa.array(["nm2"]), "id": pa.array(["user_11"]), "x": pa.array([1])}
    assert record_keys(columns, ["id", "name"], True).to_pylist() == ["id:user_11,name:nm2"]
    assert record_keys(columns, ["name", "id"], True).to_pylist() == ["name:nm2,id:user_11"]


def test_a_complex_key_of_one_field_names_it_too():
    assert record_keys({"id": pa.array(["k0"])}, ["id"], True).to_pylist() == ["id:k0"]


def test_null_and_empty_parts_of_a_composite_key_have_placeholders():
    columns = {"a": pa.array(["", None, "c"]), "b": pa.array(["x", "y", None])}
    assert record_keys(columns, ["a", "b"], True).to_pylist() == [
        "a:__empty__,b:x",
        "a:__null__,b:y",
        "a:c,b:__null__",
    ]


def test_nothing_in_a_value_is_escaped():
    columns = {"a": pa.array(["b:c", "a\0b"]), "b": pa.array(["y,z", "\U0001f600"])}
    assert record_keys(columns, ["a", "b"], True).to_pylist() == [
        "a:b:c,b:y,z",
        "a:a\0b,b:\U0001f600",
    ]


@pytest.mark.parametrize("empty", [None, ""])
def test_a_plain_key_without_a_value_is_refused_with_field_and_row(empty):
    with pytest.raises(KeyValueError, match=rf"'id', row 2: .*found {empty!r}"):
        record_keys({"id": pa.array(["a", "b", empty])}, ["id"], False)


def test_an_empty_binary_key_is_refused():
    with pytest.raises(KeyValueError, match="row 0"):
        record_keys({"id": pa.array([b""])}, ["id"], False)


def test_a_composite_key_without_any_value_is_refused_with_its_row():
    columns = {"a": pa.array(["x", ""]), "b": pa.array([None, None], pa.string())}
    with pytest.raises(KeyValueError, match=r"'a', 'b', row 1: .*found '', None"):
        record_keys(columns, ["a", "b"], True)
    with pytest.raises(KeyValueError, match="'b', row 0"):
        record_keys(columns, ["b"], True)


def test_a_list_key_is_refused_by_its_type():
    with pytest.raises(SchemaError, match=r"'id'.*list"):
        record_keys({"id": pa.array([[1]])}, ["id"], False)


def test_a_missing_key_column_is_named():
    with pytest.raises(SchemaError, match=r"\['b'\].*\['a'\]"):
        record_keys({"a": pa.array(["x"])}, ["a", "b"], True)


def test_no_fields_or_several_for_a_plain_key_are_refused():
    with pytest.raises(InvalidError, match="at least one"):
        record_keys({"a": pa.array(["x"])}, [], True)
    with pytest.raises(InvalidError, match="one field"):
        record_keys({"a": pa.array(["x"]), "b": pa.array(["x"])}, ["a", "b"], False)


def test_no_rows_have_no_keys():
    assert record_keys({"a": pa.array([], pa.int64())}, ["a"], True).to_pylist() == []


def test_the_texts_of_the_fields_keep_null_and_empty_apart():
    texts = key_texts({"a": pa.array([1, None]), "b": pa.array(["", None])}, ["b", "a"])
    assert {name: text.to_pylist() for name, text in texts.items()} == {
        "b": ["", None],
        "a": ["1", None],
    }


@pytest.mark.parametrize(
    ("text", "generator"),
    [
        ("SIMPLE", KeyGenerator.SIMPLE),
        ("SIMPLE_AVRO", KeyGenerator.SIMPLE),
        ("COMPLEX_AVRO", KeyGenerator.COMPLEX),
        ("NON_PARTITION", KeyGenerator.NON_PARTITION),
        ("TIMESTAMP_AVRO", KeyGenerator.TIMESTAMP),
        ("org.apache.hudi.keygen.SimpleKeyGenerator", KeyGenerator.SIMPLE),
        ("org.apache.hudi.keygen.ComplexAvroKeyGenerator", KeyGenerator.COMPLEX),
        ("org.apache.hudi.keygen.NonpartitionedKeyGenerator", KeyGenerator.NON_PARTITION),
        ("org.apache.hudi.keygen.NonpartitionedAvroKeyGenerator", KeyGenerator.NON_PARTITION),
        ("org.apache.hudi.keygen.TimestampBasedKeyGenerator", KeyGenerator.TIMESTAMP),
    ],
)
def test_a_generator_is_known_by_word_and_by_class(text, generator):
    assert KeyGenerator.parse(text) is generator


@pytest.mark.parametrize("generator", KeyGenerator)
def test_word_and_class_of_a_generator_parse_back(generator):
    assert KeyGenerator.parse(generator.value) is generator
    assert KeyGenerator.parse(generator.class_name) is generator


@pytest.mark.parametrize(
    "text", ["CUSTOMISED", "GLOBAL_DELETE", "simple", "", "_AVRO", "com.example.SimpleKeyGenerator"]
)
def test_any_other_generator_is_refused_by_name(text):
    with pytest.raises(UnsupportedError, match=repr(text)):
        KeyGenerator.parse(text)


def test_which_generators_make_composite_keys():
    assert KeyGenerator.COMPLEX.is_composite(["a"])
    assert KeyGenerator.NON_PARTITION.is_composite(["a", "b"])
    assert KeyGenerator.CUSTOM.is_composite(["a", "b"])
    assert not KeyGenerator.CUSTOM.is_composite(["a"])
    assert not KeyGenerator.NON_PARTITION.is_composite(["a"])
    assert not KeyGenerator.SIMPLE.is_composite(["a"])
    with pytest.raises(InvalidError, match=r"SIMPLE.*one record key field"):
        KeyGenerator.SIMPLE.is_composite(["a", "b"])
