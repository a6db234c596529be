"""Row groups that statistics rule out, and those that they must not."""

import datetime as dt
import decimal
import math

import pyarrow as pa
import pytest

from lakebed.errors import CorruptError
from lakebed.expr.predicate import Predicate
from lakebed.storage.objects import memory_storage
from lakebed.table.read.parquet_source import open_parquet
from lakebed.table.read.row_group_filter import RowGroupFilter
from lakebed.table.read.slice_reader import read_slice
from support.runs import Slice, config, parquet, with_meta

UTC = pa.timestamp("us", "UTC")
NAN = math.nan
DAYS = [dt.date(2024, 1, day) for day in range(1, 9)]
TIMES = [dt.datetime(2024, 1, day) for day in range(1, 9)]
DECIMALS = [decimal.Decimal(text) for text in ("-5.0", "-1.0", "0.0", "3.1", "4.0", "9.9")]
NARROW = pa.decimal128(5, 1)
INTS = [1, 2, 3, None, None, None, 7, 8]
FLOATS = [1.0, NAN, NAN, NAN, -0.0, 0.0, 7.0, 8.0]
TEXTS = ["a", "b", "é", "z", "\U0001f600", "\U0001f601"]


def filter_of(where, schema):
    return RowGroupFilter(Predicate.parse(where, schema).bound, schema)


def left(array, kind, where, names="x", **options):
    """Return the row groups of two rows each that `where` leaves of one column."""
    storage = memory_storage()
    columns = {names: array, "id": pa.array(range(len(array)))}
    storage.put("f", parquet(pa.table(columns), row_group_rows=2, **options))
    schema = pa.schema([("x", kind), ("y", pa.int32()), ("id", pa.int64())])
    with open_parquet(storage, "f", "file") as file:
        found = filter_of(where, schema).row_groups(file)
        return "any" if found in (None, list(range(file.num_row_groups))) else found


@pytest.mark.parametrize(
    ("where", "groups"),
    [
        ("x > 5", [3]),
        ("5 < x", [3]),
        ("x < 2", [0]),
        ("x <= 2", [0]),
        ("x = 3", [1]),
        ("x = 4", []),
        ("x <=> 3", [1]),
        ("x <=> NULL", [1, 2]),
        ("NOT (x <=> NULL)", [0, 1, 3]),
        ("x IS NULL", [1, 2]),
        ("x IS NOT NULL", [0, 1, 3]),
        ("NOT (x IS NULL)", [0, 1, 3]),
        ("NOT (x > 5)", [0, 1]),
        ("NOT (x <= 5)", [3]),
        ("NOT (x <> 3)", [1]),
        ("x <> 3", "any"),
        ("x IN (1, 8)", [0, 3]),
        ("x IN (1, NULL)", [0]),
        ("x IN (NULL)", []),
        ("x NOT IN (1, 2)", "any"),
        ("x BETWEEN 3 AND 6", [1]),
        ("x NOT BETWEEN 2 AND 7", [0, 3]),
        ("x = 1 OR x = 8", [0, 3]),
        ("x = 1 OR x + 1 = 9", "any"),
        ("x = 1 AND x + 1 = 9", [0]),
        ("NOT (x > 1 AND x + 1 = 9)", "any"),
        ("NOT (x > 1 OR x + 1 = 9)", [0]),
        ("(x > 5) IS TRUE", [3]),
        ("(x > 5) IS FALSE", [0, 1]),
        ("(x > 5) IS NOT TRUE", "any"),
        ("x > 5.5", [3]),
        ("x > 5.0", [3]),
        ("x > 5e0", "any"),
        ("x > '5'", [3]),
        ("x > 99999999999", []),
        ("y IS NULL", "any"),
        ("y IS NOT NULL", []),
        ("y = 1", []),
        ("NOT (y = 1)", []),
        ("y = 1 OR x = 1", [0]),
        ("x = y", "any"),
        ("1 = 1", "any"),
    ],
)
def test_statistics_of_whole_numbers_rule_out_row_groups(where, groups):
    assert left(pa.array(INTS, pa.int64()), pa.int64(), where) == groups


@pytest.mark.parametrize("stored", [pa.int8(), pa.int32(), pa.uint8(), pa.uint32(), pa.uint64()])
def test_a_file_of_another_width_is_compared_in_its_own_type(stored):
    array = pa.array([1, 2, 3, 4, 100, 127], stored)
    assert left(array, pa.int64(), "x >= 4") == [1, 2]
    assert left(array, pa.int64(), "x < 3") == [0]
    assert left(array, pa.int64(), "X < 3", names="X") == [0]


def test_a_value_that_the_narrower_type_cannot_hold_is_compared_all_the_same():
    assert left(pa.array([1, 2], pa.int8()), pa.int64(), "x > 128") == []
    assert left(pa.array([1, 2], pa.int8()), pa.int64(), "x < 128") == "any"


