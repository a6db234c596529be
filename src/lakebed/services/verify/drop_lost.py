"""Replaces damaged file slices: each gets a new base file, all in one commit.

The new base file is empty, or holds the rows that can still be read. The file group keeps its id,
so that every index still finds it, and every reader, Hudi's too, uses the newest base file. The
rest of the damaged slice becomes an older version, which cleaning deletes in time.

In a table with column groups, only the damaged groups of a file group are replaced. The new base
file also gets the keys of the other groups, as rows of nulls. A base file that only lacks some of
these keys is replaced in the same way (`group_keys.py`), without loss.
"""

import logging
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count

import pyarrow as pa

from lakebed.commit.transaction import Transaction, begin
from lakebed.errors import DAMAGE_ERRORS, CorruptError
from lakebed.format.names.instant_name import Action
from lakebed.format.names.meta_columns import COMMIT_SEQNO, COMMIT_TIME, RECORD_KEY
from lakebed.format.timeline.commit_metadata import CommitMetadata, WriteStat
from lakebed.model.executor import TaskId
from lakebed.model.instant import Instant
from lakebed.services.compaction.further_keys import KeyReader, complete_keys
from lakebed.services.rewrite import Rewrite, RewrittenFile
from lakebed.services.verify.findings import Mend
from lakebed.services.verify.group_keys import GroupKeysCheck, group_keys_checks, lacking_keys
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
    """A damaged file slice that was replaced: its problem, and the rows that were kept.

    In a table with column groups, only the slices of `column_groups` were replaced; rows of other
    groups are kept.
    """

    path: str
    instant: Instant
    problems: tuple[str, ...]
    rows_kept: int
    kept_readable: bool
    column_groups: tuple[str, ...] = ()

    def __str__(self) -> str:
        kept = "all its rows are lost"
        where = self.path
        if self.column_groups:
            names = ", ".join(name or "default" for name in self.column_groups)
            where = f"{self.path}, column groups {names}"
            kept = "their values are lost; rows of other column groups are kept"
        if self.kept_readable:
            kept = f"{self.rows_kept:,} rows could be read and are kept; they may be stale"
        return f"{where}: removed by {self.instant}; {kept} ({'; '.join(self.problems)})"


@dataclass(frozen=True, slots=True)
class DropResult:
    """The replaced slices, and why other file groups were left unchanged, by path."""

    dropped: tuple[Dropped, ...] = ()
    left: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class _Part:
    """One slice to check, and to replace if it is damaged."""

    rewrite: Rewrite
    number: int
    slice_: FileSlice
    base_rows: int | None
    keys: GroupKeysCheck | None


@dataclass(frozen=True, slots=True)
class _Task:
    """The slices of one file group, one for each of its column groups; pickled to workers.

    `shared` are the columns that all column groups hold; empty in an ordinary table.
    """

    number: int
    group: FileGroupId
    parts: tuple[_Part, ...]
    shared: tuple[str, ...]
    mend: Mend


@dataclass(frozen=True, slots=True)
class _Ended:
    """The result of a task; a file group without stats was left unchanged, for the `reason`."""

    number: int
    problems: tuple[str, ...]
    stats: tuple[WriteStat, ...]
    reason: str = "it is intact by now"
    rows_kept: int = 0
    column_groups: tuple[str, ...] = ()


def drop_lost(target: WriteTarget, groups: Collection[FileGroupId], mend: Mend) -> DropResult:
    """Replace the newest slices of `groups` that are damaged; intact ones are left unchanged.

    With COMPLETE_KEYS, replace the base files that lack keys instead.
    """
    with begin(target.storage, target.clock, target.commits) as transaction:
        tasks, left = _tasks(target, transaction, groups, mend)
        ended = list(target.executor.run(_end, tasks, "replace damaged slices"))
        left += [
            (group_path(tasks[one.number].group), one.reason) for one in ended if not one.stats
        ]
        stats = [stat for one in ended for stat in one.stats]
        if not stats:
            return DropResult((), tuple(left))
        for partition in {stat.partition_path or "" for stat in stats}:
            ensure_metadata(target.storage, partition, transaction.instant.requested)
        metadata = _metadata(transaction, stats, mend)
        transaction.commit(metadata, {stat.partition_path or "" for stat in stats})
    dropped = tuple(
        Dropped(
            group_path(tasks[one.number].group),
            transaction.instant.requested,
            one.problems,
            one.rows_kept,
            mend is Mend.KEEP_READABLE,
            one.column_groups,
        )
        for one in sorted(ended, key=lambda one: one.number)
        if one.stats
    )
    for one in dropped if mend is not Mend.COMPLETE_KEYS else ():
        log.warning("%s: %s", target.storage.url, one)
    return DropResult(dropped, tuple(left))


