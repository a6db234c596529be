"""Read a few keys only: which row groups can hold them, and which rows do.

Applied to every run of a slice alike, so that all versions of a key stay together and the
merge decides between them as ever.
"""

import json
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial, reduce
from itertools import pairwise
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import CorruptError
from lakebed.format.files.footer import FOOTER_IS_ORDERED, FOOTER_MAX_KEY, FOOTER_ROW_GROUP_KEYS
from lakebed.format.files.parquet_statistics import ChunkStatistics
from lakebed.format.names.meta_columns import RECORD_KEY
from lakebed.table.read.parquet_source import ParquetSource

_LAST_CHARACTER = "\U0010ffff"
_SURROGATES = range(0xD800, 0xE000)
# With fewer, reading the keys first and then all is no less work.
_MIN_COLUMNS_TO_LOOK = 8
_MAX_FEW = 32


@dataclass(frozen=True, slots=True)
class KeyFilter:
    """The record keys to read: these `keys`, and all that begin with one of `prefixes`.

    Both are sorted by their UTF-8 bytes, which is the order of Python's own text.
    """

    keys: tuple[str, ...] | None = None
    prefixes: tuple[str, ...] | None = None

    @classmethod
    def of(cls, keys: Sequence[str] | None = None, prefixes: Sequence[str] | None = None) -> Self:
        """Sort `keys` and `prefixes` and drop what comes twice."""
        return cls(
            None if keys is None else tuple(sorted(set(keys))),
            None if prefixes is None else tuple(sorted(set(prefixes))),
        )

    @property
    def is_few(self) -> bool:
        """Return whether it asks for a few keys, and for no prefix."""
        return not self.prefixes and len(self.keys or ()) <= _MAX_FEW

    def is_behind(self, key: str | None) -> bool:
        """Return whether no key that is asked for comes after `key`; only without prefixes."""
        return key is not None and (not self.keys or key > self.keys[-1])

    def mask(self, keys: pa.Array) -> pa.Array:
        """Return for each of `keys`, a column without nulls, whether it is asked for."""
        if not len(keys):
            return pa.array([], pa.bool_())
        ends = pc.min_max(keys)
        low, high = ends["min"].as_py(), ends["max"].as_py()
        # Of thousands of keys a sorted batch can hold a few: do not hash the others each time.
        wanted = self.keys or ()
        wanted = wanted[bisect_left(wanted, low) : bisect_right(wanted, high)]
        masks = [pc.is_in(keys, value_set=pa.array(wanted, pa.string()))]
        masks += [
            pc.starts_with(keys, prefix)
            for prefix in self.prefixes or ()
            if prefix <= high and (low < prefix or low.startswith(prefix))
        ]
        return reduce(pc.or_, masks)

    def row_groups(self, file: ParquetSource, what: str) -> list[int] | None:
        """Return the row groups of `file` that can hold a key; None if nothing is known of them.

        A sorted file of ours says where its row groups begin; for others the statistics of
        the key column serve. Keys are then looked for in that column alone: most runs of a
        slice hold few of its keys, and the other columns are the larger part of them.
        """
        if RECORD_KEY not in file.schema.names:
            return None
        groups = self._groups_in_range(file, what)
        if self.prefixes or len(file.schema) < _MIN_COLUMNS_TO_LOOK:
            return groups
        ordered = file.key_values.get(FOOTER_IS_ORDERED) == "true"
        if ordered and self.is_few:
            return file.row_groups_with(RECORD_KEY, groups, partial(self._is_found, what))
        return file.row_groups_with(RECORD_KEY, groups, self._is_in)

    def _is_in(self, keys: pa.ChunkedArray) -> bool:
        wanted = pa.array(self.keys or (), pa.string())
        return bool(pc.any(pc.is_in(keys, value_set=wanted), min_count=0).as_py())

    def _is_found(self, what: str, keys: pa.ChunkedArray) -> bool:
        """Look for the keys in a column that ascends; hashing all of it would take longer."""
        # Where it does not, as the file says, a search would miss keys without a word.
        check_ascending(keys, what)
        for key in self.keys or ():
            at = bisect_left(range(len(keys)), key, key=lambda row: keys[row].as_py())
            if at < len(keys) and keys[at].as_py() == key:
                return True
        return False

    def _groups_in_range(self, file: ParquetSource, what: str) -> list[int]:
        text = file.key_values.get(FOOTER_ROW_GROUP_KEYS)
        if text is not None and file.key_values.get(FOOTER_IS_ORDERED) == "true":
            firsts = _parse_first_keys(text, file.num_row_groups, what)
            return self._groups_between(firsts, file.key_values.get(FOOTER_MAX_KEY))
        return self._groups_by_statistics(file) if self.keys or self.prefixes else []

    def _groups_between(self, firsts: list[str], last: str | None) -> list[int]:
        found: set[int] = set()
        for low, end in self._ranges():
            if last is not None and low > last:
                continue
            # A key may end one row group and begin the next, so the one before counts too.
            start = max(0, bisect_left(firsts, low) - 1)
            if end is None:
                stop = len(firsts)
            else:
                stop = bisect_right(firsts, low) if end == low else bisect_left(firsts, end)
            found.update(range(start, stop))
        return sorted(found)

    def _groups_by_statistics(self, file: ParquetSource) -> list[int]:
        # As bytes: a bound that a writer cut short need not be text.
        keys = [key.encode() for key in self.keys or ()]
        ranges = [(prefix.encode(), _after(prefix)) for prefix in self.prefixes or ()]

        def may_hold(chunk: ChunkStatistics | None) -> bool:
            if chunk is None or chunk.lower is None or chunk.upper is None:
                return True
            lower, upper = chunk.lower, chunk.upper
            at = bisect_left(keys, lower)
            return (at < len(keys) and keys[at] <= upper) or any(
                low <= upper and (end is None or lower < end.encode()) for low, end in ranges
            )

        groups = file.statistics([RECORD_KEY])
        return [at for at, chunks in enumerate(groups) if may_hold(chunks.get(RECORD_KEY))]

    def _ranges(self) -> list[tuple[str, str | None]]:
        """Return ranges of keys; one that ends where it begins is that key alone."""
        single: list[tuple[str, str | None]] = [(key, key) for key in self.keys or ()]
        return single + [(prefix, _after(prefix)) for prefix in self.prefixes or ()]


