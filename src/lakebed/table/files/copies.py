"""Duplicate base files: several of one file group and instant, of which the commit lists one.

The commits of the active timeline show which files are visible. Files of an archived instant are
all visible, so a copy left by a task, or made by hand, would be read beside the original. The
archive still lists the original.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Set
from dataclasses import dataclass

from lakebed.format.timeline.commit_metadata import CommitMetadata
from lakebed.model.instant import Instant
from lakebed.storage.storage import Storage
from lakebed.table.files.file_group import BaseFile, DataFile, FileGroupId, LostFile
from lakebed.table.files.retention import named_files
from lakebed.timeline.archived import read_archived
from lakebed.timeline.timeline import COMMIT_ACTIONS

NamesOf = Callable[[Instant], Set[str] | None]
"""Returns the paths that a commit lists; None if they are unknown."""


@dataclass(frozen=True, slots=True)
class Resolved:
    """Files without copies; for `unresolved` groups, the original cannot be determined."""

    files: list[DataFile]
    unresolved: tuple[tuple[FileGroupId, LostFile], ...] = ()


def without_copies(files: Iterable[DataFile], names_of: NamesOf) -> Resolved:
    """Leave out a base file if a commit lists another one of the same file group and instant."""
    every = list(files)
    bases: dict[tuple[FileGroupId, Instant], list[BaseFile]] = defaultdict(list)
    for file in every:
        if isinstance(file, BaseFile):
            group = file.group
            bases[group, file.name.instant].append(file)
    newest: dict[FileGroupId, Instant] = {}
    for group, instant in bases:
        newest[group] = max(newest.get(group, ""), instant)
    copies: list[BaseFile] = []
    unresolved: list[tuple[FileGroupId, LostFile]] = []
    for (group, instant), of in bases.items():
        if len(of) < 2:
            continue
        named = names_of(instant) or frozenset()
        if sum(file.path in named for file in of) == 1:
            copies += (file for file in of if file.path not in named)
        elif instant < newest[group]:
            copies += of  # an older version, which no slice needs
        else:
            paths = " and ".join(sorted(file.path for file in of))
            problem = (
                f"two base files of one file group and instant, {paths}: which counts is unknown"
            )
            unresolved.append((group, LostFile(of[0].path, problem, instant)))
    gone = frozenset(file.path for file in copies)
    kept = [file for file in every if file.path not in gone] if gone else every
    return Resolved(kept, tuple(unresolved))


def archived_names(storage: Storage, history: str, instant: Instant) -> frozenset[str] | None:
    """Return the paths that an archived commit lists; None if the archive does not have it."""
    for row in read_archived(storage, history, since=instant):
        if row.requested > instant:
            break
        if row.action in COMMIT_ACTIONS and row.metadata:
            what = f"archived {row.action} {row.requested}"
            return frozenset(named_files(CommitMetadata.parse(row.metadata, what)))
    return None
