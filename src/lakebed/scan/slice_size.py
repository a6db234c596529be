"""Measures how many row groups and bytes a read of a file slice would take, without reading rows.

The files, of every column group, and the row groups are chosen by the same functions as in a read,
with the same arguments. To choose row groups, a read by keys may search key columns; in that case
they are searched here too.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from lakebed.groups.stitch import with_commit_time
from lakebed.table.files.file_group import FileSlice
from lakebed.table.read.base_file import open_columns
from lakebed.table.read.group_reader import base_fields, merge_needs, wanted_groups
from lakebed.table.read.key_filter import KeyFilter
from lakebed.table.read.log_reader import slice_sources
from lakebed.table.read.parquet_source import ParquetSource, open_parquet
from lakebed.table.read.projection import find_columns, project
from lakebed.table.read.row_group_filter import RowGroupFilter
from lakebed.table.read.run_reader import Needs, data_columns, run_row_groups
from lakebed.table.read.run_source import RunKind, RunSource
from lakebed.table.read.slice_reader import all_sources, group_reads, only_read, sources_of
from lakebed.table.view import TableView


@dataclass(frozen=True, slots=True)
class ReadSize:
    """The row groups that a read takes, their total, and the bytes of their columns.

    `other_row_groups` are in files of column groups that the read does not open.
    """

    row_groups: int = 0
    all_row_groups: int = 0
    size_bytes: int = 0
    other_row_groups: int = 0

    def __add__(self, other: "ReadSize") -> "ReadSize":
        return ReadSize(
            self.row_groups + other.row_groups,
            self.all_row_groups + other.all_row_groups,
            self.size_bytes + other.size_bytes,
            self.other_row_groups + other.other_row_groups,
        )


def measure_slice(
    view: TableView,
    slice_: FileSlice,
    columns: Sequence[str],
    *,
    key_filter: KeyFilter | None = None,
    row_groups: RowGroupFilter | None = None,
    sources: Sequence[RunSource] | None = None,
) -> ReadSize:
    """Return how much `read_slice` would read with these arguments.

    Log blocks that are not Parquet are counted with all of their bytes, and have no row groups.
    """
    if view.column_groups:
        return _measure_groups(view, slice_, columns, key_filter, row_groups, sources)
    target = pa.schema(project(view.schema, columns))
    if sources is None:
        sources = slice_sources(view, slice_) if slice_.needs_merge else []
    if not all(source.is_base for source in sources):
        _, needs = merge_needs(view, target, sources, key_filter)
        return sum((_measure_run(view, source, needs) for source in sources), ReadSize())
    if slice_.base_file is None:
        return ReadSize()
    path = slice_.base_file.path
    what = f"base file {path!r}"
    footer = sources[0].footer if sources else None
    serves = slice_.base_file.serves
    with open_columns(view.storage, path, what, footer=footer, serves=serves) as file:
        groups = wanted_groups(file, key_filter, row_groups, what)
        return _size(file, find_columns(file.schema, base_fields(target, key_filter)), groups)


def _measure_groups(
    view: TableView,
    slice_: FileSlice,
    columns: Sequence[str],
    key_filter: KeyFilter | None,
    row_groups: RowGroupFilter | None,
    sources: Sequence[RunSource] | None,
) -> ReadSize:
    """Return the sum over the column groups that are read, each measured separately."""
    left = list(all_sources(view, slice_) if sources is None else sources)
    alone = only_read(view, slice_, columns)
    if alone is None:
        row_groups = None  # rows of several groups are joined by key before they are filtered
        target = with_commit_time(pa.schema(project(view.schema, columns)))
        reads = group_reads(view, slice_, target.names)
    else:
        reads = [replace(alone, columns=tuple(columns))]
    found = ReadSize()
    seen: set[str] = set()
    for read in reads:
        opened = sources_of(read.part, left) or []
        seen |= {source.path for source in opened}
        found += measure_slice(
            read.view(view),
            read.part,
            read.columns,
            key_filter=key_filter,
            row_groups=row_groups,
            sources=opened,
        )
    for path, source in {source.path: source for source in left}.items():
        if path not in seen:
            found += ReadSize(other_row_groups=_row_groups_of(view, source))
    return found


def _row_groups_of(view: TableView, source: RunSource) -> int:
    if source.footer is not None:
        return int(source.footer.metadata.num_row_groups)
    if not source.is_parquet:
        return 0
    with open_parquet(
        view.storage, source.path, source.name, offset=source.offset, length=source.length
    ) as file:
        return file.num_row_groups


def _measure_run(view: TableView, source: RunSource, needs: Needs) -> ReadSize:
    if not source.is_parquet:
        assert source.length is not None, "a block that is not Parquet is a part of its file"
        return ReadSize(size_bytes=source.length)
    with open_columns(
        view.storage,
        source.path,
        source.name,
        offset=source.offset,
        length=source.length,
        footer=source.footer,
        serves=source.serves,
    ) as file:
        is_data = source.kind is RunKind.DATA
        columns = data_columns(file, source, needs) if is_data else file.schema.names
        return _size(file, columns, run_row_groups(file, source, needs))


def _size(file: ParquetSource, columns: Sequence[str], groups: list[int] | None) -> ReadSize:
    read = range(file.num_row_groups) if groups is None else groups
    return ReadSize(len(read), file.num_row_groups, file.size_bytes(columns, read))
