"""Checks files against commits: missing files, unknown files, and inconsistent slices.

The checks use names, sizes and commits alone; only partition metadata files are opened.
"""

from collections import Counter
from collections.abc import Iterator, Mapping

from lakebed.errors import CorruptError, LakebedError
from lakebed.format.files.partition_metadata import PARTITION_METADATA_NAME, PartitionMetadata
from lakebed.format.names.instant_name import LAYOUT_1
from lakebed.index.kinds import strategy_of
from lakebed.services.verify.findings import (
    ADVICE_LOST,
    ADVICE_REWRITE,
    Code,
    Finding,
    Mend,
    Severity,
)
from lakebed.services.verify.inventory import Inventory
from lakebed.table.config.table_config import TableType
from lakebed.table.files.damage import describe
from lakebed.table.files.file_group import (
    BaseFile,
    FileGroupId,
    FileSlice,
    LogFile,
    LostFile,
    join_path,
)
from lakebed.table.files.needed_files import needed_files


def check_named(inventory: Inventory) -> Iterator[Finding]:
    """Find files of the newest slices that are missing, truncated or too long."""
    commits = (
        (commit, inventory.metadata[commit.requested])
        for commit in inventory.timeline.commits
        if commit.requested in inventory.metadata
    )
    try:
        needed = needed_files(commits)
    except CorruptError as error:
        yield Finding(Severity.ERROR, Code.INSTANT_UNREADABLE, str(error), advice=ADVICE_LOST)
        return
    # Up to version 6 a later commit may have appended to the log of another.
    appends = inventory.config.timeline_layout == LAYOUT_1
    for group, files in needed.items():
        if inventory.has_ended(group):
            continue
        for file in files:
            found = inventory.sizes.get(file.path)
            if found is None:
                yield Finding(
                    Severity.ERROR,
                    Code.FILE_MISSING,
                    describe(LostFile(file.path, "it is missing", file.instant, file.rows)),
                    path=file.path,
                    instant=file.instant,
                    advice=ADVICE_LOST,
                )
            elif found < file.size_bytes or (0 < file.size_bytes < found and not appends):
                cut = found < file.size_bytes
                yield Finding(
                    Severity.ERROR if cut else Severity.WARNING,
                    Code.FILE_SIZE,
                    f"{file.path}: its commit wrote {file.size_bytes} bytes, found {found}: it was "
                    + ("truncated, and rows are missing" if cut else "changed since"),
                    path=file.path,
                    advice=ADVICE_LOST if cut else "",
                )


def check_leftovers(inventory: Inventory) -> Iterator[Finding]:
    """Find data files of completed or rolled back instants that no commit lists.

    Files that a pending instant has written so far are not checked.
    """
    timeline = inventory.timeline
    known = {instant.requested for instant in timeline.instants}
    pending = {instant.requested for instant in timeline.pending()}
    for file in inventory.files:
        instant = file.name.instant
        if instant in pending or inventory.counts(file) or _is_change_data(file):
            continue
        if instant in inventory.archived:
            continue  # the active timeline starts before it: only the archive shows its files
        if timeline.completed(instant) is not None:
            yield Finding(
                Severity.WARNING,
                Code.FILE_LEFTOVER,
                f"{file.path}: the commit {instant} does not list it. Lakebed does not read it, but to "
                "Apache Hudi it is data: rows appear twice or reappear",
                path=file.path,
                instant=instant,
                mend=Mend.DELETE_FILE,
            )
        elif instant not in known and isinstance(file, BaseFile):
            yield Finding(
                Severity.ERROR,
                Code.UNCOMMITTED_BASE,
                f"{file.path}: a base file of the instant {instant}, which never completed. "
                "Lakebed does not read it, but Apache Hudi loses the logs after it",
                path=file.path,
                instant=instant,
                mend=Mend.DELETE_FILE,
            )
        elif instant not in known:
            yield Finding(
                Severity.NOTE,
                Code.FILE_LEFTOVER,
                f"{file.path}: a log of the instant {instant}, which never completed; it is "
                "not read",
                path=file.path,
                instant=instant,
                mend=Mend.DELETE_FILE,
            )


def check_slices(
    inventory: Inventory, groups: Mapping[FileGroupId, tuple[FileSlice, ...]]
) -> Iterator[Finding]:
    """Find slices that a table of this type, or with this index, cannot have."""
    if inventory.config.table_type is TableType.COPY_ON_WRITE:
        for slices in groups.values():
            for log in (log for slice_ in slices for log in slice_.log_files):
                yield Finding(
                    Severity.ERROR,
                    Code.LOG_WITHOUT_BASE,
                    f"{log.path}: a log on a copy-on-write table, which has base files only",
                    path=log.path,
                    instant=log.name.instant,
                    advice=ADVICE_REWRITE,
                )
    if inventory.config.index is not None:
        # The column groups of a file group share its bucket.
        whole = dict.fromkeys(group.whole for group in groups)
        for found in strategy_of(inventory.config.index).misplaced_groups(whole):
            yield Finding(
                Severity.ERROR,
                Code.BUCKET_WRONG,
                found.message,
                path=found.path,
                advice=found.advice,
            )


def check_partitions(inventory: Inventory) -> Iterator[Finding]:
    """Find partitions that Apache Hudi would not see because their metadata file is missing."""
    first: dict[str, str] = {}
    for file in inventory.files:
        if inventory.counts(file):
            instant = file.name.instant
            first[file.partition] = min(first.get(file.partition, instant), instant)
    for partition, instant in sorted(first.items()):
        path = join_path(partition, PARTITION_METADATA_NAME)
        marks = inventory.marks.get(partition, ())
        wanted = PartitionMetadata.of(instant, partition)
        if not marks:
            problem = "is missing: Apache Hudi shows no rows of this partition"
        elif path not in marks:
            continue  # in the format of base files; only its existence matters
        else:
            problem = _partition_problem(inventory, path, wanted)
        if problem:
            yield Finding(
                Severity.WARNING if marks else Severity.ERROR,
                Code.PARTITION_METADATA,
                f"{path} {problem}",
                path=path,
                instant=instant,
                mend=Mend.WRITE_PARTITION_METADATA,
            )


def files_by_instant(inventory: Inventory) -> Mapping[str, int]:
    """Count the data files of each instant."""
    return Counter(file.name.instant for file in inventory.files)


def _partition_problem(inventory: Inventory, path: str, wanted: PartitionMetadata) -> str:
    try:
        found = PartitionMetadata.parse(inventory.storage.read(path), path)
    except LakebedError as error:
        return f"cannot be read: {error}"
    if found.depth != wanted.depth:
        return f"records a depth of {found.depth}, but is {wanted.depth} folders deep"
    return ""


def _is_change_data(file: BaseFile | LogFile) -> bool:
    return isinstance(file, LogFile) and file.is_cdc
