"""Checks files of archived commits against the archive: lost files, and files that no commit lists.

A reader treats every file of an archived instant as data, and the record that archiving keeps of
the files may be missing or stale. Here the archive itself is read, commit by commit.
"""

from collections.abc import Iterator

from lakebed.errors import LakebedError
from lakebed.format.names.instant_name import LAYOUT_1, Action, State
from lakebed.format.timeline.commit_metadata import CommitMetadata
from lakebed.services.verify.findings import ADVICE_LOST, Code, Finding, Mend, Severity
from lakebed.services.verify.inventory import Inventory
from lakebed.table.files.archived_files import ARCHIVED_FILES_PATH, read_archived_files
from lakebed.table.files.damage import describe
from lakebed.table.files.deleted_files import DELETING, deleted_files, read_deleted
from lakebed.table.files.file_group import BaseFile, FileGroupId, LogFile, LostFile, data_file
from lakebed.table.files.lost_files import Damage, find_lost, superseded_files, without_files
from lakebed.table.files.needed_files import NamedFile, needed_files, newest_slices, written_files
from lakebed.table.files.retention import named_files
from lakebed.timeline.archived import ArchivedInstant, read_archived
from lakebed.timeline.timeline import COMMIT_ACTIONS, TimelineInstant

_MANY = 4_096


def check_archived_files(inventory: Inventory) -> Iterator[Finding]:
    """Find lost files of archived commits, and files that no archived commit lists."""
    if inventory.config.timeline_layout == LAYOUT_1 or not inventory.archived:
        return
    try:
        yield from _check(inventory)
    except LakebedError as error:
        yield Finding(
            Severity.WARNING,
            Code.ARCHIVE_BAD,
            f"files of archived commits were not checked: {error}",
            path=inventory.config.history_path,
        )
    try:
        read_archived_files(inventory.storage)
    except LakebedError as error:
        yield Finding(
            Severity.NOTE,
            Code.ARCHIVE_BAD,
            f"{error}; reads do not notice lost files of archived commits until the next archiving "
            "rewrites it",
            path=ARCHIVED_FILES_PATH,
        )


def _check(inventory: Inventory) -> Iterator[Finding]:
    archive = _Archive(inventory)
    for row, metadata in _commits(inventory):
        archive.add(row, metadata)
        yield from archive.strays(row, metadata)
    for lost in archive.lost():
        yield Finding(
            Severity.ERROR,
            Code.FILE_SIZE if lost.path in inventory.sizes else Code.FILE_MISSING,
            f"{describe(lost)}; the commit is archived",
            path=lost.path,
            instant=lost.commit,
            advice=ADVICE_LOST,
        )


class _Archive:
    """The files that archived commits leave behind, accumulated commit by commit."""

    def __init__(self, inventory: Inventory) -> None:
        self._inventory = inventory
        self._files: list[NamedFile] = []
        self._size = _MANY
        self._ended: set[tuple[str, str]] = set()
        self._counted = {commit.requested for commit in inventory.timeline.commits}
        self._counted |= inventory.archived.keys()
        self._there: dict[str, list[str]] = {}
        for file in inventory.files:
            is_cdc = isinstance(file, LogFile) and file.is_cdc
            if file.name.instant in inventory.archived and not is_cdc:
                self._there.setdefault(file.name.instant, []).append(file.path)

    def add(self, row: ArchivedInstant, metadata: CommitMetadata) -> None:
        """Add what a commit wrote and replaced; drop superseded files from time to time."""
        instant = TimelineInstant(
            row.requested,
            Action(row.action),
            State.COMPLETED,
            row.completion,
            Action(row.action),
        )
        self._files += written_files(instant, metadata, self._counted)
        for partition, ids in (metadata.partition_to_replace_file_ids or {}).items():
            self._ended.update((partition, file_id) for file_id in ids)
        if len(self._files) > self._size:
            self._files = [file for of in newest_slices(self._files).values() for file in of]
            self._size = max(_MANY, 2 * len(self._files))

    def strays(self, row: ArchivedInstant, metadata: CommitMetadata) -> Iterator[Finding]:
        """Yield the files of an archived instant that its commit does not list."""
        there = self._there.get(row.requested)
        # While buckets are resized, other commits write logs named after the clustering.
        if not there or row.action == Action.REPLACECOMMIT:
            return
        named = frozenset(named_files(metadata))
        written = {_base_of(path) for path in there if path in named}
        for path in there:
            if path in named:
                continue
            copied = _base_of(path) in written and _base_of(path) is not None
            yield Finding(
                Severity.NOTE if copied else Severity.WARNING,
                Code.FILE_LEFTOVER,
                f"{path}: the archived commit {row.requested} does not list it. "
                + (
                    "It is a copy beside the base file that was written; Lakebed does not read it, but "
                    "Apache Hudi may"
                    if copied
                    else "Readers treat it as data: rows appear twice or reappear"
                ),
                path=path,
                instant=row.requested,
                mend=Mend.DELETE_FILE,
            )

    def lost(self) -> list[LostFile]:
        """Return the missing files of archived commits that no service is known to have deleted."""
        inventory = self._inventory
        commits = (
            (commit, inventory.metadata[commit.requested])
            for commit in inventory.timeline.commits
            if commit.requested in inventory.metadata
        )
        known = {file.path: file for file in self._files}
        needed = {
            group: [file for file in of if file.path in known]
            for group, of in needed_files(commits, self._files).items()
            if not self._has_ended(group) and not inventory.has_ended(group)
        }
        lost: Damage = find_lost(needed, inventory.replaced, inventory.sizes, None)
        if lost:
            doubtful = [known[file.path] for of in lost.values() for file in of]
            lost = without_files(lost, superseded_files(doubtful, inventory.files))
        if lost:
            lost = without_files(lost, _deleted(inventory))
        return [file for of in lost.values() for file in of]

    def _has_ended(self, group: FileGroupId) -> bool:
        return (group.partition, group.file_id) in self._ended


def _base_of(path: str) -> FileGroupId | None:
    """Return the file group of a base file; None for a log."""
    file = data_file(path, 0)
    return file.group if isinstance(file, BaseFile) else None


def _commits(inventory: Inventory) -> Iterator[tuple[ArchivedInstant, CommitMetadata]]:
    active = {commit.requested for commit in inventory.timeline.commits}
    for row in read_archived(inventory.storage, inventory.config.history_path):
        if row.action in COMMIT_ACTIONS and row.metadata and row.requested not in active:
            what = f"archived {row.action} {row.requested}"
            yield row, CommitMetadata.parse(row.metadata, what)


def _deleted(inventory: Inventory) -> frozenset[str]:
    """Return the files that active or archived cleans, rollbacks and restores deleted."""
    found = set(read_deleted(inventory.commits.active, inventory.timeline))
    for row in read_archived(inventory.storage, inventory.config.history_path):
        if row.action in DELETING and row.metadata:
            found.update(deleted_files(row.action, row.metadata, f"archived {row.requested}"))
    return frozenset(found)
