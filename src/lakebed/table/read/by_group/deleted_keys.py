"""Finds the keys that a column group has deletes of: other groups may still hold their rows."""

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.format.names.meta_columns import RECORD_KEY
from lakebed.table.files.file_group import FileSlice
from lakebed.table.read.key_filter import KeyFilter
from lakebed.table.read.log_reader import slice_sources
from lakebed.table.read.run_reader import Needs, read_run
from lakebed.table.view import TableView

_MAX_KEYS = 100_000
"""With more keys than this, the keys of the other groups are read whole."""


def deleted_keys(view: TableView, deletes: FileSlice) -> KeyFilter | None:
    """Return the keys in `deletes`, logs of one column group; None if there are too many."""
    own = view.of_group(deletes.group.column_group)
    needs = Needs((), buffer_bytes=own.buffer_bytes)
    found = pa.array([], pa.string())
    for source in slice_sources(own, deletes):
        for batch in read_run(own.storage, source, needs):
            found = pc.unique(pa.concat_arrays([found, batch.column(RECORD_KEY)]))
            if len(found) > _MAX_KEYS:
                return None
    return KeyFilter.of(keys=found.to_pylist())
