"""Reads the rows of a file slice, with or without column groups.

In a table with column groups a row exists if any group holds its key. Each group that a read needs
is merged on its own (`group_reader.py`), and the groups are joined by key as sorted streams. Of the
other groups, only runs that may hold further keys are opened (`group_keys.py`), and only their key
and partition columns are read. Groups of which a base file of all columns is the newest file are
read from it together, as one stream.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa

from lakebed.format.names.meta_columns import META_COLUMNS, PARTITION_PATH, RECORD_KEY
from lakebed.groups.definition import ColumnGroups
from lakebed.groups.stitch import (
    KEYS_ONLY,
    DeletedParts,
    newest_stamps,
    numbered_stamps,
    stitch,
    with_commit_time,
)
from lakebed.table.files.damage import check_whole
from lakebed.table.files.file_group import FileSlice
from lakebed.table.files.group_keys import deletes_to_look_up, key_slices
from lakebed.table.read.base_file import keys_since
from lakebed.table.read.by_group.deleted_keys import deleted_keys
from lakebed.table.read.by_group.first_group import first_group, needed_for
from lakebed.table.read.group_reader import read_group
from lakebed.table.read.key_filter import KeyFilter
from lakebed.table.read.log_reader import slice_sources
from lakebed.table.read.projection import project, with_columns
from lakebed.table.read.row_group_filter import RowGroupFilter
from lakebed.table.read.run_source import RunSource
from lakebed.table.view import TableView

Deletes = Callable[[pa.RecordBatch], None]


@dataclass(frozen=True, slots=True)
class GroupRead:
    """Files of column groups that a read opens, and the columns that it takes from them.

    `groups` are several if `part` is a base file of all columns, which is read for all of them. If
    `only` is set, the keys of these deletes of another group suffice.
    """

    groups: tuple[str, ...]
    part: FileSlice
    columns: tuple[str, ...]
    only: FileSlice | None = None

    def view(self, view: TableView) -> TableView:
        """Return the view in which the files are read, given that of the table."""
        if len(self.groups) == 1:
            return view.of_group(self.groups[0])
        return replace(view, column_groups=ColumnGroups())

    @property
    def name(self) -> str:
        """Return the groups for error messages."""
        shown = ", ".join(name or "default" for name in self.groups)
        return f"column group {shown!r}"


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
    `row_groups` is used to read one of them first (`first_group.py`).
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
    alone = only_read(view, slice_, columns)
    if alone is None:
        yield from _read_groups(view, slice_, columns, key_filter, sources, predicate=row_groups)
        return
    yield from read_group(
        alone.view(view),
        alone.part,
        columns,
        key_filter=key_filter,
        row_groups=row_groups,
        sources=sources_of(alone.part, sources),
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

    Rows that lost the columns of a group to a delete of `commits` are included, as long as the
    group keeps the delete. `columns` include the commit time.
    """
    yield from _read_groups(view, slice_, columns, key_filter, commits=commits)


def narrow_slice(view: TableView, slice_: FileSlice, columns: Sequence[str]) -> FileSlice:
    """Return the slice of a single column group if it suffices to read `columns`, else `slice_`."""
    if not view.column_groups or slice_.damage:
        return slice_
    alone = only_read(view, slice_, columns)
    return slice_ if alone is None else alone.part


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
    predicate: RowGroupFilter | None = None,
) -> Iterator[pa.RecordBatch]:
    target = pa.schema(project(view.schema, columns))
    reads = group_reads(view, slice_, with_commit_time(target).names, apart=commits is not None)
    first = first_group(view, parts_of(reads), predicate, key_filter, len(target))
    if first is not None and predicate is not None:
        read = next(read for read in reads if first.group in read.groups)
        with closing(
            read_group(
                read.view(view),
                read.part,
                needed_for(first),
                key_filter=key_filter,
                row_groups=first.row_groups(predicate.schema),
                sources=sources_of(read.part, sources),
            )
        ) as rows:
            key_filter = first.keys(rows) or key_filter
        if key_filter is not None and key_filter.is_exact and not key_filter.keys:
            return
    shared = (f for f in target if f.name in view.column_groups.shared or f.name == PARTITION_PATH)
    parts = DeletedParts(len(reads), tuple(shared))
    streams: list[tuple[str, Iterator[pa.RecordBatch]]] = []
    found: dict[FileSlice, KeyFilter | None] = {}
    for number, read in enumerate(reads):
        gone: list[pa.RecordBatch] = []
        keys = key_filter
        if read.only is not None and keys is None:
            if read.only not in found:
                found[read.only] = deleted_keys(view, read.only)
            keys = found[read.only]
        batches: Iterator[pa.RecordBatch] = read_group(
            read.view(view),
            read.part,
            read.columns,
            key_filter=keys,
            sources=sources_of(read.part, sources),
            by_key=True,
            deletes=None if commits is None else gone.append,
        )
        if commits is not None:
            batches = parts.stream(batches, gone, number)
        streams.append((read.name, numbered_stamps(batches, number)))
    for batch in stitch(streams, target if commits is None else parts.target(target)):
        written = batch if commits is None else parts.written_by(batch, commits)
        rows = newest_stamps(written, len(streams), target)
        yield with_columns(rows, rows.columns if target.names else (), target)


