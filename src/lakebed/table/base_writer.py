"""Write a base file: one sorted Parquet file of a file group.

Columns are the five meta columns and then the table's in their storage types; rows are
sorted by record key in UTF-8 byte order, each key once. `docs/format/base-files.md`
describes footer, encodings and the choices behind them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakebed.errors import InvalidError, KeyValueError
from lakebed.format.avro_schema import arrow_to_avro, with_meta_fields
from lakebed.format.footer import (
    FOOTER_AVRO_SCHEMA,
    FOOTER_CALENDAR,
    FOOTER_IS_ORDERED,
    FOOTER_MAX_KEY,
    FOOTER_MIN_KEY,
    same_order_in_java,
)
from lakebed.format.meta_columns import (
    COMMIT_SEQNO,
    COMMIT_TIME,
    FILE_NAME,
    META_COLUMNS,
    META_FIELDS,
    PARTITION_PATH,
    RECORD_KEY,
    constant,
    seqnos,
)
from lakebed.storage.storage import Storage, WriteStream
from lakebed.table.conform import conform, conform_array
from lakebed.table.schema import storage_schema

ROW_GROUP_ROWS = 16_384
ROW_GROUP_BYTES = 8 * 1024 * 1024

# Beyond this share of distinct values a dictionary costs more than it saves.
_DICTIONARY_RATIO = 0.4

_CONSTANT_COLUMNS = (COMMIT_TIME, PARTITION_PATH, FILE_NAME)
_SORTED_TEXT_COLUMNS = (RECORD_KEY, COMMIT_SEQNO)
_WRITTEN_META_FIELDS = [
    field.with_type(pa.dictionary(pa.int32(), pa.string()))
    if field.name in _CONSTANT_COLUMNS
    else field
    for field in META_FIELDS
]


@dataclass(frozen=True, slots=True)
class BaseFileStats:
    """What a written base file holds; the keys are None if it has no row."""

    path: str
    size_bytes: int
    rows: int
    min_key: str | None
    max_key: str | None


class _Sink:
    """The file that pyarrow writes to; after `discard` it swallows what still comes.

    pyarrow can only end a Parquet file by writing its footer, also one that failed.
    """

    closed = False

    def __init__(self, stream: WriteStream) -> None:
        self._stream = stream
        self._discarding = False

    def write(self, data: bytes | memoryview | pa.Buffer) -> int:
        return len(memoryview(data)) if self._discarding else self._stream.write(data)

    def tell(self) -> int:
        return self._stream.tell()

    def flush(self) -> None:
        pass

    def discard(self) -> None:
        self._discarding = True


class BaseFileWriter:
    """Writes one base file; nobody sees it before `close`, and nothing stays after `abort`.

    As a context manager it closes on success and aborts on an exception. Memory is bounded
    by a row group, whatever the size of the file.
    """

    def __init__(
        self,
        storage: Storage,
        path: str,
        schema: pa.Schema,
        *,
        table_name: str,
        instant: str,
        partition_path: str = "",
        task: int = 0,
        metadata: Mapping[str, str] | None = None,
        row_group_rows: int = ROW_GROUP_ROWS,
        row_group_bytes: int = ROW_GROUP_BYTES,
    ) -> None:
        self._path = path
        self._schema = schema
        self._file_schema = [*_WRITTEN_META_FIELDS, *storage_schema(schema)]
        self._instant = instant
        self._partition_path = partition_path
        self._task = task
        self._metadata = {
            FOOTER_AVRO_SCHEMA: with_meta_fields(arrow_to_avro(schema, table_name)),
            **(metadata or {}),
        }
        self._max_rows = row_group_rows
        self._max_bytes = row_group_bytes
        self._pending: list[pa.RecordBatch] = []
        self._pending_rows = 0
        self._pending_bytes = 0
        self._rows = 0
        self._min_key: str | None = None
        self._max_key: str | None = None
        self._writer: pq.ParquetWriter | None = None
        self._stats: BaseFileStats | None = None
        self._stream = storage.open_write(path)
        self._sink = _Sink(self._stream)

    def write(
        self,
        batch: pa.RecordBatch,
        record_keys: pa.Array,
        *,
        commit_times: pa.Array | None = None,
        commit_seqnos: pa.Array | None = None,
    ) -> None:
        """Append rows of the table's logical schema, sorted by `record_keys`.

        Rows that this instant makes get its commit time and a new sequence number; rows
        carried over from older files bring theirs (a null there is a new row). Raises InvalidError naming the key
        that is not above the one before it, also across calls.
        """
        batch = conform(batch, self._schema)
        keys = record_keys.cast(pa.string())
        rows = batch.num_rows
        if rows != len(keys):
            raise InvalidError(f"{self._path}: want {rows} record keys, got {len(keys)}")
        if not rows:
            return
        self._check_order(keys)
        made = seqnos(self._instant, self._task, self._rows, rows)
        commit_seqnos = made if commit_seqnos is None else pc.coalesce(commit_seqnos, made)
        if commit_times is None:
            commit_times = constant(self._instant, rows)
        else:
            commit_times = commit_times.fill_null(self._instant).dictionary_encode()
        meta = [
            commit_times,
            commit_seqnos,
            keys,
            constant(self._partition_path, rows),
            constant(self._path.rpartition("/")[2], rows),
        ]
        columns = [
            conform_array(column, field, field.name)
            for column, field in zip(batch.columns, self._file_schema[len(meta) :], strict=True)
        ]
        self._rows += rows
        self._gather(
            pa.RecordBatch.from_arrays(meta + columns, schema=pa.schema(self._file_schema))
        )

    def _check_order(self, keys: pa.StringArray) -> None:
        if keys.null_count:
            raise KeyValueError(f"{self._path}: want a record key in each row, got null")
        first = keys[0].as_py()
        if self._max_key is not None and first <= self._max_key:
            raise InvalidError(
                f"{self._path}: want record keys above {self._max_key!r}, got {first!r}"
            )
        # Arrow compares strings by their bytes, which is the order that the file promises.
        rising = pc.greater(keys.slice(1), keys.slice(0, len(keys) - 1))
        if pc.all(rising, min_count=0).as_py() is False:
            at = pc.index(rising, pa.scalar(False)).as_py() + 1
            before, found = keys[at - 1].as_py(), keys[at].as_py()
            raise InvalidError(f"{self._path}: want record keys above {before!r}, got {found!r}")
        if self._min_key is None:
            self._min_key = first
        self._max_key = keys[-1].as_py()

    def _gather(self, batch: pa.RecordBatch) -> None:
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
        # Within a row group Parquet takes one dictionary per column only.
        table = pa.Table.from_batches(self._pending).unify_dictionaries()
        if self._writer is None:
            self._writer = self._open(_repeating_leaves(table))
        self._writer.write_table(table, row_group_size=table.num_rows)
        self._pending = []
        self._pending_rows = self._pending_bytes = 0

    def _open(self, repeating: list[str]) -> pq.ParquetWriter:
        return pq.ParquetWriter(
            self._sink,
            pa.schema(self._file_schema),
            compression="zstd",
            compression_level=1,
            use_dictionary=[*_CONSTANT_COLUMNS, *repeating],
            column_encoding=dict.fromkeys(_SORTED_TEXT_COLUMNS, "DELTA_BYTE_ARRAY"),
            write_page_checksum=True,
            # Arrow's own schema would bring the dictionaries of constant columns back.
            store_schema=False,
        )

    def close(self) -> BaseFileStats:
        """Write the footer and make the file visible. Closing twice gives the same."""
        if self._stats is not None:
            return self._stats
        if self._pending:
            self._flush()
        if self._writer is None:
            self._writer = self._open([])
        self._writer.add_key_value_metadata(self._footer())
        self._writer.close()
        size_bytes = self._stream.tell()
        self._stream.close()
        self._stats = BaseFileStats(
            self._path, size_bytes, self._rows, self._min_key, self._max_key
        )
        pa.default_memory_pool().release_unused()
        return self._stats

    def _footer(self) -> dict[str, str]:
        footer = {FOOTER_IS_ORDERED: "true", **FOOTER_CALENDAR, **self._metadata}
        low, high = self._min_key, self._max_key
        if low is not None and high is not None and same_order_in_java(low + high):
            footer |= {FOOTER_MIN_KEY: low, FOOTER_MAX_KEY: high}
        return footer

    def abort(self) -> None:
        """Drop everything written. After `close` this does nothing."""
        if self._stats is not None:
            return
        self._sink.discard()
        self._pending = []
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
        if kind is not None:
            self.abort()
            return
        try:
            self.close()
        except BaseException:
            self.abort()
            raise


def _repeating_leaves(table: pa.Table) -> list[str]:
    """Name the Parquet leaves whose values repeat enough for a dictionary."""
    names = table.column_names[len(META_COLUMNS) :]
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
