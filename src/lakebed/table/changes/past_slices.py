"""File groups in the past: the slice of a group right after a given commit."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from lakebed.format.names.instant_name import Action
from lakebed.format.timeline.commit_metadata import CommitMetadata
from lakebed.model.instant import Instant
from lakebed.table.changes.commit_files import lost_file, named_data_files
from lakebed.table.changes.commit_range import RangeCommit, archived_commits
from lakebed.table.config.table_config import TableType
from lakebed.table.files.file_group import (
    BaseFile,
    DataFile,
    FileGroupId,
    FileSlice,
    PendingCompaction,
    build_slices,
    latest_slice,
    whole_slice,
)
from lakebed.table.snapshot import Snapshot
from lakebed.timeline.archived import find_archived, read_completions


@dataclass(frozen=True, slots=True)
class PastSlice:
    """A past slice of a file group; `slice_` is None if the group was empty.

    `lost` is a file of the slice that no longer exists, or None.
    """

    slice_: FileSlice | None
    lost: str | None = None


@dataclass(frozen=True)
class GroupHistory:
    """All files that the `groups` ever had, as far as commits and storage show them.

    A file that a commit lists and cleaning has deleted stays in its slice, so that the slice is
    known to be incomplete. `commits` are the commits of the range, archived ones included. Files in
    `ignored` are left out. In a table with column groups, `groups` name whole file groups.
    """

    snapshot: Snapshot
    commits: Collection[RangeCommit]
    groups: frozenset[FileGroupId]
    ignored: frozenset[str] = frozenset()

    def slice_at(self, group: FileGroupId, completion: Instant, *, inclusive: bool) -> PastSlice:
        """Return the slice of `group` after or before the commit that completed at `completion`."""
        names = self.snapshot.column_groups.names
        parts = {
            name: self._part_at(replace(group, column_group=name), completion, inclusive=inclusive)
            for name in names
        }
        found = {name: part.slice_ for name, part in parts.items() if part.slice_ is not None}
        lost = next((part.lost for part in parts.values() if part.lost is not None), None)
        return PastSlice(whole_slice(group, found) if found else None, lost)

    def _part_at(self, group: FileGroupId, completion: Instant, *, inclusive: bool) -> PastSlice:
        found = self._build(group, self._files.get(group, {}), completion, inclusive)
        archived = self._in_archive if self._is_doubtful(found) else self._logs_of(found)
        if archived:
            files = {**self._files.get(group, {}), **archived.get(group, {})}
            found = self._build(group, files, completion, inclusive)
        if found is None:
            return PastSlice(None)
        return PastSlice(found, lost_file(found, self._sizes))

    def _build(
        self, group: FileGroupId, files: dict[str, DataFile], completion: Instant, inclusive: bool
    ) -> FileSlice | None:
        then = [file for file in files.values() if self._is_then(file, completion, inclusive)]
        pending = [plan for plan in self._pending.get(group, ()) if plan.instant < completion]
        apart = self.snapshot.config.is_lsm_tree
        return latest_slice(
            build_slices(group, then, self._slicing_time, pending, tombstones=apart)
        )

    def _is_then(self, file: DataFile, completion: Instant, inclusive: bool) -> bool:
        if file.name.instant in self._compactions:
            # The base file of a compaction starts a slice at the instant of its plan: logs that
            # completed later are on top of it.
            return file.name.instant < completion
        done = self._completion_of(file.name.instant)
        return done < completion or (inclusive and done == completion)

    @cached_property
    def _pending(self) -> Mapping[FileGroupId, tuple[PendingCompaction, ...]]:
        """Return the pending compactions: logs completed after a plan belong to a new slice."""
        return self.snapshot.pending if self.snapshot.config.is_lsm_tree else {}

    @cached_property
    def _compactions(self) -> frozenset[Instant]:
        """Return the instants of the full compactions: in an `lsm_tree` they change no row."""
        if not self.snapshot.config.is_lsm_tree:
            return frozenset()
        active = (
            instant.requested
            for instant in self.snapshot.timeline.instants
            if instant.is_completed and instant.plan_action is Action.COMPACTION
        )
        told = (c.requested for c in self.commits if c.metadata.operation_type == "COMPACT")
        return frozenset([*active, *told, *self._archived_compactions()])

    def _archived_compactions(self) -> Iterator[Instant]:
        """Yield the archived compactions that wrote base files which still exist."""
        if self.snapshot.config.table_type is not TableType.MERGE_ON_READ:
            return
        storage, folder = self.snapshot.storage, self.snapshot.config.history_path
        timeline = self.snapshot.timeline
        bases = {
            file.name.instant
            for files in self._files.values()
            for file in files.values()
            if isinstance(file, BaseFile) and timeline.is_archived(file.name.instant)
        }
        for instant in sorted(bases.intersection(self._completions)):
            row = find_archived(storage, instant, Action.COMMIT, folder)
            if row is not None and row.metadata is not None:
                metadata = CommitMetadata.parse(row.metadata, f"archived commit {instant}")
                if metadata.operation_type == "COMPACT":
                    yield instant

    def _is_doubtful(self, found: FileSlice | None) -> bool:
        """Return whether files that only the archive lists may belong to a slice.

        Cleaning deletes the oldest slices of a group first, so an existing slice is the newest
        slice of its time, unless a savepoint kept it while later slices were deleted.
        """
        if self.snapshot.timeline.first_active is None or not self._completions:
            return False
        if found is None or found.base_file is None:
            return True
        archived = self.snapshot.timeline.is_archived(found.base_file.name.instant)
        return archived and bool(self.snapshot.timeline.select(Action.SAVEPOINT))

    def _logs_of(self, found: FileSlice | None) -> dict[FileGroupId, dict[str, DataFile]]:
        """Return the files that archived commits may have added to a slice started by one of them.

        An interrupted or running clean may have deleted some of these files.
        """
        on_read = self.snapshot.config.table_type is TableType.MERGE_ON_READ
        if found is None or found.base_file is None or not on_read or not self._completions:
            return {}
        is_old = self.snapshot.timeline.is_archived(found.base_file.name.instant)
        return self._in_recent_archive if is_old else {}

    @cached_property
    def _in_recent_archive(self) -> dict[FileGroupId, dict[str, DataFile]]:
        """Read the part of the archive that is not older than the oldest base file of the groups."""
        bases = (
            file.name.instant
            for files in self._files.values()
            for file in files.values()
            if isinstance(file, BaseFile)
        )
        oldest = min(bases)
        # A commit that started before the base file and completed after it has added logs to it.
        later = (began for began, ended in self._completions.items() if ended >= oldest)
        first = min(later, default=None)
        return {} if first is None else self._read_archive(first)

    def _completion_of(self, instant: Instant) -> Instant:
        """Return when a commit completed; an unknown commit counts as earlier than all others."""
        active = self.snapshot.timeline.completion_of(instant)
        return active or self._completions.get(instant, "")

    def _slicing_time(self, instant: Instant) -> Instant:
        return self._completions.get(instant) or self.snapshot.completion_of(instant)

    @cached_property
    def _completions(self) -> dict[Instant, Instant]:
        """Return the completion times of archived commits."""
        folder = self.snapshot.config.history_path
        return read_completions(self.snapshot.storage, folder)

    @cached_property
    def _sizes(self) -> dict[str, int]:
        return {file.path: file.size_bytes for file in self.snapshot.files}

    @cached_property
    def _files(self) -> dict[FileGroupId, dict[str, DataFile]]:
        found: dict[FileGroupId, dict[str, DataFile]] = defaultdict(dict)
        self._add(found, self.snapshot.files)
        for instant in self.snapshot.timeline.commits:
            metadata = self.snapshot.commits.read(instant)
            self._add(found, named_data_files(instant.requested, metadata, is_read=False))
        for commit in self.commits:
            self._add(found, named_data_files(commit.requested, commit.metadata, is_read=False))
        return found

    @cached_property
    def _in_archive(self) -> dict[FileGroupId, dict[str, DataFile]]:
        return self._read_archive(None)

    def _read_archive(self, first: Instant | None) -> dict[FileGroupId, dict[str, DataFile]]:
        found: dict[FileGroupId, dict[str, DataFile]] = defaultdict(dict)
        for requested, _, metadata in archived_commits(self.snapshot, first):
            self._add(found, named_data_files(requested, metadata, is_read=False))
        return found

    def _add(
        self, found: dict[FileGroupId, dict[str, DataFile]], files: Iterable[DataFile]
    ) -> None:
        for file in self.snapshot.spread(files):
            group = file.group
            if group.whole in self.groups and file.path not in self.ignored:
                found[group][file.path] = file
