"""Merge sorted runs as a stream: one batch per run in memory, whatever their length.

A window is everything up to the smallest last key among the current batches: no run
can still bring a smaller key, so the window can be ordered and given out. Runs come
oldest first, each strictly ascending by key.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Self

import pyarrow as pa

from lakebed.errors import CorruptError
from lakebed.format.meta_columns import RECORD_KEY
from lakebed.merge.order import MergeRule, sort_rows


@dataclass(frozen=True, slots=True)
class Run:
    """A source of batches in strictly ascending key order, and what to call it in errors."""

    name: str
    batches: Iterable[pa.RecordBatch]


def merge_runs(runs: Sequence[Run], rule: MergeRule) -> Iterator[pa.RecordBatch]:
    """Yield the rows of all runs in ascending key order, each key once.

    All runs have one schema. Equal keys are resolved by `rule`, with `runs` in order
    of arrival.
    """
    cursors = [cursor for run in runs if (cursor := _Cursor.start(run)) is not None]
    while len(cursors) > 1:
        bound = min(cursor.last_key for cursor in cursors)
        parts = [part for cursor in cursors if (part := cursor.take_upto(bound)).num_rows]
        yield parts[0] if len(parts) == 1 else sort_rows(pa.concat_batches(parts), rule)
        cursors = [cursor for cursor in cursors if cursor.advance()]
    for cursor in cursors:
        yield from cursor.rest()


class _Cursor:
    """A place in one run: the current batch, of which the first `taken` rows are given out."""

    __slots__ = ("_batch", "_batches", "_keys", "_taken", "last_key", "name")

    def __init__(self, name: str, batches: Iterator[pa.RecordBatch], first: pa.RecordBatch) -> None:
        self.name = name
        self._batches = batches
        self._taken = 0
        self.last_key = b""
        self._load(first)

    @classmethod
    def start(cls, run: Run) -> Self | None:
        """Stand before the first row of `run`; None if it has no rows."""
        batches = iter(run.batches)
        first = next((batch for batch in batches if batch.num_rows), None)
        return None if first is None else cls(run.name, batches, first)

    def take_upto(self, bound: bytes) -> pa.RecordBatch:
        """Take the rows with keys up to and including `bound`."""
        if self.last_key <= bound:
            end = self._batch.num_rows
        else:
            end = bisect_right(range(self._batch.num_rows), bound, lo=self._taken, key=self._key)
        part = self._batch.slice(self._taken, end - self._taken)
        self._taken = end
        return part

    def advance(self) -> bool:
        """Move on to the next batch if this one is used up; False at the end of the run."""
        while self._taken == self._batch.num_rows:
            following = next(self._batches, None)
            if following is None:
                return False
            if following.num_rows:
                self._load(following)
        return True

    def rest(self) -> Iterator[pa.RecordBatch]:
        """Yield what is left of the run as it comes."""
        while self.advance():
            yield self.take_upto(self.last_key)

    def _load(self, batch: pa.RecordBatch) -> None:
        self._batch = batch
        self._keys = batch.column(RECORD_KEY)
        self._taken = 0
        if self._key(0) <= self.last_key and self.last_key:
            raise CorruptError(
                f"{self.name}: key {self._key(0)!r} comes after {self.last_key!r}, "
                "but the run is marked as sorted"
            )
        self.last_key = self._key(batch.num_rows - 1)

    def _key(self, row: int) -> bytes:
        return bytes(self._keys[row].as_buffer())
