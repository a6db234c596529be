"""Compare two columns value by value, including nested columns, unlike Arrow's `equal`."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.merge.arrays import to_bools


def equal_values(one: pa.Array, other: pa.Array) -> pa.BooleanArray:
    """Return for each row whether two columns of one type have the same value; null equals null.

    NaN equals NaN, and the entries of maps are compared in order.
    """
    kind = one.type
    if pa.types.is_map(kind):
        # Arrow has more functions for lists.
        listed = pa.list_(pa.struct([("key", kind.key_type), ("value", kind.item_type)]))
        return equal_values(one.cast(listed), other.cast(listed))
    if pa.types.is_list(kind):
        same = _equal_lists(one, other)
    elif pa.types.is_struct(kind):
        same = pc.equal(one.is_valid(), other.is_valid())
        for left, right in zip(one.flatten(), other.flatten(), strict=True):
            same = pc.and_(same, equal_values(left, right))
        return same
    else:
        same = pc.equal(one, other)
        if pa.types.is_floating(kind):
            same = pc.or_(same, pc.and_(pc.is_nan(one), pc.is_nan(other)))
    both_null = pc.and_(one.is_null(), other.is_null())
    return pc.or_(pc.fill_null(same, False), both_null)


def _equal_lists(one: pa.ListArray, other: pa.ListArray) -> pa.BooleanArray:
    alike = pc.fill_null(pc.equal(pc.list_value_length(one), pc.list_value_length(other)), False)
    left, right = one.filter(alike), other.filter(alike)
    differ = pc.invert(equal_values(left.flatten(), right.flatten()))
    same = to_bools(alike).copy()
    rows = np.flatnonzero(same)
    same[rows[pc.list_parent_indices(left).filter(differ).to_numpy()]] = False
    return pa.array(same)
