"""Checks the file index: each large commit must have a run, which lists the same files."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from lakebed.commit.hold import TableHold
from lakebed.errors import DAMAGE_ERRORS, LakebedError
from lakebed.format.names.data_names import BaseFileName, parse_data_name
from lakebed.format.names.instant_name import LAYOUT_1
from lakebed.format.timeline.commit_metadata import CommitMetadata, WriteStat
from lakebed.model.executor import LocalExecutor, TaskId
from lakebed.model.options.writers import FILE_INDEX_MIN_FILES
from lakebed.services.verify.findings import Code, Finding, Mend, Severity
from lakebed.services.verify.inventory import Inventory
from lakebed.services.verify.plan import Step
from lakebed.storage.storage import Storage
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
