"""The number of buckets of a table that was created without one, determined by its first write.

The right number is known only when the rows are staged, but staging splits rows by bucket. So rows
are staged by a number of buckets that follows from the size of each flush, a power of two. As

    hash % staged = (hash % settled) % staged      where staged divides settled, or the reverse,

a staged run either belongs entirely to one bucket of the final number, or holds the rows of
several, each of which reads the run and keeps its own rows. Decision 17 lists the alternatives.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

import pyarrow as pa

from lakebed.commit.transaction import Transaction
from lakebed.format.names.bucket import key_buckets
from lakebed.format.names.meta_columns import RECORD_KEY
from lakebed.index.bucket import BucketId, index_properties
from lakebed.table.config.properties_file import load_config, update_properties
from lakebed.table.config.table_config import TableConfig
from lakebed.table.config.writer_index import DEFAULT_BUCKETS, AutoBuckets, BucketIndex
from lakebed.write.spec.write_spec import WriteSpec
from lakebed.write.staging import Segment, least_buckets

SMALL_BYTES: Final = 64 << 20
"""Below this size of the first load, a table gets the smallest number of buckets."""
BUCKET_BYTES: Final = 128 << 20
"""The average size of a bucket of a larger load, as Arrow columns in memory."""
MOST_BUCKETS: Final = 1024


def choose_buckets(config: TableConfig, segments: Iterable[Segment]) -> int:
    """Choose the number of buckets from the size and the partitions of the staged rows.

    If the table was created with a number of expected rows, that number is used instead.
    """
    held = list(segments)
    rows = sum(segment.num_rows for segment in held)
    size_bytes = sum(segment.size_bytes for segment in held)
    if config.expected_rows is not None and rows:
        size_bytes = size_bytes * config.expected_rows // rows
    least = least_buckets(config)
    if size_bytes < SMALL_BYTES:
        return least
    partitions = len({segment.partition for segment in held})
    buckets = least
    while buckets < MOST_BUCKETS and size_bytes > buckets * partitions * BUCKET_BYTES:
        buckets *= 2
    return buckets


def settle_buckets(transaction: Transaction, buckets: int) -> tuple[BucketIndex, bool]:
    """Store the number of buckets, under the lock; return whether this write chose it.

    Of two concurrent first writes, the one that gets here first decides, and the other follows.
    """
    with transaction.locked():
        config = load_config(transaction.storage)
        if isinstance(config.index, BucketIndex):
            transaction.config = config
            return config.index, False
        assert isinstance(config.index, AutoBuckets), config.index
        index = BucketIndex(buckets, config.index.hash_fields)
        properties = index_properties(index, config.record_key_fields)
        transaction.config = update_properties(transaction.storage, properties)
        return index, True


def settled_spec(
    transaction: Transaction, spec: WriteSpec, segments: Iterable[Segment]
) -> tuple[WriteSpec, int | None]:
    """Return the write with the final number of buckets, and that number if this write chose it."""
    index, ours = settle_buckets(transaction, choose_buckets(spec.config, segments))
    settled = replace(spec, view=replace(spec.view, config=transaction.config), index=index)
    return settled, index.buckets if ours else None


def place_segments(segments: Iterable[Segment], spec: WriteSpec) -> list[Segment]:
    """Assign staged runs to the file groups of the final buckets; a run of several goes to each."""
    assert isinstance(spec.index, BucketIndex), spec.index
    settled = spec.index.buckets
    placed: list[Segment] = []
    for segment in segments:
        if not segment.of_buckets:
            placed.append(segment)
            continue
        staged = segment.of_buckets
        if settled <= staged and staged % settled == 0:
            file_id = spec.file_id(BucketId(segment.partition, segment.bucket % settled))
            placed.append(replace(segment, file_id=file_id, bucket=0, of_buckets=0))
            continue
        # A number that another writer chose need not be compatible with that of the staged runs.
        divides = settled % staged == 0
        several = range(segment.bucket, settled, staged) if divides else range(settled)
        share = len(several)
        placed += [
            replace(
                segment,
                file_id=spec.file_id(BucketId(segment.partition, bucket)),
                bucket=bucket,
                of_buckets=settled,
                num_rows=-(-segment.num_rows // share),
                num_deletes=-(-segment.num_deletes // share),
                size_bytes=-(-segment.size_bytes // share),
            )
            for bucket in several
        ]
    return placed


def of_bucket(
    batches: Iterable[pa.RecordBatch], segment: Segment, spec: WriteSpec
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a staged run that belong to the bucket of `segment`."""
    if not segment.of_buckets:
        yield from batches
        return
    config = spec.config
    assert isinstance(spec.index, BucketIndex), spec.index
    for batch in batches:
        found = key_buckets(
            batch.column(RECORD_KEY),
            config.record_key_fields,
            spec.index.hash_fields,
            segment.of_buckets,
            composite=config.composite_key,
        )
        kept = batch.filter(pa.array(found == segment.bucket))
        if kept.num_rows:
            yield kept


NON_BLOCKING_BUCKETS: Final = DEFAULT_BUCKETS
"""Non-blocking writers use Hudi's default number, whatever they write."""
