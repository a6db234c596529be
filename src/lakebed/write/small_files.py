"""Assigns new keys to base files: small files are filled up, the rest goes to new file groups.

This is Hudi's small file handling, for an index that only looks at base files. A file group with
logs is left alone: compaction writes its next base file. If the rows of a partition do not fit into
one file, they are merged into one temporary run and split in key order, at batch boundaries.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from lakebed.format.names.meta_columns import RECORD_KEY
from lakebed.index.holders import new_file_id
from lakebed.merge.passes import merge_in_passes
from lakebed.merge.run import Run
from lakebed.model.executor import Executor, TaskId
from lakebed.model.options.writers import FileSizes
from lakebed.table.files.file_group import BaseFile, FileGroupId, FileSlice
from lakebed.table.read.base_file import read_footer
from lakebed.write.spec.operation import BULK_INSERT
from lakebed.write.spec.write_spec import WriteSpec
from lakebed.write.staging import Segment, read_segment, spill_batches, spiller

# The largest files of a partition show best how large a row is; a few are enough.
_SAMPLE_FILES = 4
# The run is split at batch boundaries, so a batch must be a small part of a file.
_PIECES = 16


@dataclass(frozen=True, slots=True)
class NewRows:
    """The new keys of one partition, the files that may take them, and files to estimate from."""

    spec: WriteSpec
    partition: str
    segments: tuple[Segment, ...]
    small: tuple[BaseFile, ...]
    sample: tuple[BaseFile, ...]
    sizes: FileSizes

    @property
    def cost_bytes(self) -> int:
        """Return the estimated cost of this task, in bytes."""
        return sum(segment.cost_bytes for segment in self.segments)


def fill_small_files(
    segments: Iterable[Segment],
    slices: Mapping[FileGroupId, FileSlice],
    spec: WriteSpec,
    executor: Executor,
) -> tuple[list[Segment], frozenset[FileGroupId]]:
    """Assign a file group to each segment; return the segments, and the groups that were filled up.

    `slices` are the file slices that the write may add to.
    """
    settled: list[Segment] = []
    new: dict[str, list[Segment]] = defaultdict(list)
    for segment in segments:
        if segment.file_id is not None:
            settled.append(segment)
        else:
            new[segment.partition].append(segment)
    based: dict[str, list[FileSlice]] = defaultdict(list)
    for slice_ in slices.values():
        based[slice_.group.partition].append(slice_)
    tasks = []
    added: list[Segment] = []
    for partition, held in new.items():
        rows = _new_rows(spec, partition, held, based[partition])
        if _fits_one(rows):
            added += [replace(segment, file_id=_targets(rows)[0]) for segment in held]
        else:
            tasks.append(rows)
    for cut in executor.run(cut_new_rows, tasks, "cut new rows"):
        added += cut
    took = {segment.group for segment in added}
    return settled + added, frozenset(group for group in slices if group in took)


def _new_rows(
    spec: WriteSpec, partition: str, segments: Sequence[Segment], slices: Sequence[FileSlice]
) -> NewRows:
    sizes = FileSizes.of(spec.config.properties)
    files = [slice_.base_file for slice_ in slices if slice_.base_file is not None]
    small = [
        slice_.base_file
        for slice_ in slices
        if slice_.base_file is not None
        and not slice_.needs_merge
        and not slice_.tombstones  # late rows must meet the tombstones in their slice
        and slice_.base_file.size_bytes < sizes.small_limit
        and spec.operation != BULK_INSERT
    ]
    return NewRows(
        spec,
        partition,
        tuple(sorted(segments, key=lambda segment: segment.arrival)),
        tuple(sorted(small, key=lambda file: (file.size_bytes, file.path))),
        tuple(sorted(files, key=lambda file: (-file.size_bytes, file.path))[:_SAMPLE_FILES]),
        sizes,
    )


def _targets(rows: NewRows) -> tuple[str, int]:
    """Return the file group that takes rows first, and its room in bytes."""
    if rows.small:
        return rows.small[0].name.file_id, rows.sizes.max_size - rows.small[0].size_bytes
    return new_file_id(rows.partition, 0, rows.spec.seed), rows.sizes.max_size


def _fits_one(rows: NewRows) -> bool:
    """Return whether the first file takes all rows as they are, without dropping deletes."""
    size_bytes = sum(segment.size_bytes for segment in rows.segments)
    deletes = any(segment.num_deletes for segment in rows.segments)
    return not deletes and size_bytes <= _targets(rows)[1]


def cut_new_rows(rows: NewRows, task: TaskId) -> list[Segment]:
    """Merge the new rows of a partition into one temporary run and distribute it.

    Deletes among the new rows are dropped, as no file group holds their keys.
    """
    spec = rows.spec
    spill = spiller(rows.segments[0], spec, f"fill-{task.write_token}-pass")
    seen_bytes = 0

    def merged() -> Iterator[pa.RecordBatch]:
        nonlocal seen_bytes
        runs = [
            Run(segment.path, read_segment(spec.storage, segment), partial=spec.is_partial)
            for segment in rows.segments
        ]
        fields = [field.with_nullable(True) for field in spec.view.schema]
        schema = pa.schema([pa.field(RECORD_KEY, pa.string()), *fields])
        for batch in merge_in_passes(runs, spec.staged_rule, schema, spill):
            seen_bytes += batch.nbytes
            piece = max(
                1, (rows.sizes.max_size // _PIECES) * batch.num_rows // max(1, batch.nbytes)
            )
            for start in range(0, batch.num_rows, piece):
                yield batch.slice(start, piece)

    path, counts = spill_batches(merged(), spec, f"fill-{task.write_token}")
    if not counts:
        return []
    row_bytes = _row_bytes(rows, seen_bytes / sum(counts))
    whole = replace(
        rows.segments[0], path=path, arrival=(0, 0), num_deletes=0, size_bytes=seen_bytes
    )
    return [
        replace(whole, file_id=file_id, first_batch=first, num_batches=end - first, num_rows=size)
        for file_id, first, end in _cut(rows, counts, row_bytes)
        if (size := sum(counts[first:end]))
    ]


def _row_bytes(rows: NewRows, staged: float) -> float:
    """Estimate the size of a row in a base file: as in the largest, at most as in memory.

    A file of a few rows is mostly footer.
    """
    footers = [read_footer(rows.spec.storage, file.path) for file in rows.sample]
    count = sum(footer.num_rows for footer in footers)
    if count == 0:
        return staged
    return min(staged, sum(file.size_bytes for file in rows.sample) / count)


def _cut(rows: NewRows, counts: Sequence[int], row_bytes: float) -> Iterator[tuple[str, int, int]]:
    """Yield a file id and a range of batches for each file group, starting with the small ones."""
    at = 0
    for file in rows.small:
        room = (rows.sizes.max_size - file.size_bytes) / row_bytes
        end = _batches_within(counts, at, room)
        if end > at:
            yield file.name.file_id, at, end
        at = end
    left = sum(counts[at:])
    # File groups of equal size, rather than full ones and a small last one.
    groups = max(1, -int(-left * row_bytes // rows.sizes.max_size))
    start = at
    for number in range(groups):
        end = _batches_within(counts, start, left * (number + 1) / groups)
        if end > at:
            yield new_file_id(rows.partition, number, rows.spec.seed), at, end
        at = end


def _batches_within(counts: Sequence[int], start: int, room: float) -> int:
    """Return the end of the batches from `start` on that have at most `room` rows in total."""
    taken = 0
    for end in range(start, len(counts)):
        taken += counts[end]
        if taken > room:
            return end
    return len(counts)
