"""Sort rows by key and keep one version of each: Hudi's merge rules on Arrow columns."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.format.names.meta_columns import RECORD_KEY
from lakebed.merge import tree
from lakebed.merge.arrays import Ints, int64_array, to_bools, to_numpy
from lakebed.merge.rule import Merger, MergeRule
from lakebed.merge.run import FLAGS, Run
from lakebed.merge.tree import Order
from lakebed.merge.versions import check_rule, choose, to_part

__all__ = ["MergeRule", "Merger", "Positions", "sort_positions", "sort_versions"]

Positions = Ints


def sort_positions(
    rows: pa.RecordBatch, rule: MergeRule, subset: Positions | None = None
) -> Positions:
    """Return the positions of the rows to take for ascending key order, one per key.

    `rows`, or the positions in `subset`, are in order of arrival. With a custom merger or filled
    columns, one row cannot represent several, so all versions are returned, oldest first. The
    result does not record that an older version of a key was a barrier.
    """
    check_rule(rule, rows.schema)
    names = [rule.key, *rule.ordering_fields]
    picked = rows.select([*names, FLAGS] if FLAGS in rows.schema.names else names)
    if subset is not None:
        picked = picked.take(int64_array(subset))
    order = _order(picked.column(rule.key))
    found = order.positions
    if rule.is_associative:
        part = to_part(picked, picked.select(names).schema, Run("rows", ()), rule.key)
        found = choose([part], order, rule, kernel=tree.use_kernel(0)).winners
    return found if subset is None else subset[found]


def sort_versions(rows: pa.RecordBatch, subset: Positions, key: str = RECORD_KEY) -> Positions:
    """Return the positions in `subset` by ascending key; versions of a key in order of arrival."""
    return subset[_order(rows.column(key).take(int64_array(subset))).positions]


def _order(keys: pa.Array) -> Order:
    """Return the order of keys that are given in order of arrival; Arrow's sort is stable."""
    count = len(keys)
    indices = pc.sort_indices(keys)
    positions = to_numpy(indices, np.uint64).astype(np.int64)
    starts = np.ones(count, np.bool_)
    if count > 1:
        ordered = keys.take(indices)
        new = pc.not_equal(ordered.slice(0, count - 1), ordered.slice(1))
        starts[1:] = to_bools(new)
    return Order(positions, starts)
