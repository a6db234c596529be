"""Finds the slices that hold the rows written by some commits.

An incremental read of an `lsm_tree` table returns the rows that are current when the last commit of
the range has completed, in the file groups that commits of the range wrote to. So it does not matter
when a compaction ran.

Other tables are read as in Hudi 1.x (MergeOnReadIncrementalRelationV2): only files that commits of
the range wrote, table services included, are considered. Of each file group that none of these
commits replaced, the newest slice is read. Logs are merged only with each other and with a base file
of the range. So an update that lost to an older row is returned, unless a compaction in the range
has merged the two.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set

from lakebed.storage.storage import Storage
from lakebed.table.changes.commit_files import check_there, named_data_files
from lakebed.table.changes.commit_range import RangeCommit
from lakebed.table.files.file_group import (
    DataFile,
    FileGroupId,
    FileSlice,
    build_slices,
    group_files,
    latest_slice,
)


def incremental_slices(
    storage: Storage, commits: Sequence[RangeCommit], ignored: Set[str] = frozenset()
) -> tuple[FileSlice, ...]:
    """Return the slices to read; the caller drops the rows in them that other commits wrote.

    Files in `ignored` are not read (see `log_compactions`). Raises InvalidError if a file of a
    slice no longer exists.
    """
    completions = {commit.requested: commit.completion for commit in commits}
    replaced = replaced_at(commits)
    files = {
        file.path: file
        for commit in commits
        for file in named_data_files(commit.requested, commit.metadata)
        if file.path not in ignored
    }
    found: list[FileSlice] = []
    for group, members in sorted(group_files(files.values()).items()):
        if (group.partition, group.file_id) in replaced:
            continue
        slice_ = latest_slice(build_slices(group, members, completions.__getitem__))
        if slice_ is not None:
            found.append(slice_)
    sizes = present_sizes(storage, (file for slice_ in found for file in slice_.files))
    check_there(found, sizes, f"changes from {commits[0].completion} on" if commits else "changes")
    return tuple(found)


def written_groups(commits: Sequence[RangeCommit]) -> frozenset[FileGroupId]:
    """Return the file groups that the commits wrote to and that none of the commits replaced."""
    replaced = replaced_at(commits)
    files = (f for c in commits for f in named_data_files(c.requested, c.metadata))
    groups = {f.group.whole for f in files}
    return frozenset(g for g in groups if (g.partition, g.file_id) not in replaced)


def replaced_at(commits: Iterable[RangeCommit]) -> Mapping[tuple[str, str], str]:
    """Return when each replaced file group was replaced, by partition and file id."""
    return {
        group: commit.completion
        for commit in commits
        for group in commit.metadata.replaced_groups()
    }


def present_sizes(storage: Storage, files: Iterable[DataFile]) -> dict[str, int]:
    """Return the sizes of the files that exist, by path; each folder is listed once."""
    folders: dict[str, set[str]] = defaultdict(set)
    for file in files:
        folders[file.partition].add(file.path)
    return {
        entry.path: entry.size
        for folder, wanted in folders.items()
        for entry in storage.list_names(folder)[1]
        if entry.path in wanted
    }
