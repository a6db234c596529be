"""Finds the structs of a Parquet footer, without parsing what is in them.

A footer describes every column of every row group, and a read needs a few of them: the walk notes
where each description lies, and only those that are needed are parsed (`footer_layout.py`). The
walk runs in compiled code if there are many bytes; for a few, the same function runs in plain
Python, because importing numba would take longer, see `format/compiled.py`.
"""

from collections.abc import Callable
from functools import cache
from typing import Final

import numpy as np
import numpy.typing as npt

from lakebed.format.compiled import PlainFirst, load_compiled

PLACE, START, END, VALUE = range(4)
"""The columns of the table of marks: what was found, where it lies, and its value if a number."""

# A place is the path of field numbers from the root, in base 32. Items of a list have the place of
# the list. Field numbers are those of `parquet.thrift`.
ELEMENT: Final = 2
REPETITION: Final = ELEMENT * 32 + 3
NAME: Final = ELEMENT * 32 + 4
CHILDREN: Final = ELEMENT * 32 + 5
ROW_GROUP: Final = 4
CHUNK: Final = ROW_GROUP * 32 + 1
ORDER: Final = 7
TYPE_ORDER: Final = ORDER * 32 + 1

_MAX_DEPTH: Final = 11
_MALFORMED: Final = -1
_FULL: Final = -2
# Plain Python walks over about this many bytes in the time that importing numba takes.
_PLAIN_BYTES: Final = 4_000_000

Marks = npt.NDArray[np.int64]
Walk = Callable[[npt.NDArray[np.uint8], Marks], int]
_plain_first = PlainFirst(_PLAIN_BYTES)


def walk_footer(footer: bytes) -> Marks | None:
    """Return the marks of a footer, in the order in which they begin; None if it is malformed."""
    walk: Callable[..., int] = _walk
    data: bytes | npt.NDArray[np.uint8] = footer
    if _plain_first.use_kernel(len(footer)):
        walk, data = load_walk(), np.frombuffer(footer, np.uint8)
    # Every mark takes a byte or more; most take many.
    for most in (len(footer) // 16 + 16, len(footer) + 1):
        marks = np.zeros((most, 4), dtype=np.int64)
        count = walk(data, marks)
        if count != _FULL:
            return None if count < 0 else marks[:count]
    return None


@cache
def load_walk() -> Walk:
    """Compile the kernel, or load it from the cache; once per process."""
    return load_compiled(__file__, _compile)


def _compile(cached: bool) -> Walk:
    import numba as nb  # noqa: PLC0415 - see the module's docstring

    data = nb.types.Array(nb.uint8, 1, "C", readonly=True)
    kernel = nb.njit(nb.int64(data, nb.int64[:, ::1]), cache=cached, nogil=True)(_walk)
    walk: Walk = kernel
    return walk


def _walk(data: npt.NDArray[np.uint8] | bytes, marks: Marks) -> int:  # noqa: C901, PLR0911, PLR0912, PLR0915
    """Fill `marks` and return their number, or _MALFORMED or _FULL.

    `left` says for each open list how many items are to come; -1 stands for a struct.
    """
    size = len(data)
    at = 0
    count = 0
    depth = 0
    place = [0] * _MAX_DEPTH
    left = [-1] * _MAX_DEPTH
    items = [0] * _MAX_DEPTH
    number = [0] * _MAX_DEPTH
    mark = [-1] * _MAX_DEPTH
    while True:
        if left[depth] == 0:
            depth -= 1
            continue
        if at >= size:
            return _MALFORMED
        if left[depth] > 0:
            left[depth] -= 1
            kind = items[depth]
            here = place[depth]
            if kind <= 2:
                at += 1
                continue
        else:
            head = int(data[at])
            at += 1
            if head == 0:
                if mark[depth] >= 0:
                    marks[mark[depth], 2] = at
                if depth == 0:
                    return count
                depth -= 1
                continue
            kind = head & 15
            if head > 15:
                number[depth] += head >> 4
            else:
                value = 0
                shift = 0
                while True:
                    if at >= size or shift > 14:
                        return _MALFORMED
                    byte = int(data[at])
                    at += 1
                    value |= (byte & 127) << shift
                    if byte < 128:
                        break
                    shift += 7
                number[depth] = (value >> 1) ^ -(value & 1)
            if kind == 0 or number[depth] < 1:
                return _MALFORMED
            # Fields that this module does not know have no place of their own.
            here = place[depth] * 32 + min(number[depth], 31)
            if kind <= 2:
                continue  # a boolean is its own type
        start = at
        if kind in (4, 5, 6, 8, 9, 10):
            value = 0
            shift = 0
            items_kind = 0
            if kind >= 9:
                if at >= size:
                    return _MALFORMED
                value |= int(data[at]) >> 4
                items_kind = int(data[at]) & 15
                at += 1
            if kind < 9 or value == 15:
                value = 0
                while True:
                    if at >= size or shift > 56:
                        return _MALFORMED
                    byte = int(data[at])
                    at += 1
                    value |= (byte & 127) << shift
                    if byte < 128:
                        break
                    shift += 7
            if kind >= 9:
                depth += 1
                if depth == _MAX_DEPTH or value < 0 or value > size - at:
                    return _MALFORMED
                place[depth] = here
                left[depth] = value
                items[depth] = items_kind
                mark[depth] = -1
                continue
            if kind == 8:
                start = at
                if value < 0 or value > size - at:
                    return _MALFORMED
                at += value
            else:
                value = (value >> 1) ^ -(value & 1)
            if here in (REPETITION, NAME, CHILDREN):
                if count == len(marks):
                    return _FULL
                marks[count, 0] = here
                marks[count, 1] = start
                marks[count, 2] = at
                marks[count, 3] = value
                count += 1
        elif kind == 12:
            depth += 1
            if depth == _MAX_DEPTH:
                return _MALFORMED
            place[depth] = here
            left[depth] = -1
            number[depth] = 0
            mark[depth] = -1
            if here in (ELEMENT, ROW_GROUP, CHUNK, ORDER, TYPE_ORDER):
                if count == len(marks):
                    return _FULL
                marks[count, 0] = here
                marks[count, 1] = start
                mark[depth] = count
                count += 1
        elif kind == 7:
            at += 8
        elif kind == 3:
            at += 1
        else:
            return _MALFORMED
        if at > size:
            return _MALFORMED
