"""Buckets whose number the first write determines: it stages its rows before the number is known.

The right number is known only when the rows are staged, but staging splits rows by bucket. So each
flush is split by a power of two that is derived from its size (`write/auto_buckets.py` continues
from there).
"""

from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from lakebed.index.hash_locator import KeyHash
from lakebed.index.strategy import IndexStrategy, KeyTexts, Locator, NewWrite
from lakebed.table.config.table_config import TableConfig
from lakebed.table.config.writer_index import DEFAULT_BUCKETS, AutoBuckets

# A multiple of every number of buckets by which rows are staged before the final number is known.
_UNSETTLED: Final = 4096
STAGED_RUN_BYTES = 4 << 20
"""The smallest size of a run while the number of buckets is not determined yet."""


@dataclass(frozen=True, slots=True)
class StagedLocator(Locator):
    """Locates rows by the hash of their keys, before the number of buckets is determined."""

    hashed: KeyHash
    least: int

    def slots(
        self, keys: pa.StringArray, texts: KeyTexts | None, partitions: pa.StringArray
    ) -> pa.Array:
        """Return numbers whose remainder is the bucket, whatever the number of buckets will be."""
        return pa.array(self.hashed.buckets(keys, _UNSETTLED, texts))

    def staged_buckets(self, size_bytes: int, partitions: int, *, alone: bool) -> int:
        """Choose into how many buckets a flush is split.

        Many runs slow down the merge, and a run of several buckets is read once for each of them.
        """
        buckets = self.least
        while not alone and size_bytes >= 2 * buckets * partitions * STAGED_RUN_BYTES:
            buckets *= 2
        return min(buckets, _UNSETTLED)


@dataclass(frozen=True, slots=True)
class AutoBucketStrategy(IndexStrategy):
    """The strategy of a bucket index whose number of buckets is not determined yet."""

    value: AutoBuckets

    def locator(self, write: NewWrite) -> StagedLocator:
        """Return the locator of a first write."""
        config = write.snapshot.config
        return StagedLocator(KeyHash.of(config, self.value), least_buckets(config))


def least_buckets(config: TableConfig) -> int:
    """Return the number of buckets per partition of a small table."""
    return 1 if config.partition_fields else DEFAULT_BUCKETS
