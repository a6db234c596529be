"""Rows of one run that share a key: each meets the versions of the other runs alone."""

import random

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lakebed.format.names.meta_columns import RECORD_KEY
from lakebed.merge.repeated import set_apart
from lakebed.merge.rule import MergeRule
from lakebed.merge.run import Run
from lakebed.merge.tree import Order
from lakebed.merge.window import merge_runs


def plain(order: Order, own: list[bool]) -> list[list[int]]:
    """Return the versions of each row that is given out, by loops."""
    groups: list[list[int]] = []
    for row, start in zip(order.positions.tolist(), order.starts.tolist(), strict=True):
        if start:
            groups.append([])
        groups[-1].append(row)
    found = []
    for group in groups:
        selves = [row for row in group if own[row]]
        found.extend(
            [row for row in group if not own[row] or row == one] for one in selves or [None]
        )
    return found


@pytest.mark.parametrize("seed", range(200))
def test_versions_are_shared_out_as_by_loops(seed: int):
    rng = random.Random(seed)
    parts = [(rng.randint(0, 6), rng.random() < 0.4) for _ in range(rng.randint(1, 4))]
    own = [repeats for rows, repeats in parts for _ in range(rows)]
    keys = [rng.randint(0, rng.choice([1, 3, 8])) for _ in own]
    positions = sorted(range(len(own)), key=lambda row: (keys[row], row))
    starts = [at == 0 or keys[positions[at - 1]] != keys[row] for at, row in enumerate(positions)]
    order = Order(np.array(positions, np.int64), np.array(starts, np.bool_))
    found = set_apart(order, parts)
    assert plain(found, [False] * len(own)) == plain(order, own)


def added(older: pa.RecordBatch, newer: pa.RecordBatch) -> pa.RecordBatch:
    total = pc.add(older.column("n"), newer.column("n"))
    return newer.set_column(newer.schema.get_field_index("n"), newer.schema.field("n"), total)


@pytest.mark.parametrize("cut", [1, 2, 100])
@pytest.mark.parametrize(
    ("rule", "wanted"),
    [
        (MergeRule(), [("a", 10), ("a", 10), ("b", 3), ("b", 4), ("c", 20)]),
        (MergeRule(("n",)), [("a", 10), ("a", 99), ("b", 3), ("b", 4), ("c", 20)]),
        (MergeRule(merger=added), [("a", 11), ("a", 109), ("b", 3), ("b", 4), ("c", 20)]),
    ],
)
def test_each_row_of_a_key_meets_the_other_runs_however_they_are_cut(
    rule: MergeRule, wanted: list[tuple[str, int]], cut: int
):
    schema = pa.schema([(RECORD_KEY, pa.string()), ("n", pa.int64())])

    def run(*rows: tuple[str, int], repeats: bool = False) -> Run:
        whole = pa.RecordBatch.from_arrays(
            [pa.array([key for key, _ in rows]), pa.array([n for _, n in rows])], schema=schema
        )
        batches = [whole.slice(at, cut) for at in range(0, len(rows), cut)]
        return Run("base" if repeats else "log", batches, repeats=repeats)

    base = run(("a", 1), ("a", 99), ("b", 3), ("b", 4), repeats=True)
    log = run(("a", 10), ("c", 20))
    found = [row for batch in merge_runs([base, log], rule, schema) for row in batch.to_pylist()]
    assert [(row[RECORD_KEY], row["n"]) for row in found] == wanted
