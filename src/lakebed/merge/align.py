"""Two streams of rows, both in ascending order of key, cut into windows of the same keys.

A join of the two is then one of small batches: a key that both streams hold is in one window.
Memory is a batch of each.
"""

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc


class _Stream:
    """The batches of one stream, and what is left of the one at hand."""

    __slots__ = ("_batches", "_held", "_key", "_none")

    def __init__(self, batches: Iterator[pa.RecordBatch], key: str, none: pa.RecordBatch) -> None:
        self._batches = batches
        self._held = self._none = none
        self._key = key

    def last_key(self) -> str | None:
        """Give the last key at hand, of the next batch where nothing is; None at the end."""
        while not self._held.num_rows:
            found = next(self._batches, None)
            if found is None:
                return None
            self._held = found
        last: str = self._held.column(self._key)[-1].as_py()
        return last

    def take(self, bound: str | None) -> pa.RecordBatch:
        """Give what is at hand up to `bound`, and all of it without one."""
        held = self._held
        count = held.num_rows
        if bound is not None and count:
            count = pc.sum(pc.less_equal(held.column(self._key), bound)).as_py()
        self._held = held.slice(count)
        return held.slice(0, count) if count else self._none


def align(
    one: Iterator[pa.RecordBatch], other: Iterator[pa.RecordBatch], key: str, schema: pa.Schema
) -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch]]:
    """Yield windows: the rows of both streams in one range of keys, either of which may be empty.

    Both have the columns of `schema` and each key once, in ascending order of its bytes.
    """
    empty = pa.RecordBatch.from_pylist([], schema=schema)
    left, right = _Stream(one, key, empty), _Stream(other, key, empty)
    while True:
        ends = [left.last_key(), right.last_key()]
        known = [end for end in ends if end is not None]
        if not known:
            return
        # What one stream has beyond the other's batch may still meet its next one. Python orders
        # text as its UTF-8 bytes are ordered.
        bound = min(known) if len(known) == len(ends) else None
        yield left.take(bound), right.take(bound)
