"""Partition paths: the strings of Apache Hudi 1.2.0, and folders that no store could hold."""

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

from lakebed.errors import CorruptError, InvalidError, KeyValueError, SchemaError
from lakebed.format.names.partition_path import (
    DEFAULT_PARTITION,
    PartitionStyle,
    PartKind,
    escape_path_name,
    parse_part_kinds,
    parse_partition_path,
    partition_paths,
    unescape_path_name,
)

PLAIN = PartitionStyle()
HIVE = PartitionStyle(hive_style=True)
ENCODED = PartitionStyle(url_encode=True)
HIVE_ENCODED = PartitionStyle(hive_style=True, url_encode=True)


def paths(values, style=PLAIN, kind=None):
    return partition_paths({"dt": pa.array(values, kind)}, ["dt"], style).to_pylist()


def test_a_partition_value_is_the_folder():
    assert paths(["2024-01-01", "b", "2024-01-01"]) == ["2024-01-01", "b", "2024-01-01"]


def test_hive_style_names_the_field():
    assert paths(["a"], HIVE) == ["dt=a"]


@pytest.mark.parametrize("style", [PLAIN, HIVE, ENCODED, HIVE_ENCODED])
def test_null_and_empty_share_the_default_folder(style):
    prefix = "dt=" if style.hive_style else ""
    assert paths([None, "", "x"], style) == [
        prefix + DEFAULT_PARTITION,
        prefix + DEFAULT_PARTITION,
        prefix + "x",
    ]


def test_several_fields_are_levels_in_order():
    columns = {"day": pa.array([1, None]), "region": pa.array(["eu", "us"])}
    assert partition_paths(columns, ["region", "day"], HIVE).to_pylist() == [
        "region=eu/day=1",
        f"region=us/day={DEFAULT_PARTITION}",
    ]


def test_no_fields_mean_the_table_folder():
    assert partition_paths({"a": pa.array([1, 2])}, [], PLAIN).to_pylist() == ["", ""]
    assert partition_paths({}, [], PLAIN, 3).to_pylist() == ["", "", ""]
    with pytest.raises(InvalidError, match="number of rows"):
        partition_paths({}, [], PLAIN)


# Printed by Hudi 1.2.0's KeyGenUtils.getPartitionPath on Avro values.
@pytest.mark.parametrize(
    ("column", "text"),
    [
        (pa.array([-7]), "-7"),
        (pa.array([1e10]), "1.0E10"),
        (pa.array([True]), "true"),
        (pa.array([dt.date(2024, 1, 2)]), "2024-01-02"),
        (pa.array([1704164645678901], pa.timestamp("us", "UTC")), "1704164645678901"),
        (pa.array([1704164645678901], pa.timestamp("us")), "1704164645678901"),
        (pa.array([b"x\xff\0"]), "78ff00"),
        (pa.array([Decimal("0.0000001")], pa.decimal128(10, 7)), "1E-7"),
        (pa.array([b""]), DEFAULT_PARTITION),
    ],
    ids=lambda value: str(getattr(value, "type", value)),
)
def test_every_type_is_spelled_as_hudi_spells_it(column, text):
    assert partition_paths({"a": column}, ["a"], HIVE).to_pylist() == [f"a={text}"]


def test_encoding_touches_exactly_what_hudi_encodes():
    value = "a/b:c d%=\x01}{~^|<>&;\0é\"#'*?[\\]\x7f"
    want = "a%2Fb%3Ac d%25%3D%01}%7B~%5E|<>&;%00é%22%23%27%2A%3F%5B%5C%5D%7F"
    assert paths([value], HIVE_ENCODED) == [f"dt={want}"]
    escaped = {code for code in range(256) if escape_path_name(chr(code)) != chr(code)}
    assert escaped == {*range(0x20), *map(ord, "\"#%'*/:=?[\\]^{"), 0x7F}


def test_the_encoded_folder_of_a_real_table_is_met():
    assert paths(["p q=%é"], HIVE_ENCODED) == ["dt=p q%3D%25é"]


