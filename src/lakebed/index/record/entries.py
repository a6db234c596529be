"""Entries of the record index: a record key, and the file groups to which it was written.

    _hoodie_record_key    the key; a run has each key once, in ascending order
    _lakebed_places       the places of the key, separated by 0x1e: partition, 0x1f, file id

A place records that a commit wrote the key to a file group. Since then, the key may have been
deleted, or the file group replaced: superfluous places are harmless, missing ones are not.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import CorruptError
from lakebed.format.names.meta_columns import RECORD_KEY
from lakebed.index.holders import HOLDERS_SCHEMA
from lakebed.index.secondary.manifest import RunFile
from lakebed.index.strategy import Numbers
from lakebed.merge.rule import MergeRule
from lakebed.storage.storage import Storage
from lakebed.table.files.file_group import FileGroupId
from lakebed.table.read.key_filter import KeyFilter
from lakebed.table.read.pages.paged_file import ParquetFooter
from lakebed.table.read.parquet_source import ParquetSource, open_parquet
from lakebed.table.store.run_writer import RunSizes, RunWriter

PLACES: Final = "_lakebed_places"
ENTRIES_SCHEMA: Final = pa.schema(
    [
        pa.field(RECORD_KEY, pa.string(), nullable=False),
        pa.field(PLACES, pa.string(), nullable=False),
    ]
)
# These separators are in no path and no file id.
_IN_PLACE: Final = "\x1f"
_BETWEEN_PLACES: Final = "\x1e"
# A lookup of a few keys decodes one row group for each key.
_ROW_GROUP_ROWS: Final = 4_096
# For more keys than this, all row groups are read, because most of them contain one of the keys.
_MAX_FILTERED: Final = 10_000


def place_of(group: FileGroupId) -> str:
    """Return the string of a file group as a place in an entry."""
    return f"{group.partition}{_IN_PLACE}{group.file_id}"


def make_entries(keys: pa.StringArray, group: FileGroupId) -> pa.RecordBatch:
    """Return the entries of sorted, unique keys that were written to a file group."""
    places = pa.repeat(pa.scalar(place_of(group)), len(keys))
    return pa.RecordBatch.from_arrays([keys, places], schema=ENTRIES_SCHEMA)


def join_entries(entries: Iterable[pa.RecordBatch]) -> pa.Table:
    """Return entries in key order, with the places of a key from all batches in one entry."""
    table = pa.Table.from_batches(entries, ENTRIES_SCHEMA)
    grouped = table.group_by(RECORD_KEY, use_threads=False).aggregate([(PLACES, "list")])
    places = pc.binary_join(grouped.column(f"{PLACES}_list").combine_chunks(), _BETWEEN_PLACES)
    joined = pa.Table.from_arrays([grouped.column(RECORD_KEY), places], schema=ENTRIES_SCHEMA)
    return joined.take(pc.sort_indices(joined.column(RECORD_KEY)))


def _join_places(older: pa.RecordBatch, newer: pa.RecordBatch) -> pa.RecordBatch:
    first, second = older.column(PLACES), newer.column(PLACES)
    both = pc.binary_join_element_wise(first, second, _BETWEEN_PLACES)
    at = newer.schema.get_field_index(PLACES)
    places = pc.if_else(pc.equal(first, second), second, both)
    return newer.set_column(at, newer.schema.field(at), places)


ENTRIES_RULE: Final = MergeRule(merger=_join_places)
"""Merges runs of entries; a key in several runs gets the places of all of them."""


def entries_writer(storage: Storage, path: str) -> RunWriter:
    """Return the writer of a run of entries."""
    sizes = RunSizes(row_group_rows=_ROW_GROUP_ROWS)
    return RunWriter(storage.open_write(path), path, ENTRIES_SCHEMA, {}, sizes=sizes)


def write_entries(storage: Storage, path: str, batches: Iterable[pa.RecordBatch]) -> RunFile:
    """Write entries in key order as one run."""
    with entries_writer(storage, path) as run:
        for batch in batches:
            run.write(batch)
        size_bytes = run.close()
    return RunFile(path, run.rows, size_bytes)


def read_entries(
    storage: Storage,
    path: str,
    keys: pa.StringArray | None,
    footers: dict[str, ParquetFooter] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the entries of a run for `keys`; None means all entries.

    `footers` caches the footers of runs between calls.
    """
    held = {} if footers is None else footers
    what = _what(path)
    wanted = None
    if keys is not None and len(keys) <= _MAX_FILTERED:
        wanted = KeyFilter.of(keys=keys.to_pylist())
    with open_parquet(storage, path, what, footer=held.get(path)) as file:
        _check_columns(file, what)
        held[path] = file.footer
        groups = None if wanted is None else wanted.row_groups(file, what)
        for batch in file.read(ENTRIES_SCHEMA.names, row_groups=groups):
            found_keys = batch.column(RECORD_KEY)
            if wanted is not None:
                found = batch.filter(wanted.mask(found_keys))
            elif keys is not None:
                found = batch.filter(pc.is_in(found_keys, value_set=keys))
            else:
                found = batch
            if found.num_rows:
                yield pa.RecordBatch.from_arrays(found.columns, schema=ENTRIES_SCHEMA)


