"""Marks column chunks that hold NaN, so that no reader skips them by their bounds.

Arrow leaves NaN out of the bounds of a chunk. Spark orders NaN above all numbers, but skips row groups by
these bounds nevertheless, and would miss rows. So the upper bound of such a chunk is replaced by
NaN: readers ignore the bounds of a chunk if one of them is NaN.
"""

import struct
from collections.abc import Collection, Sequence

from lakebed.format.files.footer_layout import malformed, parse_layout
from lakebed.format.files.parquet_statistics import Physical
from lakebed.format.files.thrift import as_bytes, as_fields, as_number

_TAIL_BYTES = 8
_STATISTICS = 12
# Of `Statistics`: the upper bound, first as old writers store it.
_UPPER = (1, 5)
_LAYOUTS = {Physical.FLOAT: "<f", Physical.DOUBLE: "<d"}


def mark_nan(end: bytes, chunks: Sequence[Collection[str]], what: str) -> bytes:
    """Return the end of a Parquet file with marked chunks; its length stays the same.

    `end` has at least the footer, its length, and the magic bytes. `chunks` are the paths of the
    leaves that hold NaN, for each row group.
    """
    length = int.from_bytes(end[-_TAIL_BYTES:][:4], "little")
    start = len(end) - _TAIL_BYTES - length
    footer = bytearray(end[start:-_TAIL_BYTES])
    layout = parse_layout(bytes(footer), what)
    leaves = [leaf for of in layout.columns.values() for leaf in of]
    for group, paths in enumerate(chunks):
        for leaf in (leaf for leaf in leaves if leaf.path in paths):
            held = layout.chunk(group, leaf)
            first, last = layout.groups[group][leaf.number]
            part = bytes(footer[first:last])
            number = _LAYOUTS.get(Physical(as_number(held[1])))
            told = as_fields(held.get(_STATISTICS, {}))
            for upper in {as_bytes(told[field]) for field in _UPPER if field in told}:
                if number is not None and len(upper) == struct.calcsize(number):
                    size = bytes([len(upper)])
                    nan = struct.pack(number, float("nan"))
                    part = part.replace(size + upper, size + nan)
            footer[first:last] = part
    data = end[:start] + bytes(footer) + end[-_TAIL_BYTES:]
    marked = parse_layout(bytes(footer), what)
    for group, paths in enumerate(chunks):
        for leaf in (leaf for leaf in leaves if leaf.path in paths):
            before, after = layout.chunk(group, leaf), marked.chunk(group, leaf)
            if {**before, _STATISTICS: {}} != {**after, _STATISTICS: {}}:
                raise malformed(what, f"the bounds of {leaf.path!r} could not be replaced")
    return data
