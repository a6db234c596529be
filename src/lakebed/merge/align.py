"""Cut two streams of rows, both in ascending key order, into windows with the same range of keys.

A join of the streams then becomes a join of small batches, because a key in both streams is in one
window. One batch of each stream is in memory.
"""

from bisect import bisect_right
from collections.abc import Iterator

import pyarrow as pa


class SortedRows:
    """The batches of one stream and the rest of its current batch, which is initially `none`."""

    __slots__ = ("_batches", "_held", "_key")

    def __init__(self, batches: Iterator[pa.RecordBatch], key: str, none: pa.RecordBatch) -> None:
        self._batches = batches
        self._held = none
        self._key = key

    def last_key(self) -> str | None:
        """Return the last key of the current batch, reading the next if it is used up; or None."""
        while not self._held.num_rows:
            found = next(self._batches, None)
            if found is None:
                return None
            self._held = found
        last: str = self._held.column(self._key)[-1].as_py()
        return last

    def take(self, bound: str | None) -> pa.RecordBatch:
        """Return and consume the current batch's rows up to `bound`; all rows if it is None."""
        held = self._held
        count = held.num_rows if bound is None else rows_upto(held.column(self._key), bound)
        self._held = held.slice(count)
        return held.slice(0, count)


def rows_upto(keys: pa.StringArray, bound: str) -> int:
    """Return the number of ascending keys up to and including `bound`."""
    # Comparing code points is the same as comparing the bytes of UTF-8.
    return bisect_right(range(len(keys)), bound, key=lambda row: keys[row].as_py())


def align(
    one: Iterator[pa.RecordBatch], other: Iterator[pa.RecordBatch], key: str, schema: pa.Schema
) -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch]]:
    """Yield windows: the rows of each stream in one range of keys; one of the two may be empty.

    Both streams have the columns of `schema` and contain each key once, in ascending order of
    bytes.
    """
    empty = pa.RecordBatch.from_pylist([], schema=schema)
    left, right = SortedRows(one, key, empty), SortedRows(other, key, empty)
    while True:
        ends = [left.last_key(), right.last_key()]
        known = [end for end in ends if end is not None]
        if not known:
            return
        # Rows of one stream beyond the other's current batch may still match its next batch.
        bound = min(known) if len(known) == len(ends) else None
        yield left.take(bound), right.take(bound)
