"""Estimates the size, write cost and selectivity of a secondary index before it is built.

A sample of the rows is encoded as the index would store it. The sample comes from row groups at the
start, in the middle and at the end of some base files, or from the first rows of slices without
one. The sample compresses less well than the complete index, so the size is an upper estimate.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.format.index.ordered_bytes import encode_rows
from lakebed.format.names.meta_columns import RECORD_KEY
from lakebed.index.secondary.definition import IndexDefinition, column_values
from lakebed.index.secondary.entries import make_entries, sort_entries, write_entries
from lakebed.scan.candidates import keys_cost
from lakebed.scan.index_choice import max_candidates, pays_off
from lakebed.storage.objects import memory_storage
from lakebed.table.files.file_group import FileSlice
from lakebed.table.read.parquet_source import open_parquet
from lakebed.table.read.projection import find_columns, project, shape
from lakebed.table.read.slice_reader import read_slice
from lakebed.table.snapshot import Snapshot
from lakebed.table.view import TableView
from lakebed.terminal.text import plural, size_text

_MAX_SLICES = 24
_MAX_GROUPS = 3
_MAX_BATCHES = 16
_SAMPLE_ROWS = 4_096
_Item = TypeVar("_Item")


@dataclass(frozen=True, slots=True)
class IndexEstimate:
    """The expected size and use of an index; `print` shows it as a sentence.

    The index takes at most about `size_bytes`, and each written row adds about `row_bytes` to a
    commit; `row_share` compares that with the bytes of a row in the table. A query for an existing
    value finds about `rows_per_value` rows; `is_selective` is true if reads would use the index for
    such a query.
    """

    columns: tuple[str, ...]
    entries: int
    size_bytes: int
    row_bytes: float
    row_share: float
    rows_per_value: int
    is_selective: bool
    sampled_rows: int

    def __str__(self) -> str:
        rows = plural(self.rows_per_value, "row")
        used = "used" if self.is_selective else "too many for the index: reads would scan"
        return (
            f"index on {', '.join(self.columns)}: about {self.entries:,} entries, at most "
            f"{size_text(self.size_bytes)}; each written row adds {self.row_bytes:.1f} bytes "
            f"({self.row_share:.1%} of its size in the table); a value has about "
            f"{rows} ({used}); from a sample of {self.sampled_rows:,} rows"
        )


def estimate_index(snapshot: Snapshot, columns: Sequence[str]) -> IndexEstimate:
    """Estimate an index on `columns`; raise an error if it cannot be created."""
    definition = IndexDefinition.create("estimate", columns, snapshot.schema, "")
    view = snapshot.view()
    chosen = _spread([slice_ for slice_ in snapshot.slices if not slice_.damage], _MAX_SLICES)
    rows = 0
    samples: list[pa.RecordBatch] = []
    values: list[pa.Array] = []
    for slice_ in chosen:
        held, batches = _sample(view, slice_, definition.columns)
        rows += held
        for batch in batches:
            samples.append(make_entries(batch, definition.columns, slice_.group.partition))
            values.append(encode_rows([column_values(batch, c) for c in definition.columns]))
    total_bytes = sum(map(_size_of, snapshot.slices))
    entries = round(rows * total_bytes / max(1, sum(map(_size_of, chosen))))
    run = write_entries(memory_storage(), "sample", [sort_entries(samples)])
    sampled = sum(batch.num_rows for batch in samples)
    row_bytes = run.size_bytes / max(1, sampled)
    per_value = round(1 + max(0, entries - 1) * _repetition(values))
    return IndexEstimate(
        definition.columns,
        entries,
        round(entries * row_bytes),
        row_bytes,
        row_bytes * entries / max(1, total_bytes),
        per_value,
        per_value <= max_candidates(entries) and _pays_off(snapshot.slices, per_value),
        sampled,
    )


def _pays_off(slices: Sequence[FileSlice], rows: int) -> bool:
    """Return whether it is cheaper to read this many scattered rows by key than to scan."""
    touched = slices[:rows]
    each = -(-rows // max(1, len(touched)))
    cost = sum(keys_cost(slice_, each) for slice_ in touched)
    return pays_off(cost, sum(slice_.cost_bytes for slice_ in slices))


def _sample(
    view: TableView, slice_: FileSlice, columns: Sequence[str]
) -> tuple[int, list[pa.RecordBatch]]:
    """Return the approximate number of rows of a slice, and a sample of their keys and columns."""
    top = [name if name in view.schema.names else name.partition(".")[0] for name in columns]
    names = list(dict.fromkeys([RECORD_KEY, *top]))
    if slice_.base_file is None:
        first = list(islice(read_slice(view, slice_, names), _MAX_BATCHES))
        return sum(batch.num_rows for batch in first), first[:1]
    target = pa.schema(project(view.schema, names))
    path = slice_.base_file.path
    found = []
    with open_parquet(view.storage, path, f"base file {path!r}") as file:
        present = find_columns(file.schema, list(target))
        for group in _spread(range(file.num_row_groups), _MAX_GROUPS):
            rows = file.read(present, row_groups=[group], batch_rows=_SAMPLE_ROWS)
            found += [shape(batch, target) for batch in islice(rows, 1)]
        return file.num_rows, found


def _repetition(values: Sequence[pa.Array]) -> float:
    """Return the probability that two different rows have the same value, from a sample."""
    counts = pc.value_counts(pa.chunked_array(values, pa.binary())).field("counts").to_numpy()
    number = int(counts.sum())
    return float((counts * (counts - 1)).sum()) / max(1, number * (number - 1))


def _spread(items: Sequence[_Item], number: int) -> list[_Item]:
    """Return at most `number` of the items, at equal distances."""
    count = min(number, len(items))
    return [items[at * (len(items) - 1) // max(1, count - 1)] for at in range(count)]


def _size_of(slice_: FileSlice) -> int:
    return sum(file.size_bytes for file in slice_.files)
