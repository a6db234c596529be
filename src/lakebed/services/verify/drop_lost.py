"""Replaces damaged file slices: each gets a new base file, all in one commit.

The new base file is empty, or holds the rows that can still be read. The file group keeps its id,
so that every index still finds it, and every reader, Hudi's too, uses the newest base file. The
rest of the damaged slice becomes an older version, which cleaning deletes in time.
"""

import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from lakebed.commit.transaction import Transaction, begin
from lakebed.errors import DAMAGE_ERRORS, CorruptError
from lakebed.format.names.instant_name import Action
from lakebed.format.timeline.commit_metadata import CommitMetadata, WriteStat
from lakebed.model.executor import TaskId
from lakebed.model.instant import Instant
from lakebed.services.rewrite import Rewrite, RewrittenFile
from lakebed.services.verify.slice_checks import decode_run
from lakebed.table.config.tombstone_retention import tombstone_cutoff
from lakebed.table.files.damage import describe
from lakebed.table.files.file_group import BaseFile, FileGroupId, FileSlice, LogFile, join_path
from lakebed.table.files.pending_plans import planned_groups
from lakebed.table.read.base_file import read_footer
from lakebed.table.read.log_reader import slice_sources
from lakebed.timeline.timeline import TimelineInstant
from lakebed.write.partition import ensure_metadata
from lakebed.write.pipeline import WriteTarget
from lakebed.write.spec.status import NOTHING_COMPACTED

log = logging.getLogger(__name__)

_REPAIR = "lakebed.repair"


@dataclass(frozen=True, slots=True)
class Dropped:
    """A damaged file slice that was replaced: its problem, and the rows that were kept."""

    path: str
    instant: Instant
    problems: tuple[str, ...]
    rows_kept: int
    kept_readable: bool

    def __str__(self) -> str:
        kept = "all its rows are lost"
        if self.kept_readable:
            kept = f"{self.rows_kept:,} rows could be read and are kept; they may be stale"
        return f"{self.path}: removed by {self.instant}; {kept} ({'; '.join(self.problems)})"


@dataclass(frozen=True, slots=True)
class DropResult:
    """The replaced slices, and why other file groups were left unchanged, by path."""

    dropped: tuple[Dropped, ...] = ()
    left: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class _Task:
    """One slice to check, and to replace if it is damaged; pickled to workers."""

    rewrite: Rewrite
    number: int
    slice_: FileSlice
    base_rows: int | None
    keep_readable: bool


@dataclass(frozen=True, slots=True)
class _Ended:
    """The result for a slice; without stats, the slice was left unchanged for a `reason`."""

    number: int
    problems: tuple[str, ...]
    stats: tuple[WriteStat, ...]
    reason: str = "it is whole by now"


def drop_lost(
    target: WriteTarget, groups: Collection[FileGroupId], *, keep_readable: bool
) -> DropResult:
    """Replace the newest slices of `groups` that are damaged; intact ones are left unchanged."""
    with begin(target.storage, target.clock, target.commits) as transaction:
        tasks, left = _tasks(target, transaction, groups, keep_readable=keep_readable)
        ended = list(target.executor.run(_end, tasks, "end damaged slices"))
        left += [
            (group_path(tasks[one.number].slice_.group), one.reason)
            for one in ended
            if not one.stats
        ]
        stats = [stat for one in ended for stat in one.stats]
        if not stats:
            return DropResult((), tuple(left))
        for partition in {stat.partition_path or "" for stat in stats}:
            ensure_metadata(target.storage, partition, transaction.instant.requested)
        metadata = _metadata(transaction, stats, keep_readable=keep_readable)
        transaction.commit(metadata, {stat.partition_path or "" for stat in stats})
    dropped = tuple(
        Dropped(
            group_path(tasks[one.number].slice_.group),
            transaction.instant.requested,
            one.problems,
            sum(stat.num_writes or 0 for stat in one.stats),
            keep_readable,
        )
        for one in sorted(ended, key=lambda one: one.number)
        if one.stats
    )
    for one in dropped:
        log.warning("%s: %s", target.storage.url, one)
    return DropResult(dropped, tuple(left))


def group_path(group: FileGroupId) -> str:
    """Return the partition and id of a file group as one path."""
    return join_path(group.partition, group.file_id)


def _tasks(
    target: WriteTarget,
    transaction: Transaction,
    groups: Collection[FileGroupId],
    *,
    keep_readable: bool,
) -> tuple[list[_Task], list[tuple[str, str]]]:
    snapshot = transaction.snapshot
    planned = {p.group: p.instant for p in planned_groups(transaction.active, snapshot.timeline)}
    view = snapshot.view(target.merger)
    _ = view.rule  # checked here rather than in a task
    slices = {slice_.group: slice_ for slice_ in snapshot.slices}
    rows = {
        (stat.path or "").lstrip("/"): stat.num_writes
        for commit in snapshot.timeline.commits
        for stat in snapshot.commits.read(commit).write_stats()
    }
    left: list[tuple[str, str]] = []
    chosen: list[FileSlice] = []
    for group in sorted(groups):
        if group not in slices:
            left.append((group_path(group), "the file group no longer exists"))
        elif (plan := planned.get(group)) is not None:
            left.append((group_path(group), _why_planned(plan)))
        else:
            chosen.append(slices[group])
    config, instant = snapshot.config, transaction.instant.requested
    rewrite = Rewrite(
        view=view,
        log_config=config,
        instant=instant,
        fence=transaction.fence,
        cutoff=tombstone_cutoff(config, instant),
    )
    tasks = [
        _Task(
            rewrite,
            number,
            slice_,
            rows.get(slice_.base_file.path) if slice_.base_file is not None else None,
            keep_readable,
        )
        for number, slice_ in enumerate(chosen)
    ]
    return tasks, left


