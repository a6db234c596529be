"""The task of a compaction: merge the planned files of one file group as a stream."""

import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.commit.fence import Fence
from lakebed.errors import UnsupportedError
from lakebed.format.commit_metadata import NO_PREVIOUS_COMMIT, WriteStat
from lakebed.format.meta_columns import COMMIT_SEQNO, COMMIT_TIME, RECORD_KEY
from lakebed.format.names import BaseFileName, replay_key
from lakebed.merge.passes import merge_in_passes
from lakebed.merge.rule import MergeRule
from lakebed.merge.run import DELETED, FLAGS
from lakebed.model.executor import TaskId
from lakebed.model.packing import WRITE_FACTOR, file_cost
from lakebed.services.compaction.logs import folds_logs_first, log_run
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
from lakebed.table.log_writer import LogRunWriter, write_log_run
from lakebed.table.run_reader import Needs, open_run
from lakebed.table.run_source import RunSource
from lakebed.table.slice_reader import forgotten_deletes, read_slice
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
    # Ordered deletes of commits before it are forgotten; without one, all of them.
    cutoff: str
    # Logs that stay beside the base file are written as in a table of this version.
    log_version: int
    counts: LogCounts = LogCounts()

    @property
    def log_config(self) -> TableConfig:
        """Return the configuration by which logs are written."""
        return replace(self.config, version=self.log_version)

    @property
    def cost_bytes(self) -> int:
        """Estimate the work from what the planner saw; sizes in a parsed plan are 0."""
        operation = self.operation
        read_bytes = int(operation.metrics.get("TOTAL_IO_MB", 0) * (1 << 20)) + operation.log_bytes
        return file_cost(WRITE_FACTOR * read_bytes, len(operation.logs) + 2)


def compact_file_group(work: CompactionTask, task: TaskId) -> WriteStatus:
    """Merge the planned files of a file group; what came after the plan is not looked at."""
    # They are of one slice, where the names alone say the order; another engine's plan may not.
    logs = sorted(work.operation.logs, key=lambda log: replay_key(log.name))
    slice_ = replace(work.operation.slice_, log_files=tuple(logs))
    if work.operation.kind is Kind.LOG:
        slice_ = replace(slice_, base_file=None, tombstones=())
    sources = slice_sources(work.storage, slice_, work.config, work.timeline.is_committed)
    if work.operation.kind is Kind.LOG:
        stats = _join_logs(work, task, sources)
    else:
        stats = _write_base_file(work, task, sources)
    group = work.operation.group
    return WriteStatus(group.partition, group.file_id, stats)


def _write_token(work: CompactionTask, task: TaskId) -> str:
    """Give names that no other process has which carries out the same plan.

    One that was taken for dead closes its files late and then deletes them: they must be its own.
    """
    claim = zlib.crc32(work.fence.owner.encode()) & 0x7FFF_FFFF
    return TaskId(task.partition, claim, task.attempt).write_token


def _write_base_file(
    work: CompactionTask, task: TaskId, sources: list[RunSource]
) -> tuple[WriteStat, ...]:
    """Write the rows that stand as the next base file; without any it has none, as Hudi's.

    Ordered deletes that late rows may still meet go beside it, as a log of tombstones.
    """
    group, base = work.operation.group, work.operation.slice_.base_file
    name = BaseFileName(group.file_id, _write_token(work, task), work.instant).encode()
    path = join_path(group.partition, name)
    tombstones = _Tombstones(work, task) if work.cutoff else None
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
        deletes=tombstones.put if tombstones is not None else None,
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
    kept: list[LogFileStats] = []
    with ExitStack() as open_files:
        open_files.enter_context(writer)
        if tombstones is not None:
            open_files.enter_context(tombstones)
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
        if tombstones is not None:
            kept = tombstones.close()
        stats = writer.close()
    work.fence.check_written([path, *(cdc_stats or ()), *(log.path for log in kept)])
    logs = tuple(_tombstone_stat(work, name, log) for log in kept)
    return (replace(_base_stat(work, stats), cdc_stats=cdc_stats), *logs)


class _Tombstones:
    """The log of deletes that a compaction keeps beside its base file; opened at the first."""

    def __init__(self, work: CompactionTask, task: TaskId) -> None:
        self._work = work
        self._task = task
        self._log: LogRunWriter | None = None

    def put(self, deletes: pa.RecordBatch) -> None:
        """Keep those of `deletes` that have an ordering value and are not too old."""
        work = self._work
        kept = deletes.filter(pc.invert(forgotten_deletes(deletes, work.cutoff)))
        if not kept.num_rows:
            return
        if self._log is None:
            self._log = LogRunWriter(
                work.storage,
                work.log_config,
                partition=work.operation.group.partition,
                file_id=work.operation.group.file_id,
                write_token=_write_token(work, self._task),
                version=1,
                instant=work.instant,
                schema=work.schema,
                table_schema_text=work.schema_text,
            )
        # What lies below the new base file is merged: nothing is left that a delete must beat.
        flags = pa.repeat(pa.scalar(DELETED, pa.uint8()), kept.num_rows)
        at = kept.schema.get_field_index(FLAGS)
        self._log.put(kept.set_column(at, kept.schema.field(at), flags))

    def close(self) -> list[LogFileStats]:
        """Make the log visible, if there is one."""
        return [] if self._log is None else self._log.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._log is not None:
            self._log.__exit__(*error)


def _cdc_target(work: CompactionTask, task: TaskId) -> CdcTarget:
    return CdcTarget(
        storage=work.storage,
        config=work.log_config,
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
    end = count_joinable(runs, logs_first=folds_logs_first(work.config))
    if end < len(runs):
        # Our own plans have no such logs, another engine's may.
        raise UnsupportedError(
            f"file group {work.operation.group.file_id}: the plan joins {runs[end].path!r} with logs "
            "of other columns, or with deletes that would not be read back; roll the plan back, "
            "and merge the logs with their base file (mode full)"
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


def _tombstone_stat(work: CompactionTask, base: str, stats: LogFileStats) -> WriteStat:
    """Return the stat of a log of tombstones, which deletes nothing that was not deleted before."""
    group = work.operation.group
    return replace(
        NOTHING_COMPACTED,
        file_id=group.file_id,
        partition_path=group.partition,
        path=stats.path,
        prev_commit=work.instant,
        num_writes=0,
        num_deletes=0,
        num_update_writes=0,
        num_inserts=0,
        total_write_bytes=stats.size_bytes,
        file_size_in_bytes=stats.size_bytes,
        log_version=stats.version,
        log_offset=0,
        base_file=base,
        log_files=(stats.path.rpartition("/")[2],),
        num_updates=0,
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
