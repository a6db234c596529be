"""Reads Parquet as a stream in bounded memory: a file, or the bytes of a block inside a file.

On local disk a block is a memory map of its bytes, whose pages are released after each batch;
elsewhere it is a window of ranged reads.
"""

import mmap
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager

import pyarrow as pa

from lakebed.errors import CorruptError
from lakebed.format.files.footer import parse_columns_without_nan
from lakebed.format.files.parquet_statistics import ChunkStatistics, parse_statistics
from lakebed.storage.block_file import BlockFile, map_block
from lakebed.storage.storage import Storage
from lakebed.table.read.pages.paged_file import (
    MAX_BATCH_ROWS,
    PagedFile,
    ParquetFooter,
    reading,
)

BUFFER_BYTES = 10 << 20
"""How many bytes of one run are held in memory by default."""

READ_ROWS = 16_384
"""The most rows in a batch: more than one of our row groups costs memory and saves no time."""

_MIN_BATCH_ROWS = 256
_SAMPLE_ROWS = 4_096
_REMOTE_WINDOW_BYTES = 8 << 20
# The least memory of a column value, a string with its offset: encodings hide it.
_MIN_COLUMN_BYTES = 16
_MIN_READ_BYTES = 64 << 10
_MAX_READ_BYTES = 1 << 20
# For fewer bytes than this, handing columns to threads takes longer than decoding them.
_MIN_THREADED_BYTES = 4 << 20


