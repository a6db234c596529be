"""The common part of all bucket indexes: hash keys, and check a table's keys by their hash."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakebed.errors import InvalidError, UnsupportedError
from lakebed.format.names.bucket_hash import key_buckets
from lakebed.format.names.meta_columns import RECORD_KEY
from lakebed.index.key_format import odd_key
from lakebed.index.strategy import KeyTexts, Locator
from lakebed.table.config.table_config import TableConfig
from lakebed.table.config.writer_index import BucketIndex, ConsistentHashingIndex, WriterIndex
from lakebed.table.files.file_group import BaseFile, FileSlice
from lakebed.table.read.base_file import read_base_file
from lakebed.table.snapshot import Snapshot

_SAMPLE_FILES = 16
_SAMPLE_ROWS = 512


@dataclass(frozen=True, slots=True)
class BucketId:
    """One bucket of one partition."""

    partition: str
    bucket: int


@dataclass(frozen=True, slots=True)
class KeyHash:
    """How record keys are hashed: the table's key fields, and which of them are hashed."""

    fields: tuple[str, ...]
    hash_fields: tuple[str, ...]
    composite: bool

    @classmethod
    def of(cls, config: TableConfig, index: WriterIndex) -> Self:
        """Return the key hash for a table and its index."""
        return cls(config.record_key_fields, index.hash_fields, config.composite_key)

    def buckets(
        self, keys: pa.StringArray, count: int, texts: KeyTexts | None = None
    ) -> npt.NDArray[np.int32]:
        """Return the bucket of each key, out of `count`; `texts` are the keys' parts, if known."""
        return key_buckets(
            keys, self.fields, self.hash_fields, count, composite=self.composite, texts=texts
        )


@dataclass(frozen=True, slots=True)
class HashLocator(Locator):
    """A locator that hashes keys; `held` maps buckets to their existing file groups."""

    hashed: KeyHash
    held: Mapping[BucketId, str]

    @property
    def existing(self) -> Collection[str]:
        """Return the ids of existing file groups."""
        return self.held.values()


def check_sample(
    snapshot: Snapshot,
    index: BucketIndex | ConsistentHashingIndex,
    locator: Locator,
    places: Mapping[BucketId, FileSlice],
) -> None:
    """Raise an error if sampled keys are in another file group than the index determines."""
    for place, slice_ in sorted(places.items(), key=lambda item: item[1].group)[:_SAMPLE_FILES]:
        if slice_.base_file is not None:
            _check_file(snapshot, index, locator, place, slice_.base_file)


def _check_file(
    snapshot: Snapshot,
    index: BucketIndex | ConsistentHashingIndex,
    locator: Locator,
    place: BucketId,
    file: BaseFile,
) -> None:
    columns = [RECORD_KEY, *snapshot.config.record_key_fields]
    batches = read_base_file(snapshot.storage, file.path, snapshot.schema, columns, _SAMPLE_ROWS)
    first = next(batches, None)
    if first is None:
        return
    odd = odd_key(first, snapshot.config)
    if odd is not None:
        raise UnsupportedError(
            f"{file.path} holds the key {odd[0]!r}, which Lakebed would write as {odd[1]!r}: an "
            "older or another writer wrote it, and our rows would not replace its rows"
        )
    keys = first.column(0)
    found = locator.slots(keys, None, pa.repeat(pa.scalar(place.partition), len(keys)))
    wrong = np.flatnonzero(found.to_numpy() != place.bucket)
    if wrong.size:
        raise InvalidError(
            f"key {keys[int(wrong[0])].as_py()!r} is in bucket {place.bucket} ({file.path}), but "
            f"{index.buckets} buckets over {','.join(index.hash_fields)} put it in another: the "
            "index does not match the table"
        )
