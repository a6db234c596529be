"""The input of cleaning and archiving: all files of a table, and the instants that need them."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from lakebed.format.names.instant_name import Action
from lakebed.model.instant import Instant
from lakebed.storage.storage import Entry
from lakebed.table.files.copies import without_copies
from lakebed.table.files.file_group import (
    DataFile,
    FileGroupId,
    FileSlice,
    LogFile,
    build_slices,
    data_file,
    group_files,
)
from lakebed.table.files.pending_plans import planned_groups
from lakebed.table.files.retention import earliest_retained, savepoint_paths
from lakebed.table.files.visibility import Visibility
from lakebed.table.snapshot import Snapshot
from lakebed.timeline.archived import read_completions
from lakebed.timeline.timeline import Timeline


@dataclass(frozen=True, slots=True)
class CleanInput:
    """A table as cleaning sees it.

    `groups` are all file groups with their slices, oldest first, replaced ones included; `replaced`
    has the instant at which each was replaced, by partition and file id. Slices with a file of
    `kept_names` stay, and so does everything that was readable at each of `savepoints`. `leftovers`
    are paths of files that are not data. `retained` is the first instant that earlier cleans
    promised to keep. `change_data` are the `.cdc` logs beside base files. `dropped` has the instant
    at which each column group was dropped.
    """

    timeline: Timeline
    groups: Mapping[FileGroupId, tuple[FileSlice, ...]]
    replaced: Mapping[tuple[str, str], Instant]
    kept_names: frozenset[str] = frozenset()
    savepoints: tuple[Instant, ...] = ()
    leftovers: tuple[str, ...] = ()
    retained: Instant = ""
    change_data: tuple[LogFile, ...] = ()
    dropped: Mapping[str, Instant] = field(default_factory=dict)

    def end_of(self, group: FileGroupId) -> Instant | None:
        """Return when a file group was replaced or its column group dropped; None if neither."""
        ends = (
            self.replaced.get((group.partition, group.file_id)),
            self.dropped.get(group.column_group),
        )
        return min((end for end in ends if end is not None), default=None)


def read_clean_input(snapshot: Snapshot) -> CleanInput:
    """List the files of a snapshot and read its timeline; requires the table's lock."""
    timeline = snapshot.timeline
    visible: list[DataFile] = []
    change_data: list[LogFile] = []
    leftovers: list[DataFile] = []
    for file in _data_files(snapshot.entries()):
        visibility = snapshot.visibility.of(file)
        if visibility is Visibility.LEFTOVER:
            leftovers.append(file)
        elif visibility is not Visibility.DATA:
            continue
        elif isinstance(file, LogFile) and file.is_cdc:
            change_data.append(file)
        else:
            visible.append(file)
    resolved = without_copies(visible, snapshot.archived_names)
    # Nothing is deleted from a file group with two base files of the same instant.
    unresolved = {group for group, _ in resolved.unresolved}
    savepoints = tuple(i.requested for i in timeline.ended(Action.SAVEPOINT))
    return CleanInput(
        timeline,
        {
            group: build_slices(
                group, members, snapshot.completion_of, tombstones=snapshot.config.is_lsm_tree
            )
            for group, members in sorted(group_files(snapshot.spread(resolved.files)).items())
            if group not in unresolved and group.whole not in unresolved
        },
        read_replaced(snapshot),
        frozenset(_kept_names(snapshot)),
        savepoints,
        tuple(file.path for file in without_archived(snapshot, leftovers)),
        earliest_retained(snapshot.commits.active, timeline, with_pending=False),
        tuple(change_data),
        {
            group.name: group.until
            for group in snapshot.config.column_groups
            if group.until is not None and timeline.is_committed(group.until)
        },
    )


def data_files(entries: Iterable[Entry]) -> Iterator[DataFile]:
    """Yield the base and log files among objects of a table, without its change data."""
    for file in _data_files(entries):
        if not (isinstance(file, LogFile) and file.is_cdc):
            yield file


def _data_files(entries: Iterable[Entry]) -> Iterator[DataFile]:
    files = (data_file(entry.path, entry.size) for entry in entries)
    return (file for file in files if file is not None)


def without_archived(snapshot: Snapshot, files: Iterable[DataFile]) -> list[DataFile]:
    """Leave out files of commits that are archived although the active timeline starts before them.

    Hudi creates such a timeline by archiving beyond a savepoint that is deleted later. A deletion
    cannot be undone, so the archive is consulted instead of the order alone.
    """
    files = list(files)
    unknown = [f.name.instant for f in files if snapshot.timeline.completed(f.name.instant) is None]
    if not unknown:
        return files
    history = snapshot.config.history_path
    archived = read_completions(snapshot.storage, history, since=min(unknown))
    return [file for file in files if file.name.instant not in archived]


def read_replaced(snapshot: Snapshot) -> Mapping[tuple[str, str], Instant]:
    """Return the instant at which each replaced file group was replaced, by partition and file id."""
    ended: dict[tuple[str, str], Instant] = {}
    for instant in snapshot.timeline.commits:
        if instant.action is Action.REPLACECOMMIT:
            metadata = snapshot.commits.files(instant, snapshot.partitions)
            for group in metadata.replaced_groups():
                ended.setdefault(group, instant.requested)
    return ended


def _kept_names(snapshot: Snapshot) -> Iterator[str]:
    """Yield the names of files that savepoints keep, or that pending plans of services will read."""
    active = snapshot.commits.active
    for instant in snapshot.timeline.ended(Action.SAVEPOINT):
        paths = savepoint_paths(active.read(instant), f"instant {instant.file_name}")
        yield from (path.rpartition("/")[2] for path in paths)
    for planned in planned_groups(active, snapshot.timeline):
        yield from planned.files
