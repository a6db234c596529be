"""Executes a compaction plan, of Lakebed or of Hudi."""

import logging
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from lakebed.commit.attempt import Attempt
from lakebed.commit.claim import claim
from lakebed.commit.hold import TableHold
from lakebed.errors import (
    DAMAGE_ERRORS,
    ConflictError,
    InvalidError,
    LockedError,
    NotFoundError,
    TakenError,
)
from lakebed.format.names.instant_name import Action, State
from lakebed.format.timeline.commit_metadata import KEEPS_COMMIT_TIMES, CommitMetadata, WriteStat
from lakebed.merge.rule import Merger
from lakebed.model.executor import TaskId
from lakebed.model.instant import Instant
from lakebed.services.compaction.further_keys import KeyReader, files_by_group, key_readers
from lakebed.services.compaction.joinable_logs import replays_at_own_instant
from lakebed.services.compaction.merge import CompactionTask, LogCounts, compact_file_group
from lakebed.services.compaction.plan import damaged_slices
from lakebed.services.compaction.plan_file import CompactionOperation, CompactionPlan, Kind
from lakebed.services.compaction.schedule import busy_groups
from lakebed.services.compaction.widen import WidenTask, widen_file_group
from lakebed.services.rewrite import Rewrite
from lakebed.table.config.table_config import TableConfig
from lakebed.table.config.tombstone_retention import tombstone_cutoff
from lakebed.table.files.damage import describe_slice
from lakebed.table.files.file_group import FileGroupId, FileSlice
from lakebed.table.snapshot import Snapshot
from lakebed.table.view import TableView
from lakebed.terminal.text import plural
from lakebed.timeline.timeline import COMMIT_ACTIONS, Timeline, TimelineInstant
from lakebed.write.pipeline import WriteTarget
from lakebed.write.spec.status import WriteStatus

log = logging.getLogger(__name__)

_COMPACTIONS = (Action.COMPACTION, Action.LOGCOMPACTION)


@dataclass(frozen=True, slots=True)
class Compaction:
    """The result of a compaction.

    `full` file groups got a new base file, `wide` ones a base file with the columns of all column
    groups, and in `log` file groups logs were merged into one;
    `skipped` ones no longer exist. `damaged` has the problem of each file group that was left out
    because it was known to be damaged or could not be read.
    """

    instant: Instant
    completion_time: Instant
    full: int
    log: int
    skipped: int
    logs_merged: int
    rows: int
    size_bytes: int
    damaged: tuple[str, ...] = ()
    wide: int = 0

    def __str__(self) -> str:
        damaged = f"; left out as damaged: {'; '.join(self.damaged)}" if self.damaged else ""
        wide = f"{self.wide} one of all columns, " if self.wide else ""
        return (
            f"compaction {self.instant}: {plural(self.full, 'file group')} got a new base file, {wide}{self.log} "
            f"had their logs merged; {plural(self.logs_merged, 'log')} became {plural(self.rows, 'row')}, "
            f"{self.size_bytes:,} bytes{damaged}"
        )


def pending_compactions(snapshot: Snapshot) -> tuple[TimelineInstant, ...]:
    """Return the compactions and log compactions that are planned and not completed."""
    return snapshot.timeline.pending(*_COMPACTIONS)


def execute_compaction(
    target: WriteTarget, instant: TimelineInstant | Instant, *, log_version: int | None = None
) -> Compaction:
    """Merge the file groups in the plan of `instant` and commit the result.

    Tombstones and change data beside the new base files are written as in a table of version
    `log_version`, by default the table's own: a downgrade must not leave native logs. If the
    compaction fails, the plan stays and can be executed again. Raises LockedError if another
    process is executing it, ConflictError if there is nothing left to do.
    """
    planned = _find(target, instant)
    with claim(target.storage, target.clock, target.commits, planned) as taken:
        plan = _read_plan(taken)
        works = _tasks(taken, plan, target.merger, log_version or taken.config.version)
        results = list(target.executor.run(_compact, works, "compact"))
        statuses = [result for result in results if isinstance(result, WriteStatus)]
        damaged = [result for result in results if not isinstance(result, WriteStatus)]
        metadata = _metadata(taken, plan, statuses)
        completion = taken.complete(
            metadata,
            {_group_of(work).partition for work in works},
            partial(_check_place, plan, taken),
        )
    left = {result.group for result in damaged}
    merged = [work for work in works if _group_of(work) not in left]
    done = [operation for work in merged for operation in _operations_of(work)]
    for result in damaged:
        log.warning(
            "compaction %s leaves out a damaged file group: %s", planned.requested, result.problem
        )
    return Compaction(
        planned.requested,
        completion,
        sum(operation.kind is Kind.FULL for operation in done),
        sum(operation.kind is Kind.LOG for operation in done),
        (len(plan.operations) - sum(len(_operations_of(work)) for work in works))
        // max(1, len(plan.widens)),
        sum(len(operation.logs) for operation in done),
        sum(stat.num_writes or 0 for stat in metadata.write_stats()),
        sum(stat.file_size_in_bytes or 0 for stat in metadata.write_stats()),
        (*(result.problem for result in damaged), *_left_out(taken.snapshot, plan)),
        sum(isinstance(work, WidenTask) for work in merged),
    )


