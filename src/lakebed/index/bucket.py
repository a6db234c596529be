"""The simple bucket index: a key's file group follows from its hash.

Each partition has the same number of buckets, each bucket one file group, whose id
begins with the bucket's number in eight digits (Hudi's BucketIdentifier).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID, uuid5

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import CorruptError, InvalidError, UnsupportedError
from lakebed.format.names.bucket import (
    MAX_BUCKETS,
    bucket_of_file_id,
    fixed_bucket_file_id,
    key_buckets,
    new_bucket_file_id,
)
from lakebed.format.names.instant_name import Action
from lakebed.format.names.meta_columns import RECORD_KEY
from lakebed.format.names.record_key import record_keys
from lakebed.table.config.table_config import TableConfig
from lakebed.table.config.writer_index import (
    AUTO_BUCKETS,
    NUM_BUCKETS,
    AutoBuckets,
    BucketIndex,
    ConsistentHashingIndex,
    SimpleIndex,
    WriterIndex,
)
from lakebed.table.files.file_group import FileSlice
from lakebed.table.read.base_file import read_base_file
from lakebed.table.snapshot import Snapshot

HASHING_FOLDER = ".hoodie/.bucket_index/consistent_hashing_metadata"
"""Where a table that is written with consistent hashing keeps its buckets."""
_SAMPLE_FILES = 16
_SAMPLE_ROWS = 512


Buckets = npt.NDArray[np.int32] | npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class BucketId:
    """One bucket of one partition."""

    partition: str
    bucket: int


def slices_by_bucket(snapshot: Snapshot) -> Mapping[BucketId, FileSlice]:
    """Return the file slice of every bucket that has one.

    Two file groups for one bucket would split its keys: refused by name.
    """
    found: dict[BucketId, FileSlice] = {}
    for place, slices in bucket_slices(snapshot).items():
        check_one(place, slices)
        found[place] = slices[0]
    return found


def check_one(place: BucketId, slices: Sequence[FileSlice]) -> None:
    """Raise CorruptError if a bucket has more than one file group."""
    if len(slices) > 1:
        ids = " and ".join(slice_.group.file_id for slice_ in slices)
        raise CorruptError(
            f"partition {place.partition!r} has two file groups for bucket {place.bucket}: {ids}. "
            "Read its rows and write them again: insert_overwrite of the partition"
        )


def bucket_slices(snapshot: Snapshot) -> Mapping[BucketId, Sequence[FileSlice]]:
    """Return the file slices of every bucket that has one; more than one is damage."""
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
    """Return a file id for a bucket that has none: the same in every task of one write.

    `seed` is random for each write, so an id that was replaced never comes back.
    """
    return new_bucket_file_id(place.bucket, str(uuid5(UUID(seed), place.partition)))


def agreed_file_id(place: BucketId, ended: str) -> str:
    """Return the id on which all writers of a bucket that has no file group agree by themselves.

    That is Hudi's fixed one; after a replacecommit `ended` a file group of the bucket, one that
    follows from that instant: readers would hide new rows under the id that it named.
    """
    if not ended:
        return fixed_bucket_file_id(place.bucket)
    return derived_file_id(place, str(uuid5(UUID(int=0), ended)))


def ended_buckets(snapshot: Snapshot) -> Mapping[BucketId, str]:
    """Return the buckets of which a file group was replaced, each with the last such instant."""
    found: dict[BucketId, str] = {}
    for instant in snapshot.timeline.commits:
        if instant.action is not Action.REPLACECOMMIT:
            continue
        metadata = snapshot.commits.read(instant)
        for partition, ids in (metadata.partition_to_replace_file_ids or {}).items():
            for file_id in ids:
                bucket = bucket_of_file_id(file_id)
                if bucket is not None:
                    found[BucketId(partition, bucket)] = instant.requested
    return found


def check_index(snapshot: Snapshot, index: BucketIndex | SimpleIndex) -> None:
    """Reject an index that does not fit the files of a table that has none stored.

    Every file id must be a bucket's below the count, and a sample of keys must hash to
    the bucket that they lie in. A simple index fits any files but those of buckets: their
    writer would not find a key that lies elsewhere.
    """
    if isinstance(index, SimpleIndex):
        if any(snapshot.storage.list_names(HASHING_FOLDER)):
            raise InvalidError(
                f"the table has {HASHING_FOLDER}: it is written with consistent hashing; name "
                'index="consistent_hashing"'
            )
        ids = [slice_.group.file_id for slice_ in snapshot.slices]
        if ids and all(bucket_of_file_id(file_id) is not None for file_id in ids):
            raise InvalidError(
                f"file id {ids[0]!r} is a bucket's: the table is written with a bucket index; "
                'name index="bucket" and its number of buckets'
            )
        return
    places = slices_by_bucket(snapshot)
    for place, slice_ in places.items():
        if place.bucket >= index.buckets:
            raise InvalidError(
                f"file id {slice_.group.file_id!r} is bucket {place.bucket}, but the index was "
                f"named with {index.buckets} buckets"
            )

    def bucket_of(partition: str, keys: pa.StringArray) -> Buckets:
        del partition
        fields = snapshot.config.record_key_fields
        composite = snapshot.config.composite_key
        return key_buckets(keys, fields, index.hash_fields, index.buckets, composite=composite)

    check_sample(snapshot, index, places, bucket_of)


def check_sample(
    snapshot: Snapshot,
    index: BucketIndex | ConsistentHashingIndex,
    places: Mapping[BucketId, FileSlice],
    bucket_of: Callable[[str, pa.StringArray], Buckets],
) -> None:
    """Reject an index by which some keys of the first base files belong elsewhere.

    `bucket_of` gives the bucket of each key in a partition.
    """
    for place, slice_ in sorted(places.items(), key=lambda item: item[1].group)[:_SAMPLE_FILES]:
        _check_file(snapshot, index, place, slice_, bucket_of)


def _check_file(
    snapshot: Snapshot,
    index: BucketIndex | ConsistentHashingIndex,
    place: BucketId,
    slice_: FileSlice,
    bucket_of: Callable[[str, pa.StringArray], Buckets],
) -> None:
    if slice_.base_file is None:
        return
    config = snapshot.config
    fields = config.record_key_fields
    batches = read_base_file(
        snapshot.storage,
        slice_.base_file.path,
        snapshot.schema,
        [RECORD_KEY, *fields],
        _SAMPLE_ROWS,
    )
    first = next(batches, None)
    if first is None:
        return
    keys = first.column(0)
    spelled = record_keys({f: first.column(f) for f in fields}, fields, config.composite_key)
    odd = np.flatnonzero(pc.not_equal(keys, spelled).to_numpy(zero_copy_only=False))
    if odd.size:
        stored, ours = keys[int(odd[0])].as_py(), spelled[int(odd[0])].as_py()
        raise UnsupportedError(
            f"{slice_.base_file.path} holds the key {stored!r}, which we would spell {ours!r}: an "
            "older or another writer made it, and our rows would not replace its"
        )
    wrong = np.flatnonzero(bucket_of(place.partition, keys) != place.bucket)
    if wrong.size:
        raise InvalidError(
            f"key {keys[int(wrong[0])].as_py()!r} lies in bucket {place.bucket} ({slice_.base_file.path}), but "
            f"{index.buckets} buckets over {','.join(index.hash_fields)} put it elsewhere: the "
            "index does not fit the table"
        )


def index_properties(index: WriterIndex, keys: Sequence[str] = ()) -> dict[str, str]:
    """Spell the index as table properties; Hudi's writers take them as their defaults.

    With a bucket index its services also ask for the key fields, under the writer's name.
    """
    if isinstance(index, SimpleIndex):
        return {"hoodie.index.type": "GLOBAL_SIMPLE" if index.is_global else "SIMPLE"}
    hashing = isinstance(index, ConsistentHashingIndex)
    number = {AUTO_BUCKETS: "auto"}
    if not isinstance(index, AutoBuckets):
        number = {NUM_BUCKETS: str(index.buckets)}
    return {
        "hoodie.index.type": "BUCKET",
        "hoodie.index.bucket.engine": "CONSISTENT_HASHING" if hashing else "SIMPLE",
        **number,
        "hoodie.bucket.index.hash.field": ",".join(index.hash_fields),
        "hoodie.datasource.write.recordkey.field": ",".join(keys or index.hash_fields),
    }


def checked_index(config: TableConfig, buckets: int, fields: tuple[str, ...]) -> BucketIndex:
    """Make an index from what a caller asked for."""
    if type(buckets) is not int or not 1 <= buckets <= MAX_BUCKETS:
        raise InvalidError(f"buckets={buckets!r}: want a number from 1 to {MAX_BUCKETS}")
    for field in fields:
        if field not in config.record_key_fields:
            raise InvalidError(
                f"hash field {field!r} is not one of the record key fields "
                f"{', '.join(config.record_key_fields)}"
            )
    return BucketIndex(buckets, fields or config.record_key_fields)
