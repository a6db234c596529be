"""Merging and sorting of runs, against the plainest thing that could be right."""

import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakebed.errors import CorruptError
from lakebed.format.meta_columns import RECORD_KEY
from lakebed.merge.order import MergeRule, sort_positions, sort_rows
from lakebed.merge.window import Run, merge_runs

Row = tuple[str, int | None, float | None, int]
SCHEMA = pa.schema(
    [
        pa.field(RECORD_KEY, pa.string()),
        pa.field("ts", pa.int64()),
        pa.field("price", pa.float64()),
        pa.field("serial", pa.int64()),
    ]
)
KEYS = st.one_of(
    st.sampled_from(["a", "b", "ab", "é", "ﬀ", "\U0001f600", "￿", "z"]),
    st.text(
        st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=4
    ),
)
RULES = st.sampled_from(
    [MergeRule(), MergeRule(("ts",)), MergeRule(("ts", "price")), MergeRule(("price",))]
)
PRICES = st.none() | st.sampled_from([0.0, 1.5, -2.0, float("inf"), float("-inf"), float("nan")])
ROWS = st.tuples(KEYS, st.none() | st.integers(-2, 2), PRICES)


def number(rows: list[tuple[str, int | None, float | None]]) -> list[Row]:
    return [(*row, serial) for serial, row in enumerate(rows)]


def to_batch(rows: list[Row]) -> pa.RecordBatch:
    columns = [list(column) for column in zip(*rows, strict=True)] if rows else [[]] * 4
    return pa.RecordBatch.from_arrays(
        [pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
    )


def rank(value: float | None) -> tuple[int, float]:
    """Order as Java does: null first, NaN above everything."""
    if value is None:
        return (0, 0.0)
    return (2, 0.0) if value != value else (1, float(value))


def reference(rows: list[Row], rule: MergeRule) -> list[int]:
    """Give the serial numbers that survive, by ascending key bytes."""
    kept: dict[str, Row] = {}
    for row in rows:
        held = kept.get(row[0])
        fields = [SCHEMA.names.index(field) for field in rule.ordering_fields]
        if held is None or [rank(row[f]) for f in fields] >= [rank(held[f]) for f in fields]:
            kept[row[0]] = row
    return [kept[key][3] for key in sorted(kept, key=str.encode)]


def serials(batches: Any) -> list[int]:
    return [serial for b in batches for serial in b.column("serial").to_pylist()]


@settings(deadline=None)
@given(st.lists(ROWS, max_size=40), RULES)
def test_sorting_rows_keeps_one_version_of_each_key_in_byte_order(rows, rule):
    numbered = number(rows)
    assert serials([sort_rows(to_batch(numbered), rule)]) == reference(numbered, rule)


@settings(deadline=None)
@given(st.lists(ROWS, min_size=1, max_size=40), RULES, st.data())
def test_sorting_a_subset_looks_at_no_other_row(rows, rule, data):
    numbered = number(rows)
    chosen = sorted(data.draw(st.sets(st.sampled_from(range(len(rows))), min_size=1)))
    subset = np.array(chosen, np.int64)
    found = sort_positions(to_batch(numbered), rule, subset)
    assert found.tolist() == reference([numbered[i] for i in chosen], rule)


@settings(deadline=None)
@given(st.lists(st.lists(ROWS, max_size=15), max_size=6), RULES, st.data())
def test_merging_runs_gives_what_sorting_everything_gives(lists, rule, data):
    everything: list[Row] = []
    runs = []
    for index, rows in enumerate(lists):
        start = len(everything)
        numbered = [(*row[:3], start + i) for i, row in enumerate(rows)]
        everything += numbered
        by_serial = {row[3]: row for row in numbered}
        ordered = [by_serial[serial] for serial in reference(numbered, rule)]
        cuts = data.draw(st.lists(st.integers(0, len(ordered)), max_size=4).map(sorted))
        bounds = [0, *cuts, len(ordered)]
        # Some pieces are empty on purpose.
        pieces = [to_batch(ordered[a:b]) for a, b in itertools.pairwise(bounds)]
        runs.append(Run(f"run {index}", pieces))
    merged = list(merge_runs(runs, rule))
    assert serials(merged) == reference(everything, rule)
    assert all(piece.num_rows for piece in merged)


@settings(deadline=None)
@given(st.lists(st.integers(0, 30), min_size=1, max_size=60), st.integers(1, 7))
def test_one_run_comes_through_in_its_own_batches(numbers, size):
    keys = sorted({f"{n:03d}" for n in numbers})
    rows = [(key, 0, 0.0, i) for i, key in enumerate(keys)]
    pieces = [to_batch(rows[i : i + size]) for i in range(0, len(rows), size)]
    merged = list(merge_runs([Run("r", pieces)], MergeRule()))
    assert [piece.num_rows for piece in merged] == [piece.num_rows for piece in pieces]
    assert serials(merged) == list(range(len(rows)))


@pytest.mark.parametrize("values", [[float("nan"), 1.0, None], [None, 1.0, float("nan")]])
def test_as_in_java_nan_is_the_greatest_ordering_value_and_null_the_least(values):
    rows = [("k", 0, value, i) for i, value in enumerate(values)]
    kept = sort_rows(to_batch(rows), MergeRule(("price",)))
    assert str(kept.column("price")[0].as_py()) == "nan"
    rest = [row for row in rows if row[2] is None or row[2] == 1.0]
    assert sort_rows(to_batch(rest), MergeRule(("price",))).column("price").to_pylist() == [1.0]


def test_no_runs_and_empty_runs_give_nothing():
    assert list(merge_runs([], MergeRule())) == []
    assert list(merge_runs([Run("r", []), Run("s", [to_batch([])])], MergeRule())) == []


@pytest.mark.parametrize("second", ["a", "b"])
def test_a_run_that_goes_back_is_named(second):
    rows = [("b", 1, 0.0, 0), (second, 1, 0.0, 1)]
    runs = [Run("p/file.parquet", [to_batch(rows[:1]), to_batch(rows[1:])])]
    with pytest.raises(CorruptError, match=r"p/file\.parquet: key .* comes after"):
        list(merge_runs(runs, MergeRule()))


def test_a_merge_reads_one_batch_of_a_run_ahead_and_no_more():
    taken = []

    def source(name: str, count: int):
        for i in range(count):
            taken.append(name)
            yield to_batch([(f"{i:03d}{name}", 1, 0.0, i)])

    merged = merge_runs([Run("x", source("x", 50)), Run("y", source("y", 50))], MergeRule())
    for _ in range(3):
        next(merged)
    assert len(taken) <= 6
