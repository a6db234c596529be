"""Write one sorted run as a Parquet file: a base file, a log, or the content of a log block.

Rows are sorted by record key in UTF-8 byte order, each key once. `docs/format/base-files.md`
describes footer, encodings and the choices behind them.
"""

from collections import deque
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakebed.errors import InvalidError, KeyValueError
from lakebed.format.footer import (
    FOOTER_CALENDAR,
    FOOTER_IS_ORDERED,
    FOOTER_MAX_KEY,
    FOOTER_MIN_KEY,
    FOOTER_ROW_GROUP_KEYS,
    encode_row_group_keys,
    same_order_in_java,
)
from lakebed.format.meta_columns import COMMIT_SEQNO, META_COLUMNS, RECORD_KEY
from lakebed.storage.storage import WriteStream

ROW_GROUP_ROWS = 16_384
ROW_GROUP_BYTES = 8 * 1024 * 1024

# Beyond this share of distinct values a dictionary costs more than it saves.
_DICTIONARY_RATIO = 0.4
_SORTED_TEXT_COLUMNS = (RECORD_KEY, COMMIT_SEQNO)
_ROW_GROUPS_AHEAD = 1


class KeyOrder:
    """The keys of a run so far; each must be above the one before it.

    With `may_repeat` it may be the same again.
    """

    def __init__(self, name: str, *, may_repeat: bool = False) -> None:
        self._name = name
        self._rises = pc.greater_equal if may_repeat else pc.greater
        self._may_repeat = may_repeat
        self.min_key: str | None = None
        self.max_key: str | None = None

    def check(self, keys: pa.StringArray) -> None:
        """Take the next keys, one or more; InvalidError names the first that is out of order."""
        if keys.null_count:
            raise KeyValueError(f"{self._name}: want a record key in each row, got null")
        first = keys[0].as_py()
        if self.max_key is not None and (
            first < self.max_key or (first == self.max_key and not self._may_repeat)
        ):
            raise InvalidError(
                f"{self._name}: want record keys above {self.max_key!r}, got {first!r}"
            )
        # Arrow compares strings by their bytes, which is the order that the file promises.
        rising = self._rises(keys.slice(1), keys.slice(0, len(keys) - 1))
        if pc.all(rising, min_count=0).as_py() is False:
            at = pc.index(rising, pa.scalar(False)).as_py() + 1
            before, found = keys[at - 1].as_py(), keys[at].as_py()
            raise InvalidError(f"{self._name}: want record keys above {before!r}, got {found!r}")
        if self.min_key is None:
            self.min_key = first
        self.max_key = keys[-1].as_py()


class ParquetSink:
    """The file that pyarrow writes to; after `discard` it swallows what still comes.

    pyarrow can only end a Parquet file by writing its footer, also one that failed.
    """

    closed = False

    def __init__(self, stream: WriteStream) -> None:
        self._stream = stream
        self._discarding = False

    def write(self, data: bytes | memoryview | pa.Buffer) -> int:
        """Append `data`, or swallow it."""
        return len(memoryview(data)) if self._discarding else self._stream.write(data)

    def tell(self) -> int:
        """Give the number of bytes written so far."""
        return self._stream.tell()

    def flush(self) -> None:
        """Do nothing: bytes are visible once the stream is closed."""

    def discard(self) -> None:
        """Swallow what still comes."""
        self._discarding = True


