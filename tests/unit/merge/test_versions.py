"""Parts of runs in key order, folded to one row for each key."""

import numpy as np
import pyarrow as pa
import pytest

from lakebed.errors import CorruptError, InvalidError, UnsupportedError
from lakebed.format.names.meta_columns import COMMIT_TIME, RECORD_KEY
from lakebed.merge.rule import Fill, MergeRule
from lakebed.merge.run import BARRIER, COMMIT_TIME_DELETE, DELETED, FLAGS, Run
from lakebed.merge.tree import Order
from lakebed.merge.versions import check_rule, choose, every_version, resolve, to_part, with_flags

SCHEMA = pa.schema(
    [(COMMIT_TIME, pa.string()), (RECORD_KEY, pa.string()), ("ts", pa.int64()), ("v", pa.string())]
)
BY_TS = MergeRule(("ts",))


def rows(*given, flags=None, schema=SCHEMA):
    found = pa.RecordBatch.from_pylist(
        [dict(zip(SCHEMA.names, row, strict=False)) for row in given], schema=schema
    )
    if flags is None:
        return found
    return found.append_column(pa.field(FLAGS, pa.uint8()), pa.array(flags, pa.uint8()))


def part(*given, partial=False, yields=False, **how):
    return to_part(
        rows(*given, **how), SCHEMA, Run("a run", (), partial, yields=yields), RECORD_KEY
    )


def order(*firsts):
    """Return rows that lie in key order already; those that begin a key are true."""
    return Order(np.arange(len(firsts)), np.array(firsts, np.bool_))


def resolved(parts, order_, rule=BY_TS, *, keep_deletes=False):
    found = resolve(parts, order_, rule, keep_deletes=keep_deletes, kernel=False)
    return [tuple(row.values()) for row in found.to_pylist()]


TWO = (("t1", "k", 5, "old"),), (("t2", "k", 3, "late"),)


def test_the_greater_ordering_value_wins_and_without_one_the_later_row():
    parts = [part(*given) for given in TWO]
    assert resolved(parts, order(True, False)) == [("t1", "k", 5, "old")]
    assert resolved(parts, order(True, False), MergeRule()) == [("t2", "k", 3, "late")]


def test_keys_of_one_version_are_taken_as_they_are():
    parts = [part(("t1", "a", 1, "x"), ("t1", "b", 1, "y")), part(("t2", "c", 1, "z"))]
    assert [row[1] for row in resolved(parts, order(True, True, True))] == ["a", "b", "c"]


def test_a_column_that_the_newer_part_lacks_keeps_the_older_value():
    narrow = SCHEMA.remove(3)
    newer = part(("t2", "k", 9), partial=True, schema=narrow)
    assert newer.lacks == {"v"}
    assert resolved([part(*TWO[0]), newer], order(True, False)) == [("t2", "k", 9, "old")]
    whole = part(("t2", "k", 9), schema=narrow)
    assert resolved([part(*TWO[0]), whole], order(True, False)) == [("t2", "k", 9, None)]


def test_a_deleted_key_is_left_out_or_kept_with_ordering_value_and_commit_time_only():
    parts = [part(*TWO[0]), part(("t2", "k", 7, "gone"), flags=[DELETED])]
    assert resolved(parts, order(True, False)) == []
    assert resolved(parts, order(True, False), keep_deletes=True) == [("t2", "k", 7, None, DELETED)]


def test_a_barrier_wins_whatever_it_carries_and_says_so():
    parts = [part(*TWO[0]), part(("t2", "k", 1, "new"), flags=[BARRIER])]
    assert resolved(parts, order(True, False), keep_deletes=True) == [
        ("t2", "k", 1, "new", BARRIER)
    ]


def test_natural_deletes_beat_what_is_older_whatever_they_carry():
    parts = [part(*TWO[0]), part(("t2", "k", 1, None), flags=[DELETED])]
    rule = MergeRule(("ts",), natural_deletes=True)
    assert resolved(parts, order(True, False), rule) == []
    assert resolved(parts, order(True, False)) == [("t1", "k", 5, "old")]


