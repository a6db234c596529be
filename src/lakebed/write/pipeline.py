"""One write from begin to commit, whoever stages the rows and runs the tasks."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import pyarrow as pa

from lakebed.commit.transaction import Transaction, begin
from lakebed.errors import InvalidError
from lakebed.format.avro_schema import arrow_to_avro
from lakebed.format.commit_metadata import CommitMetadata, WriteStat
from lakebed.index.bucket import check_index, index_properties, slices_by_bucket
from lakebed.model.clock import Clock
from lakebed.model.executor import Executor, LocalExecutor
from lakebed.storage.storage import Storage
from lakebed.table.config import BucketIndex, TableConfig
from lakebed.table.properties_file import update_properties
from lakebed.table.schema import evolve, normalise
from lakebed.table.snapshot import CommitCache
from lakebed.write.base_files import WriteStatus, write_base_file
from lakebed.write.plan import FileGroupWrite, plan_base_files
from lakebed.write.spec import WriteSpec, check_all_there, check_columns, check_spelling
from lakebed.write.staging import Segment

Stage = Callable[[WriteSpec], Iterable[Segment]]

# Below this many staged rows a second round of tasks costs more than it saves.
SMALL_ROWS = 200_000


@dataclass(frozen=True, slots=True)
class WriteTarget:
    """The table to write to, and who does the work."""

    storage: Storage
    config: TableConfig
    clock: Clock
    commits: CommitCache
    executor: Executor


@dataclass(frozen=True, slots=True)
class Commit:
    """What a write did: its instant, when it became visible, and each file that it wrote."""

    instant: str
    completion_time: str
    action: str
    operation: str
    write_stats: tuple[WriteStat, ...] = field(repr=False)

    @property
    def rows(self) -> int:
        """Count the rows in the files that it wrote, those carried over included."""
        return sum(stat.num_writes or 0 for stat in self.write_stats)

    @property
    def inserted(self) -> int:
        """Count the rows that are new in the table."""
        return sum(stat.num_inserts or 0 for stat in self.write_stats)

    @property
    def size_bytes(self) -> int:
        """Add up the sizes of the files that it wrote."""
        return sum(stat.file_size_in_bytes or 0 for stat in self.write_stats)


def execute_write(
    target: WriteTarget,
    operation: str,
    incoming: pa.Schema,
    stage: Stage,
    named_index: BucketIndex | None,
) -> tuple[Commit, TableConfig]:
    """Write the rows that `stage` stages as base files, in one commit."""
    check_columns(target.config, incoming)
    with begin(target.storage, target.config, target.clock, target.commits) as transaction:
        index = _settle_index(transaction, named_index)
        spec = _spec(transaction, index, incoming)
        segments = list(stage(spec))
        slices = slices_by_bucket(transaction.snapshot)
        writes = plan_base_files(segments, slices, spec, target.clock)
        statuses = list(_executor(target, writes).run(write_base_file, writes, "write base files"))
        metadata = _metadata(operation, statuses, spec)
        if transaction.config.index is None:
            # Only now: a write that fails must not settle the index for those after it.
            transaction.config = update_properties(transaction.storage, index_properties(index))
        completion = transaction.complete(metadata, {write.place.partition for write in writes})
    stats = tuple(stat for status in statuses for stat in status.stats)
    commit = Commit(spec.instant, completion, spec.action, operation, stats)
    return commit, transaction.config


def _settle_index(transaction: Transaction, named: BucketIndex | None) -> BucketIndex:
    """Give the writer's index: the stored one, or the one named at the first write."""
    stored = transaction.config.index
    if stored is not None:
        if named is not None and named != stored:
            raise InvalidError(
                f"table {transaction.config.name!r} is written with {stored}; found {named}"
            )
        return stored
    if named is None:
        raise InvalidError(
            f"table {transaction.config.name!r} does not say which index its writer uses; name it "
            'at the first write: index="bucket", buckets=<number>'
        )
    check_index(transaction.snapshot, named)
    return named


def _spec(transaction: Transaction, index: BucketIndex, incoming: pa.Schema) -> WriteSpec:
    snapshot = transaction.snapshot
    known = snapshot.schema
    check_all_there(known, incoming)
    schema = evolve(known, incoming) if known.names else normalise(incoming)
    config = transaction.config
    check_columns(config, schema)
    check_spelling(config, known, schema)
    return WriteSpec(
        storage=transaction.storage,
        config=config,
        index=index,
        schema=schema,
        schema_text=arrow_to_avro(schema, config.name),
        instant=transaction.instant.requested,
        action=str(transaction.instant.action),
    )


def _executor(target: WriteTarget, writes: list[FileGroupWrite]) -> Executor:
    """Merge small inputs here: a round of distributed tasks would only add its overhead."""
    rows = sum(write.new_rows for write in writes)
    small = rows <= SMALL_ROWS and all(write.old is None for write in writes)
    if small and not isinstance(target.executor, LocalExecutor):
        return LocalExecutor()
    return target.executor


def _metadata(operation: str, statuses: Iterable[WriteStatus], spec: WriteSpec) -> CommitMetadata:
    by_partition: dict[str, tuple[WriteStat, ...]] = defaultdict(tuple)
    for status in statuses:
        by_partition[status.partition] += status.stats
    return CommitMetadata(
        partition_to_write_stats=dict(sorted(by_partition.items())),
        extra_metadata={"schema": spec.schema_text},
        operation_type=operation,
    )
