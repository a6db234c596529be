"""The start of a write: the index that finds its rows, and the spec for its tasks."""

from dataclasses import replace

import pyarrow as pa

from lakebed.commit.fence import Fence
from lakebed.commit.transaction import Transaction
from lakebed.errors import InvalidError
from lakebed.index.kinds import strategy_of
from lakebed.index.secondary.new_entries import IndexWriters
from lakebed.index.strategy import NewWrite
from lakebed.index.unstored import check_doubtful_spelling, check_spelling, default_index
from lakebed.merge.rule import Merger
from lakebed.table.config.table_config import ConcurrencyMode
from lakebed.table.config.writer_index import WriterIndex
from lakebed.table.snapshot import Snapshot
from lakebed.write.auto_buckets import NON_BLOCKING_BUCKETS, settle_buckets
from lakebed.write.spec.columns import settle_columns
from lakebed.write.spec.intake import Intake
from lakebed.write.spec.operation import Operation
from lakebed.write.spec.write_spec import WriteSpec


def settle_index(transaction: Transaction, named: WriterIndex | None) -> WriterIndex:
    """Return the index to write with: the stored one, else the one named, else the default.

    The default is not stored: Hudi's writers reject options that contradict a stored index.
    """
    stored = transaction.config.index
    if stored is not None and not stored.is_settled:
        if transaction.snapshot.slices or named is not None:
            # Another writer wrote first with its own number of buckets, or the caller names one.
            stored = None
        elif transaction.config.concurrency is ConcurrencyMode.NON_BLOCKING:
            stored, _ = settle_buckets(transaction, NON_BLOCKING_BUCKETS)
    if stored is not None:
        if named is not None and not named.agrees(stored):
            raise InvalidError(
                f"table {transaction.config.name!r} is written with {stored!r}; found {named!r}"
            )
        check_doubtful_spelling(transaction.snapshot)
        return stored
    if named is None:
        return default_index(transaction.snapshot)
    settled = strategy_of(named).settle(transaction.snapshot)
    check_spelling(transaction.snapshot)
    return settled


def make_spec(
    snapshot: Snapshot,
    operation: Operation,
    index: WriterIndex,
    incoming: pa.Schema,
    intake: Intake,
    merger: Merger | None,
    fence: Fence,
    seed: str,
) -> WriteSpec:
    """Return the spec for the tasks that stage rows of `incoming` under the fence's instant."""
    write = NewWrite(snapshot, fence.instant, seed, operation.name, operation.replaces)
    locator = strategy_of(index).locator(write)
    view = snapshot.view(merger)
    columns = settle_columns(
        snapshot.config, operation, snapshot.schema, incoming, intake, view.column_groups
    )
    _ = view.rule  # checked here, for the present schema, rather than in a task
    return WriteSpec(
        view=replace(view, schema=columns.table, schema_text=columns.table_text),
        index=index,
        locator=locator,
        operation=operation,
        schema=columns.staged,
        instant=fence.instant,
        fence=fence,
        seed=seed,
        markers=columns.markers,
        indexes=IndexWriters.of(snapshot.config, columns.table),
        touched=columns.touched,
    )
