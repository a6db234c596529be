"""Measure the pages of a Parquet file by their headers, before they are decompressed.

    column chunk:  page header (Thrift's compact protocol), page, page header, page, ...
    footer:        for each chunk its offset, length and compression

A few kilobytes can decompress to a page of gigabytes, and one long string in a dictionary can be
the value of every row. pyarrow allocates the size that a header states, so headers are checked
first. Field numbers are those of `parquet.thrift`.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final

from lakebed.errors import CorruptError, UnsupportedError
from lakebed.format.files.footer_layout import (
    FooterLayout,
    ReadAt,
    malformed,
    parse_layout,
    read_footer_bytes,
)
from lakebed.format.files.page_walk import walk_pages
from lakebed.format.files.thrift import (
    MALFORMED,
    CompactReader,
    Struct,
    as_bytes,
    as_fields,
    as_number,
)

MAX_PAGE_BYTES: Final = 256 << 20
MAX_NESTED_VALUES: Final = 16 << 20
"""The maximum number of values in a page of lists, which could all belong to one row."""
_MAX_PAGES: Final = 100_000
_HEADER_BYTES: Final = 512
_MAX_HEADER_BYTES: Final = 1 << 20
_BYTE_ARRAY: Final = 6
_DICTIONARY_PAGE: Final = 2
_DATA_PAGES: Final = (0, 3)
_DELTA_BYTE_ARRAY: Final = 7
_UNCOMPRESSED: Final = 0
_IN_DICTIONARY: Final = (2, 8)
_LONG_DICTIONARY: Final = 32 << 10
_LONG_VALUE: Final = 1 << 10
_HIGH_RATIO: Final = 20
_SMALL_CHUNK: Final = 64 << 20
# The headers of larger chunks are read one by one.
_WALKED_BYTES: Final = 1 << 20
_TRUST: Final = 16


@dataclass(frozen=True, slots=True)
class ColumnChunk:
    """A column chunk as the footer describes it; `path` is its names joined with dots.

    `told_bytes` is the size of its values without any encoding; None if it is not stored.
    """

    path: str
    physical: int
    codec: int
    values: int
    offset: int
    compressed_bytes: int
    told_bytes: int | None = None

    @property
    def column(self) -> str:
        """Return the table column to which the chunk belongs."""
        return self.path.partition(".")[0]

    @property
    def is_nested(self) -> bool:
        """Return whether the chunk is part of a nested column."""
        return "." in self.path

    @property
    def may_burst(self) -> bool:
        """Return whether its pages must be checked: they may expand, or repeat a long value."""
        return self.codec != _UNCOMPRESSED or self.compressed_bytes > _LONG_DICTIONARY


@dataclass(frozen=True, slots=True)
class PlacedPage:
    """The position of a page with its header in the file, and its number of values.

    `low` is the smallest value according to the header, of pages that store only what differs from
    the value before, as sorted columns do; None if it is not known.
    """

    offset: int
    length: int
    values: int
    is_dictionary: bool
    low: bytes | None = None


@dataclass(frozen=True, slots=True)
class ChunkPages:
    """The pages of a chunk, and the maximum over its pages of the average row size.

    `long_dictionary` is the size of a dictionary that may contain a long value, to which every row
    may refer; 0 if there is none.
    """

    row_bytes: float
    long_dictionary: int
    pages: tuple[PlacedPage, ...]


def find_chunks(layout: FooterLayout, group: int, columns: Collection[str]) -> list[ColumnChunk]:
    """Return the chunks of `columns` in a row group."""
    leaves = [leaf for name in columns for leaf in layout.columns.get(name, ())]
    try:
        return [_parse_chunk(leaf.path, layout.chunk(group, leaf)) for leaf in leaves]
    except MALFORMED as error:
        raise malformed(layout.what, repr(error)) from error


def _parse_chunk(path: str, held: Struct) -> ColumnChunk:
    start = as_number(held[9])
    dictionary = as_number(held.get(11, 0))
    return ColumnChunk(
        path,
        as_number(held[1]),
        as_number(held[4]),
        as_number(held[5]),
        dictionary if 0 < dictionary < start else start,
        as_number(held[7]),
        as_number(told) if (told := as_fields(held.get(16, {})).get(1)) is not None else None,
    )


def check_pages(read_at: ReadAt, size: int, columns: Collection[str], what: str) -> None:
    """Raise UnsupportedError if pages of these columns are too large to decompress."""
    layout = parse_layout(read_footer_bytes(read_at, size, what), what)
    for group in range(len(layout.groups)):
        for chunk in find_chunks(layout, group, columns):
            if chunk.may_burst:
                measure_pages(read_at, size, chunk, what)


def measure_pages(read_at: ReadAt, size: int, chunk: ColumnChunk, what: str) -> ChunkPages:
    """Walk over the page headers of a chunk in a file of `size` bytes.

    `read_at(offset, length)` returns bytes of the file. Raises UnsupportedError for a page that is
    too large to decompress, CorruptError for invalid headers.
    """
    where = f"{what}, column {chunk.path!r}"
    if chunk.offset < 0 or chunk.compressed_bytes < 0:
        raise CorruptError(
            f"{where}: a chunk of {chunk.compressed_bytes} bytes at byte {chunk.offset}"
        )
    row_bytes, long_dictionary, at = 0.0, 0, chunk.offset
    placed = []
    for page in _pages(read_at, size, chunk, where):
        _check_page(page, chunk, where)
        if page.is_dictionary:
            long_dictionary = page.plain_bytes if _is_long(page, chunk) else 0
        elif page.is_data:
            row_bytes = max(row_bytes, _row_bytes(page, chunk))
        length = page.header_bytes + page.packed_bytes
        if page.is_data or page.is_dictionary:  # readers skip any other page
            low = page.low if page.is_data and page.encoding == _DELTA_BYTE_ARRAY else None
            placed.append(PlacedPage(at, length, page.values, page.is_dictionary, low))
        at += length
    return ChunkPages(row_bytes, long_dictionary, tuple(placed))


def _pages(read_at: ReadAt, size: int, chunk: ColumnChunk, where: str) -> "Iterator[_Page]":
    """Yield the pages of a chunk until they have all of its values."""
    at = chunk.offset
    end = min(size, at + chunk.compressed_bytes)
    if 0 < end - at <= _WALKED_BYTES:
        data = read_at(at, end - at)
        walked = walk_pages(data, chunk.values)
        if walked is not None:
            for kind, header, packed, plain, values, encoding, low, low_bytes in walked.tolist():
                least = data[low : low + low_bytes] if low_bytes else None
                yield _Page(header, packed, plain, values, encoding, kind, least)
            return
    left = chunk.values
    for _ in range(_MAX_PAGES):
        if at >= end and left > 0:
            raise CorruptError(
                f"{where}: expected {chunk.values} values in its data pages, found {chunk.values - left}"
            )
        if left <= 0:
            return
        page = _read_header(read_at, at, end, where)
        yield page
        left -= page.values if page.is_data else 0
        at += page.header_bytes + page.packed_bytes
    raise UnsupportedError(f"{where}: more than {_MAX_PAGES} pages in a row group")


@dataclass(frozen=True, slots=True)
class _Page:
    header_bytes: int
    packed_bytes: int
    plain_bytes: int
    values: int
    encoding: int
    kind: int
    low: bytes | None

    @property
    def is_dictionary(self) -> bool:
        return self.kind == _DICTIONARY_PAGE

    @property
    def is_data(self) -> bool:
        return self.kind in _DATA_PAGES


def _read_header(read_at: ReadAt, at: int, end: int, where: str) -> _Page:
    wanted = _HEADER_BYTES
    while True:
        data = read_at(at, min(wanted, end - at))
        reader = CompactReader(data)
        try:
            fields = reader.struct()
            # The headers of a data page, a dictionary page, or a data page of version 2.
            held = as_fields(fields.get(5) or fields.get(7) or fields.get(8) or {})
            low = _statistics(fields, held).get(6)
            return _Page(
                reader.at,
                as_number(fields[3]),
                as_number(fields[2]),
                as_number(held.get(1, 0)),
                as_number(held.get(4 if 8 in fields else 2, 0)),
                as_number(fields[1]),
                as_bytes(low) if low else None,
            )
        except MALFORMED as error:
            # The header may be longer: it may contain long strings as bounds.
            if wanted >= min(end - at, _MAX_HEADER_BYTES):
                raise CorruptError(f"{where}: no page header at byte {at} ({error!r})") from error
            wanted *= 8


def _statistics(header: Struct, held: Struct) -> Struct:
    """Return the statistics of a data page, of version 1 or 2; empty if it has none."""
    number = 8 if 8 in header else 5 if 5 in header else -1
    return as_fields(held.get(number, {}))


def _check_page(page: _Page, chunk: ColumnChunk, where: str) -> None:
    if page.packed_bytes < 0 or page.plain_bytes < 0 or page.values < 0:
        raise CorruptError(f"{where}: a page of negative size: {page}")
    if page.plain_bytes > MAX_PAGE_BYTES:
        raise UnsupportedError(
            f"{where}: a page of {page.plain_bytes} bytes, packed in {page.packed_bytes}; expected at "
            f"most {MAX_PAGE_BYTES}, because pages are decompressed as a whole"
        )
    if chunk.is_nested and page.values > MAX_NESTED_VALUES:
        raise UnsupportedError(
            f"{where}: a page of {page.values} values; expected at most {MAX_NESTED_VALUES} in a page "
            "of a nested column, as one row may hold them all"
        )


def _row_bytes(page: _Page, chunk: ColumnChunk) -> float:
    if page.encoding in _IN_DICTIONARY or chunk.physical != _BYTE_ARRAY:
        return 0.0
    if page.encoding == _DELTA_BYTE_ARRAY:
        # Each value may repeat the one before. A small size in the footer is trusted to some
        # extent, so that batches of record keys have more than hundreds of rows; if it is wrong, a
        # batch takes a few times its memory limit.
        is_small = chunk.told_bytes is not None and 0 <= chunk.told_bytes <= _SMALL_CHUNK
        return page.plain_bytes / (_TRUST if is_small else 1)
    return page.plain_bytes / max(1, page.values)


def _is_long(page: _Page, chunk: ColumnChunk) -> bool:
    if chunk.physical != _BYTE_ARRAY or page.plain_bytes <= _LONG_DICTIONARY:
        return False
    dense = page.plain_bytes > _HIGH_RATIO * max(1, page.packed_bytes)
    return dense or page.plain_bytes > _LONG_VALUE * max(1, page.values)
