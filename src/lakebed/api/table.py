"""The `Table` handle and its reads."""

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakebed.api.description import Description, describe
from lakebed.api.given.arguments import checked_columns, checked_keys, checked_where, key_batches
from lakebed.api.given.named_rows import split_routed, split_valued, value_batches
from lakebed.api.layers import Layers, layers_of
from lakebed.api.merge.tables import TableMerges
from lakebed.api.scanning.scan import TableScan
from lakebed.api.scanning.source import ScanSource
from lakebed.errors import DamageWarning, InvalidError, LakebedError, UnsupportedError
from lakebed.format.names.meta_columns import META_COLUMNS, META_FIELDS
from lakebed.model.extras import load_extra
from lakebed.model.options.services import INDEX_ADVISOR
from lakebed.scan.explain import Explanation, explain_scan
from lakebed.scan.lookup import look_up, plan_lookup
from lakebed.scan.salvage import describe_left_out, leave_out_damaged
from lakebed.scan.scan import Scan, parse_where, plan_incremental, plan_scan
from lakebed.scan.value_lookup import look_up_values
from lakebed.table.changes.commit_range import commits_between
from lakebed.table.changes.scan import plan_changes
from lakebed.table.history import files_table, history_table
from lakebed.table.snapshot import Snapshot
from lakebed.table.time_travel import PointInTime
from lakebed.terminal.html import text_html

if TYPE_CHECKING:
    import duckdb

_ON_DAMAGE = ("fail", "skip")
_READ_MODES = ("snapshot", "read_optimized", "cdc")


