"""Merging and sorting of runs, against the plainest thing that could be right: a dict, row by row."""

import itertools
import math
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakebed.format.compiled import kernels
from lakebed.format.names.meta_columns import RECORD_KEY
from lakebed.merge import tree
from lakebed.merge.order import MergeRule, sort_positions
from lakebed.merge.passes import merge_in_passes
from lakebed.merge.rule import Fill
from lakebed.merge.run import BARRIER, COMMIT_TIME_DELETE, DELETED, FLAGS, OPEN, Run
from lakebed.merge.window import merge_runs
from support.sorted_rows import sort_rows

SCHEMA = pa.schema(
    [
        pa.field("serial", pa.int64()),
        pa.field(RECORD_KEY, pa.string()),
        pa.field("ts", pa.int64()),
        pa.field("price", pa.float64()),
        pa.field("name", pa.string()),
        pa.field("note", pa.string()),
    ]
)
TRICKY_KEYS = [
    *("", "\0", "a", "a\0", "a\0\0", "ab", "b", "é", "Ａ", "\U0001f600", "￿", "z", "\x7f"),
    *("k" * n for n in (7, 8, 9, 15, 16, 17, 23, 24, 25)),
    *("k" * n + end for n in (7, 8, 15, 16, 24) for end in ("\0", "a", "\U0001f600")),
    *(f"user_id:{user},id:{n}" for user in (1, 10, 2) for n in (1, 10, 11, 2)),
]
KEYS = st.one_of(
    st.sampled_from(TRICKY_KEYS),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=4),
)
FIELDS = ("ts", "price", "name")
RULES = st.sampled_from(
    [
        MergeRule(p, logs_first=logs_first)
        for logs_first in (False, True)
        for n in (0, 1, 2, 3)
        for p in itertools.permutations(FIELDS, n)
    ]
)
FILLS = st.builds(
    MergeRule,
    st.sampled_from([(), ("ts",), ("price", "ts"), ("name",)]),
    fill=st.sampled_from([None, Fill(), Fill(), Fill("x"), Fill("")]),
    natural_deletes=st.booleans(),
    logs_first=st.booleans(),
)
FLAG_VALUES = st.sampled_from([0, 0, 0, DELETED, BARRIER, OPEN, COMMIT_TIME_DELETE, 3, 5, 6])
PRICES = st.sampled_from([0.0, -0.0, 1.5, -2.0, math.inf, -math.inf, math.nan, -math.nan])
ROWS = st.tuples(
    KEYS,
    st.none() | st.sampled_from([-(2**63), -1, 0, 1, 2**63 - 1]),
    st.none() | PRICES,
    st.none() | st.sampled_from(["", "1", "10", "9", "Ａ", "\U0001f600"]),
    st.none() | st.sampled_from(["x", "y"]),
    FLAG_VALUES,
)
engines = pytest.mark.parametrize("kernel", [False, True], ids=["twin", "kernel"])


@dataclass(frozen=True)
class Version:
    """One row of a run, as plain values."""

    values: dict[str, Any]  # only the columns that the run has
    flags: int


@dataclass(frozen=True)
class Source:
    """A run before it is cut into batches."""

    versions: list[Version]
    columns: tuple[str, ...]
    partial: bool
    flagged: bool
    yields: bool = False

    def run(self, name: str, cuts: list[int]) -> Run:
        bounds = [0, *cuts, len(self.versions)]
        pieces = [self.batch(a, b) for a, b in itertools.pairwise(bounds)]
        return Run(name, pieces, self.partial, self.yields)

    def batch(self, start: int, end: int) -> pa.RecordBatch:
        chosen = self.versions[start:end]
        fields = [field for field in SCHEMA if field.name in self.columns]
        columns = [
            pa.array([version.values[field.name] for version in chosen], field.type)
            for field in fields
        ]
        if self.flagged:
            fields.append(pa.field(FLAGS, pa.uint8()))
            columns.append(pa.array([version.flags for version in chosen], pa.uint8()))
        return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


@contextmanager
def engine(kernel: bool):
    with kernels(kernel):
        yield


