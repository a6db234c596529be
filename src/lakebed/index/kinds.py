"""Map the index in a table's properties to its strategy; no other module does so."""

from collections.abc import Callable, Mapping
from typing import Any

from lakebed.index.bloom import BloomStrategy
from lakebed.index.bucket import BucketStrategy
from lakebed.index.consistent_hashing import ConsistentHashingStrategy
from lakebed.index.record.strategy import RecordStrategy
from lakebed.index.simple import SimpleStrategy
from lakebed.index.staged_buckets import AutoBucketStrategy
from lakebed.index.strategy import IndexStrategy
from lakebed.table.config.writer_index import (
    AutoBuckets,
    BloomIndex,
    BucketIndex,
    ConsistentHashingIndex,
    RecordIndex,
    SimpleIndex,
    WriterIndex,
)

_STRATEGIES: Mapping[type[WriterIndex], Callable[[Any], IndexStrategy]] = {
    AutoBuckets: AutoBucketStrategy,
    BloomIndex: BloomStrategy,
    BucketIndex: BucketStrategy,
    ConsistentHashingIndex: ConsistentHashingStrategy,
    RecordIndex: RecordStrategy,
    SimpleIndex: SimpleStrategy,
}


def strategy_of(index: WriterIndex) -> IndexStrategy:
    """Return the strategy of a table for its index."""
    return _STRATEGIES[type(index)](index)
