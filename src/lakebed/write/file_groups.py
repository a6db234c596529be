"""Second stage of a write: merge the runs of one file group into its base file, or into one log."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial, reduce
from types import TracebackType
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.commit.rollback import is_side_path
from lakebed.format.names.data_names import TOMBSTONE_VERSION, BaseFileName
from lakebed.format.names.meta_columns import COMMIT_TIME, OUR_PREFIX, RECORD_KEY, STAMPS
from lakebed.format.timeline.commit_metadata import NO_PREVIOUS_COMMIT, WriteStat
from lakebed.merge.passes import merge_in_passes
from lakebed.merge.rule import Fill
from lakebed.merge.run import DELETED, FLAGS, OPEN, Run
from lakebed.model.executor import TaskId
from lakebed.table.config.table_config import TableType
from lakebed.table.files.file_group import BaseFile, FileSlice
from lakebed.table.read.base_file import BaseFileFooter, read_footer
from lakebed.table.read.run_reader import Needs, open_run
from lakebed.table.read.run_source import RunKind, RunSource
from lakebed.table.store.cdc_log import CdcTarget, ChangeLog, open_change_log
from lakebed.table.store.data_writer import DataFileStats
from lakebed.write.auto_buckets import of_bucket
from lakebed.write.base_file import NewBaseFile
from lakebed.write.index_runs import TaskEntries, split_deletes
from lakebed.write.log_runs import LogInProgress, write_log
from lakebed.write.new_keys import NewKeysWriter
from lakebed.write.partial import PartialWrite, looks_at_rows, write_partial_log
from lakebed.write.partition import ensure_partition
from lakebed.write.plan import FileGroupWrite
from lakebed.write.raised_copies import raise_copies
from lakebed.write.spec.status import RowCounts, WriteStatus, file_stat
from lakebed.write.spec.write_spec import WriteSpec
from lakebed.write.staging import read_segment, spiller

# Set if values of old rows yield: whether a late row may have filled a value of the winning row,
# which then becomes part of this commit, as in Hudi.
_FILLED = f"{OUR_PREFIX}filled"


def write_file_group(write: FileGroupWrite, task: TaskId) -> list[WriteStatus]:
    """Merge the staged runs of a file group, and its old base file, as planned.

    Column groups that get the same rows share one merge.
    """
    spec = write.spec
    ensure_partition(spec, write.group.partition)
    spec.locator.begin_partition(spec.storage, write.group.partition, spec.fence.check)
    writes = (write, *write.beside)
    runs = [
        Run(
            segment.path,
            _of_parts(of_bucket(read_segment(spec.storage, segment), segment, spec), writes),
            partial=spec.is_partial,
        )
        for segment in write.segments
    ]
    if write.below is not None and spec.is_partial and looks_at_rows(spec):
        merged = _merged(write, task, runs, _columns(spec.schema))
        return [write_partial_log(PartialWrite(spec, write.below, write.new_rows), task, merged)]
    stored = [one.spec.schema if one.as_log else one.spec.view.schema for one in writes]
    fields = list(_columns(*stored))
    with ExitStack() as open_files:
        if write.old is not None:
            footer = read_footer(spec.storage, write.old.path)
            runs, fields = _with_old(write, footer, runs, fields)
            files: list[LogInProgress | _NewFile] = [_NewFile(write, task, footer.num_rows)]
        else:
            files = [_open_file(one, task) for one in writes]
        for file in files:
            open_files.enter_context(file)
        merged = _merged(write, task, runs, pa.schema(fields))
        if spec.supersedes and write.below is not None:
            merged = raise_copies(spec, write.below, merged, write.new_rows)
        for batch in map(_restamped, merged):
            for file in files:
                file.put(batch)
        return [file.close() for file in files]


def _columns(*stored: pa.Schema) -> pa.Schema:
    """Return the record key and all of these columns, each once."""
    fields = {field.name: field for schema in stored for field in schema}
    return pa.schema([pa.field(RECORD_KEY, pa.string()), *fields.values()])


def _open_file(write: FileGroupWrite, task: TaskId) -> "LogInProgress | _NewFile":
    if write.as_log:
        return LogInProgress(write.spec, write.group, task, 1, write.below)
    return _NewFile(write, task)


def _of_parts(
    batches: Iterable[pa.RecordBatch], writes: Sequence[FileGroupWrite]
) -> Iterator[pa.RecordBatch]:
    """Yield the staged rows and columns that the column groups of `writes` get."""
    spec = writes[0].spec
    flags = [FLAGS] if spec.may_delete else []
    names = [RECORD_KEY, *flags, *dict.fromkeys(n for one in writes for n in one.spec.schema.names)]
    for batch in batches:
        rows = batch
        if spec.column_group or spec.deletes_only:
            rows = batch.select(names)
        if spec.deletes_only:
            rows = rows.filter(pa.array(rows.column(FLAGS).to_numpy() & DELETED != 0))
        yield rows


def _merged(
    write: FileGroupWrite, task: TaskId, runs: list[Run], schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Merge the runs, keeping deletes, in several passes if there are too many to open at once."""
    spec = write.spec
    spill = spiller(write.segments[0], spec, f"{task.write_token}-{write.number}-pass")
    rule = spec.staged_rule if write.as_log else spec.rule
    return merge_in_passes(runs, rule, schema, spill, keep_deletes=True)


