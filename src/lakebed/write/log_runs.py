"""Writes sorted runs of file groups as log files."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Self

import pyarrow as pa

from lakebed.format.names.meta_columns import RECORD_KEY
from lakebed.format.timeline.commit_metadata import WriteStat
from lakebed.merge.order import Positions, sort_positions
from lakebed.merge.rule import MergeRule
from lakebed.merge.run import DELETED, FLAGS
from lakebed.model.executor import TaskId
from lakebed.table.files.file_group import FileGroupId, FileSlice
from lakebed.table.store.data_writer import DataFileStats
from lakebed.table.store.log_writer import LogRunWriter, NewLog
from lakebed.write.index_runs import TaskEntries
from lakebed.write.partition import ensure_partition
from lakebed.write.spec.status import RowCounts, WriteStatus, file_stat
from lakebed.write.spec.write_spec import WriteSpec

# The most logs per file group that a task can number, and the most tasks: a version has 9 digits.
_FLUSHES = 1_000
_MAX_ORDERED_TASK = 999_998


class LogInProgress:
    """A run of a file group that is written as the log `version`; nothing is visible before `close`.

    The log is on top of the slice `below`, in which Hudi's CDC query finds the changed rows. Without
    `with_entries`, the caller collects the entries of its rows in secondary indexes.
    """

    def __init__(
        self,
        spec: WriteSpec,
        group: FileGroupId,
        task: TaskId,
        version: int,
        below: FileSlice | None = None,
        *,
        with_entries: bool = True,
    ) -> None:
        spec.fence.check()
        if spec.is_non_blocking:
            # Only with non-blocking writers can a log be the first file of its partition.
            ensure_partition(spec, group.partition)
        self._spec = spec
        self._group = group
        self._below = below
        self._entries = TaskEntries(spec, group, task, version) if with_entries else None
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
        if self._entries is not None:
            self._entries.take(batch, self._group.partition)
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
            () if self._entries is None else self._entries.finish(),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._entries is not None:
            self._entries.__exit__(*error)
        self._log.__exit__(*error)


def write_log(
    spec: WriteSpec,
    group: FileGroupId,
    task: TaskId,
    version: int,
    batches: Iterable[pa.RecordBatch],
    below: FileSlice | None = None,
    *,
    with_entries: bool = True,
) -> WriteStatus:
    """Write `batches`, sorted and with unique keys, as the log `version`; return its status."""
    with LogInProgress(spec, group, task, version, below, with_entries=with_entries) as log:
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


class FlushedLogs:
    """Writes the rows of a flush as logs, and collects their entries in secondary indexes.

    The entries of all file groups are collected together, so that they become one run.
    """

    def __init__(self, spec: WriteSpec, task: TaskId, flush: int) -> None:
        self._spec = spec
        self._task = task
        self._version = _log_version(task, flush)
        self._open = ExitStack()
        self._entries: dict[str, TaskEntries] = {}
        self._done: dict[str, list[WriteStatus]] = defaultdict(list)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._open.close()

    def write(self, group: FileGroupId, rows: pa.RecordBatch, subset: Positions) -> None:
        """Write some of the rows as the log of a file group, one for each column group."""
        for part, ordered in _sorted_parts(rows, self._spec, subset):
            place, target = part.column_group, replace(group, column_group=part.column_group)
            if place not in self._entries:
                entries = TaskEntries(part, target, self._task, self._version)
                self._entries[place] = self._open.enter_context(entries)
            self._entries[place].take(ordered, group.partition)
            status = write_log(
                part, target, self._task, self._version, [ordered], with_entries=False
            )
            self._done[place].append(status)

    def finish(self) -> Iterator[WriteStatus]:
        """Yield the status of each log; the last ones have the entries of all."""
        for place, (*others, last) in self._done.items():
            yield from others
            yield replace(last, entries=self._entries[place].finish())


def _sorted_parts(
    rows: pa.RecordBatch, spec: WriteSpec, subset: Positions
) -> Iterator[tuple[WriteSpec, pa.RecordBatch]]:
    """Yield the rows of each column group that is written, sorted once for each merge rule."""
    held: dict[tuple[MergeRule, bool], pa.Int64Array] = {}
    for part in spec.parts:
        rule, marked = part.staged_rule, part.deletes_only
        if (rule, marked) not in held:
            some = subset
            if marked:
                flags = rows.column(FLAGS).to_numpy()[subset]
                some = subset[flags & DELETED != 0]
            held[rule, marked] = pa.array(sort_positions(rows, rule, some))
        positions = held[rule, marked]
        if len(positions):
            names = [RECORD_KEY, *([FLAGS] if spec.may_delete else []), *part.schema.names]
            yield part, rows.select(names).take(positions)


def _log_version(task: TaskId, flush: int) -> int:
    """Return a version that makes logs of one write replay in the order of tasks and their flushes.

    Versions are compared as numbers. Write tokens, which come after them, are compared as strings,
    where task 10 sorts before task 2.
    """
    return min(task.partition, _MAX_ORDERED_TASK) * _FLUSHES + min(flush, _FLUSHES - 2) + 1
