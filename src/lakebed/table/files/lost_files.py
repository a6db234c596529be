"""Finds lost files of the newest slices: listed by a commit, but missing or truncated."""

from collections.abc import Iterable, Mapping, Sequence, Set

from lakebed.format.names.data_names import BaseFileName, parse_data_name
from lakebed.format.timeline.commit_metadata import CommitMetadata
from lakebed.table.files.archived_files import ArchivedFiles
from lakebed.table.files.deleted_files import read_deleted
from lakebed.table.files.file_group import BaseFile, DataFile, FileGroupId, LostFile
from lakebed.table.files.needed_files import NamedFile, needed_files
from lakebed.timeline.active import ActiveTimeline
from lakebed.timeline.timeline import Timeline, TimelineInstant

Damage = Mapping[FileGroupId, tuple[LostFile, ...]]
"""The lost files of the newest slice of each damaged file group."""


def find_damage(
    active: ActiveTimeline,
    timeline: Timeline,
    history: str,
    commits: Sequence[tuple[TimelineInstant, CommitMetadata]],
    archived: ArchivedFiles | None,
    files: Iterable[DataFile],
    replaced: Mapping[str, Set[str]],
) -> Damage:
    """Return the lost files of the newest slices, as listed by `commits` and in `archived`."""
    there = list(files)
    sizes = {file.path: file.size_bytes for file in there}
    doubtful: set[str] = set()
    if archived is not None:
        # Usually no files are missing, or only superseded or replaced files that were cleaned: then
        # nothing else needs checking.
        missing = [file for file in archived.files if _is_lost(file, sizes)]
        missing = [file for file in missing if not _is_replaced(file, replaced)]
        superseded = superseded_files(missing, there) if missing else frozenset()
        doubtful = {file.path for file in missing} - superseded
    if archived is None or not doubtful:
        return find_lost(needed_files(commits), replaced, sizes, timeline.until)
    lost = find_lost(needed_files(commits, archived.files), replaced, sizes, timeline.until)
    explained = set(read_deleted(active, timeline)) | superseded
    if not archived.is_current(active.storage, timeline, history):
        explained |= doubtful
    return without_files(lost, explained & (doubtful | superseded))


def without_files(lost: Damage, explained: Set[str]) -> Damage:
    """Return the damage without the files whose absence is `explained`."""
    kept = {g: tuple(f for f in of if f.path not in explained) for g, of in lost.items()}
    return {group: of for group, of in kept.items() if of}


def superseded_files(named: Iterable[NamedFile], there: Iterable[DataFile]) -> frozenset[str]:
    """Return the paths of `named` files that a newer base file of their group supersedes."""
    newest: dict[FileGroupId, str] = {}
    widest: dict[FileGroupId, str] = {}
    for file in there:
        if isinstance(file, BaseFile):
            newest[file.group] = max(newest.get(file.group, ""), file.name.instant)
            if file.name.is_wide:
                widest[file.group] = max(widest.get(file.group, ""), file.name.instant)

    def is_superseded(file: NamedFile) -> bool:
        partition, _, text = file.path.rpartition("/")
        name = parse_data_name(text)
        if name is None:
            return True  # not a name that a commit lists
        own = name.instant if isinstance(name, BaseFileName) else file.completion
        group = FileGroupId(partition, name.file_id, name.column_group)
        return max(newest.get(group, ""), widest.get(group.whole, "")) > own

    return frozenset(file.path for file in named if is_superseded(file))


def find_lost(
    needed: Mapping[FileGroupId, Iterable[NamedFile]],
    replaced: Mapping[str, Set[str]],
    sizes: Mapping[str, int],
    until: str | None,
) -> dict[FileGroupId, tuple[LostFile, ...]]:
    """Return the needed files that are missing, or shorter than when committed, by file group.

    A log that lost complete blocks at its end looks intact: only its commit shows the loss.
    """
    found: dict[FileGroupId, tuple[LostFile, ...]] = {}
    for group, files in needed.items():
        if group.file_id in replaced.get(group.partition, frozenset()):
            continue
        lost = tuple(
            _lost(file, sizes.get(file.path), until) for file in files if _is_lost(file, sizes)
        )
        if lost:
            found[group] = lost
    return found


def _is_replaced(file: NamedFile, replaced: Mapping[str, Set[str]]) -> bool:
    partition, _, text = file.path.rpartition("/")
    name = parse_data_name(text)
    return name is not None and name.file_id in replaced.get(partition, frozenset())


def _is_lost(file: NamedFile, sizes: Mapping[str, int]) -> bool:
    found = sizes.get(file.path)
    return found is None or found < file.size_bytes


def _lost(file: NamedFile, found: int | None, until: str | None) -> LostFile:
    if found is None:
        return LostFile(file.path, "it is missing", file.instant, file.rows, until)
    problem = f"its commit wrote {file.size_bytes} bytes, found {found}; it was truncated"
    return LostFile(file.path, problem, file.instant, file.rows)
