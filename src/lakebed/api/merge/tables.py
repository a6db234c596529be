"""Merges and updates of a table."""

from collections.abc import Mapping
from dataclasses import replace

from lakebed.api.batches import TableBatches
from lakebed.api.given.arguments import checked_metadata, checked_where
from lakebed.api.merge.builder import MergeBuilder, checked_assignments, join_condition
from lakebed.errors import InvalidError
from lakebed.terminal.progress import showing
from lakebed.write.clauses.clause import Act, Clause, Expression, MergeStatement, When
from lakebed.write.clauses.columns import check_mergeable
from lakebed.write.clauses.plan import is_spark_column
from lakebed.write.spec.commit_summary import Commit
from lakebed.write.spec.operation import DELETE, UPSERT


class TableMerges(TableBatches):
    """Merges and updates; each is one commit."""

    def merge(
        self,
        source: object,
        on: object,
        *,
        source_alias: str = "source",
        target_alias: str = "target",
    ) -> MergeBuilder:
        """Begin a merge of `source` into this table; add clauses to the result, and `execute` it.

        The builder has the shape of Delta Lake's. See [Merge and update](merge.md).

        Args:
            source: A Spark DataFrame, or anything that exports an Arrow stream (pyarrow, pandas,
                Polars). In this process the source is held in memory.
            on: The condition by which rows match, such as `"target.id = source.id"`, or a list of
                columns that both have.
            source_alias: The name of the source in conditions and expressions.
            target_alias: The name of this table in conditions and expressions.
        """
        check_mergeable(self._config, has_merger=self._merger is not None, what="merge into")
        for alias in (source_alias, target_alias):
            if not isinstance(alias, str) or not alias:
                raise InvalidError(f"merge: expected an alias as a string, found {alias!r}")
        if source_alias.lower() == target_alias.lower():
            raise InvalidError(f"merge: source and target have the same alias {source_alias!r}")
        condition = join_condition(on, source_alias, target_alias)
        statement = MergeStatement(source_alias, target_alias, condition, ())
        return MergeBuilder(lambda made, metadata: self._merge(made, source, metadata), statement)

    def update(
        self,
        set: Mapping[str, Expression],  # noqa: A002 - Delta's name
        where: Expression | None = None,
        *,
        commit_metadata: Mapping[str, str] | None = None,
    ) -> Commit:
        """Update columns of all rows, or of those that match a predicate.

        Args:
            set: The columns to change, each with a SQL expression as a string, a Python value that
                is not a string, or `lakebed.lit(...)`. Expressions see the row as it was.
            where: A SQL predicate, as for `read`; on Spark, a Column too.
            commit_metadata: As for `upsert`.

        Raises:
            InvalidError: A key or partition column would change, or an ordering value be lowered.
            SchemaError: A column does not exist, or a value does not fit its type.

        Example:
            >>> import pyarrow as pa, lakebed
            >>> t = lakebed.create_table(None, "memory://doc/update", "id BIGINT, n BIGINT", key="id")
            >>> _ = t.insert(pa.table({"id": [1, 2], "n": [10, 20]}))
            >>> commit = t.update({"n": "n + 1"}, where="id = 2")
            >>> commit.updated, t.lookup([2]).to_pylist()
            (1, [{'id': 2, 'n': 21}])
        """
        check_mergeable(self._config, has_merger=self._merger is not None, what="update")
        column = where if is_spark_column(where) else None
        assigned = checked_assignments(set, "update: set")
        clause = Clause(When.NOT_MATCHED_BY_SOURCE, Act.UPDATE, column, assigned, "update()")
        condition = None if where is None or column is not None else checked_where(where)
        statement = MergeStatement("source", "target", None, (clause,), condition)
        return self._merge(statement, None, commit_metadata)

    def _merge(
        self, statement: MergeStatement, source: object, metadata: Mapping[str, str] | None
    ) -> Commit:
        """Execute a merge, or an update if it has no join condition."""
        extra = checked_metadata(metadata)
        self._check_writable()
        snapshot = self._snapshot(None)
        merged = self._engines.merged(statement, source, snapshot, self._merger)
        operation = DELETE if _only_deletes(statement) else UPSERT
        with showing("update" if statement.on is None else "merge"):
            return self._execute(operation, replace(merged, commit_metadata=extra), None)


def _only_deletes(statement: MergeStatement) -> bool:
    return all(clause.act is Act.DELETE for clause in statement.clauses)
