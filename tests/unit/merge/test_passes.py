"""Passes: which runs are merged beforehand, and how many are open at once."""

import pyarrow as pa
import pytest

from lakebed.errors import InvalidError
from lakebed.format.names.meta_columns import RECORD_KEY
from lakebed.merge.passes import merge_in_passes
from lakebed.merge.rule import MergeRule
from lakebed.merge.run import FLAGS, Run

SCHEMA = pa.schema([(RECORD_KEY, pa.string()), ("v", pa.int64())])


class Watch:
    """Makes runs and counts how many of them are being read."""

    def __init__(self) -> None:
        self.open = self.most = self.spilled = 0

    def run(self, name: str, batches, *, partial: bool = False) -> Run:
        return Run(name, self._read(batches), partial)

    def _read(self, batches):
        self.open += 1
        self.most = max(self.most, self.open)
        yield from batches
        self.open -= 1

    def spill(self, batches) -> Run:
        self.spilled += 1
        held = list(batches)
        assert all(batch.schema.names[-1] == FLAGS for batch in held)
        return self.run(f"pass {self.spilled}", held)

    def merge(self, count: int, fan_in: int, partial=frozenset()) -> list[tuple]:
        keys = [["k", f"m{n:04d}"] for n in range(count)]
        runs = [
            self.run(
                str(n),
                [pa.RecordBatch.from_pydict({RECORD_KEY: key, "v": [n, n]}, schema=SCHEMA)],
                partial=n in partial,
            )
            for n, key in enumerate(keys)
        ]
        found = merge_in_passes(runs, MergeRule(), SCHEMA, self.spill, max_fan_in=fan_in)
        return [tuple(row.values()) for batch in found for row in batch.to_pylist()]


@pytest.mark.parametrize(
    ("count", "fan_in", "spilled"),
    [(0, 2, 0), (1, 2, 0), (64, 64, 0), (65, 64, 1), (130, 64, 2), (9, 2, 7), (100, 3, 49)],
)
def test_no_more_runs_are_open_at_once_than_allowed(count, fan_in, spilled):
    watch = Watch()
    found = watch.merge(count, fan_in)
    assert found == ([("k", count - 1)] if count else []) + [(f"m{n:04d}", n) for n in range(count)]
    assert watch.most <= fan_in
    assert watch.spilled <= max(spilled, 0)
    assert watch.open == 0


def test_a_partial_run_is_never_merged_beforehand():
    watch = Watch()
    found = watch.merge(12, 4, partial={3, 7})
    assert found[0] == ("k", 11)
    assert watch.most <= 5
    only_partial = Watch()
    assert only_partial.merge(6, 4, partial=set(range(6)))[0] == ("k", 5)
    assert only_partial.spilled == 0


def test_a_fan_in_that_merges_nothing_is_refused():
    with pytest.raises(InvalidError, match="expected a fan-in of at least 2, found 1"):
        Watch().merge(3, 1)
