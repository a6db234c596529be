"""A table as its names and listings show it, read once and kept even where it is wrong.

A snapshot rejects a table at the first problem; here the rest is still checked.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import pyarrow as pa

from lakebed.errors import CorruptError, LakebedError, UnsupportedError
from lakebed.format.files.partition_metadata import is_partition_metadata_name
from lakebed.format.names.instant_name import LAYOUT_1, InstantName
from lakebed.format.timeline.commit_metadata import CommitMetadata
from lakebed.groups.definition import ColumnGroups
from lakebed.merge.rule import Merger
from lakebed.services.verify.findings import Code, Coverage, Finding, Severity
from lakebed.storage.storage import Entry, Storage
from lakebed.table.config.table_config import TableConfig
from lakebed.table.files.commit_cache import CommitCache
from lakebed.table.files.copies import without_copies
from lakebed.table.files.file_group import (
    BaseFile,
    FileGroupId,
    FileSlice,
    LogFile,
    PendingCompaction,
    build_slices,
    data_file,
    group_files,
)
from lakebed.table.files.retention import named_files
from lakebed.table.files.visibility import Visibility, VisibilityRules
from lakebed.table.listing import table_files
from lakebed.table.snapshot import LATEST, Snapshot
from lakebed.table.view import TableView
from lakebed.timeline.active import ActiveTimeline
from lakebed.timeline.archived import read_archived
from lakebed.timeline.layout import layout_of
from lakebed.timeline.timeline import COMMIT_ACTIONS, Timeline

_ATTEMPTS = 5


@dataclass(frozen=True)
class Inventory:
    """A table as found: properties, timeline, commits, and every object.

    `metadata` are the commits that could be read, by instant; `marks` the partition metadata files
    by partition; `hidden` other files that writers keep in `.hoodie`, beside timeline and metadata
    table; `archived` maps archived instants to their completion time.
    """

    storage: Storage
    config: TableConfig
    timeline: Timeline
    commits: CommitCache
    metadata: Mapping[str, CommitMetadata]
    files: tuple[BaseFile | LogFile, ...]
    marks: Mapping[str, tuple[str, ...]]
    hidden: Mapping[str, Entry]
    archived: Mapping[str, str]
    findings: tuple[Finding, ...] = field(repr=False)

    @cached_property
    def snapshot(self) -> Snapshot:
        """Return the table as readers load it, without the checks that would reject it."""
        return Snapshot(self.storage, self.config, self.timeline, self.commits)

    @cached_property
    def schema(self) -> pa.Schema | None:
        """Return the table's schema; None if no commit that has one can be read."""
        try:
            return self.snapshot.schema
        except LakebedError:
            return None

    def view(self, merger: Merger | None = None) -> TableView:
        """Return the view for reading slices; without columns if no schema is known."""
        known = self.schema is not None
        text = self.snapshot.schema_text if known else None
        schema = self.schema if self.schema is not None else pa.schema([])
        return TableView(
            self.storage,
            self.config,
            self.timeline,
            schema,
            text,
            merger,
            column_groups=self.column_groups,
        )

    @property
    def column_groups(self) -> ColumnGroups:
        """Return the column groups that exist now; none for an ordinary table."""
        return self.snapshot.column_groups

    @cached_property
    def named(self) -> Mapping[str, frozenset[str]]:
        """Return the paths that each readable commit lists."""
        return {at: frozenset(named_files(metadata)) for at, metadata in self.metadata.items()}

    @cached_property
    def sizes(self) -> Mapping[str, int]:
        """Return the size of each data file."""
        return {file.path: file.size_bytes for file in self.files}

    @cached_property
    def replaced(self) -> Mapping[str, frozenset[str]]:
        """Return the replaced file ids, by partition."""
        gone: dict[str, set[str]] = {}
        for metadata in self.metadata.values():
            for partition, ids in (metadata.partition_to_replace_file_ids or {}).items():
                gone.setdefault(partition, set()).update(ids)
        return {partition: frozenset(ids) for partition, ids in gone.items()}

    def has_ended(self, group: FileGroupId) -> bool:
        """Return whether no reader needs a file group: it was replaced, or its column group dropped."""
        if group.file_id in self.replaced.get(group.partition, frozenset()):
            return True
        dropped = [one for one in self.config.column_groups if one.name == group.column_group]
        return any(one.until and self.timeline.is_committed(one.until) for one in dropped)

    @cached_property
    def visibility(self) -> VisibilityRules:
        """Return the rules of visibility; all files of an unreadable commit are visible."""
        layout = self.config.timeline_layout
        return VisibilityRules(
            self.timeline, layout, lambda commit: self.named.get(commit.requested)
        )

    def counts(self, file: BaseFile | LogFile) -> bool:
        """Return whether a Lakebed reader treats `file` as data."""
        return self.visibility.of(file) is Visibility.DATA

    def completion_of(self, instant: str) -> str:
        """Return the completion time of a visible instant."""
        if self.config.timeline_layout == LAYOUT_1:
            return instant
        return self.timeline.completion_of(instant) or self.archived.get(instant, LATEST)

    def _archived_names(self, instant: str) -> frozenset[str] | None:
        try:
            return self.snapshot.archived_names(instant)
        except LakebedError:
            return None  # the archive has its own finding

    def slices(
        self, pending: Mapping[FileGroupId, tuple[PendingCompaction, ...]]
    ) -> tuple[dict[FileGroupId, tuple[FileSlice, ...]], list[Finding]]:
        """Return the slices of each visible file group, and findings for groups that have none.

        `pending` has the compactions that are planned on each group.
        """
        counted = (file for file in self.files if self.counts(file))
        visible = without_copies(counted, self._archived_names).files
        found: dict[FileGroupId, tuple[FileSlice, ...]] = {}
        findings = []
        for group, members in sorted(group_files(self.snapshot.spread(visible)).items()):
            if self.has_ended(group):
                continue
            if group.column_group not in self.column_groups.names:
                findings.append(_undefined(members[0]))
                continue
            try:
                found[group] = build_slices(
                    group,
                    members,
                    self.completion_of,
                    pending.get(group, ()),
                    tombstones=self.config.is_lsm_tree,
                )
            except CorruptError as error:
                findings.append(
                    Finding(
                        Severity.ERROR,
                        Code.TWO_BASE_FILES,
                        str(error),
                        path=members[0].path,
                        instant=members[0].name.instant,
                        advice="delete the copy, if you know which one it is; else overwrite the "
                        "partition (insert_overwrite), or remove the slice: lakebed repair --drop-lost",
                    )
                )
        return found, findings