def check_ascending(keys: pa.Array | pa.ChunkedArray, what: str) -> None:
    """Reject keys that descend somewhere."""
    if len(keys) < 2:
        return
    rises = pc.less_equal(keys.slice(0, len(keys) - 1), keys.slice(1))
    if pc.all(rises, min_count=0).as_py() is False:
        at = pc.index(rises, pa.scalar(False)).as_py()
        before, found = keys[at].as_py(), keys[at + 1].as_py()
        raise CorruptError(
            f"{what}: key {found!r} comes after {before!r}, but the run is marked as sorted"
        )


def _after(prefix: str) -> str | None:
    """Return the least text above everything that begins with `prefix`; None if there is none."""
    stem = prefix.rstrip(_LAST_CHARACTER)
    if not stem:
        return None
    code = ord(stem[-1]) + 1
    # Half a surrogate pair is no text; the next character stands behind all of them.
    return stem[:-1] + chr(_SURROGATES.stop if code in _SURROGATES else code)


def _parse_first_keys(text: str, count: int, what: str) -> list[str]:
    try:
        firsts = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CorruptError(f"{what}: {FOOTER_ROW_GROUP_KEYS} is no JSON ({error})") from error
    if not isinstance(firsts, list) or not all(isinstance(key, str) for key in firsts):
        raise CorruptError(f"{what}: {FOOTER_ROW_GROUP_KEYS} is no list of keys")
    if len(firsts) != count:
        raise CorruptError(
            f"{what}: {FOOTER_ROW_GROUP_KEYS} has {len(firsts)} keys for {count} row groups"
        )
    for low, high in pairwise(firsts):
        if low > high:
            raise CorruptError(f"{what}: {FOOTER_ROW_GROUP_KEYS} has {high!r} after {low!r}")
    return firsts
