"""Keep the file index up to date: each large commit gets a run right after it completes.

A crash in between, or another engine, leaves a commit without a run. Readers then use the commit
itself, and the next writer that has to read it writes its run.
"""

from collections.abc import Iterable

from lakebed.commit.hold import TableHold
from lakebed.format.timeline.commit_metadata import CommitMetadata
from lakebed.model.instant import Instant
from lakebed.model.options.writers import FILE_INDEX_MIN_FILES
from lakebed.table.files.file_index import FILES_FOLDER, count_files, write_run


def index_files(hold: TableHold, instant: Instant, metadata: CommitMetadata) -> None:
    """Write the run of a commit that has just completed, and missing runs of earlier commits."""
    least = FILE_INDEX_MIN_FILES.value(hold.config.properties)
    done = hold.timeline.completed(instant)
    if done is not None and count_files(metadata) >= least:
        write_run(hold.storage, done, metadata)
    for commit, content in hold.snapshot.commits.uncovered(hold.timeline):
        if commit.requested != instant and count_files(content) >= least:
            write_run(hold.storage, commit, content)


def delete_runs(hold: TableHold, instants: Iterable[Instant]) -> None:
    """Delete the runs of the given instants, which are no longer on the active timeline."""
    gone = frozenset(instants)
    for name in hold.storage.names(FILES_FOLDER):
        if name.partition("_")[0] in gone:
            hold.storage.delete(f"{FILES_FOLDER}/{name}")
