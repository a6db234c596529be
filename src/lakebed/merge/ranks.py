"""Ordering values as 64-bit integers that compare as Java compares the values.

Integers, dates and times are their own rank, and floats are transformed to integers that ascend
with them. For other types, and for columns with nulls, the rank of a value is its position among
the given values, so ranks are comparable only within one call.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import InvalidError
from lakebed.merge.arrays import Ints, int64_array, to_bools, to_numpy

_BY_PLACE = [("", "ascending", "at_start")]


def ordering_ranks(columns: Sequence[pa.Array], rows: int) -> Ints:
    """Return ranks[field, row]: null is lowest, NaN highest, and -0.0 below 0.0."""
    ranks = np.zeros((len(columns), rows), np.int64)
    for number, column in enumerate(columns):
        ranks[number] = _ranks(column)
    return ranks


def _ranks(column: pa.Array) -> Ints:
    direct = _direct(column)
    if direct is not None and column.null_count == 0:
        return direct
    if direct is not None:
        column = int64_array(direct, ~to_bools(column.is_valid()))
    try:
        places = pc.rank(column, sort_keys=_BY_PLACE, tiebreaker="dense")
    except pa.ArrowNotImplementedError:
        raise InvalidError(
            f"ordering value: expected a type whose values can be compared, found {column.type}"
        ) from None
    return to_numpy(places, np.uint64).view(np.int64)


def _direct(column: pa.Array) -> Ints | None:
    """Return ranks that do not depend on other values; None if the type has none.

    The rank of a null is undefined.
    """
    kind = column.type
    if pa.types.is_floating(kind):
        return _float_ranks(column)
    if kind == pa.uint64():
        return (to_numpy(column, np.uint64) ^ np.uint64(1 << 63)).view(np.int64)
    if pa.types.is_integer(kind):
        sign = "i" if pa.types.is_signed_integer(kind) else "u"
        return to_numpy(column, f"{sign}{kind.bit_width // 8}").astype(np.int64)
    if pa.types.is_date(kind) or pa.types.is_time(kind):
        return to_numpy(column, f"i{kind.bit_width // 8}").astype(np.int64)
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
        return to_numpy(column, np.int64).astype(np.int64)
    return None


def _float_ranks(column: pa.Array) -> Ints:
    values = to_numpy(column, f"f{column.type.bit_width // 8}").astype(np.float64)
    bits = values.view(np.int64)
    # Bits of negative numbers descend as the numbers ascend: invert all bits but the sign.
    ranks = bits ^ ((bits >> 63) & np.int64(np.iinfo(np.int64).max))
    ranks[np.isnan(values)] = np.iinfo(np.int64).max
    return ranks
