"""Merge sorted runs as a stream, with one batch per run in memory.

A window consists of all rows up to the smallest last key among the current batches. No run can have
a smaller key after that, so the window can be ordered and yielded.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import CorruptError
from lakebed.merge import tree
from lakebed.merge.arrays import int64_array, key_bytes
from lakebed.merge.repeated import set_apart
from lakebed.merge.rule import MergeRule
from lakebed.merge.run import DELETED, FLAGS, Run
from lakebed.merge.tree import Keys, order_keys
from lakebed.merge.versions import Part, check_rule, every_version, resolve, to_part, with_flags

__all__ = ["Run", "merge_runs", "order_runs"]

# A batch is yielded when it has this many rows or bytes; larger batches are split at MAX_ROWS.
GATHER_ROWS = 16 << 10
GATHER_BYTES = 8 << 20
MAX_ROWS = 64 << 10


def merge_runs(
    runs: Sequence[Run], rule: MergeRule, schema: pa.Schema, *, keep_deletes: bool = False
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of all runs, oldest run first, in ascending key order.

    Each key occurs once, except in runs with `Run.repeats`. The batches have the columns of
    `schema`. Deleted keys are left out or, with `keep_deletes`, kept with their ordering values and
    commit time, and nulls in other columns; the flags are then the last column. Raises CorruptError
    if a key is less than the key before it in its run.
    """
    return gather(_merge(runs, rule, schema, fold=True, keep_deletes=keep_deletes))


