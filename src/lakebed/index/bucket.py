"""The simple bucket index: the hash of a key determines its file group.

Every partition has the same number of buckets, and every bucket one file group, whose id starts
with the bucket's number in eight digits (Hudi's BucketIdentifier).
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self
from uuid import UUID, uuid5

import numpy as np
import pyarrow as pa

from lakebed.errors import CorruptError, InvalidError
from lakebed.format.names.bucket_hash import (
    bucket_of_file_id,
    fixed_bucket_file_id,
    new_bucket_file_id,
)
from lakebed.format.names.instant_name import Action
from lakebed.index.hash_locator import BucketId, HashLocator, KeyHash, check_sample
from lakebed.index.strategy import (
    NO_NUMBERS,
    IndexStrategy,
    KeyTexts,
    Misplaced,
    NewWrite,
    Numbers,
    StagedBucket,
)
from lakebed.table.config.table_config import ConcurrencyMode, TableConfig
from lakebed.table.config.writer_index import BucketIndex
from lakebed.table.files.file_group import FileGroupId, FileSlice, join_path
from lakebed.table.snapshot import Snapshot

_BUCKETS_BY_PARTITION = "hoodie.bucket.index.partition.expressions"


class HeldBuckets(Mapping[BucketId, str]):
    """The file groups of buckets, which are looked up when a partition is first accessed.

    Iteration and length cover only the partitions that have been looked up.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._known: set[str] = set()
        self._held: dict[BucketId, str] = {}

    def learn(self, partitions: Iterable[str]) -> None:
        """Look up the file groups of several partitions at once."""
        unknown = set(partitions) - self._known
        if unknown:
            slices = bucket_slices(self._snapshot.within(unknown))
            self._held |= {place: of[0].group.file_id for place, of in slices.items()}
            self._known |= unknown

    def __getitem__(self, place: BucketId) -> str:
        self.learn((place.partition,))
        return self._held[place]

    def __iter__(self) -> Iterator[BucketId]:
        return iter(self._held)

    def __len__(self) -> int:
        return len(self._held)

    def __reduce__(self) -> tuple[type[Self], tuple[Snapshot]]:
        """Pickle only the bare snapshot, because most tasks look up few file groups or none."""
        return type(self), (self._snapshot.bare(),)


@dataclass(frozen=True, slots=True)
class BucketLocator(HashLocator):
    """The file group of each bucket.

    New file ids are derived from the write's own seed, or, with non-blocking writers, from what all
    writers know: the instants that replaced file groups (`ended`), or the instant of this write if
    it replaces them (`ends`).
    """

    buckets: int
    seed: str
    ended: Mapping[BucketId, str] | None = None
    ends: str | None = None

    @property
    def assigns_later(self) -> int | None:
        """Return the number of buckets, or None if the existing file groups are known already."""
        return self.buckets if isinstance(self.held, HeldBuckets) else None

    def learn(self, partitions: Iterable[str]) -> None:
        """Look up the file groups of several partitions at once."""
        if isinstance(self.held, HeldBuckets):
            self.held.learn(partitions)

    def slots(
        self, keys: pa.StringArray, texts: KeyTexts | None, partitions: pa.StringArray
    ) -> pa.Array:
        """Return the bucket of each row."""
        return pa.array(self.hashed.buckets(keys, self.buckets, texts))

    def file_id(self, partition: str, slot: int) -> str:
        """Return the existing or new file group of a bucket."""
        place = BucketId(partition, slot)
        held = self.held.get(place)
        if held is not None:
            return held
        if self.ended is None:
            return derived_file_id(place, self.seed)
        return agreed_file_id(place, self.ends or self.ended.get(place))

    def file_ids(
        self, partition: str, staged: StagedBucket
    ) -> Sequence[tuple[str, StagedBucket | None]]:
        """Return the file groups of a staged run, each with its part of the run (None: all)."""
        if staged.of % self.buckets == 0:
            return [(self.file_id(partition, staged.number % self.buckets), None)]
        # Another writer may have chosen a number of buckets that is not a divisor of the number by
        # which the runs were staged.
        divides = self.buckets % staged.of == 0
        several = range(staged.number, self.buckets, staged.of) if divides else range(self.buckets)
        return [(self.file_id(partition, n), StagedBucket(n, self.buckets)) for n in several]

    def adopted(self, partition: str, file_id: str) -> str:
        """Return the file group of the bucket whose number is in `file_id`."""
        bucket = bucket_of_file_id(file_id)
        assert bucket is not None, file_id
        return self.file_id(partition, bucket)


