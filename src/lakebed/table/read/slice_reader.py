"""Reads the rows of a file slice, with or without column groups.

In a table with column groups a row exists if any group holds its key. Each group that a read needs
is merged on its own (`group_reader.py`), and the groups are joined by key as sorted streams. Of the
other groups, only runs that may hold further keys are opened (`group_keys.py`), and only their key
and partition columns are read.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import pyarrow as pa

from lakebed.format.names.meta_columns import META_COLUMNS, PARTITION_PATH, RECORD_KEY
from lakebed.groups.stitch import (
    KEYS_ONLY,
    newest_stamps,
    numbered_stamps,
    stitch,
    with_commit_time,
    written_by,
)
from lakebed.table.files.damage import check_whole
from lakebed.table.files.file_group import FileSlice
from lakebed.table.files.group_keys import key_slices
from lakebed.table.read.base_file import keys_since
from lakebed.table.read.group_reader import read_group
from lakebed.table.read.key_filter import KeyFilter
from lakebed.table.read.log_reader import slice_sources
from lakebed.table.read.projection import project, with_columns
from lakebed.table.read.row_group_filter import RowGroupFilter
from lakebed.table.read.run_source import RunSource
from lakebed.table.view import TableView

Deletes = Callable[[pa.RecordBatch], None]


def read_slice(
    view: TableView,
    slice_: FileSlice,
    columns: Sequence[str],
    *,
    key_filter: KeyFilter | None = None,
    row_groups: RowGroupFilter | None = None,
    sources: Sequence[RunSource] | None = None,
    by_key: bool = False,
    deletes: Deletes | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield `columns` of the rows of `slice_`, from the table's schema and the meta columns.

    The arguments are those of `read_group`. In a table with column groups `sources` are the runs of
    all groups (`all_sources`); if several groups are read, the rows are in key order, and
    `row_groups` are not used.
    """
    if not view.column_groups:
        yield from read_group(
            view,
            slice_,
            columns,
            key_filter=key_filter,
            row_groups=row_groups,
            sources=sources,
            by_key=by_key,
            deletes=deletes,
        )
        return
    check_whole([slice_])
    assert deletes is None, "deletes belong to one column group"
    alone = _only_group(view, group_reads(view, slice_, columns), columns)
    if alone is None:
        yield from _read_groups(view, slice_, columns, key_filter, sources)
        return
    yield from read_group(
        view.of_group(alone.group.column_group),
        alone,
        columns,
        key_filter=key_filter,
        row_groups=row_groups,
        sources=_sources_of(alone, sources),
        by_key=by_key,
    )


def read_written(
    view: TableView,
    slice_: FileSlice,
    columns: Sequence[str],
    commits: pa.StringArray,
    key_filter: KeyFilter | None,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a slice with column groups that `commits` wrote, at least in part.

    `columns` include the commit time.
    """
    yield from _read_groups(view, slice_, columns, key_filter, commits=commits)


def narrow_slice(view: TableView, slice_: FileSlice, columns: Sequence[str]) -> FileSlice:
    """Return the slice of a single column group if it suffices to read `columns`, else `slice_`."""
    if not view.column_groups or slice_.damage:
        return slice_
    alone = _only_group(view, group_reads(view, slice_, columns), columns)
    return slice_ if alone is None else alone


def all_sources(view: TableView, slice_: FileSlice) -> list[RunSource]:
    """Return the runs of all column groups of a slice, each group's in replay order."""
    if not view.column_groups:
        return slice_sources(view, slice_)
    check_whole([slice_])
    found = slice_.by_group.items()
    return [source for name, part in found for source in slice_sources(view.of_group(name), part)]


def _read_groups(
    view: TableView,
    slice_: FileSlice,
    columns: Sequence[str],
    key_filter: KeyFilter | None,
    sources: Sequence[RunSource] | None = None,
    commits: pa.StringArray | None = None,
) -> Iterator[pa.RecordBatch]:
    target = pa.schema(project(view.schema, columns))
    reads = group_reads(view, slice_, with_commit_time(target).names)
    streams = []
    for number, (name, (part, names)) in enumerate(reads.items()):
        batches = read_group(
            view.of_group(name),
            part,
            names,
            key_filter=key_filter,
            sources=_sources_of(part, sources),
            by_key=True,
        )
        streams.append((f"column group {name or 'default'!r}", numbered_stamps(batches, number)))
    for batch in stitch(streams, target):
        written = batch if commits is None else written_by(batch, len(streams), commits)
        rows = newest_stamps(written, len(streams), target)
        yield with_columns(rows, rows.columns if target.names else (), target)


def group_reads(
    view: TableView, slice_: FileSlice, columns: Sequence[str]
) -> Mapping[str, tuple[FileSlice, list[str]]]:
    """Return the files and columns of each column group that a read of `columns` opens.

    A group that owns none of the columns is opened only if it may hold further keys.
    """
    groups, parts = view.column_groups, slice_.by_group
    free = [c for c in columns if c not in groups.shared and c not in KEYS_ONLY]
    stamps = [c for c in free if c in META_COLUMNS]
    owners = {groups.owner(c) for c in free if c not in META_COLUMNS}
    needed = set(parts) if stamps else owners & parts.keys()
    shared = [c for c in columns if c in groups.shared or c == PARTITION_PATH]
    reads: dict[str, tuple[FileSlice, list[str]]] = {}
    opened: Mapping[str, FileSlice] = parts
    if not slice_.bases_only:
        since = partial(keys_since, view.storage)
        times = view.timeline.completion_of
        opened = key_slices(parts, needed, times, since, view.timeline.is_write)
    for name, part in opened.items():
        own = [c for c in free if c not in META_COLUMNS and groups.owner(c) == name]
        reads[name] = part, list(dict.fromkeys([RECORD_KEY, *shared, *own, *stamps]))
    return reads


def _only_group(
    view: TableView, reads: Mapping[str, tuple[FileSlice, list[str]]], columns: Sequence[str]
) -> FileSlice | None:
    """Return the slice of the only column group that is read, if it owns all of the columns."""
    if len(reads) != 1:
        return None
    [(name, (part, _))] = reads.items()
    groups = view.column_groups
    # A group's copy of the table's ordering column is not returned to readers.
    free = [c for c in columns if c not in groups.shared and c not in META_COLUMNS]
    return part if all(groups.owner(column) == name for column in free) else None


def _sources_of(part: FileSlice, sources: Sequence[RunSource] | None) -> Sequence[RunSource] | None:
    if sources is None:
        return None
    paths = {file.path for file in replace(part, others=()).files}
    return [source for source in sources if source.path in paths]
