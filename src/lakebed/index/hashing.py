"""What all indexes of buckets share: hashing keys, and the check that a table is hashed like that."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import InvalidError, UnsupportedError
from lakebed.format.names.bucket import key_buckets
from lakebed.format.names.meta_columns import RECORD_KEY
from lakebed.format.names.record_key import record_keys
from lakebed.table.config.table_config import TableConfig
from lakebed.table.config.writer_index import BucketIndex, ConsistentHashingIndex, WriterIndex
from lakebed.table.files.file_group import FileSlice
from lakebed.table.read.base_file import read_base_file
from lakebed.table.snapshot import Snapshot

_SAMPLE_FILES = 16
_SAMPLE_ROWS = 512

Buckets = npt.NDArray[np.int32] | npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class BucketId:
    """One bucket of one partition."""

    partition: str
    bucket: int


@dataclass(frozen=True, slots=True)
class KeyHash:
    """Which fields of which keys are hashed."""

    fields: tuple[str, ...]
    hash_fields: tuple[str, ...]
    composite: bool

    @classmethod
    def of(cls, config: TableConfig, index: WriterIndex) -> Self:
        """Take the fields from the table's configuration."""
        return cls(config.record_key_fields, index.hash_fields, config.composite_key)

    def buckets(
        self,
        keys: pa.StringArray,
        count: int,
        texts: Mapping[str, pa.StringArray] | None = None,
    ) -> npt.NDArray[np.int32]:
        """Return the bucket, of `count`, of each key; `texts` are its parts, if they are known."""
        return key_buckets(
            keys, self.fields, self.hash_fields, count, composite=self.composite, texts=texts
        )


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
