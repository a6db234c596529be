"""Reads only some keys: finds the row groups that can hold them, and the rows that do.

The filter is applied to every run of a slice alike, so that all versions of a key stay together and
the merge decides between them as usual.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import CorruptError
from lakebed.format.files.footer import (
    FOOTER_MAX_KEY,
    FOOTER_ROW_GROUP_KEY_BYTES,
    FOOTER_ROW_GROUP_KEYS,
    parse_row_group_key_bytes,
    parse_row_group_keys,
    sorted_by,
)
from lakebed.format.files.parquet_statistics import ChunkStatistics
from lakebed.format.index.ordered_bytes import after_prefix
from lakebed.format.names.meta_columns import RECORD_KEY
from lakebed.table.read.pages.sorted_keys import FirstKeys, KeyColumn, RowSpan, range_of, spans_of
from lakebed.table.read.parquet_source import ParquetSource

# With fewer columns, reading the keys first and the other columns later saves nothing.
_MIN_COLUMNS_TO_LOOK = 8
_MAX_FEW = 32
# A range that extends over more row groups has so many rows that searching for its ends is useless.
_GROUPS_PER_RANGE = 3

Key = str | bytes
Range = tuple[bytes, bytes | None]


@dataclass(frozen=True, slots=True)
class KeyFilter:
    """The keys to read: these `keys`, and all keys within one of `ranges`.

    A range includes its first key and excludes its second, or is open-ended if that is None. Keys
    and ranges are sorted bytes, UTF-8 for strings. `column` is the column that holds the keys.
    `decodes` is set if row groups with some of the keys are decoded whole: for keys that a predicate
    has found, which are spread over a file, that takes less than a search for each.
    """

    keys: tuple[bytes, ...] | None = None
    ranges: tuple[Range, ...] = ()
    column: str = RECORD_KEY
    decodes: bool = False

    @classmethod
    def of(
        cls,
        keys: Iterable[Key] | None = None,
        prefixes: Iterable[Key] = (),
        ranges: Iterable[tuple[Key, Key | None]] = (),
        column: str = RECORD_KEY,
    ) -> Self:
        """Return a filter for `keys`, all keys with one of `prefixes`, and all keys in `ranges`."""
        spans = {(start, after_prefix(start)) for start in map(_to_bytes, prefixes)}
        spans |= {(_to_bytes(low), None if end is None else _to_bytes(end)) for low, end in ranges}
        filled = [(low, end) for low, end in spans if end is None or low < end]
        return cls(
            None if keys is None else tuple(sorted(set(map(_to_bytes, keys)))),
            tuple(sorted(filled, key=lambda span: (span[0], span[1] is None, span[1] or b""))),
            column,
        )

    @property
    def is_exact(self) -> bool:
        """Return whether the filter lists its keys and has no range."""
        return self.keys is not None and not self.ranges

    @property
    def is_few(self) -> bool:
        """Return whether the filter requests only a few keys and no range."""
        return not (self.ranges or self.decodes) and len(self.keys or ()) <= _MAX_FEW

    def is_behind(self, key: pa.Scalar) -> bool:
        """Return whether no requested key comes after `key`; for filters without ranges."""
        return key.is_valid and (not self.keys or _as_bytes(key).as_py() > self.keys[-1])

    def mask(self, keys: pa.Array) -> pa.Array:
        """Return a mask of the requested keys among `keys`, which contain no nulls."""
        if not len(keys):
            return pa.array([], pa.bool_())
        keys = _as_bytes(keys)
        wanted, low, high = self._wanted_of(keys)
        masks = [pc.is_in(keys, value_set=wanted)]
        masks += [
            _is_between(keys, start, end)
            for start, end in self.ranges
            if start <= high and (end is None or low < end)
        ]
        return reduce(pc.or_, masks)

    def _wanted_of(self, keys: pa.BinaryArray) -> tuple[pa.BinaryArray, bytes, bytes]:
        """Return the requested keys between a column's smallest and greatest key, and these two.

        A sorted batch can hold only a few of thousands of keys: the others are not hashed each
        time.
        """
        ends = pc.min_max(keys)
        low, high = ends["min"].as_py(), ends["max"].as_py()
        wanted = self.keys or ()
        wanted = wanted[bisect_left(wanted, low) : bisect_right(wanted, high)]
        return pa.array(wanted, pa.binary()), low, high

    def spans(self, file: KeyColumn, what: str) -> list[RowSpan] | None:
        """Return the rows of a sorted file that hold one of a few keys, in file order.

        Returns None if they cannot be found by the key column alone; then read the row groups.
        """
        if not self.is_few:
            return None
        # Without further columns, reading the keys first saves nothing.
        if len(file.schema) < _MIN_COLUMNS_TO_LOOK or self.column not in file.schema.names:
            return None
        known = first_keys(file, self.column, what)
        if known is None:
            return None
        firsts, last = known
        wanted = self.keys or ()
        found: list[RowSpan] = []
        for group in self._groups_between(firsts, last):
            pages = file.key_pages(self.column, group)
            low = bisect_left(wanted, firsts[group])
            # A key may end one row group and start the next.
            high = len(wanted)
            if group + 1 < len(firsts):
                high = bisect_right(wanted, firsts[group + 1])
            spans = None if pages is None else spans_of(pages, wanted[low:high], group)
            if spans is None:
                return None
            found += spans
        return found

    def rows_in_ranges(self, file: KeyColumn, what: str) -> list[RowSpan] | None:
        """Return the rows of a sorted file in one of the filter's ranges, in file order.

        Returns None if they cannot be found by the key column alone, or are many.
        """
        known = first_keys(file, self.column, what)
        if known is None or len(self.ranges) > _MAX_FEW:
            return None
        groups = self._groups_between(*known)
        if len(groups) > _GROUPS_PER_RANGE * len(self.ranges):
            return None
        found: list[RowSpan] = []
        for group in groups:
            pages = file.key_pages(self.column, group)
            if pages is None:
                return None
            done = 0
            for low, end in self.ranges:
                span = range_of(pages, low, end, group)
                if span is None:
                    return None
                # One range may contain the next.
                if span.stop > max(span.start, done):
                    found.append(RowSpan(group, max(span.start, done), span.stop))
                    done = span.stop
        return found

    def row_groups(
        self, file: ParquetSource, what: str, *, alone: bool = False
    ) -> list[int] | None:
        """Return the row groups of `file` that can hold a key; None if this is unknown.

        Our sorted files record where their row groups start; for others the statistics of the key
        column are used. Candidates are then searched in that column alone: most runs of a slice
        hold few of its keys, and the other columns make up most of their bytes. This search is
        omitted if the key column is read `alone`.
        """
        if self.column not in file.schema.names:
            return None
        groups = self._groups_in_range(file, what)
        if alone or self.ranges or self.decodes or len(file.schema) < _MIN_COLUMNS_TO_LOOK:
            return groups
        return file.row_groups_with(self.column, groups, self._is_in)

    def _is_in(self, keys: pa.Array) -> bool:
        if not len(keys):
            return False
        keys = _as_bytes(keys)
        wanted, _, _ = self._wanted_of(keys)
        return bool(pc.any(pc.is_in(keys, value_set=wanted), min_count=0).as_py())

    def _groups_in_range(self, file: ParquetSource, what: str) -> list[int]:
        known = first_keys(file, self.column, what)
        if known is not None:
            return self._groups_between(*known)
        return self._groups_by_statistics(file) if self.keys or self.ranges else []

    def _groups_between(self, firsts: list[bytes], last: bytes | None) -> list[int]:
        keys = self.keys or ()
        found = set[int]()
        if len(keys) > len(firsts):
            found.update(_groups_with(keys, firsts, last))
            keys = ()
        # A range that ends where it starts means that key alone.
        for low, end in [*((key, key) for key in keys), *self.ranges]:
            if last is not None and low > last:
                continue
            # A key may end one row group and start the next, so the previous row group is included
            # too.
            start = max(0, bisect_left(firsts, low) - 1)
            if end is None:
                stop = len(firsts)
            else:
                stop = bisect_right(firsts, low) if end == low else bisect_left(firsts, end)
            found.update(range(start, stop))
        return sorted(found)

    def _groups_by_statistics(self, file: ParquetSource) -> list[int]:
        keys = self.keys or ()

        def may_hold(chunk: ChunkStatistics | None) -> bool:
            if chunk is None or chunk.lower is None or chunk.upper is None:
                return True
            lower, upper = chunk.lower, chunk.upper
            at = bisect_left(keys, lower)
            return (at < len(keys) and keys[at] <= upper) or any(
                low <= upper and (end is None or lower < end) for low, end in self.ranges
            )

        groups = file.statistics([self.column])
        return [at for at, chunks in enumerate(groups) if may_hold(chunks.get(self.column))]


def _groups_with(
    keys: Sequence[bytes], firsts: Sequence[bytes], last: bytes | None
) -> Iterator[int]:
    """Yield the row groups that may hold one of `keys`, which ascend and outnumber the row groups.

    A key may end one row group and start the next.
    """
    for group, (low, high) in enumerate(zip(firsts, [*firsts[1:], last], strict=False)):
        at = bisect_left(keys, low)
        if at < len(keys) and (high is None or keys[at] <= high):
            yield group


def _to_bytes(key: Key) -> bytes:
    return key.encode() if isinstance(key, str) else key


def _as_bytes(
    keys: pa.Array | pa.ChunkedArray | pa.Scalar,
) -> pa.Array | pa.ChunkedArray | pa.Scalar:
    """View strings as their bytes, without a copy."""
    return keys.cast(pa.binary())


def _is_between(keys: pa.Array, low: bytes, end: bytes | None) -> pa.BooleanArray:
    begun = pc.greater_equal(keys, pa.scalar(low, pa.binary()))
    return begun if end is None else pc.and_(begun, pc.less(keys, pa.scalar(end, pa.binary())))


def _listed_keys(text: str, entry: str, what: str) -> list[bytes]:
    """Return the ascending keys of a footer's entry."""
    if entry == FOOTER_ROW_GROUP_KEYS:
        listed = [key.encode() for key in parse_row_group_keys(text, what)]
    else:
        listed = parse_row_group_key_bytes(text, what)
    for low, high in pairwise(listed):
        if low > high:
            raise CorruptError(f"{what}: {entry} has {high!r} after {low!r}")
    return listed


def first_keys(file: KeyColumn, column: str, what: str) -> FirstKeys | None:
    """Return the first key of each row group, and the last key, of a file sorted by `column`.

    Returns None if the file is not sorted or does not record the keys; the last key is None if it
    is not recorded.
    """
    if column in file.first_keys:
        return file.first_keys[column]
    found = file.first_keys[column] = _first_keys(file, column, what)
    return found


def _first_keys(file: KeyColumn, column: str, what: str) -> FirstKeys | None:
    if sorted_by(file.key_values) != column:
        return None
    entry = FOOTER_ROW_GROUP_KEYS if column == RECORD_KEY else FOOTER_ROW_GROUP_KEY_BYTES
    text = file.key_values.get(entry)
    if text is None:
        return None
    last: bytes | None
    firsts = _listed_keys(text, entry, what)
    if column == RECORD_KEY:
        told = file.key_values.get(FOOTER_MAX_KEY)
        last = None if told is None else told.encode()
    else:
        *firsts, last = firsts or [b""]
    if len(firsts) != file.num_row_groups:
        raise CorruptError(
            f"{what}: {entry} has {len(firsts)} keys for {file.num_row_groups} row groups"
        )
    return firsts, last
