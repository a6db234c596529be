"""Whether a moment of a table can still be read whole.

Cleaning deletes old file versions and archiving takes old instants away, so a moment in
the past may be gone for good; and a file that the newest commit names may be lost. A
reader that only lists files would give too few rows without a word.
"""

from collections.abc import Iterable, Mapping, Set
from typing import cast

from lakebed.errors import CorruptError, InvalidError
from lakebed.format.commit_metadata import CommitMetadata
from lakebed.format.instant_name import Action, State
from lakebed.format.names import BaseFileName, parse_data_name
from lakebed.format.plans import PlanKind, parse_plan
from lakebed.storage.storage import Storage
from lakebed.table.file_group import FileGroupId
from lakebed.timeline.active import ActiveTimeline
from lakebed.timeline.archived import read_archived
from lakebed.timeline.timeline import Timeline


def named_files(metadata: CommitMetadata) -> Iterable[str]:
    """Give the path of every data file that a commit names."""
    for stats in metadata.partition_to_write_stats.values():
        for stat in stats:
            if stat.path:
                yield stat.path.lstrip("/")


def newest_base_files(commits: Iterable[CommitMetadata]) -> dict[FileGroupId, str]:
    """Give the newest base file of each file group that `commits`, oldest first, name."""
    newest = {}
    for metadata in commits:
        for path in named_files(metadata):
            partition, _, text = path.rpartition("/")
            name = parse_data_name(text)
            if name is None:
                raise CorruptError(f"a commit names {path!r}, which is no name of a data file")
            if isinstance(name, BaseFileName):
                newest[FileGroupId(partition, name.file_id, name.column_group)] = path
    return newest


def check_files_present(
    newest: Mapping[FileGroupId, str],
    replaced: Mapping[str, Set[str]],
    present: Set[str],
    until: str | None,
) -> None:
    """Refuse a snapshot of which a commit names a base file that is not there."""
    for group, path in newest.items():
        if path in present or group.file_id in replaced.get(group.partition, frozenset()):
            continue
        if until is not None:
            raise InvalidError(
                f"as of {until}: {path} is not there any more; the table has been cleaned since"
            )
        raise CorruptError(f"{path}: a commit names it, but it is not there; rows are missing")


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
        archived = next(iter(read_archived(storage, history_path, columns=())), None)
        if archived is not None:
            raise InvalidError(
                f"as of {until}: that instant is archived, and the active timeline begins at {first}"
            )


def _earliest_retained(active: ActiveTimeline, timeline: Timeline) -> str:
    cleans = [instant for instant in timeline.select(Action.CLEAN) if instant.is_completed]
    retained = ""
    for instant in cleans:
        name = instant.name_of(State.COMPLETED).encode()
        clean = parse_plan(PlanKind.CLEAN, active.read(instant), f"instant {name}")
        retained = max(retained, cast("str", clean["earliestCommitToRetain"] or ""))
    return retained
