"""A table, opened: what users call."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime
from typing import Any

import pyarrow as pa

from lakebed.api.arguments import (
    checked_columns,
    checked_keys,
    checked_where,
    key_batches,
    key_schema,
)
from lakebed.api.engines import Engines
from lakebed.api.keys import keys_to_table
from lakebed.api.layers import Layers, layers_of
from lakebed.api.services import Result, TableServices
from lakebed.commit.hold import hold_table
from lakebed.errors import (
    ConflictError,
    InvalidError,
    LockedError,
    UnsupportedError,
)
from lakebed.format.meta_columns import META_COLUMNS
from lakebed.index.lookup import look_up
from lakebed.index.named import named_index
from lakebed.index.scan import Scan, plan_incremental, plan_scan
from lakebed.merge.rule import Merger
from lakebed.model.clock import Clock
from lakebed.model.instant import resolve_as_of, resolve_since
from lakebed.services.upkeep import run_inline
from lakebed.storage.storage import Storage
from lakebed.table.changes.commit_range import commits_between
from lakebed.table.changes.scan import plan_changes
from lakebed.table.config import TableConfig
from lakebed.table.history import files_table, history_table
from lakebed.table.merge_mode import MergeMode
from lakebed.table.metadata_partitions import metadata_partitions
from lakebed.table.partitions import partition_column
from lakebed.table.properties_file import load_config
from lakebed.table.snapshot import CommitCache, Snapshot, load_snapshot
from lakebed.table.source_cache import SourceCache
from lakebed.table.writable import check_writable
from lakebed.table.writer_index import WriterIndex
from lakebed.timeline.active import ActiveTimeline
from lakebed.write.deferred import DeferredWrite, defer_write
from lakebed.write.operation import (
    BULK_INSERT,
    DELETE,
    DELETE_PARTITION,
    INSERT,
    INSERT_OVERWRITE,
    INSERT_OVERWRITE_TABLE,
    UPDATE_COLUMNS,
    UPSERT,
    Operation,
)
from lakebed.write.pipeline import (
    Commit,
    Source,
    WriteTarget,
    conflict_retries,
    execute_delete_partitions,
    execute_write,
)
from lakebed.write.spec import delete_fields
from lakebed.write.staging import Segment

log = logging.getLogger(__name__)

Moment = str | date | datetime
_READ_MODES = ("snapshot", "read_optimized", "cdc")


class Table(TableServices):
    """One table. Every call looks at storage anew, so it sees what others committed."""

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
                f"table {config.name!r} merges by {config.merge_mode}: a merger of your own needs a "
                "table that was created with one"
            )
        self._commits = CommitCache(
            ActiveTimeline(storage, config.timeline_path), config.history_path
        )
        self._held: Snapshot | None = None
        self._sources = SourceCache()

    def __repr__(self) -> str:
        return f"Table({self._config.name!r}, {self._config.table_type}, {self._storage.url})"

    @property
    def name(self) -> str:
        """Give the table's name."""
        return self._config.name

    @property
    def path(self) -> str:
        """Give where the table lies."""
        return self._storage.url

    @property
    def config(self) -> TableConfig:
        """Give what the table's properties say."""
        return self._config

    @property
    def schema(self) -> pa.Schema:
        """Give the columns as of the last commit, without the meta columns."""
        return self._snapshot(None).schema

    def bulk_insert(
        self, rows: object, *, index: str | None = None, buckets: int | None = None
    ) -> Commit:
        """Load `rows`, a DataFrame or any Arrow stream, as base files sorted by record key.

        A key that comes several times, or is in the file group already, is resolved by the
        table's merge mode. `index` and `buckets` are only needed at the first write to a table
        that another engine made and that does not say how its writer finds a key.
        """
        return self._write(BULK_INSERT, rows, index, buckets)

    def insert(
        self, rows: object, *, index: str | None = None, buckets: int | None = None
    ) -> Commit:
        """Add `rows`; no key is looked up outside the file group that it belongs to."""
        return self._write(INSERT, rows, index, buckets)

    def upsert(
        self, rows: object, *, index: str | None = None, buckets: int | None = None
    ) -> Commit:
        """Add `rows`, or replace those with the same key where the merge mode says so.

        On a merge-on-read table this appends a sorted run to each file group that it touches; on a
        copy-on-write table it rewrites their base files. A row with `_hoodie_is_deleted` true, or
        with the table's delete marker, deletes its key.
        """
        return self._write(UPSERT, rows, index, buckets)

    def update_columns(self, rows: object) -> Commit:
        """Change some columns: `rows` bring the key (partition, ordering) and the columns to set.

        All other columns keep their values. A key that the table does not hold becomes a row
        with nulls in the columns that did not come.
        """
        if self._merger is not None:
            raise UnsupportedError(
                "update_columns: a merger of your own takes whole rows; read, change and upsert them"
            )
        return self._write(UPDATE_COLUMNS, rows, None, None)

    def delete(self, keys: object | None = None, *, where: str | None = None) -> Commit:
        """Delete rows by key, or all that fulfil a predicate.

        `keys` are dicts of the key columns (and the partition columns), a DataFrame or an Arrow
        stream that has them; other columns do not matter. A key that is not there is no error.
        """
        if (keys is None) == (where is None):
            raise InvalidError("delete: want either keys or where=<predicate>")
        if where is not None:
            return self._execute(DELETE, self._matching(checked_where(where)), None)
        if isinstance(keys, Sequence):
            keys = self._key_table(checked_keys(keys))
        return self._write(DELETE, keys, None, None)

    def insert_overwrite(self, rows: object, *, whole_table: bool = False) -> Commit:
        """Replace the partitions that `rows` touch, or the whole table, by `rows`.

        A table without partitions is one partition.
        """
        operation = INSERT_OVERWRITE_TABLE if whole_table else INSERT_OVERWRITE
        return self._write(operation, rows, None, None)

    def delete_partitions(self, partitions: Sequence[str | Mapping[str, object]]) -> Commit:
        """Delete whole partitions, each given by its path or as a dict of column values.

        One that is not there is no error.
        """
        if isinstance(partitions, (str, Mapping)):
            partitions = [partitions]
        if not isinstance(partitions, Sequence):
            raise InvalidError(f"partitions: want a list, found {type(partitions).__name__}")
        paths = [self._partition_path(given) for given in partitions]
        if not paths:
            raise InvalidError("delete_partitions: want at least one partition")
        self._check_writable()

        def choose(there: Iterable[str]) -> list[str]:
            return [partition for partition in there if partition in paths]

        commit, self._config = self._act(
            lambda target: execute_delete_partitions(target, DELETE_PARTITION, choose)
        )
        run_inline(self._target())
        return commit

    def defer_write(
        self, operation: Operation, incoming: pa.Schema, named: WriterIndex | None = None
    ) -> DeferredWrite:
        """Plan a write whose rows others stage before it begins: `write_deferred` does it then."""
        self._check_writable()
        return defer_write(self._target(), self._snapshot(None), operation, incoming, named)

    def write_deferred(
        self, operation: Operation, deferred: DeferredWrite, segments: Iterable[Segment]
    ) -> Commit:
        """Write the rows that were staged under a plan of `defer_write`."""
        return self._execute(operation, deferred.source(segments), deferred.named)

    def read(
        self,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        as_of: Moment | None = None,
        since: Moment | None = None,
        until: Moment | None = None,
        mode: str = "snapshot",
    ) -> Any:
        """Give the rows: a DataFrame, or without a session a pyarrow RecordBatchReader.

        `columns` may name meta columns (`_hoodie_commit_time`, ...); None means all columns of
        the table. `where` is a SQL predicate. `as_of` is an instant, a date or timestamp text
        (to the end of its second) or a datetime, in the table's time zone (UTC for tables that
        we make) unless it carries its own, or seconds or milliseconds since 1970 as text: the
        commits that had begun by then.

        With `since` or `until`, moments in the same forms, only rows that the commits wrote
        which were completed after `since` and not after `until`; "earliest" begins with the
        first. With mode="cdc" what these commits changed: `op` (i, u or d), `ts_ms` (the
        instant of the commit), `before` and `after`, structs of `columns` or null. Rows come in
        no given order, but the changes of one key in one partition as they happened.
        """
        if mode not in _READ_MODES:
            raise UnsupportedError(f"mode={mode!r}: want one of {', '.join(_READ_MODES)}")
        if mode == "cdc" or since is not None or until is not None:
            if as_of is not None:
                raise InvalidError("as_of: a moment; since and until, mode='cdc': a range of them")
            return self._read_range(columns, where, since, until, mode)
        snapshot = self._snapshot(as_of)
        names = checked_columns(columns, snapshot.schema)
        where = None if where is None else checked_where(where)
        scan = plan_scan(
            snapshot, names, where, self._merger, read_optimized=mode == "read_optimized"
        )
        return self._engines.main.read(scan)

    def lookup(
        self,
        keys: Sequence[object],
        columns: Sequence[str] | None = None,
        as_of: Moment | None = None,
    ) -> pa.Table:
        """Give the rows with these keys, without a Spark job: dicts of the key columns.

        Keys of a partitioned table are found fastest with the partition columns in the dict;
        without them every partition is searched. Thousands of keys at once are one sorted pass
        over each file group. A key that is not there gives no row; rows come in no given order.
        """
        snapshot = self._snapshot(as_of)
        names = checked_columns(columns, snapshot.schema)
        keys = checked_keys(keys)
        fields = self._config.record_key_fields
        partition = [name for name in self._config.partition_fields if name not in fields]
        scan = plan_scan(snapshot, names, None, self._merger)
        placed: list[object] = []
        bare: list[object] = []
        for key in keys:
            says = isinstance(key, Mapping) and key.keys() >= set(partition)
            (placed if says else bare).append(key)
        found = [
            look_up(scan, batch, self._sources)
            for given, names_of in ((placed, (*fields, *partition)), (bare, fields))
            for batch in key_batches(given, snapshot.schema, names_of)
        ]
        return pa.concat_tables(found) if found else scan.empty()

    def history(self) -> pa.Table:
        """Give every instant of the timeline, newest first, with what it wrote."""
        return history_table(self._snapshot(None))

    def files(self, as_of: Moment | None = None) -> pa.Table:
        """Give every data file that a read at this moment uses."""
        return files_table(self._snapshot(as_of))

    def layers(self, as_of: Moment | None = None) -> Layers:
        """Give the layers of each file group; `print` the result to see them drawn."""
        return layers_of(self._snapshot(as_of).slices)

    def _snapshot(self, as_of: Moment | None) -> Snapshot:
        self._config = load_config(self._storage)
        instant = None if as_of is None else resolve_as_of(as_of, self._config.zone)
        snapshot = load_snapshot(self._storage, self._config, instant, self._commits)
        held = self._held
        # What a snapshot holds follows from these two: files are never changed, and none
        # comes or goes without an instant.
        if held is not None and (held.config, held.timeline) == (
            snapshot.config,
            snapshot.timeline,
        ):
            return held
        self._held, self._sources = snapshot, SourceCache()
        return snapshot

    def _read_range(
        self,
        columns: Sequence[str] | None,
        where: str | None,
        since: Moment | None,
        until: Moment | None,
        mode: str,
    ) -> Any:
        """Give the rows that the commits of a range wrote, or what they changed."""
        if mode == "read_optimized":
            raise InvalidError(
                "mode='read_optimized' reads base files alone, which do not hold all that was "
                "written since: want the mode 'snapshot' or 'cdc' with since and until"
            )
        snapshot = self._snapshot(None)
        zone = self._config.zone
        begin = None if since is None else resolve_since(since, zone)
        end = None if until is None else resolve_as_of(until, zone)
        commits = commits_between(snapshot, begin, end)
        names = checked_columns(columns, snapshot.schema)
        if mode != "cdc":
            where = None if where is None else checked_where(where)
            scan = plan_incremental(snapshot, commits, names, where, self._merger)
            return self._engines.main.read(scan)
        if where is not None:
            raise UnsupportedError("where with mode='cdc': filter the change rows that come back")
        if meta := [name for name in names if name in META_COLUMNS]:
            raise InvalidError(f"columns: change rows are without meta columns, found {meta[0]}")
        return self._engines.main.changes(plan_changes(snapshot, commits, names, self._merger))

    def _write(
        self, operation: Operation, rows: object, index: str | None, buckets: int | None
    ) -> Commit:
        self._check_writable()
        source = self._engines.for_data(rows).source(rows)
        return self._execute(operation, source, self._named_index(index, buckets))

    def _execute(self, operation: Operation, source: Source, named: WriterIndex | None) -> Commit:
        self._check_writable()
        left = conflict_retries(self._config) if source.repeatable else 0
        while True:
            try:
                commit, self._config = self._act(
                    lambda target: execute_write(target, operation, source, named)
                )
            except LockedError:
                raise
            except ConflictError as error:
                if not left:
                    raise
                left -= 1
                log.info("%s; %d more tries", error, left + 1)
            else:
                run_inline(self._target())
                return commit

    def _act(self, work: Callable[[WriteTarget], Result]) -> Result:
        self._give_up_indexes()
        return super()._act(work)

    def _check_writable(self) -> None:
        self._give_up_indexes()
        check_writable(self._config)

    def _give_up_indexes(self) -> None:
        """Drop the indexes that Hudi keeps in its metadata table, if the caller said so."""
        if not self._gives_up_indexes or not metadata_partitions(load_config(self._storage)):
            return
        with hold_table(
            self._storage, self._clock, self._commits, clear=False, gives_up_indexes=True
        ) as hold:
            self._config = hold.config

    def _now(self) -> Snapshot:
        return self._snapshot(None)

    def _target(self) -> WriteTarget:
        executor = self._engines.main.executor
        return WriteTarget(
            self._storage, self._config, self._clock, self._commits, executor, self._merger
        )

    def _matching(self, where: str) -> Source:
        """Give the keys of the rows that fulfil `where` when the write begins, under its lock."""
        snapshot = self._snapshot(None)
        names = dict.fromkeys((*self._config.record_key_fields, *self._config.partition_fields))
        schema = key_schema(snapshot.schema, names)

        def scan(snapshot: Snapshot) -> Scan:
            return plan_scan(snapshot, list(names), where, self._merger)

        # A predicate that is wrong shows before the write begins.
        self._engines.main.read(scan(snapshot))
        return self._engines.main.scanned(schema, scan)

    def _key_table(self, keys: Sequence[object]) -> pa.Table:
        """Make a table of keys that were given as dicts."""
        schema = self._snapshot(None).schema
        names = dict.fromkeys(delete_fields(self._config))
        return keys_to_table(keys, key_schema(schema, names))

    def _partition_path(self, given: str | Mapping[str, object]) -> str:
        if isinstance(given, str):
            return given.strip("/")
        if not isinstance(given, Mapping):
            raise InvalidError(f"partition {given!r}: want its path or a dict of column values")
        schema = self._snapshot(None).schema
        fields = self._config.partition_fields
        if set(given) != set(fields):
            raise InvalidError(
                f"partition {dict(given)!r}: want a value for each of {', '.join(fields) or 'none'}"
            )
        if not fields:
            return ""  # a table without partitions is one
        row = keys_to_table([given], key_schema(schema, fields))
        batch = row.combine_chunks().to_batches()[0]
        return str(partition_column(batch, self._config)[0])

    def _named_index(self, index: str | None, buckets: int | None) -> WriterIndex | None:
        if index is None and buckets is None:
            return None
        return named_index(self._config, index, buckets)
