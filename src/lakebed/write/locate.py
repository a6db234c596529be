"""Between staging and writing: an index that looks up keys determines the file group of each key.

Without Spark this is a merge. The keys that the index knows, as runs of key and location, are the
older side. The staged runs are the newer side, and partial, so a row takes its location from the
older side. All runs are read as streams. If Spark has already joined rows and locations,
`stage_located` starts from there.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.format.names.meta_columns import RECORD_KEY
from lakebed.index.holders import HOLDERS, HOLDERS_RULE, HOLDERS_SCHEMA, explode_holders
from lakebed.index.kinds import strategy_of
from lakebed.merge.passes import merge_in_passes
from lakebed.merge.rule import MergeRule
from lakebed.merge.run import DELETED, FLAGS, Run
from lakebed.merge.window import merge_runs
from lakebed.model.executor import Executor, TaskId
from lakebed.model.packing import cost_of
from lakebed.table.config.table_config import TableType
from lakebed.table.files.file_group import FileSlice
from lakebed.table.read.key_filter import KeyFilter
from lakebed.table.read.slice_reader import read_slice
from lakebed.write.partition_moves import groups_at, route_globally
from lakebed.write.rows import RoutedRows, route_rows, run_schema
from lakebed.write.spec.write_spec import WriteSpec
from lakebed.write.staging import LogPolicy, Segment, read_segment, spiller, stage_routed

# The flags of an incoming row, renamed so that a merge does not act on them.
CAME = "_lakebed_came"
# No logs are written directly: a file group may get a new base file, for which all its rows are
# needed.
_NO_LOGS = LogPolicy(direct=False)
# The keys of more rows than this are not held in memory while they are looked up.
_MAX_HELD_KEYS = 1_000_000


@dataclass(frozen=True, slots=True)
class Lookup:
    """The staged rows of one or all partitions, and the file slices that may hold their keys."""

    spec: WriteSpec
    partition: str
    segments: tuple[Segment, ...]
    slices: tuple[FileSlice, ...]

    @property
    def cost_bytes(self) -> int:
        """Return the estimated cost of this task, in bytes."""
        return sum(map(cost_of, (*self.segments, *self.slices)))


def locate_segments(
    segments: Iterable[Segment], slices: Iterable[FileSlice], spec: WriteSpec, executor: Executor
) -> list[Segment]:
    """Assign the staged rows to the file groups that hold their keys; new keys stay unassigned.

    `slices` are the file slices that the index searches. Rows of a global index are assigned to
    their own partitions, or as `write/partition_moves.py` decides.
    """
    staged: dict[str, list[Segment]] = defaultdict(list)
    for segment in segments:
        staged[segment.partition].append(segment)
    based: dict[str, list[FileSlice]] = defaultdict(list)
    for slice_ in slices:
        based["" if spec.looks_everywhere else slice_.group.partition].append(slice_)
    located: list[Segment] = []
    lookups = []
    for partition, held in staged.items():
        if based[partition] or spec.looks_everywhere:
            lookups.append(Lookup(spec, partition, tuple(held), tuple(based[partition])))
        else:
            located += held
    for found in executor.run(_locate, lookups, "look up keys"):
        located += found
    return located


def stage_located(
    batches: Iterable[pa.RecordBatch],
    spec: WriteSpec,
    task: TaskId,
    slices: Sequence[FileSlice],
    to_holders: Callable[[pa.Array], pa.StringArray],
) -> list[Segment]:
    """Stage rows that have the column HOLDERS, for an index over all partitions.

    `batches` ascend by key, equal keys in order of arrival, and hold all rows of their keys.
    `to_holders` converts HOLDERS to numbers of `slices`.
    """

    def marked() -> Iterator[pa.RecordBatch]:
        for batch in batches:
            places = to_holders(batch.column(HOLDERS))
            rows = route_rows(batch.drop_columns([HOLDERS]), spec).rows
            yield mark(rows).append_column(HOLDERS, places)

    # The flags are renamed, because a deleted version would lose its locations. The winner is the
    # same: deletes that always win are never mixed with rows.
    fields = [*_marked_schema(spec), pa.field(HOLDERS, pa.string())]
    folded = merge_runs([Run("the input", marked())], _private(spec.staged_rule), pa.schema(fields))
    return _stage(folded, spec, task, slices)


def _private(rule: MergeRule) -> MergeRule:
    """Return a rule that hides Lakebed's own columns from a custom merger."""
    if rule.merger is None:
        return rule
    merger = rule.merger

    def merge(older: pa.RecordBatch, newer: pa.RecordBatch) -> pa.RecordBatch:
        ours = [name for name in newer.schema.names if name in (CAME, HOLDERS)]
        merged = merger(older.drop_columns(ours), newer.drop_columns(ours))
        # If either side is a delete, the newer version is kept unchanged.
        both = older.column(CAME).to_numpy() | newer.column(CAME).to_numpy()
        stands = pa.array(both & DELETED != 0)
        columns = [
            newer.column(name)
            if name in ours
            else pc.if_else(stands, newer.column(name), merged.column(name))
            for name in newer.schema.names
        ]
        return pa.RecordBatch.from_arrays(columns, schema=newer.schema)

    return replace(rule, merger=merge)


