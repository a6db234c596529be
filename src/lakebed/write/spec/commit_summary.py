"""The result of a write, as a value that prints itself."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Self

from lakebed.format.timeline.commit_metadata import CommitMetadata, WriteStat
from lakebed.terminal.html import facts_html
from lakebed.terminal.text import plural, size_text
from lakebed.timeline.timeline import TimelineInstant
from lakebed.write.spec.status import RowCounts

_NO_ROWS = RowCounts(0, 0, 0)


@dataclass(frozen=True, slots=True)
class Commit:
    """The result of a write: its instant, its completion time, and each file that it wrote.

    `inserted`, `updated` and `deleted` count rows as readers see them, and are None if the write
    did not look them up: a log is appended to a file group without reading the files below it.
    """

    instant: str
    completion_time: str
    action: str
    operation: str
    write_stats: tuple[WriteStat, ...] = field(repr=False)
    replaced_file_groups: int = 0
    inserted: int | None = None
    updated: int | None = None
    deleted: int | None = None
    # The number of buckets per partition, if this write determined it for the table.
    buckets: int | None = None

    @classmethod
    def of(
        cls,
        instant: TimelineInstant,
        completion: str,
        metadata: CommitMetadata,
        counts: RowCounts = _NO_ROWS,
    ) -> Self:
        """Return the result of a completed write from its metadata and the counts of its rows."""
        return cls(
            instant.requested,
            completion,
            str(instant.action),
            metadata.operation_type or "",
            tuple(metadata.write_stats()),
            len(list(metadata.replaced_groups())),
            counts.inserted,
            counts.updated,
            counts.deleted,
        )

    @property
    def rows(self) -> int:
        """Return the number of rows in the files that the commit wrote, rewritten rows included."""
        return sum(stat.num_writes or 0 for stat in self.write_stats)

    @property
    def size_bytes(self) -> int:
        """Return the total size of the files that the commit wrote."""
        return sum(stat.file_size_in_bytes or 0 for stat in self.write_stats)

    def __str__(self) -> str:
        """Return a one-line summary.

        >>> print(Commit("20260102030405006", "", "commit", "UPSERT", (), 0, 2, 1, 0))
        upsert 20260102030405006: 2 rows inserted, 1 updated, 0 deleted; no files
        """
        if self.inserted is None or self.updated is None:
            parts = [f"{plural(self.rows, 'row')} written as inserts or updates"]
        else:
            parts = [f"{plural(self.inserted, 'row')} inserted", f"{self.updated:,} updated"]
        if self.deleted is not None:
            parts.append(f"{self.deleted:,} deleted")
        count = len(self.write_stats)
        files = f"{plural(count, 'file')} ({self.size_bytes:,} bytes)" if count else "no files"
        if self.replaced_file_groups:
            files += f", {plural(self.replaced_file_groups, 'file group')} replaced"
        if self.buckets is not None:
            each = " per partition" if any(stat.partition_path for stat in self.write_stats) else ""
            files += f"; the table has {plural(self.buckets, 'bucket')}{each} from now on"
        return f"{self.operation.lower()} {self.instant}: {', '.join(parts)}; {files}"

    def _repr_html_(self) -> str:
        return facts_html(
            f"{self.operation.lower()} {self.instant}",
            {
                "completed": self.completion_time,
                "rows inserted": self.inserted,
                "rows updated": self.updated,
                "rows deleted": self.deleted,
                "rows written": f"{self.rows:,}",
                "files": f"{len(self.write_stats):,} ({size_text(self.size_bytes)})",
                "file groups replaced": self.replaced_file_groups or None,
                "buckets from now on": self.buckets,
            },
        )


def total(counts: Iterable[RowCounts]) -> RowCounts:
    """Add up the counts; a sum is None if any of its parts is None."""
    held = list(counts)
    return RowCounts(
        _sum(one.inserted for one in held),
        _sum(one.updated for one in held),
        _sum(one.deleted for one in held),
    )


def _sum(numbers: Iterable[int | None]) -> int | None:
    found = 0
    for number in numbers:
        if number is None:
            return None
        found += number
    return found
