"""Entries of a secondary index: the encoded values of a row, its partition and its key.

An entry means that some version of the row had these values. Only the row itself has its current
values, so an index lookup returns candidates; superfluous candidates cost time, but never make a
result wrong.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.format.index.ordered_bytes import encode_keys, encode_rows
from lakebed.format.names.meta_columns import PARTITION_PATH, RECORD_KEY
from lakebed.index.secondary.definition import column_values
from lakebed.index.secondary.key_order import key_order
from lakebed.index.secondary.manifest import RunFile
from lakebed.storage.storage import Storage
from lakebed.table.read.key_filter import KeyFilter, Range, first_keys
from lakebed.table.read.pages.paged_file import ParquetFooter
from lakebed.table.read.pages.sorted_keys import HeldColumns
from lakebed.table.read.parquet_source import ParquetSource, open_parquet
from lakebed.table.store.run_writer import RunSizes, RunWriter


class EntryCache:
    """Footers and pages of keys of an index's runs, which stay valid, because runs never change.

    A footer is kept as long as the cache; of the keys, the least recently used are evicted.
    """

    def __init__(self, max_bytes: int = 64 << 20) -> None:
        self.keys = HeldColumns(max_bytes)
        self._footers: dict[str, ParquetFooter] = {}

    def get(self, path: str) -> ParquetFooter | None:
        """Return the footer of a run; None if it is not held."""
        return self._footers.get(path)

    def put(self, path: str, footer: ParquetFooter) -> ParquetFooter:
        """Keep a footer; return it with the cache of keys attached."""
        held = self._footers[path] = replace(footer, columns=self.keys)
        return held


ENTRY_KEY: Final = "_key"
# A query for one value reads one page of each run.
_ROW_GROUP_ROWS: Final = 8192
_PAGE_ROWS: Final = 1024
# More entries than this are read by row groups.
_FEW_ENTRIES: Final = 4096
ENTRY_SCHEMA: Final = pa.schema(
    [
        pa.field(ENTRY_KEY, pa.binary(), nullable=False),
        pa.field(PARTITION_PATH, pa.string(), nullable=False),
        pa.field(RECORD_KEY, pa.string(), nullable=False),
    ]
)
_STORED_SCHEMA: Final = ENTRY_SCHEMA.set(
    1, pa.field(PARTITION_PATH, pa.dictionary(pa.int32(), pa.string()), nullable=False)
)


def make_entries(rows: pa.RecordBatch, columns: Sequence[str], partition: str) -> pa.RecordBatch:
    """Return an entry for each of `rows`, which have record keys and the columns of the index."""
    return add_values(make_keys(rows, partition), rows, columns)


def make_keys(rows: pa.RecordBatch, partition: str) -> pa.RecordBatch:
    """Return an entry without values for each of `rows`."""
    keys = rows.column(RECORD_KEY)
    partitions = pa.repeat(pa.scalar(partition), rows.num_rows)
    encoded = encode_keys(partition, keys)
    return pa.RecordBatch.from_arrays([encoded, partitions, keys], schema=ENTRY_SCHEMA)


def add_values(
    keys: pa.RecordBatch, rows: pa.RecordBatch, columns: Sequence[str]
) -> pa.RecordBatch:
    """Return `keys`, the result of `make_keys` for `rows`, with the values of `columns` added."""
    if not columns:
        return keys
    values = [column_values(rows, column) for column in columns]
    encoded = encode_rows(values, tail=keys.column(ENTRY_KEY))
    return pa.RecordBatch.from_arrays([encoded, *keys.columns[1:]], schema=ENTRY_SCHEMA)


def key_entries(entries: pa.RecordBatch) -> pa.RecordBatch:
    """Return the entries with partition and record key as their only key parts."""
    places = [entries.column(PARTITION_PATH), entries.column(RECORD_KEY)]
    return pa.RecordBatch.from_arrays([encode_rows(places), *places], schema=ENTRY_SCHEMA)


def row_keys(entries: pa.RecordBatch) -> pa.Array:
    """Return for each entry a string that identifies its partition and record key."""
    return pc.binary_join_element_wise(
        entries.column(PARTITION_PATH), entries.column(RECORD_KEY), "\0"
    )


def sort_entries(entries: Iterable[pa.RecordBatch]) -> pa.RecordBatch:
    """Return entries in ascending order without duplicates."""
    gathered = _gather(entries)
    return gathered.take(key_order(gathered.column(ENTRY_KEY)))


def sorted_parts(entries: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield entries in ascending order without duplicates, as many at a time as a row group has.

    The memory of a part serves the next one; new memory takes longer than the sort.
    """
    gathered = _gather(entries)
    order = key_order(gathered.column(ENTRY_KEY))
    for start in range(0, len(order), _ROW_GROUP_ROWS):
        yield gathered.take(order.slice(start, _ROW_GROUP_ROWS))


