"""Limits how many rows of a Parquet file are decompressed at once, whatever its footer states.

On remote storage reading page headers costs requests: there a row group is checked only if,
according to the footer, it is much larger than the whole file.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakebed.errors import CorruptError
from lakebed.format.files.parquet_pages import (
    ColumnChunk,
    chunks_of,
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
    """Facts about the pages of a file, which never changes: the bytes per row of each chunk."""

    chunks: list[list[ColumnChunk]] | None = None
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
        """Return how many rows of a row group a batch may hold.

        Raises UnsupportedError for a page that is too large to decompress.
        """
        if self.remote and not self._grows(group):
            return MAX_BATCH_BYTES
        chunks = self.chunks()
        if group >= len(chunks):
            raise CorruptError(f"{self.what}: no row group {group} in its footer")
        row_bytes = sum(
            self._row_bytes(group, chunk) for chunk in chunks_of(chunks[group], columns)
        )
        return max(1, int(MAX_BATCH_BYTES / max(1.0, row_bytes)))

    def chunks(self) -> list[list[ColumnChunk]]:
        """Return the column chunks of each row group."""
        if self.known.chunks is None:
            footer = read_footer_bytes(self._read_at, self.source.size(), self.what)
            self.known.chunks = parse_chunks(footer, self.what)
        return self.known.chunks

    def _grows(self, group: int) -> bool:
        plain_bytes: int = self.metadata.row_group(group).total_byte_size
        file_bytes: int = self.source.size()
        return plain_bytes > max(_REMOTE_BYTES, _REMOTE_RATIO * file_bytes)

    def _row_bytes(self, group: int, chunk: ColumnChunk) -> float:
        place = (group, chunk.path)
        if place not in self.known.row_bytes:
            found = measure_pages(self._read_at, self.source.size(), chunk, self.what)
            longest = self._longest(group, chunk, found.long_dictionary)
            self.known.row_bytes[place] = max(found.row_bytes, longest)
        return self.known.row_bytes[place]

    def _longest(self, group: int, chunk: ColumnChunk, dictionary_bytes: int) -> int:
        """Return the length of the longest value in a dictionary, from the dictionary itself."""
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
