"""The start of a write: the index that finds its rows, and the spec for its tasks."""

from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa

from lakebed.commit.transaction import Transaction
from lakebed.errors import InvalidError, UnsupportedError
from lakebed.index.bucket import BucketId, bucket_slices, check_index, ended_buckets
from lakebed.index.consistent_hashing import agrees, ring_file_ids, settle_hashing
from lakebed.index.guest import (
    check_base_files,
    check_doubtful_spelling,
    check_spelling,
    default_index,
)
from lakebed.index.rings import LoadedRings, load_rings
from lakebed.merge.rule import Merger
from lakebed.table.config.table_config import ConcurrencyMode, TableConfig
from lakebed.table.config.writer_index import (
    AutoBuckets,
    BucketIndex,
    ConsistentHashingIndex,
    SimpleIndex,
    WriterIndex,
)
from lakebed.table.snapshot import Snapshot
from lakebed.write.auto_buckets import NON_BLOCKING_BUCKETS, settle_buckets
from lakebed.write.spec.columns import Intake, settle_columns
from lakebed.write.spec.operation import Operation
from lakebed.write.spec.write_spec import WriteSpec


def settle_index(transaction: Transaction, named: WriterIndex | None) -> WriterIndex:
    """Return the writer's index: the stored one, or the one named at the first write.

    An index that was not named is not stored: Hudi's writers reject options that contradict it.
    """
    stored = transaction.config.index
    if isinstance(stored, AutoBuckets):
        if transaction.snapshot.slices or named is not None:
            stored = (
                None  # another writer was first and chose its own number; or the caller names one
            )
        elif transaction.config.concurrency is ConcurrencyMode.NON_BLOCKING:
            stored, _ = settle_buckets(transaction, NON_BLOCKING_BUCKETS)
    if stored is not None:
        if named is not None and not agrees(named, stored):
            raise InvalidError(
                f"table {transaction.config.name!r} is written with {stored}; found {named}"
            )
        check_doubtful_spelling(transaction.snapshot)
        return stored
    if named is None:
        return default_index(transaction.snapshot)
    if isinstance(named, ConsistentHashingIndex):
        named = settle_hashing(transaction.snapshot, named)
    else:
        assert not isinstance(named, AutoBuckets), named
        check_index(transaction.snapshot, named)
        if isinstance(named, SimpleIndex):
            check_base_files(transaction.snapshot)
    check_spelling(transaction.snapshot)
    return named


def is_settled(config: TableConfig) -> bool:
    """Return whether the table's index and number of buckets are determined."""
    return not isinstance(config.index, AutoBuckets | None)


def hides_rows(operation: Operation, config: TableConfig) -> UnsupportedError:
    """Return the option or operation that must not replace file groups with fixed, hashed ids."""
    return UnsupportedError(
        f"table {config.name!r} is written with consistent hashing, whose file groups keep their "
        f"ids: after {operation.name} new rows would be hidden; delete and upsert instead"
    )


def make_spec(
    transaction: Transaction,
    operation: Operation,
    index: WriterIndex,
    incoming: pa.Schema,
    intake: Intake,
    merger: Merger | None,
) -> WriteSpec:
    """Return the spec for the tasks of a write that has started."""
    config = transaction.config
    hashing = _hashing(operation, index, transaction)
    columns = settle_columns(config, operation, transaction.snapshot.schema, incoming, intake)
    view = transaction.snapshot.view(merger)
    _ = view.rule  # by the present schema: checked here rather than in a task
    return WriteSpec(
        view=replace(view, config=config, schema=columns.table, schema_text=columns.table_text),
        index=index,
        operation=operation,
        schema=columns.staged,
        instant=transaction.instant.requested,
        fence=transaction.fence,
        file_ids=_file_ids(operation, index, transaction.snapshot, hashing),
        hashing=hashing,
        seed=transaction.clock.new_uuid(),
        ended=_ended(index, transaction),
        markers=columns.markers,
    )


def _ended(index: WriterIndex, transaction: Transaction) -> Mapping[BucketId, str]:
    """Return what non-blocking writers must agree on."""
    non_blocking = transaction.config.concurrency is ConcurrencyMode.NON_BLOCKING
    fixed = non_blocking and isinstance(index, BucketIndex)
    return ended_buckets(transaction.snapshot) if fixed else {}


def _hashing(operation: Operation, index: WriterIndex, transaction: Transaction) -> LoadedRings:
    """Return the rings of consistent hashing; none for another index."""
    if not isinstance(index, ConsistentHashingIndex):
        return LoadedRings()
    if operation.replaces:
        raise hides_rows(operation, transaction.config)
    hashing = load_rings(transaction.snapshot)
    hashing.mark_committed(transaction.storage)
    return hashing


def _file_ids(
    operation: Operation, index: WriterIndex, snapshot: Snapshot, hashing: LoadedRings
) -> Mapping[BucketId, str]:
    """Return the file group of each bucket that a write adds to; one that replaces adds to none."""
    if isinstance(index, ConsistentHashingIndex):
        return ring_file_ids(snapshot, hashing.rings)
    if operation.replaces or not isinstance(index, BucketIndex):
        return {}
    return {place: of[0].group.file_id for place, of in bucket_slices(snapshot).items()}
