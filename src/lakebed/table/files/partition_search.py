"""Finds the partitions of a table, or those that may hold some keys, without listing the table.

Commits list every file of the newest slices; the files of archived commits are in the record that
archiving writes. If that record may be incomplete, the table has to be listed. The same applies if
there is no record, as the archive may have been lost too, unless the first commit is still active.
"""

from collections.abc import Sequence
from functools import reduce
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import CorruptError
from lakebed.table.files.commit_cache import CommitCache
from lakebed.table.files.file_index import KEY_RANGES, folders_of
from lakebed.timeline.archived import read_manifest
from lakebed.timeline.timeline import Timeline

FIRST_COMMIT: Final = "lakebed.first"
"""The key in a commit's extra metadata which states that no commit precedes it."""


def all_key_ranges(commits: CommitCache, timeline: Timeline) -> pa.Table | None:
    """Return the files of the newest slices, and perhaps others, with the columns of KEY_RANGES.

    Returns None if the files of archived commits are unknown.
    """
    archived = _archived(commits, timeline)
    if archived is None:
        return None
    return pa.concat_tables([archived, *map(commits.key_ranges, timeline.commits)])


def _archived(commits: CommitCache, timeline: Timeline) -> pa.Table | None:
    storage, history = commits.active.storage, commits.history_path
    found = commits.archived_ranges(timeline)
    if found is None:
        return KEY_RANGES.empty_table() if _has_all_commits(commits, timeline) else None
    if not found.complete or not found.is_current(storage, timeline, history):
        return None
    return found.ranges


def _has_all_commits(commits: CommitCache, timeline: Timeline) -> bool:
    """Return whether it is certain that no commit was archived."""
    first = commits.files(timeline.commits[0], frozenset()) if timeline.commits else None
    if first is None or FIRST_COMMIT not in (first.extra_metadata or {}):
        return False
    try:
        # Hudi can archive commits that are newer than a savepoint.
        return not read_manifest(commits.active.storage, commits.history_path)
    except CorruptError:
        return False


def partitions_with(ranges: pa.Table, keys: Sequence[str] | None) -> frozenset[str]:
    """Return the partitions of files that may hold one of `keys`; None stands for any key."""
    paths = ranges.column("path")
    if keys is not None:
        low, high = ranges.column("min_key"), ranges.column("max_key")
        inside = [
            pc.and_(pc.less_equal(low, key), pc.greater_equal(high, key))
            for key in map(_text, keys)
        ]
        none = pa.chunked_array([pa.repeat(pa.scalar(False), len(paths))])
        # A comparison with an unknown key is null.
        paths = paths.filter(pc.fill_null(reduce(pc.or_, inside, none), True))
    return frozenset(pc.unique(folders_of(paths)).to_pylist())


def _text(key: str) -> pa.Scalar:
    return pa.scalar(key, pa.string())