@dataclass(frozen=True, slots=True)
class BucketStrategy(IndexStrategy):
    """The strategy of an index with a fixed number of buckets per partition."""

    value: BucketIndex
    one_group_per_key: ClassVar[bool] = True

    def settle(self, snapshot: Snapshot) -> BucketIndex:
        """Return the index; raise an error if file ids or sampled keys contradict it."""
        places = slices_by_bucket(snapshot)
        for place, slice_ in places.items():
            if place.bucket >= self.value.buckets:
                raise InvalidError(
                    f"file id {slice_.group.file_id!r} is bucket {place.bucket}, but the index was "
                    f"given as having {self.value.buckets} buckets"
                )
        hashed = KeyHash.of(snapshot.config, self.value)
        check_sample(
            snapshot, self.value, BucketLocator(hashed, {}, self.value.buckets, ""), places
        )
        return self.value

    def locator(self, write: NewWrite) -> BucketLocator:
        """Return the locator of a write; if the write replaces file groups, it appends to none."""
        config = write.snapshot.config
        empty = write.replaces or not write.snapshot.timeline.commits
        held = {} if empty else HeldBuckets(write.snapshot)
        found = BucketLocator(KeyHash.of(config, self.value), held, self.value.buckets, write.seed)
        if config.concurrency is not ConcurrencyMode.NON_BLOCKING:
            return found
        ends = write.instant if write.replaces else None
        return replace(found, ended=ended_buckets(write.snapshot), ends=ends)

    def check_groups(self, snapshot: Snapshot, groups: Collection[FileGroupId]) -> None:
        """Raise CorruptError if one of the file groups shares a bucket with another file group."""
        for place, slices in bucket_slices(snapshot).items():
            if len(slices) > 1 and any(slice_.group in groups for slice_ in slices):
                _check_one(place, slices)

    def prune(
        self, config: TableConfig, keys: Sequence[str], slices: Sequence[FileSlice]
    ) -> Sequence[FileSlice]:
        """Return the slices of buckets to which a key hashes.

        File ids without a bucket number are kept. If a number exceeds the number of buckets,
        another index wrote the table, and all slices are kept.
        """
        if _BUCKETS_BY_PARTITION in config.properties:
            return slices
        found = [bucket_of_file_id(slice_.group.file_id) for slice_ in slices]
        if any(bucket is not None and bucket >= self.value.buckets for bucket in found):
            return slices
        # If treated as not composite, keys are split by their string alone, which also covers keys
        # that an older release wrote as bare values.
        hashed = replace(KeyHash.of(config, self.value), composite=False)
        wanted = set(hashed.buckets(pa.array(keys, pa.string()), self.value.buckets).tolist())
        return tuple(
            slice_
            for slice_, bucket in zip(slices, found, strict=True)
            if bucket is None or bucket in wanted
        )

    def check_clusterable(self, config: TableConfig) -> None:
        """Raise an error: each bucket is one file group, so the table cannot be clustered."""
        raise InvalidError(
            f"table {config.name!r} has a bucket index: each bucket is one sorted file group, which "
            "clustering would split; compact it instead"
        )

    def misplaced_groups(self, groups: Iterable[FileGroupId]) -> Iterator[Misplaced]:
        """Yield file groups without a bucket number, and buckets with several file groups."""
        held: dict[tuple[str, int], list[str]] = defaultdict(list)
        for group in groups:
            bucket = bucket_of_file_id(group.file_id)
            if bucket is None or bucket >= self.value.buckets:
                yield Misplaced(
                    join_path(group.partition, group.file_id),
                    f"file group {group.file_id} in partition {group.partition!r}: the id is not "
                    f"one of a bucket below {self.value.buckets}; keys in it are never updated",
                    "read the rows and write them again to a table with the right index",
                )
            else:
                held[group.partition, bucket].append(group.file_id)
        for (partition, bucket), ids in held.items():
            if len(ids) > 1:
                yield Misplaced(
                    partition,
                    f"partition {partition!r} has {len(ids)} file groups for bucket {bucket}: "
                    f"{' and '.join(ids)}; a key may be there twice, and writes are refused",
                    "restore a savepoint, or overwrite the partition (insert_overwrite)",
                )

    def misplaced_keys(
        self, config: TableConfig, file_id: str, keys: pa.StringArray
    ) -> tuple[Numbers, Numbers]:
        """Return the positions of keys that belong to another bucket, and their buckets."""
        own = bucket_of_file_id(file_id)
        if own is None:
            return NO_NUMBERS, NO_NUMBERS
        found = KeyHash.of(config, self.value).buckets(keys, self.value.buckets)
        wrong = np.flatnonzero(found != own)
        return wrong, found[wrong].astype(np.int64)


