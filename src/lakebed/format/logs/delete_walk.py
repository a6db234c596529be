"""Find the records of a delete block without a loop over them.

Every record begins with the byte 2, the branch of a key that is there. So every byte 2 is parsed
as if a record began there, all at once; the records are those that the first one leads to, from
each to the byte behind it. `delete_block` shows the bytes.

Only plain forms are taken: a key, one list, ordering values of known branches. What is left over,
and all that is broken, is for `parse_delete_block`, which says what is wrong with it.
"""

from dataclasses import dataclass, fields
from typing import Final, Self

import numpy as np

from lakebed.format.avro.avro_columns import Bytes, Flags, Longs, read_longs

_KEY: Final = 2
_ARRAY: Final = 12
_MAX_FIELDS: Final = 16
_CHUNK: Final = 512 << 10
_MAX_CHUNK: Final = 16 * _CHUNK
"""One record must fit; the parse of a chunk takes many times its size."""

_SIZED: Final = 100
_NUMBER: Final = 101
# By branch: bytes of its value, or how to find out.
_WIDTHS: Final = np.array(
    [0, 1, _NUMBER, _NUMBER, 4, 8, _SIZED, _SIZED, _NUMBER, _SIZED, _NUMBER, _NUMBER, _NUMBER]
)


@dataclass(frozen=True, slots=True)
class Items:
    """One ordering value of each record: its branch (0 for null), number or bytes."""

    branch: Longs
    number: Longs  # of a branch that is a number
    start: Longs
    end: Longs
    ok: Flags

    @classmethod
    def read(cls, data: Bytes, at: Longs) -> Self:
        """Read a value at each place."""
        tag = data.take(at, mode="clip").astype(np.int64)
        known = (tag & 1 == 0) & (tag >> 1 < len(_WIDTHS))
        branch = np.where(known, tag >> 1, 0)
        width = _WIDTHS[branch]
        number, after, number_ok = read_longs(data, at + 1)
        start = np.where(width == _SIZED, after, at + 1)
        plain = width < _SIZED
        end = np.where(plain, start + width, after)
        # A length beyond the data must not wrap around when it is added.
        length = np.where((number < 0) | (number > len(data)), len(data) + 1, number)
        end = np.where(width == _SIZED, after + length, end)
        ok = (at < len(data)) & known & (plain | number_ok) & (end <= len(data))
        return cls(branch, number, start, end, ok)


@dataclass(frozen=True, slots=True)
class Records:
    """Places in the bytes of a block; `part_start` is -1 where there is no partition path."""

    key_start: Longs
    key_end: Longs
    part_start: Longs
    part_end: Longs
    ordering: Longs
    end: Longs

    def take(self, rows: Longs | Flags, shift: int = 0) -> "Records":
        """Return some of the records, with `shift` added to their places."""
        moved = [getattr(self, f.name)[rows] + shift for f in fields(self)]
        moved[2][moved[2] < shift] = -1
        return Records(*moved)

    @staticmethod
    def concat(parts: "list[Records]") -> "Records":
        """Put parts behind one another."""
        columns = zip(*[[getattr(p, f.name) for f in fields(p)] for p in parts], strict=True)
        return Records(*[np.concatenate(column) for column in columns])


@dataclass(frozen=True, slots=True)
class Orderings:
    """The ordering values of each record: how many, in an array or alone, and field by field."""

    is_array: Flags
    count: Longs
    items: list[Items]
    end: Longs
    ok: Flags


def walk_records(data: Bytes, at: int, count: int) -> Records | None:
    """Find `count` records from `at` on; None unless all are plain and nothing is left over."""
    parts: list[Records] = []
    found, chunk = 0, _CHUNK
    while found < count:
        window = data[at : at + chunk]
        part = _walk_window(window) if len(window) else None
        if part is None:
            if at + chunk >= len(data) or chunk >= _MAX_CHUNK:
                return None
            chunk *= 2
            continue
        part = part.take(np.arange(min(len(part.end), count - found)), at)
        parts.append(part)
        found += len(part.end)
        at, chunk = int(part.end[-1]), _CHUNK
    ends_list = at == len(data) - 1 and data[at] == 0
    return Records.concat(parts) if ends_list and parts else None


def _walk_window(data: Bytes) -> Records | None:
    """Find the records that follow one another from the first byte; None if there is none."""
    records = _parse_candidates(data, np.flatnonzero(data == _KEY))
    starts = records[0]
    places = records[1]
    if not len(starts) or starts[0] != 0:
        return None
    # To the candidate that begins where each one ends; the last number is for "none does".
    none = len(starts)
    index = np.full(len(data) + 1, none, dtype=np.int64)
    index[starts] = np.arange(none)
    jump = np.append(index[places.end], none)
    # The first 2^k records, and the jump over 2^k of them, give twice as many.
    chain = np.zeros(1, dtype=np.int64)
    while chain[-1] != none:
        chain = np.concatenate([chain, jump[chain]])
        jump = jump[jump]
    return places.take(chain[chain != none])


def _parse_candidates(data: Bytes, at: Longs) -> tuple[Longs, Records]:
    """Parse a record at each place; give the places and forms of those that hold one."""
    key_length, key_start, ok = read_longs(data, at + 1)
    ok &= (key_length >= 0) & (key_length < len(data))
    at, key_start = at[ok], key_start[ok]
    key_end = key_start + key_length[ok]
    tag = data.take(key_end, mode="clip")
    length, part_start, ok = read_longs(data, key_end + 1)
    absent = tag == 0
    ok = (key_end < len(data)) & (
        absent | (ok & (tag == _KEY) & (length >= 0) & (length < len(data)))
    )
    part_end = np.where(absent, key_end + 1, part_start + np.where(ok, length, 0))
    records = Records(
        key_start, key_end, np.where(absent, -1, part_start), part_end, part_end, part_end
    ).take(ok)
    at = at[ok]
    orderings = read_orderings(data, records.ordering)
    ends = Records(
        records.key_start,
        records.key_end,
        records.part_start,
        records.part_end,
        records.ordering,
        orderings.end,
    )
    return at[orderings.ok], ends.take(orderings.ok)


def read_orderings(data: Bytes, at: Longs) -> Orderings:
    """Read the ordering values at each place."""
    first = Items.read(data, at)
    is_array = (first.branch == _ARRAY) & (at < len(data))
    if not is_array.any():
        return Orderings(is_array, np.ones(len(at), dtype=np.int64), [first], first.end, first.ok)
    null_array = is_array & (data.take(at + 1, mode="clip") == 0)
    count, cursor, count_ok = read_longs(data, at + 2)
    count_ok &= (data.take(at + 1, mode="clip") == _KEY) & (count >= 0) & (count <= _MAX_FIELDS)
    in_array = is_array & ~null_array
    ok = np.where(in_array, count_ok, np.where(null_array, at + 1 < len(data), first.ok))
    count = np.where(in_array & count_ok, count, 1)
    cursor = np.where(in_array, cursor, at)
    items = []
    for number in range(int(count.max(initial=1)) or 1):
        there = (number < count) & ~null_array
        item = Items.read(data, cursor)
        ok &= ~there | item.ok
        branch = np.where(there, item.branch, 0)
        items.append(Items(branch, item.number, item.start, item.end, there))
        cursor = np.where(there & item.ok, item.end, cursor)
    # An array that holds something ends with 0, and an empty one has said its 0 already.
    closed = in_array & (count > 0)
    ok &= ~closed | ((cursor < len(data)) & (data.take(cursor, mode="clip") == 0))
    end = np.where(null_array, at + 2, cursor + closed)
    return Orderings(in_array, count, items, end, ok)