def test_bounds_hold_beside_nulls():
    array = pa.array([1, 5, None, 6, 9, None], pa.int64())
    reals = pa.array([1.0, 5.0, None, 6.0, 9.0, None])
    assert left(array, pa.int64(), "x > 5") == [1, 2]
    assert left(array, pa.int64(), "x < 6") == [0]
    assert left(reals, pa.float64(), "x < 6") == [0]


def test_large_unsigned_numbers_are_not_negative_ones():
    array = pa.array([1, 2, 2**31, 2**32 - 1], pa.uint32())
    assert left(array, pa.int64(), f"x > {2**31}") == [1]
    assert left(array, pa.int64(), "x <= 1") == [0]
    assert left(array, pa.int64(), "x < 0") == []
    assert left(array, pa.int64(), "x < -1") == []


@pytest.mark.parametrize(
    ("where", "groups"),
    [
        ("x > 5", "any"),
        ("x >= 5", "any"),
        ("NOT (x < 5)", "any"),
        ("x < 1.5", [0, 1, 2]),
        ("NOT (x >= 1)", [1, 2]),
        ("x = 0", [1, 2]),
        ("x = -0.0", [1, 2]),
        ("x IN (7, 8.5)", [1, 3]),
        ("x = CAST('nan' AS DOUBLE)", "any"),
        ("x < CAST('nan' AS DOUBLE)", "any"),
        ("x < '0.5'", [1, 2]),
    ],
)
@pytest.mark.parametrize("stored", [pa.float64(), pa.float32()])
def test_nan_which_no_statistics_show_is_greater_than_all(stored, where, groups):
    assert left(pa.array(FLOATS, stored), pa.float64(), where) == groups


def test_a_double_that_is_no_float_is_compared_as_it_is():
    array = pa.array([1.0, 2.0], pa.float32())
    assert left(array, pa.float32(), "x < 0.1") == left(array, pa.float32(), "x < 0.5") == []
    near = pa.array([0.1, 5.0], pa.float32())  # a little more than 0.1
    assert left(near, pa.float32(), "x <= 0.1") == left(near, pa.float32(), "x = 0.1") == []
    assert left(near, pa.float32(), "x < 0.11") == "any"


@pytest.mark.parametrize("options", [{}, {"store_decimal_as_integer": True}])
@pytest.mark.parametrize("kind", [NARROW, pa.decimal128(20, 4)])
def test_decimals_are_compared_by_value(kind, options):
    array = pa.array(DECIMALS, NARROW)
    assert left(array, kind, "x < -3", **options) == [0]
    assert left(array, kind, "x = 3.1", **options) == [1]
    assert left(array, kind, "x > 4.00", **options) == [2]
    assert left(array, kind, "x > 4.05", **options) == [2]
    assert left(array, kind, "x > 4e0", **options) == "any"
    assert left(array, kind, "x > '4'", **options) == "any"


def test_whole_numbers_that_became_decimals_are_compared_by_value():
    array = pa.array([1, 2, 3, 4], pa.int32())
    assert left(array, pa.decimal128(12, 2), "x > 2.00") == [1]
    assert left(array, pa.decimal128(12, 2), "x > 2.50") == [1]


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC"])
@pytest.mark.parametrize("kind", [UTC, pa.timestamp("us")])
def test_timestamps_of_every_unit_are_compared_as_moments(unit, zone, kind):
    array = pa.array(TIMES, pa.timestamp(unit, zone))
    assert left(array, kind, "x >= '2024-01-07'") == [3]
    assert left(array, kind, "x < DATE '2024-01-03'") == [0]
    assert left(array, kind, "x = TIMESTAMP '2024-01-03 00:00:00'") == [1]


def test_a_moment_between_two_milliseconds_is_compared_as_it_is():
    array = pa.array(TIMES, pa.timestamp("ms", "UTC"))
    assert left(array, UTC, "x > '2024-01-07 00:00:00.0005'") == [3]
    assert left(pa.array(TIMES, UTC), UTC, "x > '2024-01-07 00:00:00.0005'") == [3]


def test_a_moment_beyond_nanoseconds_is_no_error():
    for options in ({}, {"use_deprecated_int96_timestamps": True}):
        array = pa.array(TIMES, pa.timestamp("ns", "UTC"))
        assert left(array, UTC, "x < '9999-12-31'", **options) == "any"


def test_old_timestamps_without_statistics_are_all_read():
    array = pa.array(TIMES, pa.timestamp("ns"))
    found = left(array, UTC, "x >= '2024-01-07'", use_deprecated_int96_timestamps=True)
    assert found == "any"


