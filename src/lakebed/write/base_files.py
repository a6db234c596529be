"""Second stage of a base-file write: merge the runs of one file group into its base file."""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from lakebed.errors import ConflictError, ExistsError, NotFoundError
from lakebed.format.commit_metadata import NO_PREVIOUS_COMMIT, WriteStat
from lakebed.format.instant_name import Action, InstantName, State
from lakebed.format.meta_columns import COMMIT_SEQNO, COMMIT_TIME, RECORD_KEY
from lakebed.format.names import BaseFileName
from lakebed.format.partition_metadata import PARTITION_METADATA_NAME, PartitionMetadata
from lakebed.merge.order import sort_rows
from lakebed.merge.window import Run, merge_runs
from lakebed.model.executor import TaskId
from lakebed.table.base_file import BaseFileFooter, read_base_file, read_footer
from lakebed.table.base_writer import BaseFileStats, BaseFileWriter
from lakebed.table.file_group import join_path
from lakebed.write.plan import FileGroupWrite
from lakebed.write.spec import WriteSpec
from lakebed.write.staging import read_segment, spill_run

# How many temporary runs one task opens at once: each is a file and a batch in memory.
MAX_FAN_IN = 64
# What a row that was written before brings along, and a new row does not have yet.
_CARRIED = (COMMIT_TIME, COMMIT_SEQNO)


@dataclass(frozen=True, slots=True)
class WriteStatus:
    """What one task wrote: a write stat for each of its files."""

    partition: str
    stats: tuple[WriteStat, ...]


def write_base_file(write: FileGroupWrite, task: TaskId) -> WriteStatus:
    """Merge the staged runs of a file group, and its old base file, into a new base file."""
    spec = write.spec
    name = BaseFileName(write.file_id, task.write_token, spec.instant)
    path = join_path(write.place.partition, name.encode())
    ensure_partition(spec, write.place.partition)
    runs = _staged_runs(write, task)
    old_rows = 0
    if write.old is not None:
        footer = read_footer(spec.storage, write.old.path)
        old_rows = footer.num_rows
        runs = [_old_run(write, footer), *(_with_carried(run) for run in runs)]
    with BaseFileWriter(
        spec.storage,
        path,
        spec.schema,
        table_name=spec.config.name,
        instant=spec.instant,
        partition_path=write.place.partition,
        task=write.number,
    ) as writer:
        for batch in merge_runs(runs, spec.rule):
            _append(writer, batch, spec, carried=write.old is not None)
        _check_alive(spec)
        stats = writer.close()
    try:
        _check_alive(spec)
    except ConflictError:
        # The rollback came between the check and the close, and did not see the file.
        spec.storage.delete(path)
        raise
    return WriteStatus(write.place.partition, (_stat(write, stats, old_rows),))


def ensure_partition(spec: WriteSpec, partition: str) -> None:
    """Write the partition's metadata file, without which Hudi sees no rows there."""
    path = join_path(partition, PARTITION_METADATA_NAME)
    try:
        spec.storage.head(path)
    except NotFoundError:
        metadata = PartitionMetadata.of(spec.instant, partition)
        try:
            spec.storage.put_if_absent(path, metadata.encode())
        except ExistsError:
            return  # another task of this write was faster


def _staged_runs(write: FileGroupWrite, task: TaskId) -> list[Run]:
    """Give the staged runs, merged beforehand in passes where there are too many to open at once."""
    spec = write.spec
    runs = [Run(segment.path, read_segment(spec.storage, segment)) for segment in write.segments]
    passes = 0
    while len(runs) > MAX_FAN_IN:
        passes += 1
        merged = []
        for start in range(0, len(runs), MAX_FAN_IN):
            name = f"{task.write_token}-{write.number}-pass-{passes}-{start}"
            batches = merge_runs(runs[start : start + MAX_FAN_IN], spec.rule)
            merged.append(spill_run(batches, write.segments[0], spec, name))
        runs = merged
    return runs


def _old_run(write: FileGroupWrite, footer: BaseFileFooter) -> Run:
    """Give the rows of the old base file in key order.

    Ours are sorted and say so. Hudi's are sorted in memory: a file of another writer may
    hold rows in any order, and a key more than once.
    """
    assert write.old is not None
    spec, path = write.spec, write.old.path
    columns = [*_CARRIED, RECORD_KEY, *spec.schema.names]
    batches = read_base_file(spec.storage, path, spec.schema, columns)
    if footer.is_ordered:
        return Run(path, batches)
    held = list(batches)
    return Run(path, [sort_rows(pa.concat_batches(held), spec.rule)] if held else [])


def _with_carried(run: Run) -> Run:
    """Give new rows the columns that old rows bring, as nulls."""

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in run.batches:
            nulls = [pa.nulls(batch.num_rows, pa.string())] * len(_CARRIED)
            schema = pa.schema([*(pa.field(name, pa.string()) for name in _CARRIED), *batch.schema])
            yield pa.RecordBatch.from_arrays([*nulls, *batch.columns], schema=schema)

    return Run(run.name, batches())


def _append(
    writer: BaseFileWriter, batch: pa.RecordBatch, spec: WriteSpec, *, carried: bool
) -> None:
    rows = batch.select(spec.schema.names)
    keys = batch.column(RECORD_KEY)
    if not carried:
        writer.write(rows, keys)
        return
    writer.write(
        rows,
        keys,
        commit_times=batch.column(COMMIT_TIME),
        commit_seqnos=batch.column(COMMIT_SEQNO),
    )


def _check_alive(spec: WriteSpec) -> None:
    """Stop before the file becomes visible if the write was taken back meanwhile.

    A base file of an instant that never completes would make Hudi lose later logs.
    """
    name = InstantName(spec.instant, Action(spec.action), State.REQUESTED).encode()
    try:
        spec.storage.head(f"{spec.config.timeline_path}/{name}")
    except NotFoundError:
        raise ConflictError(f"instant {name} was rolled back while this task was writing") from None


def _stat(write: FileGroupWrite, stats: BaseFileStats, old_rows: int) -> WriteStat:
    replaced = max(0, old_rows + write.new_rows - stats.rows) if write.old else 0
    return WriteStat(
        file_id=write.file_id,
        path=stats.path,
        prev_commit=write.old.name.instant if write.old else NO_PREVIOUS_COMMIT,
        num_writes=stats.rows,
        num_deletes=0,
        num_update_writes=replaced,
        num_inserts=max(0, stats.rows - old_rows),
        total_write_bytes=stats.size_bytes,
        total_write_errors=0,
        partition_path=write.place.partition,
        total_log_records=0,
        total_log_files=0,
        total_log_blocks=0,
        total_corrupt_log_block=0,
        total_rollback_blocks=0,
        total_updated_records_compacted=0,
        total_log_files_compacted=0,
        total_log_size_compacted=0,
        file_size_in_bytes=stats.size_bytes,
        prev_base_file=write.old.name.encode() if write.old else None,
        num_updates=replaced,
    )
