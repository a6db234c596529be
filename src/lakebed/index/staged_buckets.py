"""Stage the first write of a table before its number of buckets is determined.

The right number is known only when all rows are staged, but staging splits rows by bucket. So each
flush is split by a power of two that depends on its size; `write/auto_buckets.py` then maps these
provisional buckets to the final ones.
"""

from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from lakebed.index.hash_locator import KeyHash
from lakebed.index.strategy import IndexStrategy, KeyTexts, Locator, NewWrite
from lakebed.table.config.table_config import TableConfig
from lakebed.table.config.writer_index import DEFAULT_BUCKETS, AutoBuckets

# A multiple of every provisional number of buckets.
_UNSETTLED: Final = 4096
STAGED_RUN_BYTES = 4 << 20
"""The minimum size of a run while the number of buckets is not determined."""


@dataclass(frozen=True, slots=True)
class StagedLocator(Locator):
    """Locates rows by the hash of their keys while the number of buckets is not determined."""

    hashed: KeyHash
    least: int

    def slots(
        self, keys: pa.StringArray, texts: KeyTexts | None, partitions: pa.StringArray
    ) -> pa.Array:
        """Return numbers whose remainder is the bucket for any provisional number of buckets."""
        return pa.array(self.hashed.buckets(keys, _UNSETTLED, texts))

    def staged_buckets(self, size_bytes: int, partitions: int, *, alone: bool) -> int:
        """Return the number of buckets into which a flush is split.

        Many runs slow down the merge, while a run of several buckets is read once for each.
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
    """Return the minimum number of buckets per partition."""
    return 1 if config.partition_fields else DEFAULT_BUCKETS
