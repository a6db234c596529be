"""Walk over the page headers of a column chunk, in compiled code if there are many.

For a few pages, the same function runs in plain Python, because importing numba would take longer;
see `format/compiled.py`.
"""

from collections.abc import Callable
from functools import cache
from typing import Final

import numpy as np
import numpy.typing as npt

from lakebed.format.compiled import PlainFirst, load_compiled

KIND, HEADER_BYTES, PACKED_BYTES, PLAIN_BYTES, VALUES, ENCODING, LOW, LOW_BYTES = range(8)
"""Columns of the page table: type, size of header, page and decompressed page, values, encoding, and
where in the chunk the header stores the smallest value, and its size (0 if it does not)."""

MAX_PAGES: Final = 256
_MAX_DEPTH: Final = 4
_DATA, _DATA_V2 = 0, 3
# In the time that importing numba takes, plain Python walks over about this many pages.
_PLAIN_PAGES: Final = 100_000

Table = npt.NDArray[np.int64]
Walk = Callable[[npt.NDArray[np.uint8], int, Table], int]
_plain_first = PlainFirst(_PLAIN_PAGES)


def walk_pages(chunk: bytes, values: int) -> Table | None:
    """Return a row for each page of a column chunk that has `values` values.

    Returns None if a header is unusual or there are more than MAX_PAGES pages; the caller must then
    parse the headers one by one.
    """
    pages = np.zeros((MAX_PAGES, 8), dtype=np.int64)
    if _plain_first.use_kernel(1 + values // 4096):
        count = load_walk()(np.frombuffer(chunk, np.uint8), values, pages)
    else:
        count = _walk(chunk, values, pages)
    return None if count < 0 else pages[:count]


@cache
def load_walk() -> Walk:
    """Return the kernel, compiled or loaded from the cache once per process."""
    return load_compiled(__file__, _compile)


def _compile(cached: bool) -> Walk:
    import numba as nb  # noqa: PLC0415 - see the module's docstring

    data = nb.types.Array(nb.uint8, 1, "C", readonly=True)
    kernel = nb.njit(nb.int64(data, nb.int64, nb.int64[:, ::1]), cache=cached, nogil=True)(_walk)
    walk: Walk = kernel
    return walk


def _walk(data: npt.NDArray[np.uint8] | bytes, values: int, pages: Table) -> int:  # noqa: C901, PLR0911, PLR0912, PLR0915
    """Fill `pages` and return their number; -1 if a header is unusual or the chunk is truncated."""
    size = len(data)
    at = 0
    count = 0
    left = values
    numbers = [0, 0, 0, 0]
    while left > 0:
        if count == len(pages):
            return -1
        start = at
        depth = 0
        numbers[0] = 0
        while True:
            if at >= size:
                return -1
            head = int(data[at])
            at += 1
            if head == 0:
                if depth == 0:
                    break
                depth -= 1
                continue
            if head < 16:
                return -1  # an explicit field number, which no writer needs for these structs
            numbers[depth] += head >> 4
            number = numbers[depth]
            kind = head & 15
            if kind <= 2:
                continue  # a boolean is encoded in its type
            if kind == 12:
                depth += 1
                if depth == _MAX_DEPTH:
                    return -1
                numbers[depth] = 0
                continue
            if kind not in (4, 5, 6, 8):
                return -1
            value = 0
            shift = 0
            while True:
                if at >= size or shift > 56:
                    return -1
                byte = int(data[at])
                at += 1
                value |= (byte & 127) << shift
                if byte < 128:
                    break
                shift += 7
            if kind == 8:
                # The field `min_value` of the statistics of a data page, of version 1 or 2.
                if depth == 2 and number == 6 and numbers[1] == (8 if numbers[0] == 8 else 5):
                    pages[count, 6] = at
                    pages[count, 7] = value
                at += value
                if at > size:
                    return -1
                continue
            value = (value >> 1) ^ -(value & 1)
            if depth == 0:
                if number == 1:
                    pages[count, 0] = value
                elif number == 2:
                    pages[count, 3] = value
                elif number == 3:
                    pages[count, 2] = value
            elif depth == 1:
                if number == 1:
                    pages[count, 4] = value
                elif number == (4 if numbers[0] == 8 else 2):
                    pages[count, 5] = value
        pages[count, 1] = at - start
        packed = pages[count, 2]
        if packed < 0 or packed > size - at or pages[count, 4] < 0:
            return -1
        at += int(packed)
        if pages[count, 0] in (_DATA, _DATA_V2):
            left -= int(pages[count, 4])
        count += 1
    return count
