"""Merges against a model: random rows and clauses, evaluated on dicts."""

import itertools

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lakebed

NUMBERS_OF_TABLES = itertools.count()
KEYS = st.integers(0, 9) | st.sampled_from([-1, 2**40])
NUMBERS = st.none() | st.integers(-5, 5)
ROWS = st.dictionaries(
    KEYS, st.tuples(NUMBERS, st.sampled_from(["a", "鍵", "🗝", None])), max_size=9
)

# Each condition and value, as SQL and as a function of a target row and a source row.
BOTH = {
    "source.n > target.n": lambda t, s: gt(s["n"], t["n"]),
    "target.s = source.s": lambda t, s: None not in (t["s"], s["s"]) and t["s"] == s["s"],
    "source.n IS NULL OR target.n < 0": lambda t, s: s["n"] is None or gt(0, t["n"]),
    None: lambda t, s: True,
}
OF_SOURCE = {
    "n >= 0": lambda s: gt(s["n"], -1),
    "source.s IS NOT NULL": lambda s: s["s"] is not None,
    None: lambda s: True,
}
OF_TARGET = {
    "target.n BETWEEN -2 AND 2": lambda t: t["n"] is not None and -2 <= t["n"] <= 2,
    "s = 'a'": lambda t: t["s"] == "a",
    None: lambda t: True,
}
SET_BOTH = [
    ({"n": "target.n + source.n"}, lambda t, s: {**t, "n": plus(t["n"], s["n"])}),
    ({"s": "source.s", "n": 7}, lambda t, s: {**t, "s": s["s"], "n": 7}),
    ({"n": "source.n", "s": "target.s", "k": "source.k"}, lambda t, s: {**t, "n": s["n"]}),
    ("all", lambda t, s: dict(s)),
    (None, None),
]
SET_TARGET = [
    ({"n": "n * 2"}, lambda t: {**t, "n": None if t["n"] is None else t["n"] * 2}),
    ({"s": None, "n": "coalesce(target.n, 0)"}, lambda t: {**t, "s": None, "n": t["n"] or 0}),
    (None, None),
]
INSERTS = [
    ("all", dict),
    ({"k": "source.k", "n": "n - 1"}, lambda s: {"k": s["k"], "n": plus(s["n"], -1), "s": None}),
    ({"k": "k", "s": lakebed.lit("it's")}, lambda s: {"k": s["k"], "n": None, "s": "it's"}),
]


def gt(one, other):
    return one is not None and other is not None and one > other


def plus(one, other):
    return None if one is None or other is None else one + other


def clauses_of(conditions, actions):
    """Draw clauses of one kind; only the last may lack a condition."""
    one = st.tuples(st.sampled_from(list(conditions)), st.sampled_from(range(len(actions))))
    return st.lists(one, max_size=3).filter(lambda of: None not in [c for c, _ in of[:-1]])


CLAUSES = st.tuples(
    clauses_of(BOTH, SET_BOTH), clauses_of(OF_SOURCE, INSERTS), clauses_of(OF_TARGET, SET_TARGET)
).filter(any)


def rows_of(held):
    return [{"k": k, "n": n, "s": s} for k, (n, s) in held.items()]


SCHEMA = pa.schema([("k", pa.int64()), ("n", pa.int64()), ("s", pa.string())])


def merged(table, source, on, drawn):
    matched, inserted, by_source = drawn
    builder = table.merge(source, on)
    for condition, at in matched:
        clause = builder.when_matched(condition)
        values = SET_BOTH[at][0]
        builder = clause.delete() if values is None else clause.update(values)
    for condition, at in inserted:
        builder = builder.when_not_matched(condition).insert(INSERTS[at][0])
    for condition, at in by_source:
        clause = builder.when_not_matched_by_source(condition)
        values = SET_TARGET[at][0]
        builder = clause.delete() if values is None else clause.update(values)
    return builder.execute()


def modelled(target, source, drawn):
    """Return the rows after the merge, and the numbers of inserted, updated and deleted rows."""
    matched, inserted, by_source = drawn
    made, counts = {}, {"i": 0, "u": 0, "d": 0}

    def apply(key, row, chosen, actions, args):
        at = next((at for holds, at in chosen if holds), None)
        act = None if at is None else actions[at][1]
        if at is None:
            made[key] = row
        elif act is None:
            counts["d"] += 1
        else:
            made[key] = act(*args)
            counts["u"] += 1

    for key, row in target.items():
        if key in source:
            pair = (row, source[key])
            apply(key, row, [(BOTH[c](*pair), at) for c, at in matched], SET_BOTH, pair)
        else:
            apply(key, row, [(OF_TARGET[c](row), at) for c, at in by_source], SET_TARGET, (row,))
    for key, row in source.items():
        at = next((at for c, at in inserted if OF_SOURCE[c](row)), None)
        if key not in target and at is not None:
            made[key] = INSERTS[at][1](row)
            counts["i"] += 1
    return made, counts


@pytest.mark.parametrize("table_type", ["merge_on_read", "copy_on_write"])
@settings(max_examples=60, deadline=None)
@given(
    first=ROWS, second=ROWS, source=ROWS, drawn=CLAUSES, types=st.sampled_from(["plain", "int32"])
)
def test_a_merge_changes_the_rows_that_the_model_changes(
    table_type, first, second, source, drawn, types
):
    path = f"memory://merge-model/{next(NUMBERS_OF_TABLES)}"
    table = lakebed.create_table(None, path, SCHEMA, key="k", table_type=table_type)
    for held in (first, second):
        if held:
            table.upsert(pa.Table.from_pylist(rows_of(held), SCHEMA))
    target = {row["k"]: row for row in rows_of({**first, **second})}
    wanted, counts = modelled(target, {r["k"]: r for r in rows_of(source)}, drawn)
    given_rows = pa.Table.from_pylist(rows_of(source), SCHEMA)
    if types == "int32":  # columns of a source are cast to the table's
        given_rows = given_rows.set_column(1, "n", given_rows["n"].cast(pa.int32()))
    commit = merged(table, given_rows, "source.k = target.k", drawn)
    assert {row["k"]: row for row in table.to_arrow().to_pylist()} == wanted
    if commit.inserted is not None:  # an upsert of all rows is not looked up in logs
        found = {"i": commit.inserted, "u": commit.updated, "d": commit.deleted}
        assert found == counts
