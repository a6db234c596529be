"""The consistent-hashing bucket index, which places keys on a ring of hashes per partition."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakebed.errors import ConflictError, InvalidError, UnsupportedError
from lakebed.format.names.consistent_hashing import MAX_VALUE, HashingMetadata, key_hashes
from lakebed.index.hash_locator import BucketId, HashLocator, KeyHash, check_sample
from lakebed.index.rings import (
    HASHING_FOLDER,
    LoadedRings,
    Rings,
    check_table_type,
    ensure_ring,
    first_ring,
    load_rings,
)
from lakebed.index.strategy import IndexStrategy, KeyTexts, NewWrite, Numbers
from lakebed.storage.storage import Storage
from lakebed.table.config.table_config import TableConfig
from lakebed.table.config.writer_index import ConsistentHashingIndex
from lakebed.table.files.file_group import FileGroupId
from lakebed.table.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class RingLocator(HashLocator):
    """The nodes on the rings of partitions; a new partition starts with `buckets` nodes."""

    table: str
    buckets: int
    loaded: LoadedRings

    def slots(
        self, keys: pa.StringArray, texts: KeyTexts | None, partitions: pa.StringArray
    ) -> pa.Array:
        """Return for each row the number of its node on its partition's ring."""
        of = self.hashed
        hashes = key_hashes(keys, of.fields, of.hash_fields, composite=of.composite, texts=texts)
        return pa.array(node_numbers(partitions, hashes, self._ring))

    def file_id(self, partition: str, slot: int) -> str:
        """Return the file group of a node.

        Raises ConflictError if a pending clustering may resize the node's bucket.
        """
        file_id = self._ring(partition).nodes[slot].file_id
        resized = self.loaded.resizing.get(BucketId(partition, slot))
        if resized is not None:
            raise ConflictError(
                f"{self.table}: the bucket of file group {file_id} in partition "
                f"{partition!r} may be resized by the pending clustering {resized}; "
                "let Apache Hudi finish it, or roll it back, and retry the write"
            )
        return file_id

    def begin_partition(self, storage: Storage, partition: str, check: Callable[[], None]) -> None:
        """Store the ring of a new partition."""
        if partition not in self.loaded.rings:
            check()
            ensure_ring(storage, self._ring(partition))

    def _ring(self, partition: str) -> HashingMetadata:
        """Return the stored ring of a partition, or the first ring of a new partition."""
        reason = self.loaded.refused.get(partition)
        if reason is not None:
            raise UnsupportedError(
                f"{self.table}: {reason}; read the rows and write them to a new table"
            )
        held = self.loaded.rings.get(partition)
        return first_ring(partition, self.buckets) if held is None else held


@dataclass(frozen=True, slots=True)
class ConsistentHashingStrategy(IndexStrategy):
    """The strategy of an index with buckets on rings of hashes, one ring per partition."""

    value: ConsistentHashingIndex

    def check_table(self, config: TableConfig) -> None:
        """Raise an error if the table is copy-on-write."""
        check_table_type(config)

    def settle(self, snapshot: Snapshot) -> ConsistentHashingIndex:
        """Return the index; without a number of buckets, take that of the stored rings."""
        named = self.value
        loaded = load_rings(snapshot)
        if loaded.refused:
            raise InvalidError(next(iter(loaded.refused.values())))
        known = loaded.buckets
        if known is None and named.buckets is None:
            counts = sorted({ring.num_buckets for ring in loaded.rings.values()})
            held = (
                f"its partitions have {', '.join(map(str, counts))}"
                if counts
                else "it has none yet"
            )
            raise InvalidError(
                f'table {snapshot.config.name!r}: index="consistent_hashing" needs buckets=<number> for '
                f"new partitions; {held}"
            )
        if known is not None and named.buckets not in (None, known):
            raise InvalidError(
                f"table {snapshot.config.name!r}: its partitions have {known} buckets, found "
                f"buckets={named.buckets}; name none to begin new ones like them"
            )
        locator = self._locator(snapshot, loaded)
        slices = {slice_.group: slice_ for slice_ in snapshot.slices}
        places = {
            place: slices[FileGroupId(place.partition, file_id)]
            for place, file_id in locator.held.items()
        }
        check_sample(snapshot, named, locator, places)
        return replace(named, buckets=named.buckets if known is None else known)

    def locator(self, write: NewWrite) -> RingLocator:
        """Return the locator of a write, after writing missing markers of completed clusterings."""
        if write.replaces:
            raise _hides_rows(write.operation, write.snapshot.config)
        loaded = load_rings(write.snapshot)
        loaded.mark_committed(write.snapshot.storage)
        return self._locator(write.snapshot, loaded)

    def check_clusterable(self, config: TableConfig) -> None:
        """Raise an error, because clustering does not resize buckets."""
        raise UnsupportedError(
            f"table {config.name!r} is written with consistent hashing: this release does not resize "
            "its buckets; compact it, or let Apache Hudi cluster it"
        )

    def _locator(self, snapshot: Snapshot, loaded: LoadedRings) -> RingLocator:
        hashed = KeyHash.of(snapshot.config, self.value)
        held = ring_file_ids(snapshot, loaded.rings)
        return RingLocator(hashed, held, snapshot.storage.url, self.value.buckets or 0, loaded)


def check_groups_may_end(storage: Storage, config: TableConfig, operation: str) -> None:
    """Raise an error if `operation` replaces file groups of a table with consistent hashing."""
    if any(storage.list_names(HASHING_FOLDER)):
        raise _hides_rows(operation, config)


def _hides_rows(operation: str, config: TableConfig) -> UnsupportedError:
    """Return the error for an operation after which rows in reused file ids would be hidden."""
    return UnsupportedError(
        f"table {config.name!r} is written with consistent hashing, whose file groups keep their "
        f"ids: after {operation} new rows would be hidden; delete and upsert instead"
    )


def ring_file_ids(snapshot: Snapshot, rings: Rings) -> dict[BucketId, str]:
    """Return the existing file groups by their position on the rings."""
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
) -> Numbers:
    """Return for each row the number of its node on its partition's ring."""
    coded = partitions.dictionary_encode()
    codes = coded.indices.to_numpy().astype(np.int64)
    rings = [ring_of(partition).values for partition in coded.dictionary.to_pylist()]
    if not rings:
        return np.empty(0, np.int64)
    sizes = np.array([len(ring) for ring in rings])
    starts = np.cumsum(sizes) - sizes
    # Concatenate all rings with offsets, so that a single search covers them all.
    span = MAX_VALUE + 1
    line = np.concatenate([ring + number * span for number, ring in enumerate(rings)])
    found = np.searchsorted(line, codes * span + hashes, side="left") - starts[codes]
    return np.where(found == sizes[codes], 0, found)
