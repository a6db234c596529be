"""Limits how many rows of a Parquet file are decompressed at once, whatever its footer states.

On remote storage reading page headers costs requests: there a row group is checked only if,
according to the footer, it is much larger than the whole file.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakebed.errors import CorruptError
from lakebed.format.files.page_window import PageWindow, find_window
from lakebed.format.files.parquet_pages import (
    ChunkPages,
    ColumnChunk,
    chunks_of,
    flat_columns,
    measure_pages,
    parse_chunks,
    read_footer_bytes,
)

MAX_BATCH_BYTES = 64 << 20
"""The most memory that the long values of a batch may take."""

_REMOTE_BYTES = 64 << 20
_REMOTE_RATIO = 100


@dataclass(slots=True)
class KnownPages:
    """Facts about the pages of a file, which never changes.

    `elements` are the columns that are not nested, each as its encoded element of the footer's
    schema.
    """

    chunks: list[list[ColumnChunk]] | None = None
    elements: Mapping[str, bytes] = field(default_factory=dict)
    pages: dict[tuple[int, str], ChunkPages] = field(default_factory=dict)
    row_bytes: dict[tuple[int, str], float] = field(default_factory=dict)


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
            self._row_bytes(group, chunk) for chunk in chunks_of(self._chunks(group), columns)
        )
        return max(1, int(MAX_BATCH_BYTES / max(1.0, row_bytes)))

    def chunks(self) -> list[list[ColumnChunk]]:
        """Return the column chunks of each row group."""
        known = self.known
        if known.chunks is None:
            footer = read_footer_bytes(self._read_at, self.source.size(), self.what)
            known.chunks = parse_chunks(footer, self.what)
            known.elements = flat_columns(footer, self.what)
        return known.chunks

    def window(self, group: int, columns: Sequence[str], row: int) -> PageWindow | None:
        """Return the pages that hold a row; None if the whole row group must be read."""
        chunks = {chunk.path: chunk for chunk in self._chunks(group)}
        elements = self.known.elements
        # A nested column has several chunks, or pages that do not count rows.
        if any(
            name not in elements or name not in chunks or chunks[name].is_nested for name in columns
        ):
            return None
        found = find_window(
            row,
            ((chunks[name], elements[name], self._pages(group, chunks[name])) for name in columns),
        )
        rows = self.metadata.row_group(group).num_rows
        return None if found is None or found.stop - found.first >= rows else found

    def _chunks(self, group: int) -> list[ColumnChunk]:
        chunks = self.chunks()
        if group >= len(chunks):
            raise CorruptError(f"{self.what}: no row group {group} in its footer")
        return chunks[group]

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
