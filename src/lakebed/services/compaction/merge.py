"""The task of a compaction: merge the planned files of one file group as a stream."""

import zlib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace

import pyarrow as pa

from lakebed.errors import UnsupportedError
from lakebed.format.files.footer import FOOTER_KEYS_SINCE
from lakebed.format.names.data_names import replay_key
from lakebed.format.names.meta_columns import STAMPS
from lakebed.format.timeline.commit_metadata import NO_PREVIOUS_COMMIT, WriteStat
from lakebed.merge.passes import merge_in_passes
from lakebed.model.executor import TaskId
from lakebed.model.packing import WRITE_FACTOR, file_cost
from lakebed.services.compaction.further_keys import KeyReader, complete_keys
from lakebed.services.compaction.joinable_logs import folds_logs_first, log_run
from lakebed.services.compaction.plan import count_joinable
from lakebed.services.compaction.plan_file import CompactionOperation, Kind
from lakebed.services.rewrite import Rewrite, RewrittenFile
from lakebed.table.read.base_file import keys_since, read_footer
from lakebed.table.read.log_reader import slice_sources
from lakebed.table.read.run_reader import Needs, open_run
from lakebed.table.read.run_source import RunKind, RunSource
from lakebed.table.read.spill import Spills
from lakebed.table.store.cdc_log import CdcTarget, open_change_log
from lakebed.table.store.data_writer import DataFileStats
from lakebed.table.store.log_writer import LogRunWriter, NewLog
from lakebed.write.spec.status import WriteStatus, file_stat


@dataclass(frozen=True, slots=True)
class LogCounts:
    """Rows and deletes of the planned logs, according to their commits."""

    rows: int = 0
    deletes: int = 0


@dataclass(frozen=True, slots=True)
class CompactionTask:
    """One operation, with everything that a worker needs to execute it."""

    rewrite: Rewrite
    number: int
    operation: CompactionOperation
    counts: LogCounts = LogCounts()
    # The keys of other column groups that this one may lack.
    further: tuple[KeyReader, ...] = ()

    @property
    def cost_bytes(self) -> int:
        """Estimate the work, in bytes, from the sizes in the plan; they are 0 in a parsed plan."""
        operation = self.operation
        read_bytes = int(operation.metrics.get("TOTAL_IO_MB", 0) * (1 << 20)) + operation.log_bytes
        return file_cost(WRITE_FACTOR * read_bytes, len(operation.logs) + 2)


def compact_file_group(work: CompactionTask, task: TaskId) -> WriteStatus:
    """Merge the planned files of a file group; files that came after the plan are ignored."""
    # The order within a slice is derived from the names; another engine's plan may list the files
    # in another order.
    logs = sorted(work.operation.logs, key=lambda log: replay_key(log.name))
    slice_ = replace(work.operation.slice_, log_files=tuple(logs))
    if work.operation.kind is Kind.LOG:
        slice_ = replace(slice_, base_file=None, tombstones=())
    sources = slice_sources(work.rewrite.view, slice_)
    if work.operation.kind is Kind.LOG:
        stats = _join_logs(work, task, sources)
    else:
        stats = _write_base_file(work, task, sources)
    group = work.operation.group
    return WriteStatus(group, stats)


def _write_token(work: CompactionTask, task: TaskId) -> str:
    """Return a write token that is unique among processes that execute the same plan.

    A process that was considered dead may close its files late and then delete them, so no other
    process may use their names.
    """
    claim = zlib.crc32(work.rewrite.fence.owner.encode()) & 0x7FFF_FFFF
    return TaskId(task.partition, claim, task.attempt).write_token


def _write_base_file(
    work: CompactionTask, task: TaskId, sources: list[RunSource]
) -> tuple[WriteStat, ...]:
    """Write the surviving rows as the next base file; if there are none it is empty, as in Hudi.

    Ordered deletes that late rows may still meet go beside it, as a log of tombstones.
    """
    operation, rewrite = work.operation, work.rewrite
    base = operation.slice_.base_file
    cdc_stats = None
    with ExitStack() as open_files:
        file = open_files.enter_context(
            RewrittenFile(
                rewrite,
                operation.group,
                _write_token(work, task),
                work.number,
                may_repeat=base is not None,
            )
        )
        changes = open_change_log(_cdc_target(work, task), base, rewrite.view.rule)
        if changes is not None:
            open_files.enter_context(changes)
        rows = rewrite.read(operation.slice_, sources=sources, deletes=file.put_deletes)
        if work.further:
            rows = complete_keys(rows, rewrite, work.further)
        for batch in rows:
            file.put(batch)
            if changes is not None:
                changes.put(batch)
        file.annotate(_keys_since(work, sources, file.num_rows))
        written = file.close()
        if changes is not None:
            cdc_stats = changes.close()
            rewrite.fence.check_written([written.base.path, *(cdc_stats or ())])
    return (replace(_base_stat(work, written.base), cdc_stats=cdc_stats), *written.tombstones)


