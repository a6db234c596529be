"""Turns the candidates of secondary indexes into key filters, and selects the slices to read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.expr.constraints import Constraints
from lakebed.format.names.meta_columns import PARTITION_PATH, RECORD_KEY
from lakebed.index.secondary.open_index import Candidates
from lakebed.model.packing import file_cost
from lakebed.scan.prune import prune_by_index
from lakebed.table.config.table_config import TableConfig
from lakebed.table.files.file_group import FileGroupId, FileSlice
from lakebed.table.read.key_filter import KeyFilter

KEY_BYTES = 1 << 20
"""Roughly how many bytes of a large file are read to find one key in it."""


_NO_KEYS = KeyFilter(keys=())


@dataclass(frozen=True, slots=True)
class CandidateKeys:
    """The candidate keys of each partition; all rows of the file groups `whole` are read."""

    by_partition: Mapping[str, KeyFilter]
    whole: frozenset[FileGroupId] = frozenset()

    def of(self, group: FileGroupId) -> KeyFilter | None:
        """Return the keys to read from a file group; None for all keys."""
        if group.whole in self.whole:
            return None
        return self.by_partition.get(group.partition, _NO_KEYS)


def candidate_keys(
    candidates: Candidates, key_filter: KeyFilter | None, slices: Sequence[FileSlice]
) -> CandidateKeys:
    """Return the candidates by partition, without those that `key_filter` or the slices exclude."""
    keys = candidates.keys
    if key_filter is not None:
        keys = keys.filter(key_filter.mask(keys.column(RECORD_KEY).combine_chunks()))
    there = pa.array(sorted({slice_.group.partition for slice_ in slices}), pa.string())
    keys = keys.filter(pc.is_in(keys.column(PARTITION_PATH), value_set=there))
    grouped = keys.group_by(PARTITION_PATH, use_threads=False).aggregate([(RECORD_KEY, "list")])
    return CandidateKeys(
        {
            row[PARTITION_PATH]: KeyFilter.of(keys=row[f"{RECORD_KEY}_list"])
            for row in grouped.to_pylist()
        },
        candidates.whole,
    )


def slices_with(
    config: TableConfig, schema: pa.Schema, keys: CandidateKeys, slices: Sequence[FileSlice]
) -> tuple[tuple[FileSlice, ...], int]:
    """Return the slices that can hold a candidate, in their order, and the cost of reading them."""
    held: dict[str, list[FileSlice]] = {}
    chosen: set[FileGroupId] = set()
    cost = 0
    for slice_ in slices:
        if slice_.group.whole in keys.whole:
            chosen.add(slice_.group)
            cost += slice_.cost_bytes
        elif slice_.group.partition in keys.by_partition:
            held.setdefault(slice_.group.partition, []).append(slice_)
    for partition, members in held.items():
        wanted = keys.by_partition[partition]
        found = prune_by_index(config, schema, Constraints({}), wanted, members)
        share = -(-len(wanted.keys or ()) // max(1, len(found)))
        chosen |= {slice_.group for slice_ in found}
        cost += sum(keys_cost(slice_, share) for slice_ in found)
    return tuple(slice_ for slice_ in slices if slice_.group in chosen), cost


def keys_cost(slice_: FileSlice, number: int) -> int:
    """Estimate the cost of reading `number` keys of a slice, in bytes."""
    sizes = (min(file.size_bytes, number * KEY_BYTES) for file in slice_.files)
    return sum(file_cost(size, 1) for size in sizes)
