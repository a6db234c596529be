"""The number of buckets of a table that was created without one, determined by its first write.

The right number is known only when the rows are staged, but staging splits rows by bucket. So rows
are staged into a number of buckets that is computed from the size of each flush, a power of two. As

    hash % staged = (hash % settled) % staged      where staged divides settled, or the reverse,

a staged run belongs to one bucket of the final number, or holds the rows of several buckets, whose
tasks each read the run and keep their own rows. The alternatives are in
`docs/decisions/0017-buckets-from-the-first-write.md`.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

import pyarrow as pa

from lakebed.commit.transaction import Transaction
from lakebed.errors import ConflictError
from lakebed.format.names.meta_columns import RECORD_KEY
from lakebed.index.hash_locator import KeyHash
from lakebed.index.kinds import strategy_of
from lakebed.index.staged_buckets import least_buckets
from lakebed.index.strategy import NewWrite
from lakebed.table.config.properties_file import load_config, update_properties
from lakebed.table.config.table_config import TableConfig
from lakebed.table.config.writer_index import DEFAULT_BUCKETS, BucketIndex, WriterIndex
from lakebed.write.spec.write_spec import WriteSpec
from lakebed.write.staging import Segment

SMALL_BYTES: Final = 64 << 20
"""Below this size of the first load, a table gets the smallest number of buckets."""
BUCKET_BYTES: Final = 128 << 20
"""The average size of a bucket of a larger load, as Arrow columns in memory."""
MOST_BUCKETS: Final = 1024


def choose_buckets(config: TableConfig, segments: Iterable[Segment]) -> int:
    """Choose the number of buckets from the size and the partitions of the staged rows.

    If the table was created with an expected number of rows, the size is scaled to that number.
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


def settle_buckets(transaction: Transaction, buckets: int) -> tuple[WriterIndex, bool]:
    """Store the number of buckets, under the lock; return the index and whether this write chose it.

    Of two concurrent first writes, the first to get here decides, and the other uses its number.
    """
    with transaction.locked():
        config = load_config(transaction.storage)
        index = config.index
        assert index is not None, config
        if index.is_settled:
            transaction.config = config
            return index, False
        index = BucketIndex(buckets, index.hash_fields)
        properties = index.properties(config.record_key_fields)
        transaction.config = update_properties(transaction.storage, properties)
        return index, True


def settled_spec(
    transaction: Transaction, spec: WriteSpec, segments: Iterable[Segment]
) -> tuple[WriteSpec, int | None]:
    """Return the write with the final number of buckets, and that number, None if chosen before."""
    buckets = choose_buckets(spec.config, segments)
    index, ours = settle_buckets(transaction, buckets)
    if not spec.index.agrees(index):
        raise ConflictError(
            f"{spec.storage.url}: another write settled the index as {index!r} while the rows were "
            "staged; run the write again"
        )
    did = spec.operation
    write = NewWrite(transaction.snapshot, spec.instant, spec.seed, did.name, did.replaces)
    locator = strategy_of(index).locator(write)
    view = replace(spec.view, config=transaction.config)
    return replace(spec, view=view, index=index, locator=locator), buckets if ours else None


def place_segments(segments: Iterable[Segment], spec: WriteSpec) -> list[Segment]:
    """Assign staged runs to the file groups of the final buckets; a run may be assigned to several."""
    placed: list[Segment] = []
    for segment in segments:
        if segment.staged is None:
            placed.append(segment)
            continue
        groups = spec.locator.file_ids(segment.partition, segment.staged)
        share = len(groups)
        placed += [
            replace(
                segment,
                file_id=file_id,
                staged=own,
                num_rows=-(-segment.num_rows // share),
                num_deletes=-(-segment.num_deletes // share),
                size_bytes=-(-segment.size_bytes // share),
            )
            for file_id, own in groups
        ]
    return placed


def of_bucket(
    batches: Iterable[pa.RecordBatch], segment: Segment, spec: WriteSpec
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a staged run that belong to the bucket of `segment`."""
    staged = segment.staged
    if staged is None:
        yield from batches
        return
    hashed = KeyHash.of(spec.config, spec.index)
    for batch in batches:
        found = hashed.buckets(batch.column(RECORD_KEY), staged.of)
        kept = batch.filter(pa.array(found == staged.number))
        if kept.num_rows:
            yield kept


NON_BLOCKING_BUCKETS: Final = DEFAULT_BUCKETS
"""The number of buckets for non-blocking writers: Hudi's default, whatever they write."""
