"""Finds rows by values of indexed columns: the index returns candidates, which are read by key.

If the index cannot answer, because it is incomplete or too many rows have one of the values, all
rows are searched. Values are equal if they have the same bytes in an index: null equals null, NaN
equals NaN, and -0.0 equals 0.0.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.format.index.ordered_bytes import after_prefix, encode_rows
from lakebed.format.names.meta_columns import PARTITION_PATH
from lakebed.index.secondary.definition import IndexDefinition, column_values
from lakebed.index.secondary.open_index import Candidates, OpenIndex
from lakebed.scan.candidates import candidate_keys, slices_with
from lakebed.scan.index_choice import Indexes, max_candidates
from lakebed.scan.lookup import Probe, run_probes
from lakebed.scan.scan import Scan
from lakebed.table.read.source_cache import SourceCache
from lakebed.table.snapshot import Snapshot


def leading_columns(definition: IndexDefinition, names: Sequence[str]) -> int:
    """Return how many leading columns of an index are among `names`."""
    columns = definition.columns
    return next((n for n, column in enumerate(columns) if column not in names), len(columns))


def look_up_values(
    snapshot: Snapshot,
    plan: Callable[[Snapshot], Scan],
    values: pa.RecordBatch,
    indexes: Indexes,
    cache: SourceCache,
) -> pa.Table:
    """Return the rows of a snapshot that match any row of `values` in all columns of `values`.

    The columns of `values` are columns of the table, or nested fields such as `place.city`. `plan`
    returns the scan of a snapshot or of some of its partitions.
    """
    candidates = _find(values, indexes)
    scan = plan(snapshot if candidates is None else snapshot.within(_partitions(candidates)))
    names = values.schema.names
    tops = [name if name in scan.view.schema.names else name.partition(".")[0] for name in names]
    read = replace(scan, columns=tuple(dict.fromkeys((*scan.columns, *tops))))
    wanted = encode_rows(values.columns)
    if candidates is not None:
        keys = candidate_keys(candidates, None, scan.slices)
        slices, _ = slices_with(scan.view.config, scan.view.schema, keys, scan.slices)
        read = replace(read, slices=slices, candidates=keys)

    def is_wanted(rows: pa.RecordBatch) -> pa.BooleanArray:
        held = encode_rows([column_values(rows, name) for name in names])
        return pc.is_in(held, value_set=wanted)

    narrow = replace(read, slices=())
    probes = [Probe(narrow, slice_, cache, is_wanted) for slice_ in read.slices]
    return run_probes(read, probes).select(list(scan.columns))


def _partitions(candidates: Candidates) -> set[str]:
    """Return the partitions that hold candidates."""
    named = pc.unique(candidates.keys.column(PARTITION_PATH)).to_pylist()
    return {*named, *(group.partition for group in candidates.whole)}


def _find(values: pa.RecordBatch, indexes: Indexes) -> Candidates | None:
    """Return the candidates of the best index, by leading columns; None if all rows are searched."""
    names = values.schema.names
    usable = [index for index in indexes if isinstance(index, OpenIndex)]
    if not usable:
        return None
    best = max(usable, key=lambda index: leading_columns(index.definition, names))
    used = leading_columns(best.definition, names)
    if not used:
        return None
    prefixes = encode_rows([values.column(name) for name in best.definition.columns[:used]])
    ranges = [(prefix, after_prefix(prefix)) for prefix in sorted(set(prefixes.to_pylist()))]
    return best.find(ranges, max_candidates(best.num_entries))