def group_reads(
    view: TableView, slice_: FileSlice, columns: Sequence[str], *, apart: bool = False
) -> list[GroupRead]:
    """Return the files and columns of each column group that a read of `columns` opens.

    A group that owns none of the columns is opened only if it may hold further keys. With `apart`
    each group is read by itself, for the commit times of its parts of the rows.
    """
    groups, parts = view.column_groups, slice_.by_group
    free = [c for c in columns if c not in groups.shared and c not in KEYS_ONLY]
    stamps = [c for c in free if c in META_COLUMNS]
    owners = {groups.owner(c) for c in free if c not in META_COLUMNS}
    needed = set(parts) if stamps else owners & parts.keys()
    shared = [c for c in columns if c in groups.shared or c == PARTITION_PATH]
    deletes, looked = None, frozenset[str]()
    if not slice_.bases_only:
        rules = view.timeline.completion_of, partial(keys_since, view.storage)
        is_write = view.timeline.is_write
        deletes, looked = deletes_to_look_up(parts, needed, *rules, is_write)
        parts = key_slices(parts, needed, *rules, is_write)
    reads = []
    for name, part in parts.items():
        own = [c for c in free if c not in META_COLUMNS and groups.owner(c) == name]
        names = dict.fromkeys([RECORD_KEY, *shared, *own, *stamps])
        only = deletes if name in looked else None
        reads.append(GroupRead((name,), part, tuple(names), only))
    if apart:
        return reads
    return _joined(reads, groups.names if stamps else ())


def _joined(reads: list[GroupRead], wanted: Collection[str]) -> list[GroupRead]:
    """Combine the reads of groups that have only the same base file of all columns into one.

    They stay apart unless the groups `wanted` are all among them: the stamps in such a file are
    the newest of all groups.
    """
    alike = [read for read in reads if read.part.is_only_wide and read.only is None]
    names = tuple(read.groups[0] for read in alike)
    if len(alike) < 2 or not set(wanted) <= set(names):
        return reads
    first = alike[0].part
    assert first.base_file is not None
    if any(
        r.part.base_file is None or r.part.base_file.path != first.base_file.path for r in alike
    ):
        return reads
    whole = FileSlice(first.group.whole, first.instant, replace(first.base_file, serves=names))
    columns = dict.fromkeys(name for read in alike for name in read.columns)
    return [
        GroupRead(names, whole, tuple(columns)),
        *(read for read in reads if read not in alike),
    ]


def only_read(view: TableView, slice_: FileSlice, columns: Sequence[str]) -> GroupRead | None:
    """Return the only files that a read of `columns` opens, if their groups own all columns."""
    reads = group_reads(view, slice_, columns)
    if len(reads) != 1:
        return None
    groups = view.column_groups
    # A group's copy of the table's ordering column is not returned to readers.
    free = [c for c in columns if c not in groups.shared and c not in META_COLUMNS]
    return reads[0] if all(groups.owner(column) in reads[0].groups for column in free) else None


def parts_of(reads: Iterable[GroupRead]) -> dict[str, FileSlice]:
    """Return the files that are read by column group."""
    return {name: read.part for read in reads for name in read.groups}


def sources_of(part: FileSlice, sources: Sequence[RunSource] | None) -> Sequence[RunSource] | None:
    """Return those of `sources`, the runs of all groups, that a read of `part` opens."""
    if sources is None:
        return None
    paths = {file.path for file in replace(part, others=()).files}
    base = part.base_file
    if base is None or base.serves is None or len(base.serves) == 1:
        return [
            source
            for source in sources
            if source.path in paths
            and not (source.is_base and base is not None and source.serves != base.serves)
        ]
    # The runs were found for one group at a time.
    return [
        replace(source, serves=base.serves)
        for source in sources
        if source.is_base and source.path == base.path and source.serves == base.serves[:1]
    ]
