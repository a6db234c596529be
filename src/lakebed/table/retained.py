"""Whether a moment of a table can still be read whole.

Cleaning deletes old file versions and archiving takes old instants away, so a moment in
the past may be gone for good; and a file that the newest commit names may be lost. A
reader that only lists files would give too few rows without a word.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from typing import cast

from lakebed.errors import CorruptError, InvalidError
from lakebed.format.commit_metadata import CommitMetadata
from lakebed.format.instant_name import LAYOUT_1, Action, State
from lakebed.format.names import BaseFileName, parse_data_name
from lakebed.format.plans import PlanKind, parse_plan
from lakebed.storage.storage import Storage
from lakebed.table.file_group import FileGroupId, join_path
from lakebed.timeline.active import ActiveTimeline
from lakebed.timeline.archived import read_archived
from lakebed.timeline.layout import has_archive
from lakebed.timeline.timeline import Timeline, TimelineInstant


def named_files(metadata: CommitMetadata) -> Iterable[str]:
    """Give the path of every data file that a commit names, its change data included."""
    for stats in metadata.partition_to_write_stats.values():
        for stat in stats:
            if stat.path:
                yield stat.path.lstrip("/")
            yield from (path.lstrip("/") for path in stat.cdc_stats or ())


@dataclass(frozen=True, slots=True)
class NamedFile:
    """A data file as its commit names it; the size is 0 where the commit does not say."""

    path: str
    size_bytes: int


def needed_files(
    commits: Iterable[tuple[TimelineInstant, CommitMetadata]],
) -> dict[FileGroupId, list[NamedFile]]:
    """Give what `commits`, oldest first, name of the newest slice of each file group.

    That is its newest base file, and the logs that were completed after that began. In layout 1
    the name of a log says to which base file it belongs, and its commit names that file again.
    """
    bases: dict[FileGroupId, tuple[str, NamedFile]] = {}
    logs: dict[FileGroupId, list[tuple[str, NamedFile]]] = defaultdict(list)
    told = list(commits)
    counted = {instant.requested for instant, _ in told}
    for instant, metadata in told:
        for stat in metadata.write_stats():
            if not stat.path:
                continue
            file = NamedFile(stat.path.lstrip("/"), stat.file_size_in_bytes or 0)
            partition, _, text = file.path.rpartition("/")
            name = parse_data_name(text)
            if name is None:
                raise CorruptError(f"a commit names {file.path!r}, which is no name of a data file")
            group = FileGroupId(partition, name.file_id, name.column_group)
            if isinstance(name, BaseFileName):
                bases[group] = (name.instant, file)
            elif instant.layout == LAYOUT_1:
                logs[group].append((name.instant, file))
                base = parse_data_name(stat.base_file or "")
                if isinstance(base, BaseFileName) and base.instant > bases.get(group, ("",))[0]:
                    path = join_path(partition, base.encode())
                    bases[group] = (base.instant, NamedFile(path, 0))
            elif name.instant in counted:
                # While buckets are resized, a log is named after the clustering and hidden with it.
                logs[group].append((instant.completion or "", file))
    needed = {group: [file] for group, (_, file) in bases.items()}
    for group, held in logs.items():
        began = bases[group][0] if group in bases else ""
        needed.setdefault(group, []).extend(file for done, file in held if done >= began)
    return needed


def check_files_present(
    needed: Mapping[FileGroupId, Iterable[NamedFile]],
    replaced: Mapping[str, Set[str]],
    sizes: Mapping[str, int],
    until: str | None,
) -> None:
    """Refuse a snapshot of which a commit names a file that is not there, or shorter than it was.

    A log that lost whole blocks at its end looks whole: only its commit knows better.
    """
    for group, files in needed.items():
        if group.file_id in replaced.get(group.partition, frozenset()):
            continue
        for file in files:
            found = sizes.get(file.path)
            if found is None and until is not None:
                raise InvalidError(
                    f"as of {until}: {file.path} is not there any more: cleaned away since, or lost"
                )
            if found is None:
                raise CorruptError(
                    f"{file.path}: a commit names it, but it is not there; rows are missing"
                )
            if found < file.size_bytes:
                raise CorruptError(
                    f"{file.path}: its commit wrote {file.size_bytes} bytes, found {found}; it was "
                    "cut, and rows are missing"
                )


def check_as_of(
    storage: Storage, active: ActiveTimeline, history_path: str, timeline: Timeline
) -> None:
    """Refuse a moment before what cleaning retained, or before the active timeline."""
    until = timeline.until
    if until is None:
        return
    retained = _earliest_retained(active, timeline)
    if retained and until < retained:
        raise InvalidError(
            f"as of {until}: the table was cleaned since and keeps the instants from {retained} on"
        )
    first = timeline.first_active
    if first is not None and until < first:
        archived = has_archive(storage, history_path) or any(
            True for _ in read_archived(storage, history_path, columns=())
        )
        if archived:
            raise InvalidError(
                f"as of {until}: that instant is archived, and the active timeline begins at {first}"
            )


def _earliest_retained(active: ActiveTimeline, timeline: Timeline) -> str:
    """Give the instant that cleans retain from, also of one that is only just deleting."""
    retained = ""
    for instant in timeline.select(Action.CLEAN):
        what = f"instant {instant.file_name}"
        if instant.is_completed:
            clean = parse_plan(PlanKind.CLEAN, active.read(instant), what)
            found = cast("str", clean["earliestCommitToRetain"] or "")
        elif data := active.read(instant, State.REQUESTED):
            plan = parse_plan(PlanKind.CLEANER_PLAN, data, what)
            earliest = cast("dict[str, str]", plan["earliestInstantToRetain"] or {})
            found = earliest.get("timestamp", "")
        else:
            continue
        retained = max(retained, found)
    return retained
