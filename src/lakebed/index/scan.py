"""What one read touches: slices, columns and keys, settled before the first row."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from lakebed.format.meta_columns import META_FIELDS
from lakebed.index.prune import prune_slices
from lakebed.merge.rule import Merger, MergeRule
from lakebed.storage.storage import Storage
from lakebed.table.config import TableConfig
from lakebed.table.file_group import FileSlice
from lakebed.table.key_filter import KeyFilter
from lakebed.table.log_reader import slice_sources
from lakebed.table.merge_rule import merge_rule
from lakebed.table.predicate import Predicate
from lakebed.table.row_group_filter import RowGroupFilter
from lakebed.table.run_source import RunSource
from lakebed.table.slice_reader import read_slice
from lakebed.table.snapshot import Snapshot
from lakebed.timeline.timeline import Timeline


@dataclass(frozen=True, slots=True)
class Scan:
    """One read of a table as of one moment; it travels to workers.

    `slices` are those that may hold a row that is asked for, `key_filter` the keys that such a
    row can have.
    """

    storage: Storage
    config: TableConfig
    timeline: Timeline
    schema: pa.Schema
    columns: tuple[str, ...]
    where: str | None
    slices: tuple[FileSlice, ...]
    key_filter: KeyFilter | None
    rule: MergeRule

    @property
    def full_schema(self) -> pa.Schema:
        """Give the meta columns and the table's."""
        return pa.schema([*META_FIELDS, *self.schema])

    def empty(self) -> pa.Table:
        """Give a table of its columns without rows."""
        return pa.schema([self.full_schema.field(name) for name in self.columns]).empty_table()

    def predicate(self) -> Predicate | None:
        """Parse `where`; UnsupportedError for what only Spark can evaluate."""
        return None if self.where is None else Predicate.parse(self.where, self.full_schema)

    def columns_with(self, predicate: Predicate | None) -> list[str]:
        """Give the columns to read: those asked for, and those that the predicate looks at."""
        return list(dict.fromkeys((*self.columns, *(predicate.columns if predicate else ()))))

    def check_readable(self) -> None:
        """Look at the logs of one slice, so that a kind that is not read shows in the call.

        The others are looked at when they are read: opening every log here would cost more than
        most reads.
        """
        merged = next((slice_ for slice_ in self.slices if slice_.needs_merge), None)
        if merged is not None:
            self.sources(merged)

    def sources(self, slice_: FileSlice) -> Sequence[RunSource]:
        """Give the runs of a slice."""
        return slice_sources(self.storage, slice_, self.config, self.timeline.is_committed)

    def read(
        self,
        slice_: FileSlice,
        columns: Sequence[str],
        predicate: Predicate | None,
        sources: Sequence[RunSource] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one slice, merged, filtered where a predicate is given."""
        row_groups = None
        if predicate is not None:
            row_groups = RowGroupFilter.parse(predicate.text, self.full_schema)
        for batch in read_slice(
            self.storage,
            slice_,
            self.config,
            self.schema,
            columns,
            self.rule,
            self.timeline.is_committed,
            key_filter=self.key_filter,
            buffer_bytes=self.config.read_buffer_bytes,
            sources=sources,
            row_groups=row_groups,
        ):
            kept = batch if predicate is None else predicate.filter(batch)
            if kept.num_rows:
                yield kept


def plan_scan(
    snapshot: Snapshot,
    columns: Sequence[str],
    where: str | None,
    merger: Merger | None = None,
    *,
    read_optimized: bool = False,
) -> Scan:
    """Settle which slices a read touches.

    A read-optimized one takes base files alone, however old, and merges nothing.
    """
    slices = snapshot.slices
    if read_optimized:
        based = (slice_ for slice_ in slices if slice_.base_file is not None)
        slices = tuple(replace(slice_, log_files=()) for slice_ in based)
    pruned = prune_slices(snapshot.config, snapshot.schema, where, slices)
    # A merger of somebody's own is only asked for where rows must be merged.
    merges = any(slice_.needs_merge for slice_ in pruned.slices)
    return Scan(
        storage=snapshot.storage,
        config=snapshot.config,
        timeline=snapshot.timeline,
        schema=snapshot.schema,
        columns=tuple(columns),
        where=where,
        slices=tuple(pruned.slices),
        key_filter=pruned.key_filter,
        rule=merge_rule(snapshot.config, merger) if merges else MergeRule(),
    )
