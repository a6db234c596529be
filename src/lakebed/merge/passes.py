"""Merge more runs than may be open at once, in passes through temporary runs."""

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa

from lakebed.errors import InvalidError
from lakebed.merge.rule import MergeRule
from lakebed.merge.run import Run
from lakebed.merge.window import merge_runs, order_runs

# Each run takes an open file and a batch in memory.
MAX_FAN_IN = 64

Spill = Callable[[Iterator[pa.RecordBatch]], Run]


def merge_in_passes(
    runs: Sequence[Run],
    rule: MergeRule,
    schema: pa.Schema,
    spill: Spill,
    *,
    max_fan_in: int = MAX_FAN_IN,
    keep_deletes: bool = False,
) -> Iterator[pa.RecordBatch]:
    """Merge `runs`, oldest first, reading at most `max_fan_in` of them at once.

    `spill` writes batches of `schema`, with flags appended, to a temporary run and returns it.
    Earlier passes merge neighbouring runs only, starting with the newest, which are the smallest.
    They leave out runs that are partial, because the columns that they lack can only be filled from
    older runs, and runs that yield or repeat. If more than `max_fan_in` of these exist, they are
    read at once.
    """
    if max_fan_in < 2:
        raise InvalidError(f"merge: expected a fan-in of at least 2, found {max_fan_in}")
    left = list(runs)
    while len(left) > max_fan_in:
        before = len(left)
        left = _merge_pass(left, rule, schema, spill, max_fan_in)
        if len(left) == before:
            break
    return merge_runs(left, rule, schema, keep_deletes=keep_deletes)


def _merge_pass(
    runs: list[Run], rule: MergeRule, schema: pa.Schema, spill: Spill, max_fan_in: int
) -> list[Run]:
    """Merge neighbouring runs, newest first, until few enough are left or all were considered."""
    newest_first: list[Run] = []
    rest = list(runs)
    while rest:
        excess = len(rest) + len(newest_first) - max_fan_in
        group: list[Run] = []
        while rest and not _is_apart(rest[-1]) and len(group) < min(max_fan_in, excess + 1):
            group.append(rest.pop())
        if len(group) > 1:
            newest_first.append(spill(_merge_group(group[::-1], rule, schema)))
        else:
            newest_first.extend(group or [rest.pop()])
    return newest_first[::-1]


def _is_apart(run: Run) -> bool:
    return run.partial or run.yields or run.repeats


def _merge_group(runs: list[Run], rule: MergeRule, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    # A delete without an ordering value is kept when a delete with one follows. If later rows had
    # already been merged into the second delete, a row that wins over the first would be lost.
    if rule.is_associative and not rule.ordering_fields:
        return merge_runs(runs, rule, schema, keep_deletes=True)
    # Keep all versions, oldest first.
    return order_runs(runs, rule, schema)