def execute_unless_done(target: WriteTarget, instant: TimelineInstant) -> Compaction | None:
    """Execute a plan; return None if another process is executing it, or has completed it."""
    try:
        return execute_compaction(target, instant)
    except TakenError:
        return None
    except LockedError:
        raise
    except ConflictError:
        found = target.commits.active.load().find(instant.requested, instant.plan_action)
        if found is not None and not found.is_completed:
            raise
        return None


@dataclass(frozen=True, slots=True)
class _Damaged:
    """A file group that cannot be compacted: a planned file is lost or cannot be read."""

    group: FileGroupId
    problem: str


def _left_out(snapshot: Snapshot, plan: CompactionPlan) -> Iterator[str]:
    """Yield the problems of the file groups that were not planned because they are damaged."""
    planned = frozenset(operation.group for operation in plan.operations)
    # Without the lock, another process may roll a plan back meanwhile.
    with suppress(NotFoundError):
        planned |= busy_groups(snapshot)
    for slice_ in damaged_slices(snapshot.group_slices, planned):
        yield describe_slice(slice_)


def _compact(work: CompactionTask | WidenTask, task: TaskId) -> WriteStatus | _Damaged:
    """Compact a file group; a damaged one is left unchanged, without stopping the others.

    The plan completes without it: nothing else may replace the damaged slice while a plan is
    pending.
    """
    try:
        if isinstance(work, WidenTask):
            return widen_file_group(work, task)
        return compact_file_group(work, task)
    except DAMAGE_ERRORS as error:
        fence = work.fence if isinstance(work, WidenTask) else work.rewrite.fence
        fence.check()  # a process that considers this one dead deletes its files
        return _Damaged(_group_of(work), str(error))


def _group_of(work: CompactionTask | WidenTask) -> FileGroupId:
    return work.group if isinstance(work, WidenTask) else work.operation.group


def _operations_of(work: CompactionTask | WidenTask) -> list[CompactionOperation]:
    parts = work.parts if isinstance(work, WidenTask) else (work,)
    return [part.operation for part in parts]


def _find(target: WriteTarget, instant: TimelineInstant | Instant) -> TimelineInstant:
    if isinstance(instant, TimelineInstant):
        return instant
    timeline = target.commits.active.load()
    known = [i for i in timeline.instants if i.plan_action in _COMPACTIONS]
    for found in known:
        if found.requested == instant:
            return found
    pending = ", ".join(i.requested for i in known if not i.is_completed) or "none"
    raise InvalidError(f"compaction {instant}: there is no such plan; pending are: {pending}")


def _read_plan(taken: Attempt) -> CompactionPlan:
    name = taken.instant.name_of(State.REQUESTED).encode()
    data = taken.snapshot.commits.active.read(taken.instant, State.REQUESTED)
    return CompactionPlan.parse(data, taken.instant.plan_action, f"instant {name}")


def _tasks(
    taken: Attempt, plan: CompactionPlan, merger: Merger | None, log_version: int
) -> list[CompactionTask | WidenTask]:
    """Return a task for each file group that still exists, the largest first."""
    snapshot, config = taken.snapshot, taken.config
    replaced = snapshot.replaced
    view = snapshot.view(merger)
    _ = view.rule  # checked here rather than in a task
    _check_joins(plan, config, merger)
    if config.is_lsm_tree:
        plan = replace(plan, operations=tuple(map(_with_tombstones_apart, plan.operations)))
    instant = taken.instant.requested
    rewrites = {
        name: Rewrite(
            view=(own := view.of_group(name)),
            log_config=replace(own.config, version=log_version),
            instant=instant,
            fence=taken.fence,
            cutoff=tombstone_cutoff(config, instant, plan.cutoff),
        )
        for name in view.column_groups.names
    }
    counts = _log_counts(snapshot, plan)
    works: list[CompactionTask] = []
    files = files_by_group(snapshot) if not plan.widens else {}
    for number, planned in enumerate(plan.operations):
        group = planned.group
        rewrite = rewrites.get(group.column_group)
        gone = group.file_id in replaced.get(group.partition, frozenset())
        if gone or rewrite is None:
            continue
        operation = replace(planned, slice_=_of_group(planned.slice_, view))
        further: tuple[KeyReader, ...] = ()
        if operation.kind is not Kind.WIDE:
            base = operation.slice_.base_file
            rewrites_wide = base is not None and base.name.is_wide
            if not (operation.logs or operation.slice_.tombstones or rewrites_wide):
                continue
            further = key_readers(snapshot, files, view, operation.slice_, instant)
        works.append(CompactionTask(rewrite, number, operation, counts[number], further))
    found: list[CompactionTask | WidenTask] = [*works]
    if plan.widens:
        whole: dict[FileGroupId, list[CompactionTask]] = defaultdict(list)
        for work in works:
            whole[work.operation.group.whole].append(work)
        found = [WidenTask(view, tuple(parts)) for parts in whole.values()]
    return sorted(found, key=lambda work: -work.cost_bytes)


