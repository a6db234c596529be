"""A user's own merger: what it is given, what it may give, and what is settled without it."""

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lakebed.errors import InvalidError
from lakebed.format.names.meta_columns import COMMIT_TIME, RECORD_KEY
from lakebed.merge.order import sort_positions
from lakebed.merge.passes import merge_in_passes
from lakebed.merge.rule import MergeRule
from lakebed.merge.run import BARRIER, DELETED, FLAGS, Run
from lakebed.merge.window import merge_runs
from support.sorted_rows import sort_rows

SCHEMA = pa.schema(
    [(COMMIT_TIME, pa.string()), (RECORD_KEY, pa.string()), ("n", pa.int64()), ("v", pa.string())]
)


def batch(*rows, flags=None, schema=SCHEMA) -> pa.RecordBatch:
    made = pa.RecordBatch.from_pylist(
        [dict(zip(schema.names, row, strict=True)) for row in rows], schema=schema
    )
    return made if flags is None else made.append_column(FLAGS, pa.array(flags, pa.uint8()))


def chain(older: pa.RecordBatch, newer: pa.RecordBatch) -> pa.RecordBatch:
    """Not associative: 2 * older + newer, and the texts in the order they came."""
    assert older.schema.names == ["n", "v"]
    n = pc.add(pc.multiply(older.column("n"), 2), newer.column("n"))
    v = pc.binary_join_element_wise(older.column("v"), newer.column("v"), "+")
    return pa.RecordBatch.from_arrays([n, v], schema=older.schema)


RULE = MergeRule(("n",), chain)


def merged(*runs: Run, rule=RULE, **options) -> list[tuple]:
    found = merge_runs(runs, rule, SCHEMA, **options)
    return [tuple(row.values()) for piece in found for row in piece.to_pylist()]


def runs_of(*versions: int) -> list[Run]:
    """Return a run for each version; key k is in every run, the others in one."""
    return [
        Run(f"r{n}", [batch((f"t{n}", "k", value, str(value)), (f"t{n}", f"m{n}", 1, "m"))])
        for n, value in enumerate(versions)
    ]


def test_versions_are_folded_oldest_to_newest_whatever_their_ordering():
    found = merged(*runs_of(1, 5, 3))
    assert found[0] == ("t2", "k", (1 * 2 + 5) * 2 + 3, "1+5+3")
    assert [row[1] for row in found] == ["k", "m0", "m1", "m2"]


def test_keys_with_different_numbers_of_versions_are_folded_side_by_side():
    runs = [
        Run("a", [batch(*(("t", key, 1, "a") for key in ("a", "b", "b", "b", "c", "d")))]),
        Run("b", [batch(*(("u", key, 1, "b") for key in ("b", "c", "e")))]),
    ]
    assert [(row[1], row[3]) for row in merged(*runs)] == [
        ("a", "a"),
        ("b", "a+a+a+b"),
        ("c", "a+b"),
        ("d", "a"),
        ("e", "b"),
    ]


def test_a_newer_delete_deletes_and_after_it_the_newer_row_stands_alone():
    delete = Run("d", [batch((None, "k", 0, None), (None, "m0", 0, None), flags=[1, 1])])
    runs = [*runs_of(1), delete, *runs_of(4, 6)]
    assert [row[1:] for row in merged(*runs) if row[1] == "k"] == [("k", 2 * 4 + 6, "4+6")]
    assert merged(runs[0], delete) == []
    kept = merged(runs[0], delete, keep_deletes=True)
    assert kept == [(None, "k", 0, None, DELETED), (None, "m0", 0, None, DELETED)]


def test_what_came_after_a_delete_is_kept_as_a_barrier():
    delete = Run("d", [batch((None, "k", 0, None), flags=[1])])
    again = Run("a", [batch(("t", "k", 4, "4"))])
    assert merged(delete, again, keep_deletes=True) == [("t", "k", 4, "4", BARRIER)]


def test_a_barrier_is_not_merged_with_what_is_older():
    runs = [*runs_of(1), Run("b", [batch(("t", "k", 7, "b"), flags=[BARRIER])])]
    assert merged(*runs)[0] == ("t", "k", 7, "b")


@pytest.mark.parametrize("fan_in", [2, 3, 5])
def test_passes_keep_the_order_of_a_merger_that_is_not_associative(fan_in):
    delete = Run("d", [batch((None, "k", None, None), flags=[1])])
    for runs in (runs_of(*range(9)), [*runs_of(*range(4)), delete, *runs_of(*range(5, 9))]):
        whole = merged(*runs)
        passes = merge_in_passes(
            runs, RULE, SCHEMA, lambda found: Run("p", list(found)), max_fan_in=fan_in
        )
        assert [tuple(row.values()) for b in passes for row in b.to_pylist()] == whole


def test_what_a_partial_run_lacks_is_the_older_value_for_the_merger_too():
    narrow = pa.schema([field for field in SCHEMA if field.name != "v"])
    update = Run("p", [batch(("t9", "k", 5), ("t9", "z", 5), schema=narrow)], partial=True)
    found = merged(*runs_of(1), update)
    assert found == [("t9", "k", 7, "1+1"), ("t0", "m0", 1, "m"), ("t9", "z", 5, None)]
    delete = Run("d", [batch((None, "k", None, None), flags=[1])])
    assert merged(*runs_of(1), delete, update)[0] == ("t9", "k", 5, None)


def test_sorting_rows_merges_them_and_positions_give_every_version():
    rows = batch(("t", "b", 1, "x"), ("t", "a", 1, "y"), ("t", "b", 3, "z"))
    assert sort_rows(rows, RULE).column("v").to_pylist() == ["y", "x+z"]
    assert sort_positions(rows, RULE).tolist() == [1, 0, 2]


@pytest.mark.parametrize(
    ("give", "words"),
    [
        (lambda older, _: older.slice(0, 0), "merger: expected 1 rows, found 0"),
        (lambda older, _: older.select(["n"]), "merger: expected the schema .* found n int64"),
        (lambda older, _: None, "merger: expected a RecordBatch, found NoneType"),
    ],
)
def test_a_merger_that_gives_something_else_is_refused(give, words):
    with pytest.raises(InvalidError, match=words):
        merged(*runs_of(1, 2), rule=MergeRule((), give))


def test_the_error_of_a_merger_comes_through_under_its_name():
    def fail(older: pa.RecordBatch, newer: pa.RecordBatch) -> pa.RecordBatch:
        raise ZeroDivisionError("mine")

    with pytest.raises(InvalidError, match="merger: ZeroDivisionError: mine") as caught:
        merged(*runs_of(1, 2), rule=MergeRule((), fail))
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