def check_entries(storage: Storage, run: RunFile) -> None:
    """Raise an error if a run is missing, or its footer does not match its number of entries."""
    what = _what(run.path)
    with open_parquet(storage, run.path, what) as file:
        _check_columns(file, what)
        for rows in (file.num_rows, file.count_rows(range(file.num_row_groups))):
            if rows != run.entries:
                raise CorruptError(f"{what}: expected {run.entries:,} entries, found {rows:,}")


def _check_columns(file: ParquetSource, what: str) -> None:
    """Raise CorruptError if a run has other columns, as with a damaged footer."""
    found = file.schema
    if (found.names, found.types) != (ENTRIES_SCHEMA.names, ENTRIES_SCHEMA.types):
        raise CorruptError(
            f"{what}: expected the columns {ENTRIES_SCHEMA.names}, found {found.names}"
        )


def _what(path: str) -> str:
    return f"run {path!r} of the record index"


def list_places(column: pa.StringArray) -> tuple[Numbers, pa.StringArray]:
    """Return (row, place) for every place of every row; a null row has none."""
    lists = pc.split_pattern(column, _BETWEEN_PLACES)
    rows = pc.list_parent_indices(lists).to_numpy().astype(np.int64)
    return rows, pc.list_flatten(lists)


def to_holders(entries: pa.RecordBatch, groups: Sequence[FileGroupId]) -> pa.RecordBatch:
    """Return the keys of entries, each with the positions of its places in `groups`.

    Places that are not in `groups`, and keys without any other place, are left out.
    """
    lists = pc.split_pattern(entries.column(PLACES), _BETWEEN_PLACES)
    numbers = pc.index_in(pc.list_flatten(lists), value_set=_places(groups))
    keys, places = _joined(entries, lists, numbers.is_valid(), numbers.cast(pa.string()), ",")
    return pa.RecordBatch.from_arrays([keys, places], schema=HOLDERS_SCHEMA)


def places_of(entries: pa.RecordBatch) -> set[FileGroupId]:
    """Return the places of all entries as file groups."""
    places = pc.list_flatten(pc.split_pattern(entries.column(PLACES), _BETWEEN_PLACES)).unique()
    return {FileGroupId(*place.split(_IN_PLACE)) for place in places.to_pylist()}


def drop_places(entries: pa.RecordBatch, groups: Sequence[FileGroupId]) -> pa.RecordBatch:
    """Return entries without the places `groups`, and without keys that have no other place."""
    if not groups:
        return entries
    lists = pc.split_pattern(entries.column(PLACES), _BETWEEN_PLACES)
    flat = pc.list_flatten(lists)
    stays = pc.invert(pc.is_in(flat, value_set=_places(groups)))
    keys, places = _joined(entries, lists, stays, flat, _BETWEEN_PLACES)
    return pa.RecordBatch.from_arrays([keys, places], schema=ENTRIES_SCHEMA)


def unique_places(entries: pa.RecordBatch) -> pa.RecordBatch:
    """Return entries in which each place is listed once, which merging runs does not ensure."""
    several = pc.match_substring(entries.column(PLACES), _BETWEEN_PLACES)
    if not several.true_count:
        return entries
    lists = pc.split_pattern(entries.column(PLACES), _BETWEEN_PLACES)
    flat = pc.list_flatten(lists)
    codes = flat.dictionary_encode().indices.to_numpy()
    pairs = np.stack([pc.list_parent_indices(lists).to_numpy(), codes])
    first = np.zeros(len(flat), dtype=bool)
    first[np.unique(pairs, axis=1, return_index=True)[1]] = True
    _, places = _joined(entries, lists, pa.array(first), flat, _BETWEEN_PLACES)
    return entries.set_column(1, ENTRIES_SCHEMA.field(PLACES), places)


def from_holders(holders: pa.RecordBatch, groups: Sequence[FileGroupId]) -> pa.RecordBatch:
    """Return the entries of keys that have a single holder each, a position in `groups`."""
    places = _places(groups).take(holders.column(1).cast(pa.int64()))
    return pa.RecordBatch.from_arrays([holders.column(0), places], schema=ENTRIES_SCHEMA)


def _places(groups: Sequence[FileGroupId]) -> pa.StringArray:
    return pa.array(map(place_of, groups), pa.string())


def _joined(
    entries: pa.RecordBatch,
    lists: pa.ListArray,
    stays: pa.BooleanArray,
    values: pa.StringArray,
    between: str,
) -> tuple[pa.StringArray, pa.StringArray]:
    """Return the keys that keep at least one value, and their remaining values, joined."""
    kept = stays.to_numpy(zero_copy_only=False)
    rows = pc.list_parent_indices(lists).to_numpy()[kept]
    counts = np.bincount(rows, minlength=entries.num_rows)
    offsets = pa.array(np.append(0, np.cumsum(counts)).astype(np.int32))
    joined = pc.binary_join(pa.ListArray.from_arrays(offsets, values.filter(stays)), between)
    some = pa.array(counts > 0)
    return entries.column(RECORD_KEY).filter(some), joined.filter(some)