def _locate(lookup: Lookup, task: TaskId) -> list[Segment]:
    spec = lookup.spec
    like = lookup.segments[0]
    ordered = sorted(lookup.segments, key=lambda segment: segment.arrival)
    staged = [Run(segment.path, read_segment(spec.storage, segment)) for segment in ordered]
    folded = merge_in_passes(
        staged,
        spec.staged_rule,
        _without_flags(run_schema(spec)),
        spiller(like, spec, f"incoming-{task.write_token}"),
        keep_deletes=True,
    )
    sources = spec.locator.key_sources(spec.view, lookup.slices, _incoming_keys(lookup))
    keys = merge_in_passes(
        [source.open(spec.view) for source in sources],
        HOLDERS_RULE,
        HOLDERS_SCHEMA,
        spiller(like, spec, f"keys-{task.write_token}"),
    )
    runs = [
        Run("the keys of the index", keys),
        Run("the input", map(mark, folded), partial=True),
    ]
    fields = [*_marked_schema(spec), pa.field(HOLDERS, pa.string())]
    joined = merge_runs(runs, MergeRule(), pa.schema(fields))
    return _stage(joined, spec, task, lookup.slices, lookup.partition)


def _incoming_keys(lookup: Lookup) -> pa.StringArray | None:
    """Return the keys of staged rows, sorted and unique; None if there are too many."""
    if sum(segment.num_rows for segment in lookup.segments) > _MAX_HELD_KEYS:
        return None
    held = [
        batch.column(RECORD_KEY)
        for segment in lookup.segments
        for batch in read_segment(lookup.spec.storage, segment)
    ]
    keys = pa.chunked_array(held, pa.string()).unique()
    return keys.take(pc.sort_indices(keys))


def _stage(
    joined: Iterable[pa.RecordBatch],
    spec: WriteSpec,
    task: TaskId,
    slices: Sequence[FileSlice],
    partition: str = "",
) -> list[Segment]:
    def placed() -> Iterator[RoutedRows]:
        for batch in joined:
            came = batch.filter(pc.is_valid(batch.column(CAME)))
            if came.num_rows:
                came = _at_live_places(came, spec, slices)
                rows = _unmark(came, spec)
                if spec.looks_everywhere:
                    yield route_globally(rows, spec, slices)
                else:
                    yield _route(rows, came.column(HOLDERS), slices, partition)

    staged = stage_routed(placed(), spec, task, _NO_LOGS, "located")
    return [segment for segment in staged if isinstance(segment, Segment)]