def _keys_since(work: CompactionTask, sources: list[RunSource], num_rows: int) -> Mapping[str, str]:
    """Return the footer entry of a base file with the same keys as the one that it replaces.

    With it, reads of other column groups do not look for new keys in the file.
    """
    slice_, view = work.operation.slice_, work.rewrite.view
    gone = slice_.tombstones or any(source.kind is RunKind.DELETES for source in sources)
    if not view.config.column_groups or slice_.base_file is None or gone:
        return {}
    old = read_footer(view.storage, slice_.base_file.path)
    if old.num_rows != num_rows:
        return {}
    return {FOOTER_KEYS_SINCE: keys_since(view.storage, slice_.base_file)}


def _cdc_target(work: CompactionTask, task: TaskId) -> CdcTarget:
    return CdcTarget(
        storage=work.rewrite.view.storage,
        config=work.rewrite.log_config,
        group=work.operation.group,
        write_token=_write_token(work, task),
        instant=work.rewrite.instant,
        schema=work.rewrite.view.schema,
        schema_text=work.rewrite.view.avro_schema,
    )


def _base_stat(work: CompactionTask, stats: DataFileStats) -> WriteStat:
    """Return the stat of the new base file; inserts and updates are estimated from row counts."""
    base = work.operation.slice_.base_file
    before = 0 if base is None else read_footer(work.rewrite.view.storage, base.path).num_rows
    inserts = max(0, stats.rows - before)
    updates = max(0, min(work.counts.rows, stats.rows) - inserts)
    return replace(
        _compacted(work, stats),
        num_deletes=max(0, before - stats.rows),
        num_update_writes=updates,
        num_inserts=inserts,
        prev_base_file=None if base is None else base.name.encode(),
    )


def _join_logs(
    work: CompactionTask, task: TaskId, sources: list[RunSource]
) -> tuple[WriteStat, ...]:
    """Write one run for all logs, deletes included: the deleted rows may be in the base file."""
    operation = work.operation
    columns = _joined_columns(work, sources)
    log = NewLog(
        storage=work.rewrite.view.storage,
        config=work.rewrite.view.config,
        group=operation.group,
        write_token=_write_token(work, task),
        version=1,
        next_version=2,
        instant=work.rewrite.instant,
        schema=columns,
        table_schema_text=work.rewrite.view.avro_schema,
        partial=any(source.partial for source in sources),
        compacted=tuple(dict.fromkeys(source.instant for source in sources)),
    )
    written = LogRunWriter(log).write(_joined(work, sources, columns))
    work.rewrite.fence.check_written([stats.path for stats in written])
    return tuple(
        replace(_compacted(work, stats), num_update_writes=stats.rows) for stats in written
    )


def _joined_columns(work: CompactionTask, sources: list[RunSource]) -> pa.Schema:
    """Return the columns of the merged run: the table's, or the columns that all runs change."""
    runs = [log_run(work.rewrite.view.storage, source) for source in sources]
    end = count_joinable(runs, logs_first=folds_logs_first(work.rewrite.view.config))
    if end < len(runs):
        # Lakebed's plans have no such logs, but another engine's may.
        raise UnsupportedError(
            f"file group {work.operation.group.file_id}: the plan merges {runs[end].path!r} with logs "
            "of other columns, or with deletes that would not be read back; roll the plan back, "
            "and merge the logs with their base file (mode full)"
        )
    changed = next((run.columns for run in runs if run.columns is not None), None)
    if changed is None:
        return work.rewrite.view.schema
    return pa.schema([field for field in work.rewrite.view.schema if field.name in changed])


def _joined(
    work: CompactionTask, sources: list[RunSource], columns: pa.Schema
) -> Iterator[pa.RecordBatch]:
    carried = [pa.field(name, pa.string()) for name in STAMPS]
    names = work.rewrite.view.rule.ordering_fields
    needs = Needs(
        # A deleted row has no columns.
        fields=tuple(field.with_nullable(True) for field in (*carried, *columns)),
        ordering=tuple(work.rewrite.view.schema.field(name).with_nullable(True) for name in names),
        delete_marker=work.rewrite.view.config.delete_marker,
        buffer_bytes=work.rewrite.view.buffer_bytes,
    )
    # All runs have the same columns, so no run lacks any.
    runs = [
        replace(open_run(work.rewrite.view.storage, source, needs), partial=False)
        for source in sources
    ]
    with Spills() as spills:
        schema = pa.schema(needs.all_fields)
        yield from merge_in_passes(
            runs, work.rewrite.view.rule, schema, spills.spill, keep_deletes=True
        )
    work.rewrite.fence.check()


def _compacted(work: CompactionTask, stats: DataFileStats) -> WriteStat:
    """Return the stat of a written file with the counts of the merged logs."""
    operation = work.operation
    base, logs = operation.slice_.base_file, len(operation.logs)
    records = work.counts.rows + work.counts.deletes
    return replace(
        file_stat(operation.group, stats),
        prev_commit=NO_PREVIOUS_COMMIT if base is None else base.name.instant,
        total_log_records=records,
        total_updated_records_compacted=records,
        total_log_blocks=logs,
        total_log_files_compacted=logs,
        total_log_size_compacted=operation.log_bytes,
        total_log_read_time_ms=0,
    )
