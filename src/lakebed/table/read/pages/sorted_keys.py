"""Finds a few keys in the sorted key column of a run, and the rows that hold them."""

from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import CorruptError

FirstKeys = tuple[list[bytes], bytes | None]
"""The first key of each row group, and the last key of the file, if it is recorded."""

Place = tuple[str, str, int, int]
"""Part of a column chunk: file, column, row group and first row."""


class HeldColumns:
    """A cache of parts of columns, up to `max_bytes`; the least recently used are evicted first."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._held: OrderedDict[Place, pa.Array] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()

    @property
    def size_bytes(self) -> int:
        """Return how many bytes the cache holds."""
        return self._bytes

    def get(self, place: Place) -> pa.Array | None:
        """Return the part at `place`; None if it is not held."""
        with self._lock:
            held = self._held.get(place)
            if held is not None:
                self._held.move_to_end(place)
            return held

    def put(self, place: Place, column: pa.Array) -> None:
        """Add a part, and evict others if the cache exceeds its limit."""
        size = column.nbytes
        with self._lock:
            if place not in self._held:
                self._held[place] = column
                self._bytes += size
            while self._bytes > self._max_bytes:
                self._bytes -= self._held.popitem(last=False)[1].nbytes


@dataclass(frozen=True, slots=True)
class PageStarts:
    """The pages of a row group's key column: their first rows, ending with the number of rows.

    `lows` are their smallest keys according to their headers, empty for a single page.
    """

    rows: tuple[int, ...]
    lows: tuple[bytes, ...] = ()

    def holding(self, key: bytes) -> int:
        """Return the page that holds the first key not below `key`, or the one before it."""
        return max(0, bisect_left(self.lows, key) - 1)


@dataclass(frozen=True, slots=True)
class KeyPages:
    """The ascending keys of a row group, page by page, as bytes.

    `read` returns the keys of a page, or None if they are not available.
    """

    starts: PageStarts
    read: Callable[[int], pa.BinaryArray | None]

    def first_row(self, key: bytes, page: int, *, after: bool = False) -> tuple[int, int] | None:
        """Return the first row whose key is not below `key`, and the page that was read last.

        With `after`, the key must be above `key`. Returns None if a page is not available. The
        search begins at `page`, and reads neighbouring pages until keys on both sides confirm the
        result: statistics in page headers are not protected by a checksum.
        """
        low, high = 0, len(self.starts.rows) - 1
        while low < high:
            page = min(max(page, low), high - 1)
            keys = self.read(page)
            if keys is None:
                return None
            first, last = keys[0].as_py(), keys[-1].as_py()
            if last < key or (after and last == key):
                low = page = page + 1
            elif first > key or (first == key and not after):
                high = page
                page -= 1
            else:
                find = bisect_right if after else bisect_left
                row = find(range(len(keys)), key, key=lambda at: keys[at].as_py())
                return self.starts.rows[page] + row, page
        return self.starts.rows[low], min(low, len(self.starts.rows) - 2)


class KeyColumn(Protocol):
    """A file whose key column can be searched: an open file, or a footer with cached key pages."""

    @property
    def key_values(self) -> Mapping[str, str]:
        """Return the footer's entries."""

    @property
    def schema(self) -> pa.Schema:
        """Return the columns of the file."""

    @property
    def num_row_groups(self) -> int:
        """Return the number of row groups."""

    @property
    def first_keys(self) -> dict[str, FirstKeys | None]:
        """Return what is known of the first keys of row groups, by column; callers add to it."""

    def key_pages(self, column: str, group: int) -> KeyPages | None:
        """Return the ascending keys of a row group; None if they cannot be searched."""

    def column_page(self, column: str, group: int, first: int, stop: int) -> pa.Array | None:
        """Return the values of one page of another column; None if they are not available."""


@dataclass(frozen=True, slots=True)
class RowSpan:
    """The rows of a row group from `start` up to, but not including, `stop`."""

    group: int
    start: int
    stop: int


def spans_of(pages: KeyPages, wanted: Collection[bytes], group: int) -> list[RowSpan] | None:
    """Return the rows of a row group that hold one of `wanted`, in the order of `wanted`.

    Returns None if a page of keys is not available.
    """
    found: list[RowSpan] = []
    if not pages.starts.rows[-1]:
        return found
    for key in wanted:
        first = pages.first_row(key, pages.starts.holding(key))
        if first is None:
            return None
        start, page = first
        keys = pages.read(page)
        if keys is None:
            return None
        at = start - pages.starts.rows[page]
        if at == len(keys) or keys[at].as_py() != key:
            continue
        if at + 1 < len(keys) and keys[at + 1].as_py() != key:
            found.append(RowSpan(group, start, start + 1))
            continue
        after = pages.first_row(key, page, after=True)
        if after is None:
            return None
        found.append(RowSpan(group, start, after[0]))
    return found


def range_of(pages: KeyPages, low: bytes, end: bytes | None, group: int) -> RowSpan | None:
    """Return the rows of a row group from the key `low` to before `end`, which may be none.

    Returns None if a page of keys is not available.
    """
    if not pages.starts.rows[-1]:
        return RowSpan(group, 0, 0)
    first = pages.first_row(low, pages.starts.holding(low))
    if first is None:
        return None
    if end is None:
        return RowSpan(group, first[0], pages.starts.rows[-1])
    stop = pages.first_row(end, pages.starts.holding(end))
    return None if stop is None else RowSpan(group, first[0], stop[0])


def held_rows(
    file: KeyColumn, columns: Sequence[str], key: str, spans: Sequence[RowSpan]
) -> pa.RecordBatch | None:
    """Return rows from pages that are cached or, of an open file, are now added to the cache.

    The values of the column `key` are bytes. Returns None if a page is not available: the columns
    of a file may have different pages.
    """
    pieces: list[list[pa.Array]] = [[] for _ in columns]
    for span in spans:
        pages = file.key_pages(key, span.group)
        if pages is None:
            return None
        at = span.start
        while at < span.stop:
            page = bisect_right(pages.starts.rows, at) - 1
            first, stop = pages.starts.rows[page : page + 2]
            for column, found in zip(columns, pieces, strict=True):
                values = (
                    pages.read(page)
                    if column == key
                    else file.column_page(column, span.group, first, stop)
                )
                if values is None:
                    return None
                found.append(values.slice(at - first, span.stop - at))
            at = stop
    if not spans:
        return None
    arrays = [of[0] if len(of) == 1 else pa.concat_arrays(of) for of in pieces]
    return pa.RecordBatch.from_arrays(arrays, list(columns))


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
