"""Merge the versions of repeated keys with a custom merger, in one round per version.

The merger gets two aligned batches of data columns and returns the merged rows; meta columns are
those of the newer version. Deletes are resolved first: a newer delete deletes the key, and after an
older delete the newer row is kept unchanged.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakebed.errors import InvalidError, LakebedError
from lakebed.format.names.meta_columns import META_COLUMNS
from lakebed.merge.arrays import Bytes, Ints, int64_array
from lakebed.merge.rule import Merger
from lakebed.merge.run import BARRIER, DELETED, OPEN

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Repeated:
    """The versions of repeated keys in key order, oldest first.

    For each column that some partial run lacks, `lacking` marks the versions without it.
    """

    rows: Ints
    starts: Mask
    flags: Bytes
    lacking: Mapping[str, Mask]


def merge_rounds(
    table: pa.Table, versions: Repeated, merger: Merger
) -> tuple[pa.RecordBatch, Bytes]:
    """Return one row for each key, and its flags; the row of a deleted key is undefined."""
    firsts = np.flatnonzero(versions.starts)
    counts = np.diff(np.append(firsts, len(versions.rows)))
    flags = versions.flags[firsts].copy()
    active = np.arange(len(firsts))
    held = _rows(table, versions.rows[firsts])
    done: list[pa.RecordBatch] = []
    done_keys: list[Ints] = []
    for turn in range(1, int(counts.max()) + 1):
        goes_on = counts[active] > turn
        finished = int64_array(np.flatnonzero(~goes_on))
        done.append(held.take(finished))
        done_keys.append(active[~goes_on])
        held = held.take(int64_array(np.flatnonzero(goes_on)))
        active = active[goes_on]
        if not len(active):
            break
        at = firsts[active] + turn
        old, new = flags[active], versions.flags[at]
        newer = _fill(
            _rows(table, versions.rows[at]), held, versions, at, (old | new) & DELETED == 0
        )
        stands = (new & (BARRIER | DELETED) != 0) | (old & (DELETED | OPEN) != 0)
        held = _merge(held, newer, stands, merger)
        # Keep a version after a delete from being merged with one before it in a later pass.
        barrier = np.where((old | new) & BARRIER | old & DELETED, BARRIER, 0)
        flags[active] = new & (DELETED | OPEN) | barrier
    places = np.argsort(np.concatenate(done_keys))
    return pa.concat_batches(done).take(int64_array(places)), flags


def _merge(
    older: pa.RecordBatch, newer: pa.RecordBatch, stands: Mask, merger: Merger
) -> pa.RecordBatch:
    """Return the newer row where `stands` is true, and the merger's result elsewhere."""
    if stands.all():
        return newer
    names = [name for name in newer.schema.names if name not in META_COLUMNS]
    meet = int64_array(np.flatnonzero(~stands))
    merged = _call(merger, older.select(names).take(meet), newer.select(names).take(meet))
    fresh = newer.take(meet)
    columns = [
        merged.column(field.name) if field.name in names else fresh.column(field.name)
        for field in newer.schema
    ]
    both = pa.concat_batches([newer, pa.RecordBatch.from_arrays(columns, schema=newer.schema)])
    places = np.arange(newer.num_rows)
    places[~stands] = newer.num_rows + np.arange(fresh.num_rows)
    return both.take(int64_array(places))


def _call(merger: Merger, older: pa.RecordBatch, newer: pa.RecordBatch) -> pa.RecordBatch:
    try:
        found: object = merger(older, newer)
    except LakebedError:
        raise
    except Exception as error:  # a user's function may raise anything
        raise InvalidError(f"merger: {type(error).__name__}: {error}") from error
    if not isinstance(found, pa.RecordBatch):
        raise InvalidError(f"merger: expected a RecordBatch, found {type(found).__name__}")
    if not found.schema.equals(newer.schema):
        raise InvalidError(
            f"merger: expected the schema that it was given, {_spell(newer.schema)}; "
            f"found {_spell(found.schema)}"
        )
    if found.num_rows != newer.num_rows:
        raise InvalidError(f"merger: expected {newer.num_rows} rows, found {found.num_rows}")
    return found


def _fill(
    newer: pa.RecordBatch, older: pa.RecordBatch, versions: Repeated, at: Ints, alive: Mask
) -> pa.RecordBatch:
    """Return the newer rows with older values in the columns that their runs lack."""
    columns = []
    for field in newer.schema:
        column = newer.column(field.name)
        lacking = versions.lacking.get(field.name)
        if lacking is not None:
            keeps = lacking[at] & alive
            places = np.arange(len(at)) + np.where(keeps, len(at), 0)
            both = pa.concat_arrays([column, older.column(field.name)])
            column = both.take(int64_array(places))
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, schema=newer.schema)


def _rows(table: pa.Table, rows: Ints) -> pa.RecordBatch:
    taken = table.take(int64_array(rows))
    columns = [column.combine_chunks() for column in taken.columns]
    return pa.RecordBatch.from_arrays(columns, schema=taken.schema)


def _spell(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)