def _why_planned(plan: TimelineInstant) -> str:
    run = "" if plan.plan_action is Action.CLUSTERING else "run that plan with t.compact(), or "
    return (
        f"{plan.plan_action} {plan.requested} is pending and reads it; {run}drop it with "
        f"t.rollback({plan.requested!r}, delete_plan=True), then repair again"
    )


def _end(task: _Task, attempt: TaskId) -> _Ended:
    """Write the base file that replaces a slice; write none if the slice is intact."""
    readable, problems = _readable(task)
    if not problems:
        return _Ended(task.number, (), ())
    try:
        stats = _write(task, attempt, readable if task.keep_readable else _nothing(task.slice_))
    except CorruptError as error:
        task.rewrite.fence.check()
        reason = f"its readable files cannot be merged: {error}. drop_lost alone removes it"
        return _Ended(task.number, tuple(problems), (), reason)
    return _Ended(task.number, tuple(problems), stats)


def _nothing(slice_: FileSlice) -> FileSlice:
    return FileSlice(slice_.group, slice_.instant, None)


def _readable(task: _Task) -> tuple[FileSlice, list[str]]:
    """Return the files of a slice that can be read completely, and the problems of the others."""
    slice_ = task.slice_
    problems = [describe(lost) for lost in slice_.damage]
    lost = {file.path for file in slice_.damage}
    files: list[BaseFile | LogFile] = []
    for file in slice_.files:
        if file.path in lost:
            continue
        try:
            _decode(task, file)
            files.append(file)
            if isinstance(file, BaseFile) and (problem := _count_problem(task, file)):
                problems.append(problem)
        except DAMAGE_ERRORS as error:
            problems.append(str(error))
    kept = frozenset(file.path for file in files)
    base = slice_.base_file
    whole = FileSlice(
        slice_.group,
        slice_.instant,
        base if base is not None and base.path in kept else None,
        tuple(log for log in slice_.log_files if log.path in kept),
        tuple(log for log in slice_.tombstones if log.path in kept),
    )
    if not problems:
        try:
            for _ in task.rewrite.read(whole):
                pass
        except CorruptError as error:
            problems.append(str(error))
    return whole, problems


def _count_problem(task: _Task, file: BaseFile) -> str:
    found = read_footer(task.rewrite.view.storage, file.path).num_rows
    if task.base_rows in (None, found):
        return ""
    return f"{file.path}: its commit wrote {task.base_rows} rows, its footer has {found}"


def _decode(task: _Task, file: BaseFile | LogFile) -> None:
    """Read every page of a file, to find damage."""
    part = _nothing(task.slice_)
    if isinstance(file, BaseFile):
        part = replace(part, base_file=file)
    else:
        part = replace(part, log_files=(file,))
    rewrite = task.rewrite
    for source in slice_sources(rewrite.view, part):
        decode_run(rewrite.view.storage, source)


def _write(task: _Task, attempt: TaskId, slice_: FileSlice) -> tuple[WriteStat, ...]:
    """Write the rows of `slice_`, and its ordered deletes beside them."""
    group = slice_.group
    may_repeat = slice_.base_file is not None
    with RewrittenFile(
        task.rewrite, group, attempt.write_token, task.number, may_repeat=may_repeat
    ) as file:
        if slice_.files:
            for batch in task.rewrite.read(slice_, deletes=file.put_deletes):
                file.put(batch)
        written = file.close()
    stat = replace(
        NOTHING_COMPACTED,
        file_id=group.file_id,
        path=written.base.path,
        prev_commit=slice_.instant,
        num_writes=written.base.rows,
        num_deletes=0,
        num_update_writes=0,
        num_inserts=0,
        total_write_bytes=written.base.size_bytes,
        partition_path=group.partition,
        file_size_in_bytes=written.base.size_bytes,
        num_updates=0,
    )
    return stat, *written.tombstones


def _metadata(
    transaction: Transaction, stats: Sequence[WriteStat], *, keep_readable: bool
) -> CommitMetadata:
    by_partition: dict[str, tuple[WriteStat, ...]] = {}
    for stat in stats:
        partition = stat.partition_path or ""
        by_partition[partition] = (*by_partition.get(partition, ()), stat)
    text = transaction.snapshot.schema_text
    extra = {"schema": text} if text else {}
    # Rows are lost, whatever is kept; Hudi has no operation for a repair.
    return CommitMetadata(
        partition_to_write_stats=dict(sorted(by_partition.items())),
        extra_metadata={**extra, _REPAIR: "keep_readable" if keep_readable else "drop_lost"},
        operation_type="DELETE",
    )
