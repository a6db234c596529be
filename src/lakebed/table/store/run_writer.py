"""Writes one sorted run as a Parquet file: a base file, a log, or the content of a log block.

Rows are sorted by the bytes of a key column, by default the record key, each key once.
`docs/format/base-files.md` describes footer, encodings and the choices behind them.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakebed.format.files.footer import (
    FOOTER_CALENDAR,
    FOOTER_IS_ORDERED,
    FOOTER_KEY_COLUMN,
    FOOTER_MAX_KEY,
    FOOTER_MIN_KEY,
    FOOTER_ROW_GROUP_KEY_BYTES,
    FOOTER_ROW_GROUP_KEYS,
    FOOTER_WITHOUT_NAN,
    encode_columns_without_nan,
    encode_row_group_key_bytes,
    encode_row_group_keys,
    same_order_in_java,
)
from lakebed.format.files.nan_bounds import mark_nan
from lakebed.format.files.parquet_statistics import FileStatistics, written_statistics
from lakebed.format.names.meta_columns import COMMIT_SEQNO, META_COLUMNS, RECORD_KEY
from lakebed.storage.streams import WriteStream
from lakebed.table.store.file_statistics import summarize
from lakebed.table.store.new_run import NewRun

ROW_GROUP_ROWS = 16_384
ROW_GROUP_BYTES = 8 * 1024 * 1024
PAGE_ROWS = 4_096
"""How many rows a page holds; a lookup decodes one page of each column."""

_WRITE_BATCH_ROWS = 1_024

# Above this share of distinct values a dictionary costs more than it saves.
_DICTIONARY_RATIO = 0.4
_ROW_GROUPS_AHEAD = 1
# Memory that a smaller file used is kept for the next: allocating it again takes a third of the time.
_RELEASE_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class RunSizes:
    """The maximum sizes of the parts of a file."""

    row_group_rows: int = ROW_GROUP_ROWS
    row_group_bytes: int = ROW_GROUP_BYTES
    page_rows: int = PAGE_ROWS


DEFAULT_SIZES = RunSizes()


class ParquetSink:
    """The file that pyarrow writes to; after `discard` it ignores further bytes.

    pyarrow can only end a Parquet file by writing its footer, even after a failure.
    """

    closed = False

    def __init__(self, stream: WriteStream) -> None:
        self._stream = stream
        self._discarding = False
        self._held: bytearray | None = None

    def write(self, data: bytes | memoryview | pa.Buffer) -> int:
        """Append `data` unless discarding; return its size in either case."""
        if self._held is not None and not self._discarding:
            self._held += memoryview(data)
            return len(memoryview(data))
        return len(memoryview(data)) if self._discarding else self._stream.write(data)

    def tell(self) -> int:
        """Return the number of bytes written so far."""
        return self._stream.tell() + len(self._held or b"")

    def hold(self) -> None:
        """Hold what is written from now on, until `release`."""
        self._held = bytearray()

    def release(self, change: Callable[[bytes], bytes]) -> None:
        """Write what was held, after `change`."""
        held, self._held = self._held, None
        if held and not self._discarding:
            self._stream.write(change(bytes(held)))

    def flush(self) -> None:
        """Do nothing: bytes are visible once the stream is closed."""

    def discard(self) -> None:
        """Ignore further bytes."""
        self._discarding = True


class RunWriter(NewRun):
    """Writes one run as Parquet.

    `schema` has the column `key`, of strings or bytes; a dictionary column is one whose values are
    known to repeat. A thread encodes row groups while the caller reads and merges the next; memory
    is bounded by a few row groups, whatever the size of the file. A failure to encode a row group
    is raised by a later `write`, or by `close`.
    """

    def __init__(
        self,
        stream: WriteStream,
        path: str,
        schema: pa.Schema,
        metadata: Mapping[str, str],
        *,
        sizes: RunSizes = DEFAULT_SIZES,
        may_repeat: bool = False,
        key: str = RECORD_KEY,
        compression: str = "zstd",
    ) -> None:
        super().__init__(stream, path, may_repeat=may_repeat, key=key)
        self._compression = compression
        self._schema = schema
        self._metadata = metadata
        self._sizes = sizes
        self._pending: list[pa.RecordBatch] = []
        self._pending_rows = 0
        self._pending_bytes = 0
        self._first_keys: list[bytes] = []
        self._sink = ParquetSink(stream)
        self._writer: pq.ParquetWriter | None = None
        floats = (f.name for f in schema if pa.types.is_floating(f.type))
        self._floats = tuple(floats) if key == RECORD_KEY else ()
        # The leaves with NaN of each row group.
        self._nans: list[frozenset[str]] = []
        self._encoder = ThreadPoolExecutor(1, thread_name_prefix="lakebed-encode")
        self._encoding: deque[Future[None]] = deque()

    def _append(self, batch: pa.RecordBatch) -> None:
        # pyarrow creates a row group for every call, so rows are buffered here.
        row_bytes = max(1, batch.nbytes // batch.num_rows)
        start = 0
        while start < batch.num_rows:
            room = min(
                self._sizes.row_group_rows - self._pending_rows,
                (self._sizes.row_group_bytes - self._pending_bytes) // row_bytes,
            )
            if room <= 0 and self._pending:
                self._flush()
                continue
            piece = batch.slice(start, max(1, room))
            self._pending.append(piece)
            self._pending_rows += piece.num_rows
            self._pending_bytes += piece.num_rows * row_bytes
            start += piece.num_rows

    def _flush(self) -> None:
        while len(self._encoding) >= _ROW_GROUPS_AHEAD:
            self._encoding.popleft().result()
        self._encoding.append(self._encoder.submit(self._encode, self._next_group()))

    def _next_group(self) -> list[pa.RecordBatch]:
        group, self._pending = self._pending, []
        self._pending_rows = self._pending_bytes = 0
        self._first_keys.append(_bytes(group[0].column(self._key)[0]))
        return group

    def _encode(self, group: list[pa.RecordBatch]) -> None:
        # Within a row group Parquet allows only one dictionary per column.
        table = pa.Table.from_batches(group).unify_dictionaries()
        if self._writer is None:
            others = table.drop_columns([self._key])
            self._writer = self._open(_repeating_leaves(others))
        self._nans.append(frozenset(_leaves_with_nan(table)))
        self._writer.write_table(table, row_group_size=table.num_rows)

    def _open(self, repeating: list[str]) -> pq.ParquetWriter:
        dictionaries = [f.name for f in self._schema if pa.types.is_dictionary(f.type)]
        sorted_columns = [n for n in (self._key, COMMIT_SEQNO) if n in self._schema.names]
        return pq.ParquetWriter(
            self._sink,
            self._schema,
            compression=self._compression,
            compression_level=1 if self._compression == "zstd" else None,
            use_dictionary=[*dictionaries, *repeating],
            column_encoding=dict.fromkeys(sorted_columns, "DELTA_BYTE_ARRAY"),
            write_page_checksum=True,
            max_rows_per_page=self._sizes.page_rows,
            write_batch_size=min(self._sizes.page_rows, _WRITE_BATCH_ROWS),
            # Arrow's own schema would restore the dictionaries of constant columns.
            store_schema=False,
        )

    def _end(self) -> None:
        while self._encoding:
            self._encoding.popleft().result()
        self._encoder.shutdown()
        if self._pending:
            # The caller has nothing else to do meanwhile: a run of one row group needs no thread.
            self._encode(self._next_group())
        if self._writer is None:
            self._writer = self._open([])
        self._writer.add_key_value_metadata(self._footer())
        if any(self._nans):
            self._sink.hold()
        self._writer.close()
        self._sink.release(lambda end: mark_nan(end, self._nans, self.path))
        if self._sink.tell() >= _RELEASE_BYTES:
            pa.default_memory_pool().release_unused()

    def _footer(self) -> dict[str, str]:
        if self._key != RECORD_KEY:
            return self._other_footer()
        footer = {FOOTER_IS_ORDERED: "true", **FOOTER_CALENDAR, **self._metadata}
        low, high = self.min_key, self.max_key
        if low is not None and high is not None and same_order_in_java(low + high):
            footer |= {FOOTER_MIN_KEY: low, FOOTER_MAX_KEY: high}
        if self._floats:
            footer[FOOTER_WITHOUT_NAN] = encode_columns_without_nan(self._without_nan, self.rows)
        if (keys := encode_row_group_keys([k.decode() for k in self._first_keys])) is not None:
            footer[FOOTER_ROW_GROUP_KEYS] = keys
        return footer

    @property
    def _without_nan(self) -> frozenset[str]:
        return frozenset(self._floats).difference(*self._nans)

    def statistics(self, columns: Sequence[str]) -> FileStatistics:
        """Return the statistics of `columns` in the closed file."""
        assert self._writer is not None
        metadata = self._writer.writer.metadata
        groups = written_statistics(metadata, columns, self._without_nan, self._nans)
        return summarize(metadata.schema.to_arrow_schema(), groups)

    def _other_footer(self) -> dict[str, str]:
        """Return the footer of a run with another key; Hudi's entries are about record keys."""
        footer = {FOOTER_KEY_COLUMN: self._key, **FOOTER_CALENDAR, **self._metadata}
        last = self._order.max_key
        keys = [] if last is None else [*self._first_keys, _bytes(last)]
        if (text := encode_row_group_key_bytes(keys)) is not None:
            footer[FOOTER_ROW_GROUP_KEY_BYTES] = text
        return footer

    def _drop(self) -> None:
        self._sink.discard()
        self._pending = []
        self._encoder.shutdown(cancel_futures=True)
        if self._writer is not None:
            self._writer.close()