class ParquetSource(PagedFile):
    """An open Parquet file, or block, made by `open_parquet`, whose row groups can be read."""

    __slots__ = ()

    def statistics(self, columns: Collection[str]) -> list[Mapping[str, ChunkStatistics]]:
        """Return the statistics of these columns for each row group."""
        without_nan = parse_columns_without_nan(self.key_values, self.num_rows)
        with reading(self._what):
            return parse_statistics(self._limits.layout(), columns, without_nan)

    def size_bytes(self, columns: Collection[str], groups: Sequence[int]) -> int:
        """Return the compressed size of these columns in these row groups."""
        return sum(
            chunk.compressed_bytes
            for group in groups
            for chunk in self._limits.chunks(group, list(columns))
        )

    def row_groups_with(
        self, column: str, groups: Sequence[int], holds: Callable[[pa.Array], bool]
    ) -> list[int]:
        """Return those of `groups` whose values in `column` satisfy `holds`; read only that column.

        Large row groups are returned without being read, so that memory stays bounded.
        """
        with reading(self._what):
            return [
                group
                for group in groups
                if not self._fits(column, group) or holds(self._chunk(column, group))
            ]

    def _fits(self, column: str, group: int) -> bool:
        most = min(MAX_BATCH_ROWS, self._limits.most_rows(group, [column]))
        return bool(self._footer.row_group(group).num_rows <= most)

    def _chunk(self, column: str, group: int) -> pa.Array:
        file = self._open(self._remote, 0)
        table = file.read_row_group(group, columns=[column], use_threads=False)
        self._check_rows(table.num_rows, [group], [column])
        return table.column(column).combine_chunks()

    def read(
        self,
        columns: Sequence[str],
        *,
        buffer_bytes: int = BUFFER_BYTES,
        max_rows: int = READ_ROWS,
        batch_rows: int | None = None,
        row_groups: Sequence[int] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of `columns`, which the file has, in file order.

        A batch holds about `buffer_bytes` and at most `max_rows`, unless `batch_rows` is set.
        Without columns, batches have one unnamed column of nulls, which shows the number of rows.
        """
        groups = list(range(self.num_row_groups) if row_groups is None else row_groups)
        if not groups:
            return
        batches = (
            self._read_columns(list(columns), groups, buffer_bytes, max_rows, batch_rows)
            if columns
            else self._read_counts(groups, batch_rows or MAX_BATCH_ROWS)
        )
        while True:
            with reading(self._what):
                batch = next(batches, None)
            if batch is None:
                return
            if self._forget is not None:
                self._forget()
            yield batch

    def _read_columns(
        self,
        columns: list[str],
        groups: list[int],
        buffer_bytes: int,
        max_rows: int,
        batch_rows: int | None,
    ) -> Iterator[pa.RecordBatch]:
        window_bytes = min(buffer_bytes, _REMOTE_WINDOW_BYTES)
        share = self._share(columns)
        sizes = {group: self._footer.row_group(group).total_byte_size * share for group in groups}
        fits = max(sizes.values(), default=0) <= buffer_bytes
        piece_bytes = 0 if fits else max(_MIN_READ_BYTES, buffer_bytes // len(columns))
        file = self._open(self._remote and fits, min(piece_bytes, _MAX_READ_BYTES))
        rows = batch_rows or self._first_batch_rows(columns, groups, sizes, buffer_bytes)

        def threads(window: Sequence[int]) -> bool:
            # Dictionaries hide how many bytes there are to decode, the number of values does not.
            values = sum(self._footer.row_group(g).num_rows for g in window) * len(columns)
            size = max(sum(sizes[g] for g in window), values * _MIN_COLUMN_BYTES)
            # Columns that are read in pieces wait for their pieces at the same time.
            return len(columns) > 1 and (not fits or size >= _MIN_THREADED_BYTES)

        # Dictionaries make a file much smaller than its rows: the first row group is read by
        # itself, in small batches, and its size shows how large the others may be.
        first, rest = groups[:1], groups[1:]
        row_bytes = 1.0
        rows = min(rows, max_rows, _SAMPLE_ROWS, self._limits.most_rows(first[0], columns))
        for batch in self._iterate(file, rows, first, columns, threads(first)):
            row_bytes = max(row_bytes, batch.nbytes / max(1, batch.num_rows))
            yield batch
        sizes = {g: max(sizes[g], self._footer.row_group(g).num_rows * row_bytes) for g in rest}
        rows = batch_rows or min(max_rows, _batch_rows(buffer_bytes, row_bytes))
        for window in _windows(rest, sizes, window_bytes):
            most = min(self._limits.most_rows(group, columns) for group in window)
            yield from self._iterate(file, min(rows, most), window, columns, threads(window))

    def _read_counts(self, groups: list[int], batch_rows: int) -> Iterator[pa.RecordBatch]:
        # Without columns pyarrow returns no rows at all; their number is still needed.
        for group in groups:
            left = self._footer.row_group(group).num_rows
            for start in range(0, left, batch_rows):
                nulls = pa.nulls(min(batch_rows, left - start))
                yield pa.RecordBatch.from_struct_array(
                    pa.StructArray.from_arrays([nulls], names=[""])
                )

    def _share(self, columns: list[str]) -> float:
        """Estimate the share of `columns` in the size of a row group, by their number.

        pyarrow has the true sizes, but reading them can abort the process, like its statistics.
        """
        leaves = [self._footer.schema.column(i).path for i in range(self._footer.num_columns)]
        chosen = set(columns)
        return sum(leaf.partition(".")[0] in chosen for leaf in leaves) / max(1, len(leaves))

    def _first_batch_rows(
        self, columns: list[str], groups: list[int], sizes: Mapping[int, float], buffer_bytes: int
    ) -> int:
        rows = sum(self._footer.row_group(group).num_rows for group in groups)
        row_bytes = sum(sizes.values()) / max(1, rows)
        return _batch_rows(buffer_bytes, max(row_bytes, _MIN_COLUMN_BYTES * len(columns)))


@contextmanager
def open_parquet(
    storage: Storage,
    path: str,
    what: str,
    *,
    offset: int = 0,
    length: int | None = None,
    footer: ParquetFooter | None = None,
) -> Iterator[ParquetSource]:
    """Open the Parquet file at `path`, or the block inside it at `offset`; errors name `what`.

    A known `footer` is not read again. Raises CorruptError if the file has no valid footer,
    NotFoundError if there is no such object.
    """
    remote = storage.local_path(path) is None
    with storage.open_read(path) as source:
        if length is None:
            yield ParquetSource(what, source, remote=remote, forget=None, footer=footer)
            return
        if offset < 0 or length <= 0 or offset + length > source.size():
            raise CorruptError(
                f"{what}: expected {length} bytes at byte {offset}, the file has {source.size()}"
            )
        if remote:
            window = pa.PythonFile(BlockFile(source, offset, length), mode="r")
            yield ParquetSource(what, window, remote=True, forget=None, footer=footer)
            return
        with reading(what):
            mapped, skip = map_block(source.fileno(), offset, length)
        block = pa.BufferReader(pa.py_buffer(mapped).slice(skip, length))
        yield ParquetSource(
            what,
            block,
            remote=False,
            forget=lambda: mapped.madvise(mmap.MADV_DONTNEED),
            footer=footer,
        )


def _batch_rows(buffer_bytes: int, row_bytes: float) -> int:
    return int(min(READ_ROWS, max(_MIN_BATCH_ROWS, buffer_bytes / max(1, row_bytes))))


def _windows(
    groups: Sequence[int], sizes: Mapping[int, float], window_bytes: int
) -> Iterator[list[int]]:
    """Split the row groups into sequences of about `window_bytes`."""
    window: list[int] = []
    held = 0.0
    for group in groups:
        window.append(group)
        held += sizes[group]
        if held >= window_bytes:
            yield window
            window, held = [], 0.0
    if window:
        yield window