@pytest.mark.parametrize(
    ("escaped", "text"),
    [
        ("%41", "A"),
        ("%4", "%4"),
        ("%zz", "%zz"),
        ("a%2fb%", "a/b%"),
        ("%00", "\0"),
        ("%C3%A9", "Ã©"),
        ("a%41%", "aA%"),
    ],
)
def test_unescaping_gives_what_hudi_gives(escaped, text):
    assert unescape_path_name(escaped) == text


@pytest.mark.parametrize(
    ("value", "want"),
    [
        ("2024/01", "'/'"),
        (".", "other than '.'"),
        ("..", "other than '..'"),
        ("a\0b", "control"),
        ("a\nb", "control"),
        ("a\x7f", "control"),
        ("10:30", "':'"),
        (".hoodie", "'.hoodie'"),
        (".HOODIE", "'.hoodie'"),
        (".hoodie_partition_metadata", "'.hoodie'"),
        ("é" * 5_000, "255 bytes, found 10000"),
    ],
)
def test_a_value_that_makes_no_folder_is_refused_with_field_and_value(value, want):
    with pytest.raises(KeyValueError, match=f"'dt', value .*{want}") as caught:
        paths(["fine", value])
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("value", ["2024/01", "a\0b", "a\nb", "10:30"])
def test_encoding_makes_a_folder_of_it(value):
    (path,) = paths([value], ENCODED)
    assert parse_partition_path(path, ["dt"], ENCODED) == [value]


@pytest.mark.parametrize("value", [".", "..", ".hoodie", "x" * 256, "%" * 86])
def test_encoding_does_not_help_these(value):
    with pytest.raises(KeyValueError, match="'dt'"):
        paths([value], ENCODED)


def test_a_folder_name_may_have_255_bytes_with_its_prefix():
    assert paths(["x" * 252], HIVE) == ["dt=" + "x" * 252]
    with pytest.raises(KeyValueError, match="found 256"):
        paths(["x" * 253], HIVE)


def test_a_prefix_saves_dots_and_hoodie():
    assert paths([".", "..", ".hoodie"], HIVE) == ["dt=.", "dt=..", "dt=.hoodie"]


def test_a_colon_is_fine_below_the_first_folder():
    columns = {"a": pa.array(["x"]), "t": pa.array(["10:30"])}
    assert partition_paths(columns, ["a", "t"], PLAIN).to_pylist() == ["x/10:30"]


def test_a_missing_partition_column_is_named():
    with pytest.raises(SchemaError, match=r"\['day'\]"):
        partition_paths({"a": pa.array([1])}, ["day"], PLAIN)


def test_a_path_parses_back_into_values():
    assert parse_partition_path("a=1/b=x y", ["a", "b"], HIVE) == ["1", "x y"]
    assert parse_partition_path(f"{DEFAULT_PARTITION}/x", ["a", "b"], PLAIN) == [None, "x"]
    assert parse_partition_path("", [], PLAIN) == []


def test_a_single_field_owns_the_slashes_of_an_unencoded_path():
    assert parse_partition_path("2024/01", ["dt"], PLAIN) == ["2024/01"]


@pytest.mark.parametrize(
    ("path", "fields", "style", "found"),
    [
        ("2024/01/1", ["a", "b"], PLAIN, "found 3"),
        ("a", ["a", "b"], PLAIN, "found 1"),
        ("b=1", ["a"], HIVE, "'a='"),
        ("x", [], PLAIN, "without partitions"),
        ("", ["a"], PLAIN, "'a', found none"),
    ],
)
def test_a_path_that_does_not_fit_the_fields_is_corrupt(path, fields, style, found):
    with pytest.raises(CorruptError, match=found):
        parse_partition_path(path, fields, style)


def test_the_parts_of_a_custom_generator_are_known_in_any_case_or_not_at_all():
    kinds = {"a": PartKind.SIMPLE, "b": PartKind.TIMESTAMP}
    assert parse_part_kinds("a:simple, b:Timestamp") == kinds
    assert parse_part_kinds("") == {}
    assert parse_part_kinds("a") is None
    assert parse_part_kinds("a:simple,b:moon") is None
