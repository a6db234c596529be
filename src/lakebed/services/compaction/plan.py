"""Which file groups to compact, and how: pure rules over the shape of their slices.

The hybrid rule, for a slice of a base file and logs:

                            few logs          many logs
    small next to the base  leave them        LOG   join the logs, spare the base file
    large next to the base  FULL              FULL  the logs are worth a new base file
    no base file            FULL              FULL

Large is a share of `log_ratio` of the base file's bytes, many is `blocks_threshold` logs. Reading
a slice opens every log, so many small ones cost more than their bytes; a new base file costs its
whole size, so few bytes of change do not pay for it. A skewed table gets each of its file groups
treated by its own shape. Logs that cannot be joined (changes of different columns) go with FULL.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from lakebed.format.names.data_names import BaseFileName, parse_data_name
from lakebed.model.instant import Instant
from lakebed.services.compaction.options import CompactionOptions, Mode
from lakebed.services.compaction.plan_file import LOG_BYTES, CompactionOperation, Kind
from lakebed.table.files.file_group import FileGroupId, FileSlice

_MB = 1024 * 1024
_NEW_BASE_BYTES = 120 * _MB
"""What Hudi expects of a base file that does not exist yet."""


@dataclass(frozen=True, slots=True)
class LogRun:
    """A run of the logs of a slice that still counts, as far as joining logs asks.

    `columns` are those of a run that changes some columns only, None for whole rows. Deletes fit
    to either.
    """

    instant: Instant
    path: str
    columns: frozenset[str] | None = None
    is_rows: bool = True


def choose_slices(
    slices: Iterable[FileSlice], busy: Collection[FileGroupId], options: CompactionOptions
) -> list[FileSlice]:
    """Return the slices that have logs enough, are whole and in no pending plan."""
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
    """Return the slices with logs that no plan may take, as files of them are lost."""
    return [
        slice_
        for slice_ in slices
        if slice_.damage and slice_.group not in busy and (slice_.needs_merge or _lost_log(slice_))
    ]


def _lost_log(slice_: FileSlice) -> bool:
    names = (parse_data_name(lost.path.rpartition("/")[2]) for lost in slice_.damage)
    return any(name is not None and not isinstance(name, BaseFileName) for name in names)


def choose_kind(slice_: FileSlice, mode: Mode, options: CompactionOptions) -> Kind | None:
    """Return by names and sizes alone what to do with a slice; None is nothing.

    Logs that an earlier compaction has joined are still among those counted here: LOG is what may
    be done, `log_operation` settles it.
    """
    if mode is Mode.FULL:
        return Kind.FULL
    if mode is Mode.HYBRID:
        base = slice_.base_file
        if base is None or _log_bytes(slice_) >= options.log_ratio * base.size_bytes:
            return Kind.FULL
    return Kind.LOG if len(slice_.log_files) >= max(2, options.blocks_threshold) else None


def full_operation(slice_: FileSlice) -> CompactionOperation:
    """Merge all of a slice into a new base file."""
    base_bytes = 0 if slice_.base_file is None else slice_.base_file.size_bytes
    read_mb = (base_bytes + _log_bytes(slice_)) // _MB
    write_mb = (base_bytes or _NEW_BASE_BYTES) // _MB
    return CompactionOperation(
        Kind.FULL, slice_, len(slice_.log_files), _metrics(slice_, read_mb, write_mb)
    )


def log_operation(
    slice_: FileSlice,
    runs: Sequence[LogRun],
    options: CompactionOptions,
    *,
    before: Instant | None = None,
    all_of_them: bool = False,
    logs_first: bool = False,
) -> CompactionOperation | None:
    """Join the oldest logs of a slice, as many as can be; None if those are too few.

    `runs` are what still counts of its logs, in order of replay. Taken are only runs with an
    instant below `before`. With `all_of_them` the new log will replay after all others, so that
    either none is left or none is taken. `logs_first` is as in `count_joinable`.
    """
    end = count_joinable(runs, before, logs_first=logs_first)
    if all_of_them and end < len(runs):
        return None
    taken = {run.instant for run in runs[:end]}
    if len(taken) < 2 or len({run.path for run in runs[:end]}) < options.blocks_threshold:
        return None
    # What an earlier compaction joined says where its log replays, so it comes along.
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
    """Count the first runs that can be one: whole instants of the same columns below `before`.

    What could not be read back stays apart. A partial row that comes after a delete of its key
    is more than the row: joined into one, it would take columns from before the delete. And where
    logs are read as Hudi reads them (`logs_first`), a delete without an ordering value hides the
    ordering value of a delete that follows it, unless a row lies between the two.
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
    """Put the most logs first, and stop once `target_io_mb` is used up, as Hudi does."""
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
