"""The task of a compaction: merge the planned files of one file group as a stream."""

import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace

import pyarrow as pa

from lakebed.commit.fence import Fence
from lakebed.errors import UnsupportedError
from lakebed.format.commit_metadata import NO_PREVIOUS_COMMIT, WriteStat
from lakebed.format.meta_columns import COMMIT_SEQNO, COMMIT_TIME, RECORD_KEY
from lakebed.format.names import BaseFileName
from lakebed.merge.passes import merge_in_passes
from lakebed.merge.rule import MergeRule
from lakebed.model.executor import TaskId
from lakebed.services.compaction.logs import log_run
from lakebed.services.compaction.plan import count_joinable
from lakebed.services.compaction.plan_file import CompactionOperation, Kind
from lakebed.storage.storage import Storage
from lakebed.table.base_file import read_footer
from lakebed.table.cdc_log import CdcTarget, open_change_log
from lakebed.table.config import TableConfig
from lakebed.table.data_writer import DataFileStats, DataFileWriter
from lakebed.table.file_group import BaseFile, join_path
from lakebed.table.log_reader import slice_sources
from lakebed.table.log_target import LogFileStats
from lakebed.table.log_writer import write_log_run
from lakebed.table.run_reader import Needs, open_run
from lakebed.table.run_source import RunSource
from lakebed.table.slice_reader import read_slice
from lakebed.table.spill import Spills
from lakebed.timeline.timeline import Timeline
from lakebed.write.status import NOTHING_COMPACTED, WriteStatus

# What every row keeps: when it was written does not change by rewriting it.
_CARRIED = (COMMIT_TIME, COMMIT_SEQNO)


@dataclass(frozen=True, slots=True)
class LogCounts:
    """What the commits of the planned logs say of them: rows and deletes."""

    rows: int = 0
    deletes: int = 0


@dataclass(frozen=True, slots=True)
class CompactionTask:
    """One operation and all that a worker must know to carry it out."""

    storage: Storage
    config: TableConfig
    rule: MergeRule
    timeline: Timeline
    schema: pa.Schema
    schema_text: str
    instant: str
    fence: Fence
    number: int
    operation: CompactionOperation
    counts: LogCounts = LogCounts()


def compact_file_group(work: CompactionTask, task: TaskId) -> WriteStatus:
    """Merge the planned files of a file group; what came after the plan is not looked at."""
    slice_ = replace(work.operation.slice_, log_files=work.operation.logs)
    if work.operation.kind is Kind.LOG:
        slice_ = replace(slice_, base_file=None)
    sources = slice_sources(work.storage, slice_, work.config, work.timeline.is_committed)
    if work.operation.kind is Kind.LOG:
        stats = _join_logs(work, task, sources)
    else:
        stats = (_write_base_file(work, task, sources),)
    group = work.operation.group
    return WriteStatus(group.partition, group.file_id, stats)


def _write_token(work: CompactionTask, task: TaskId) -> str:
    """Give names that no other process has which carries out the same plan.

    One that was taken for dead closes its files late and then deletes them: they must be its own.
    """
    claim = zlib.crc32(work.fence.owner.encode()) & 0x7FFF_FFFF
    return TaskId(task.partition, claim, task.attempt).write_token


def _write_base_file(work: CompactionTask, task: TaskId, sources: list[RunSource]) -> WriteStat:
    """Write the rows that stand as the next base file; without any it has none, as Hudi's."""
    group, base = work.operation.group, work.operation.slice_.base_file
    name = BaseFileName(group.file_id, _write_token(work, task), work.instant).encode()
    path = join_path(group.partition, name)
    merged = read_slice(
        work.storage,
        work.operation.slice_,
        work.config,
        work.schema,
        [*_CARRIED, RECORD_KEY, *work.schema.names],
        work.rule,
        work.timeline.is_committed,
        buffer_bytes=work.config.read_buffer_bytes,
        sources=sources,
        by_key=True,
    )
    writer = DataFileWriter(
        work.storage.open_write(path),
        path,
        work.schema,
        table_name=work.config.name,
        instant=work.instant,
        partition_path=group.partition,
        task=work.number,
        may_repeat=base is not None,
    )
    cdc_stats = None
    with ExitStack() as open_files:
        open_files.enter_context(writer)
        changes = open_change_log(_cdc_target(work, task), base, work.rule)
        if changes is not None:
            open_files.enter_context(changes)
        for batch in merged:
            writer.write(
                batch.select(work.schema.names),
                batch.column(RECORD_KEY),
                commit_times=batch.column(COMMIT_TIME),
                commit_seqnos=batch.column(COMMIT_SEQNO),
            )
            if changes is not None:
                changes.put(batch)
        work.fence.check()
        if changes is not None:
            cdc_stats = changes.close()
        stats = writer.close()
    work.fence.check_written([path, *(cdc_stats or ())])
    return replace(_base_stat(work, stats), cdc_stats=cdc_stats)