def _at_live_places(
    rows: pa.RecordBatch, spec: WriteSpec, slices: Sequence[FileSlice]
) -> pa.RecordBatch:
    """Return located rows without the locations where their keys were deleted.

    An insert does not look up its keys, so a deleted key may since have been inserted into another
    file group. A write to both file groups would duplicate the key. A key that no longer exists
    keeps one location. A key with a single location keeps it, so no files are read for it.
    """
    on_read = spec.config.table_type is TableType.MERGE_ON_READ
    if not on_read and not spec.index.records_keys:
        return rows  # the locations are those of base files without deletes
    if on_read and spec.looks_everywhere and strategy_of(spec.index).moves_rows(spec.config):
        return rows  # see `settle_moves`
    at, numbers = explode_holders(rows.column(HOLDERS))
    several = np.bincount(at, minlength=rows.num_rows)[at] > 1
    if not several.any():
        return rows
    keys = rows.column(RECORD_KEY)
    asked = KeyFilter.of(keys=keys.take(pa.array(np.unique(at[several]))).to_pylist())
    live = ~several
    for number in np.unique(numbers[several]).tolist():
        there = read_slice(spec.view, slices[number], [RECORD_KEY], key_filter=asked, by_key=True)
        found = pa.chunked_array([batch.column(0) for batch in there], pa.string())
        places = np.flatnonzero(several & (numbers == number))
        held = pc.is_in(keys.take(pa.array(at[places])), value_set=found)
        live[places] = held.to_numpy(zero_copy_only=False)
    dead = np.bincount(at[live], minlength=rows.num_rows)[at] == 0
    firsts = np.append(True, at[1:] != at[:-1])
    kept = live | (dead & firsts)
    texts = pa.array(numbers[kept], mask=numbers[kept] < 0).cast(pa.string())
    starts = np.searchsorted(at[kept], np.arange(rows.num_rows + 1)).astype(np.int32)
    joined = pc.binary_join(pa.ListArray.from_arrays(pa.array(starts), texts), ",")
    position = rows.schema.get_field_index(HOLDERS)
    return rows.set_column(position, rows.schema.field(position), joined)


def _route(
    rows: pa.RecordBatch, places: pa.StringArray, slices: Sequence[FileSlice], partition: str
) -> RoutedRows:
    """Route each row to every file group that holds its key; drop deletes of unknown keys."""
    at, numbers = explode_holders(places)
    if FLAGS in rows.schema.names:
        flags = rows.column(FLAGS).to_numpy()
        kept = (numbers >= 0) | (flags[at] & DELETED == 0)
        at, numbers = at[kept], numbers[kept]
    return RoutedRows(
        rows.take(pa.array(at)),
        pa.repeat(pa.scalar(partition), at.size),
        groups_at(slices, numbers)[1],
    )


def _without_flags(schema: pa.Schema) -> pa.Schema:
    return pa.schema([field.with_nullable(True) for field in schema if field.name != FLAGS])


def _marked_schema(spec: WriteSpec) -> pa.Schema:
    schema = _without_flags(run_schema(spec))
    return schema.insert(1, pa.field(CAME, pa.uint8()))


def mark(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Rename the FLAGS column to CAME; if there is none, add CAME with all zeros."""
    if FLAGS in rows.schema.names:
        return rows.rename_columns([CAME if n == FLAGS else n for n in rows.schema.names])
    none = pa.array(np.zeros(rows.num_rows, dtype=np.uint8))
    return rows.append_column(CAME, none)


def _unmark(rows: pa.RecordBatch, spec: WriteSpec) -> pa.RecordBatch:
    """Return located rows as staged rows, with flags if the write may delete or move rows.

    With a global index the rows keep their locations, which may be needed later.
    """
    places = [pa.field(HOLDERS, pa.string())] if spec.looks_everywhere else []
    flags = [pa.field(FLAGS, pa.uint8())] if spec.may_delete or spec.looks_everywhere else []
    schema = pa.schema([pa.field(RECORD_KEY, pa.string()), *flags, *spec.schema, *places])
    named = rows.rename_columns([FLAGS if n == CAME else n for n in rows.schema.names])
    return pa.RecordBatch.from_arrays([named.column(n) for n in schema.names], schema=schema)
