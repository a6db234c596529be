"""Values of the newer row that give way to the older ones."""

import pyarrow as pa
import pytest

from lakebed.errors import UnsupportedError
from lakebed.format.compiled import kernels
from lakebed.format.names.meta_columns import COMMIT_TIME, RECORD_KEY
from lakebed.merge.order import sort_positions
from lakebed.merge.passes import merge_in_passes
from lakebed.merge.rule import Fill, MergeRule
from lakebed.merge.run import COMMIT_TIME_DELETE, DELETED, FLAGS, Run
from lakebed.merge.window import merge_runs
from support.sorted_rows import sort_rows

SCHEMA = pa.schema(
    [(RECORD_KEY, pa.string()), ("ts", pa.int64()), ("a", pa.string()), ("b", pa.binary())]
)
NULLS = MergeRule(fill=Fill())
LATE = MergeRule(("ts",), fill=Fill())
MARKED = MergeRule(("ts",), fill=Fill("?"))


@pytest.fixture(autouse=True, params=[False, True], ids=["twin", "kernel"])
def engine(request):
    """Run every test compiled and in plain Python."""
    with kernels(request.param):
        yield


def batch(*rows, flags=None) -> pa.RecordBatch:
    made = pa.RecordBatch.from_pylist(
        [dict(zip(SCHEMA.names, row, strict=True)) for row in rows], schema=SCHEMA
    )
    return made if flags is None else made.append_column(FLAGS, pa.array(flags, pa.uint8()))


def run(*rows, flags=None, **how) -> Run:
    return Run("a run", [batch(*rows, flags=flags)], **how)


def merged(*runs: Run, rule: MergeRule) -> list[tuple]:
    found = merge_runs(runs, rule, SCHEMA)
    return [tuple(row.values()) for piece in found for row in piece.to_pylist()]


def test_a_null_of_the_newer_row_keeps_the_older_value():
    runs = [run(("k", 5, "old", b"old")), run(("k", 1, None, b"new")), run(("k", 2, None, None))]
    assert merged(*runs, rule=NULLS) == [("k", 2, "old", b"new")]


def test_a_late_row_fills_what_the_winner_has_as_null():
    runs = [run(("k", 5, None, b"w")), run(("k", 1, "late", b"late"))]
    assert merged(*runs, rule=LATE) == [("k", 5, "late", b"w")]


def test_rows_fill_in_the_order_in_which_they_come_and_not_by_their_time():
    came = [("k", 5, None, b"w"), ("k", 1, "first", None), ("k", 3, "second", None)]
    assert merged(*(run(row) for row in came), rule=LATE) == [("k", 5, "first", b"w")]


def test_passes_do_not_change_which_row_fills():
    came = [("k", 5, None, b"w"), ("k", 1, "first", None), ("k", 3, "second", None)]
    runs = [run(row) for row in came]

    def spill(batches) -> Run:
        return Run("a pass", list(batches))

    found = merge_in_passes(runs, LATE, SCHEMA, spill, max_fan_in=2)
    assert [row["a"] for piece in found for row in piece.to_pylist()] == ["first"]


def test_nothing_is_taken_from_before_a_delete():
    runs = [
        run(("k", 1, "old", b"old")),
        run(("k", 2, None, None), flags=[DELETED]),
        run(("k", 3, None, b"new")),
    ]
    assert merged(*runs, rule=LATE) == [("k", 3, None, b"new")]
    # A base file comes last: what its logs have deleted in between is not known any more.
    logs_first = [*runs[1:], run(("k", 1, "old", b"old"), yields=True)]
    assert merged(*logs_first, rule=LATE) == [("k", 3, "old", b"new")]


def test_a_marker_gives_way_in_texts_and_stays_where_nothing_is_older():
    runs = [
        run(("k", 1, "old", b"old"), ("m", 1, None, None)),
        run(("k", 2, "?", b"?"), ("m", 2, "?", None), ("n", 1, "?", b"?")),
    ]
    assert merged(*runs, rule=MARKED) == [
        ("k", 2, "old", b"?"),
        ("m", 2, None, None),
        ("n", 1, "?", b"?"),
    ]


def test_a_marker_stays_after_a_delete_and_among_markers():
    deleted = [
        run(("k", 1, "old", None)),
        run(("k", 1, None, None), flags=[COMMIT_TIME_DELETE]),
        run(("k", 2, "?", None)),
    ]
    assert merged(*deleted, rule=MARKED) == [("k", 2, "?", None)]
    assert merged(run(("k", 1, "?", None)), run(("k", 2, "?", None)), rule=MARKED) == [
        ("k", 2, "?", None)
    ]


def test_a_null_is_no_marker():
    runs = [run(("k", 1, "old", None)), run(("k", 2, None, None))]
    assert merged(*runs, rule=MARKED) == [("k", 2, None, None)]


def test_natural_deletes_ignore_the_ordering_they_carry():
    rule = MergeRule(("ts",), natural_deletes=True)
    stale = run(("k", 1, None, None), flags=[DELETED])
    assert merged(run(("k", 9, "old", None)), stale, rule=rule) == []
    assert merged(run(("k", 9, "old", None)), stale, rule=MergeRule(("ts",))) != []
    late = [run(("k", 9, None, None), flags=[DELETED]), run(("k", 1, "new", None))]
    assert merged(*late, rule=rule) == [("k", 1, "new", None)]
    assert merged(*late, rule=MergeRule(("ts",))) == []


def test_sorting_fills_and_positions_give_every_version():
    rows = batch(("k", 5, "x", None), ("k", 7, None, b"2"), ("k", 6, "y", b"3"), ("a", 1, "1", b""))
    found = [tuple(row.values()) for row in sort_rows(rows, LATE).to_pylist()]
    # Apache Hudi 1.2.0 gives the same for these rows in one write.
    assert found == [("a", 1, "1", b""), ("k", 7, "x", b"2")]
    assert sort_positions(rows, LATE).tolist() == [3, 0, 1, 2]


def test_a_partial_run_under_a_rule_that_fills_is_refused():
    part = Run("part", [batch(("k", 2, None, None)).select([RECORD_KEY, "ts"])], partial=True)
    with pytest.raises(UnsupportedError, match=r"'a' is a partial update.*partial\.update\.mode"):
        merged(run(("k", 1, "old", b"")), part, rule=LATE)


def test_a_row_without_a_commit_yet_does_not_take_the_older_ones():
    schema = pa.schema([(RECORD_KEY, pa.string()), (COMMIT_TIME, pa.string()), ("a", pa.string())])
    rows = [{RECORD_KEY: "k", COMMIT_TIME: "1", "a": "old"}, {RECORD_KEY: "k"}]
    runs = [Run("one", [pa.RecordBatch.from_pylist([row], schema=schema)]) for row in rows]
    [found] = merge_runs(runs, NULLS, schema)
    assert found.to_pylist() == [{RECORD_KEY: "k", COMMIT_TIME: None, "a": "old"}]


@pytest.mark.parametrize(
    ("rule", "associative"),
    [(MergeRule(("ts",)), True), (LATE, False), (MergeRule(merger=lambda _, new: new), False)],
)
def test_only_a_rule_without_merger_and_fill_is_associative(rule, associative):
    assert rule.is_associative is associative