def _gather(entries: Iterable[pa.RecordBatch]) -> pa.RecordBatch:
    held = [batch for batch in entries if batch.num_rows]
    if not held:
        return pa.RecordBatch.from_pylist([], ENTRY_SCHEMA)
    return held[0] if len(held) == 1 else pa.concat_batches(held)


def write_entries(
    storage: Storage, path: str, batches: Iterable[pa.RecordBatch], *, compress: bool = True
) -> RunFile:
    """Write sorted entries as one run.

    Compression takes longer than all other work on entries, so it pays for long-lived runs only.
    """
    sink = storage.open_write(path)
    with RunWriter(
        sink,
        path,
        _STORED_SCHEMA,
        {},
        key=ENTRY_KEY,
        sizes=RunSizes(row_group_rows=_ROW_GROUP_ROWS, page_rows=_PAGE_ROWS),
        compression="zstd" if compress else "none",
    ) as run:
        for batch in batches:
            if batch.num_rows:
                key, partitions, record_keys = batch.columns
                columns = [key, partitions.dictionary_encode(), record_keys]
                run.write(pa.RecordBatch.from_arrays(columns, schema=_STORED_SCHEMA))
        size_bytes = run.close()
    return RunFile(path, run.rows, size_bytes)


def read_row_group_keys(storage: Storage, path: str) -> list[bytes]:
    """Return the first key of each row group of a run, in order."""
    what = f"index run {path!r}"
    with open_parquet(storage, path, what) as file:
        known = first_keys(file, ENTRY_KEY, what)
    return [] if known is None else known[0]


@contextmanager
def _open_run(storage: Storage, path: str, cache: EntryCache | None) -> Iterator[ParquetSource]:
    footer = None if cache is None else cache.get(path)
    if cache is not None and footer is None:
        with open_parquet(storage, path, _what(path)) as file:
            footer = cache.put(path, file.footer)
    with open_parquet(storage, path, _what(path), footer=footer) as file:
        yield file


def count_entries(
    storage: Storage, path: str, ranges: Sequence[Range], cache: EntryCache | None = None
) -> int:
    """Return an upper bound for the entries in `ranges`: the rows of overlapping row groups."""
    wanted = KeyFilter.of(ranges=ranges, column=ENTRY_KEY)
    with _open_run(storage, path, cache) as file:
        groups = wanted.row_groups(file, _what(path))
        return file.num_rows if groups is None else file.count_rows(groups)


def find_entries(
    storage: Storage, path: str, ranges: Sequence[Range], cache: EntryCache | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the entries of a run in `ranges`.

    For a few ranges, only pages of keys are searched, which `cache` keeps, and pages that hold
    entries are read; otherwise row groups that may contain any.
    """
    wanted = KeyFilter.of(ranges=ranges, column=ENTRY_KEY)
    what = _what(path)
    footer = None if cache is None else cache.get(path)
    spans = None if footer is None else wanted.rows_in_ranges(footer, what)
    if spans == []:
        return
    with _open_run(storage, path, cache) as file:
        if cache is not None and spans is None:
            spans = wanted.rows_in_ranges(file, what)
        if spans is not None and sum(span.stop - span.start for span in spans) <= _FEW_ENTRIES:
            yield from file.read_spans(ENTRY_SCHEMA.names, spans)
            return
        groups = wanted.row_groups(file, what)
        for batch in file.read(ENTRY_SCHEMA.names, row_groups=groups):
            found = batch.filter(wanted.mask(batch.column(ENTRY_KEY)))
            if found.num_rows:
                yield found


def _what(path: str) -> str:
    return f"index run {path!r}"