class _NewFile:
    """A base file in progress, with the files beside it; nothing is visible before `close`."""

    def __init__(self, write: FileGroupWrite, task: TaskId, old_rows: int = 0) -> None:
        self._write = write
        self._task = task
        self._old_rows = old_rows
        spec = write.spec
        # A delete with an ordering value may meet an older row that arrives even later: on a
        # merge-on-read table it is kept, as a log on top of the new base file.
        on_read = spec.config.table_type is TableType.MERGE_ON_READ
        self._keeps_deletes = spec.may_delete and on_read
        self._kept: list[pa.RecordBatch] = []
        self._carried = self._gone = 0
        with ExitStack() as open_files:
            self._entries = open_files.enter_context(TaskEntries(spec, write.group, task))
            self._base = open_files.enter_context(
                NewBaseFile(
                    spec.view,
                    spec.fence,
                    write.group,
                    task.write_token,
                    write.number,
                    may_repeat=write.old is not None,
                )
            )
            self._changes = _change_log(write, task, open_files)
            self._keys = open_files.enter_context(NewKeysWriter(write, task))
            self._open_files = open_files.pop_all()

    def put(self, batch: pa.RecordBatch) -> None:
        """Add merged rows and deletes."""
        live, _ = split_deletes(batch)
        self._base.put(live)
        self._entries.take(_came(batch), self._write.group.partition, is_merged=True)
        self._gone += batch.num_rows - live.num_rows
        if self._write.old is not None:
            self._carried += live.num_rows - live.column(COMMIT_TIME).null_count
        if self._changes is not None:
            self._changes.put(live)
        self._keys.put(live)
        if self._keeps_deletes and live.num_rows < batch.num_rows:
            self._kept.append(_ordered_deletes(batch, self._write.spec))

    def close(self) -> WriteStatus:
        """Make the files visible and return their status."""
        write, base, spec = self._write, self._base, self._write.spec
        stats = None
        written: Mapping[str, int] = {}
        if write.old is not None or base.num_rows:
            stats, written = base.close(partial(_close_beside, self._changes, self._keys))
        made = self._entries.finish()
        self._open_files.close()
        counts = _counts(write, self._old_rows, base.num_rows, self._carried, self._gone)
        status = WriteStatus(write.group, (), counts, made, self._keys.result())
        if stats is not None:
            cdc_stats = {path: size for path, size in written.items() if not is_side_path(path)}
            stat = replace(_stat(write, stats, self._old_rows), cdc_stats=cdc_stats or None)
            status = replace(status, stats=(stat,))
        if any(batch.num_rows for batch in self._kept):
            below = _below(write, base.name, stats)
            beside = stats is not None and spec.config.is_lsm_tree
            version = TOMBSTONE_VERSION if beside else 1
            # The index entries of these deletes are among those of the base file.
            task, kept = self._task, self._kept
            logged = write_log(spec, write.group, task, version, kept, below, with_entries=False)
            # Hudi's CDC query takes the slice of a file group from its first stat.
            status = replace(status, stats=(*logged.stats, *status.stats))
        return status

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._open_files.__exit__(kind, error, trace)


def _close_beside(changes: ChangeLog | None, keys: NewKeysWriter) -> Mapping[str, int]:
    """Publish the files that belong to a base file; return the size of each."""
    return {**({} if changes is None else changes.close()), **keys.close()}


def _with_old(
    write: FileGroupWrite, footer: BaseFileFooter, runs: list[Run], fields: list[pa.Field]
) -> tuple[list[Run], list[pa.Field]]:
    """Return the old base file and then the new runs, and the columns of their merge."""
    old, came = _old_run(write, footer), [_with_carried(run) for run in runs]
    carried = [pa.field(name, pa.string()) for name in STAMPS]
    if (fill := write.spec.rule.fill) is None:
        return [old, *came], [*carried, *fields]
    # New rows fill each other before they meet the old ones, as in Hudi.
    fills = [_with_filled(run, lambda rows: pa.repeat("yes", rows.num_rows)) for run in came]
    old = _with_filled(old, partial(_gives_way, schema=write.spec.view.schema, fill=fill))
    return (
        [*fills, replace(old, yields=True)],
        [*carried, *fields, pa.field(_FILLED, pa.string())],
    )


def _below(write: FileGroupWrite, name: BaseFileName, stats: DataFileStats | None) -> FileSlice:
    """Return a slice of the base file that was just written; an empty one if none was."""
    group = write.group
    if stats is None:
        return FileSlice(group, write.spec.instant, None)
    base = BaseFile(write.group.partition, name, stats.size_bytes)
    return FileSlice(group, write.spec.instant, base)


