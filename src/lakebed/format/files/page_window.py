"""Build a separate Parquet file from a few pages of another.

pyarrow decodes complete row groups. To read one row of a large row group, the pages that contain it
(a data page of each column, and the column's dictionary) are concatenated, with a footer that
describes them as the only row group:

    PAR1, dictionary and data page of each column, unchanged, footer, length of the footer, PAR1

Pages keep their headers, and so their checksums. Field numbers are those of `parquet.thrift`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from lakebed.format.files.parquet_pages import ChunkPages, ColumnChunk, PlacedPage
from lakebed.format.files.thrift import CompactWriter

_MAGIC = b"PAR1"
_I32, _I64, _BINARY, _LIST, _STRUCT = 5, 6, 8, 9, 12


@dataclass(frozen=True, slots=True)
class WindowColumn:
    """A column of a window: its chunk, its encoded schema element, and its pages."""

    chunk: ColumnChunk
    element: bytes
    dictionary: PlacedPage | None
    page: PlacedPage

    @property
    def placed(self) -> tuple[PlacedPage, ...]:
        """Return the pages of the column in file order."""
        return (self.page,) if self.dictionary is None else (self.dictionary, self.page)


@dataclass(frozen=True, slots=True)
class PageWindow:
    """The rows from `first` to before `stop`, which each column stores in one page."""

    first: int
    stop: int
    columns: tuple[WindowColumn, ...]


def find_window(
    row: int, columns: Iterable[tuple[ColumnChunk, bytes, ChunkPages]]
) -> PageWindow | None:
    """Return the window around a row; None if the pages of the columns have different rows."""
    found: list[WindowColumn] = []
    bounds: set[tuple[int, int]] = set()
    for chunk, element, of in columns:
        first, dictionary = 0, None
        for page in of.pages:
            if page.is_dictionary:
                dictionary = page
            elif row < first + page.values:
                bounds.add((first, first + page.values))
                found.append(WindowColumn(chunk, element, dictionary, page))
                break
            else:
                first += page.values
        else:
            return None
    if len(bounds) != 1:
        return None
    first, stop = bounds.pop()
    return PageWindow(first, stop, tuple(found))


def encode_window(window: PageWindow, pages: Sequence[bytes]) -> bytes:
    """Encode the file; `pages` are the bytes of each column's `placed` pages, in order."""
    rows = window.stop - window.first
    root = CompactWriter()
    root.binary(4, b"schema")
    root.number(5, _I32, len(window.columns))
    chunks = []
    at = len(_MAGIC)
    for column in window.columns:
        chunks.append(_chunk(column, rows, at))
        before = 0 if column.dictionary is None else column.dictionary.length
        at += before + column.page.length
    group = CompactWriter()
    group.structs(1, chunks)
    group.number(2, _I64, at)
    group.number(3, _I64, rows)
    footer = CompactWriter()
    footer.number(1, _I32, 2)
    footer.structs(2, [root.end(), *(column.element for column in window.columns)])
    footer.number(3, _I64, rows)
    footer.structs(4, [group.end()])
    encoded = footer.end()
    return b"".join([_MAGIC, *pages, encoded, len(encoded).to_bytes(4, "little"), _MAGIC])


@lru_cache(maxsize=4096)
def _chunk_start(physical: int, path: str, codec: int) -> bytes:
    """Return the encoded fields of a chunk that are the same in all windows."""
    held = CompactWriter()
    held.number(1, _I32, physical)
    held.numbers(2, _I32, ())
    held.binaries(3, [path.encode()])
    held.number(4, _I32, codec)
    return held.so_far


def _chunk(column: WindowColumn, rows: int, at: int) -> bytes:
    """Encode a ColumnChunk; written out, because a lookup encodes one for each column.

    The fields of its ColumnMetaData after those of `_chunk_start` are the number of values (5), the
    sizes without and with compression (6, 7), the first data page (9) and the dictionary (11).
    """
    chunk, dictionary = column.chunk, column.dictionary
    start = _chunk_start(chunk.physical, chunk.path, chunk.codec)
    place = _varint(at)
    if dictionary is None:
        size, first, last = _varint(column.page.length), place, b""
    else:
        size = _varint(dictionary.length + column.page.length)
        first, last = _varint(at + dictionary.length), _TWO_ON + place
    sizes = _NEXT + size + _NEXT + size
    told = start + _NEXT + _varint(rows) + sizes + _TWO_ON + first + last
    return _TWO_ON + place + _STRUCT_NEXT + told + _ENDS


# A field of type i64 whose number is one or two above the field before it, a struct likewise, and
# the ends of two structs.
_NEXT, _TWO_ON, _STRUCT_NEXT, _ENDS = b"\x16", b"\x26", b"\x1c", b"\x00\x00"


@lru_cache(maxsize=4096)
def _varint(value: int) -> bytes:
    """Encode a number that is not negative: its double, seven bits in each byte."""
    left = value << 1
    encoded = bytearray()
    while left > 127:
        encoded.append(left & 127 | 128)
        left >>= 7
    encoded.append(left)
    return bytes(encoded)
