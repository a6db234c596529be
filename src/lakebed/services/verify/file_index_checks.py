"""Checks the file index: each large commit must have a run, which lists the same files.

Another run has the column statistics of its base files, which must be those of their footers.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from lakebed.commit.hold import TableHold
from lakebed.commit.indexed_files import needed_statistics
from lakebed.errors import DAMAGE_ERRORS, LakebedError
from lakebed.format.files.parquet_statistics import ChunkStatistics, FileStatistics
from lakebed.format.names.data_names import BaseFileName, parse_data_name
from lakebed.format.names.instant_name import LAYOUT_1
from lakebed.format.timeline.commit_metadata import CommitMetadata, WriteStat
from lakebed.model.executor import Executor, LocalExecutor, TaskId
from lakebed.model.options.writers import FILE_INDEX_MIN_FILES
from lakebed.services.verify.findings import Code, Finding, Mend, Severity
from lakebed.services.verify.inventory import Inventory
from lakebed.services.verify.plan import Step
from lakebed.storage.storage import Storage
from lakebed.table.files.column_statistics import (
    STATISTICS_FOLDER,
    StatisticsRun,
    statistics_path,
    write_statistics,
)
from lakebed.table.files.file_group import BaseFile
from lakebed.table.files.file_index import (
    FILES_FOLDER,
    CommitFiles,
    FileRun,
    commit_files,
    count_files,
    folder_of,
    run_path,
    write_run,
)
from lakebed.table.read.base_file import read_footer
from lakebed.table.store.file_statistics import read_statistics
from lakebed.write.base_file import statistics_columns


def check_file_index(inventory: Inventory) -> Iterator[Finding]:
    """Find runs that are damaged, missing or unused, and runs that differ from their commits."""
    if inventory.config.timeline_layout == LAYOUT_1:
        return
    there = {f"{FILES_FOLDER}/{name}" for name in inventory.storage.names(FILES_FOLDER)}
    least = FILE_INDEX_MIN_FILES.value(inventory.config.properties)
    for commit in inventory.timeline.commits:
        path = run_path(commit)
        try:
            metadata = inventory.commits.read(commit)
        except LakebedError:
            there.discard(path)  # another check reports the commit
            continue
        if path in there:
            yield from _check_run(FileRun(inventory.storage, path), metadata)
        elif count_files(metadata) >= least:
            message = f"commit {commit.requested} is large and has no run in the file index"
            yield _finding(Severity.NOTE, path, f"{message}; reads parse all of it")
        there.discard(path)
    for path in sorted(there):
        yield _finding(Severity.NOTE, path, "it belongs to no commit of the active timeline")


def check_statistics(
    inventory: Inventory, executor: Executor, *, quick: bool = False
) -> Iterator[Finding]:
    """Find column statistics that are damaged, missing or unused.

    Unless `quick`, also those that differ from the footers of their files.
    """
    config, storage = inventory.config, inventory.storage
    if config.timeline_layout == LAYOUT_1:
        return
    names = [f"{STATISTICS_FOLDER}/{name}" for name in storage.names(STATISTICS_FOLDER)]
    needed = needed_statistics(storage, inventory.timeline)
    least = FILE_INDEX_MIN_FILES.value(config.properties)
    for commit in inventory.timeline.commits:
        path = statistics_path(commit.requested, commit.completion or "")
        metadata = inventory.metadata.get(commit.requested)
        if metadata is None or path in names or count_files(metadata) < least:
            continue
        if any(_base_files(metadata)):
            message = f"commit {commit.requested} is large and has no column statistics"
            yield _unread(
                Severity.NOTE, path, f"{message}; reads open the footers of all its files"
            )
    files = {file.path for file in inventory.files}
    for path in sorted(names):
        if path not in needed:
            yield _unread(Severity.NOTE, path, "its commit left no files behind")
            continue
        try:
            held = StatisticsRun(storage, path).read(None)
        except LakebedError as error:
            yield _unread(Severity.WARNING, path, f"{error}; reads open footers instead")
            continue
        if quick:
            continue
        checks = [(file, told) for file, told in held.items() if file in files]
        found = executor.run(partial(_differing, storage), checks, "verify column statistics")
        if wrong := [file for file in found if file]:
            message = f"those of {len(wrong):,} files differ from their footers, so reads miss rows"
            yield _unread(Severity.ERROR, path, f"{message}; one of them is {wrong[0]}")


def _differing(storage: Storage, held: tuple[str, FileStatistics], task: TaskId) -> str:
    """Return the path of a file whose statistics differ from its footer; empty if they agree."""
    del task
    path, told = held
    try:
        found = read_statistics(storage, path, told.columns)
    except DAMAGE_ERRORS:
        return ""  # another check reports the file
    same = found.schema == told.schema and found.columns.keys() == told.columns.keys()
    return "" if same and all(map(_agree, found.columns.values(), told.columns.values())) else path


def _agree(found: ChunkStatistics, told: ChunkStatistics) -> bool:
    """Return whether statistics are those of a footer, or lack bounds that the footer has."""
    lower = None if told.lower is None else found.lower
    upper = None if told.upper is None else found.upper
    return replace(found, lower=lower, upper=upper) == told


def _unread(severity: Severity, path: str, message: str) -> Finding:
    text = f"column statistics: {message}"
    return Finding(severity, Code.FILE_INDEX, text, path=path, mend=Mend.WRITE_STATISTICS)


def _base_files(metadata: CommitMetadata) -> Iterator[WriteStat]:
    for stat in metadata.write_stats():
        name = (stat.path or "").rpartition("/")[2]
        if isinstance(parse_data_name(name), BaseFileName):
            yield stat


def write_file_statistics(hold: TableHold, step: Step) -> str | None:
    """Rewrite the column statistics of a commit from footers; delete them if none are needed."""
    storage = hold.storage
    if step.path not in needed_statistics(storage, hold.timeline):
        storage.delete(step.path)
        return None
    requested, _, _ = step.path.rpartition("/")[2].partition("_")
    written = [
        WriteStat(path=file.path)
        for file in hold.snapshot.files
        if isinstance(file, BaseFile) and file.name.instant == requested
    ]
    columns = statistics_columns(hold.snapshot.schema, hold.config.properties)
    read = partial(_with_statistics, storage, columns)
    stats = LocalExecutor().run(read, written, "read footers")
    if not write_statistics(storage, step.path, CommitMetadata.of("", None, stats)):
        storage.delete(step.path)
    return None


def _with_statistics(
    storage: Storage, columns: Sequence[str], stat: WriteStat, task: TaskId
) -> WriteStat:
    del task
    try:
        return replace(stat, statistics=read_statistics(storage, stat.path or "", columns))
    except DAMAGE_ERRORS:
        return stat


def _check_run(run: FileRun, metadata: CommitMetadata) -> Iterator[Finding]:
    try:
        found = run.read(None)
    except LakebedError as error:
        yield _finding(Severity.WARNING, run.path, f"{error}; reads parse the whole commit instead")
        return
    if _facts(found) != _facts(commit_files(metadata)):
        message = "it does not list the files that its commit lists, so reads miss rows"
        yield _finding(Severity.ERROR, run.path, message)


def _facts(files: CommitFiles) -> tuple[object, ...]:
    """Return the parts of a commit's metadata that readers use."""
    stats = [stat for of in files.stats.values() for stat in of]
    listed = [
        (s.path, s.file_size_in_bytes, s.num_writes, sorted(s.cdc_stats or ())) for s in stats
    ]
    ends = {partition: sorted(ids) for partition, ids in files.replaced.items() if ids}
    return files.head, sorted(listed, key=repr), ends


