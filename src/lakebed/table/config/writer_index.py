"""The writer's index: how it finds the file group of a key, according to `hoodie.properties`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from lakebed.format.names.bucket_hash import bucket_of_file_id
from lakebed.model.options.table import HASH_FIELD, INDEX_TYPE, UPDATE_PARTITION
from lakebed.table.config.property_values import whole_number

_TYPE: Final = "hoodie.index.type"
BUCKET_ENGINE: Final = "hoodie.index.bucket.engine"
DEFAULT_BUCKETS: Final = 4
"""The default number of buckets, as in Hudi."""
NUM_BUCKETS: Final = "hoodie.bucket.index.num.buckets"
AUTO_BUCKETS: Final = "lakebed.buckets"
"""The property, with the value `auto`, of a table that was created without a number of buckets."""


class _Index:
    """The common part of most kinds of index."""

    __slots__ = ()
    # Whether the hash of a key determines its file group; otherwise keys are looked up.
    hashes_keys: ClassVar[bool] = False
    # Whether the number of buckets is determined, if the index has buckets.
    is_settled: ClassVar[bool] = True
    # Whether non-blocking writers agree on the file group of a new key.
    allows_non_blocking: ClassVar[bool] = False
    # Whether a base file has a Bloom filter of its keys.
    filters_keys: ClassVar[bool] = False
    # Whether each commit records the file groups of the keys that it adds.
    records_keys: ClassVar[bool] = False
    # Whether a table with this index may have column groups.
    allows_column_groups: ClassVar[bool] = False
    # Whether rows may be staged before their write starts.
    allows_deferred: ClassVar[bool] = True

    def agrees(self, stored: "WriterIndex") -> bool:
        """Return whether rows staged for this index can be written to a table with index `stored`."""
        return self == stored

    def key_range(self, file_id: str) -> str:
        """Return the part of a file id that determines which keys the file group can hold."""
        return file_id


class _HashIndex(_Index):
    """The common part of the indexes that hash key fields to buckets."""

    __slots__ = ()
    hashes_keys: ClassVar[bool] = True
    is_global: ClassVar[bool] = False


@dataclass(frozen=True, slots=True)
class BucketIndex(_HashIndex):
    """A fixed number of buckets per partition, by the hash of key fields."""

    buckets: int
    hash_fields: tuple[str, ...]
    allows_non_blocking: ClassVar[bool] = True
    allows_column_groups: ClassVar[bool] = True

    def __str__(self) -> str:
        return _count(self.buckets)

    def key_range(self, file_id: str) -> str:
        """Return the bucket's digits, since two writers may each create a file group for a bucket."""
        return file_id if bucket_of_file_id(file_id) is None else file_id[:8]

    def properties(self, keys: Sequence[str]) -> dict[str, str]:
        """Return the index as table properties."""
        return _bucket_properties("SIMPLE", {NUM_BUCKETS: str(self.buckets)}, self, keys)


@dataclass(frozen=True, slots=True)
class AutoBuckets(_HashIndex):
    """A bucket index whose number of buckets the first write determines."""

    hash_fields: tuple[str, ...]
    is_settled: ClassVar[bool] = False
    allows_non_blocking: ClassVar[bool] = True
    allows_column_groups: ClassVar[bool] = True

    def __str__(self) -> str:
        return "buckets, as many as fit the first write"

    def agrees(self, stored: "WriterIndex") -> bool:
        """Return whether the stored index hashes the same fields, into any number of buckets."""
        hashed = isinstance(stored, BucketIndex) and stored.hash_fields == self.hash_fields
        return hashed or self == stored

    def properties(self, keys: Sequence[str]) -> dict[str, str]:
        """Return the index as table properties."""
        return _bucket_properties("SIMPLE", {AUTO_BUCKETS: "auto"}, self, keys)


@dataclass(frozen=True, slots=True)
class ConsistentHashingIndex(_HashIndex):
    """Buckets on a ring of hashes; each partition has its own ring.

    `buckets` is the number that a new partition starts with; None means as many as the other
    partitions have.
    """

    buckets: int | None
    hash_fields: tuple[str, ...]
    allows_deferred: ClassVar[bool] = False

    def __str__(self) -> str:
        return f"consistent hashing from {_count(self.buckets or 0)}"

    def agrees(self, stored: "WriterIndex") -> bool:
        """Return whether the stored index equals this one; `buckets=None` matches any number."""
        return self == stored or (self.buckets is None and type(stored) is type(self))

    def properties(self, keys: Sequence[str]) -> dict[str, str]:
        """Return the index as table properties."""
        number = {NUM_BUCKETS: str(self.buckets)}
        return _bucket_properties("CONSISTENT_HASHING", number, self, keys)


class _LookupIndex(_Index):
    """The common part of the indexes that look up keys."""

    __slots__ = ()
    hash_fields: ClassVar[tuple[str, ...]] = ()
    # The values of `hoodie.index.type` for an index per partition and for a global index.
    words: ClassVar[tuple[str, str]]
    is_global: bool

    def __str__(self) -> str:
        return f"{self.words[self.is_global].lower().replace('_', ' ')} index"

    def properties(self, keys: Sequence[str]) -> dict[str, str]:
        """Return the index as table properties."""
        del keys
        return {_TYPE: self.words[self.is_global]}


