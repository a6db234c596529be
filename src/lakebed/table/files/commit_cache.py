"""The content of the commits of a timeline, read once and kept while their instants are listed."""

import warnings
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field
from typing import TypeVar

import pyarrow as pa

from lakebed.errors import ConflictError, CorruptError, DamageWarning, NotFoundError
from lakebed.format.files.parquet_statistics import FileStatistics
from lakebed.format.names.instant_name import LAYOUT_1, Action, State
from lakebed.format.timeline.commit_metadata import CommitMetadata
from lakebed.table.files.archived_files import (
    ArchivedFiles,
    ArchivedRanges,
    parse_archived_commits,
    parse_archived_files,
    parse_archived_ranges,
    read_record,
)
from lakebed.table.files.column_statistics import (
    STATISTICS_FOLDER,
    StatisticsRun,
    statistics_path,
)
from lakebed.table.files.file_index import (
    FILES_FOLDER,
    CommitFiles,
    FileRun,
    HeldRows,
    commit_files,
    key_ranges_of,
    run_path,
    superseding,
)
from lakebed.table.files.pending_plans import PlannedGroup, planned_groups
from lakebed.timeline.active import ActiveTimeline
from lakebed.timeline.archived import HISTORY_FOLDER, find_archived
from lakebed.timeline.timeline import Timeline, TimelineInstant

Found = TypeVar("Found")

_HELD_AT_LEAST = 100
# The most partitions whose files are kept in memory, for each commit with a run.
_MAX_PARTITIONS = 10_000
# The most files whose statistics are kept in memory, counted once for each combination of columns.
_MAX_STATISTICS = 50_000


@dataclass(slots=True)
class _Indexed:
    """A commit with a run, and the partitions whose files were read so far (None: all)."""

    run: FileRun
    # One attribute, so that threads see the files and the partitions together.
    known: tuple[CommitFiles, frozenset[str] | None] | None = None
    held: HeldRows = field(default_factory=HeldRows)

    def within(self, partitions: frozenset[str] | None) -> CommitMetadata:
        files, there = self.known or (None, frozenset[str]())
        if files is not None:
            if there is None or (partitions is not None and partitions <= there):
                return files.within(partitions)
            if partitions is not None and len(there | partitions) <= _MAX_PARTITIONS:
                files = files.plus(self.run.read(partitions - there, self.held))
                self.known = files, there | partitions
                return files.within(partitions)
        files = self.run.read(partitions, self.held)
        self.known = files, partitions
        return files.within(partitions)


