"""Reads the rows of a few keys: finds and merges the keys first, and decodes the rest afterwards.

The key columns of a slice's runs show which rows have a requested key. These rows are merged with
only their key, ordering columns and place, by the same code that merges whole rows; the other
columns are then decoded only for the versions that remain.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from lakebed.errors import CorruptError
from lakebed.merge.arrays import Ints, int64_array, to_numpy
from lakebed.merge.rule import MergeRule
from lakebed.storage.storage import Storage
from lakebed.table.read.pages.sorted_keys import RowSpan
from lakebed.table.read.run_reader import PLACE, Needs, open_source, read_run
from lakebed.table.read.run_source import RunKind, RunSource

# With fewer columns besides key and ordering, decoding them later saves nothing.
_MIN_LATE_COLUMNS = 4
# A base file may repeat a key any number of times; more rows are read as a stream.
_MAX_ROWS = 1_024

Found = Mapping[str, tuple[RowSpan, ...]]
"""The rows that hold a requested key, by the name of the run."""


def find_rows(storage: Storage, sources: Sequence[RunSource], needs: Needs) -> Found | None:
    """Return the rows with the requested keys in each run whose key column can be searched.

    Returns None if the reader does not request a few keys only.
    """
    keys = needs.key_filter
    if keys is None or not keys.is_few or needs.virtual_key is not None:
        return None
    found = {}
    for source in sources:
        if source.kind is not RunKind.DATA or not source.is_parquet:
            continue
        spans = None if source.footer is None else keys.spans(source.footer, source.name)
        if spans is None:
            with open_source(storage, source) as file:
                spans = keys.spans(file, source.name)
        if spans is not None:
            found[source.name] = tuple(spans)
    return found


def place_rows(
    storage: Storage, sources: Sequence[RunSource], needs: Needs, rule: MergeRule, found: Found
) -> Needs | None:
    """Return what a merge of places needs of each run; None if whole rows must be merged.

    That is the case if a row's columns may come from several versions, if a merger needs all
    columns, or if nothing is saved: on remote storage a second request takes longer.
    """
    if rule.merger is not None or rule.fill is not None or any(of.partial for of in sources):
        return None
    data = [source for source in sources if source.kind is RunKind.DATA]
    if any(source.serves is not None for source in sources):
        return None  # the cache of pages does not know the columns of a base file of all groups
    if len(sources) < 2 or storage.local_path(sources[0].path) is None:
        return None
    if not all(source.name in found for source in data):
        return None
    narrow = replace(needs, fields=())
    if len(needs.all_fields) - len(narrow.all_fields) < _MIN_LATE_COLUMNS:
        return None
    places: dict[str, int] = {}
    rows = 0
    for source in data:
        places[source.name] = rows
        rows += sum(span.stop - span.start for span in found[source.name])
    return replace(narrow, places=places) if rows <= _MAX_ROWS else None


def read_places(
    storage: Storage, sources: Sequence[RunSource], needs: Needs, placed: Needs, places: Ints
) -> Iterator[pa.RecordBatch]:
    """Yield the rows at `places`, in this order, with the columns of `needs`."""
    assert placed.places is not None
    assert placed.found is not None
    if not len(places):
        return
    order = np.argsort(places)
    wanted = places[order]
    names = [field.name for field in needs.all_fields]
    batches: list[pa.RecordBatch] = []
    for source in sources:
        first = placed.places.get(source.name)
        if first is None:
            continue
        rows = _rows_of(placed.found[source.name])
        low, high = np.searchsorted(wanted, [first, first + len(rows)])
        if low == high:
            continue
        spans = tuple(rows[int(place)] for place in wanted[low:high] - first)
        only = replace(needs, found={source.name: spans})
        batches += [batch.select(names) for batch in read_run(storage, source, only)]
        if sum(batch.num_rows for batch in batches) != high:
            raise CorruptError(f"{source.name}: its rows do not have the keys of its key column")
    back = np.empty(len(order), np.int64)
    back[order] = np.arange(len(order))
    rows_found = batches[0] if len(batches) == 1 else pa.concat_batches(batches)
    yield rows_found if len(order) == 1 else rows_found.take(int64_array(back))


def places_of(batches: Iterator[pa.RecordBatch]) -> Ints:
    """Return the places of merged rows."""
    found = [to_numpy(batch.column(PLACE), np.int64) for batch in batches]
    return np.concatenate(found) if found else np.empty(0, np.int64)


def _rows_of(spans: Sequence[RowSpan]) -> list[RowSpan]:
    """Return each row by itself."""
    return [
        RowSpan(span.group, row, row + 1) for span in spans for row in range(span.start, span.stop)
    ]