def test_dates_texts_and_truths_have_statistics_too():
    assert left(pa.array(DAYS), pa.date32(), "x = '2024-01-03'") == [1]
    assert left(pa.array(DAYS), pa.date32(), "x < TIMESTAMP '2024-01-03 00:00:00'") == [0]
    assert left(pa.array(DAYS), pa.date32(), "x < TIMESTAMP '2024-01-03 00:00:01'") == "any"
    assert left(pa.array(TEXTS), pa.string(), "x > 'z'") == [1, 2]
    assert left(pa.array(TEXTS, pa.large_string()), pa.string(), "x <= 'é'") == [0, 1]
    truths = pa.array([False, False, True, None, True, True])
    assert left(truths, pa.bool_(), "x") == [1, 2]
    assert left(truths, pa.bool_(), "NOT x") == [0]
    assert left(truths, pa.bool_(), "x = false") == [0]


@pytest.mark.parametrize(
    "array",
    [
        pa.array(TEXTS).dictionary_encode(),
        pa.array([text.encode() for text in TEXTS]),
        pa.array(range(6), pa.int32()),
    ],
)
def test_other_kinds_that_are_read_as_text_rule_nothing_out(array):
    assert left(array, pa.string(), "x > 'z'") == "any"


def test_a_file_without_statistics_is_read_as_a_whole():
    array = pa.array(INTS, pa.int64())
    assert left(array, pa.int64(), "x > 5", write_statistics=False) == "any"
    assert left(array, pa.int64(), "x IS NULL", write_statistics=["id"]) == "any"


def test_long_lists_and_long_conditions_are_taken():
    array = pa.array(INTS, pa.int64())
    many = ", ".join(map(str, range(7, 2000)))
    assert left(array, pa.int64(), f"x IN ({many})") == [3]

    def repeated(leaf, word):
        row = word.join([leaf] * 20)
        return word.join([f"({row})"] * 20)

    assert left(array, pa.int64(), repeated("x > 5", " AND ")) == [3]
    assert left(array, pa.int64(), repeated("x = 1", " OR ")) == [0]


def test_two_columns_of_one_name_rule_nothing_out():
    table = pa.Table.from_arrays([pa.array([1]), pa.array([9])], names=["x", "x"])
    storage = memory_storage()
    storage.put("f", parquet(table))
    schema = pa.schema([("x", pa.int64())])
    with open_parquet(storage, "f", "file") as file:
        assert filter_of("x > 5", schema).row_groups(file) == [0]


def test_bounds_wider_than_the_values_lose_no_row():
    data = parquet(pa.table({"x": ["mmmmmmmm", "nnnnnnnn"]}), use_dictionary=False)
    footer = data.rindex(b"nnnnnnnn", 0, data.rindex(b"nnnnnnnn"))
    # Where a writer cuts long texts short, the lower bound is less and the upper one greater.
    wider = data[footer:].replace(b"mmmmmmmm", b"mm!!!!!!").replace(b"nnnnnnnn", b"no~~~~~~")
    storage = memory_storage()
    storage.put("f", data[:footer] + wider)
    schema = pa.schema([("x", pa.string())])
    with open_parquet(storage, "f", "file") as file:
        assert file.schema.names == ["x"]

        def groups(where):
            return filter_of(where, schema).row_groups(file)

        assert groups("x = 'nnnnnnnn'") == groups("x < 'mmmm'") == groups("x > 'no'") == [0]
        assert groups("x > 'np'") == groups("x < 'm'") == []


def test_only_the_row_groups_that_are_left_are_read():
    slice_ = Slice(memory_storage())
    rows = [{"id": f"{n:03d}", "v": n, "ts": 0} for n in range(100)]
    slice_.base(1, parquet(with_meta(rows), row_group_rows=10))
    schema = pa.schema([("id", pa.string()), ("v", pa.int64()), ("ts", pa.int64())])

    def read(where):
        chosen = None if where is None else filter_of(where, schema)
        return sum(
            batch.num_rows
            for batch in read_slice(
                slice_.view(config(), schema), slice_.value, ["id", "v"], row_groups=chosen
            )
        )

    assert read(None) == 100
    assert read("v BETWEEN 25 AND 31") == 20
    assert read("v > 1000") == 0


def test_a_broken_footer_is_named():
    storage = memory_storage()
    data = parquet(pa.table({"x": [1, 2]}))
    storage.put("f", data)
    with open_parquet(storage, "f", "file") as file:
        footer = file.footer
    storage.put("f", data[:-40] + b"\xff" * 32 + data[-8:])
    rows = filter_of("x > 5", pa.schema([("x", pa.int64())]))
    with (
        open_parquet(storage, "f", "file", footer=footer) as broken,
        pytest.raises(CorruptError, match="file"),
    ):
        rows.row_groups(broken)