def group_path(group: FileGroupId) -> str:
    """Return the partition and id of a file group as one path."""
    return join_path(group.partition, group.file_id)


def _tasks(
    target: WriteTarget,
    transaction: Transaction,
    groups: Collection[FileGroupId],
    mend: Mend,
) -> tuple[list[_Task], list[tuple[str, str]]]:
    snapshot = transaction.snapshot
    planned = {
        p.group.whole: p.instant for p in planned_groups(transaction.active, snapshot.timeline)
    }
    view = snapshot.view(target.merger)
    _ = view.rule  # checked here rather than in a task
    slices = snapshot.logical_slices
    rows = {
        (stat.path or "").lstrip("/"): stat.num_writes
        for commit in snapshot.timeline.commits
        for stat in snapshot.commits.read(commit).write_stats()
    }
    left: list[tuple[str, str]] = []
    chosen: list[FileGroupId] = []
    for group in sorted(groups):
        if group not in slices:
            left.append((group_path(group), "the file group no longer exists"))
        elif (plan := planned.get(group)) is not None:
            left.append((group_path(group), _why_planned(plan)))
        else:
            chosen.append(group)
    instant = transaction.instant.requested
    rewrites = {
        name: Rewrite(
            view=(own := view.of_group(name)),
            log_config=own.config,
            instant=instant,
            fence=transaction.fence,
            cutoff=tombstone_cutoff(snapshot.config, instant),
        )
        for name in view.column_groups.names
    }
    numbers = count()
    tasks = []
    for number, group in enumerate(chosen):
        parts = slices[group]
        checks = group_keys_checks(view, parts, snapshot.completion_of)
        keys = {check.own.group: check for check in checks}
        works = tuple(
            _Part(
                rewrites[name],
                next(numbers),
                part,
                rows.get(part.base_file.path) if part.base_file is not None else None,
                keys.get(part.group),
            )
            for name, part in parts.items()
        )
        tasks.append(_Task(number, group, works, view.column_groups.shared, mend))
    return tasks, left


def _why_planned(plan: TimelineInstant) -> str:
    run = "" if plan.plan_action is Action.CLUSTERING else "run that plan with t.compact(), or "
    return (
        f"{plan.plan_action} {plan.requested} is pending and reads it; {run}drop it with "
        f"t.rollback({plan.requested!r}, delete_plan=True), then repair again"
    )


def _end(task: _Task, attempt: TaskId) -> _Ended:
    """Write the base files that replace damaged slices; write none if all are intact."""
    kept: list[tuple[_Part, FileSlice]] = []
    replaced: list[tuple[_Part, FileSlice]] = []
    problems: list[str] = []
    for part in task.parts:
        readable, found = _readable(part)
        if task.mend is Mend.COMPLETE_KEYS:
            if found:
                reason = f"it is damaged: {'; '.join(found)}. See repair(drop_lost=True)"
                return _Ended(task.number, tuple(found), (), reason)
            found = _lacking(part)
        elif found and task.mend is Mend.DROP_LOST:
            readable = _nothing(part.slice_)
        kept.append((part, readable))
        if found:
            replaced.append((part, readable))
            problems += found
    stats: list[WriteStat] = []
    rows = 0
    try:
        for part, slice_ in replaced:
            others = [(other, held) for other, held in kept if other is not part]
            written, number = _write(part, attempt, slice_, _further(task, others))
            stats += written
            rows += number
    except CorruptError as error:
        rewrite = task.parts[0].rewrite
        rewrite.fence.check()
        for stat in stats:
            rewrite.view.storage.delete(stat.path or "")
        reason = (
            f"its readable files cannot be merged: {error}. drop_lost without keep_readable "
            "removes it"
        )
        return _Ended(task.number, tuple(problems), (), reason)
    names = tuple(part.slice_.group.column_group for part, _ in replaced) if task.shared else ()
    return _Ended(task.number, tuple(problems), tuple(stats), rows_kept=rows, column_groups=names)