def rank(value: Any) -> tuple[int, Any]:
    """Order as Java does: null first, -0.0 before 0.0, NaN above everything."""
    if value is None:
        return (0, 0)
    if isinstance(value, str):
        return (1, value.encode())
    if isinstance(value, float):
        return (2, 0) if math.isnan(value) else (1, (value, math.copysign(1, value)))
    return (1, value)


def ordering(version: Version, rule: MergeRule) -> list[tuple[int, Any]]:
    return [rank(version.values.get(field)) for field in rule.ordering_fields]


def meet(old: dict[str, Any], new: dict[str, Any], rule: MergeRule) -> dict[str, Any]:
    """Fold one newer version in, as the definition says it."""
    fill = rule.fill
    barrier = (old["flags"] | new["flags"]) & BARRIER
    gone = new["flags"] & DELETED and old["flags"] & DELETED
    if rule.logs_first and gone and old["flags"] & OPEN:
        new_wins = False
    elif new["yields"]:
        new_wins = not old["flags"] & OPEN and new["ord"] > old["ord"]
    else:
        new_wins = new["flags"] & BARRIER or old["flags"] & OPEN or new["ord"] >= old["ord"]
    if new_wins:
        kept = {} if old["flags"] & DELETED else old["values"]
        values = {**kept, **new["values"]}
        winner = new
    else:
        came = {} if new["flags"] & DELETED or not rule.logs_first else new["values"]
        values = {**came, **old["values"]}
        winner = old
    if fill is not None:
        loser = old if new_wins else new
        values = winner["values"]
        if not (winner["flags"] | loser["flags"]) & DELETED:
            values = {
                name: loser["values"][name] if value == fill.marker else value
                for name, value in values.items()
            }
    if winner["flags"] & DELETED:
        values = {}
    flags = winner["flags"] & (DELETED | OPEN) | barrier
    return {"flags": flags, "ord": winner["ord"], "own": winner["own"], "values": values}


def model(sources: list[Source], rule: MergeRule, keep_deletes: bool) -> list[dict[str, Any]]:
    held: dict[bytes, dict[str, Any]] = {}
    for source in sources:
        for version in source.versions:
            flags = version.flags if source.flagged else 0
            if rule.natural_deletes and flags & DELETED:
                flags = COMMIT_TIME_DELETE
            values = {} if source.partial else dict.fromkeys(SCHEMA.names)
            values |= {name: version.values[name] for name in source.columns}
            new = {
                "flags": flags,
                "yields": source.yields,
                "ord": ordering(Version({n: version.values[n] for n in source.columns}, 0), rule),
                "own": values,
                "values": {} if flags & DELETED else values,
            }
            key = version.values[RECORD_KEY].encode()
            held[key] = meet(held[key], new, rule) if key in held else new
    rows = []
    for key in sorted(held):
        state = held[key]
        if state["flags"] & DELETED and not keep_deletes:
            continue
        row = {name: state["values"].get(name) for name in SCHEMA.names}
        if state["flags"] & DELETED:
            row |= {field: state["own"].get(field) for field in rule.ordering_fields}
        row[RECORD_KEY] = key.decode()
        if keep_deletes:
            row[FLAGS] = state["flags"]
        rows.append(row)
    return rows


def plain(rows: Any) -> list[str]:
    """Spell rows so that NaN equals NaN and -0.0 does not equal 0.0."""
    return [repr(sorted(row.items())) for row in rows]


def rows_of(batches: Any) -> list[dict[str, Any]]:
    return [row for batch in batches for row in batch.to_pylist()]


def versions_of(rows: list[Any], start: int, *, associative: bool = False) -> list[Version]:
    made = []
    for serial, (key, *values, flags) in enumerate(sorted(rows, key=lambda row: row[0].encode())):
        named = dict(zip(("ts", "price", "name", "note"), values, strict=True))
        if associative and flags & OPEN and not flags & BARRIER:
            named |= dict.fromkeys(FIELDS)  # what is open has no ordering value
        made.append(Version({RECORD_KEY: key, "serial": start + serial, **named}, flags))
    return made


