"""Which file groups to compact, and how: pure rules over the shape of their slices.

The hybrid rule, for a slice of a base file and logs:

                            few logs          many logs
    small next to the base  leave them        LOG   merge the logs, keep the base file
    large next to the base  FULL              FULL  the logs are worth a new base file
    no base file            FULL              FULL

Logs are large from `log_ratio` of the base file's bytes on, and many from `blocks_threshold` on.
Reading a slice opens every log, so many small ones cost more than their bytes; a new base file
costs its whole size, so a few changed bytes do not justify it. In a skewed table each file group
is treated by its own shape. Logs that cannot be merged (changes of different columns) need FULL.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from lakebed.format.names.data_names import BaseFileName, parse_data_name
from lakebed.model.instant import Instant
from lakebed.model.options.services import CompactionMode, CompactionOptions
from lakebed.services.compaction.plan_file import LOG_BYTES, CompactionOperation, Kind
from lakebed.table.files.file_group import FileGroupId, FileSlice

_MB = 1024 * 1024
_NEW_BASE_BYTES = 120 * _MB
"""The size that Hudi assumes for a base file that does not exist yet."""


@dataclass(frozen=True, slots=True)
class LogRun:
    """A run of a log as log compaction sees it.

    `columns` are the columns of a partial run, None for complete rows. Deletes can be merged with
    either.
    """

    instant: Instant
    path: str
    columns: frozenset[str] | None = None
    is_rows: bool = True


def choose_slices(
    slices: Iterable[FileSlice], busy: Collection[FileGroupId], options: CompactionOptions
) -> list[FileSlice]:
    """Return the slices that have enough logs, are intact and in no pending plan."""
    return [
        slice_
        for slice_ in slices
        if slice_.needs_merge
        and not slice_.damage
        and slice_.group not in busy
        and _log_bytes(slice_) >= options.log_size_threshold
        and len(slice_.log_files) >= options.log_count_threshold
    ]


def damaged_slices(slices: Iterable[FileSlice], busy: Collection[FileGroupId]) -> list[FileSlice]:
    """Return the slices that have logs but cannot be planned because files are lost."""
    return [
        slice_
        for slice_ in slices
        if slice_.damage and slice_.group not in busy and (slice_.needs_merge or _lost_log(slice_))
    ]


def _lost_log(slice_: FileSlice) -> bool:
    names = (parse_data_name(lost.path.rpartition("/")[2]) for lost in slice_.damage)
    return any(name is not None and not isinstance(name, BaseFileName) for name in names)


def choose_kind(slice_: FileSlice, mode: CompactionMode, options: CompactionOptions) -> Kind | None:
    """Return the kind of compaction that a slice needs, by file count and sizes, or None.

    Logs that an earlier compaction already merged are still counted, so LOG is provisional:
    `log_operation` makes the final decision.
    """
    if mode is CompactionMode.FULL:
        return Kind.FULL
    if mode is CompactionMode.HYBRID:
        base = slice_.base_file
        if base is None or _log_bytes(slice_) >= options.log_ratio * base.size_bytes:
            return Kind.FULL
    return Kind.LOG if len(slice_.log_files) >= max(2, options.blocks_threshold) else None


def full_operation(slice_: FileSlice) -> CompactionOperation:
    """Return the operation that merges a whole slice into a new base file."""
    base_bytes = 0 if slice_.base_file is None else slice_.base_file.size_bytes
    read_mb = (base_bytes + _log_bytes(slice_)) // _MB
    write_mb = (base_bytes or _NEW_BASE_BYTES) // _MB
    return CompactionOperation(
        Kind.FULL, slice_, len(slice_.log_files), _metrics(slice_, read_mb, write_mb)
    )


def wide_operations(
    file_groups: Iterable[Mapping[str, FileSlice]],
    names: Sequence[str],
    busy: Collection[FileGroupId],
    is_stale: Callable[[FileSlice], bool],
) -> tuple[CompactionOperation, ...]:
    """Return the operations that merge all column groups of file groups, group by group.

    `file_groups` are the slices of each file group by column group. Left out are those that are
    damaged, that a pending plan contains, or that consist of a base file of all columns, unless it
    `is_stale`.
    """
    found: list[CompactionOperation] = []
    for slices in file_groups:
        whole = next(iter(slices.values())).group.whole
        parts = [
            slices.get(name) or FileSlice(replace(whole, column_group=name), "", None)
            for name in names
        ]
        if any(part.damage or part.group in busy for part in parts):
            continue
        if all(part.is_only_wide and not is_stale(part) for part in parts):
            continue
        found += (replace(full_operation(part), kind=Kind.WIDE) for part in parts)
    return tuple(found)


def log_operation(
    slice_: FileSlice,
    runs: Sequence[LogRun],
    options: CompactionOptions,
    *,
    before: Instant | None = None,
    all_of_them: bool = False,
    logs_first: bool = False,
) -> CompactionOperation | None:
    """Return the operation that merges the oldest logs of a slice; None if there are too few.

    `runs` are the runs of its logs that are not superseded, in replay order. Only runs with an
    instant below `before` are taken. With `all_of_them` the new log will replay after all others,
    so all or none are taken. `logs_first` is as in `count_joinable`.
    """
    end = count_joinable(runs, before, logs_first=logs_first)
    if all_of_them and end < len(runs):
        return None
    taken = {run.instant for run in runs[:end]}
    if len(taken) < 2 or len({run.path for run in runs[:end]}) < options.blocks_threshold:
        return None
    # A log that was merged earlier determines where its result replays, so it is included.
    kept = {run.instant for run in runs[end:]}
    first = tuple(log for log in slice_.log_files if log.name.instant not in kept)
    rest = tuple(log for log in slice_.log_files if log.name.instant in kept)
    size_mb = sum(log.size_bytes for log in first) // _MB
    return CompactionOperation(
        Kind.LOG,
        replace(slice_, log_files=first + rest),
        len(first),
        _metrics(slice_, size_mb, size_mb),
    )


def count_joinable(
    runs: Sequence[LogRun], before: Instant | None = None, *, logs_first: bool = False
) -> int:
    """Count the leading runs to merge: all runs of instants below `before`, with equal columns.

    Runs are not merged if the result would read differently. A partial row that follows a delete of
    its key would, if merged, take columns from before the delete. And where logs are read as Hudi
    reads them (`logs_first`), a delete without an ordering value hides the ordering value of a
    delete that follows it, unless there is a row between the two.
    """
    shape: frozenset[str] | None = None
    seen = deletes = came_back = False
    end = 0
    for at, run in enumerate(runs):
        if came_back or (before is not None and run.instant >= before):
            break
        if run.is_rows:
            if (seen and run.columns != shape) or (deletes and run.columns is not None):
                break
            seen, shape = True, run.columns
            came_back = logs_first and deletes
        else:
            deletes = True
        if at + 1 == len(runs) or runs[at + 1].instant != run.instant:
            end = at + 1
    return end


def bound_io(
    operations: Iterable[CompactionOperation], options: CompactionOptions
) -> tuple[CompactionOperation, ...]:
    """Return the operations with the most log bytes until `target_io_mb` is used up, as in Hudi."""
    kept = []
    left = float(options.target_io_mb)
    for operation in sorted(operations, key=lambda o: (-o.log_bytes, o.group)):
        if left <= 0:
            break
        kept.append(operation)
        left -= operation.metrics["TOTAL_IO_MB"]
    return tuple(kept)


def _log_bytes(slice_: FileSlice) -> int:
    return sum(log.size_bytes for log in slice_.log_files)


def _metrics(slice_: FileSlice, read_mb: int, write_mb: int) -> dict[str, float]:
    return {
        "TOTAL_LOG_FILES": float(len(slice_.log_files)),
        LOG_BYTES: float(_log_bytes(slice_)),
        "TOTAL_IO_READ_MB": float(read_mb),
        "TOTAL_IO_WRITE_MB": float(write_mb),
        "TOTAL_IO_MB": float(read_mb + write_mb),
    }
