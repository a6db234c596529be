"""Finds a few keys in the sorted key column of a run, and the rows that hold them."""

from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import CorruptError

Place = tuple[str, str, int]
"""A column chunk: file, column and row group."""


class HeldColumns:
    """A cache of column chunks, up to `max_bytes`; the least recently used are evicted first."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._held: OrderedDict[Place, pa.Array] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()

    def get(self, place: Place) -> pa.Array | None:
        """Return the chunk at `place`; None if it is not held."""
        with self._lock:
            if place in self._held:
                self._held.move_to_end(place)
            return self._held.get(place)

    def put(self, place: Place, column: pa.Array) -> None:
        """Add a chunk, and evict others if the cache exceeds its limit."""
        with self._lock:
            if place not in self._held:
                self._held[place] = column
                self._bytes += column.nbytes
            while self._bytes > self._max_bytes:
                self._bytes -= self._held.popitem(last=False)[1].nbytes


class KeyColumn(Protocol):
    """A file whose key column can be searched: an open file, or a footer with cached key chunks."""

    @property
    def key_values(self) -> Mapping[str, str]:
        """Return the footer's entries."""

    @property
    def schema(self) -> pa.Schema:
        """Return the columns of the file."""

    @property
    def num_row_groups(self) -> int:
        """Return the number of row groups."""

    def sorted_keys(self, column: str, group: int) -> pa.BinaryArray | None:
        """Return the ascending keys of a row group as bytes; None if they are not available."""


@dataclass(frozen=True, slots=True)
class RowSpan:
    """The rows of a row group from `start` up to, but not including, `stop`."""

    group: int
    start: int
    stop: int


def spans_of(keys: pa.BinaryArray, wanted: Collection[bytes], group: int) -> Iterator[RowSpan]:
    """Yield the rows of a row group that hold one of `wanted`, which ascend as `keys` do."""
    rows = range(len(keys))
    for key in wanted:
        start = bisect_left(rows, key, key=lambda row: keys[row].as_py())
        if start < len(keys) and keys[start].as_py() == key:
            stop = bisect_right(rows, key, lo=start, key=lambda row: keys[row].as_py())
            yield RowSpan(group, start, stop)


def check_ascending(keys: pa.Array | pa.ChunkedArray, what: str) -> None:
    """Raise CorruptError if keys are not in ascending order."""
    if len(keys) < 2:
        return
    rises = pc.less_equal(keys.slice(0, len(keys) - 1), keys.slice(1))
    if pc.all(rises, min_count=0).as_py() is False:
        at = pc.index(rises, pa.scalar(False)).as_py()
        before, found = keys[at].as_py(), keys[at + 1].as_py()
        raise CorruptError(
            f"{what}: key {found!r} comes after {before!r}, but the run is marked as sorted"
        )


def cut_rows(
    batches: Iterator[pa.RecordBatch], spans: Sequence[tuple[int, int]], what: str
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of `spans`; batches after the last span are not read."""
    at, last = 0, max(stop for _, stop in spans)
    for batch in batches:
        for start, stop in spans:
            low, high = max(start, at), min(stop, at + batch.num_rows)
            if low < high:
                yield batch.slice(low - at, high - low)
        at += batch.num_rows
        if at >= last:
            return
    raise CorruptError(f"{what}: expected {last} rows, found {at}: a page is damaged")