def slices_by_bucket(snapshot: Snapshot) -> Mapping[BucketId, FileSlice]:
    """Return the file slice of each bucket that has a file group.

    Raises CorruptError if a bucket has two file groups, which would split its keys.
    """
    found: dict[BucketId, FileSlice] = {}
    for place, slices in bucket_slices(snapshot).items():
        _check_one(place, slices)
        found[place] = slices[0]
    return found


def _check_one(place: BucketId, slices: Sequence[FileSlice]) -> None:
    """Raise CorruptError if a bucket has more than one file group."""
    if len(slices) > 1:
        ids = " and ".join(slice_.group.file_id for slice_ in slices)
        raise CorruptError(
            f"partition {place.partition!r} has two file groups for bucket {place.bucket}: {ids}. "
            "Read its rows and write them again: insert_overwrite of the partition"
        )


def bucket_slices(snapshot: Snapshot) -> Mapping[BucketId, Sequence[FileSlice]]:
    """Return the file slices of each bucket that has any; more than one means damage."""
    found: dict[BucketId, list[FileSlice]] = {}
    for slice_ in snapshot.slices:
        bucket = bucket_of_file_id(slice_.group.file_id)
        if bucket is None:
            raise InvalidError(
                f"file id {slice_.group.file_id!r} in partition {slice_.group.partition!r} is no "
                "bucket's: the table was not written with a bucket index"
            )
        found.setdefault(BucketId(slice_.group.partition, bucket), []).append(slice_)
    return found


def derived_file_id(place: BucketId, seed: str) -> str:
    """Return a new file id for a bucket, the same in every task of a write.

    `seed` is random for each write, so a replaced id is never reused.
    """
    return new_bucket_file_id(place.bucket, str(uuid5(UUID(seed), place.partition)))


def agreed_file_id(place: BucketId, ended: str | None) -> str:
    """Return the file id that all writers derive for a bucket without a file group.

    It is Hudi's fixed id or, if the instant `ended` replaced a file group of the bucket, an id
    derived from `ended`, because readers would hide rows under the replaced id.
    """
    if ended is None:
        return fixed_bucket_file_id(place.bucket)
    return derived_file_id(place, str(uuid5(UUID(int=0), ended)))


def ended_buckets(snapshot: Snapshot) -> Mapping[BucketId, str]:
    """Return the buckets of replaced file groups, each with the last instant that replaced one."""
    found: dict[BucketId, str] = {}
    for instant in snapshot.timeline.commits:
        if instant.action is not Action.REPLACECOMMIT:
            continue
        for partition, file_id in snapshot.commits.read(instant).replaced_groups():
            bucket = bucket_of_file_id(file_id)
            if bucket is not None:
                found[BucketId(partition, bucket)] = instant.requested
    return found
