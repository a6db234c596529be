"""Keys with the file slices that hold them, as columns: the result of every index lookup.

A key may be in several file groups, because a plain insert does not look up keys.
"""

from uuid import UUID, uuid5

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import CorruptError
from lakebed.format.names.meta_columns import RECORD_KEY
from lakebed.index.strategy import Numbers
from lakebed.merge.rule import MergeRule

# The column of a key's locations: numbers of file slices, separated by commas, or null.
HOLDERS = "_lakebed_holders"
HOLDERS_SCHEMA = pa.schema([pa.field(RECORD_KEY, pa.string()), pa.field(HOLDERS, pa.string())])


def new_file_id(partition: str, number: int, seed: str) -> str:
    """Return the id of the new file group `number` of a partition, in Hudi's format.

    It is derived from the write's random `seed`, so a task that runs twice gets the same id.
    """
    return f"{uuid5(UUID(seed), f'{partition}/{number}')}-0"


def _join_holders(older: pa.RecordBatch, newer: pa.RecordBatch) -> pa.RecordBatch:
    places = pc.binary_join_element_wise(older.column(HOLDERS), newer.column(HOLDERS), ",")
    at = newer.schema.get_field_index(HOLDERS)
    return newer.set_column(at, newer.schema.field(at), places)


HOLDERS_RULE = MergeRule(merger=_join_holders)
"""Merges runs of keys with their locations; a key in several files gets all their numbers."""


def explode_holders(places: pa.StringArray) -> tuple[Numbers, Numbers]:
    """Return (row, location) for every location of every row, -1 for a row without one.

    Rows ascend, and the locations of a row are distinct.
    """
    none = np.flatnonzero(places.is_null().to_numpy(zero_copy_only=False))
    lists = pc.split_pattern(places, ",")
    rows = pc.list_parent_indices(lists).to_numpy().astype(np.int64)
    try:
        numbers = pc.list_flatten(lists).cast(pa.int64()).to_numpy()
    except pa.ArrowInvalid as error:
        raise CorruptError(f"places of keys: expected numbers of file slices: {error}") from error
    pairs = np.unique(
        np.stack([np.append(rows, none), np.append(numbers, np.full(none.size, -1))]), axis=1
    )
    return pairs[0], pairs[1]
