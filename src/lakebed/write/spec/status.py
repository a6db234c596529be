"""What one task wrote."""

from dataclasses import dataclass

from lakebed.format.timeline.commit_metadata import WriteStat

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
"""What Hudi says of every file that a write makes: the counters of its services are 0."""


@dataclass(frozen=True, slots=True)
class RowCounts:
    """Rows that came, changed and went, as readers see them; None where nothing was looked up."""

    inserted: int | None = None
    updated: int | None = None
    deleted: int | None = None


@dataclass(frozen=True, slots=True)
class WriteStatus:
    """What one task wrote to one file group: a write stat for each of its files.

    Only files that a status names count.
    """

    partition: str
    file_id: str
    stats: tuple[WriteStat, ...]
    counts: RowCounts = RowCounts()