def _cdc_target(work: CompactionTask, task: TaskId) -> CdcTarget:
    return CdcTarget(
        storage=work.storage,
        config=work.config,
        partition=work.operation.group.partition,
        file_id=work.operation.group.file_id,
        write_token=_write_token(work, task),
        instant=work.instant,
        schema=work.schema,
        schema_text=work.schema_text,
    )


def _base_stat(work: CompactionTask, stats: DataFileStats) -> WriteStat:
    """Count as far as files and commits tell: which rows were updates nobody looked up."""
    base = work.operation.slice_.base_file
    before = 0 if base is None else read_footer(work.storage, base.path).num_rows
    inserts = max(0, stats.rows - before)
    updates = max(0, min(work.counts.rows, stats.rows) - inserts)
    return replace(
        _compacted(work),
        path=stats.path,
        prev_commit=_previous(base),
        num_writes=stats.rows,
        num_deletes=max(0, before - stats.rows),
        num_update_writes=updates,
        num_inserts=inserts,
        total_write_bytes=stats.size_bytes,
        file_size_in_bytes=stats.size_bytes,
        prev_base_file=None if base is None else base.name.encode(),
    )


def _join_logs(
    work: CompactionTask, task: TaskId, sources: list[RunSource]
) -> tuple[WriteStat, ...]:
    """Write one run for all, deletes kept: what they delete may lie in the base file."""
    operation = work.operation
    columns = _joined_columns(work, sources)
    written = write_log_run(
        work.storage,
        work.config,
        partition=operation.group.partition,
        file_id=operation.group.file_id,
        write_token=_write_token(work, task),
        version=1,
        next_version=2,
        instant=work.instant,
        schema=columns,
        table_schema_text=work.schema_text,
        batches=_joined(work, sources, columns),
        partial=any(source.partial for source in sources),
        compacted=tuple(dict.fromkeys(source.instant for source in sources)),
    )
    work.fence.check_written([stats.path for stats in written])
    return tuple(_log_stat(work, stats) for stats in written)


def _joined_columns(work: CompactionTask, sources: list[RunSource]) -> pa.Schema:
    """Give the columns of the joined run: the table's, or those that all of the runs change."""
    runs = [log_run(work.storage, source) for source in sources]
    if (end := count_joinable(runs)) < len(runs):
        # Our own plans have no such logs, another engine's may.
        raise UnsupportedError(
            f"{work.operation.group.file_id}: the plan joins {runs[end].path!r} with logs of other "
            "columns; roll the plan back, and merge them with their base file (mode full)"
        )
    changed = next((run.columns for run in runs if run.columns is not None), None)
    if changed is None:
        return work.schema
    return pa.schema([field for field in work.schema if field.name in changed])


def _joined(
    work: CompactionTask, sources: list[RunSource], columns: pa.Schema
) -> Iterator[pa.RecordBatch]:
    carried = [pa.field(name, pa.string()) for name in _CARRIED]
    names = work.rule.ordering_fields
    needs = Needs(
        # A deleted row has no columns.
        fields=tuple(field.with_nullable(True) for field in (*carried, *columns)),
        ordering=tuple(work.schema.field(name).with_nullable(True) for name in names),
        delete_marker=work.config.delete_marker,
        buffer_bytes=work.config.read_buffer_bytes,
    )
    # All of them have the same columns, so none lacks any.
    runs = [replace(open_run(work.storage, source, needs), partial=False) for source in sources]
    with Spills() as spills:
        schema = pa.schema(needs.all_fields)
        yield from merge_in_passes(runs, work.rule, schema, spills.spill, keep_deletes=True)
    work.fence.check()


def _log_stat(work: CompactionTask, stats: LogFileStats) -> WriteStat:
    return replace(
        _compacted(work),
        path=stats.path,
        prev_commit=_previous(work.operation.slice_.base_file),
        num_writes=stats.rows,
        num_deletes=stats.deletes,
        num_update_writes=stats.rows,
        num_inserts=0,
        total_write_bytes=stats.size_bytes,
        file_size_in_bytes=stats.size_bytes,
        log_version=stats.version,
        log_offset=0,
        base_file="",
        log_files=(stats.path.rpartition("/")[2],),
    )


def _compacted(work: CompactionTask) -> WriteStat:
    """Give what both kinds say of the logs that went in."""
    group = work.operation.group
    records = work.counts.rows + work.counts.deletes
    return replace(
        NOTHING_COMPACTED,
        file_id=group.file_id,
        partition_path=group.partition,
        total_log_records=records,
        total_updated_records_compacted=records,
        total_log_blocks=len(work.operation.logs),
        total_log_files_compacted=len(work.operation.logs),
        total_log_size_compacted=work.operation.log_bytes,
        total_log_read_time_ms=0,
        num_updates=0,
    )


def _previous(base: BaseFile | None) -> str:
    return NO_PREVIOUS_COMMIT if base is None else base.name.instant