def test_rows_that_yield_win_only_by_a_greater_value():
    for ts, wanted in ((5, "log"), (6, "base")):
        parts = [part(("t2", "k", 5, "log")), part(("t1", "k", ts, "base"), yields=True)]
        assert [row[3] for row in resolved(parts, order(True, False))] == [wanted]


def test_a_value_that_gives_way_is_filled_and_the_row_is_of_the_later_commit():
    rule = MergeRule(("ts",), fill=Fill())
    parts = [part(("t1", "k", 5, None)), part(("t2", "k", 3, "late"))]
    assert resolved(parts, order(True, False), rule) == [("t2", "k", 5, "late")]
    lacking = part(("t2", "k", 9), partial=True, schema=SCHEMA.remove(3))
    with pytest.raises(UnsupportedError, match="a run without the column 'v' is a partial update"):
        resolved([parts[0], lacking], order(True, False), rule)


def test_a_merger_settles_repeated_keys_only():
    def merge(older, newer):
        texts = pa.array([f"{a}+{b}" for a, b in zip(older["v"], newer["v"], strict=True)])
        return newer.set_column(newer.schema.get_field_index("v"), "v", texts)

    parts = [part(("t1", "k", 1, "a"), ("t1", "m", 1, "alone")), part(("t2", "k", 2, "b"))]
    both = Order(np.array([0, 2, 1]), np.array([True, False, True]))
    assert resolved(parts, both, MergeRule(merger=merge)) == [
        ("t2", "k", 2, "a+b"),
        ("t1", "m", 1, "alone"),
    ]


def test_chosen_rows_are_numbered_through_all_parts():
    parts = [part(("t1", "a", 1, "x"), ("t1", "k", 9, "y")), part(("t2", "k", 1, "z"))]
    found = choose(parts, order(True, True, False), BY_TS, kernel=False)
    assert (found.winners.tolist(), found.flags) == ([0, 1], None)


def test_every_version_comes_with_its_flags():
    parts = [part(*TWO[0]), part(*TWO[1], flags=[COMMIT_TIME_DELETE])]
    found = every_version(parts, Order(np.array([1, 0]), np.array([True, False])))
    assert found.column(FLAGS).to_pylist() == [COMMIT_TIME_DELETE, 0]
    assert found.column("v").to_pylist() == ["late", "old"]


def test_rows_without_flags_get_zeros():
    assert with_flags(rows(*TWO[0]), None).column(FLAGS).to_pylist() == [0]
    assert part(*TWO[0], flags=[0]).flags is None


def test_a_batch_that_cannot_be_merged_is_refused_by_the_name_of_its_run():
    without_key = rows(*TWO[0]).drop_columns([RECORD_KEY])
    for given, error, words in (
        (without_key, InvalidError, "column '_hoodie_record_key' is missing; have"),
        (rows(("t", None, 1, "v")), CorruptError, "found 1 rows with none"),
        (
            rows(*TWO[0]).set_column(2, "ts", pa.array(["5"])),
            InvalidError,
            "int64, found string",
        ),
        (rows(*TWO[0]).append_column(FLAGS, pa.array([None], pa.uint8())), InvalidError, "1 nulls"),
        (rows(*TWO[0]).append_column(FLAGS, pa.array([1])), InvalidError, "found int64"),
    ):
        with pytest.raises(error, match=f"^a run: .*{words}"):
            to_part(given, SCHEMA, Run("a run", ()), RECORD_KEY)


def test_a_rule_names_the_column_that_is_missing():
    with pytest.raises(InvalidError, match="column 'ts' is missing; have _hoodie_record_key"):
        check_rule(BY_TS, pa.schema([(RECORD_KEY, pa.string())]))
    with pytest.raises(InvalidError, match="column '_key' is missing"):
        check_rule(MergeRule(key="_key"), SCHEMA)
