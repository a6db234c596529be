"""Reads Parquet as a stream in bounded memory: a file, or the bytes of a block inside a file.

On local disk a block is a memory map of its bytes, whose pages are released after each batch;
elsewhere it is a window of ranged reads.
"""

import mmap
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby

import pyarrow as pa
import pyarrow.parquet as pq

from lakebed.errors import CorruptError, SchemaError, UnavailableError, UnsupportedError
from lakebed.format.files.page_window import PageWindow, encode_window
from lakebed.format.files.parquet_statistics import ChunkStatistics, parse_statistics
from lakebed.storage.block_file import BlockFile, map_block
from lakebed.storage.storage import Storage
from lakebed.table.read.page_limits import MAX_BATCH_BYTES, KnownPages, PageLimits
from lakebed.table.read.sorted_keys import HeldColumns, RowSpan, check_ascending, cut_rows

BUFFER_BYTES = 10 << 20
"""How many bytes of one run are held in memory by default."""

MAX_BATCH_ROWS = 65_536
READ_ROWS = 16_384
"""The most rows in a batch: more than one of our row groups costs memory and saves no time."""

_MIN_BATCH_ROWS = 256
_SAMPLE_ROWS = 4_096
_REMOTE_WINDOW_BYTES = 8 << 20
# The least memory of a column value, a string with its offset: encodings hide it.
_MIN_COLUMN_BYTES = 16
_MIN_READ_BYTES = 64 << 10
_MAX_READ_BYTES = 1 << 20
# For more spans of a row group than this, decoding it once is cheaper.
_MAX_WINDOWS = 4
# For fewer bytes than this, handing columns to threads takes longer than decoding them.
_MIN_THREADED_BYTES = 4 << 20


