"""Finds the keys of other column groups that a compaction adds to its base file.

Readers rely on a base file to hold every key that any column group held when its instant began
(`table/files/group_keys.py`). An added key gets a row of nulls, with the commit time of the row in
the other group.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from lakebed.format.names.meta_columns import COMMIT_SEQNO, COMMIT_TIME, RECORD_KEY
from lakebed.groups.stitch import complete
from lakebed.model.instant import Instant
from lakebed.services.rewrite import Rewrite
from lakebed.table.files.file_group import (
    BaseFile,
    DataFile,
    FileGroupId,
    FileSlice,
    build_slices,
    latest_slice,
)
from lakebed.table.files.group_keys import key_slices
from lakebed.table.read.base_file import keys_since
from lakebed.table.read.slice_reader import read_slice
from lakebed.table.snapshot import Snapshot
from lakebed.table.view import TableView

FilesByGroup = dict[FileGroupId, dict[FileGroupId, list[DataFile]]]


@dataclass(frozen=True, slots=True)
class KeyReader:
    """Files of another column group that may hold further keys, and the view that reads them."""

    view: TableView
    slice_: FileSlice
    columns: tuple[str, ...]

    def read(self) -> Iterator[pa.RecordBatch]:
        """Yield the keys in ascending order, with commit times and the columns that all groups hold."""
        return read_slice(self.view, self.slice_, self.columns, by_key=True)


def files_by_group(snapshot: Snapshot) -> FilesByGroup:
    """Return the files of each column group, by file group; empty for a table without groups."""
    found: FilesByGroup = defaultdict(lambda: defaultdict(list))
    for file in snapshot.spread(snapshot.files) if snapshot.column_groups else ():
        if file.group.column_group in snapshot.column_groups.names:
            found[file.group.whole][file.group].append(file)
    return found


def key_readers(
    snapshot: Snapshot,
    files: FilesByGroup,
    view: TableView,
    slice_: FileSlice,
    instant: Instant,
) -> tuple[KeyReader, ...]:
    """Return readers of the keys that a planned slice may lack, as of the plan's instant.

    The files of that time still exist: cleaning deletes none that were current when a pending plan
    was made.
    """
    if not view.column_groups:
        return ()
    own = slice_.group
    parts = {own.column_group: slice_}
    for group, held in files[own.whole].items():
        if group != own:
            then = _slice_at(snapshot, group, held, instant)
            if then is not None:
                parts[group.column_group] = then
    since = partial(keys_since, view.storage)
    needed = key_slices(
        parts, {own.column_group}, snapshot.completion_of, since, snapshot.timeline.is_write
    )
    shared = [name for name in view.schema.names if name in view.column_groups.shared]
    columns = (COMMIT_TIME, COMMIT_SEQNO, RECORD_KEY, *shared)
    return tuple(
        KeyReader(view.of_group(name), part, columns)
        for name, part in needed.items()
        if name != own.column_group
    )


def complete_keys(
    rows: Iterator[pa.RecordBatch], rewrite: Rewrite, further: tuple[KeyReader, ...]
) -> Iterator[pa.RecordBatch]:
    """Yield `rows` in key order, and a row with nulls for each key that only `further` holds."""
    fields = {field.name: field for field in rewrite.view.schema}
    text = pa.string()
    target = pa.schema([fields.get(name, pa.field(name, text)) for name in rewrite.columns])
    return complete(rows, [reader.read() for reader in further], target)


def _slice_at(
    snapshot: Snapshot, group: FileGroupId, files: Iterable[DataFile], instant: Instant
) -> FileSlice | None:
    """Return the slice of a column group as of a plan's instant."""

    def is_before(file: DataFile) -> bool:
        if isinstance(file, BaseFile):
            # A compaction that was planned earlier does not change what a read returns.
            return file.name.instant < instant
        return snapshot.completion_of(file.name.instant) < instant

    then = filter(is_before, files)
    pending = [plan for plan in snapshot.pending.get(group, ()) if plan.instant < instant]
    found = build_slices(group, then, snapshot.completion_of, pending, tombstones=True)
    return latest_slice(found)
