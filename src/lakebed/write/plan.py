"""From staged runs to one base file per file group: who is new, who is rewritten."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from lakebed.errors import UnsupportedError
from lakebed.index.bucket import BucketPlace, new_file_id
from lakebed.model.clock import Clock
from lakebed.table.config import TableType
from lakebed.table.file_group import BaseFile, FileSlice
from lakebed.write.spec import WriteSpec
from lakebed.write.staging import Segment


@dataclass(frozen=True, slots=True)
class FileGroupWrite:
    """One base file to write: its file group, its old base file if any, its new rows.

    `number` is unique within the write. `segments` are in order of arrival as far as
    there is one: by task, then by flush.
    """

    spec: WriteSpec
    number: int
    place: BucketPlace
    file_id: str
    old: BaseFile | None
    segments: tuple[Segment, ...]

    @property
    def new_rows(self) -> int:
        """Add up the rows that were staged for the group."""
        return sum(segment.num_rows for segment in self.segments)


def plan_base_files(
    segments: Iterable[Segment],
    slices: Mapping[BucketPlace, FileSlice],
    spec: WriteSpec,
    clock: Clock,
) -> list[FileGroupWrite]:
    """Give the base files to write, largest first so that no long task comes last.

    On a merge-on-read table an existing file group would need a log, which this
    release does not write: refused by name, before anything is written.
    """
    staged: dict[BucketPlace, list[Segment]] = defaultdict(list)
    for segment in segments:
        staged[BucketPlace(segment.partition, segment.bucket)].append(segment)
    writes = []
    for number, (place, held) in enumerate(staged.items()):
        existing = slices.get(place)
        if existing is not None:
            _check_rewritable(place, existing, spec)
        writes.append(
            FileGroupWrite(
                spec,
                number,
                place,
                existing.group.file_id if existing else new_file_id(place, clock),
                existing.base_file if existing else None,
                tuple(sorted(held, key=lambda segment: segment.arrival)),
            )
        )
    return sorted(writes, key=lambda write: (-write.new_rows, write.file_id))


def _check_rewritable(place: BucketPlace, existing: FileSlice, spec: WriteSpec) -> None:
    if spec.config.table_type is TableType.MERGE_ON_READ:
        raise UnsupportedError(
            f"table {spec.config.name!r}: file group {existing.group.file_id} (partition "
            f"{place.partition!r}, bucket {place.bucket}) exists; this release cannot yet insert into "
            'rows that a MERGE_ON_READ table holds already: create it with table_type="COPY_ON_WRITE"'
        )
    if existing.needs_merge:
        raise UnsupportedError(
            f"table {spec.config.name!r}: file group {existing.group.file_id} has log files, "
            "which this release does not merge"
        )
