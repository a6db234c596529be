"""The state of a table at one point in time: its file slices and its schema.

Hudi's readers use every listed file whose name has a completed instant. Lakebed is stricter: a file
of an instant on the active timeline is visible only if its commit lists it, so the leftover of a
task that ran twice is never data. On a timeline of layout 1 that applies to base files only: the
instant in the name of a log is the instant of its slice, and the log's blocks show which of them
are committed.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import ConflictError, CorruptError, NotFoundError
from lakebed.format.avro.avro_schema import avro_to_arrow
from lakebed.format.names.instant_name import LAYOUT_1, Action
from lakebed.format.names.meta_columns import META_COLUMNS
from lakebed.format.timeline.commit_metadata import CommitMetadata
from lakebed.groups.definition import ColumnGroups, groups_at, served_groups
from lakebed.merge.rule import Merger
from lakebed.model.options.writers import FILE_INDEX_MIN_FILES
from lakebed.storage.storage import Entry, Storage
from lakebed.table.config.table_config import TableConfig
from lakebed.table.files.commit_cache import CommitCache
from lakebed.table.files.copies import Resolved, archived_names, without_copies
from lakebed.table.files.file_group import (
    DataFile,
    FileGroupId,
    FileSlice,
    LogFile,
    LostFile,
    PendingCompaction,
    build_slices,
    data_file,
    group_files,
    latest_slice,
    spread,
    whole_slice,
)
from lakebed.table.files.file_index import folder_of
from lakebed.table.files.lost_files import find_damage
from lakebed.table.files.partition_search import all_key_ranges, partitions_with
from lakebed.table.files.pending_plans import PlannedGroup, slice_boundaries
from lakebed.table.files.retention import REWRITES, kept_as_of, lost_kept_files, named_files
from lakebed.table.files.visibility import Visibility, VisibilityRules
from lakebed.table.listing import table_files
from lakebed.table.read.base_file import read_footer
from lakebed.table.view import TableView
from lakebed.timeline.active import ActiveTimeline
from lakebed.timeline.archived import read_completions
from lakebed.timeline.layout import METADATA_FOLDER
from lakebed.timeline.timeline import Timeline, TimelineInstant

LATEST = "9" * 17
"""The completion time given to an instant that the archive has dropped: later than all others."""

# From this many partitions on, one listing of everything is cheaper than a listing of each.
_MANY_PARTITIONS = 256
_MAX_LOADS = 100
# How many limited snapshots are kept.
_MAX_PARTS = 1_000


@dataclass(frozen=True)
class Snapshot:
    """A table as of its latest completed instant, or as of an earlier instant."""

    storage: Storage
    config: TableConfig
    timeline: Timeline
    commits: CommitCache = field(repr=False)
    kept: frozenset[str] | None = field(default=None, repr=False)
    """The files of the savepoint through which a cleaned instant is read."""
    planned: tuple[PlannedGroup, ...] | None = field(default=None, repr=False)
    """The file groups of pending compactions, if they were read with the timeline."""
    partitions: frozenset[str] | None = field(default=None, repr=False)
    """The partitions that the snapshot is limited to; None for the whole table."""
    damaged: list[FileGroupId] = field(default_factory=list, repr=False, compare=False)
    """Some of the damaged file groups that were found so far, here or in limited snapshots."""

    def within(self, partitions: Iterable[str]) -> "Snapshot":
        """Return the snapshot limited to some partitions, which lists only these.

        Every file and file group of the result is in one of `partitions`. Returns the snapshot
        itself where this is not possible: for a past state, an older timeline layout, or a
        partition path that storage would normalise.
        """
        wanted = frozenset(partitions)
        if self.kept is not None or self.timeline.until is not None:
            return self
        if self.config.timeline_layout == LAYOUT_1 or not all(map(_is_plain, wanted)):
            return self
        if self.partitions is not None:
            wanted &= self.partitions
        held = self._parts.get(wanted)
        if held is None:
            if len(self._parts) >= _MAX_PARTS:
                self._parts.clear()
            held = self._parts[wanted] = replace(self, partitions=wanted)
        return held

    def partitions_with(self, keys: Sequence[str] | None) -> frozenset[str] | None:
        """Return the partitions whose files may hold one of `keys`; None stands for any key.

        Returns None if the table must be listed to find them, or if a listing is cheaper, as in a
        table without large commits.
        """
        ranges = self._key_ranges
        return None if ranges is None else partitions_with(ranges, keys)

    def partitions_without(self, gone: Callable[[], Set[str]]) -> frozenset[str] | None:
        """Return the partitions that have files besides those that `gone` returns.

        Returns None in the same cases as `partitions_with`, and if no file is gone.
        """
        ranges = self._key_ranges
        if ranges is None or not (paths := gone()):
            return None
        left = pc.invert(pc.is_in(ranges.column("path"), value_set=pa.array(sorted(paths))))
        return partitions_with(ranges.filter(left), None)

    @cached_property
    def _key_ranges(self) -> pa.Table | None:
        if self.within(()) is self:
            return None
        if not any(map(self.commits.is_indexed, self.timeline.commits)):
            archived = self.commits.archived_ranges(self.timeline)
            least = FILE_INDEX_MIN_FILES.value(self.config.properties)
            if archived is None or archived.ranges.num_rows < least:
                return None
        return all_key_ranges(self.commits, self.timeline)

    def bare(self) -> "Snapshot":
        """Return the snapshot without cached reads, to be pickled."""
        commits = CommitCache(self.commits.active, self.commits.history_path)
        return replace(self, commits=commits)

    @cached_property
    def _parts(self) -> dict[frozenset[str], "Snapshot"]:
        return {}

    @cached_property
    def replaced(self) -> Mapping[str, frozenset[str]]:
        """Return the file ids that a completed replacecommit replaced, by partition."""
        gone: dict[str, set[str]] = {}
        for instant in self.timeline.commits:
            if instant.action is not Action.REPLACECOMMIT:
                continue
            metadata = self._files_of(instant)
            for partition, ids in (metadata.partition_to_replace_file_ids or {}).items():
                gone.setdefault(partition, set()).update(ids)
        return {partition: frozenset(ids) for partition, ids in gone.items()}

    @cached_property
    def pending(self) -> Mapping[FileGroupId, tuple[PendingCompaction, ...]]:
        """Return the pending compactions that divide the logs of each file group."""
        plans = self.planned
        if plans is None:
            plans = self.commits.pending_compactions(self.timeline)
        return slice_boundaries(plans, self.timeline, self.config)

    @cached_property
    def groups(self) -> Mapping[FileGroupId, tuple[FileSlice, ...]]:
        """Return all visible slices, oldest first, of every file group that was not replaced.

        Damaged file groups are included, with their visible slices.
        """
        pending = self.pending
        apart = self.config.is_lsm_tree
        found: dict[FileGroupId, tuple[FileSlice, ...]] = {}
        unresolved = {group for group, _ in self._resolved.unresolved}
        for group, members in group_files(self.spread(self.files)).items():
            if group.file_id in self.replaced.get(group.partition, frozenset()):
                continue
            if group in unresolved or group.whole in unresolved:
                continue
            if group.column_group and self.column_groups.find(group.column_group) is None:
                self._check_defined(group.column_group, members[0].path)
                continue
            found[group] = build_slices(
                group, members, self.completion_of, pending.get(group, ()), tombstones=apart
            )
        for group in self.damage:
            found.setdefault(group, ())  # all of its files are lost
        return dict(sorted(found.items()))

    def spread(self, files: Iterable[DataFile]) -> Iterable[DataFile]:
        """Return files by column group: a base file of all columns is a file of each group."""
        defined = self.config.column_groups
        if not defined:
            return files
        return spread(files, partial(served_groups, defined, self.timeline.is_committed))

    @cached_property
    def column_groups(self) -> ColumnGroups:
        """Return the column groups at this point in time."""
        defined = self.config.column_groups
        if not defined:
            return ColumnGroups()
        shared = (*self.config.record_key_fields, *self.config.partition_fields)
        committed = self.timeline.is_committed
        return groups_at(defined, committed, shared, self.config.ordering_fields)

    def _check_defined(self, name: str, path: str) -> None:
        """Raise CorruptError for a file of a column group that was never defined."""
        if all(group.name != name for group in self.config.column_groups):
            raise CorruptError(
                f"{path}: the table has no column group {name!r}; its definition is missing in "
                "hoodie.properties, or the file is not part of this table"
            )

    @cached_property
    def damage(self) -> Mapping[FileGroupId, tuple[LostFile, ...]]:
        """Return the lost files of the newest slice of each damaged file group."""
        found = self._find_damage()
        self.damaged.extend([*found][:1])
        return found

    def _find_damage(self) -> Mapping[FileGroupId, tuple[LostFile, ...]]:
        if self.kept is not None:
            there = {file.path for file in self.files}
            return lost_kept_files(self.kept, there, self.timeline.until)
        commits = [(commit, self._files_of(commit)) for commit in self.timeline.commits]
        archived = None
        if self.config.timeline_layout != LAYOUT_1:
            archived = self.commits.archived_files(self.timeline, self.partitions)
        found = find_damage(
            self.commits.active,
            self.timeline,
            self.config.history_path,
            commits,
            archived,
            self.files,
            self.replaced,
        )
        doubled = {
            group: (*found.get(group, ()), lost)
            for group, lost in self._resolved.unresolved
            if group.file_id not in self.replaced.get(group.partition, frozenset())
        }
        names = self.column_groups.names
        return {g: lost for g, lost in {**found, **doubled}.items() if g.column_group in names}

    @property
    def is_listed(self) -> bool:
        """Return whether all files have already been listed."""
        return "slices" in self.__dict__

    @cached_property
    def logical_slices(self) -> Mapping[FileGroupId, Mapping[str, FileSlice]]:
        """Return the slices that a snapshot reads, by file group and column group.

        File groups are named without a column group; the default column group is "". Damaged
        slices are included, with `damage` set.
        """
        found: dict[FileGroupId, dict[str, FileSlice]] = {}
        for group, slices in self.groups.items():
            latest, lost = latest_slice(slices), self.damage.get(group, ())
            if lost:
                latest = replace(latest or FileSlice(group, lost[0].commit, None), damage=lost)
            if latest is not None:
                found.setdefault(group.whole, {})[group.column_group] = latest
        return found

    @cached_property
    def slices(self) -> tuple[FileSlice, ...]:
        """Return the file slices that a snapshot reads, one for each file group.

        In a table with column groups, a slice includes those of all groups (`FileSlice.others`).
        """
        return tuple(whole_slice(group, of) for group, of in self.logical_slices.items())

    @cached_property
    def group_slices(self) -> tuple[FileSlice, ...]:
        """Return the file slices that a snapshot reads, one for each column group of a file group."""
        return tuple(slice_ for of in self.logical_slices.values() for slice_ in of.values())

    @cached_property
    def schema(self) -> pa.Schema:
        """Return the schema of the newest commit, else of the table's creation, else of a file."""
        text = self.schema_text
        if text is not None:
            return avro_to_arrow(text)
        for slice_ in self.slices:
            if slice_.base_file is not None and not slice_.damage:
                fields = read_footer(self.storage, slice_.base_file.path).schema
                return pa.schema([f for f in fields if f.name not in META_COLUMNS])
        return pa.schema([])

    @cached_property
    def schema_text(self) -> str | None:
        """Return the schema as Avro JSON, from the newest commit that has one."""
        rewritten = None
        for instant in reversed(self.timeline.commits):
            metadata = self.commits.files(instant, frozenset())
            text = (metadata.extra_metadata or {}).get("schema")
            if text and metadata.operation_type not in REWRITES:
                return text
            rewritten = rewritten or text
        # If all writes are archived, later rewrites of their rows record the same schema.
        return rewritten or self.config.create_schema

    def view(self, merger: Merger | None = None) -> TableView:
        """Return the view for reading the slices; `merger` is the caller's custom merger."""
        return TableView(
            self.storage,
            self.config,
            self.timeline,
            self.schema,
            self.schema_text,
            merger,
            column_groups=self.column_groups,
        )

    def _visible_files(self) -> Iterator[DataFile]:
        if self.partitions is not None and self.timeline.first_active is None:
            return  # without a write no file is visible
        for entry in self.entries():
            file = data_file(entry.path, entry.size)
            if file is not None and self._counts(file):
                yield file

    def entries(self) -> Iterator[Entry]:
        """List every object of the partitions, data files or not."""
        if self.partitions is None:
            yield from table_files(self.storage)
            return
        if len(self.partitions) > _MANY_PARTITIONS:
            for entry in table_files(self.storage):
                if folder_of(entry.path) in self.partitions:
                    yield entry
            return
        for partition in sorted(self.partitions):
            yield from self.storage.list_names(partition)[1]

    @cached_property
    def visibility(self) -> VisibilityRules:
        """Return the rules that decide which files are visible."""
        return VisibilityRules(self.timeline, self.config.timeline_layout, self._named)

    def _counts(self, file: DataFile) -> bool:
        if self.kept is not None:
            return file.path in self.kept
        return self.visibility.of(file) is Visibility.DATA

    def completion_of(self, instant: str) -> str:
        """Return the completion time of a visible instant, from the archive if needed.

        An instant that the archive has dropped belongs to the newest slice, as in Hudi. In layout 1
        only logs need a completion time, and the instant in their name is the instant of their
        slice.
        """
        if self.config.timeline_layout == LAYOUT_1:
            return instant
        return self.timeline.completion_of(instant) or self._archived.get(instant, LATEST)

    @cached_property
    def files(self) -> list[DataFile]:
        """Return every file whose instant is visible, including files of replaced file groups."""
        return self._resolved.files

    @cached_property
    def _resolved(self) -> Resolved:
        return without_copies(self._visible_files(), self.archived_names)

    def archived_names(self, instant: str) -> frozenset[str] | None:
        """Return the paths that an archived commit lists; None if the archive does not have it."""
        if self.config.timeline_layout == LAYOUT_1:
            return None
        return archived_names(self.storage, self.config.history_path, instant)

    @cached_property
    def _archived(self) -> Mapping[str, str]:
        """Return completion times of archived instants, from the oldest that still has logs."""
        logs = (file.name.instant for file in self.files if isinstance(file, LogFile))
        first = min((i for i in logs if self.timeline.is_archived(i)), default=None)
        return read_completions(self.storage, self.config.history_path, since=first)

    def _named(self, instant: TimelineInstant) -> frozenset[str]:
        held = self._names.get(instant.requested)
        if held is None:
            held = frozenset(named_files(self._files_of(instant)))
            self._names[instant.requested] = held
        return held

    def _files_of(self, instant: TimelineInstant) -> CommitMetadata:
        return self.commits.files(instant, self.partitions)

    @cached_property
    def _names(self) -> dict[str, frozenset[str]]:
        return {}


