"""Plan a compaction and put the plan on the timeline."""

import logging
from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import partial

from lakebed.commit.hold import TableHold, hold_table
from lakebed.errors import DAMAGE_ERRORS, InvalidError
from lakebed.format.names.instant_name import Action
from lakebed.model.executor import LocalExecutor, TaskId
from lakebed.model.options.services import CompactionMode, CompactionOptions
from lakebed.services.compaction.joinable_logs import (
    first_pending_write,
    folds_logs_first,
    log_run,
    replays_at_own_instant,
)
from lakebed.services.compaction.plan import (
    bound_io,
    choose_kind,
    choose_slices,
    count_joinable,
    damaged_slices,
    full_operation,
    log_operation,
    wide_operations,
)
from lakebed.services.compaction.plan_file import (
    HUDI_VERSION,
    HYBRID_VERSION,
    WIDE_VERSION,
    CompactionOperation,
    CompactionPlan,
    Kind,
)
from lakebed.services.compaction.trigger import is_due
from lakebed.table.config.merge_mode import MergeMode
from lakebed.table.config.table_config import TableType
from lakebed.table.config.tombstone_retention import tombstone_cutoff
from lakebed.table.files.damage import describe_slice
from lakebed.table.files.file_group import FileGroupId, FileSlice
from lakebed.table.files.pending_plans import planned_groups
from lakebed.table.read.log_reader import slice_sources
from lakebed.table.read.run_source import RunSource
from lakebed.table.snapshot import Snapshot
from lakebed.table.view import TableView
from lakebed.terminal.html import text_html
from lakebed.terminal.text import plural
from lakebed.timeline.timeline import TimelineInstant
from lakebed.write.pipeline import WriteTarget

log = logging.getLogger(__name__)

# Reading the headers of logs is mostly waiting for storage.
_LOOKERS = 16


@dataclass(frozen=True, slots=True)
class Scheduled:
    """A planned compaction: its instant and its operations.

    `damaged` has the problem of each file group that is left out because it is damaged.
    """

    instant: TimelineInstant
    plan: CompactionPlan
    damaged: tuple[str, ...] = ()

    @property
    def full(self) -> int:
        """Count the file groups that get a new base file."""
        return sum(operation.kind is Kind.FULL for operation in self.plan.operations)

    @property
    def log(self) -> int:
        """Count the file groups whose logs are merged."""
        return sum(operation.kind is Kind.LOG for operation in self.plan.operations)

    @property
    def wide(self) -> int:
        """Count the file groups that get a base file with the columns of all column groups."""
        wide = sum(operation.kind is Kind.WIDE for operation in self.plan.operations)
        return wide // max(1, len(self.plan.widens))

    def _repr_html_(self) -> str:
        return text_html(str(self))

    def __str__(self) -> str:
        damaged = f"; left out as damaged: {'; '.join(self.damaged)}" if self.damaged else ""
        if self.plan.widens:
            return (
                f"{self.instant.plan_action} {self.instant.requested} is planned: "
                f"{_getting(self.wide)} a base file of all columns{damaged}"
            )
        return (
            f"{self.instant.plan_action} {self.instant.requested} is planned: "
            f"{_getting(self.full)} a new base file, and {self.log} will have their logs merged{damaged}"
        )


def _getting(groups: int) -> str:
    return f"{plural(groups, 'file group')} will get"


