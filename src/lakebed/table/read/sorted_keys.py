"""Finds a few keys in the sorted key column of a run, and the rows that hold them."""

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import CorruptError


class KeyColumn(Protocol):
    """A file whose key column can be searched, from its footer and the chunks of the column."""

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
    """The rows of a row group from `start` to before `stop`."""

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