def _change_log(write: FileGroupWrite, task: TaskId, open_files: ExitStack) -> ChangeLog | None:
    """Return the change log of a rewritten base file; None for a new file, or if none is needed."""
    if write.old is None:
        return None
    spec = write.spec
    target = CdcTarget(
        storage=spec.storage,
        config=spec.config,
        group=write.group,
        write_token=task.write_token,
        instant=spec.instant,
        schema=spec.view.schema,
        schema_text=spec.view.avro_schema,
    )
    changes = open_change_log(target, write.old, spec.rule)
    return None if changes is None else open_files.enter_context(changes)


def _old_run(write: FileGroupWrite, footer: BaseFileFooter) -> Run:
    """Return the rows of the old base file in key order.

    Lakebed's files are sorted and marked as sorted. Files of other writers may be unsorted and hold
    a key more than once: they are sorted in memory, within a budget.
    """
    assert write.old is not None
    old, spec = write.old, write.spec
    fields = [*(pa.field(name, pa.string()) for name in STAMPS), *spec.view.schema]
    source = RunSource(
        old.path, RunKind.DATA, old.name.instant, ordered=footer.is_ordered, is_base=True
    )
    return open_run(spec.storage, source, Needs(tuple(fields)))


def _with_carried(run: Run) -> Run:
    """Add the columns that old rows carry over to new rows, as nulls.

    Without these columns a partial update would keep the commit time of the row that it changes.
    """

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in run.batches:
            nulls = [pa.nulls(batch.num_rows, pa.string())] * len(STAMPS)
            schema = pa.schema([*(pa.field(name, pa.string()) for name in STAMPS), *batch.schema])
            yield pa.RecordBatch.from_arrays([*nulls, *batch.columns], schema=schema)

    return replace(run, batches=batches())


def _with_filled(run: Run, told: Callable[[pa.RecordBatch], pa.StringArray]) -> Run:
    """Add the column _FILLED, whose values `told` computes from the rows."""
    field = pa.field(_FILLED, pa.string())
    return replace(run, batches=(rows.append_column(field, told(rows)) for rows in run.batches))


def _gives_way(rows: pa.RecordBatch, schema: pa.Schema, fill: Fill) -> pa.StringArray:
    """Return the marker of `fill` for each row with a value that yields, and "no" for the others."""
    masks = [
        mask for field in schema if (mask := fill.gives_way(rows.column(field.name))) is not None
    ]
    if not masks:
        return pa.repeat("no", rows.num_rows)
    return pc.if_else(reduce(pc.or_, masks), pa.scalar(fill.marker, pa.string()), "no")


def _restamped(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Clear the commit time and number of rows that were filled, which this commit then sets."""
    if _FILLED not in batch.schema.names:
        return batch
    filled = pc.fill_null(pc.equal(batch.column(_FILLED), "yes"), False)
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    for name in STAMPS:
        columns[name] = pc.if_else(filled, pa.scalar(None, pa.string()), columns[name])
    return pa.RecordBatch.from_arrays(list(columns.values()), schema=batch.schema)


def _came(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the rows of a merged batch that this write changed, without those carried over."""
    if COMMIT_TIME not in batch.schema.names:
        return batch
    times = batch.column(COMMIT_TIME)
    return batch.filter(times.is_null()) if times.null_count < len(times) else batch


def _ordered_deletes(batch: pa.RecordBatch, spec: WriteSpec) -> pa.RecordBatch:
    flags = batch.column(FLAGS).to_numpy()
    kept = batch.filter(pa.array((flags & DELETED != 0) & (flags & OPEN == 0)))
    return kept.select([RECORD_KEY, FLAGS, *spec.rule.ordering_fields])


def _counts(write: FileGroupWrite, old_rows: int, rows: int, carried: int, gone: int) -> RowCounts:
    """Count inserted, updated and deleted rows; `carried` of the `old_rows` are among the `rows`.

    If a write has both deletes and new rows, a missing old row may have been deleted or updated,
    and the counts are unknown.
    """
    if write.old is None:
        return RowCounts(rows, 0, 0)
    lost, new = old_rows - carried, rows - carried
    if (gone and new) or lost > new + gone:
        return RowCounts()
    return RowCounts(0, 0, lost) if not new else RowCounts(new - lost, lost, 0)


def _stat(write: FileGroupWrite, stats: DataFileStats, old_rows: int) -> WriteStat:
    came = write.new_rows - write.deletes
    gone = min(write.deletes, max(0, old_rows + came - stats.rows)) if write.old else 0
    replaced = max(0, old_rows + came - gone - stats.rows) if write.old else 0
    return replace(
        file_stat(write.group, stats),
        prev_commit=write.old.name.instant if write.old else NO_PREVIOUS_COMMIT,
        num_deletes=gone,
        num_update_writes=replaced,
        num_inserts=max(0, stats.rows + gone - old_rows),
        num_updates=replaced,
        prev_base_file=write.old.name.encode() if write.old else None,
    )