def schedule_compaction(
    target: WriteTarget,
    options: CompactionOptions | None = None,
    mode: CompactionMode | str = CompactionMode.FULL,
    *,
    force: bool = False,
    groups: Collection[FileGroupId] | None = None,
    column_groups: Collection[str] | None = None,
    widen: bool = False,
) -> Scheduled | None:
    """Plan a compaction; return None if it is not due or there is nothing to do.

    Without `options` the table's properties apply. `force` plans a compaction even if it is not
    due; two logs are then enough for mode `log`. `groups` are file groups that get a new base file,
    whatever their logs. Only `column_groups` are planned; None means all. File groups in a pending
    plan are left out. With `widen`, all column groups of each file group get one base file.
    """
    mode = CompactionMode.parse(mode)
    with hold_table(target.storage, target.clock, target.commits) as hold:
        config = hold.config
        if config.table_type is not TableType.MERGE_ON_READ:
            raise InvalidError(
                f"table {config.name!r} is {config.table_type}: only MERGE_ON_READ has logs to compact"
            )
        stale: list[CompactionOperation] = []
        if widen:
            _check_widens(hold, mode, column_groups)
            # If all groups have been dropped, the default group has all columns.
            widen = bool(hold.snapshot.column_groups)
            stale = [] if widen else _stale(hold)
        chosen = options or CompactionOptions.of(config.properties)
        if not force and not is_due(hold.timeline, chosen, mode, hold.next_instant(), config.zone):
            return None
        if force and mode is CompactionMode.LOG:
            chosen = replace(chosen, blocks_threshold=2)
        joins = (
            target.merger is None
            and config.fill is None
            and config.merge_mode is not MergeMode.CUSTOM
        )
        damaged = _damaged(hold, groups)
        names = hold.snapshot.column_groups.names if widen else ()
        if widen:
            parts = hold.snapshot.logical_slices.values()
            busy = busy_groups(hold.snapshot)
            operations = wide_operations(parts, names, busy, partial(hides_values, hold.snapshot))
        elif groups is None:
            found = _operations(hold, mode, chosen, joins=joins)
            if column_groups is not None:
                found = [one for one in found if one.group.column_group in column_groups]
            operations = bound_io([*found, *stale], chosen)
        else:
            operations = _full_operations(hold, groups)
        if not operations:
            return None
        plan = CompactionPlan(
            Action.LOGCOMPACTION if mode is CompactionMode.LOG else Action.COMPACTION,
            operations,
            _version(mode, widen=widen),
            # Not later than the plan's own instant, and later than everything that it merges.
            tombstone_cutoff(config, hold.next_instant()),
            names,
        )
        return Scheduled(hold.request(plan.action, plan.encode()), plan, damaged)


def _version(mode: CompactionMode, *, widen: bool) -> int:
    if widen:
        return WIDE_VERSION
    return HYBRID_VERSION if mode is CompactionMode.HYBRID else HUDI_VERSION


def busy_groups(snapshot: Snapshot) -> frozenset[FileGroupId]:
    """Return the file groups that a pending compaction, log compaction or clustering has planned."""
    planned = planned_groups(snapshot.commits.active, snapshot.timeline)
    return frozenset(one.group for one in planned)


def _operations(
    hold: TableHold, mode: CompactionMode, options: CompactionOptions, *, joins: bool
) -> list[CompactionOperation]:
    """Return an operation for each file group to compact; `joins` allows merging logs alone."""
    slices = choose_slices(hold.snapshot.group_slices, busy_groups(hold.snapshot), options)
    view = hold.snapshot.view()
    found: list[CompactionOperation] = []
    looks: list[_Look] = []
    for slice_ in slices:
        kind = choose_kind(slice_, mode, options)
        if kind is Kind.LOG and not joins:
            kind = Kind.FULL if mode is CompactionMode.HYBRID else None
        if kind is Kind.FULL:
            found.append(full_operation(slice_))
        elif kind is Kind.LOG:
            looks.append(_Look(view.of_group(slice_.group.column_group), slice_, mode, options))
    settled = LocalExecutor(_LOOKERS).run(_settle, looks, "look at logs")
    return [*found, *(operation for operation in settled if operation is not None)]


def _damaged(hold: TableHold, groups: Collection[FileGroupId] | None) -> tuple[str, ...]:
    """Log and return the problem of each file group that is not planned because it is damaged."""
    found = damaged_slices(hold.snapshot.group_slices, busy_groups(hold.snapshot))
    told = tuple(describe_slice(s) for s in found if groups is None or s.group in groups)
    for problem in told:
        log.warning("a damaged file group is not compacted: %s", problem)
    return told


