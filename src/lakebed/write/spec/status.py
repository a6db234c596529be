"""The result of one task."""

from dataclasses import dataclass, replace

from lakebed.format.timeline.commit_metadata import WriteStat
from lakebed.index.secondary.manifest import RunFile
from lakebed.index.secondary.new_entries import NewEntries
from lakebed.table.files.file_group import FileGroupId
from lakebed.table.store.data_writer import DataFileStats

NOTHING_COMPACTED = WriteStat(
    total_write_errors=0,
    total_log_records=0,
    total_log_files=0,
    total_log_blocks=0,
    total_corrupt_log_block=0,
    total_rollback_blocks=0,
    total_updated_records_compacted=0,
    total_log_files_compacted=0,
    total_log_size_compacted=0,
)
"""Fields that Hudi sets for every file of a write: the counters of its services are 0."""


def file_stat(group: FileGroupId, file: DataFileStats) -> WriteStat:
    """Return the stat of a file without its previous commit, and without inserts and updates."""
    stat = replace(
        NOTHING_COMPACTED,
        file_id=group.file_id,
        partition_path=group.partition,
        path=file.path,
        key_range=file.key_range,
        statistics=file.statistics,
        num_writes=file.rows,
        num_deletes=file.deletes,
        num_update_writes=0,
        num_inserts=0,
        num_updates=0,
        total_write_bytes=file.size_bytes,
        file_size_in_bytes=file.size_bytes,
    )
    if file.version is None:
        return stat
    name = file.path.rpartition("/")[2]
    return replace(stat, log_version=file.version, log_offset=0, base_file="", log_files=(name,))


@dataclass(frozen=True, slots=True)
class RowCounts:
    """Rows inserted, updated and deleted, as readers see them; None if not looked up."""

    inserted: int | None = None
    updated: int | None = None
    deleted: int | None = None


@dataclass(frozen=True, slots=True)
class NewKeys:
    """The keys that a task added to its file group, for the record index.

    Many keys are written as a `run`. A few keys are returned as Arrow `batches`, so that the driver
    can write those of all tasks as one run.
    """

    run: RunFile | None = None
    batches: bytes = b""


@dataclass(frozen=True, slots=True)
class WriteStatus:
    """The files that one task wrote to one file group: a write stat for each.

    Only files that a status lists become part of the table. `entries` are the entries of the rows
    in secondary indexes.
    """

    group: FileGroupId
    stats: tuple[WriteStat, ...]
    counts: RowCounts = RowCounts()
    entries: tuple[NewEntries, ...] = ()
    new_keys: NewKeys | None = None
