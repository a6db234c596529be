"""A table, opened: what users call."""

import warnings
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from lakebed.api.arguments import checked_columns, checked_keys, checked_where, key_batches
from lakebed.api.description import Description, describe
from lakebed.api.handle import Moment
from lakebed.api.layers import Layers, layers_of
from lakebed.api.named_rows import split_routed
from lakebed.api.writing import TableWrites
from lakebed.errors import DamageWarning, InvalidError, UnsupportedError
from lakebed.format.names.meta_columns import META_COLUMNS
from lakebed.model.instant import resolve_as_of, resolve_since
from lakebed.scan.lookup import look_up
from lakebed.scan.salvage import describe_left_out, leave_out_damaged
from lakebed.scan.scan import plan_incremental, plan_scan
from lakebed.table.changes.commit_range import commits_between
from lakebed.table.changes.scan import plan_changes
from lakebed.table.listing import files_table, history_table

_ON_DAMAGE = ("fail", "skip")
_READ_MODES = ("snapshot", "read_optimized", "cdc")


class Table(TableWrites):
    """One table. Every call looks at storage anew, so it sees what others committed."""

    def read(
        self,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        as_of: Moment | None = None,
        since: Moment | None = None,
        until: Moment | None = None,
        mode: str = "snapshot",
        on_damage: str = "fail",
    ) -> Any:
        """Return the rows: a DataFrame, or without a session a pyarrow RecordBatchReader.

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

        A file that is lost or damaged fails the read if its rows may be wanted. With
        on_damage="skip" the file slices that are damaged are left out whole, and a DamageWarning
        says which; every slice is read twice for that.
        """
        if mode not in _READ_MODES:
            raise UnsupportedError(f"mode={mode!r}: want one of {', '.join(_READ_MODES)}")
        if on_damage not in _ON_DAMAGE:
            raise InvalidError(f"on_damage={on_damage!r}: expected one of {', '.join(_ON_DAMAGE)}")
        if mode == "cdc" or since is not None or until is not None:
            if on_damage != "fail":
                raise InvalidError(
                    f"on_damage={on_damage!r} cannot be combined with since, until or mode='cdc'"
                )
            if as_of is not None:
                raise InvalidError("as_of: a moment; since and until, mode='cdc': a range of them")
            return self._read_range(columns, where, since, until, mode)
        snapshot = self._snapshot(as_of)
        names = checked_columns(columns, snapshot.schema)
        where = None if where is None else checked_where(where)
        scan = plan_scan(
            snapshot, names, where, self._merger, read_optimized=mode == "read_optimized"
        )
        if on_damage == "skip":
            scan, left = leave_out_damaged(scan, self._engines.executor(scan.view.config))
            if left:
                message = describe_left_out(self._storage.url, left)
                warnings.warn(message, DamageWarning, stacklevel=2)
        return self._engines.read(scan)

    def count(self, where: str | None = None, as_of: Moment | None = None) -> int:
        """Return the number of rows, of those that fulfil `where`."""
        # Where no column is needed, the narrowest way is one that every row has anyway.
        first = self._snapshot(as_of).schema.names[:1]
        return self._engines.main.count(self.read(first, where, as_of))

    def to_arrow(
        self,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        as_of: Moment | None = None,
        since: Moment | None = None,
        until: Moment | None = None,
        mode: str = "snapshot",
    ) -> pa.Table:
        """Return the rows as a pyarrow Table in memory; the arguments are those of `read`."""
        return self._engines.main.collected(self.read(columns, where, as_of, since, until, mode))

    def to_pandas(
        self,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        as_of: Moment | None = None,
        since: Moment | None = None,
        until: Moment | None = None,
        mode: str = "snapshot",
    ) -> Any:
        """Return the rows as a pandas DataFrame in memory; the arguments are those of `read`."""
        return self.to_arrow(columns, where, as_of, since, until, mode).to_pandas()

    def lookup(
        self,
        keys: Sequence[object],
        columns: Sequence[str] | None = None,
        as_of: Moment | None = None,
    ) -> pa.Table:
        """Return the rows with these keys, without a Spark job: dicts of the key columns.

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
        placed, bare = split_routed(keys, partition)
        found = [
            look_up(scan, batch, self._sources)
            for given, names_of in ((placed, (*fields, *partition)), (bare, fields))
            for batch in key_batches(given, snapshot.schema, names_of)
        ]
        return pa.concat_tables(found) if found else scan.empty()

    def history(self) -> pa.Table:
        """Return every instant of the timeline, newest first, with what it wrote."""
        return history_table(self._snapshot(None))

    def files(self, as_of: Moment | None = None) -> pa.Table:
        """Return every data file that a read at this moment uses."""
        return files_table(self._snapshot(as_of))

    def describe(self) -> Description:
        """Return what the table is and holds; `print` the result to read it."""
        return describe(self._snapshot(None))

    def layers(self, as_of: Moment | None = None) -> Layers:
        """Return the layers of each file group; `print` the result to see them drawn."""
        return layers_of(self._snapshot(as_of).slices)

    def _read_range(
        self,
        columns: Sequence[str] | None,
        where: str | None,
        since: Moment | None,
        until: Moment | None,
        mode: str,
    ) -> Any:
        """Return the rows that the commits of a range wrote, or what they changed."""
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
            return self._engines.read(scan)
        if where is not None:
            raise UnsupportedError("where with mode='cdc': filter the change rows that come back")
        if meta := [name for name in names if name in META_COLUMNS]:
            raise InvalidError(f"columns: change rows are without meta columns, found {meta[0]}")
        return self._engines.changes(plan_changes(snapshot, commits, names, self._merger))
