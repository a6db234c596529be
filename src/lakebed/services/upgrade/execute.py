"""Upgrade and downgrade a table.

Files are first rewritten by instants of their own, under the table's present version; then one
atomic change of the properties switches the version. So a crash leaves a table of one version or
the other, and calling again continues from there.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from lakebed.commit.hold import TableHold, hold_table
from lakebed.errors import ConflictError, InvalidError, UnsupportedError
from lakebed.format.logs.cdc import logging_mode
from lakebed.format.names.instant_name import Action
from lakebed.model.options.services import CleanOptions, CleanPolicy, CompactionOptions
from lakebed.services.clean.clean_input import read_clean_input
from lakebed.services.clean.execute import clean
from lakebed.services.clean.plan import versions_of
from lakebed.services.compaction.execute import execute_compaction, pending_compactions
from lakebed.services.compaction.schedule import schedule_compaction
from lakebed.services.rollback.execute import settle
from lakebed.services.savepoint.execute import savepoints
from lakebed.services.upgrade.facts import native_logs, read_facts
from lakebed.services.upgrade.groups import check_widened, other_files, without_groups
from lakebed.services.upgrade.plan import Conversion, choose_groups, plan_conversion
from lakebed.table.config.properties_file import load_config, update_properties
from lakebed.table.config.table_config import GROUPS_VERSION
from lakebed.table.config.writable import check_writable
from lakebed.table.snapshot import Snapshot, load_snapshot
from lakebed.write.pipeline import WriteTarget

# No slice is too recent to be deleted, even if this clock is behind those of other writers.
_NEWEST_ONLY = CleanOptions(
    CleanPolicy.KEEP_LATEST_FILE_VERSIONS, file_versions_retained=1, min_age_seconds=None
)
# Column groups exist from version 10 on.
_UNGROUPED_VERSION = GROUPS_VERSION - 1
_INDEX_DEFINITIONS = ".hoodie/.index_defs"


@dataclass(frozen=True, slots=True)
class Upgrade:
    """The result of a move between versions or layouts; with `dry_run`, what would be done."""

    from_version: int
    to_version: int
    from_layout: str
    to_layout: str
    file_groups_compacted: int
    files_cleaned: int
    properties: Mapping[str, str] = field(repr=False)
    dry_run: bool = False

    def __str__(self) -> str:
        would = "would be " if self.dry_run else ""
        if not self.properties:
            return f"version {self.from_version}, layout {self.from_layout}: nothing to change"
        return (
            f"version {self.from_version} to {self.to_version}, layout {self.from_layout} to "
            f"{self.to_layout}: {self.file_groups_compacted} file groups {would}compacted, "
            f"{self.files_cleaned} files {would}cleaned, {len(self.properties)} properties "
            f"{would}changed"
        )


def upgrade(
    target: WriteTarget,
    to_version: int | None = None,
    layout: str | None = None,
    *,
    dry_run: bool = False,
) -> Upgrade:
    """Move a table to a later version, to another layout, or both; None keeps the present one.

    With `dry_run` nothing is changed. Pending compactions are completed first; any other pending
    instant raises ConflictError.
    """
    config = load_config(target.storage)
    if to_version is not None and to_version < config.version:
        raise InvalidError(
            f"upgrade to version {to_version}: the table has {config.version}; use downgrade"
        )
    return _convert(target, to_version, layout, dry_run=dry_run)


def downgrade(
    target: WriteTarget,
    to_version: int | None = None,
    layout: str | None = None,
    *,
    dry_run: bool = False,
) -> Upgrade:
    """Move a table to an earlier version, to another layout, or both; None keeps the present one.

    From 10 to 9 every file group with native logs is compacted, and older slices are deleted: reads
    as of an earlier time are then no longer possible. Raises an error if a savepoint keeps native
    logs, or if change data is in native files. Column groups are removed, if all file groups have
    been widened; else an error is raised.
    """
    config = load_config(target.storage)
    if to_version is not None and to_version > config.version:
        raise InvalidError(
            f"downgrade to version {to_version}: the table has {config.version}; use upgrade"
        )
    return _convert(target, to_version, layout, dry_run=dry_run)


def _convert(
    target: WriteTarget, to_version: int | None, layout: str | None, *, dry_run: bool
) -> Upgrade:
    snapshot = _snapshot(target)
    check_writable(snapshot.config)
    if snapshot.config.column_groups and to_version == _UNGROUPED_VERSION and layout is None:
        return _remove_groups(target, to_version, dry_run=dry_run)
    if snapshot.config.column_groups and (layout or to_version not in (None, GROUPS_VERSION)):
        names = ", ".join(group.name for group in snapshot.config.column_groups)
        raise UnsupportedError(
            f"table {snapshot.config.name!r} has the column groups {names}, which no other version or "
            f"layout supports; first call compact(widen=True), and then downgrade({_UNGROUPED_VERSION}) "
            "without a layout, which removes the column groups"
        )
    plan = _plan(snapshot, to_version, layout)
    if not plan.changes:
        return _describe(plan, 0, 0, dry_run=dry_run)
    _check_savepoints(snapshot, plan)
    _check_change_data(snapshot, plan)
    if dry_run:
        # Compaction supersedes more files, so all logs that are native now are counted.
        native = native_logs(target.storage) if plan.drops_native_logs else []
        return _describe(plan, len(plan.compact), len(native), dry_run=True)
    settle(target)
    compacted = _compact(target, to_version, layout)
    cleaned = _clean(target) if plan.drops_native_logs else 0
    with hold_table(target.storage, target.clock, target.commits) as hold:
        settled = _check_ready(hold, to_version, layout)
        hold.lock.check()
        if settled.changes:
            update_properties(hold.storage, settled.changes)
    return _describe(plan, compacted, cleaned, dry_run=False)


def _remove_groups(target: WriteTarget, to_version: int, *, dry_run: bool) -> Upgrade:
    """Remove the column groups of a table in which every file group is one base file of all columns."""
    snapshot = _snapshot(target)
    plan = plan_conversion(snapshot.config, to_version, None)
    check_widened(snapshot)
    if dry_run:
        return _describe(plan, 0, len(other_files(snapshot)), dry_run=True)
    settle(target)
    done = clean(target, _NEWEST_ONLY) if other_files(_snapshot(target)) else None
    with hold_table(target.storage, target.clock, target.commits) as hold:
        _check_settled(hold)
        check_widened(hold.snapshot)
        if left := other_files(hold.snapshot):
            raise ConflictError(
                f"{hold.storage.url}: {left[0]} is an older file of a column group, and cleaning has "
                "kept it: a reader may have needed it until just now; try again"
            )
        hold.lock.check()
        update_properties(hold.storage, {**plan.changes, **without_groups(hold.snapshot)})
    return _describe(plan, 0, 0 if done is None else done.deleted_files, dry_run=False)


def _plan(snapshot: Snapshot, to_version: int | None, layout: str | None) -> Conversion:
    plan = plan_conversion(snapshot.config, to_version, layout)
    if plan.from_version < 9 <= plan.to_version and snapshot.storage.names(_INDEX_DEFINITIONS):
        raise UnsupportedError(
            f"{snapshot.storage.url}: it has indexes ({_INDEX_DEFINITIONS}), which only Hudi's own "
            "upgrade to version 9 carries over"
        )
    if not (plan.drops_native_logs or plan.promises_order or plan.changes_layout):
        return plan
    facts = read_facts(snapshot, order=plan.promises_order)
    return replace(plan, compact=choose_groups(plan, facts))


def _compact(target: WriteTarget, to_version: int | None, layout: str | None) -> int:
    """Execute the pending compactions, then compact until nothing is left to do."""
    snapshot = _snapshot(target)
    plan = _plan(snapshot, to_version, layout)
    # Until the properties change, readers only understand the table's present version.
    log_version = min(plan.from_version, plan.to_version)
    for instant in pending_compactions(snapshot):
        execute_compaction(target, instant, log_version=log_version)
    done = 0
    left = _plan(_snapshot(target), to_version, layout).compact
    while left:
        planned = schedule_compaction(target, CompactionOptions(), "full", force=True, groups=left)
        if planned is not None:
            executed = execute_compaction(target, planned.instant, log_version=log_version)
            done += executed.full
        again = _plan(_snapshot(target), to_version, layout).compact
        if len(again) >= len(left):
            raise ConflictError(
                f"{target.storage.url}: file group {again[0].file_id} of partition "
                f"{again[0].partition!r} still has to be compacted after a compaction: another "
                "writer may be active; try again"
            )
        left = again
    return done


def _clean(target: WriteTarget) -> int:
    """Delete old slices that hold native logs, which readers of version 9 do not know."""
    half_done = target.commits.active.load().pending(Action.CLEAN)
    if not half_done and not native_logs(target.storage):
        return 0
    done = clean(target, _NEWEST_ONLY)
    return 0 if done is None else done.deleted_files


def _check_savepoints(snapshot: Snapshot, plan: Conversion) -> None:
    """Raise InvalidError if cleaning would keep a native log for a savepoint of its slice.

    Logs that were added later to a kept base file stay as well.
    """
    kept = savepoints(snapshot) if plan.drops_native_logs else ()
    native = frozenset(native_logs(snapshot.storage)) if kept else frozenset()
    if not native:
        return
    for slices in read_clean_input(snapshot).groups.values():
        for version in versions_of(slices):
            found = sorted(native.intersection(version.paths))
            for savepoint in kept:
                is_read = version.began <= savepoint.instant < version.superseded
                if found and (is_read or not set(savepoint.paths).isdisjoint(version.paths)):
                    raise InvalidError(
                        f"savepoint {savepoint.instant} keeps the native log {found[0]} with its "
                        f"slice, which version {plan.to_version} does not have; delete the savepoint "
                        "first"
                    )


def _check_change_data(snapshot: Snapshot, plan: Conversion) -> None:
    """Raise an error for native change data: it stays beside its base file, and commits refer to it."""
    if not plan.drops_native_logs or logging_mode(snapshot.config.properties) is None:
        return
    for path in native_logs(snapshot.storage):
        if path.endswith(".cdc.parquet"):
            raise UnsupportedError(
                f"{snapshot.storage.url}: it holds change data in the native file {path}, which "
                f"version {plan.to_version} does not have; stay at {plan.from_version}"
            )


def _check_ready(hold: TableHold, to_version: int | None, layout: str | None) -> Conversion:
    """Check again, under the lock, that nothing prevents the new properties."""
    where = hold.storage.url
    _check_settled(hold)
    plan = _plan(hold.snapshot, to_version, layout)
    left = native_logs(hold.storage) if plan.drops_native_logs else []
    if plan.compact or left:
        what = f"native log {left[0]}" if left else f"unsorted files in {plan.compact[0]}"
        raise ConflictError(f"{where}: found {what}: another writer interfered; try again")
    return plan


def _check_settled(hold: TableHold) -> None:
    for instant in hold.timeline.pending():
        raise ConflictError(
            f"{hold.storage.url}: {instant.action} {instant.requested} is pending; finish it or roll "
            "it back before the table changes its version or layout"
        )


def _snapshot(target: WriteTarget) -> Snapshot:
    return load_snapshot(target.storage, load_config(target.storage), commits=target.commits)


def _describe(plan: Conversion, compacted: int, cleaned: int, *, dry_run: bool) -> Upgrade:
    return Upgrade(
        plan.from_version,
        plan.to_version,
        str(plan.from_layout),
        str(plan.to_layout),
        compacted,
        cleaned,
        plan.changes,
        dry_run,
    )
