"""The writer's index: how it finds the file group of a key, as `hoodie.properties` says it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from lakebed.table.config.property_values import names, whole_number


@dataclass(frozen=True, slots=True)
class BucketIndex:
    """The writer's index: a fixed number of buckets per partition, by hash of key fields."""

    buckets: int
    hash_fields: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AutoBuckets:
    """The writer's index: buckets as above, of which the first write settles how many."""

    hash_fields: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ConsistentHashingIndex:
    """The writer's index: buckets on a ring of hashes, which each partition keeps for itself.

    `buckets` is the number with which a new partition begins.
    """

    buckets: int
    hash_fields: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SimpleIndex:
    """The writer's index: keys are looked up in the base files, of all partitions if global."""

    is_global: bool = False


WriterIndex = BucketIndex | AutoBuckets | ConsistentHashingIndex | SimpleIndex

DEFAULT_BUCKETS: Final = 4
"""As in Hudi."""
NUM_BUCKETS: Final = "hoodie.bucket.index.num.buckets"
AUTO_BUCKETS: Final = "lakebed.buckets"
"""The property, with the value `auto`, of a table that was created without a number of buckets."""


_ENGINES: dict[str, type[BucketIndex] | type[ConsistentHashingIndex]] = {
    "SIMPLE": BucketIndex,
    "CONSISTENT_HASHING": ConsistentHashingIndex,
}
_SIMPLE_INDEXES = {"SIMPLE": SimpleIndex(), "GLOBAL_SIMPLE": SimpleIndex(is_global=True)}


def parse_index(
    properties: Mapping[str, str], keys: tuple[str, ...], where: str
) -> WriterIndex | None:
    """Return the index that the properties name; None where they name none that we write with."""
    kind = properties.get("hoodie.index.type", "").strip().upper()
    if kind in _SIMPLE_INDEXES:
        return _SIMPLE_INDEXES[kind]
    if kind != "BUCKET":
        return None
    engine = properties.get("hoodie.index.bucket.engine", "SIMPLE").strip().upper()
    buckets = whole_number(properties, NUM_BUCKETS, 0, where)
    fields = names(properties.get("hoodie.bucket.index.hash.field", "")) or keys
    auto = properties.get(AUTO_BUCKETS, "").strip().lower() == "auto"
    if auto and engine == "SIMPLE" and NUM_BUCKETS not in properties:
        return AutoBuckets(fields)
    if engine not in _ENGINES or buckets < 1:
        return None
    return _ENGINES[engine](buckets, fields)
