"""Finds the keys that a commit's logs touched: all other rows of the slice are unchanged.

For a large slice with a small log on top, only these keys are read, once before and once after the
log.
"""

from collections.abc import Mapping

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

    The keys are known if `after` is `before` plus some logs.
    """
    old, new = before.by_group, after.by_group
    logs: dict[str, tuple[LogFile, ...]] = {}
    for name in {**old, **new}:
        was = old.get(name, FileSlice(before.group, before.instant, None))
        now = new.get(name, FileSlice(after.group, after.instant, None))
        if was.base_file != now.base_file or not set(was.log_files) <= set(now.log_files):
            return None
        logs[name] = tuple(log for log in now.log_files if log not in was.log_files)
    return logged_keys(view, after, logs) if any(logs.values()) else None


def logged_keys(
    view: TableView, slice_: FileSlice, logs: Mapping[str, tuple[LogFile, ...]]
) -> KeyFilter | None:
    """Return the keys in `logs`, which are given by column group; None if there are too many."""
    needs = Needs((), delete_marker=view.config.delete_marker, buffer_bytes=view.buffer_bytes)
    found = pa.array([], pa.string())
    sources = [
        source
        for name, of in logs.items()
        for source in slice_sources(
            view.of_group(name), FileSlice(slice_.group, slice_.instant, None, of)
        )
    ]
    for source in sources:
        for batch in read_run(view.storage, source, needs):
            found = pc.unique(pa.concat_arrays([found, batch.column(RECORD_KEY)]))
            if len(found) > MAX_TOUCHED_KEYS:
                return None
    return KeyFilter.of(keys=found.to_pylist())
