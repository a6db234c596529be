"""A Parquet file, or a block of one, of which single pages can be read and kept.

pyarrow decodes complete row groups. To read a few rows of a large row group, the pages that contain
them are put together to a small file (`format/files/page_window.py`).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby

import pyarrow as pa
import pyarrow.parquet as pq

from lakebed.errors import CorruptError, SchemaError, UnavailableError, UnsupportedError
from lakebed.format.files.page_window import PageWindow, encode_window
from lakebed.table.read.pages.page_limits import (
    MAX_BATCH_BYTES,
    KnownPages,
    PageLimits,
    has_arrow_schema,
)
from lakebed.table.read.pages.sorted_keys import (
    FirstKeys,
    HeldColumns,
    KeyPages,
    PageStarts,
    RowSpan,
    check_ascending,
    cut_rows,
)

MAX_BATCH_ROWS = 65_536
# For more spans of a row group than this, decoding it once is cheaper.
_MAX_WINDOWS = 4
# How many bytes of keys are held while one file is searched, if the caller has no cache.
_OWN_KEY_BYTES = 4 << 20


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

    @property
    def first_keys(self) -> dict[str, FirstKeys | None]:
        """Return what is known of the first keys of row groups, by column."""
        return self.pages.first_keys

    def key_pages(self, column: str, group: int) -> KeyPages | None:
        """Return the keys of a row group as far as they are cached; None if none are."""
        starts, columns = self.pages.starts.get((group, column)), self.columns
        if starts is None or columns is None:
            return None
        what, rows = self.what, starts.rows
        return KeyPages(starts, lambda page: columns.get((what, column, group, rows[page])))

    def column_page(self, column: str, group: int, first: int, stop: int) -> pa.Array | None:
        """Return the values of one page of a column, if they are in the cache."""
        del stop
        return None if self.columns is None else self.columns.get((self.what, column, group, first))


class PagedFile:
    """An open Parquet file, or block."""

    __slots__ = (
        "_columns",
        "_files",
        "_footer",
        "_forget",
        "_input",
        "_limits",
        "_remote",
        "_what",
        "footer",
    )

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
        self._columns = self.footer.columns or HeldColumns(_OWN_KEY_BYTES)

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

    @property
    def first_keys(self) -> dict[str, FirstKeys | None]:
        """Return what is known of the first keys of row groups, by column."""
        return self.footer.pages.first_keys

    def key_pages(self, column: str, group: int) -> KeyPages:
        """Return the keys of a row group as bytes, page by page.

        Reading a page returns None if it is too large to be held in memory, and raises CorruptError
        if its keys do not ascend: a search would miss keys.
        """
        with reading(self._what):
            starts = self._limits.key_starts(group, column)
        return KeyPages(starts, lambda page: self._key_page(column, group, starts, page))

    def _key_page(
        self, column: str, group: int, starts: PageStarts, page: int
    ) -> pa.BinaryArray | None:
        first, stop = starts.rows[page : page + 2]
        place = (self.footer.what, column, group, first)
        held = self._columns.get(place)
        if held is not None:
            return held
        values = self._page(column, group, first, stop)
        if values is None:
            return None
        with reading(self._what):
            keys = values.cast(pa.binary())
        check_ascending(keys, self._what)
        self._columns.put(place, keys)
        return keys

    def column_page(self, column: str, group: int, first: int, stop: int) -> pa.Array | None:
        """Return the values of one page of a column other than the key, and cache them.

        Returns None if the column has no such page.
        """
        place = (self.footer.what, column, group, first)
        held = self._columns.get(place)
        if held is None:
            held = self._page(column, group, first, stop)
            if held is not None:
                self._columns.put(place, held)
        return held

    def _page(self, column: str, group: int, first: int, stop: int) -> pa.Array | None:
        """Return the values in a page, or a row group; None if it is not one, or is too large."""
        if stop - first > MAX_BATCH_ROWS:
            return None
        arrays, size = [], 0
        with reading(self._what):
            rows = min(stop - first, self._limits.most_rows(group, [column]))
            window = self.page_window(group, [column], first)
            if window is not None:
                if (window.first, window.stop) != (first, stop):
                    return None
                batches = cut_rows(
                    self._open_window(window).iter_batches(rows, use_threads=False),
                    [(0, stop - first)],
                    self._what,
                )
            elif (first, stop) == (0, self.count_rows([group])):
                batches = self._iterate(self._open(self._remote, 0), rows, [group], [column], False)
            else:
                return None
            for batch in batches:
                arrays.append(batch.column(0))
                size += batch.nbytes
                if size > MAX_BATCH_BYTES:
                    return None
            return pa.concat_arrays(arrays)

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
        if self._remote or has_arrow_schema(self._footer):
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
