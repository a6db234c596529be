"""The settings that the tasks of a write share, determined on the driver and pickled to workers."""

from dataclasses import dataclass, replace

import pyarrow as pa

from lakebed.commit.fence import Fence
from lakebed.format.logs.cdc import logging_mode
from lakebed.index.secondary.new_entries import NO_INDEXES, IndexWriters
from lakebed.index.strategy import Locator
from lakebed.merge.rule import MergeRule
from lakebed.storage.storage import Storage
from lakebed.table.config.table_config import ConcurrencyMode, TableConfig, TableType
from lakebed.table.config.writer_index import WriterIndex
from lakebed.table.view import TableView
from lakebed.write.spec.operation import UPSERT, Kind, Operation

DEFAULT_MEMORY_BYTES = 64 << 20

Marker = tuple[str, str | None]
"""A column that marks a row as a delete, and the string that marks it (None: the boolean true)."""


@dataclass(frozen=True, slots=True)
class TouchedGroup:
    """A column group that a write touches, and the columns of its rows there.

    `partial` rows lack some columns of the group. With `deletes` the group gets only the rows that
    are marked as deletes.
    """

    name: str
    schema: pa.Schema
    partial: bool = False
    deletes: bool = False


@dataclass(frozen=True, slots=True)
class WriteSpec:
    """One write: its target, kind and instant.

    `schema` has the columns of the rows, the view's schema the columns of the table after this
    write. A delete (the key) or a partial update has fewer columns than the table. `markers` are
    the columns that mark a row as a delete, each with the string that marks it (None: the boolean
    true). `touched` are the column groups that it writes to; none in a table without column groups.
    """

    view: TableView
    index: WriterIndex
    locator: Locator
    operation: Operation
    schema: pa.Schema
    instant: str
    fence: Fence
    seed: str
    markers: tuple[Marker, ...] = ()
    indexes: IndexWriters = NO_INDEXES
    memory_bytes: int = DEFAULT_MEMORY_BYTES
    touched: tuple[TouchedGroup, ...] = ()
    column_group: str = ""
    deletes_only: bool = False
    # Whether the rows have a column of flags.
    flagged: bool = False
    # Whether copies of the table's ordering column that are lower than the stored ones are raised.
    supersedes: bool = False

    @property
    def parts(self) -> tuple["WriteSpec", ...]:
        """Return a spec for each column group that is written; in an ordinary table, only this one."""
        if not self.touched:
            return (self,)
        names = [group.name for group in self.touched if not group.deletes]
        indexes = self.indexes.by_group(self.view.column_groups, names)
        return tuple(
            self._part(group, indexes.get(group.name, NO_INDEXES)) for group in self.touched
        )

    def _part(self, group: TouchedGroup, indexes: IndexWriters) -> "WriteSpec":
        did, groups = self.operation, self.view.column_groups
        if group.deletes and self.flagged:
            did = replace(did, kind=Kind.DELETE)
        elif did.kind is not Kind.DELETE:
            did = replace(did, kind=Kind.UPDATE_COLUMNS if group.partial else Kind.ROWS)
        has_copies = any(groups.owner(c) != group.name for c in groups.ordering_of(group.name))
        return replace(
            self,
            view=self.view.of_group(group.name),
            schema=group.schema,
            operation=did,
            touched=(),
            column_group=group.name,
            deletes_only=group.deletes,
            indexes=indexes,
            supersedes=self.supersedes and has_copies and not group.deletes,
        )

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
        """Return the rule by which versions of a key are merged."""
        return self.view.rule

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
        """Return whether staged rows carry flags, because some may be deletes."""
        return self.operation.kind is Kind.DELETE or self.flagged or bool(self.markers)

    @property
    def staged_rule(self) -> MergeRule:
        """Return the merge rule among the incoming rows: keys to delete have no ordering values."""
        return MergeRule() if self.operation.kind is Kind.DELETE else self.rule

    @property
    def staged_rules(self) -> frozenset[MergeRule]:
        """Return the merge rules of the incoming rows; those of column groups may differ."""
        return frozenset(part.staged_rule for part in self.parts)

    @property
    def ordering_columns(self) -> tuple[str, ...]:
        """Return the ordering columns, in which every row must have a value."""
        parts = [part for part in self.parts if part.operation.kind is not Kind.DELETE]
        found = [name for part in parts for name in part.rule.ordering_fields]
        return tuple(dict.fromkeys(found))

    @property
    def logs_changes(self) -> bool:
        """Return whether the write logs its changes for readers of change data."""
        return logging_mode(self.config.properties) is not None

    @property
    def looks_up(self) -> bool:
        """Return whether the index has to find keys; inserts are always new rows."""
        known = self.operation.kind in (Kind.DELETE, Kind.UPDATE_COLUMNS)
        return not self.index.hashes_keys and (known or self.operation == UPSERT)

    @property
    def looks_everywhere(self) -> bool:
        """Return whether a key is looked up in all partitions."""
        return self.looks_up and self.index.is_global
