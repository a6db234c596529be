"""An open table: its storage, configuration and latest snapshot."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

import pyarrow as pa

from lakebed.api.engines import Engines
from lakebed.api.given.arguments import key_schema
from lakebed.api.given.keys import keys_to_table
from lakebed.api.progress import watched_target
from lakebed.commit.hold import hold_table
from lakebed.errors import InvalidError, UnfinishedError
from lakebed.index.secondary.open_index import UnusableIndex, open_indexes
from lakebed.merge.rule import Merger
from lakebed.model.clock import Clock
from lakebed.scan.index_choice import Indexes
from lakebed.services.indexing.advisor import ScanLog
from lakebed.services.unfinished import finish_unfinished
from lakebed.storage.storage import Storage
from lakebed.table.config.merge_mode import MergeMode
from lakebed.table.config.metadata_partitions import metadata_partitions
from lakebed.table.config.partitions import partition_column
from lakebed.table.config.properties_file import load_config
from lakebed.table.config.table_config import TableConfig
from lakebed.table.config.writable import check_writable
from lakebed.table.files.commit_cache import CommitCache
from lakebed.table.read.source_cache import SourceCache
from lakebed.table.snapshot import Snapshot, load_snapshot
from lakebed.table.time_travel import History, PointInTime
from lakebed.timeline.active import ActiveTimeline
from lakebed.write.pipeline import WriteTarget

log = logging.getLogger(__name__)

Result = TypeVar("Result")


@dataclass(slots=True)
class _Held:
    """A snapshot and its caches, in one value because threads may share a table."""

    snapshot: Snapshot
    sources: SourceCache = field(default_factory=SourceCache)
    indexes: Indexes | None = None


class TableHandle:
    """The state shared by a table's reads, writes and services."""

    def __init__(
        self,
        storage: Storage,
        config: TableConfig,
        engines: Engines,
        clock: Clock,
        merger: Merger | None = None,
        *,
        gives_up_indexes: bool = False,
    ) -> None:
        self._storage = storage
        self._config = config
        self._engines = engines
        self._clock = clock
        self._merger = merger
        self._gives_up_indexes = gives_up_indexes
        if merger is not None and config.merge_mode is not MergeMode.CUSTOM:
            raise InvalidError(
                f"table {config.name!r} merges by {config.merge_mode}: merger= needs a "
                "table that was created with a merger"
            )
        self._commits = CommitCache(
            ActiveTimeline(storage, config.timeline_path), config.history_path
        )
        self._held: _Held | None = None
        self._scan_log = ScanLog(storage)

    def __repr__(self) -> str:
        return f"Table({self._config.name!r}, {self._config.table_type}, {self._storage.url})"

    @property
    def name(self) -> str:
        """Return the table's name."""
        return self._config.name

    @property
    def path(self) -> str:
        """Return the table's path or URL."""
        return self._storage.url

    @property
    def storage(self) -> Storage:
        """Return the storage of the table's files."""
        return self._storage

    @property
    def config(self) -> TableConfig:
        """Return the table's configuration, parsed from its properties."""
        return self._config

    @property
    def schema(self) -> pa.Schema:
        """Return the columns as of the latest commit, without the meta columns."""
        return self._snapshot(None).schema

    def schema_as_of(self, as_of: PointInTime | None) -> pa.Schema:
        """Return the columns as of a time, without the meta columns.

        Args:
            as_of: An instant or a time, as for `read`; None means now.
        """
        return self._snapshot(as_of).schema

    def _snapshot(self, as_of: PointInTime | None) -> Snapshot:
        self._config = load_config(self._storage)
        instant = None if as_of is None else self._history().instant_of(as_of)
        snapshot = load_snapshot(self._storage, self._config, instant, self._commits)
        if instant is not None and not snapshot.timeline.commits:
            self._check_begun(instant)
        held = self._held
        # The configuration and timeline determine a snapshot: files never change, and none is added
        # or removed without an instant.
        same = held is not None and (held.snapshot.config, held.snapshot.timeline) == (
            snapshot.config,
            snapshot.timeline,
        )
        # A lost file may have been restored from a copy.
        if held is not None and same and not held.snapshot.damaged:
            return held.snapshot
        self._held = _Held(snapshot)
        return snapshot

    def _history(self) -> History:
        return History(self._storage, self._config, self._commits.active)

    def _caches(self, snapshot: Snapshot) -> "_Held":
        """Return the caches of a snapshot; new ones if another thread has replaced the snapshot."""
        held = self._held
        return held if held is not None and held.snapshot is snapshot else _Held(snapshot)

    def _sources(self, snapshot: Snapshot) -> SourceCache:
        """Return the cache of opened runs for the slices of a snapshot."""
        return self._caches(snapshot).sources

    def _indexes(self, snapshot: Snapshot) -> Indexes:
        """Return the secondary indexes at a snapshot; those of the latest snapshot are cached."""
        held = self._caches(snapshot)
        opened = held.indexes
        # An index that is being built becomes usable without a new instant.
        if opened is None or any(isinstance(index, UnusableIndex) for index in opened):
            held.indexes = opened = open_indexes(snapshot)
        return opened

    def _check_begun(self, as_of: str) -> None:
        """Raise InvalidError if `as_of` is before the first commit, if there is one."""
        commits = self._commits.active.load().commits
        if commits:
            raise InvalidError(
                f"as_of {as_of}: the first commit of table {self._config.name!r} is "
                f"{commits[0].requested}; there is nothing to read before it"
            )

    def _now(self) -> Snapshot:
        return self._snapshot(None)

    def _partition_path(self, given: str | Mapping[str, object]) -> str:
        """Return the path of a partition given as a path or as column values."""
        if isinstance(given, str):
            return given.strip("/")
        if not isinstance(given, Mapping):
            raise InvalidError(f"partition {given!r}: expected its path or a dict of column values")
        schema = self._now().schema
        fields = self._config.partition_fields
        if set(given) != set(fields):
            raise InvalidError(
                f"partition {dict(given)!r}: expected a value for each of {', '.join(fields) or 'none'}"
            )
        if not fields:
            return ""  # a table without partition columns is one partition
        row = keys_to_table([given], key_schema(schema, fields))
        batch = row.combine_chunks().to_batches()[0]
        return str(partition_column(batch, self._config)[0])

    def _target(self) -> WriteTarget:
        """Return the table to work on and the executor of its tasks."""
        engines = self._engines
        return WriteTarget(
            self._storage,
            self._config,
            self._clock,
            self._commits,
            engines.executor(self._config),
            self._merger,
            engines.memory_bytes,
        )

    def _act(self, work: Callable[[WriteTarget], Result]) -> Result:
        """Run `work` on the table; complete an interrupted rollback or restore first."""
        self._give_up_indexes()
        target = watched_target(self._target())
        try:
            return work(target)
        except UnfinishedError as error:
            log.warning("%s; finishing it", error)
            finish_unfinished(self._target())
            return work(watched_target(self._target()))

    def _check_writable(self) -> None:
        self._give_up_indexes()
        check_writable(self._config)

    def _give_up_indexes(self) -> None:
        """Drop the indexes in Hudi's metadata table if the caller allowed it."""
        if not self._gives_up_indexes or not metadata_partitions(load_config(self._storage)):
            return
        with hold_table(
            self._storage, self._clock, self._commits, clear=False, gives_up_indexes=True
        ) as hold:
            self._config = hold.config
