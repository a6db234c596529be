"""Records the files that archived commits leave behind, before the commits leave the timeline."""

from collections.abc import Iterator, Sequence

from lakebed.commit.hold import TableHold
from lakebed.errors import CorruptError
from lakebed.format.names.instant_name import Action
from lakebed.table.files.archived_files import (
    ArchivedFiles,
    read_archived_files,
    write_archived_files,
)
from lakebed.table.files.deleted_files import read_deleted
from lakebed.table.files.file_group import BaseFile
from lakebed.table.files.file_index import folder_of
from lakebed.table.files.needed_files import NamedFile, newest_slices, written_files
from lakebed.table.files.partition_search import FIRST_COMMIT
from lakebed.table.snapshot import LATEST
from lakebed.timeline.archived import read_manifest
from lakebed.timeline.timeline import COMMIT_ACTIONS, TimelineInstant


def record_archived_files(hold: TableHold, gone: Sequence[TimelineInstant]) -> None:
    """Record the files that all archived commits leave behind once `gone` are archived too."""
    archive = read_manifest(hold.storage, hold.config.history_path)
    left = [commit for commit in hold.timeline.commits if commit not in gone]
    if not archive or not left:
        return
    before, complete = _known(hold, gone)
    known = [*before, *_written(hold, gone)]
    deleted = read_deleted(hold.active, hold.timeline) & {file.path for file in known}
    there = _existing(hold, deleted)
    replaced = _replaced(hold, gone)
    files = [
        file
        for group, of in newest_slices(known).items()
        for file in of
        if (group.partition, group.file_id) not in replaced
        and (file.path in there or file.path not in deleted)
    ]
    through = max(file.last for file in archive)
    write_archived_files(
        hold.storage, ArchivedFiles(through, left[0].requested, complete, tuple(files))
    )


def _existing(hold: TableHold, paths: frozenset[str]) -> frozenset[str]:
    """Return those of `paths` that are visible files, listing only their partitions."""
    if not paths:
        return paths
    part = hold.snapshot.within(map(folder_of, paths))
    return paths & {file.path for file in part.files}


def _is_beginning(hold: TableHold, gone: Sequence[TimelineInstant]) -> bool:
    """Return whether `gone` begin with the first commit of the table, so no commit precedes them."""
    commits = [instant for instant in gone if instant.action in COMMIT_ACTIONS]
    if not commits or commits[0] != hold.timeline.commits[0]:
        return False
    first = hold.snapshot.commits.files(commits[0], frozenset())
    return FIRST_COMMIT in (first.extra_metadata or {})


def _known(hold: TableHold, gone: Sequence[TimelineInstant]) -> tuple[list[NamedFile], bool]:
    """Return the recorded files of archived commits; if the record is stale, the files found.

    The second value is whether these are all the files that archived commits left behind.
    """
    if _is_beginning(hold, gone):
        return [], True
    storage, history = hold.storage, hold.config.history_path
    try:
        before = read_archived_files(storage)
    except CorruptError:
        before = None
    if (
        before is not None
        and before.fits(hold.timeline)
        and before.is_current(storage, hold.timeline, history)
    ):
        return list(before.files), before.complete
    snapshot = hold.snapshot
    found, complete = list[NamedFile](), True
    for file in snapshot.files:
        instant = file.name.instant
        if hold.timeline.is_archived(instant):
            completion = snapshot.completion_of(instant)
            # If the archive has dropped the completion time of a log, it is unknown which base file
            # supersedes the log.
            if isinstance(file, BaseFile) or completion != LATEST:
                found.append(NamedFile(file.path, file.size_bytes, instant, completion))
            else:
                complete = False
    return found, complete


def _written(hold: TableHold, gone: Sequence[TimelineInstant]) -> Iterator[NamedFile]:
    commits = [instant for instant in gone if instant.action in COMMIT_ACTIONS]
    counted = {commit.requested for commit in hold.timeline.commits}
    for commit in commits:
        yield from written_files(commit, hold.snapshot.commits.files(commit, None), counted)


def _replaced(hold: TableHold, gone: Sequence[TimelineInstant]) -> frozenset[tuple[str, str]]:
    """Return the file groups that one of `gone` replaced, by partition and file id."""
    found: set[tuple[str, str]] = set()
    for instant in gone:
        if instant.action is Action.REPLACECOMMIT:
            found.update(hold.snapshot.commits.read(instant).replaced_groups())
    return frozenset(found)