def _full_operations(
    hold: TableHold, groups: Collection[FileGroupId]
) -> tuple[CompactionOperation, ...]:
    left = frozenset(groups) - busy_groups(hold.snapshot)
    slices = (slice_ for slice_ in hold.snapshot.group_slices if slice_.group in left)
    return tuple(full_operation(slice_) for slice_ in slices if not slice_.damage)


def hides_values(snapshot: Snapshot, part: FileSlice) -> bool:
    """Return whether a slice is one base file of all columns that must not be read by name.

    It then has values of a column group that was dropped since, under the name of a newer column.
    """
    base = part.base_file
    return part.is_only_wide and any(
        group.until is not None
        and base is not None
        and group.until > base.name.instant
        and snapshot.timeline.is_committed(group.until)
        and not set(group.columns).isdisjoint(snapshot.schema.names)
        for group in snapshot.config.column_groups
    )


def _stale(hold: TableHold) -> list[CompactionOperation]:
    """Return the operations that rewrite base files with values of dropped column groups."""
    snapshot, busy = hold.snapshot, busy_groups(hold.snapshot)
    slices = (s for s in snapshot.group_slices if s.group not in busy and not s.damage)
    return [full_operation(slice_) for slice_ in slices if hides_values(snapshot, slice_)]


def _check_widens(
    hold: TableHold, mode: CompactionMode, column_groups: Collection[str] | None
) -> None:
    name = hold.config.name
    if not hold.config.column_groups:
        raise InvalidError(
            f"table {name!r} has no column groups, so its base files have all columns; compact it "
            "without widen"
        )
    if mode is not CompactionMode.FULL or column_groups is not None:
        raise InvalidError(
            f"table {name!r}: widen merges all column groups into new base files; use it without "
            "groups, and with mode full"
        )


@dataclass(frozen=True, slots=True)
class _Look:
    view: TableView
    slice_: FileSlice
    mode: CompactionMode
    options: CompactionOptions


def _settle(look: _Look, task: TaskId) -> CompactionOperation | None:
    """Return the operation for a slice, from the headers of its logs; None if none or damaged."""
    del task
    try:
        return _settle_whole(look)
    except DAMAGE_ERRORS as error:
        log.warning("a damaged file group is not compacted: %s", error)
        return None


def _settle_whole(look: _Look) -> CompactionOperation | None:
    sources = _log_sources(look, look.slice_)
    runs = [log_run(look.view.storage, source) for source in sources]
    before = first_pending_write(look.view.timeline)
    at_end = replays_at_own_instant(look.view.config)
    if at_end and before is not None:
        return None
    logs_first = folds_logs_first(look.view.config)
    joined = log_operation(
        look.slice_,
        runs,
        look.options,
        before=before,
        all_of_them=at_end,
        logs_first=logs_first,
    )
    if joined is not None and _reads_alike(look, joined, sources):
        return joined
    live = len({run.path for run in runs})
    joinable = count_joinable(runs, logs_first=logs_first)
    apart = live >= look.options.blocks_threshold and joinable < len(runs)
    return full_operation(look.slice_) if look.mode is CompactionMode.HYBRID and apart else None


def _reads_alike(look: _Look, joined: CompactionOperation, sources: list[RunSource]) -> bool:
    """Return whether the chosen logs alone are the first runs of the slice.

    A log of another engine may replace logs that were not chosen.
    """
    taken = _log_sources(look, replace(look.slice_, log_files=joined.logs))
    return [_place(s) for s in taken] == [_place(s) for s in sources[: len(taken)]]


def _place(source: RunSource) -> tuple[str, int]:
    return source.path, source.offset


def _log_sources(look: _Look, slice_: FileSlice) -> list[RunSource]:
    logs = replace(slice_, base_file=None, tombstones=())
    return slice_sources(look.view, logs)