@st.composite
def sources(draw, max_runs=6, *, max_rows=12, partial=True, associative=False, base_last=False):
    made: list[Source] = []
    serial = 0
    for _ in range(draw(st.integers(0, max_runs))):
        versions = versions_of(
            draw(st.lists(ROWS, max_size=max_rows)), serial, associative=associative
        )
        serial += len(versions)
        lacks = draw(st.sets(st.sampled_from([n for n in SCHEMA.names if n != RECORD_KEY])))
        lacks = lacks if draw(st.booleans()) else set()
        columns = tuple(name for name in SCHEMA.names if name not in lacks)
        is_partial = partial and draw(st.booleans())
        made.append(Source(versions, columns, is_partial, draw(st.booleans())))
    if base_last and made and draw(st.booleans()):
        made[-1] = replace(made[-1], yields=True)
    return made


def cut(draw: Any, made: list[Source]) -> list[Run]:
    return [
        source.run(
            f"run {number}",
            draw(st.lists(st.integers(0, len(source.versions)), max_size=4).map(sorted)),
        )
        for number, source in enumerate(made)
    ]


@engines
@settings(max_examples=80)
@given(made=sources(base_last=True), rule=RULES, keep_deletes=st.booleans(), data=st.data())
def test_a_merge_of_runs_gives_what_folding_row_by_row_gives(
    kernel, made, rule, keep_deletes, data
):
    with engine(kernel):
        merged = list(merge_runs(cut(data.draw, made), rule, SCHEMA, keep_deletes=keep_deletes))
    assert plain(rows_of(merged)) == plain(model(made, rule, keep_deletes))
    names = [*SCHEMA.names, FLAGS] if keep_deletes else SCHEMA.names
    assert all(batch.num_rows and batch.schema.names == names for batch in merged)


@engines
@pytest.mark.parametrize("count", [1, 2, 3, 63, 64, 65, 130])
def test_any_number_of_runs_is_merged(kernel, count):
    rng = np.random.default_rng(count)
    made = []
    for number in range(count):
        keys = [f"user_id:{n // 15},id:{n}" for n in rng.integers(0, 100, 12)]
        rows = [
            (key, int(rng.integers(3)), None, None, None, int(rng.choice([0, 1, 7])))
            for key in keys
        ]
        made.append(Source(versions_of(rows, 12 * number), tuple(SCHEMA.names), False, True))
    runs = [source.run(str(n), [n % 5, 5 + n % 5]) for n, source in enumerate(made)]
    with engine(kernel):
        merged = list(merge_runs(runs, MergeRule(("ts",)), SCHEMA, keep_deletes=True))
    assert plain(rows_of(merged)) == plain(model(made, MergeRule(("ts",)), True))


@engines
@settings(max_examples=40)
@given(
    made=sources(9, max_rows=5, associative=True),
    rule=RULES,
    fan_in=st.integers(2, 4),
    keep_deletes=st.booleans(),
    data=st.data(),
)
def test_passes_over_few_runs_at_once_change_nothing(
    kernel, made, rule, fan_in, keep_deletes, data
):
    open_at_once = []

    def spill(batches: Any) -> Run:
        held = list(batches)
        open_at_once.append(len(held))
        return Run(f"pass {len(open_at_once)}", held)

    runs = cut(data.draw, made)
    with engine(kernel):
        merged = list(
            merge_in_passes(runs, rule, SCHEMA, spill, max_fan_in=fan_in, keep_deletes=keep_deletes)
        )
    assert plain(rows_of(merged)) == plain(model(made, rule, keep_deletes))
    if not any(run.partial for run in runs):
        assert bool(open_at_once) == (len(runs) > fan_in)


@engines
@settings(max_examples=60)
@given(
    made=sources(7, max_rows=8, partial=False, base_last=True),
    rule=FILLS,
    fan_in=st.integers(2, 8),
    keep_deletes=st.booleans(),
    data=st.data(),
)
def test_values_that_give_way_are_filled_as_row_by_row_in_as_many_passes_as_it_takes(
    kernel, made, rule, fan_in, keep_deletes, data
):
    def spill(batches: Any) -> Run:
        return Run("a pass", list(batches))

    few = fan_in if rule.fill is not None else 8
    with engine(kernel):
        merged = list(
            merge_in_passes(
                cut(data.draw, made),
                rule,
                SCHEMA,
                spill,
                max_fan_in=few,
                keep_deletes=keep_deletes,
            )
        )
    assert plain(rows_of(merged)) == plain(model(made, rule, keep_deletes))


