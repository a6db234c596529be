"""Sort rows by key and keep one version of each: Hudi's merge rules on Arrow columns."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.format.meta_columns import RECORD_KEY

Positions = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class MergeRule:
    """Which version of a key survives.

    Without ordering fields the version that arrived last; with them the one with the
    greatest ordering values, compared in order, and on a tie the one that arrived last.
    A null ordering value is lower than any other.
    """

    ordering_fields: tuple[str, ...] = ()


def sort_rows(rows: pa.RecordBatch, rule: MergeRule) -> pa.RecordBatch:
    """Give `rows` in ascending order of key bytes, each key once."""
    return rows.take(pa.array(sort_positions(rows, rule)))


def sort_positions(
    rows: pa.RecordBatch, rule: MergeRule, subset: Positions | None = None
) -> Positions:
    """Give the row numbers to take for ascending key order, one per key.

    `rows` (or the row numbers of `subset`) come in order of arrival; Arrow's sort is
    stable, so equal keys stay in it and the last of them can be told.
    """
    keys = rows.column(RECORD_KEY)
    if subset is not None:
        keys = keys.take(pa.array(subset))
    order = pc.sort_indices(keys)
    positions = order.to_numpy().astype(np.int64)
    if subset is not None:
        positions = subset[positions]
    return _one_per_key(rows, keys.take(order), positions, rule)


def _one_per_key(
    rows: pa.RecordBatch, sorted_keys: pa.Array, positions: Positions, rule: MergeRule
) -> Positions:
    count = len(sorted_keys)
    if count < 2:
        return positions
    same = pc.equal(sorted_keys.slice(0, count - 1), sorted_keys.slice(1)).to_numpy(
        zero_copy_only=False
    )
    if not same.any():
        return positions
    if rule.ordering_fields:
        positions = _by_ordering(rows, positions, same, rule)
    kept: Positions = positions[np.append(~same, True)]
    return kept


def _by_ordering(
    rows: pa.RecordBatch, positions: Positions, same: npt.NDArray[np.bool_], rule: MergeRule
) -> Positions:
    """Order the rows of repeated keys by their ordering values, then by arrival.

    Only repeated keys are sorted again: most inputs repeat few keys or none.
    """
    at = np.flatnonzero(np.append(False, same) | np.append(same, False))
    key_number = np.cumsum(np.append(True, ~same))[at]
    picked = rows.select(list(rule.ordering_fields)).take(pa.array(positions[at]))
    values = [part for column in picked.columns for part in _comparable(column)]
    table = pa.table(
        [pa.array(key_number), *values, pa.array(positions[at])],
        names=["key", *(f"ordering_{i}" for i in range(len(values))), "arrival"],
    )
    by = pc.sort_indices(
        table, sort_keys=[(name, "ascending", "at_start") for name in table.column_names]
    )
    ordered = positions.copy()
    ordered[at] = table.column("arrival").take(by).to_numpy()
    return ordered


def _comparable(column: pa.Array) -> list[pa.Array]:
    """Give what to sort by: Arrow puts NaN beside the nulls, Java above every other number."""
    if not pa.types.is_floating(column.type):
        return [column]
    return [pc.is_nan(column).cast(pa.int8()), column]
