"""Limits how many rows of a Parquet file are decompressed at once, whatever its footer states.

On remote storage reading page headers costs requests: there a row group is checked only if,
according to the footer, it is much larger than the whole file.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakebed.format.files.footer_layout import FooterLayout, parse_layout, read_footer_bytes
from lakebed.format.files.page_window import PageWindow, find_window
from lakebed.format.files.parquet_pages import ChunkPages, ColumnChunk, find_chunks, measure_pages
from lakebed.table.read.pages.sorted_keys import FirstKeys, PageStarts

MAX_BATCH_BYTES = 64 << 20
"""The most memory that the long values of a batch may take."""

_REMOTE_BYTES = 64 << 20
_REMOTE_RATIO = 100


def has_arrow_schema(metadata: pq.FileMetaData) -> bool:
    """Return whether a footer has Arrow's own schema, which changes the types of columns."""
    return b"ARROW:schema" in (metadata.metadata or {})


@dataclass(slots=True)
class KnownPages:
    """Known facts about the pages of a file; they stay true, because files never change."""

    layout: FooterLayout | None = None
    chunks: dict[tuple[int, str], tuple[ColumnChunk, ...]] = field(default_factory=dict)
    pages: dict[tuple[int, str], ChunkPages] = field(default_factory=dict)
    row_bytes: dict[tuple[int, str], float] = field(default_factory=dict)
    starts: dict[tuple[int, str], PageStarts] = field(default_factory=dict)
    first_keys: dict[str, FirstKeys | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PageLimits:
    """Checks the pages of an open file before they are read."""

    what: str
    source: pa.NativeFile
    metadata: pq.FileMetaData
    known: KnownPages
    remote: bool

    def most_rows(self, group: int, columns: Sequence[str]) -> int:
        """Return the most rows of a row group that a batch of `columns` may hold.

        Raises UnsupportedError for a page that is too large to decompress.
        """
        if self.remote and not self._grows(group):
            return MAX_BATCH_BYTES
        row_bytes = sum(
            self._row_bytes(group, chunk)
            for chunk in self.chunks(group, columns)
            if chunk.may_burst
        )
        return max(1, int(MAX_BATCH_BYTES / max(1.0, row_bytes)))

    def layout(self) -> FooterLayout:
        """Return what the footer describes."""
        known = self.known
        if known.layout is None:
            footer = read_footer_bytes(self._read_at, self.source.size(), self.what)
            known.layout = parse_layout(footer, self.what)
        return known.layout

    def chunks(self, group: int, columns: Sequence[str]) -> list[ColumnChunk]:
        """Return the column chunks of `columns` in a row group, in their order."""
        found: list[ColumnChunk] = []
        for name in columns:
            chunks = self.known.chunks.get((group, name))
            if chunks is None:
                chunks = tuple(find_chunks(self.layout(), group, [name]))
                self.known.chunks[group, name] = chunks
            found += chunks
        return found

    def window(self, group: int, columns: Sequence[str], row: int) -> PageWindow | None:
        """Return the pages that hold a row; None if the whole row group must be read."""
        layout = self.layout()
        leaves = [layout.flat(name) for name in columns]
        # A nested column has several chunks, or pages that do not count rows.
        flat = [leaf for leaf in leaves if leaf is not None]
        if len(flat) < len(leaves):
            return None
        chunks = self.chunks(group, columns)
        found = find_window(
            row,
            (
                (chunk, layout.element(leaf), self._pages(group, chunk))
                for chunk, leaf in zip(chunks, flat, strict=True)
            ),
        )
        rows = self.metadata.row_group(group).num_rows
        return None if found is None or found.stop - found.first >= rows else found

    def key_starts(self, group: int, column: str) -> PageStarts:
        """Return the pages of a sorted column, as a single page if their headers do not suffice."""
        held = self.known.starts.get((group, column))
        if held is None:
            rows = int(self.metadata.row_group(group).num_rows)
            held = self._find_starts(group, column, rows) or PageStarts((0, rows))
            self.known.starts[group, column] = held
        return held

    def _find_starts(self, group: int, column: str, rows: int) -> PageStarts | None:
        """Return the pages of a sorted column; None if they must be read together.

        A page can be read by itself under the same conditions as in `window`.
        """
        if self.remote or has_arrow_schema(self.metadata) or self.layout().flat(column) is None:
            return None
        (chunk,) = self.chunks(group, [column])
        pages = [page for page in self._pages(group, chunk).pages if not page.is_dictionary]
        lows = tuple([page.low for page in pages if page.low is not None])
        starts = (0, *accumulate(page.values for page in pages))
        if not 1 < len(pages) == len(lows) or starts[-1] != rows:
            return None
        if any(low > high for low, high in pairwise(lows)):
            return None  # the row group is not sorted, which reading it reports
        return PageStarts(starts, lows)

    def _pages(self, group: int, chunk: ColumnChunk) -> ChunkPages:
        place = (group, chunk.path)
        if place not in self.known.pages:
            found = measure_pages(self._read_at, self.source.size(), chunk, self.what)
            self.known.pages[place] = found
        return self.known.pages[place]

    def _grows(self, group: int) -> bool:
        plain_bytes: int = self.metadata.row_group(group).total_byte_size
        file_bytes: int = self.source.size()
        return plain_bytes > max(_REMOTE_BYTES, _REMOTE_RATIO * file_bytes)

    def _row_bytes(self, group: int, chunk: ColumnChunk) -> float:
        place = (group, chunk.path)
        if place not in self.known.row_bytes:
            found = self._pages(group, chunk)
            longest = self._longest(group, chunk, found.long_dictionary)
            self.known.row_bytes[place] = max(found.row_bytes, longest)
        return self.known.row_bytes[place]

    def _longest(self, group: int, chunk: ColumnChunk, dictionary_bytes: int) -> int:
        """Return the length of a dictionary's longest value; of a nested column, the whole length."""
        if not dictionary_bytes or chunk.is_nested:
            return dictionary_bytes
        file = pq.ParquetFile(
            self.source, metadata=self.metadata, read_dictionary=[chunk.path], pre_buffer=False
        )
        first = next(file.iter_batches(1, row_groups=[group], columns=[chunk.column]), None)
        if first is None or not isinstance(first.column(0), pa.DictionaryArray):
            return dictionary_bytes
        return pc.max(pc.binary_length(first.column(0).dictionary)).as_py() or 0

    def _read_at(self, offset: int, length: int) -> bytes:
        data: bytes = self.source.read_at(length, offset)
        return data
