"""Buckets of which the first write settles how many: its rows are staged before that is known.

How many buckets fit is known when the rows are staged, and staging splits rows by bucket. So each
flush is split by a power of two that follows from its size (`write/auto_buckets.py` goes on).
"""

from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from lakebed.index.hashing import KeyHash
from lakebed.index.strategy import IndexStrategy, KeyTexts, Locator, NewWrite
from lakebed.table.config.table_config import TableConfig
from lakebed.table.config.writer_index import DEFAULT_BUCKETS, AutoBuckets

# A number that every number of buckets divides by which rows are staged before one is settled.
_UNSETTLED: Final = 4096
STAGED_RUN_BYTES = 4 << 20
"""What a run holds at least where the number of buckets is not settled yet."""


@dataclass(frozen=True, slots=True)
class StagedLocator(Locator):
    """Rows by the hash of their keys, of which no bucket follows yet."""

    hashed: KeyHash
    least: int

    def slots(
        self, keys: pa.StringArray, texts: KeyTexts | None, partitions: pa.StringArray
    ) -> pa.Array:
        """Return a number whose remainder is the bucket, whatever their number will be."""
        return pa.array(self.hashed.buckets(keys, _UNSETTLED, texts))

    def staged_buckets(self, size_bytes: int, partitions: int, *, alone: bool) -> int:
        """Choose by how many buckets a flush is split.

        Many runs cost the merge, and a run of several buckets is read for each of them.
        """
        buckets = self.least
        while not alone and size_bytes >= 2 * buckets * partitions * STAGED_RUN_BYTES:
            buckets *= 2
        return min(buckets, _UNSETTLED)


@dataclass(frozen=True, slots=True)
class AutoBucketStrategy(IndexStrategy):
    """A number of buckets that is still to be settled."""

    value: AutoBuckets

    def locator(self, write: NewWrite) -> StagedLocator:
        """Return the hashes by which rows are staged."""
        config = write.snapshot.config
        return StagedLocator(KeyHash.of(config, self.value), least_buckets(config))


def least_buckets(config: TableConfig) -> int:
    """Return how many buckets a partition of a small table has."""
    return 1 if config.partition_fields else DEFAULT_BUCKETS
