"""Keep the file index up to date: each large commit gets its runs right after it completes.

A crash in between, or another engine, leaves a commit without runs. Readers then use the commit
itself, and the next writer that has to read it writes its run. Only the writers of the files know
their column statistics: without these, readers open footers.
"""

from collections.abc import Iterable

from lakebed.commit.hold import TableHold
from lakebed.errors import CorruptError
from lakebed.format.timeline.commit_metadata import CommitMetadata
from lakebed.model.instant import Instant
from lakebed.model.options.writers import FILE_INDEX_MIN_FILES
from lakebed.storage.storage import Storage
from lakebed.table.files.archived_files import read_archived_files
from lakebed.table.files.column_statistics import (
    STATISTICS_FOLDER,
    statistics_path,
    write_statistics,
)
from lakebed.table.files.file_index import FILES_FOLDER, count_files, write_run
from lakebed.timeline.timeline import Timeline


def index_files(hold: TableHold, instant: Instant, metadata: CommitMetadata) -> None:
    """Write the runs of a commit that has just completed, and missing runs of earlier commits."""
    least = FILE_INDEX_MIN_FILES.value(hold.config.properties)
    done = hold.timeline.completed(instant)
    if done is not None and count_files(metadata) >= least:
        write_run(hold.storage, done, metadata)
        path = statistics_path(done.requested, done.completion or "")
        write_statistics(hold.storage, path, metadata)
    for commit, content in hold.snapshot.commits.uncovered(hold.timeline):
        if commit.requested != instant and count_files(content) >= least:
            write_run(hold.storage, commit, content)


def delete_runs(hold: TableHold, instants: Iterable[Instant]) -> None:
    """Delete the runs of the given instants, which are no longer on the active timeline.

    Column statistics are kept as long as one of the files that archived commits left behind needs
    them.
    """
    gone = frozenset(instants)
    for name in hold.storage.names(FILES_FOLDER):
        if name.partition("_")[0] in gone:
            hold.storage.delete(f"{FILES_FOLDER}/{name}")
    if not (names := hold.storage.names(STATISTICS_FOLDER)):
        return
    needed = needed_statistics(hold.storage, hold.timeline)
    for name in names:
        if (path := f"{STATISTICS_FOLDER}/{name}") not in needed:
            hold.storage.delete(path)


def needed_statistics(storage: Storage, timeline: Timeline) -> frozenset[str]:
    """Return the paths that column statistics of current files would have."""
    pairs = {(commit.requested, commit.completion or "") for commit in timeline.commits}
    try:
        record = read_archived_files(storage)
    except CorruptError:
        record = None
    if record is not None:
        pairs |= {(file.instant, file.completion) for file in record.files}
    return frozenset(statistics_path(*pair) for pair in pairs)
