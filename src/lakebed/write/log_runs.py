"""Writes one sorted run of a file group as a log file."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Self

import pyarrow as pa

from lakebed.format.timeline.commit_metadata import WriteStat
from lakebed.model.executor import TaskId
from lakebed.table.files.file_group import FileGroupId, FileSlice
from lakebed.table.store.data_writer import DataFileStats
from lakebed.table.store.log_writer import LogRunWriter, NewLog
from lakebed.write.index_runs import TaskEntries
from lakebed.write.partition import ensure_partition
from lakebed.write.spec.status import RowCounts, WriteStatus, file_stat
from lakebed.write.spec.write_spec import WriteSpec


class LogInProgress:
    """A run of a file group that is written as the log `version`; nothing is visible before `close`.

    The log is on top of the slice `below`, in which Hudi's CDC query finds the changed rows.
    """

    def __init__(
        self,
        spec: WriteSpec,
        group: FileGroupId,
        task: TaskId,
        version: int,
        below: FileSlice | None = None,
    ) -> None:
        spec.fence.check()
        if spec.is_non_blocking:
            # Only with non-blocking writers can a log be the first file of its partition.
            ensure_partition(spec, group.partition)
        self._spec = spec
        self._group = group
        self._below = below
        self._entries = TaskEntries(spec, group, task, version)
        self._log = LogRunWriter(
            NewLog(
                storage=spec.storage,
                config=spec.config,
                group=group,
                write_token=task.write_token,
                version=version,
                instant=spec.instant,
                schema=spec.schema,
                table_schema_text=spec.view.avro_schema,
                partial=spec.is_partial,
            )
        )

    def put(self, batch: pa.RecordBatch) -> None:
        """Add rows and deletes with keys above all previous keys."""
        self._entries.take(batch)
        self._log.put(batch)

    def close(self) -> WriteStatus:
        """Make the log visible and return its status."""
        spec = self._spec
        written = self._log.close()
        spec.fence.check_written([stats.path for stats in written])
        return WriteStatus(
            self._group,
            tuple(_stat(spec, self._group, stats, self._below) for stats in written),
            # The changes are known only when the rows are merged.
            RowCounts(deleted=None if spec.may_delete else 0),
            self._entries.finish(),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._log.__exit__(*error)


def write_log(
    spec: WriteSpec,
    group: FileGroupId,
    task: TaskId,
    version: int,
    batches: Iterable[pa.RecordBatch],
    below: FileSlice | None = None,
) -> WriteStatus:
    """Write `batches`, sorted and with unique keys, as the log `version`; return its status."""
    with LogInProgress(spec, group, task, version, below) as log:
        for batch in batches:
            log.put(batch)
        return log.close()


def _stat(
    spec: WriteSpec, group: FileGroupId, stats: DataFileStats, below: FileSlice | None
) -> WriteStat:
    return log_stat(spec.instant, group, stats, below if spec.logs_changes else None)


def log_stat(
    instant: str, group: FileGroupId, stats: DataFileStats, named: FileSlice | None = None
) -> WriteStat:
    """Return the stat of a log, which names the files of the slice `named` below it."""
    base = named.base_file.name.encode() if named is not None and named.base_file else ""
    older = () if named is None else tuple(log.name.encode() for log in named.log_files)
    # Whether the file group holds the keys was not looked up, so all are counted as updates, as in
    # Hudi.
    stat = file_stat(group, stats)
    return replace(
        stat,
        prev_commit=instant,
        num_update_writes=stats.rows,
        num_updates=stats.rows,
        base_file=base,
        log_files=(*older, *(stat.log_files or ())),
    )