def load_snapshot(
    storage: Storage,
    config: TableConfig,
    as_of: str | None = None,
    commits: CommitCache | None = None,
) -> Snapshot:
    """Read the timeline and return the snapshot of its latest instant, or as of an earlier one."""
    commits = commits or CommitCache(
        ActiveTimeline(storage, config.timeline_path), config.history_path
    )
    timeline: Timeline | None = None
    for _ in range(_MAX_LOADS):
        before, timeline = timeline, commits.active.load()
        commits.forget_others(timeline)
        if as_of is not None:
            timeline = timeline.as_of(as_of)
        try:
            planned = _readable_plans(commits, timeline)
            kept = kept_as_of(storage, commits.active, config.history_path, timeline)
        except NotFoundError:
            # A plan was dropped, or a clean archived, since the timeline was listed.
            if timeline == before:
                raise
        else:
            return Snapshot(storage, config, timeline, commits, kept, planned)
    raise ConflictError(
        f"table {config.name!r}: its pending plans changed during each of {_MAX_LOADS} attempts to "
        "load it; read it again"
    )


def _readable_plans(commits: CommitCache, timeline: Timeline) -> tuple[PlannedGroup, ...] | None:
    """Return the pending plans; None if one is damaged, which matters only to reads of rows."""
    try:
        return commits.pending_compactions(timeline)
    except CorruptError:
        return None


def _is_plain(partition: str) -> bool:
    """Return whether a path has no part that is empty, `.`, `..` or the metadata folder."""
    parts = partition.split("/") if partition else []
    return not any(part in ("", ".", "..", METADATA_FOLDER) for part in parts)
