"""Columns compared value by value."""

import math

import pyarrow as pa
import pytest

from lakebed.merge.equal import equal_values

POINT = pa.struct([("x", pa.float64()), ("names", pa.list_(pa.string()))])
CASES = [
    (pa.int64(), [1, 1, None, None], [1, 2, None, 1], [True, False, True, False]),
    (pa.float64(), [math.nan, math.nan, 0.0], [math.nan, 1.0, -0.0], [True, False, True]),
    (pa.binary(), [b"", b"a"], [None, b"a"], [False, True]),
    (
        pa.list_(pa.int64()),
        [[1, 2], [1, 2], [], None, [None], [1], None],
        [[1, 2], [2, 1], [], [], [None], [1, 1], None],
        [True, False, True, False, True, False, True],
    ),
    (
        pa.list_(pa.list_(pa.string())),
        [[["a"], []], [["a"], []], [[None]]],
        [[["a"], []], [["a"], ["b"]], [None]],
        [True, False, False],
    ),
    (
        POINT,
        [{"x": 1.0, "names": ["a"]}, {"x": 1.0, "names": ["a"]}, None, {"x": None, "names": None}],
        [{"x": 1.0, "names": ["a"]}, {"x": 1.0, "names": ["b"]}, None, None],
        [True, False, True, False],
    ),
    (
        pa.map_(pa.string(), POINT),
        [[("k", {"x": 1.0, "names": []})], [("k", None)], [], None],
        [[("k", {"x": 1.0, "names": []})], [("l", None)], [], []],
        [True, False, True, False],
    ),
]


@pytest.mark.parametrize(("kind", "one", "other", "wanted"), CASES, ids=[str(c[0]) for c in CASES])
@pytest.mark.parametrize("skipped", [0, 1])
def test_two_columns_are_equal_row_by_row(
    kind: pa.DataType, one: list, other: list, wanted: list[bool], skipped: int
):
    left, right = pa.array(one, kind), pa.array(other, kind)
    found = equal_values(left.slice(skipped), right.slice(skipped))
    assert found.to_pylist() == wanted[skipped:]
    assert equal_values(right, left).to_pylist() == wanted
    assert equal_values(left, left).to_pylist() == [True] * len(left)


def test_columns_without_rows_are_equal():
    for kind, *_ in CASES:
        assert len(equal_values(pa.array([], kind), pa.array([], kind))) == 0