@engines
@settings(max_examples=40)
@given(rows=st.lists(ROWS, max_size=30), rule=FILLS, flagged=st.booleans())
def test_rows_that_come_together_are_filled_in_order_of_arrival(kernel, rows, rule, flagged):
    versions = [version for i, row in enumerate(rows) for version in versions_of([row], i)]
    source = Source(versions, tuple(SCHEMA.names), False, flagged)
    with engine(kernel):
        found = sort_rows(source.batch(0, len(rows)), rule)
    assert plain(found.to_pylist()) == plain(model([source], rule, keep_deletes=flagged))


@engines
@settings(max_examples=40)
@given(rows=st.lists(ROWS, max_size=30), rule=RULES, flagged=st.booleans(), data=st.data())
def test_sorting_rows_is_merging_a_run_for_each(kernel, rows, rule, flagged, data):
    versions = [version for i, row in enumerate(rows) for version in versions_of([row], i)]
    source = Source(versions, tuple(SCHEMA.names), False, flagged)
    subset = data.draw(st.none() | st.sets(st.integers(0, max(0, len(rows) - 1))).map(sorted))
    if subset is not None:
        subset = [number for number in subset if number < len(rows)]
    chosen = versions if subset is None else [versions[number] for number in subset]
    given_rows = source.batch(0, len(rows))
    picked = None if subset is None else np.array(subset, np.int64)
    with engine(kernel):
        found = sort_rows(given_rows, rule, picked)
        positions = sort_positions(given_rows, rule, picked)
    want = model([Source(chosen, source.columns, False, flagged)], rule, keep_deletes=flagged)
    assert plain(found.to_pylist()) == plain(want)
    assert found.schema == given_rows.schema
    keys = [versions[at].values[RECORD_KEY] for at in positions]
    assert keys == [row[RECORD_KEY] for row in want]
    for at, row in zip(positions, want, strict=True):
        if not row.get(FLAGS, 0) & DELETED:
            assert at == row["serial"]


@engines
@given(
    runs=st.lists(
        st.lists(st.sampled_from([*map(str.encode, TRICKY_KEYS), b"\xff" * 30]), max_size=12),
        max_size=20,
    ),
    binary=st.lists(st.binary(max_size=20), max_size=12),
)
def test_keys_of_any_bytes_come_in_order_and_ties_oldest_first(kernel, runs, binary):
    ordered = [sorted(keys) for keys in [*runs, binary, [b"\xff" * 16, b"\xff" * 17]]]
    rows = [(key, run, row) for run, keys in enumerate(ordered) for row, key in enumerate(keys)]
    found = tree.order_keys([[to_keys(keys)] for keys in ordered], kernel=kernel)
    want = sorted(range(len(rows)), key=lambda number: rows[number])
    assert found.positions.tolist() == want
    in_order = [rows[number][0] for number in want]
    starts = [i == 0 or key != in_order[i - 1] for i, key in enumerate(in_order)]
    assert found.starts.tolist() == starts
    assert found.descends == -1


@engines
@given(
    keys=st.lists(st.sampled_from(TRICKY_KEYS), min_size=2, max_size=12).map(
        lambda keys: [key.encode() for key in keys]
    ),
    before=st.lists(st.sampled_from(TRICKY_KEYS).map(str.encode), max_size=5).map(sorted),
)
def test_the_first_descending_key_is_found_wherever_it_is(kernel, keys, before):
    found = tree.order_keys([[to_keys(before)], [to_keys(keys)]], kernel=kernel)
    falls = [row for row in range(1, len(keys)) if keys[row] < keys[row - 1]]
    assert found.descends == (len(before) + falls[0] if falls else -1)


def to_keys(keys: list[bytes]) -> tree.Keys:
    offsets = np.cumsum([0, *map(len, keys)], dtype=np.int64)
    return tree.Keys(np.frombuffer(b"".join(keys), np.uint8), offsets)