def _of_group(slice_: FileSlice, view: TableView) -> FileSlice:
    """Return a planned slice whose base file, if it has all columns, serves its column group."""
    base = slice_.base_file
    if base is None or not base.name.is_wide or not view.config.column_groups:
        return slice_
    return replace(slice_, base_file=replace(base, serves=(slice_.group.column_group,)))


def _with_tombstones_apart(operation: CompactionOperation) -> CompactionOperation:
    """Return the operation with the tombstones of its slice moved before all logs, as they replay.

    Plans list them among the logs.
    """
    if operation.kind is Kind.LOG:
        return operation
    slice_ = operation.slice_.with_tombstones_apart()
    return replace(operation, slice_=slice_, taken=len(slice_.log_files))


def _check_joins(plan: CompactionPlan, config: TableConfig, merger: Merger | None) -> None:
    joins = any(operation.kind is Kind.LOG for operation in plan.operations)
    if joins and (merger is not None or config.fill is not None):
        raise InvalidError(
            f"table {config.name!r} is merged by a custom merger, or by one that fills columns: "
            "logs can only be merged with their base file (mode full); roll the plan back"
        )


def _log_counts(snapshot: Snapshot, plan: CompactionPlan) -> list[LogCounts]:
    """Add up the counts of the planned logs from the commits on the active timeline."""
    wanted = {log.name.instant for operation in plan.operations for log in operation.logs}
    stats: dict[str, WriteStat] = {}
    for commit in snapshot.timeline.commits:
        if commit.requested in wanted:
            for stat in snapshot.commits.read(commit).write_stats():
                stats[(stat.path or "").lstrip("/")] = stat
    found = []
    for operation in plan.operations:
        told = [stats[log.path] for log in operation.logs if log.path in stats]
        rows = sum(stat.num_writes or 0 for stat in told)
        found.append(LogCounts(rows, sum(stat.num_deletes or 0 for stat in told)))
    return found


def _check_place(plan: CompactionPlan, taken: Attempt, hold: TableHold) -> None:
    """Raise ConflictError if a log has arrived that must replay between merged logs.

    Writers that take the table's lock cannot add one: their instants are greater.
    """
    joined = [o for o in plan.operations if o.kind is Kind.LOG and o.logs]
    if not joined:
        return
    requested = taken.instant.requested
    late = sorted(_late_writes(hold.timeline, requested))
    if not late:
        return
    newest = max(log.name.instant for operation in joined for log in operation.logs)
    bound = requested if replays_at_own_instant(taken.config) else newest
    if late[0] < bound:
        raise ConflictError(
            f"compaction {requested}: write {late[0]} started before the logs to merge and was not "
            "complete when the plan was made; roll the plan back and make a new one"
        )


def _late_writes(timeline: Timeline, planned: Instant) -> Iterator[Instant]:
    """Yield the writes that were not committed when the plan was made."""
    for instant in timeline.instants:
        is_write = instant.plan_action in COMMIT_ACTIONS
        if is_write and (instant.completion is None or instant.completion > planned):
            yield instant.requested


def _metadata(taken: Attempt, plan: CompactionPlan, statuses: list[WriteStatus]) -> CommitMetadata:
    is_log = plan.action is Action.LOGCOMPACTION
    stats = (stat for status in statuses for stat in status.stats)
    name = "LOG_COMPACT" if is_log else "COMPACT"
    metadata = CommitMetadata.of(name, taken.snapshot.schema_text, stats)
    extra = {KEEPS_COMMIT_TIMES: "true"} if is_log else {}
    return replace(metadata, compacted=True, extra_metadata={**metadata.extra_metadata, **extra})
