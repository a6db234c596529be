"""Whether the state of a table before some of its commits can still be read.

Cleaning deletes files that newer commits superseded. Once these commits are rolled back, the files
are needed again, so a rollback first checks that all of them exist and will stay.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Set

from lakebed.errors import CorruptError, InvalidError
from lakebed.format.names.instant_name import Action, State
from lakebed.format.timeline.plans import PlanKind
from lakebed.model.instant import Instant
from lakebed.services.rollback.plan import without
from lakebed.table.files.damage import describe
from lakebed.table.files.deleted_files import deleted_files, planned_deletes
from lakebed.table.files.file_group import (
    BaseFile,
    FileGroupId,
    FileSlice,
    data_file,
    join_path,
    latest_slice,
)
from lakebed.table.files.pending_plans import groups_of
from lakebed.table.listing import table_files
from lakebed.table.snapshot import Snapshot
from lakebed.timeline.archived import read_archived
from lakebed.timeline.timeline import COMMIT_ACTIONS, PLANNED_ACTIONS, Timeline, TimelineInstant

_COMPACTIONS = frozenset({Action.COMPACTION, Action.LOGCOMPACTION})


def before(snapshot: Snapshot, gone: Iterable[TimelineInstant]) -> Snapshot:
    """Return the table as it was before the completed instants `gone`.

    Raises InvalidError if a file that the active timeline lists no longer exists or is about to be
    cleaned, or if the timeline would no longer show which archived instants are committed.
    """
    names = [i.requested for i in gone]
    found = Snapshot(
        snapshot.storage, snapshot.config, without(snapshot.timeline, names), snapshot.commits
    )
    check_archive(snapshot, found.timeline)
    what = f"what it was before {min(names, default='now')}"
    # Files that are already lost are not lost by the rollback.
    known = _lost_now(snapshot)
    lost = [file for of in found.damage.values() for file in of if file.path not in known]
    if lost:
        raise InvalidError(f"the table cannot become {what}: {describe(lost[0])}")
    needed = {file.path for slice_ in found.slices for file in slice_.files}
    check_pending_cleans(snapshot, needed, what)
    return found


def _lost_now(snapshot: Snapshot) -> frozenset[str]:
    try:
        return frozenset(file.path for lost in snapshot.damage.values() for file in lost)
    except CorruptError:
        return frozenset()  # one of the commits to roll back cannot be read


def check_predecessor(snapshot: Snapshot, instant: TimelineInstant) -> None:
    """Raise an error if the state before the newest completed `instant` was cleaned.

    No commit on the timeline lists the files of archived commits, so the plan of `instant`, the
    cleans since then and the file groups themselves are checked too.
    """
    older = before(snapshot, [instant])
    cleaned = _cleaned_since(older, instant.requested)
    for group in _changed_groups(snapshot, instant, older):
        _check_group(instant, group, older.groups.get(group, ()), cleaned.get(group, ()))
    _check_inputs(snapshot, instant)


def check_archive(snapshot: Snapshot, after: Timeline) -> None:
    """Raise an error if archived commits would no longer be visible on the timeline `after`.

    Readers treat an instant as archived, and so as committed, if it is before the first write of
    the active timeline. If that write moves back or is removed, archived rows become invisible.
    """
    if after.first_active == snapshot.timeline.first_active:
        return
    since = after.first_active
    for row in read_archived(
        snapshot.storage, snapshot.config.history_path, columns=(), since=since
    ):
        if row.action in COMMIT_ACTIONS and not after.is_committed(row.requested):
            raise InvalidError(
                f"{row.action} {row.requested} is archived, and its rows would become invisible "
                "without the instants to roll back; write a commit first"
            )


def check_pending_cleans(snapshot: Snapshot, needed: Set[str], what: str) -> None:
    """Raise an error if a pending clean would delete a file of `needed`."""
    for instant in snapshot.timeline.pending(Action.CLEAN):
        if not snapshot.commits.active.read(instant, State.REQUESTED):
            continue  # its plan was never written, so it cannot be executed
        plan = snapshot.commits.active.read_plan(PlanKind.CLEANER_PLAN, instant, State.REQUESTED)
        for path in planned_deletes(plan):
            if path in needed:
                raise InvalidError(
                    f"clean {instant.requested} is pending and would delete {path}, which the table "
                    f"needs for {what}; finish or roll back the clean first"
                )


def _changed_groups(
    snapshot: Snapshot, instant: TimelineInstant, older: Snapshot
) -> Iterator[FileGroupId]:
    """Yield the rewritten and replaced file groups, whose older slice becomes current again."""
    try:
        metadata = snapshot.commits.read(instant)
    except CorruptError as error:
        yield from _written_groups(older, instant, error)
        return
    rewritten = instant.plan_action not in _COMPACTIONS
    for stat in metadata.write_stats():
        file = data_file((stat.path or "").lstrip("/"), 0)
        if isinstance(file, BaseFile) and rewritten and (stat.prev_commit or "").isdigit():
            yield file.group
    for partition, file_id in metadata.replaced_groups():
        if file_id not in older.replaced.get(partition, frozenset()):
            yield FileGroupId(partition, file_id)


def _written_groups(
    older: Snapshot, instant: TimelineInstant, error: CorruptError
) -> Iterator[FileGroupId]:
    """Yield the file groups that an unreadable commit rewrote, as far as file names show.

    If the commit replaced file groups, it is unknown which.
    """
    if instant.action is Action.REPLACECOMMIT:
        raise error
    cleaned = _cleaned_since(older, instant.requested)
    for entry in table_files(older.storage):
        file = data_file(entry.path, entry.size)
        if not isinstance(file, BaseFile) or file.name.instant != instant.requested:
            continue
        for one in older.spread([file]):
            # A group that has only this file, and never had another, started with it.
            if older.groups.get(one.group) or one.group in cleaned:
                yield one.group


def _check_group(
    instant: TimelineInstant,
    group: FileGroupId,
    slices: tuple[FileSlice, ...],
    cleaned: Iterable[tuple[Instant, str]],
) -> None:
    what = f"{instant.plan_action} {instant.requested}: file group {group.file_id} of partition "
    latest = latest_slice(slices)
    if latest is None:
        raise InvalidError(
            f"{what}{group.partition!r}, which it rewrote or replaced, was cleaned since; it "
            "cannot be rolled back"
        )
    newest = latest.base_file.name.instant if latest.base_file else ""
    for written, path in cleaned:
        # Files older than the newest base file are superseded without the instant too.
        if written > newest:
            raise InvalidError(
                f"{what}{group.partition!r} needs {path} without it, which was cleaned since; "
                "it cannot be rolled back"
            )


def _check_inputs(snapshot: Snapshot, instant: TimelineInstant) -> None:
    there: dict[str, frozenset[str]] = {}
    for path in _planned_files(snapshot, instant):
        partition, _, name = path.rpartition("/")
        if partition not in there:
            there[partition] = frozenset(snapshot.storage.names(partition))
        if name not in there[partition]:
            raise InvalidError(
                f"{instant.plan_action} {instant.requested}: {path}, which it read, was cleaned "
                "since; it cannot be rolled back"
            )


def _cleaned_since(
    older: Snapshot, instant: Instant
) -> Mapping[FileGroupId, list[tuple[Instant, str]]]:
    """Return the files that are visible in `older` and were cleaned after `instant`."""
    found: dict[FileGroupId, list[tuple[Instant, str]]] = defaultdict(list)
    for clean in older.timeline.ended(Action.CLEAN):
        if clean.requested < instant:
            continue
        data, what = older.commits.active.read(clean), f"instant {clean.file_name}"
        for path in deleted_files(str(Action.CLEAN), data, what):
            file = data_file(path, 0)
            if file is not None and older.timeline.is_committed(file.name.instant):
                for one in older.spread([file]):
                    found[one.group].append((one.name.instant, path))
    return found


def _planned_files(snapshot: Snapshot, instant: TimelineInstant) -> Iterator[str]:
    """Yield the files that a compaction, log compaction or clustering has read."""
    if instant.plan_action in PLANNED_ACTIONS:
        for planned in groups_of(snapshot.commits.active, instant):
            for name in planned.files:
                yield join_path(planned.group.partition, name)