def _lacking(part: _Part) -> list[str]:
    times = 0 if part.keys is None else lacking_keys(part.keys)[0]
    return [f"a base file lacks {times} keys of other column groups"] if times else []


def _further(task: _Task, others: Sequence[tuple[_Part, FileSlice]]) -> tuple[KeyReader, ...]:
    """Return readers of the keys of other column groups."""
    columns = (COMMIT_TIME, COMMIT_SEQNO, RECORD_KEY, *task.shared)
    return tuple(
        KeyReader(part.rewrite.view, slice_, columns) for part, slice_ in others if slice_.files
    )


def _nothing(slice_: FileSlice) -> FileSlice:
    return FileSlice(slice_.group, slice_.instant, None)


def _readable(part: _Part) -> tuple[FileSlice, list[str]]:
    """Return the files of a slice that can be read completely, and the problems of the others."""
    slice_ = part.slice_
    problems = [describe(lost) for lost in slice_.damage]
    lost = {file.path for file in slice_.damage}
    files: list[BaseFile | LogFile] = []
    for file in slice_.files:
        if file.path in lost:
            continue
        try:
            _decode(part, file)
            files.append(file)
            if isinstance(file, BaseFile) and (problem := _count_problem(part, file)):
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
            for _ in part.rewrite.read(whole):
                pass
        except CorruptError as error:
            problems.append(str(error))
    return whole, problems


def _count_problem(part: _Part, file: BaseFile) -> str:
    found = read_footer(part.rewrite.view.storage, file.path).num_rows
    if part.base_rows in (None, found):
        return ""
    return f"{file.path}: its commit wrote {part.base_rows} rows, its footer has {found}"


def _decode(part: _Part, file: BaseFile | LogFile) -> None:
    """Read every page of a file, to find damage."""
    alone = _nothing(part.slice_)
    if isinstance(file, BaseFile):
        alone = replace(alone, base_file=file)
    else:
        alone = replace(alone, log_files=(file,))
    rewrite = part.rewrite
    for source in slice_sources(rewrite.view, alone):
        decode_run(rewrite.view.storage, source)


def _write(
    part: _Part, attempt: TaskId, slice_: FileSlice, further: tuple[KeyReader, ...]
) -> tuple[tuple[WriteStat, ...], int]:
    """Write the rows of `slice_` and its ordered deletes; return the stats and its row count.

    Keys that only `further` holds are added as rows with nulls.
    """
    group = slice_.group
    may_repeat = slice_.base_file is not None
    own_rows = 0

    def counted(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        nonlocal own_rows
        for batch in batches:
            own_rows += batch.num_rows
            yield batch

    with RewrittenFile(
        part.rewrite, group, attempt.write_token, part.number, may_repeat=may_repeat
    ) as file:
        rows: Iterator[pa.RecordBatch] = iter(())
        if slice_.files:
            rows = counted(part.rewrite.read(slice_, deletes=file.put_deletes))
        if further:
            rows = complete_keys(rows, part.rewrite, further)
        for batch in rows:
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
    return (stat, *written.tombstones), own_rows


def _metadata(transaction: Transaction, stats: Sequence[WriteStat], mend: Mend) -> CommitMetadata:
    by_partition: dict[str, tuple[WriteStat, ...]] = {}
    for stat in stats:
        partition = stat.partition_path or ""
        by_partition[partition] = (*by_partition.get(partition, ()), stat)
    text = transaction.snapshot.schema_text
    extra = {"schema": text} if text else {}
    # A delete, because rows are lost whatever is kept; Hudi has no operation for a repair.
    return CommitMetadata(
        partition_to_write_stats=dict(sorted(by_partition.items())),
        extra_metadata={**extra, _REPAIR: mend.replace("-", "_")},
        operation_type="DELETE",
    )