def _leaves_with_nan(table: pa.Table) -> Iterator[str]:
    """Yield the columns, and the fields of structs, that hold NaN."""
    for field in table.schema:
        if pa.types.is_floating(field.type) or pa.types.is_struct(field.type):
            for path, values in _leaves(table.column(field.name).combine_chunks(), field.name):
                if pa.types.is_floating(values.type) and _holds_nan(values):
                    yield path


def _holds_nan(values: pa.Array) -> bool:
    return bool(pc.any(pc.is_nan(values), min_count=0).as_py())


def _bytes(key: pa.Scalar) -> bytes:
    return bytes(key.cast(pa.binary()).as_py())


def _repeating_leaves(table: pa.Table) -> list[str]:
    """Return the Parquet leaves whose values repeat enough for a dictionary."""
    names = [name for name in table.column_names if name not in META_COLUMNS]
    leaves = [leaf for name in names for leaf in _leaves(table.column(name).combine_chunks(), name)]
    return [path for path, values in leaves if _repeats(values)]


def _leaves(array: pa.Array, path: str) -> Iterator[tuple[str, pa.Array]]:
    if pa.types.is_struct(array.type):
        for i, field in enumerate(array.type):
            yield from _leaves(array.field(i), f"{path}.{field.name}")
    elif pa.types.is_list(array.type):
        yield from _leaves(array.flatten(), f"{path}.list.element")
    elif pa.types.is_map(array.type):
        yield from _leaves(array.keys, f"{path}.key_value.key")
        yield from _leaves(array.items, f"{path}.key_value.value")
    else:
        yield path, array


def _repeats(values: pa.Array) -> bool:
    if pa.types.is_boolean(values.type):
        return False
    filled = len(values) - values.null_count
    distinct: int = pc.count_distinct(values).as_py()
    return bool(distinct <= max(1, filled * _DICTIONARY_RATIO))
