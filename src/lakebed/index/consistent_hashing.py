"""The consistent-hashing bucket index: where on the ring of its partition a record key falls."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakebed.errors import InvalidError
from lakebed.format.names.consistent_hashing import MAX_VALUE, HashingMetadata, key_hashes
from lakebed.index.bucket import BucketId, check_sample
from lakebed.index.rings import Rings, load_rings
from lakebed.table.config.writer_index import ConsistentHashingIndex, WriterIndex
from lakebed.table.files.file_group import FileGroupId
from lakebed.table.snapshot import Snapshot


def agrees(named: WriterIndex, stored: WriterIndex) -> bool:
    """Return whether the index that a caller named is the stored one; 0 buckets are as many."""
    if isinstance(named, ConsistentHashingIndex) and named.buckets == 0:
        return isinstance(stored, ConsistentHashingIndex)
    return named == stored


def settle_hashing(snapshot: Snapshot, named: ConsistentHashingIndex) -> ConsistentHashingIndex:
    """Settle the index of a table that has none stored: what its rings say counts.

    With 0 buckets a new partition begins with as many as the others did.
    """
    loaded = load_rings(snapshot)
    if loaded.refused:
        raise InvalidError(next(iter(loaded.refused.values())))
    known = loaded.buckets
    if known is None and named.buckets == 0:
        counts = sorted({ring.num_buckets for ring in loaded.rings.values()})
        held = f"its partitions have {', '.join(map(str, counts))}" if counts else "it has none yet"
        raise InvalidError(
            f'table {snapshot.config.name!r}: index="consistent_hashing" needs buckets=<number> for '
            f"new partitions; {held}"
        )
    if known is not None and named.buckets not in (0, known):
        raise InvalidError(
            f"table {snapshot.config.name!r}: its partitions have {known} buckets, found "
            f"buckets={named.buckets}; name none to begin new ones like them"
        )
    config = snapshot.config

    def number_of(partition: str, keys: pa.StringArray) -> npt.NDArray[np.int64]:
        hashes = key_hashes(
            keys, config.record_key_fields, named.hash_fields, composite=config.composite_key
        )
        where = pa.repeat(pa.scalar(partition), len(keys))
        return node_numbers(where, hashes, loaded.rings.__getitem__)

    slices = {slice_.group: slice_ for slice_ in snapshot.slices}
    places = {
        place: slices[FileGroupId(place.partition, file_id)]
        for place, file_id in ring_file_ids(snapshot, loaded.rings).items()
    }
    check_sample(snapshot, named, places, number_of)
    return replace(named, buckets=named.buckets if known is None else known)


def ring_file_ids(snapshot: Snapshot, rings: Rings) -> dict[BucketId, str]:
    """Return the file groups that exist by their places on the rings."""
    numbers = {
        (partition, node.file_id): number
        for partition, ring in rings.items()
        for number, node in enumerate(ring.nodes)
    }
    return {
        BucketId(group.partition, numbers[group.partition, group.file_id]): group.file_id
        for group in (slice_.group for slice_ in snapshot.slices)
        if (group.partition, group.file_id) in numbers
    }


def node_numbers(
    partitions: pa.StringArray,
    hashes: npt.NDArray[np.int32],
    ring_of: Callable[[str], HashingMetadata],
) -> npt.NDArray[np.int64]:
    """Return for each row the number of its node on the ring of its partition."""
    coded = partitions.dictionary_encode()
    codes = coded.indices.to_numpy().astype(np.int64)
    rings = [ring_of(partition).values for partition in coded.dictionary.to_pylist()]
    if not rings:
        return np.empty(0, np.int64)
    sizes = np.array([len(ring) for ring in rings])
    starts = np.cumsum(sizes) - sizes
    # All rings on one line, so that one search serves them all.
    span = MAX_VALUE + 1
    line = np.concatenate([ring + number * span for number, ring in enumerate(rings)])
    found = np.searchsorted(line, codes * span + hashes, side="left") - starts[codes]
    return np.where(found == sizes[codes], 0, found)
