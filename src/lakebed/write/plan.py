"""From staged runs to the files to write: new base files, rewritten base files, and logs.

Rows that staging has already written as logs (`LogPolicy`) are not planned here.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from lakebed.errors import UnsupportedError
from lakebed.model.packing import WRITE_FACTOR, file_cost
from lakebed.table.config.table_config import TableType
from lakebed.table.files.file_group import BaseFile, FileGroupId, FileSlice
from lakebed.write.spec.write_spec import WriteSpec
from lakebed.write.staging import Segment


@dataclass(frozen=True, slots=True)
class FileGroupWrite:
    """One file group to write: its new rows, and its old base file if that is rewritten.

    `number` is unique within the write. `segments` are in order of arrival as far as there is one:
    by task, then by flush. With a slice `below` the rows become a log on top of it, otherwise a
    base file. The writes `beside` get the same rows, in other column groups.
    """

    spec: WriteSpec
    number: int
    group: FileGroupId
    old: BaseFile | None
    below: FileSlice | None
    segments: tuple[Segment, ...]
    # Whether some of the rows may have keys that the file group did not hold.
    adds_keys: bool = True
    beside: tuple["FileGroupWrite", ...] = ()

    @property
    def as_log(self) -> bool:
        """Return whether the rows become a log."""
        return self.below is not None

    @property
    def cost_bytes(self) -> int:
        """Estimate the work: an old base file is read and written again."""
        old = 0 if self.old is None else file_cost(WRITE_FACTOR * self.old.size_bytes, 1)
        return old + file_cost(sum(segment.cost_bytes for segment in self.segments), 1)

    @property
    def new_rows(self) -> int:
        """Return the number of rows that were staged for the group."""
        return sum(segment.num_rows for segment in self.segments)

    @property
    def deletes(self) -> int:
        """Return the number of deletes among the staged rows."""
        return sum(segment.num_deletes for segment in self.segments)


def plan_writes(
    segments: Iterable[Segment],
    slices: Mapping[FileGroupId, FileSlice],
    spec: WriteSpec,
    filled: Collection[FileGroupId] = (),
) -> list[FileGroupWrite]:
    """Return the files to write, largest first so that no long task comes last.

    `slices` are the file slices that the write may add to, by file group. On a merge-on-read table
    an existing file group gets a log; a new one gets a base file (a log with non-blocking writers),
    and so does one that is `filled` with new keys: a simple index finds keys in base files only.
    """
    staged: dict[FileGroupId, list[Segment]] = defaultdict(list)
    for segment in segments:
        staged[segment.group].append(segment)
    on_read = spec.config.table_type is TableType.MERGE_ON_READ
    writes: list[FileGroupWrite] = []
    parts = spec.parts if spec.touched else ()
    for number, (group, held) in enumerate(staged.items()):
        existing = slices.get(group)
        if spec.touched:
            writes += _plan_groups(group, held, slices.get(group), parts, number * len(parts))
            continue
        if existing is not None and not on_read and existing.needs_merge:
            raise UnsupportedError(
                f"file group {group.file_id} in partition {group.partition!r} of a COPY_ON_WRITE table has log "
                "files; they were written by a merge-on-read writer"
            )
        if existing is None and spec.is_non_blocking:
            existing = FileSlice(group, spec.instant, None)
        as_log = on_read and existing is not None and group not in filled
        writes.append(
            FileGroupWrite(
                spec,
                number,
                group,
                existing.base_file if existing is not None and not as_log else None,
                existing if as_log else None,
                tuple(sorted(held, key=lambda segment: segment.arrival)),
                existing is None or group in filled,
            )
        )
    return sorted(writes, key=_largest_first)


def _largest_first(write: FileGroupWrite) -> tuple[int, str, str]:
    return -write.new_rows, write.group.file_id, write.group.column_group


def _plan_groups(
    group: FileGroupId,
    segments: Sequence[Segment],
    whole: FileSlice | None,
    parts: Sequence[WriteSpec],
    start: int,
) -> Iterator[FileGroupWrite]:
    """Yield the writes to the column groups of a file group, numbered from `start`.

    A base file must hold the keys of all column groups, so a write creates one only in a new file
    group. Column groups with the same merge rule get the same rows, so they are written together.
    """
    held = tuple(sorted(segments, key=lambda segment: segment.arrival))
    there = {} if whole is None else whole.by_group
    alike: dict[object, list[FileGroupWrite]] = defaultdict(list)
    for number, part in enumerate(parts, start):
        as_logs = part.is_non_blocking or whole is not None
        own = replace(group, column_group=part.column_group)
        below = there.get(part.column_group) or FileSlice(own, part.instant, None)
        write = FileGroupWrite(part, number, own, None, below if as_logs else None, held)
        # Partial rows are completed from those below, and deletes are a part of the rows.
        is_own = part.is_partial or part.deletes_only or part.supersedes
        apart = part.column_group if is_own else None
        alike[part.staged_rule if as_logs else part.rule, apart].append(write)
    for first, *others in alike.values():
        yield replace(first, beside=tuple(others))