class RunWriter:
    """Writes one run to `stream`, which it then owns: `close` publishes it, `abort` drops it.

    `schema` holds a column `_hoodie_record_key`; a dictionary column is one whose values
    are known to repeat. As a context manager it closes on success and aborts on an
    exception. A thread encodes row groups while the caller reads and merges the next;
    memory is bounded by a few row groups, whatever the size of the file. A row group that
    could not be encoded is the error of a later `write`, or of `close`. Keys ascend, each once
    unless they `may_repeat`.
    """

    def __init__(
        self,
        stream: WriteStream,
        path: str,
        schema: pa.Schema,
        metadata: Mapping[str, str],
        *,
        row_group_rows: int = ROW_GROUP_ROWS,
        row_group_bytes: int = ROW_GROUP_BYTES,
        may_repeat: bool = False,
    ) -> None:
        self._stream = stream
        self._path = path
        self._schema = schema
        self._metadata = metadata
        self._max_rows = row_group_rows
        self._max_bytes = row_group_bytes
        self._order = KeyOrder(path, may_repeat=may_repeat)
        self._pending: list[pa.RecordBatch] = []
        self._pending_rows = 0
        self._pending_bytes = 0
        self._rows = 0
        self._first_keys: list[str] = []
        self._sink = ParquetSink(stream)
        self._writer: pq.ParquetWriter | None = None
        self._encoder = ThreadPoolExecutor(1, thread_name_prefix="lakebed-encode")
        self._encoding: deque[Future[None]] = deque()
        self._size_bytes: int | None = None
        self._aborted = False

    @property
    def rows(self) -> int:
        """How many rows were taken so far."""
        return self._rows

    @property
    def min_key(self) -> str | None:
        """The first key taken; None before it."""
        return self._order.min_key

    @property
    def max_key(self) -> str | None:
        """The last key taken so far; None before the first."""
        return self._order.max_key

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows of exactly the run's schema, with keys above those before."""
        if not batch.num_rows:
            return
        self._order.check(batch.column(RECORD_KEY))
        self._rows += batch.num_rows
        # pyarrow makes a row group of every call, so rows are gathered here.
        row_bytes = max(1, batch.nbytes // batch.num_rows)
        start = 0
        while start < batch.num_rows:
            room = min(
                self._max_rows - self._pending_rows,
                (self._max_bytes - self._pending_bytes) // row_bytes,
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
        group, self._pending = self._pending, []
        self._pending_rows = self._pending_bytes = 0
        self._first_keys.append(group[0].column(RECORD_KEY)[0].as_py())
        while len(self._encoding) >= _ROW_GROUPS_AHEAD:
            self._encoding.popleft().result()
        self._encoding.append(self._encoder.submit(self._encode, group))

    def _encode(self, group: list[pa.RecordBatch]) -> None:
        # Within a row group Parquet takes one dictionary per column only.
        table = pa.Table.from_batches(group).unify_dictionaries()
        if self._writer is None:
            self._writer = self._open(_repeating_leaves(table))
        self._writer.write_table(table, row_group_size=table.num_rows)

    def _open(self, repeating: list[str]) -> pq.ParquetWriter:
        dictionaries = [f.name for f in self._schema if pa.types.is_dictionary(f.type)]
        sorted_texts = [name for name in _SORTED_TEXT_COLUMNS if name in self._schema.names]
        return pq.ParquetWriter(
            self._sink,
            self._schema,
            compression="zstd",
            compression_level=1,
            use_dictionary=[*dictionaries, *repeating],
            column_encoding=dict.fromkeys(sorted_texts, "DELTA_BYTE_ARRAY"),
            write_page_checksum=True,
            # Arrow's own schema would bring the dictionaries of constant columns back.
            store_schema=False,
        )

    def close(self) -> int:
        """Write the footer, publish the stream and give its size. Closing twice gives the same."""
        if self._size_bytes is not None:
            return self._size_bytes
        if self._aborted:
            raise InvalidError(f"{self._path}: close after abort")
        if self._pending:
            self._flush()
        while self._encoding:
            self._encoding.popleft().result()
        self._encoder.shutdown()
        if self._writer is None:
            self._writer = self._open([])
        self._writer.add_key_value_metadata(self._footer())
        self._writer.close()
        size_bytes = self._stream.tell()
        self._stream.close()
        self._size_bytes = size_bytes
        pa.default_memory_pool().release_unused()
        return size_bytes

    def _footer(self) -> dict[str, str]:
        footer = {FOOTER_IS_ORDERED: "true", **FOOTER_CALENDAR, **self._metadata}
        low, high = self.min_key, self.max_key
        if low is not None and high is not None and same_order_in_java(low + high):
            footer |= {FOOTER_MIN_KEY: low, FOOTER_MAX_KEY: high}
        if (keys := encode_row_group_keys(self._first_keys)) is not None:
            footer[FOOTER_ROW_GROUP_KEYS] = keys
        return footer

    def abort(self) -> None:
        """Drop everything written. After `close`, or the second time, this does nothing."""
        if self._size_bytes is not None or self._aborted:
            return
        self._aborted = True
        self._sink.discard()
        self._pending = []
        self._encoder.shutdown(cancel_futures=True)
        try:
            if self._writer is not None:
                self._writer.close()
        finally:
            self._stream.abort()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None or self._aborted:
            self.abort()
            return
        try:
            self.close()
        except BaseException:
            self.abort()
            raise


def _repeating_leaves(table: pa.Table) -> list[str]:
    """Name the Parquet leaves whose values repeat enough for a dictionary."""
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
