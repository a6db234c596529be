"""The start of a write: the index that finds its rows, and the spec for its tasks."""

from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa

from lakebed.commit.fence import Fence
from lakebed.commit.transaction import Transaction
from lakebed.errors import InvalidError
from lakebed.index.default_index import check_doubtful_spelling, check_spelling, default_index
from lakebed.index.kinds import strategy_of
from lakebed.index.secondary.new_entries import IndexWriters
from lakebed.index.strategy import NewWrite
from lakebed.merge.rule import Merger
from lakebed.model.options.table import UPDATE_PARTITION
from lakebed.table.config.table_config import ConcurrencyMode, TableConfig
from lakebed.table.config.writer_index import WriterIndex
from lakebed.table.snapshot import Snapshot
from lakebed.write.auto_buckets import NON_BLOCKING_BUCKETS, settle_buckets
from lakebed.write.spec.columns import settle_columns
from lakebed.write.spec.intake import Intake
from lakebed.write.spec.operation import Operation
from lakebed.write.spec.write_spec import WriteSpec


def settle_index(transaction: Transaction, named: WriterIndex | None) -> WriterIndex:
    """Return the index to write with: the stored one, or the one named, or the default.

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


def first_properties(
    snapshot: Snapshot, index: WriterIndex, named: WriterIndex | None
) -> dict[str, str]:
    """Return the properties that the write has to store because it is the first to name the index."""
    config = snapshot.config
    if named is None or is_settled(config):
        return {}
    properties = index.properties(config.record_key_fields)
    if UPDATE_PARTITION.name in properties and snapshot.slices:
        # The engine that wrote the rows may have left them in their first partition, as Hudi does by
        # default with this index; reads rely on the property.
        properties[UPDATE_PARTITION.name] = "false"
    if UPDATE_PARTITION.name in config.properties:
        properties.pop(UPDATE_PARTITION.name, None)
    return properties


def is_settled(config: TableConfig) -> bool:
    """Return whether the table's index is stored and complete."""
    return config.index is not None and config.index.is_settled


def with_properties(snapshot: Snapshot, properties: Mapping[str, str]) -> Snapshot:
    """Return the snapshot as if its table had these properties too."""
    if not properties:
        return snapshot
    merged = {**snapshot.config.properties, **properties}
    return replace(snapshot, config=TableConfig.parse(merged, snapshot.storage.url))


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
        flagged=intake.flagged,
        supersedes=intake.supersedes and bool(columns.touched),
    )
