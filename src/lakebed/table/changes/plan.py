"""The effect of each commit of a range on each file group: the slices before and after the commit.

A commit's changes are the difference between the two slices, whatever the commit wrote: a new base
file, logs, or nothing because it replaced the group. Commits are ordered by completion time, as
readers saw them. A `.cdc` file of the commit makes the comparison unnecessary.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from lakebed.model.instant import Instant
from lakebed.table.changes.commit_files import gone, named_data_files
from lakebed.table.changes.commit_range import RangeCommit
from lakebed.table.changes.incremental import replaced_at
from lakebed.table.changes.past_slices import GroupHistory, PastSlice
from lakebed.table.files.file_group import FileGroupId, FileSlice
from lakebed.table.files.needed_files import NamedFile
from lakebed.table.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class ChangeStep:
    """The effect of one commit on one file group.

    `cdc_files` is the commit's change data; if there is none, no file of the slices is lost.
    """

    instant: Instant
    before: PastSlice
    after: PastSlice
    cdc_files: tuple[NamedFile, ...] = ()

    @property
    def lost(self) -> str | None:
        """Return a lost file of the slices, or None.

        If a file is lost, the changes can only be read from change data.
        """
        return self.before.lost or self.after.lost


@dataclass(frozen=True, slots=True)
class GroupChanges:
    """The commits that touched one file group, in order of completion."""

    group: FileGroupId
    steps: tuple[ChangeStep, ...]

    @property
    def cost_bytes(self) -> int:
        """Return the estimated cost of reading the changes."""
        return sum(slice_.cost_bytes for slice_ in self._slices)

    @property
    def needs_merge(self) -> bool:
        """Return whether one of the slices is more than a base file."""
        return any(slice_.needs_merge for slice_ in self._slices)

    @property
    def written_by(self) -> set[Instant]:
        """Return the commits that wrote the files to read."""
        files = (file for slice_ in self._slices for file in slice_.files)
        return {step.instant for step in self.steps} | {file.name.instant for file in files}

    @property
    def _slices(self) -> list[FileSlice]:
        pasts = [past for step in self.steps for past in (step.before, step.after)]
        return [past.slice_ for past in pasts if past.slice_ is not None]


def plan_group_changes(
    snapshot: Snapshot, commits: Sequence[RangeCommit]
) -> tuple[GroupChanges, ...]:
    """Return the effects of the commits of a range, by file group.

    Raises InvalidError if needed files no longer exist.
    """
    touched: dict[FileGroupId, list[RangeCommit]] = defaultdict(list)
    for commit in commits:
        if not commit.is_service:
            for group in sorted(_groups_of(commit)):
                touched[group].append(commit)
    history = GroupHistory(snapshot, commits, frozenset(touched))
    ends = replaced_at(commits)
    return tuple(
        GroupChanges(
            group,
            tuple(
                _step(history, group, commit, ends.get((group.partition, group.file_id)))
                for commit in of
            ),
        )
        for group, of in sorted(touched.items())
    )


def _groups_of(commit: RangeCommit) -> set[FileGroupId]:
    written = {file.group.whole for file in named_data_files(commit.requested, commit.metadata)}
    return written | {FileGroupId(*group) for group in commit.metadata.replaced_groups()}


def _step(
    history: GroupHistory, group: FileGroupId, commit: RangeCommit, ended: Instant | None
) -> ChangeStep:
    nothing = PastSlice(None)
    # A replaced group is empty from then on, whatever is written to it.
    over = ended is not None and ended < commit.completion
    before = nothing if over else history.slice_at(group, commit.completion, inclusive=False)
    ends_here = ended is not None and ended <= commit.completion
    after = nothing if ends_here else history.slice_at(group, commit.completion, inclusive=True)
    cdc_files = tuple(
        NamedFile(path.lstrip("/"), size_bytes)
        for stat in commit.metadata.partition_to_write_stats.get(group.partition, ())
        if stat.file_id == group.file_id
        for path, size_bytes in (stat.cdc_stats or {}).items()
    )
    step = ChangeStep(commit.requested, before, after, cdc_files)
    if step.lost is not None and not cdc_files:
        raise gone(f"changes of {commit.requested}", step.lost)
    return step
