"""Which file groups to cluster together: pure rules over sizes and key ranges.

File groups are worth clustering if they become fewer, hold unsorted rows, or have overlapping key
ranges. None of this is true of a clustered partition, so clustering it again does nothing.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from lakebed.commit.hold import OUR_PLAN
from lakebed.format.timeline.plans import PlanKind, encode_plan
from lakebed.model.options.services import ClusteringOptions
from lakebed.table.files.file_group import BaseFile, FileGroupId, FileSlice

_EXECUTION = "org.apache.hudi.client.clustering.run.strategy.SparkSortAndSizeExecutionStrategy"
_SORT_COLUMNS = "hoodie.clustering.plan.strategy.sort.columns"
_MB = 1024 * 1024
# The largest files show best how large a row is; a file of a few rows is mostly footer.
_SAMPLE_FILES = 4

Spell = Callable[[str], str]
"""Converts a path below the table to the URL that Hudi would use."""


@dataclass(frozen=True, slots=True)
class FileFacts:
    """Facts from the footer of a base file; `min_key` and `max_key` are None if it lacks them."""

    rows: int
    min_key: str | None
    max_key: str | None
    is_ordered: bool


@dataclass(frozen=True, slots=True)
class InputGroup:
    """File slices of one partition that become about `outputs` new file groups.

    `rows` is the number of rows in their base files, `row_bytes` the size of one; 0 if there is no
    base file.
    """

    slices: tuple[FileSlice, ...]
    rows: int
    row_bytes: float
    outputs: int

    @property
    def partition(self) -> str:
        """Return the partition of all slices."""
        return self.slices[0].group.partition

    @property
    def size_bytes(self) -> int:
        """Return the total size of the files of the slices."""
        return sum(map(slice_bytes, self.slices))


def find_candidates(
    slices: Iterable[FileSlice],
    busy: Collection[FileGroupId],
    partitions: Collection[str] | None,
    options: ClusteringOptions,
) -> list[FileSlice]:
    """Return the small intact slices of `partitions` (None means all) that are in no pending plan."""
    return [slice_ for slice_ in find_small(slices, busy, partitions, options) if not slice_.damage]


def find_small(
    slices: Iterable[FileSlice],
    busy: Collection[FileGroupId],
    partitions: Collection[str] | None,
    options: ClusteringOptions,
) -> list[FileSlice]:
    """Return the small slices of `partitions`, damaged or intact, that are in no pending plan."""
    return [
        slice_
        for slice_ in slices
        if slice_.group not in busy
        and (partitions is None or slice_.group.partition in partitions)
        and (slice_.base_file is None or slice_.base_file.size_bytes < options.small_limit)
    ]


def plan_groups(
    candidates: Iterable[FileSlice], facts: Mapping[str, FileFacts], options: ClusteringOptions
) -> tuple[InputGroup, ...]:
    """Group candidates that are worth clustering; groups that save the most files come first.

    `facts` are the facts of their base files, by path.
    """
    by_partition: dict[str, list[FileSlice]] = defaultdict(list)
    for slice_ in candidates:
        by_partition[slice_.group.partition].append(slice_)
    groups = [
        group
        for _, held in sorted(by_partition.items())
        for packed in _pack(held, facts, options.group_bytes)
        if _is_worth(group := _group(packed, facts, options), facts)
    ]
    groups.sort(key=lambda group: group.outputs - len(group.slices))
    return tuple(groups[: options.max_groups])


def slice_bytes(slice_: FileSlice) -> int:
    """Return the total size of the files of a slice."""
    return sum(file.size_bytes for file in slice_.files)


def encode_clustering(groups: Iterable[InputGroup], key: Sequence[str], spell: Spell) -> bytes:
    """Encode Hudi's HoodieRequestedReplaceMetadata with the plan, marked as Lakebed's."""
    plan = {
        "inputGroups": [_encode_group(group, spell) for group in groups],
        "strategy": {
            "strategyClassName": _EXECUTION,
            "strategyParams": {_SORT_COLUMNS: ",".join(key)},
            "version": 1,
        },
        "extraMetadata": dict([OUR_PLAN]),
        "version": 1,
        "preserveHoodieMetadata": True,
        "missingSchedulePartitions": [],
    }
    values = {"operationType": "CLUSTER", "clusteringPlan": plan, "extraMetadata": {}, "version": 1}
    return encode_plan(PlanKind.REQUESTED_REPLACE, values)


def _pack(
    slices: Iterable[FileSlice], facts: Mapping[str, FileFacts], max_bytes: int
) -> list[list[FileSlice]]:
    """Divide the slices of a partition, in key order, into portions of about `max_bytes`."""

    def place(slice_: FileSlice) -> tuple[str, FileGroupId]:
        fact = _fact(slice_.base_file, facts)
        return (fact.min_key if fact else None) or "", slice_.group

    packed: list[list[FileSlice]] = []
    room = 0
    for slice_ in sorted(slices, key=place):
        size = slice_bytes(slice_)
        if not packed or size > room:
            packed.append([])
            room = max_bytes
        packed[-1].append(slice_)
        room -= size
    return packed


def _group(
    slices: Sequence[FileSlice], facts: Mapping[str, FileFacts], options: ClusteringOptions
) -> InputGroup:
    bases = [slice_.base_file for slice_ in slices if slice_.base_file is not None]
    known = [(base.size_bytes, fact.rows) for base in bases if (fact := _fact(base, facts))]
    sample = sorted(known, reverse=True)[:_SAMPLE_FILES]
    sample_rows = sum(rows for _, rows in sample)
    size_bytes = sum(map(slice_bytes, slices))
    return InputGroup(
        tuple(slices),
        sum(rows for _, rows in known),
        sum(size for size, _ in sample) / sample_rows if sample_rows else 0.0,
        max(1, math.ceil(size_bytes / options.target_bytes)),
    )


def _is_worth(group: InputGroup, facts: Mapping[str, FileFacts]) -> bool:
    # Sizes are estimates: if saving fewer files were enough, clustering might repeat endlessly.
    if group.outputs * 4 <= len(group.slices) * 3:
        return True
    known = [fact for slice_ in group.slices if (fact := _fact(slice_.base_file, facts))]
    if not all(fact.is_ordered for fact in known):
        return True
    ranges = sorted((f.min_key, f.max_key) for f in known if f.min_key and f.max_key)
    return any(following <= last for (_, last), (following, _) in pairwise(ranges))


def _fact(base: BaseFile | None, facts: Mapping[str, FileFacts]) -> FileFacts | None:
    return None if base is None else facts.get(base.path)


def _encode_group(group: InputGroup, spell: Spell) -> dict[str, object]:
    logs = [log.size_bytes for slice_ in group.slices for log in slice_.log_files]
    size_mb = group.size_bytes // _MB
    return {
        "slices": [_encode_slice(slice_, spell) for slice_ in group.slices],
        "metrics": {
            "TOTAL_LOG_FILES": float(len(logs)),
            "TOTAL_LOG_FILES_SIZE": float(sum(logs)),
            "TOTAL_IO_READ_MB": float(size_mb),
            "TOTAL_IO_WRITE_MB": float(size_mb),
            "TOTAL_IO_MB": float(2 * size_mb),
        },
        "numOutputFileGroups": group.outputs,
        "extraMetadata": {},
        "version": 1,
    }


def _encode_slice(slice_: FileSlice, spell: Spell) -> dict[str, object]:
    base = slice_.base_file
    return {
        "dataFilePath": "" if base is None else spell(base.path),
        "deltaFilePaths": [spell(log.path) for log in (*slice_.tombstones, *slice_.log_files)],
        "fileId": slice_.group.file_id,
        "partitionPath": slice_.group.partition,
        "bootstrapFilePath": "",
        "version": 1,
    }
