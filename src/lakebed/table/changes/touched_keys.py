"""Finds the keys that a commit's logs touched: all other rows of the slice are unchanged.

For a large slice with a small log on top, only these keys are read, once before and once after the
log.
"""

from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.format.names.meta_columns import RECORD_KEY
from lakebed.table.files.file_group import FileSlice, LogFile
from lakebed.table.read.key_filter import KeyFilter
from lakebed.table.read.log_reader import slice_sources
from lakebed.table.read.run_reader import Needs, read_run
from lakebed.table.view import TableView

MAX_TOUCHED_KEYS = 100_000
"""With more keys than this, the whole slice is read."""


def touched_keys(view: TableView, before: FileSlice, after: FileSlice) -> KeyFilter | None:
    """Return the keys in which two slices can differ; None if unknown or too many.

    The keys are known if one slice is the other plus some logs.
    """
    if before.base_file != after.base_file or not set(before.log_files) < set(after.log_files):
        return None
    logs = tuple(log for log in after.log_files if log not in before.log_files)
    return logged_keys(view, after, logs)


def logged_keys(view: TableView, slice_: FileSlice, logs: tuple[LogFile, ...]) -> KeyFilter | None:
    """Return the keys in `logs`, which belong to a slice; None if there are too many keys."""
    alone = replace(slice_, base_file=None, tombstones=(), log_files=logs, boundary=None)
    needs = Needs((), delete_marker=view.config.delete_marker, buffer_bytes=view.buffer_bytes)
    found = pa.array([], pa.string())
    for source in slice_sources(view, alone):
        for batch in read_run(view.storage, source, needs):
            found = pc.unique(pa.concat_arrays([found, batch.column(RECORD_KEY)]))
            if len(found) > MAX_TOUCHED_KEYS:
                return None
    return KeyFilter.of(keys=found.to_pylist())