def read_inventory(storage: Storage, config: TableConfig, coverage: Coverage) -> Inventory | None:
    """Read names, listings and commits; return None if instants contradict each other.

    `read_timeline` reports such contradictions.
    """
    timeline, findings = read_timeline(storage, config.timeline_path)
    files, marks = _list_files(storage)
    for _ in range(_ATTEMPTS):
        # A commit or a clean between reading the timeline and listing the files would make files
        # look lost or left over.
        again, findings = read_timeline(storage, config.timeline_path)
        if again == timeline:
            break
        timeline = again
        files, marks = _list_files(storage)
    if timeline is None:
        return None
    commits = CommitCache(ActiveTimeline(storage, config.timeline_path))
    metadata, unreadable = _read_commits(timeline, commits, coverage)
    archived, broken = _read_archive(storage, config, coverage)
    coverage.add("data file", len(files))
    coverage.add("instant", len(timeline.instants))
    hidden = {
        entry.path: entry
        for folder in (".heartbeat", ".temp", ".locks")
        for entry in storage.list(f".hoodie/{folder}")
    }
    hidden |= {entry.path: entry for entry in storage.list_names(".hoodie")[1]}
    return Inventory(
        storage,
        config,
        timeline,
        commits,
        metadata,
        tuple(files),
        marks,
        hidden,
        archived,
        (*findings, *unreadable, *broken),
    )


def _list_files(
    storage: Storage,
) -> tuple[list[BaseFile | LogFile], dict[str, tuple[str, ...]]]:
    files: list[BaseFile | LogFile] = []
    marks: dict[str, tuple[str, ...]] = {}
    for entry in table_files(storage):
        partition, _, name = entry.path.rpartition("/")
        if is_partition_metadata_name(name):
            marks[partition] = (*marks.get(partition, ()), entry.path)
        elif (file := data_file(entry.path, entry.size)) is not None:
            files.append(file)
    return files, marks


def read_timeline(storage: Storage, folder: str) -> tuple[Timeline | None, list[Finding]]:
    """Return the valid instants and findings for the others.

    The timeline is None if instants contradict each other.
    """
    good, findings = [], []
    for name in storage.names(folder):
        try:
            InstantName.parse(name, layout_of(folder))
        except (CorruptError, UnsupportedError) as error:
            findings.append(_bad_timeline(error, f"{folder}/{name}"))
        else:
            good.append(name)
    try:
        return Timeline.parse(good, layout_of(folder)), findings
    except CorruptError as error:
        return None, [*findings, _bad_timeline(error, folder)]


def _bad_timeline(error: LakebedError, path: str) -> Finding:
    return Finding(
        Severity.ERROR,
        Code.TIMELINE_BAD,
        str(error),
        path=path,
        advice="no reader can open the table until one of the files is removed",
    )


def _read_commits(
    timeline: Timeline, commits: CommitCache, coverage: Coverage
) -> tuple[dict[str, CommitMetadata], list[Finding]]:
    found, findings = {}, []
    for commit in timeline.commits:
        try:
            found[commit.requested] = commits.read(commit)
            coverage.add("commit")
        except LakebedError as error:
            findings.append(
                Finding(
                    Severity.ERROR,
                    Code.INSTANT_UNREADABLE,
                    # The cause alone, without the advice that the error adds for readers.
                    str(error.__cause__ if isinstance(error.__cause__, CorruptError) else error),
                    path=commit.file_name,
                    instant=commit.requested,
                    advice="restore the file from a backup, roll the commit back if it is the newest "
                    f"(lakebed rollback {commit.requested}), or restore a savepoint before it",
                )
            )
    return found, findings


def _read_archive(
    storage: Storage, config: TableConfig, coverage: Coverage
) -> tuple[dict[str, str], list[Finding]]:
    found: dict[str, str] = {}
    try:
        for row in read_archived(storage, config.history_path, columns=()):
            coverage.add("archived instant")
            if row.action in COMMIT_ACTIONS:
                found[row.requested] = row.completion
    except LakebedError as error:
        return found, [
            Finding(
                Severity.ERROR,
                Code.ARCHIVE_BAD,
                str(error),
                path=config.history_path,
                advice="logs of archived instants may be read in the wrong slice; restore the "
                "archive from a backup",
            )
        ]
    return found, []


def _undefined(file: BaseFile | LogFile) -> Finding:
    name = file.name.column_group
    return Finding(
        Severity.ERROR,
        Code.COLUMN_GROUP,
        f"{file.path}: the table has no column group {name!r}, so the file and others of the group "
        "were not checked, and its values are not read",
        path=file.path,
        instant=file.name.instant,
        advice=f"restore the property hoodie.columngroup.{name} in hoodie.properties, which defines "
        "the group; or delete the files, if they are not part of this table",
    )