class _BaseFileIndex(_LookupIndex):
    """The common part of the indexes that look up keys only in base files."""

    __slots__ = ()

    def agrees(self, stored: "WriterIndex") -> bool:
        """Return whether the stored index also looks up keys in base files, in the same scope."""
        return isinstance(stored, _BaseFileIndex) and stored.is_global == self.is_global


@dataclass(frozen=True, slots=True)
class SimpleIndex(_BaseFileIndex):
    """An index that looks keys up in base files, of all partitions if it is global."""

    is_global: bool = False
    words: ClassVar[tuple[str, str]] = ("SIMPLE", "GLOBAL_SIMPLE")


@dataclass(frozen=True, slots=True)
class BloomIndex(_BaseFileIndex):
    """A simple index that searches a base file only for keys that its Bloom filter may contain."""

    is_global: bool = False
    words: ClassVar[tuple[str, str]] = ("BLOOM", "GLOBAL_BLOOM")
    filters_keys: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class RecordIndex(_LookupIndex):
    """An index that records the file group of each key when the key is inserted."""

    is_global: bool = False
    words: ClassVar[tuple[str, str]] = ("RECORD_LEVEL_INDEX", "RECORD_INDEX")
    records_keys: ClassVar[bool] = True

    def __str__(self) -> str:
        return "global record index" if self.is_global else "record index"

    def properties(self, keys: Sequence[str]) -> dict[str, str]:
        """Return the index as table properties; a global index moves rows, unlike Hudi's default."""
        del keys
        moves = {UPDATE_PARTITION.name: "true"} if self.is_global else {}
        return {_TYPE: self.words[self.is_global], **moves}


WriterIndex = (
    BucketIndex | AutoBuckets | ConsistentHashingIndex | SimpleIndex | BloomIndex | RecordIndex
)

INDEXES: Mapping[str, Callable[[int | None, tuple[str, ...]], WriterIndex]] = {
    "bucket": lambda buckets, keys: (
        AutoBuckets(keys) if buckets is None else BucketIndex(buckets, keys)
    ),
    "consistent_hashing": ConsistentHashingIndex,
    "simple": lambda _buckets, _keys: SimpleIndex(),
    "global_simple": lambda _buckets, _keys: SimpleIndex(is_global=True),
    "bloom": lambda _buckets, _keys: BloomIndex(),
    "global_bloom": lambda _buckets, _keys: BloomIndex(is_global=True),
    "record": lambda _buckets, _keys: RecordIndex(),
    "global_record": lambda _buckets, _keys: RecordIndex(is_global=True),
}
"""Index constructors by the names that callers use; arguments: number of buckets, key fields."""


def index_word(kind: str) -> str:
    """Return the name that callers use for a value of `hoodie.index.type`."""
    names = {word: f"{'global_' * at}record" for at, word in enumerate(RecordIndex.words)}
    return names.get(kind.upper(), kind.lower())


def hashes_keys(word: str) -> bool:
    """Return whether `word` names an index with buckets."""
    return word in INDEXES and INDEXES[word](None, ()).hashes_keys


_ENGINES: dict[str, type[BucketIndex] | type[ConsistentHashingIndex]] = {
    "SIMPLE": BucketIndex,
    "CONSISTENT_HASHING": ConsistentHashingIndex,
}
_LOOKUP_INDEXES: Mapping[str, WriterIndex] = {
    word: kind(is_global=bool(at))
    for kind in (SimpleIndex, BloomIndex, RecordIndex)
    for at, word in enumerate(kind.words)
}


def parse_index(
    properties: Mapping[str, str], keys: tuple[str, ...], where: str
) -> WriterIndex | None:
    """Return the index in the properties; None if Lakebed cannot write with it."""
    kind = INDEX_TYPE.kind.spell(properties.get(_TYPE, "").strip().upper())
    if kind in _LOOKUP_INDEXES:
        return _LOOKUP_INDEXES[kind]
    if kind != "BUCKET":
        return None
    engine = properties.get(BUCKET_ENGINE, "SIMPLE").strip().upper()
    buckets = whole_number(properties, NUM_BUCKETS, 0, where)
    fields = HASH_FIELD.value(properties) or keys
    auto = properties.get(AUTO_BUCKETS, "").strip().lower() == "auto"
    if auto and engine == "SIMPLE" and NUM_BUCKETS not in properties:
        return AutoBuckets(fields)
    if engine not in _ENGINES or buckets < 1:
        return None
    return _ENGINES[engine](buckets, fields)


def _bucket_properties(
    engine: str, number: Mapping[str, str], index: WriterIndex, keys: Sequence[str]
) -> dict[str, str]:
    """Return the properties of a bucket index; Hudi's writers use them as their defaults.

    Hudi's table services also need the key fields, under the name of the writer's option.
    """
    return {
        _TYPE: "BUCKET",
        BUCKET_ENGINE: engine,
        **number,
        HASH_FIELD.name: ",".join(index.hash_fields),
        "hoodie.datasource.write.recordkey.field": ",".join(keys or index.hash_fields),
    }


def _count(buckets: int) -> str:
    return f"{buckets:,} bucket{'' if buckets == 1 else 's'}"