def order_runs(runs: Sequence[Run], rule: MergeRule, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield all versions of all keys in ascending key order, oldest first, with their flags."""
    return gather(_merge(runs, rule, schema, fold=False, keep_deletes=True))


def gather(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield small batches combined, large ones split, and no empty ones."""
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if batch.num_rows >= GATHER_ROWS:
            yield from _joined(held)
            held, rows, size = [], 0, 0
            for start in range(0, batch.num_rows, MAX_ROWS):
                yield batch.slice(start, MAX_ROWS)
        elif batch.num_rows:
            held.append(batch)
            rows += batch.num_rows
            size += batch.nbytes
            if rows >= GATHER_ROWS or size >= GATHER_BYTES:
                yield from _joined(held)
                held, rows, size = [], 0, 0
    yield from _joined(held)


def _joined(batches: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    if batches:
        yield batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def _merge(
    runs: Sequence[Run], rule: MergeRule, schema: pa.Schema, *, fold: bool, keep_deletes: bool
) -> Iterator[pa.RecordBatch]:
    schema = pa.schema([field for field in schema if field.name != FLAGS])
    check_rule(rule, schema)
    cursors = [cursor for run in runs if (cursor := _Cursor(run, schema, rule.key)).advance()]
    while cursors:
        bound = min(cursor.last_key for cursor in cursors)
        window = [(cursor, taken) for cursor in cursors if (taken := cursor.take_upto(bound))]
        passed = _pass_through(window, rule.key, keep_deletes=keep_deletes)
        if passed is None and fold:
            passed = _side_by_side(window, rule, keep_deletes=keep_deletes)
        if passed is None:
            yield _merge_window(window, rule, fold=fold, keep_deletes=keep_deletes)
        else:
            yield passed
        cursors = [cursor for cursor in cursors if not cursor.is_done]


_Taken = list[tuple[Keys, Part]]


class _Cursor:
    """A position in one run: the current batch, and the number of its rows taken so far."""

    __slots__ = (
        "_batches",
        "_first",
        "_key",
        "_keys",
        "_part",
        "_schema",
        "is_done",
        "last_key",
        "run",
    )

    def __init__(self, run: Run, schema: pa.Schema, key: str) -> None:
        self.run = run
        self._key = key
        self.is_done = False
        self.last_key = b""
        self._schema = schema
        self._batches = iter(run.batches)
        self._first = 0
        self._keys = Keys(np.empty(0, np.uint8), np.zeros(1, np.int64))
        self._part: Part | None = None

    def take_upto(self, bound: bytes) -> _Taken:
        """Take the rows with keys up to and including `bound`.

        If the last key of a batch may continue in the next one, that batch is read too, so the
        current batch is used up only at the end of the run.
        """
        taken = []
        while not self.is_done:
            end = self._end(bound)
            if end > self._first:
                taken.append((self._keys.part(self._first, end), self._slice(self._first, end)))
                self._first = end
            if end < len(self._keys) or not self.advance():
                break
        return taken

    def advance(self) -> bool:
        """Move to the next batch that has rows; return False at the end of the run."""
        batch = next((batch for batch in self._batches if batch.num_rows), None)
        if batch is None:
            self.is_done = True
            return False
        before, started = self.last_key, self._part is not None
        self._part = to_part(batch, self._schema, self.run, self._key)
        self._keys = Keys(*key_bytes(batch.column(self._key), self.run.name))
        self._first = 0
        if started and self._keys.key(0) < before:
            raise _descends(self.run, before, self._keys.key(0))
        self.last_key = self._keys.key(len(self._keys) - 1)
        return True

    def _end(self, bound: bytes) -> int:
        if self.last_key <= bound:
            return len(self._keys)
        # The last key is known to be greater than the bound.
        rows = range(len(self._keys) - 1)
        return bisect_right(rows, bound, lo=self._first, key=self._keys.key)

    def _slice(self, start: int, end: int) -> Part:
        part = self._part
        assert part is not None
        flags = None if part.flags is None else part.flags[start:end]
        if flags is not None and not flags.any():
            flags = None
        rows = part.rows.slice(start, end - start)
        return replace(part, rows=rows, flags=flags)


def _pass_through(
    window: Sequence[tuple[_Cursor, _Taken]], key: str, *, keep_deletes: bool
) -> pa.RecordBatch | None:
    """Return a window of one run unchanged if no key needs folding, otherwise None."""
    if len(window) != 1 or len(window[0][1]) != 1:
        return None
    part = window[0][1][0][1]
    deleted = None if part.flags is None else np.flatnonzero(part.flags & DELETED)
    if keep_deletes and deleted is not None and len(deleted):
        return None
    keys = part.rows.column(key)
    ascends = pc.all(pc.less(keys.slice(0, len(keys) - 1), keys.slice(1)))
    if ascends.is_valid and not ascends.as_py():
        return None
    if keep_deletes:
        return with_flags(part.rows, part.flags)
    if part.flags is None:
        return part.rows
    return part.rows.take(int64_array(np.flatnonzero(part.flags & DELETED == 0)))


def _side_by_side(
    window: Sequence[tuple[_Cursor, _Taken]], rule: MergeRule, *, keep_deletes: bool
) -> pa.RecordBatch | None:
    """Return a window of partial runs with equal keys by combining their columns, otherwise None.

    This is the usual case when column groups of a table are joined.
    """
    if rule != MergeRule(key=rule.key) or any(len(taken) != 1 for _, taken in window):
        return None
    if not all(cursor.run.partial and part.flags is None for cursor, ((_, part),) in window):
        return None
    parts = [part for _, ((_, part),) in window]
    keys = parts[0].rows.column(rule.key)
    if not all(part.rows.column(rule.key).equals(keys) for part in parts[1:]):
        return None
    ascends = pc.all(pc.less(keys.slice(0, len(keys) - 1), keys.slice(1)))
    if ascends.is_valid and not ascends.as_py():
        return None
    columns = []
    for name in parts[0].rows.schema.names:
        holder = next((part for part in reversed(parts) if name not in part.lacks), parts[0])
        columns.append(holder.rows.column(name))
    rows = pa.RecordBatch.from_arrays(columns, schema=parts[0].rows.schema)
    return with_flags(rows, None) if keep_deletes else rows


def _merge_window(
    window: Sequence[tuple[_Cursor, _Taken]], rule: MergeRule, *, fold: bool, keep_deletes: bool
) -> pa.RecordBatch:
    parts = [part for _, taken in window for _, part in taken]
    kernel = tree.use_kernel(sum(part.rows.num_rows for part in parts))
    order = order_keys([[keys for keys, _ in taken] for _, taken in window], kernel=kernel)
    if order.descends >= 0:
        raise _find_descending(window, order.descends)
    if not fold:
        return every_version(parts, order)
    order = set_apart(order, [(part.rows.num_rows, part.repeats) for part in parts])
    return resolve(parts, order, rule, keep_deletes=keep_deletes, kernel=kernel)


def _find_descending(window: Sequence[tuple[_Cursor, _Taken]], row: int) -> CorruptError:
    for cursor, taken in window:
        keys = [keys.key(at) for keys, _ in taken for at in range(len(keys))]
        if row < len(keys):
            return _descends(cursor.run, keys[row - 1], keys[row])
        row -= len(keys)
    raise AssertionError(f"row {row} is beyond the window")


def _descends(run: Run, before: bytes, key: bytes) -> CorruptError:
    return CorruptError(
        f"{run.name}: key {key!r} comes after {before!r}, but the run is marked as sorted"
    )
