"""The merge builder: clauses are collected, checked, and executed as one commit."""

from builtins import all as all_columns
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from lakebed.errors import InvalidError
from lakebed.write.clauses.clause import (
    Act,
    Clause,
    Expression,
    MergeStatement,
    When,
    as_expression,
)
from lakebed.write.spec.commit_summary import Commit

Execute = Callable[[MergeStatement, Mapping[str, str] | None], Commit]
"""Executes the statement; the second argument is the caller's commit metadata."""


@dataclass(frozen=True, slots=True)
class MergeBuilder:
    """A merge that has not been executed; `Table.merge` returns one.

    Clauses are tried in the order in which they were added, and the first one whose condition is
    true applies to a row. Rows to which none applies stay as they are. Only the last clause of a
    kind may lack a condition. Every call returns a new builder.

    Example:
        >>> import pyarrow as pa, lakebed
        >>> t = lakebed.create_table(None, "memory://doc/merge", "id BIGINT, n BIGINT", key="id")
        >>> _ = t.insert(pa.table({"id": [1, 2], "n": [10, 20]}))
        >>> changes = pa.table({"id": [1, 2, 3], "n": [5, 0, 30]})
        >>> commit = (
        ...     t.merge(changes, "target.id = source.id")
        ...     .when_matched("source.n = 0").delete()
        ...     .when_matched().update({"n": "target.n + source.n"})
        ...     .when_not_matched().insert("all")
        ...     .execute()
        ... )
        >>> commit.inserted, commit.updated, commit.deleted
        (1, 1, 1)
        >>> sorted(tuple(row.values()) for row in t.to_arrow().to_pylist())
        [(1, 15), (3, 30)]
    """

    _run: Execute
    _statement: MergeStatement

    def __repr__(self) -> str:
        clauses = "".join(f".{clause}" for clause in self._statement.clauses)
        return f"merge(on={self._statement.on!r}){clauses}"

    def when_matched(self, condition: Expression | None = None) -> "MatchedClause":
        """Add a clause for target rows that match a source row.

        Args:
            condition: A SQL condition on columns of both, or None for all matched rows.
        """
        return MatchedClause(self, When.MATCHED, condition)

    def when_not_matched(self, condition: Expression | None = None) -> "NotMatchedClause":
        """Add a clause for source rows that match no target row.

        Args:
            condition: A SQL condition on columns of the source, or None for all these rows.
        """
        return NotMatchedClause(self, condition)

    def when_not_matched_by_source(self, condition: Expression | None = None) -> "TargetClause":
        """Add a clause for target rows that match no source row; it reads the whole table.

        Args:
            condition: A SQL condition on columns of the target, or None for all these rows.
        """
        return TargetClause(self, When.NOT_MATCHED_BY_SOURCE, condition)

    def execute(self, *, commit_metadata: Mapping[str, str] | None = None) -> Commit:
        """Execute the merge as one commit; return it, with the numbers of rows it changed.

        Args:
            commit_metadata: Strings to store in the commit, as for `upsert`.

        Raises:
            InvalidError: Several source rows match one target row, two rows to insert have the same
                key, a row to insert has the key of a row that did not match, an update would lower
                an ordering value, or the merge is not valid for this table.
            SchemaError: A column does not exist, or a value does not fit its type.
            ConflictError: Another writer changed the rows that were read; nothing was written.
        """
        if not self._statement.clauses:
            raise InvalidError(
                "merge: expected at least one clause: when_matched(), when_not_matched() or "
                "when_not_matched_by_source()"
            )
        return self._run(self._statement, commit_metadata)

    def _with(self, clause: Clause) -> "MergeBuilder":
        before = self._statement.of(clause.when)
        if before and before[-1].condition is None:
            raise InvalidError(
                f"merge: {clause} comes after {before[-1]}, which has no condition and applies to "
                "all of its rows; only the last clause of a kind may lack a condition"
            )
        clauses = (*self._statement.clauses, clause)
        return replace(self, _statement=replace(self._statement, clauses=clauses))


@dataclass(frozen=True, slots=True)
class TargetClause:
    """A clause for target rows that still lacks its action, `update` or `delete`."""

    _builder: MergeBuilder
    _when: When
    _condition: Expression | None

    def update(self, set: Mapping[str, Expression]) -> MergeBuilder:  # noqa: A002 - Delta's name
        """Update the rows.

        Args:
            set: The columns to change, each with a SQL expression as a string, a Python value that
                is not a string, or `lakebed.lit(...)`.
        """
        return _updated(self._builder, self._when, self._condition, set)

    def delete(self) -> MergeBuilder:
        """Delete the rows."""
        return self._builder._with(Clause(self._when, Act.DELETE, _condition(self._condition)))  # noqa: SLF001 - one module