@dataclass(slots=True)
class CommitCache:
    """Commit metadata by completed instant; each is read once, since it never changes."""

    active: ActiveTimeline
    history_path: str = HISTORY_FOLDER
    _held: dict[str, CommitMetadata] = field(default_factory=dict, init=False)
    _folders: dict[str, CommitFiles] = field(default_factory=dict, init=False)
    _key_ranges: dict[str, pa.Table] = field(default_factory=dict, init=False)
    _plans: dict[str, list[PlannedGroup]] = field(default_factory=dict, init=False)
    _archived: tuple[str | None, bytes | None] | None = field(default=None, init=False)
    # The record that was parsed, and its content.
    _archived_ranges: tuple[bytes, ArchivedRanges] | None = field(default=None, init=False)
    # By completed instant; None stands for a commit whose run is damaged or does not exist.
    _indexed: dict[str, _Indexed | None] = field(default_factory=dict, init=False)
    # The names of the runs, listed at most once for each load of the timeline.
    _runs: frozenset[str] | None = field(default=None, init=False)
    _statistics_runs: frozenset[str] | None = field(default=None, init=False)
    # By run and columns; None stands for a damaged run.
    _statistics: dict[tuple[str, frozenset[str]], Mapping[str, FileStatistics] | None] = field(
        default_factory=dict, init=False
    )
    _archived_commits: tuple[bytes, Mapping[str, str]] | None = field(default=None, init=False)

    def read(self, instant: TimelineInstant) -> CommitMetadata:
        """Return the metadata of the completed `instant`."""
        found = self._held.get(instant.requested)
        if found is None:
            name = instant.name_of(State.COMPLETED).encode()
            data = self._read(instant)
            try:
                found = CommitMetadata.parse(data, f"instant {name}", instant.layout)
            except CorruptError as error:
                raise CorruptError(
                    f"{error}. Restore the file from a backup; or roll the commit back with "
                    f"rollback({instant.requested!r}), if it is the newest; or restore a savepoint "
                    "before it"
                ) from error
            self._held[instant.requested] = found
        return found

    def files(self, instant: TimelineInstant, partitions: frozenset[str] | None) -> CommitMetadata:
        """Return the metadata of a commit with the files of `partitions` only; None means all.

        If the file index covers the commit, its files are read from there; their write stats then
        have only the path, the size, the number of rows and the change data.
        """
        found = self._from_run(instant, lambda indexed: indexed.within(partitions))
        if found is not None:
            return found
        metadata = self.read(instant)
        return metadata if partitions is None else self._by_folder(instant).within(partitions)

    def superseding(self, instant: TimelineInstant) -> frozenset[str]:
        """Return the partitions in which a commit superseded older files."""
        found = self._from_run(instant, lambda indexed: indexed.run.superseding())
        return superseding(self.read(instant)) if found is None else found

    def key_ranges(self, instant: TimelineInstant) -> pa.Table:
        """Return the files of a commit with the columns of KEY_RANGES."""
        held = self._key_ranges.get(instant.requested)
        if held is None:
            held = self._from_run(instant, lambda indexed: indexed.run.key_ranges())
            held = key_ranges_of(self.read(instant)) if held is None else held
            self._key_ranges[instant.requested] = held
        return held

    def statistics(
        self, timeline: Timeline, instants: Set[str] | None, columns: Set[str]
    ) -> Mapping[str, FileStatistics]:
        """Return the statistics of `columns`, by path, of files that commits `instants` wrote.

        None means all commits whose files may be visible. Files of commits without statistics, or
        with damaged ones, are left out.
        """
        if self._statistics_runs is None:
            self._statistics_runs = frozenset(self.active.storage.names(STATISTICS_FOLDER))
        found: dict[str, FileStatistics] = {}
        if not self._statistics_runs:
            return found
        names = {name.partition("_")[0] for name in self._statistics_runs}
        archived: Mapping[str, str] | None = None
        for instant in names if instants is None else names & instants:
            commit = timeline.completed(instant)
            completion = None if commit is None else commit.completion
            if commit is None and timeline.is_archived(instant):
                if archived is None:
                    archived = self._archived_completions(timeline)
                completion = archived.get(instant)
            path = statistics_path(instant, completion or "")
            if path.rpartition("/")[2] in self._statistics_runs:
                found.update(self._read_statistics(path, frozenset(columns)) or {})
        return found

    def _read_statistics(
        self, path: str, columns: frozenset[str]
    ) -> Mapping[str, FileStatistics] | None:
        if (path, columns) not in self._statistics:
            found: Mapping[str, FileStatistics] | None = None
            try:
                found = StatisticsRun(self.active.storage, path).read(sorted(columns))
            except NotFoundError:
                pass  # it was deleted with its instant, or by hand
            except CorruptError as error:
                warnings.warn(
                    f"{error}; the footers of the files are used instead; run repair()",
                    DamageWarning,
                    stacklevel=2,
                )
            held = sum(len(of or ()) for of in self._statistics.values())
            if held + len(found or ()) > _MAX_STATISTICS:
                self._statistics.clear()
            self._statistics[path, columns] = found
        return self._statistics[path, columns]

    def _archived_completions(self, timeline: Timeline) -> Mapping[str, str]:
        """Return the completion times of the archived commits that left files behind."""
        data = self._record(timeline)
        if data is None:
            return {}
        if self._archived_commits is None or self._archived_commits[0] is not data:
            try:
                self._archived_commits = (data, parse_archived_commits(data))
            except CorruptError:
                return {}
        return self._archived_commits[1]

    def _from_run(
        self, instant: TimelineInstant, read: Callable[[_Indexed], Found]
    ) -> Found | None:
        """Return the result of `read` on the run of a commit; None if no intact run exists."""
        indexed = self._run_of(instant)
        if indexed is not None:
            try:
                return read(indexed)
            except NotFoundError:
                pass  # it was deleted with its instant, or by hand
            except CorruptError as error:
                warnings.warn(
                    f"{error}; the commit itself was read instead; run repair()",
                    DamageWarning,
                    stacklevel=2,
                )
            self._indexed[instant.requested] = None
        return None

    def _by_folder(self, instant: TimelineInstant) -> CommitFiles:
        found = self._folders.get(instant.requested)
        if found is None:
            found = self._folders[instant.requested] = commit_files(self.read(instant))
        return found

    def is_indexed(self, instant: TimelineInstant) -> bool:
        """Return whether the file index covers a commit."""
        return self._run_of(instant) is not None

    def uncovered(self, timeline: Timeline) -> list[tuple[TimelineInstant, CommitMetadata]]:
        """Return the commits that had to be read completely because they have no run."""
        return [
            (commit, self._held[commit.requested])
            for commit in timeline.commits
            if commit.requested in self._held and not self.is_indexed(commit)
        ]

    def _run_of(self, instant: TimelineInstant) -> _Indexed | None:
        requested = instant.requested
        if instant.layout == LAYOUT_1:
            return None
        if requested not in self._indexed:
            path = run_path(instant)
            if self._runs is None:
                self._runs = frozenset(self.active.storage.names(FILES_FOLDER))
            there = path.rpartition("/")[2] in self._runs
            storage = self.active.storage
            self._indexed[requested] = _Indexed(FileRun(storage, path)) if there else None
        return self._indexed[requested]

    def archived_files(
        self, timeline: Timeline, partitions: frozenset[str] | None = None
    ) -> ArchivedFiles | None:
        """Return the files of `partitions` that archived commits left behind; None if unknown."""
        data = self._record(timeline)
        try:
            found = None if data is None else parse_archived_files(data, partitions)
        except CorruptError:
            return None
        return found if found is not None and found.fits(timeline) else None

    def archived_ranges(self, timeline: Timeline) -> ArchivedRanges | None:
        """Return the key ranges of all files that archived commits left behind; None if unknown."""
        data = self._record(timeline)
        if data is None:
            return None
        if self._archived_ranges is None or self._archived_ranges[0] is not data:
            try:
                self._archived_ranges = (data, parse_archived_ranges(data))
            except CorruptError:
                return None
        found = self._archived_ranges[1]
        return found if found.fits(timeline) else None

    def _record(self, timeline: Timeline) -> bytes | None:
        """Return the record of the last archiving, or None; it is read again after each archiving."""
        first = timeline.commits[0].requested if timeline.commits else None
        if self._archived is None or self._archived[0] != first:
            try:
                self._archived = (first, read_record(self.active.storage))
            except CorruptError:
                # verify reports it; the next archiving rewrites it
                self._archived = (first, None)
        return self._archived[1]

    def pending_compactions(self, timeline: Timeline) -> tuple[PlannedGroup, ...]:
        """Return the file groups of the compactions that are pending on `timeline`."""
        pending = timeline.pending(Action.COMPACTION)
        if unknown := [plan for plan in pending if plan.requested not in self._plans]:
            read = planned_groups(self.active, Timeline(tuple(unknown)), Action.COMPACTION)
            found = {plan.requested: list[PlannedGroup]() for plan in unknown}
            for group in read:
                found[group.instant.requested].append(group)
            self._plans |= found
        return tuple(group for plan in pending for group in self._plans[plan.requested])

    def forget_others(self, timeline: Timeline) -> None:
        """Drop commits that are no longer on the timeline, because a job may run for months."""
        self._runs = self._statistics_runs = None
        pending = {plan.requested for plan in timeline.pending(Action.COMPACTION)}
        self._plans = {name: plan for name, plan in self._plans.items() if name in pending}
        if len(self._held) > 2 * len(timeline.instants) + _HELD_AT_LEAST:
            known = {instant.requested for instant in timeline.instants}
            self._held = {name: held for name, held in self._held.items() if name in known}
            self._folders = {name: of for name, of in self._folders.items() if name in known}
            self._key_ranges = {n: of for n, of in self._key_ranges.items() if n in known}
            self._indexed = {name: of for name, of in self._indexed.items() if name in known}

    def _read(self, instant: TimelineInstant) -> bytes:
        try:
            return self.active.read(instant)
        except NotFoundError as error:
            if instant.layout == LAYOUT_1:
                raise ConflictError(
                    f"instant {instant.file_name}: archived or rolled back while the table was read; "
                    "read again"
                ) from error
            # It was archived since the timeline was listed; the archive has the same bytes.
            storage, action = self.active.storage, str(instant.action)
            row = find_archived(storage, instant.requested, action, self.history_path)
            if row is None or row.metadata is None:
                raise
            return row.metadata