def _finding(severity: Severity, path: str, message: str) -> Finding:
    return Finding(severity, Code.FILE_INDEX, message, path=path, mend=Mend.WRITE_FILE_RUN)


def write_file_run(hold: TableHold, step: Step) -> str | None:
    """Rewrite the run of a commit; delete the run if the commit is not on the timeline."""
    for commit in hold.timeline.commits:
        if run_path(commit) == step.path:
            metadata = hold.snapshot.commits.read(commit)
            write_run(hold.storage, commit, _with_key_ranges(hold.storage, metadata))
            return None
    hold.storage.delete(step.path)
    return None


def _with_key_ranges(storage: Storage, metadata: CommitMetadata) -> CommitMetadata:
    """Return a commit's metadata with key ranges from the footers of its base files."""
    stats = list(metadata.write_stats())
    found = LocalExecutor().run(partial(_with_key_range, storage), stats, "read footers")
    by_partition: dict[str, list[WriteStat]] = {}
    for stat in found:
        by_partition.setdefault(folder_of((stat.path or "").lstrip("/")), []).append(stat)
    return replace(
        metadata,
        partition_to_write_stats={partition: tuple(of) for partition, of in by_partition.items()},
    )


def _with_key_range(storage: Storage, stat: WriteStat, task: TaskId) -> WriteStat:
    """Return a write stat with the key range of its file; a log, or a lost file, has none."""
    del task
    path = (stat.path or "").lstrip("/")
    if not isinstance(parse_data_name(path.rpartition("/")[2]), BaseFileName):
        return stat
    try:
        footer = read_footer(storage, path)
    except DAMAGE_ERRORS:
        return stat
    if footer.min_key is None or footer.max_key is None:
        return stat
    return replace(stat, key_range=(footer.min_key, footer.max_key))