class MatchedClause(TargetClause):
    """A clause for matched rows that still lacks its action, `update` or `delete`."""

    __slots__ = ()

    def update(self, set: object = "all") -> MergeBuilder:  # noqa: A002 - Delta's name
        """Update the rows.

        Args:
            set: The columns to change, each with a SQL expression as a string, a Python value that
                is not a string, or `lakebed.lit(...)`; `"all"` sets every column of the table to
                the column of the source with the same name.
        """
        return _updated(self._builder, self._when, self._condition, set)

    def update_all(self) -> MergeBuilder:
        """Set every column of the table to the column of the source with the same name."""
        return self.update("all")


@dataclass(frozen=True, slots=True)
class NotMatchedClause:
    """A clause for source rows that match no target row; it still lacks its action, `insert`."""

    _builder: MergeBuilder
    _condition: Expression | None

    def insert(self, values: object = "all") -> MergeBuilder:
        """Insert the rows.

        Args:
            values: The columns of the new row, each with a SQL expression as a string, a Python
                value that is not a string, or `lakebed.lit(...)`; other columns are null. `"all"`
                takes every column of the table from the source.
        """
        assigned = _assignments(values, "when_not_matched().insert", may_be_all=True)
        clause = Clause(When.NOT_MATCHED, Act.INSERT, _condition(self._condition), assigned)
        return self._builder._with(clause)  # noqa: SLF001 - one module

    def insert_all(self) -> MergeBuilder:
        """Insert the rows with every column of the table taken from the source."""
        return self.insert("all")


def _updated(
    builder: MergeBuilder, when: When, condition: Expression | None, values: object
) -> MergeBuilder:
    may_be_all = when is When.MATCHED
    assigned = _assignments(values, f"{when.value}().update", may_be_all=may_be_all)
    return builder._with(Clause(when, Act.UPDATE, _condition(condition), assigned))  # noqa: SLF001


def _assignments(values: object, what: str, *, may_be_all: bool) -> Mapping[str, Expression] | None:
    """Return the assigned columns; None for all columns of the source."""
    if may_be_all and (
        values is None or values is all_columns or (isinstance(values, str) and values == "all")
    ):
        return None
    return checked_assignments(values, what, ' or "all"' if may_be_all else "")


def checked_assignments(values: object, what: str, others: str = "") -> Mapping[str, Expression]:
    """Return a dict of column assignments, or raise InvalidError."""
    if not isinstance(values, Mapping):
        raise InvalidError(
            f"{what}: expected a dict of columns and their values{others}, found {values!r}"
        )
    if not values:
        raise InvalidError(f"{what}: expected at least one column")
    for name in values:
        if not isinstance(name, str):
            raise InvalidError(f"{what}: expected the name of a column, found {name!r}")
    return {str(name): as_expression(value) for name, value in values.items()}


def _condition(condition: Expression | None) -> Expression | None:
    if isinstance(condition, str) and not condition.strip():
        raise InvalidError("merge: a condition is an empty string; leave it out, or pass None")
    if isinstance(condition, (bool, int, float, Mapping)):
        raise InvalidError(f"merge: expected a condition as a string of SQL, found {condition!r}")
    return condition


def join_condition(on: object, source: str, target: str) -> Expression:
    """Return the join condition: `on` itself, or equality of the columns that it lists."""
    if isinstance(on, Sequence) and not isinstance(on, str):
        names = list(on)
        if not names or not all_columns(isinstance(name, str) for name in names):
            raise InvalidError(f"merge: on={on!r}: expected a condition or a list of column names")
        return " AND ".join(f"{_quoted(target, n)} = {_quoted(source, n)}" for n in names)
    if on is None or (isinstance(on, str) and not on.strip()):
        raise InvalidError(
            f"merge: on={on!r}: expected a condition such as '{target}.id = {source}.id'"
        )
    if isinstance(on, (bool, int, float, Mapping)):
        raise InvalidError(f"merge: on={on!r}: expected a condition as a string of SQL")
    return on


def _quoted(alias: str, name: str) -> str:
    return ".".join(f"`{part.replace('`', '``')}`" for part in (alias, name))
