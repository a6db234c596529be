"""Checks whether a past state of a table can still be read completely.

Cleaning deletes old file versions and archiving removes old instants, so a past state may be lost
permanently. A reader that only lists files would silently return too few rows.
"""

from collections.abc import Iterable, Mapping, Set
from typing import cast

from lakebed.errors import CorruptError, InvalidError
from lakebed.format.names.data_names import parse_data_name
from lakebed.format.names.instant_name import LAYOUT_1, Action, State
from lakebed.format.timeline.commit_metadata import CommitMetadata
from lakebed.format.timeline.plans import PlanKind, parse_plan
from lakebed.storage.storage import Storage
from lakebed.table.files.file_group import FileGroupId, LostFile, join_path
from lakebed.timeline.active import ActiveTimeline
from lakebed.timeline.archived import read_archived
from lakebed.timeline.layout import has_archive
from lakebed.timeline.timeline import COMMIT_ACTIONS, Timeline, TimelineInstant

# Operations that rewrite rows unchanged; the schema in their commits may be older than the table's.
REWRITES = frozenset({"CLUSTER", "COMPACT", "LOG_COMPACT", "INDEX", "BUCKET_RESCALE"})


def rewrites(metadata: CommitMetadata) -> bool:
    """Return whether a commit only rewrote rows: compaction, clustering and the like."""
    return bool(metadata.compacted) or metadata.operation_type in REWRITES


def named_files(metadata: CommitMetadata) -> Iterable[str]:
    """Yield the path of every data file that a commit lists, its change data included."""
    for stats in metadata.partition_to_write_stats.values():
        for stat in stats:
            if stat.path:
                yield stat.path.lstrip("/")
            yield from (path.lstrip("/") for path in stat.cdc_stats or ())


def kept_as_of(
    storage: Storage, active: ActiveTimeline, history_path: str, timeline: Timeline
) -> frozenset[str] | None:
    """Return the files of the savepoint that keeps the instant; None if none is needed.

    An instant that was cleaned or archived can be read only if a savepoint keeps it, from the files
    of that savepoint. Raises InvalidError if no savepoint does.
    """
    until = timeline.until
    gone = None if until is None else _why_gone(storage, active, history_path, timeline, until)
    if until is None or gone is None:
        return None
    savepoints = timeline.ended(Action.SAVEPOINT)
    held = next((savepoint for savepoint in savepoints if savepoint.requested == until), None)
    if held is None:
        known = ", ".join(savepoint.requested for savepoint in savepoints)
        also = f"; these savepoints can be read: {known}" if known else ""
        raise InvalidError(f"as of {until}: {gone}{also}")
    late = _completed_after(storage, active, history_path, timeline, held)
    if late is not None:
        raise InvalidError(
            f"as of {until}: {gone}; the savepoint does not hold commit {late}, which had started "
            "by then but completed after the savepoint was made"
        )
    return frozenset(savepoint_paths(active.read(held), f"instant {held.file_name}"))


def savepoint_paths(data: bytes, what: str) -> tuple[str, ...]:
    """Return the paths that a completed savepoint keeps, or raise CorruptError, naming `what`."""
    values = parse_plan(PlanKind.SAVEPOINT, data, what)
    partitions = cast("Mapping[str, Mapping[str, list[str]]]", values["partitionMetadata"])
    return tuple(
        sorted(
            join_path(partition, name)
            for partition, held in partitions.items()
            for name in held["savepointDataFile"]
        )
    )


def lost_kept_files(
    kept: Iterable[str], there: Set[str], until: str | None
) -> dict[FileGroupId, tuple[LostFile, ...]]:
    """Return the lost files of a savepoint, by file group."""
    found: dict[FileGroupId, tuple[LostFile, ...]] = {}
    for path in sorted(set(kept) - there):
        partition, _, text = path.rpartition("/")
        name = parse_data_name(text)
        if name is None:
            raise CorruptError(f"a savepoint names {path!r}, which is not the name of a data file")
        group = FileGroupId(partition, name.file_id, name.column_group)
        lost = LostFile(path, "it is missing", name.instant, None, until)
        found[group] = (*found.get(group, ()), lost)
    return found


def _why_gone(
    storage: Storage, active: ActiveTimeline, history_path: str, timeline: Timeline, until: str
) -> str | None:
    """Return why an instant cannot be read from the timeline; None if it can."""
    retained = earliest_retained(active, timeline)
    if retained and until < retained:
        return f"the table was cleaned since and keeps the instants from {retained} on"
    first = timeline.first_active
    if first is not None and until < first:
        archived = has_archive(storage, history_path) or any(
            True for _ in read_archived(storage, history_path, columns=())
        )
        if archived:
            return f"that instant is archived, and the active timeline begins at {first}"
    return None


def _completed_after(
    storage: Storage,
    active: ActiveTimeline,
    history_path: str,
    timeline: Timeline,
    savepoint: TimelineInstant,
) -> str | None:
    """Return a write that started before the savepoint's instant and completed after it was made."""
    made = savepoint.completion or ""
    for commit in timeline.commits:
        if (commit.completion or "") > made:
            metadata = CommitMetadata.parse(active.read(commit), f"instant {commit.file_name}")
            if not rewrites(metadata):
                return commit.requested
    if savepoint.layout == LAYOUT_1:
        return None
    for row in read_archived(storage, history_path):
        if row.requested > savepoint.requested:
            break
        if row.completion > made and row.action in COMMIT_ACTIONS and row.metadata is not None:
            what = f"archived {row.action} {row.requested}"
            if not rewrites(CommitMetadata.parse(row.metadata, what)):
                return row.requested
    return None


def earliest_retained(
    active: ActiveTimeline, timeline: Timeline, *, with_pending: bool = True
) -> str:
    """Return the instant from which cleans retain files; '' if no clean has retained any.

    Pending cleans count too, unless `with_pending` is false.
    """
    retained = ""
    for instant in timeline.select(Action.CLEAN) if with_pending else timeline.ended(Action.CLEAN):
        if instant.is_completed:
            clean = active.read_plan(PlanKind.CLEAN, instant)
            found = cast("str", clean["earliestCommitToRetain"] or "")
        elif active.read(instant, State.REQUESTED):
            plan = active.read_plan(PlanKind.CLEANER_PLAN, instant, State.REQUESTED)
            earliest = cast("dict[str, str]", plan["earliestInstantToRetain"] or {})
            found = earliest.get("timestamp", "")
        else:
            continue
        retained = max(retained, found)
    return retained