class Table(TableMerges):
    """A handle on one table; each call sees the latest commits.

    Get one from `create_table` or `open_table`. With a Spark session, reads return DataFrames;
    without one, Arrow streams.
    """

    def read(
        self,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        as_of: PointInTime | None = None,
        since: PointInTime | None = None,
        until: PointInTime | None = None,
        mode: str = "snapshot",
        on_damage: str = "fail",
    ) -> Any:
        """Return the rows as a DataFrame, or without a Spark session as a RecordBatchReader.

        By default this is a snapshot read: one row per key, as of the latest commit. The order of
        the rows is unspecified.

        Args:
            columns: Columns to return, which may include meta columns (`_hoodie_commit_time`, ...).
                None returns all columns of the table.
            where: A SQL predicate, such as `"amount > 10 AND city = 'Oslo'"`; see
                [Predicates](where.md).
            as_of: Read the table as of this time: only commits that had started by then count. An
                instant, a date or timestamp string, a datetime, or seconds or milliseconds since
                1970 as a string. Values without a time zone are in the table's, UTC by default.
                Or a version, as an int: 0 is the first commit (see `history`). Or a tag: the
                comment of a savepoint, also as `"tag:comment"`.
            since: Return only rows written by commits completed after this time, in the same forms
                as `as_of`. `"earliest"` starts with the first commit.
            until: Return only rows written by commits completed up to this time.
            mode: `"snapshot"`; `"read_optimized"` for base files without their logs; or `"cdc"` for
                the changes themselves: `op` (i, u or d), `ts_ms` (the commit's instant), `before`
                and `after` (structs of `columns`, or null). The changes of one key arrive in the
                order in which they happened.
            on_damage: `"fail"` raises if a file that the read needs is missing or damaged.
                `"skip"` leaves out damaged file slices and lists them in a DamageWarning; this
                reads every slice twice.

        Raises:
            InvalidError: An argument is invalid, or arguments cannot be combined.
            UnsupportedError: The predicate uses SQL that Lakebed does not evaluate.
            CorruptError: A file is damaged.
            NotFoundError: A file is missing.

        Example:
            >>> import pyarrow as pa, lakebed
            >>> t = lakebed.create_table(None, "memory://doc/read", "id BIGINT, v STRING", key="id")
            >>> first = t.insert(pa.table({"id": [1, 2], "v": ["a", "b"]}))
            >>> second = t.upsert(pa.table({"id": [2], "v": ["c"]}))
            >>> t.read(where="id = 2").read_all().to_pylist()
            [{'id': 2, 'v': 'c'}]
            >>> t.read(as_of=first.instant).read_all().num_rows
            2
        """
        if mode not in _READ_MODES:
            raise UnsupportedError(f"mode={mode!r}: expected one of {', '.join(_READ_MODES)}")
        if on_damage not in _ON_DAMAGE:
            raise InvalidError(f"on_damage={on_damage!r}: expected one of {', '.join(_ON_DAMAGE)}")
        if mode == "cdc" or since is not None or until is not None:
            if on_damage != "fail":
                raise InvalidError(
                    f"on_damage={on_damage!r} cannot be combined with since, until or mode='cdc'"
                )
            if as_of is not None:
                raise InvalidError("as_of cannot be combined with since, until or mode='cdc'")
            return self._read_range(columns, where, since, until, mode)
        snapshot = self._snapshot(as_of)
        scan = self._plan(snapshot, columns, where, mode)
        self._note(scan, as_of)
        if on_damage == "skip":
            scan, left = leave_out_damaged(scan, self._engines.executor(scan.view.config))
            if left:
                message = describe_left_out(self._storage.url, left)
                warnings.warn(message, DamageWarning, stacklevel=2)
        return self._engines.read(scan, self._sources(snapshot) if mode == "snapshot" else None)

    def explain(
        self,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        as_of: PointInTime | None = None,
    ) -> Explanation:
        """Return the plan of a read; `print` it to read it.

        No rows are read; counts of row groups and bytes come from the footers of the files, and are
        marked as estimated if the table has too many files to open.

        Args:
            columns: Columns to return, as for `read`.
            where: A SQL predicate, as for `read`.
            as_of: Explain a read as of this time, as for `read`.

        Example:
            >>> import pyarrow as pa, lakebed
            >>> t = lakebed.create_table(None, "memory://doc/explain", "id BIGINT, v STRING", key="id")
            >>> commit = t.insert(pa.table({"id": [1, 2], "v": ["a", "b"]}))
            >>> t.explain(where="id = 2").file_groups
            Share(read=1, total=2, estimated=False)
        """
        snapshot = self._snapshot(as_of)
        _ = snapshot.slices  # skipped slices are explained too
        scan = self._plan(snapshot, columns, where)
        return explain_scan(scan, snapshot, self._sources(snapshot))

    def _plan(
        self,
        snapshot: Snapshot,
        columns: Sequence[str] | None,
        where: str | None,
        mode: str = "snapshot",
        *,
        exact: bool | None = None,
    ) -> Scan:
        scan = plan_scan(
            snapshot,
            checked_columns(columns, snapshot.schema),
            None if where is None else checked_where(where),
            self._merger,
            read_optimized=mode == "read_optimized",
            exact=self._engines.is_exact if exact is None else exact,
            indexes=self._indexes(snapshot),
        )
        if scan.candidates is None:
            self._caches(
                snapshot
            ).indexes = None  # reopen them: runs may be missing because the index was rebuilt
        return scan

    def _note(self, scan: Scan, as_of: PointInTime | None) -> None:
        """Record a read of the latest rows for `advise_indexes`, if the table asks for it."""
        if as_of is None and INDEX_ADVISOR.value(self._config.properties):
            self._scan_log.note(scan)

    def scan(
        self,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        as_of: PointInTime | None = None,
    ) -> TableScan:
        """Return a snapshot read that has not begun, for Polars, DuckDB and Arrow.

        Later commits do not change what it reads.

        Args:
            columns: Columns to return, as for `read`.
            where: A SQL predicate, as for `read`.
            as_of: Read the table as of this time, as for `read`.

        Raises:
            InvalidError: An argument is invalid.
            UnsupportedError: The predicate uses SQL that Lakebed does not evaluate.

        Example:
            >>> import pyarrow as pa, lakebed, polars as pl
            >>> t = lakebed.create_table(None, "memory://doc/scan", "id BIGINT, v STRING", key="id")
            >>> commit = t.insert(pa.table({"id": [1, 2], "v": ["a", "b"]}))
            >>> print(t.scan(where="id > 1"))
            scan of: memory://doc/scan
            columns: id int64, v string
            where: id > 1
            >>> t.scan().to_polars().select(pl.col("id").sum()).collect().item()
            3
        """
        snapshot = self._snapshot(as_of)
        names = checked_columns(columns, snapshot.schema)
        where = None if where is None else checked_where(where)
        parse_where(where, snapshot.schema)  # an error is raised here rather than by a query
        fields = {field.name: field for field in (*META_FIELDS, *snapshot.schema)}

        def read(wanted: Sequence[str], pushed: str | None) -> pa.RecordBatchReader:
            scan = self._plan(snapshot, wanted, pushed, exact=True)
            self._note(scan, as_of)
            return self._engines.stream(scan, self._sources(snapshot))

        schema = pa.schema([fields[name] for name in names])
        source = ScanSource(schema, where, read)
        return TableScan(self._storage.url, snapshot.timeline.until, source)

    def to_duckdb(
        self, connection: "duckdb.DuckDBPyConnection | None" = None
    ) -> "duckdb.DuckDBPyRelation":
        """Return the latest rows as a relation of DuckDB; the same as `scan().to_duckdb(connection)`.

        Args:
            connection: The connection of the relation; None stands for DuckDB's default one.
        """
        return self.scan().to_duckdb(connection)

    def count(self, where: str | None = None, as_of: PointInTime | None = None) -> int:
        """Return the number of rows, or of rows that match `where`.

        Args:
            where: A SQL predicate, as for `read`.
            as_of: Count the rows as of this time, as for `read`.
        """
        # Counting needs only one column; any will do.
        first = self._snapshot(as_of).schema.names[:1]
        return self._engines.main.count(self.read(first, where, as_of))

    def to_arrow(
        self,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        as_of: PointInTime | None = None,
        since: PointInTime | None = None,
        until: PointInTime | None = None,
        mode: str = "snapshot",
    ) -> pa.Table:
        """Return the rows as an in-memory pyarrow Table; takes the arguments of `read`."""
        return self._engines.main.collected(self.read(columns, where, as_of, since, until, mode))

    def to_pandas(
        self,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        as_of: PointInTime | None = None,
        since: PointInTime | None = None,
        until: PointInTime | None = None,
        mode: str = "snapshot",
    ) -> Any:
        """Return the rows as an in-memory pandas DataFrame; takes the arguments of `read`.

        Needs pandas.
        """
        load_extra("pandas", "2.2", None, "to_pandas")
        return self.to_arrow(columns, where, as_of, since, until, mode).to_pandas()

    def lookup(
        self,
        keys: Sequence[object],
        columns: Sequence[str] | None = None,
        as_of: PointInTime | None = None,
    ) -> pa.Table:
        """Return the rows with the given keys as a pyarrow Table, without starting a Spark job.

        Keys that the table does not hold are ignored. The order of the rows is unspecified. Many
        keys in one call share one sorted pass over each file group. Dicts without the key columns
        find rows by the values of other columns, if a secondary index starts with one of them.

        Args:
            keys: Dicts of the key columns, or plain values if there is one key column. If the
                dicts lack the partition columns of a partitioned table, every partition is
                searched. Or dicts of indexed columns, such as `{"city": "Oslo"}`; a field of a
                struct is named `"place.city"`, and null is a value like any other.
            columns: Columns to return; None returns all.
            as_of: Look up keys in the table as of this time, as for `read`.

        Example:
            >>> import pyarrow as pa, lakebed
            >>> t = lakebed.create_table(None, "memory://doc/lookup", "id BIGINT, v STRING", key="id")
            >>> commit = t.insert(pa.table({"id": [1, 2], "v": ["a", "b"]}))
            >>> t.lookup([{"id": 2}, {"id": 3}]).to_pylist()
            [{'id': 2, 'v': 'b'}]
        """
        snapshot = self._snapshot(as_of)
        names = checked_columns(columns, snapshot.schema)
        keys = checked_keys(keys)
        fields = self._config.record_key_fields
        partition = [name for name in self._config.partition_fields if name not in fields]
        named, valued = split_valued(keys, fields)
        placed, bare = split_routed(named, partition)

        def plan(within: Snapshot) -> Scan:
            return plan_scan(within, names, None, self._merger, indexes=())

        sources = self._sources(snapshot)
        found = [
            look_up(plan_lookup(snapshot, batch, plan, sources), batch, sources)
            for given, names_of in ((placed, (*fields, *partition)), (bare, fields))
            for batch in key_batches(given, snapshot.schema, names_of)
        ]
        if valued:
            indexes = self._indexes(snapshot)
            found += [
                look_up_values(snapshot, plan, batch, indexes, sources)
                for batch in value_batches(valued, snapshot.schema, fields, indexes)
            ]
        return pa.concat_tables(found) if found else plan(snapshot.within(())).empty()

    def history(self) -> pa.Table:
        """Return all instants of the timeline, newest first, with counts of what they wrote.

        The columns are instant, completion_time, action, state and operation, counts of files, rows
        and bytes, whether the instant is archived, the version number of a commit, for `as_of`, and
        the commit metadata that its writer passed.
        """
        return history_table(self._snapshot(None))

    def files(self, as_of: PointInTime | None = None) -> pa.Table:
        """Return the data files that a read uses: partition, level, size and path.

        Args:
            as_of: List the files of a read as of this time, as for `read`.
        """
        return files_table(self._snapshot(as_of))

    def describe(self) -> Description:
        """Return the table's settings and size; `print` the result to read it."""
        return describe(self._snapshot(None))

    def _repr_html_(self) -> str:
        try:
            return self.describe()._repr_html_()
        except LakebedError as error:
            return text_html(f"{self!r}\n{error}")

    def layers(self, as_of: PointInTime | None = None) -> Layers:
        """Return the files of each file group by level; `print` the result to draw them.

        Args:
            as_of: Show the files of a read as of this time, as for `read`.
        """
        return layers_of(self._snapshot(as_of).slices)

    def _read_range(
        self,
        columns: Sequence[str] | None,
        where: str | None,
        since: PointInTime | None,
        until: PointInTime | None,
        mode: str,
    ) -> Any:
        """Return the rows that a range of commits wrote or, in mode "cdc", the changes to rows."""
        if mode == "read_optimized":
            raise InvalidError(
                "mode='read_optimized' cannot be combined with since or until: base files do not hold "
                "every row that was written; use mode 'snapshot' or 'cdc'"
            )
        snapshot = self._snapshot(None)
        history = self._history()
        begin = None if since is None else history.since(since)
        end = None if until is None else history.until(until)
        commits = commits_between(snapshot, begin, end)
        names = checked_columns(columns, snapshot.schema)
        if mode != "cdc":
            where = None if where is None else checked_where(where)
            scan = plan_incremental(snapshot, commits, names, where, self._merger)
            return self._engines.read(scan)
        if where is not None:
            raise UnsupportedError(
                "where cannot be combined with mode='cdc'; filter the returned change rows instead"
            )
        if meta := [name for name in names if name in META_COLUMNS]:
            raise InvalidError(f"columns: change rows have no meta columns, found {meta[0]}")
        return self._engines.changes(plan_changes(snapshot, commits, names, self._merger))
