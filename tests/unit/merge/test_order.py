"""Which version of a key survives, case by case."""

import datetime as dt
import decimal

import pyarrow as pa
import pytest

from lakebed.format.names.meta_columns import RECORD_KEY
from lakebed.merge.order import MergeRule
from support.sorted_rows import sort_rows


def rows(keys, **columns) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({RECORD_KEY: keys, **columns})


def test_without_ordering_the_last_arrival_wins():
    found = sort_rows(rows(["b", "a", "b"], v=[1, 2, 3]), MergeRule())
    assert found.to_pydict() == {RECORD_KEY: ["a", "b"], "v": [2, 3]}


def test_with_ordering_the_greatest_wins_and_on_a_tie_the_last():
    found = sort_rows(rows(["a"] * 4, ts=[1, 7, 7, 3], v=[1, 2, 3, 4]), MergeRule(("ts",)))
    assert found.column("v").to_pylist() == [3]


def test_several_ordering_fields_count_in_order():
    given = rows(["a"] * 3, x=[1, 2, 2], y=[9, 1, 0], v=[1, 2, 3])
    assert sort_rows(given, MergeRule(("x", "y"))).column("v").to_pylist() == [2]
    assert sort_rows(given, MergeRule(("y", "x"))).column("v").to_pylist() == [1]


@pytest.mark.parametrize(
    "values",
    [
        ["1", "10", "9"],
        [b"\x01", b"\x01\x00", b"\xff"],
        [False, False, True],
        [dt.date(2023, 1, 1), dt.date(2023, 1, 2), dt.date(2024, 1, 1)],
        [dt.datetime(2023, 1, 1), dt.datetime(2023, 1, 2), dt.datetime(2024, 1, 1)],
        [decimal.Decimal("-1.0"), decimal.Decimal("0.5"), decimal.Decimal("10.0")],
        [-1.5, 0.0, float("inf")],
        [1.0, float("inf"), float("nan")],
        [None, 1, 2],
        [None, float("-inf"), float("nan")],
    ],
)
def test_ordering_values_of_every_type_are_compared(values):
    for turn in range(3):
        turned = values[turn:] + values[:turn]
        found = sort_rows(rows(["k"] * 3, ts=turned), MergeRule(("ts",)))
        assert repr(found.column("ts").to_pylist()) == repr(values[-1:])


def test_keys_are_ordered_by_their_bytes():
    keys = ["\U0001f600", "￿", "z", "é", "Z", "10", "9", "a", "aa"]
    found = sort_rows(rows(keys), MergeRule()).column(0).to_pylist()
    assert found == sorted(keys, key=str.encode)


@pytest.mark.parametrize("count", [0, 1])
def test_few_rows_are_left_alone(count):
    given = rows(pa.array(["k"][:count], pa.string()), ts=pa.array([1][:count], pa.int64()))
    assert sort_rows(given, MergeRule(("ts",))) == given