@contextmanager
def reading(what: str) -> Iterator[None]:
    """Raise pyarrow's exceptions about damaged bytes as Lakebed's errors, which name `what`."""
    try:
        yield
    except pa.ArrowNotImplementedError as error:
        raise UnsupportedError(f"{what}: {error}") from error
    except (OSError, pa.ArrowException, UnicodeDecodeError, SchemaError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise UnavailableError(f"{what}: {error}") from error
        raise CorruptError(f"{what}: {error}") from error


@dataclass(frozen=True, slots=True)
class ParquetFooter:
    """A parsed footer: files never change, so it may be kept for the next read.

    `what` names the file, `key_values` are the footer's entries without Arrow's own schema.
    `columns` caches the key columns of row groups between reads, if the caller keeps them.
    """

    what: str
    metadata: pq.FileMetaData
    key_values: Mapping[str, str]
    schema: pa.Schema
    columns: HeldColumns | None = None
    pages: KnownPages = field(default_factory=KnownPages, repr=False, compare=False)

    @property
    def num_row_groups(self) -> int:
        """Return the number of row groups."""
        return int(self.metadata.num_row_groups)

    def sorted_keys(self, column: str, group: int) -> pa.BinaryArray | None:
        """Return the keys of a row group, which ascend, if they are in the cache."""
        return None if self.columns is None else self.columns.get((self.what, column, group))


class ParquetSource:
    """An open Parquet file, or block, made by `open_parquet`."""

    __slots__ = ("_files", "_footer", "_forget", "_input", "_limits", "_remote", "_what", "footer")

    def __init__(
        self,
        what: str,
        source: pa.NativeFile,
        *,
        remote: bool,
        forget: Callable[[], None] | None,
        footer: ParquetFooter | None,
    ) -> None:
        self._what = what
        self._input = source
        self._remote = remote
        self._files: dict[tuple[bool, int], pq.ParquetFile] = {}
        # Releases pages of a memory map from the process, which only costs reading them again.
        self._forget = forget
        self.footer = self._read_footer() if footer is None else footer
        self._footer = self.footer.metadata
        self._limits = PageLimits(what, source, self._footer, self.footer.pages, remote)

    def _read_footer(self) -> ParquetFooter:
        with reading(self._what):
            file = pq.ParquetFile(self._input, pre_buffer=False, coerce_int96_timestamp_unit="us")
            raw = file.metadata.metadata or {}
            texts = {
                key.decode(): value.decode() for key, value in raw.items() if key != b"ARROW:schema"
            }
            schema = file.schema_arrow.remove_metadata()
            return ParquetFooter(self._what, file.metadata, texts, schema)

    @property
    def key_values(self) -> Mapping[str, str]:
        """Return the footer's entries without Arrow's own schema."""
        return self.footer.key_values

    @property
    def schema(self) -> pa.Schema:
        """Return the columns of the file."""
        return self.footer.schema

    @property
    def num_rows(self) -> int:
        """Return the number of rows, from the footer."""
        return int(self._footer.num_rows)

    @property
    def num_row_groups(self) -> int:
        """Return the number of row groups."""
        return int(self._footer.num_row_groups)

    def count_rows(self, groups: Sequence[int]) -> int:
        """Return the number of rows in these row groups, from the footer."""
        return sum(int(self._footer.row_group(group).num_rows) for group in groups)

    def statistics(self, columns: Collection[str]) -> list[Mapping[str, ChunkStatistics]]:
        """Return the statistics of these columns for each row group."""
        with reading(self._what):
            return parse_statistics(self._limits.layout(), columns)

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

    def sorted_keys(self, column: str, group: int) -> pa.BinaryArray | None:
        """Return the keys of a row group as bytes; None if there are too many to hold in memory.

        Raises CorruptError if they do not ascend: a search would miss keys.
        """
        held = self.footer.sorted_keys(column, group)
        if held is not None:
            return held
        total = self._footer.row_group(group).num_rows
        if total > MAX_BATCH_ROWS:
            return None
        batches, size, rows = [], 0, min(total, self._limits.most_rows(group, [column]))
        with reading(self._what):
            for batch in self._iterate(self._open(self._remote, 0), rows, [group], [column], False):
                batches.append(batch.column(0).cast(pa.binary()))
                size += batch.nbytes
                if size > MAX_BATCH_BYTES:
                    return None
        keys = pa.concat_arrays(batches)
        check_ascending(keys, self._what)
        if self.footer.columns is not None:
            self.footer.columns.put((self.footer.what, column, group), keys)
        return keys

    def _fits(self, column: str, group: int) -> bool:
        most = min(MAX_BATCH_ROWS, self._limits.most_rows(group, [column]))
        return bool(self._footer.row_group(group).num_rows <= most)

    def _chunk(self, column: str, group: int) -> pa.Array:
        file = self._open(self._remote, 0)
        table = file.read_row_group(group, columns=[column], use_threads=False)
        self._check_rows(table.num_rows, [group], [column])
        return table.column(column).combine_chunks()

    def read_spans(
        self, columns: Sequence[str], spans: Sequence[RowSpan]
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of `spans`, which ascend.

        If the pages of all columns hold the same rows, only the pages with the requested rows are
        decoded; otherwise the row group is decoded up to the last requested row.
        """
        for group, found in groupby(spans, key=lambda span: span.group):
            wanted = list(found)
            with reading(self._what):
                yield from self._read_span_rows(list(columns), group, wanted)

    def _read_span_rows(
        self, columns: list[str], group: int, spans: list[RowSpan]
    ) -> Iterator[pa.RecordBatch]:
        most = self._limits.most_rows(group, columns)
        windows = [self.page_window(group, columns, span.start) for span in spans[:_MAX_WINDOWS]]
        places = list(zip(windows, spans, strict=False))
        if len(spans) <= _MAX_WINDOWS and all(w and span.stop <= w.stop for w, span in places):
            for window, span in places:
                assert window is not None
                bounds = (span.start - window.first, span.stop - window.first)
                batches = self._open_window(window).iter_batches(
                    min(bounds[1], most), columns=columns, use_threads=False
                )
                yield from cut_rows(batches, [bounds], self._what)
            return
        stop = max(span.stop for span in spans)
        batches = self._open(self._remote, 0).iter_batches(
            min(stop, most), row_groups=[group], columns=columns, use_threads=False
        )
        yield from cut_rows(batches, [(span.start, span.stop) for span in spans], self._what)

    def page_window(self, group: int, columns: Sequence[str], row: int) -> PageWindow | None:
        """Return the pages that hold a row; None if the row group must be read as a whole."""
        # A window lacks Arrow's own schema, which changes the types of columns. On remote storage,
        # one request for the row group is quicker than one for each page.
        if self._remote or b"ARROW:schema" in (self._footer.metadata or {}):
            return None
        return self._limits.window(group, columns, row)

    def _open_window(self, window: PageWindow) -> pq.ParquetFile:
        pages = [
            self._input.read_at(page.length, page.offset)
            for column in window.columns
            for page in column.placed
        ]
        return pq.ParquetFile(
            pa.BufferReader(encode_window(window, pages)),
            coerce_int96_timestamp_unit="us",
            page_checksum_verification=True,
        )

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

    def _iterate(
        self, file: pq.ParquetFile, rows: int, groups: list[int], columns: list[str], threads: bool
    ) -> Iterator[pa.RecordBatch]:
        found = 0
        for batch in file.iter_batches(rows, groups, columns, use_threads=threads):
            found += batch.num_rows
            yield batch
        self._check_rows(found, groups, columns)

    def _check_rows(self, found: int, groups: Sequence[int], columns: Sequence[str]) -> None:
        """Raise CorruptError if rows of the row groups are missing.

        pyarrow skips a page whose type it does not know, and its rows with it.
        """
        wanted = sum(self._footer.row_group(group).num_rows for group in groups)
        if found != wanted:
            raise CorruptError(
                f"{self._what}: expected {wanted} rows in row groups {groups[0]} to {groups[-1]}, as its "
                f"footer says, found {found} in columns {', '.join(columns)}: a page is damaged"
            )

    def _read_counts(self, groups: list[int], batch_rows: int) -> Iterator[pa.RecordBatch]:
        # Without columns pyarrow returns no rows at all; their number is still needed.
        for group in groups:
            left = self._footer.row_group(group).num_rows
            for start in range(0, left, batch_rows):
                nulls = pa.nulls(min(batch_rows, left - start))
                yield pa.RecordBatch.from_struct_array(
                    pa.StructArray.from_arrays([nulls], names=[""])
                )

    def _open(self, pre_buffer: bool, piece_bytes: int) -> pq.ParquetFile:
        # On local disk each column chunk is one cheap read. Elsewhere a read is a request, so
        # pyarrow may combine them within a window of row groups. A chunk larger than the buffer is
        # read in pieces, except in a memory map, which takes no memory anyway.
        how = (pre_buffer, piece_bytes if self._forget is None else 0)
        if how not in self._files:
            self._files[how] = pq.ParquetFile(
                self._input,
                metadata=self._footer,
                pre_buffer=pre_buffer,
                buffer_size=how[1],
                coerce_int96_timestamp_unit="us",
                page_checksum_verification=True,
            )
        return self._files[how]

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
