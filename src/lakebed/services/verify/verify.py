"""Verifies a table: runs all checks that change nothing."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

from lakebed.commit.heartbeat import is_alive
from lakebed.errors import LakebedError
from lakebed.index.kinds import strategy_of
from lakebed.index.secondary.definition import index_names
from lakebed.merge.rule import Merger
from lakebed.model.clock import Clock
from lakebed.model.executor import Executor
from lakebed.model.options.writers import HeartbeatOptions
from lakebed.services.verify.archive_checks import check_archived_files
from lakebed.services.verify.change_data import check_change_data
from lakebed.services.verify.file_checks import (
    check_leftovers,
    check_named,
    check_partitions,
    check_slices,
    files_by_instant,
)
from lakebed.services.verify.file_index_checks import check_file_index, check_statistics
from lakebed.services.verify.findings import (
    Code,
    Coverage,
    Finding,
    Report,
    Severity,
    make_report,
)
from lakebed.services.verify.group_keys import (
    GroupKeysCheck,
    check_group_keys,
    group_keys_checks,
)
from lakebed.services.verify.index_checks import check_indexes
from lakebed.services.verify.inventory import Inventory, read_inventory, read_timeline
from lakebed.services.verify.key_holders import HoldersCheck, check_holders
from lakebed.services.verify.metadata_checks import (
    check_disk_lock,
    check_lock,
    check_metadata_table,
    check_remains,
)
from lakebed.services.verify.properties_checks import check_properties
from lakebed.services.verify.record_index_checks import check_record_index
from lakebed.services.verify.slice_checks import Checked, SliceCheck, check_slice
from lakebed.services.verify.timeline_checks import check_pending, check_plans, check_states
from lakebed.storage.storage import Storage
from lakebed.table.files.file_group import FileGroupId, FileSlice, latest_slice

Progress = Callable[[str, int, int], None]
"""Called with a name for the items being checked, the number of items done, and the total."""


# The buffer size of a run of keys: there may be many runs.
_KEY_BUFFER_BYTES = 1 << 20


def verify(
    storage: Storage,
    clock: Clock,
    executor: Executor,
    *,
    quick: bool = False,
    merger: Merger | None = None,
    progress: Progress | None = None,
    index_pages: bool = False,
) -> Report:
    """Check the table on `storage`: names, sizes and footers; every page too unless `quick`.

    With `index_pages` every page of the record index is read even if `quick`, because repair can
    rebuild it. The check continues where a reader would stop, so that one bad file does not hide
    another. A table that is being written may be reported in a slightly older state. Columns other
    than keys and meta columns are only decoded and compared with their checksums.
    """
    level = "quick" if quick else "full"
    coverage = Coverage()
    config, findings = check_properties(storage)
    coverage.add("properties file")
    if config is None:
        return make_report(storage.url, level, findings, coverage)
    inventory = read_inventory(storage, config, coverage)
    if inventory is None:
        findings += read_timeline(storage, config.timeline_path)[1]
        return make_report(storage.url, level, findings, coverage)
    findings += inventory.findings
    findings += _check_names(inventory, clock)
    planned, unreadable = check_plans(inventory)
    groups, odd = inventory.slices(planned)
    findings += [*unreadable, *odd, *check_slices(inventory, groups)]
    coverage.add("file group", len(groups))
    if inventory.column_groups:
        coverage.add("column group", len(inventory.column_groups.names))
    report = progress or _silent
    for done in _check_contents(inventory, groups, executor, merger, quick, report):
        findings += done.findings
        for what, number in done.counts.items():
            coverage.add(what, number)
    findings += check_statistics(inventory, executor, quick=quick)
    findings += check_indexes(storage, config, executor, quick=quick, merger=merger)
    findings += check_record_index(storage, config, quick=quick, pages=index_pages)
    if indexes := index_names(config.properties):
        coverage.add("index definition", len(indexes))
    if findings and read_timeline(storage, config.timeline_path)[0] != inventory.timeline:
        findings.append(_changed())
    return make_report(storage.url, level, findings, coverage)


def _changed() -> Finding:
    return Finding(
        Severity.NOTE,
        Code.TABLE_CHANGED,
        "the table changed meanwhile: files reported as missing may have been cleaned",
        advice="verify again to be sure",
    )


def _check_names(inventory: Inventory, clock: Clock) -> Iterator[Finding]:
    config, now_ms = inventory.config, clock.now_ms()
    pulse = HeartbeatOptions.of(config.properties)
    names = frozenset(inventory.storage.names(config.timeline_path))
    yield from check_states(inventory.timeline, names)
    yield from check_pending(
        inventory.timeline,
        config.zone,
        now_ms,
        lambda instant: is_alive(inventory.storage, clock, instant.requested, pulse),
        files_by_instant(inventory),
    )
    yield from check_named(inventory)
    yield from check_leftovers(inventory)
    yield from check_archived_files(inventory)
    yield from check_file_index(inventory)
    yield from check_change_data(inventory)
    yield from check_partitions(inventory)
    yield from check_lock(inventory, now_ms)
    yield from check_disk_lock(inventory, clock)
    yield from check_remains(inventory)
    yield from check_metadata_table(inventory)


def _check_contents(
    inventory: Inventory,
    groups: Mapping[FileGroupId, tuple[FileSlice, ...]],
    executor: Executor,
    merger: Merger | None,
    quick: bool,
    progress: Progress,
) -> Iterator[Checked]:
    rows = _rows_by_path(inventory)
    names = inventory.column_groups.names
    views = {name: inventory.view().of_group(name) for name in names}
    foreign = {name: _foreign_columns(inventory, name) for name in names}
    checks = [
        SliceCheck(
            views[group.column_group],
            inventory.schema is not None,
            slice_,
            rows.get(slice_.base_file.path) if slice_.base_file is not None else None,
            full=not quick,
            superseded=any(later.base_file is not None for later in slices[number + 1 :]),
            foreign=foreign[group.column_group],
        )
        for group, slices in groups.items()
        for number, slice_ in enumerate(slices)
        if slice_.files
    ]
    yield from _counted(
        executor.run(check_slice, checks, "verify files"), "file slices", len(checks), progress
    )
    if quick:
        return
    places, refused = _places(inventory, groups, merger)
    yield from refused
    yield from _counted(
        executor.run(check_holders, places, "verify keys"), "key ranges", len(places), progress
    )
    if bases := list(_group_keys(inventory, groups)):
        yield from _counted(
            executor.run(check_group_keys, bases, "verify keys"), "base files", len(bases), progress
        )


def _foreign_columns(inventory: Inventory, name: str) -> Mapping[str, str]:
    """Return the columns of other column groups, with the time from which each is theirs."""
    groups, schema = inventory.column_groups, inventory.view().schema
    found = {}
    for column in (column for column in schema.names if not groups.holds(name, column)):
        owner = groups.find(groups.owner(column))
        since = None if owner is None else owner.since
        found[column] = "" if since is None else inventory.completion_of(since)
    return found


def _group_keys(
    inventory: Inventory, groups: Mapping[FileGroupId, tuple[FileSlice, ...]]
) -> Iterator[GroupKeysCheck]:
    """Yield the checks of base files in a table with column groups."""
    if not inventory.column_groups or inventory.schema is None:
        return
    parts: dict[FileGroupId, dict[str, FileSlice]] = defaultdict(dict)
    for group, slices in groups.items():
        if (latest := latest_slice(slices)) is not None:
            parts[group.whole][group.column_group] = latest
    view = replace(inventory.view(), own_buffer_bytes=_KEY_BUFFER_BYTES)
    for of in parts.values():
        yield from group_keys_checks(view, of, inventory.completion_of)


def _places(
    inventory: Inventory,
    groups: Mapping[FileGroupId, tuple[FileSlice, ...]],
    merger: Merger | None,
) -> tuple[list[HoldersCheck], list[Checked]]:
    """Return the groups of slices that must not share a key; none if buckets already ensure it."""
    index = inventory.config.index
    settled = index is not None and strategy_of(index).one_group_per_key
    if settled or inventory.schema is None:
        return [], []
    together: dict[str, list[FileSlice]] = defaultdict(list)
    everywhere = index is not None and index.is_global
    for slices in groups.values():
        latest = latest_slice(slices)
        if latest is not None:
            together["" if everywhere else latest.group.partition].append(latest)
    held = {where: of for where, of in together.items() if len(of) > 1}
    if not held:
        return [], []
    view = replace(inventory.view(merger), own_buffer_bytes=_KEY_BUFFER_BYTES)
    try:
        _ = view.rule
    except LakebedError as error:
        note = f"keys were not compared between file groups: {error}"
        return [], [Checked((Finding(Severity.NOTE, Code.FILE_UNSUPPORTED, note),))]
    return [
        HoldersCheck(view, tuple(of), f"partition {where}" if where else "the table")
        for where, of in held.items()
    ], []


def _rows_by_path(inventory: Inventory) -> Mapping[str, int]:
    """Return the number of rows that commits recorded for each file."""
    return {
        stat.path.lstrip("/"): stat.num_writes
        for metadata in inventory.metadata.values()
        for stat in metadata.write_stats()
        if stat.path and stat.num_writes is not None
    }


def _counted(
    results: Iterable[Checked], what: str, total: int, progress: Progress
) -> Iterator[Checked]:
    for done, result in enumerate(results, 1):
        progress(what, done, total)
        yield result


def _silent(what: str, done: int, total: int) -> None:
    """Report no progress."""
