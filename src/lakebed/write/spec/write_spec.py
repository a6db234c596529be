"""What every task of one write needs, determined on the driver and pickled to the workers."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from lakebed.commit.fence import Fence
from lakebed.errors import ConflictError, UnsupportedError
from lakebed.format.logs.cdc import logging_mode
from lakebed.format.names.consistent_hashing import HashingMetadata
from lakebed.index.bucket import BucketId, agreed_file_id, derived_file_id
from lakebed.index.rings import LoadedRings, first_ring
from lakebed.merge.rule import MergeRule
from lakebed.storage.storage import Storage
from lakebed.table.config.table_config import ConcurrencyMode, TableConfig, TableType
from lakebed.table.config.writer_index import ConsistentHashingIndex, SimpleIndex, WriterIndex
from lakebed.table.view import TableView
from lakebed.write.spec.columns import Marker
from lakebed.write.spec.operation import UPSERT, Kind, Operation

DEFAULT_MEMORY_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class WriteSpec:
    """One write: its target, kind and instant.

    `schema` are the columns of the rows; the view's are those of the table after this write: a
    delete (the key) or a partial update has fewer. `markers` are the columns that mark a row as a
    delete, each with the string that does (None: true).
    """

    view: TableView
    index: WriterIndex
    operation: Operation
    schema: pa.Schema
    instant: str
    fence: Fence
    file_ids: Mapping[BucketId, str]
    seed: str
    markers: tuple[Marker, ...] = ()
    # With non-blocking writers: the instants that replaced file groups of buckets.
    ended: Mapping[BucketId, str] = field(default_factory=dict)
    memory_bytes: int = DEFAULT_MEMORY_BYTES
    # With consistent hashing: where on storage the buckets of each partition are recorded.
    hashing: LoadedRings = field(default_factory=LoadedRings)

    @property
    def storage(self) -> Storage:
        """Return the storage of the table."""
        return self.view.storage

    @property
    def config(self) -> TableConfig:
        """Return the table's configuration."""
        return self.view.config

    @property
    def rule(self) -> MergeRule:
        """Return how versions of a key are merged."""
        return self.view.rule

    def file_id(self, place: BucketId) -> str:
        """Return the file group of a bucket: the existing one, or a new one.

        Tasks do not communicate, so a new id is derived from the write's own seed; with
        non-blocking writers, from what all of them know. With consistent hashing it is on the
        partition's ring.
        """
        if isinstance(self.index, ConsistentHashingIndex):
            return self._node_file_id(place)
        if place in self.file_ids:
            return self.file_ids[place]
        if not self.is_non_blocking:
            return derived_file_id(place, self.seed)
        return agreed_file_id(
            place, self.instant if self.operation.replaces else self.ended.get(place, "")
        )

    def ring(self, partition: str) -> HashingMetadata:
        """Return the buckets of a partition: its own, or those with which a partition starts."""
        assert isinstance(self.index, ConsistentHashingIndex), self.index
        reason = self.hashing.refused.get(partition)
        if reason is not None:
            raise UnsupportedError(
                f"{self.storage.url}: {reason}; read the rows and write them to a new table"
            )
        held = self.hashing.rings.get(partition)
        return first_ring(partition, self.index.buckets) if held is None else held

    def _node_file_id(self, place: BucketId) -> str:
        file_id = self.ring(place.partition).nodes[place.bucket].file_id
        resized = self.hashing.resizing.get(place)
        if resized is not None:
            raise ConflictError(
                f"{self.storage.url}: the bucket of file group {file_id} in partition "
                f"{place.partition!r} may be resized by the clustering {resized}, which is pending; "
                "let Apache Hudi finish it, or roll it back, and retry the write"
            )
        return file_id

    @property
    def is_non_blocking(self) -> bool:
        """Return whether writers do not block each other: then only services write base files."""
        return self.config.concurrency is ConcurrencyMode.NON_BLOCKING

    @property
    def appends_logs(self) -> bool:
        """Return whether an existing file group gets a log instead of a new base file."""
        on_read = self.config.table_type is TableType.MERGE_ON_READ
        return on_read and not self.operation.replaces

    @property
    def is_partial(self) -> bool:
        """Return whether columns that the rows lack keep their values."""
        return self.operation.kind is Kind.UPDATE_COLUMNS

    @property
    def may_delete(self) -> bool:
        """Return whether rows carry flags."""
        return self.operation.kind is Kind.DELETE or bool(self.markers)

    @property
    def staged_rule(self) -> MergeRule:
        """Return the merge rule among the incoming rows: keys to delete have no ordering values."""
        return MergeRule() if self.operation.kind is Kind.DELETE else self.rule

    @property
    def logs_changes(self) -> bool:
        """Return whether the write logs its changes for readers of change data."""
        return logging_mode(self.config.properties) is not None

    @property
    def looks_up(self) -> bool:
        """Return whether the index has to find keys; inserts are always new rows."""
        known = self.operation.kind in (Kind.DELETE, Kind.UPDATE_COLUMNS)
        return isinstance(self.index, SimpleIndex) and (known or self.operation == UPSERT)

    @property
    def looks_everywhere(self) -> bool:
        """Return whether a key is looked up in all partitions."""
        return self.looks_up and isinstance(self.index, SimpleIndex) and self.index.is_global
