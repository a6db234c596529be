"""One write from start to commit, on any engine."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa

from lakebed.commit.conflict import Reads
from lakebed.commit.transaction import Transaction, begin
from lakebed.errors import CorruptError
from lakebed.expr.predicate import Predicate
from lakebed.format.timeline.commit_metadata import CommitMetadata
from lakebed.index.consistent_hashing import check_groups_may_end
from lakebed.index.kinds import strategy_of
from lakebed.merge.rule import Merger
from lakebed.model.clock import Clock
from lakebed.model.executor import Executor
from lakebed.scan.prune import prune_slices
from lakebed.scan.scan import parse_where
from lakebed.storage.storage import Storage
from lakebed.table.config.properties_file import update_properties
from lakebed.table.config.table_config import TableConfig
from lakebed.table.config.writer_index import WriterIndex
from lakebed.table.files.commit_cache import CommitCache
from lakebed.table.files.damage import check_whole
from lakebed.table.files.file_group import FileGroupId, FileSlice
from lakebed.table.files.partition_search import FIRST_COMMIT
from lakebed.table.snapshot import Snapshot
from lakebed.timeline.archived import read_manifest
from lakebed.write.auto_buckets import (
    place_segments,
    settled_spec,
)
from lakebed.write.beginning import (
    first_properties,
    is_settled,
    make_spec,
    settle_index,
    with_properties,
)
from lakebed.write.file_groups import write_file_group
from lakebed.write.index_runs import IndexParticipant
from lakebed.write.locate import locate_segments
from lakebed.write.new_keys import RecordIndexEntries
from lakebed.write.partition_moves import settle_moves
from lakebed.write.plan import plan_writes
from lakebed.write.small_files import fill_small_files
from lakebed.write.spec.commit_summary import Commit, total
from lakebed.write.spec.intake import Intake
from lakebed.write.spec.operation import Kind, Operation
from lakebed.write.spec.status import RowCounts, WriteStatus
from lakebed.write.spec.write_spec import DEFAULT_MEMORY_BYTES, WriteSpec
from lakebed.write.staging import Segment, Staged

Stage = Callable[[WriteSpec, Snapshot], Iterable[Staged]]


@dataclass(frozen=True, slots=True)
class WriteTarget:
    """The table to write to, and the executor that runs the tasks."""

    storage: Storage
    config: TableConfig
    clock: Clock
    commits: CommitCache
    executor: Executor
    merger: Merger | None = None
    memory_bytes: int = DEFAULT_MEMORY_BYTES


@dataclass(frozen=True, slots=True)
class Source:
    """The rows of a write: their columns, and the function that stages them once it has started.

    With `looks_up`, `stage` also looks up the locations of the keys, if the index allows that.
    """

    schema: pa.Schema
    stage: Stage
    looks_up: bool = False
    # Whether the rows come from the table itself, and whether they can be staged again.
    reads_table: bool = False
    repeatable: bool = False
    # The predicate that selected rows of the table.
    where: str | Predicate | None = None
    # Counts the rows of the table that match the keys to delete.
    found: Callable[[Snapshot], int] | None = None
    # Counts the rows that were changed, if staging knows them.
    counted: Callable[[], RowCounts] | None = None
    # Whether the rows that were read have the keys that are written, so that no row of another key
    # can matter.
    reads_own_keys: bool = False
    intake: Intake = field(default_factory=Intake)
    commit_metadata: Mapping[str, str] = field(default_factory=dict)


def execute_write(
    target: WriteTarget, operation: Operation, source: Source, named_index: WriterIndex | None
) -> tuple[Commit, TableConfig]:
    """Write the rows of `source` in one commit."""
    with begin(
        target.storage, target.clock, target.commits, replaces=operation.replaces
    ) as transaction:
        index = settle_index(transaction, named_index)
        properties = first_properties(transaction.snapshot, index, named_index)
        spec = make_spec(
            with_properties(transaction.snapshot, properties),
            operation,
            index,
            source.schema,
            source.intake,
            target.merger,
            transaction.fence,
            transaction.clock.new_uuid(),
        )
        spec = replace(spec, memory_bytes=target.memory_bytes)
        written: list[WriteStatus] = []
        segments: list[Segment] = []
        for staged in source.stage(spec, transaction.snapshot):
            if isinstance(staged, Segment):
                segments.append(staged)
            else:
                written.append(staged)
        chosen: int | None = None
        if not spec.index.is_settled:
            # If nothing was written yet, there is nothing to delete.
            segments = [] if operation.kind is Kind.DELETE else segments
            if segments:
                spec, chosen = settled_spec(transaction, spec, segments)
        if any(segment.staged for segment in segments):
            segments = place_segments(segments, spec)
        touched = {segment.partition for segment in segments}
        touched |= {status.group.partition for status in written}
        met = _met(transaction.snapshot, spec, touched)
        slices = {} if operation.replaces else _slices(met)
        if not operation.replaces:
            _check_whole(met, spec, segments, written)
        filled: frozenset[FileGroupId] = frozenset()
        if not index.hashes_keys:
            segments = _looked_up(target, source, met, segments, spec)
            segments, filled = fill_small_files(segments, slices, spec, target.executor)
        writes = plan_writes(segments, slices, spec, filled)
        written += target.executor.run(write_file_group, writes, "write files")
        replaced = _replaced(operation, transaction.snapshot, touched)
        if properties and not is_settled(transaction.config):
            # Stored only now: a write that fails must not determine the index for later writes.
            with transaction.locked():
                transaction.config = update_properties(transaction.storage, properties)
        transaction.participants.append(IndexParticipant(spec, written))
        stats = (stat for status in written for stat in status.stats)
        metadata = CommitMetadata.of(operation.name, spec.view.avro_schema, stats, replaced)
        metadata = metadata.with_extra(source.commit_metadata)
        metadata = _marked_first(metadata, transaction.snapshot)
        if spec.index.records_keys:
            transaction.participants.append(RecordIndexEntries(written))
        # Counting may read the table; if that fails, nothing was committed.
        counts = _counts(spec, source, transaction.snapshot, written, bool(replaced))
        reads_rows = source.reads_table and not source.reads_own_keys
        completion = transaction.commit(
            metadata,
            {status.group.partition for status in written},
            looked=_looked(operation, spec, touched),
            blind=_is_blind(operation, spec, source),
            reads=_reads(source, transaction) if reads_rows else None,
        )
    commit = Commit.of(transaction.instant, completion, metadata, counts)
    return replace(commit, buckets=chosen), transaction.config


def execute_delete_partitions(
    target: WriteTarget, operation: Operation, choose: Callable[[Iterable[str]], Iterable[str]]
) -> tuple[Commit | None, TableConfig]:
    """Delete all file groups of the partitions that `choose` picks from the existing ones.

    If `choose` picks none, nothing is committed, and the Commit is None.
    """
    with begin(target.storage, target.clock, target.commits, replaces=True) as transaction:
        check_groups_may_end(target.storage, transaction.config, operation.name)
        snapshot = transaction.snapshot
        there = sorted({slice_.group.partition for slice_ in snapshot.slices})
        gone = set(choose(there))
        if not gone:
            return None, transaction.config  # leaving the transaction rolls back the instant
        replaced = _groups_of(snapshot, gone)
        metadata = CommitMetadata.of(operation.name, snapshot.schema_text, (), replaced)
        completion = transaction.commit(metadata, ())
    counts = RowCounts(inserted=0, updated=0)
    return Commit.of(transaction.instant, completion, metadata, counts), transaction.config


def _marked_first(metadata: CommitMetadata, snapshot: Snapshot) -> CommitMetadata:
    """Return the metadata of a commit, marked if no other commit can precede it in the table."""
    timeline = snapshot.timeline
    if timeline.commits or timeline.pending():
        return metadata
    try:
        if read_manifest(snapshot.storage, snapshot.config.history_path):
            return metadata
    except CorruptError:
        return metadata
    return metadata.with_extra({FIRST_COMMIT: "true"})


def _met(snapshot: Snapshot, spec: WriteSpec, touched: set[str]) -> Snapshot:
    """Return the snapshot of the partitions that the write reads or changes."""
    return snapshot if spec.looks_everywhere else snapshot.within(touched)


def _looked(operation: Operation, spec: WriteSpec, touched: set[str]) -> frozenset[str] | None:
    """Return the partitions whose rows the write depends on; None for the whole table."""
    if spec.looks_everywhere or operation.replaces_all:
        return None
    return frozenset(touched) if spec.looks_up or operation.replaces else frozenset()


def _reads(source: Source, transaction: Transaction) -> Reads:
    """Return a function that tests whether the predicate of `source` may select rows of a group."""
    config, schema = transaction.config, transaction.snapshot.schema
    predicate = parse_where(source.where, schema)

    def may_match(group: FileGroupId) -> bool:
        written = FileSlice(group, "", None)
        return bool(prune_slices(config, schema, predicate, [written]).slices)

    return may_match


def _is_blind(operation: Operation, spec: WriteSpec, source: Source) -> bool:
    """Return whether the write appends its rows without having read anything."""
    reads = source.reads_table or spec.looks_up or spec.is_partial
    return spec.appends_logs and not operation.replaces and not reads


def _counts(
    spec: WriteSpec,
    source: Source,
    snapshot: Snapshot,
    written: list[WriteStatus],
    replaces: bool,
) -> RowCounts:
    """Count inserted, updated and deleted rows; None where the write did not look them up."""
    if source.counted is not None:
        return source.counted()
    # The rows of a write are the same in all column groups.
    first = spec.parts[0].column_group
    counts = total(s.counts for s in written if s.group.column_group == first)
    operation = spec.operation
    if operation.kind is not Kind.DELETE and spec.looks_everywhere:
        return RowCounts()  # a moved row is deleted in one place, inserted in another
    if operation.kind is not Kind.DELETE:
        # The number of rows in replaced file groups was not counted.
        return replace(counts, deleted=None) if replaces else counts
    deleted = counts.deleted
    if deleted is None and source.found is not None:
        deleted = source.found(snapshot)
    elif deleted is None and source.reads_table:
        # Each key was read from an existing row.
        deleted = sum(stat.num_deletes or 0 for status in written for stat in status.stats)
    return RowCounts(0, 0, deleted)


def _looked_up(
    target: WriteTarget,
    source: Source,
    snapshot: Snapshot,
    segments: list[Segment],
    spec: WriteSpec,
) -> list[Segment]:
    """Assign the staged rows to the file groups that hold their keys."""
    if not spec.looks_up:
        return segments
    strategy = strategy_of(spec.index)
    slices = strategy.indexed_slices(snapshot)
    if not source.looks_up or strategy.needs_keys:
        segments = locate_segments(segments, slices, spec, target.executor)
    if spec.looks_everywhere:
        segments = settle_moves(segments, slices, spec, target.executor)
    return segments


def _check_whole(
    snapshot: Snapshot, spec: WriteSpec, segments: Iterable[Segment], written: Iterable[WriteStatus]
) -> None:
    """Raise CorruptError if rows go to a damaged file group, or its keys are to be looked up.

    Rows on top of lost ones would be lost with them when the damage is repaired. With two file
    groups for one bucket, it is unknown which of them holds a key.
    """
    groups = {segment.group for segment in segments if segment.file_id}
    groups |= {status.group for status in written}
    touched = {segment.partition for segment in segments} | {
        status.group.partition for status in written
    }
    check_whole(
        slice_
        for slice_ in snapshot.slices
        if slice_.damage
        and (
            slice_.group in groups
            or (spec.looks_up and (spec.looks_everywhere or slice_.group.partition in touched))
        )
    )
    strategy_of(spec.index).check_groups(snapshot, groups)


def _slices(snapshot: Snapshot) -> Mapping[FileGroupId, FileSlice]:
    return {s.group: s for s in snapshot.slices if not s.damage}


def _replaced(
    operation: Operation, snapshot: Snapshot, touched: set[str]
) -> Mapping[str, tuple[str, ...]] | None:
    if not operation.replaces:
        return None
    if operation.replaces_all:
        return _groups_of(snapshot, None)
    return _groups_of(snapshot.within(touched), touched)


def _groups_of(snapshot: Snapshot, partitions: set[str] | None) -> Mapping[str, tuple[str, ...]]:
    """Return all file ids of each of `partitions`; None means all partitions."""
    ids: dict[str, set[str]] = defaultdict(set)
    for group in snapshot.groups:
        if partitions is None or group.partition in partitions:
            ids[group.partition].add(group.file_id)
    return {partition: tuple(sorted(of)) for partition, of in sorted(ids.items())}
