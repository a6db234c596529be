"""The writes of a table: each call is one commit."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from lakebed.api.given.arguments import checked_keys, checked_metadata, checked_where, key_schema
from lakebed.api.given.named_rows import named_rows
from lakebed.api.group_columns import TableColumns, given_group
from lakebed.errors import (
    ConflictError,
    InvalidError,
    LockedError,
    NotFoundError,
    UnsupportedError,
)
from lakebed.format.names.meta_columns import RECORD_KEY
from lakebed.index.requested import named_index
from lakebed.model.options.writers import CONFLICT_RETRIES
from lakebed.scan.scan import Scan, plan_scan
from lakebed.services.upkeep import run_inline
from lakebed.table.config.writer_index import WriterIndex
from lakebed.table.snapshot import Snapshot
from lakebed.write.alter.column_groups import execute_add_group, execute_drop_group
from lakebed.write.alter.drop_column import execute_drop_column
from lakebed.write.pipeline import (
    Source,
    execute_delete_partitions,
    execute_write,
)
from lakebed.write.spec.commit_summary import Commit
from lakebed.write.spec.intake import Intake
from lakebed.write.spec.operation import (
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

log = logging.getLogger(__name__)

_SHOWN = 5


class TableWrites(TableColumns):
    """The writes of a table; each call is one commit."""

    def bulk_insert(
        self,
        rows: object,
        *,
        evolve: bool = False,
        fill_missing: bool = False,
        index: str | None = None,
        buckets: int | None = None,
        commit_metadata: Mapping[str, str] | None = None,
    ) -> Commit:
        """Write `rows` as base files sorted by record key: the fastest way to fill a table.

        Rows with the same key, in `rows` or in the file group to which they belong, are merged by
        the table's merge mode.

        Args:
            rows: A Spark DataFrame, or anything that exports an Arrow stream (pyarrow, pandas,
                Polars).
            evolve: Add new columns and widen types of the table to match `rows`. Otherwise such
                rows are rejected.
            fill_missing: Write nulls to columns of the table that `rows` lack. Otherwise such rows
                are rejected.
            index: How writes find a key: `"bucket"`, `"consistent_hashing"`, `"simple"` or
                `"global_simple"`. Only needed for the first write to a table that another engine
                created and whose properties name no index.
            buckets: The number of buckets for such an index that hashes keys.
            commit_metadata: Strings to store in the commit, such as the checkpoint of a stream.
                `history` shows them, and Hudi finds its checkpoints among them
                (`streamer.checkpoint.key.v2`).

        Returns:
            A printable summary of the write; its `instant` identifies the commit, for `as_of`.

        Raises:
            SchemaError: Columns or types do not match the table.
            KeyValueError: A key, partition or ordering value is missing or cannot be stored.
            ConflictError: Another writer changed the same file groups; nothing was written.
        """
        return self._write(
            BULK_INSERT,
            rows,
            Intake(evolve, fill_missing),
            self._named_index(index, buckets),
            commit_metadata=commit_metadata,
        )

    def insert(
        self,
        rows: object,
        *,
        evolve: bool = False,
        fill_missing: bool = False,
        index: str | None = None,
        buckets: int | None = None,
        commit_metadata: Mapping[str, str] | None = None,
    ) -> Commit:
        """Add `rows`, merging those whose key exists in the file group to which they are written.

        Unless the index hashes keys, an existing row with the same key may be in another file group
        and is then not replaced: use `upsert` if `rows` may hold existing keys. The arguments,
        result and errors are those of `bulk_insert`.
        """
        return self._write(
            INSERT,
            rows,
            Intake(evolve, fill_missing),
            self._named_index(index, buckets),
            commit_metadata=commit_metadata,
        )

    def upsert(
        self,
        rows: object,
        *,
        evolve: bool = False,
        fill_missing: bool = False,
        index: str | None = None,
        buckets: int | None = None,
        commit_metadata: Mapping[str, str] | None = None,
    ) -> Commit:
        """Add `rows`, or merge them with existing rows of the same key by the table's merge mode.

        On a merge-on-read table this appends a sorted log to each affected file group; on a
        copy-on-write table it rewrites the base file. A row with `_hoodie_is_deleted` true, or
        with the table's own delete marker, deletes its key. The arguments, result and errors are
        those of `bulk_insert`.

        Example:
            >>> import pyarrow as pa, lakebed
            >>> t = lakebed.create_table(None, "memory://doc/upsert", "id BIGINT, v STRING", key="id")
            >>> first = t.upsert(pa.table({"id": [1, 2], "v": ["a", "b"]}))
            >>> second = t.upsert(pa.table({"id": [2, 3], "v": ["B", "c"]}))
            >>> sorted(row["v"] for row in t.to_arrow().to_pylist())
            ['B', 'a', 'c']
        """
        return self._write(
            UPSERT,
            rows,
            Intake(evolve, fill_missing),
            self._named_index(index, buckets),
            commit_metadata=commit_metadata,
        )

    def update_columns(
        self,
        rows: object,
        *,
        evolve: bool = False,
        commit_metadata: Mapping[str, str] | None = None,
    ) -> Commit:
        """Update some columns of existing rows; all other columns keep their values.

        A key that is not in the table is added, with nulls in the columns that `rows` lack.

        Args:
            rows: The key columns, the partition and ordering columns if the table has them, and
                the columns to set.
            evolve: Add new columns and widen types of the table to match `rows`.
            commit_metadata: As for `upsert`.

        Raises:
            UnsupportedError: The table has a custom merger, which merges complete rows only.
        """
        if self._merger is not None:
            raise UnsupportedError(
                "update_columns cannot be combined with a custom merger, which merges whole rows; use upsert"
            )
        return self._write(UPDATE_COLUMNS, rows, Intake(evolve), commit_metadata=commit_metadata)

    def delete(
        self,
        keys: object | None = None,
        *,
        where: str | None = None,
        commit_metadata: Mapping[str, str] | None = None,
    ) -> Commit:
        """Delete rows by key, or all rows that match a predicate.

        Args:
            keys: Dicts of the key columns, or a DataFrame or Arrow stream that has those columns;
                other columns are ignored. A dict without the partition columns deletes the key in
                every partition. Keys that are not in the table are ignored.
            where: A SQL predicate, as for `read`. Pass either `keys` or `where`.
            commit_metadata: As for `upsert`.

        Example:
            >>> import pyarrow as pa, lakebed
            >>> t = lakebed.create_table(None, "memory://doc/delete", "id BIGINT, v STRING", key="id")
            >>> first = t.insert(pa.table({"id": [1, 2, 3], "v": ["a", "b", "c"]}))
            >>> by_key, by_predicate = t.delete([{"id": 1}]), t.delete(where="v = 'c'")
            >>> t.to_arrow().to_pylist()
            [{'id': 2, 'v': 'b'}]
        """
        if (keys is None) == (where is None):
            raise InvalidError("delete: pass either keys or where=<predicate>")
        extra = checked_metadata(commit_metadata)
        if where is not None:
            source = self._matching(checked_where(where))
            return self._execute(DELETE, replace(source, commit_metadata=extra), None)
        if isinstance(keys, Sequence):
            named = named_rows(
                self._snapshot(None),
                checked_keys(keys),
                self._merger,
                lambda rows: self._engines.for_data(rows).source(rows),
            )
            return self._execute(DELETE, replace(named, commit_metadata=extra), None)
        return self._write(DELETE, keys, commit_metadata=extra)

    def insert_overwrite(
        self,
        rows: object,
        *,
        whole_table: bool = False,
        evolve: bool = False,
        fill_missing: bool = False,
        commit_metadata: Mapping[str, str] | None = None,
    ) -> Commit:
        """Replace the partitions of `rows`, or the whole table, with `rows`.

        Args:
            rows: The new rows.
            whole_table: Also replace partitions that receive none of the rows. A table without
                partition columns is always replaced as a whole.
            evolve: As for `bulk_insert`.
            fill_missing: As for `bulk_insert`.
            commit_metadata: As for `upsert`.
        """
        operation = INSERT_OVERWRITE_TABLE if whole_table else INSERT_OVERWRITE
        intake = Intake(evolve, fill_missing)
        return self._write(operation, rows, intake, commit_metadata=commit_metadata)

    def delete_partitions(self, partitions: Sequence[str | Mapping[str, object]]) -> Commit:
        """Delete whole partitions.

        Args:
            partitions: Each one a path (`"2026-11-15"`) or a dict of partition column values.

        Raises:
            NotFoundError: One of them does not exist; nothing is deleted.
        """
        paths = self._partition_paths(partitions)

        def choose(there: Iterable[str]) -> list[str]:
            held = list(there)
            for path in paths:
                if path not in held:
                    raise NotFoundError(
                        f"delete_partitions: table {self._config.name!r} has no partition {path!r}; "
                        f"it has {_some(held)}"
                    )
            return paths

        commit = self._delete_partitions(choose)
        assert commit is not None, paths
        return commit

    def _partition_paths(self, partitions: Sequence[str | Mapping[str, object]]) -> list[str]:
        if isinstance(partitions, (str, Mapping)):
            partitions = [partitions]
        if not isinstance(partitions, Sequence):
            raise InvalidError(f"partitions: expected a list, found {type(partitions).__name__}")
        paths = [self._partition_path(given) for given in partitions]
        if not paths:
            raise InvalidError("delete_partitions: expected at least one partition")
        return paths

    def _delete_partitions(self, choose: Callable[[Iterable[str]], list[str]]) -> Commit | None:
        self._check_writable()
        commit, self._config = self._act(
            lambda target: execute_delete_partitions(target, DELETE_PARTITION, choose)
        )
        if commit is not None:
            run_inline(self._target())
        return commit

    def drop_column(self, name: str) -> Commit:
        """Remove a column from the table, in a commit that writes no data file.

        Files keep the values until they are rewritten, and reads as of an earlier commit still show
        them. The name can be reused only after an `insert_overwrite` of the whole table.
        Key, partition and ordering columns cannot be dropped.

        Args:
            name: The column to drop.
        """
        self._check_writable()
        commit, self._config = self._act(lambda target: execute_drop_column(target, name))
        return commit

    def add_column_group(self, name: str, columns: object, ordering: str | None = None) -> Commit:
        """Add a column group: columns that are stored in separate files.

        The columns are new, or columns of the default group that no write has stored yet: columns
        cannot move between groups. A group cannot be renamed or redefined.

        Args:
            name: Letters, digits and `-`, beginning with a letter.
            columns: New columns with their types, as a DDL string (`"score DOUBLE, band STRING"`),
                Arrow fields or a schema; or the names of existing columns, as a list or as
                `"a,b;ordering"`.
            ordering: The column that orders the versions of a row in this group; by default, the
                table's ordering columns.

        Raises:
            ExistsError: There is a column group of this name.
            InvalidError: The definition is not valid; the message says why.
            UnsupportedError: The table cannot have column groups, for example because of its version.

        Example:
            >>> import pyarrow as pa, lakebed
            >>> t = lakebed.create_table(
            ...     None, "memory://doc/group", "id BIGINT, v STRING", key="id", table_version=10
            ... )
            >>> _ = t.add_column_group("risk", "score DOUBLE, scored_at BIGINT", ordering="scored_at")
            >>> _ = t.upsert(pa.table({"id": [1], "score": [0.5], "scored_at": [7]}))
            >>> t.read().read_all().to_pylist()
            [{'id': 1, 'v': None, 'score': 0.5, 'scored_at': 7}]
        """
        self._check_writable()
        group, fields = given_group(name, columns, ordering)
        commit, self._config = self._act(lambda target: execute_add_group(target, group, fields))
        return commit

    def drop_column_group(self, name: str) -> Commit:
        """Drop a column group and its columns, but no rows.

        Rows that only this group holds remain, with nulls in the other columns. Cleaning deletes
        the files; until then, reads as of an earlier commit return the columns. The name cannot be
        reused.

        Args:
            name: The group.

        Raises:
            NotFoundError: There is no column group of this name.
            InvalidError: A column of the group is indexed.
        """
        self._check_writable()
        commit, self._config = self._act(lambda target: execute_drop_group(target, name))
        return commit

    def rename_column(self, old: str, new: str) -> Commit:
        """Raise UnsupportedError: Hudi's data files identify columns by name.

        Args:
            old: The column.
            new: Its new name.
        """
        raise UnsupportedError(
            f"rename_column({old!r}, {new!r}): Hudi's files identify columns by name, so rows in "
            "older files would lose their values; Hudi's own renaming needs the column ids of its "
            "schema-on-read evolution (.hoodie/.schema), which Lakebed does not write. Add the "
            "column under its new name with evolve=True, copy the values, and call drop_column"
        )

    def _write(
        self,
        operation: Operation,
        rows: object,
        intake: Intake | None = None,
        named: WriterIndex | None = None,
        *,
        commit_metadata: Mapping[str, str] | None = None,
    ) -> Commit:
        extra = checked_metadata(commit_metadata)
        self._check_writable()
        source = self._engines.for_data(rows).source(rows)
        source = replace(source, intake=intake or Intake(), commit_metadata=extra)
        return self._execute(operation, source, named)

    def _execute(self, operation: Operation, source: Source, named: WriterIndex | None) -> Commit:
        self._check_writable()
        left = CONFLICT_RETRIES.value(self._config.properties) if source.repeatable else 0
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

    def _matching(self, where: str) -> Source:
        """Return a source of the keys that match `where` when the write starts."""
        snapshot = self._snapshot(None)
        # A table that generates its keys stores them in a meta column only.
        keys = self._config.record_key_fields or (RECORD_KEY,)
        names = dict.fromkeys((*keys, *self._config.partition_fields))
        known = pa.schema([pa.field(RECORD_KEY, pa.string()), *snapshot.schema])
        schema = key_schema(known, names)

        def scan(snapshot: Snapshot) -> Scan:
            return plan_scan(
                snapshot, list(names), where, self._merger, exact=self._engines.is_exact
            )

        # Raises an error for an invalid predicate before the write starts.
        present = scan(snapshot)
        return replace(self._engines.scanned(schema, scan, present), where=where)

    def _named_index(self, index: str | None, buckets: int | None) -> WriterIndex | None:
        if index is None and buckets is None:
            return None
        return named_index(self._config, index, buckets)


def _some(partitions: Sequence[str]) -> str:
    """Return the first few partitions as a string for an error message."""
    shown = ", ".join(map(repr, partitions[:_SHOWN]))
    left = len(partitions) - _SHOWN
    return f"{shown} and {left} more" if left > 0 else shown or "none"
