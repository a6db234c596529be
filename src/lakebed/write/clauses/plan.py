"""A checked merge: what it assigns, which columns it writes, and what its join condition implies."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from lakebed.errors import InvalidError, LakebedError, UnsupportedError
from lakebed.expr.bound import Apply, Bound, Column, column_names
from lakebed.expr.scope import Side, and_parts, bind_condition
from lakebed.expr.types import INTEGERS
from lakebed.format.names.meta_columns import META_PREFIX, RECORD_KEY
from lakebed.groups.definition import ColumnGroups
from lakebed.table.config.schema import normalise
from lakebed.table.config.table_config import TableConfig
from lakebed.write.clauses.clause import Act, Expression, Literal, MergeStatement, When
from lakebed.write.clauses.columns import (
    Assigned,
    assign_columns,
    identity_of,
    ordering_columns,
    plain_column,
    written_columns,
)
from lakebed.write.spec.columns import delete_fields
from lakebed.write.spec.intake import Intake

TARGET, SOURCE = "target.", "source."
"""The prefixes of columns in the batches on which a merge is evaluated."""

_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_EQUALS = re.compile(rf"=\(({_NAME})\.({_NAME}), ({_NAME})\.({_NAME})\)")


@dataclass(frozen=True, slots=True)
class KeyPair:
    """An equality in the join condition: an expression of the target, and one of the source."""

    target: Bound
    source: Bound


@dataclass(frozen=True, slots=True)
class JoinCondition:
    """A join condition: its equalities, the rest of it, and the columns that it equates.

    `equated` maps columns of the target to columns of the source. A condition that only Spark can
    evaluate has no pairs and no rest.
    """

    pairs: tuple[KeyPair, ...] = ()
    rest: tuple[Bound, ...] = ()
    equated: Mapping[str, str] | None = None
    has_rest: bool = False


@dataclass(frozen=True, slots=True)
class MergePlan:
    """A merge that has been checked against the columns of the table and of its source.

    `written` are the columns of the rows that it writes, and `ordering` the ordering columns of
    each rule.
    """

    statement: MergeStatement
    config: TableConfig
    schema: pa.Schema
    assigned: tuple[Assigned, ...]
    written: tuple[str, ...]
    ordering: tuple[tuple[str, ...], ...]
    join: JoinCondition

    def assigned_by(self, when: When) -> tuple[Assigned, ...]:
        """Return what the clauses for one kind of rows assign, in order."""
        return tuple(one for one in self.assigned if one.clause.when is when)

    @property
    def equated(self) -> Mapping[str, str]:
        """Return the columns of the target that equal a column of the source, with that column."""
        return self.join.equated or {}

    @property
    def names(self) -> tuple[str, ...]:
        """Return the columns of the rows to write, the record key if the table generates it."""
        return self.written if self.config.record_key_fields else (RECORD_KEY, *self.written)

    @property
    def read_by_spark(self) -> tuple[str, ...]:
        """Return the columns to read if it is not known which ones the expressions need."""
        names: tuple[str, ...] = tuple(self.schema.names)
        return names if self.config.record_key_fields else (RECORD_KEY, *names)

    @property
    def only_deletes(self) -> bool:
        """Return whether the merge writes nothing but deletes."""
        return all(one.clause.act is Act.DELETE for one in self.assigned)

    @property
    def flags_deletes(self) -> bool:
        """Return whether the rows to write have flags, because some of them are deletes."""
        return self.statement.deletes and not self.only_deletes

    @property
    def intake(self) -> Intake:
        """Return how the rows are written; late rows of an upsert stay late."""
        is_upsert = any(one.yields and one.clause.act is Act.UPDATE for one in self.assigned)
        return Intake(flagged=self.flags_deletes, supersedes=not is_upsert)

    @property
    def identity(self) -> tuple[str, ...]:
        """Return the columns that identify a row of the table."""
        return identity_of(self.config)

    @property
    def joins_by_key(self) -> bool:
        """Return whether a source row can only match the target row of its key."""
        return bool(self.config.record_key_fields) and set(self.identity) <= self.equated.keys()

    @property
    def reads_own_keys(self) -> bool:
        """Return whether only rows that the merge writes could change its result."""
        return self.joins_by_key and not self.statement.of(When.NOT_MATCHED_BY_SOURCE)

    @property
    def inserts_own_keys(self) -> bool:
        """Return whether every inserted row has the key by which its source row was joined."""
        return (
            self.joins_by_key
            and not self.join.has_rest
            and self.equated.keys() == set(self.identity)
            and all(
                self._source_of(one, name) == self.equated[name].lower()
                for one in self.assigned_by(When.NOT_MATCHED)
                for name in self.identity
            )
        )

    @property
    def is_upsert(self) -> bool:
        """Return whether the merge is an upsert of all rows of its source."""
        clauses = self.statement.clauses
        kinds = {(clause.when, clause.act) for clause in clauses}
        return (
            len(clauses) == 2
            and kinds == {(When.MATCHED, Act.UPDATE), (When.NOT_MATCHED, Act.INSERT)}
            and all(clause.condition is None and clause.takes_all for clause in clauses)
            and self.inserts_own_keys
        )

    def _source_of(self, one: Assigned, name: str) -> str:
        alias = self.statement.source
        column = one.sources.get(name) or plain_column(one.values.get(name), alias)
        return (column or "").lower()


def plan_merge(
    statement: MergeStatement,
    config: TableConfig,
    schema: pa.Schema,
    groups: ColumnGroups,
    source: pa.Schema | None,
) -> MergePlan:
    """Check a merge against the table's columns `schema` and those of the source."""
    join = JoinCondition()
    if source is not None:
        join = _join_condition(statement, schema, source)
    names = [] if source is None else source.names
    assigned = assign_columns(statement, config, schema, names, join.equated or {})
    written = written_columns(schema, groups, assigned)
    only_deletes = all(one.clause.act is Act.DELETE for one in assigned)
    if only_deletes and config.record_key_fields:
        written = [name for name in schema.names if name in delete_fields(config)]
    ordering = ordering_columns(config, groups, written)
    return MergePlan(statement, config, schema, assigned, tuple(written), ordering, join)


def source_schema(schema: pa.Schema) -> pa.Schema:
    """Return the columns of a source as a table would store them, without meta columns.

    A source may be a read of a table with its meta columns.
    """
    fields = [f for f in schema if not f.name.startswith(META_PREFIX)]
    if not fields:
        raise InvalidError("merge: the source has no columns")
    typed = [f for f in fields if not pa.types.is_null(f.type)]
    known = {f.name: f for f in normalise(pa.schema(typed))} if typed else {}
    return pa.schema([known.get(f.name, f).with_nullable(True) for f in fields])


def sides_of(
    statement: MergeStatement, schema: pa.Schema, source: pa.Schema | None
) -> dict[When, tuple[Side, ...]]:
    """Return the tables whose columns the clauses for each kind of rows can name."""
    target_side = Side(statement.target, schema, TARGET)
    if source is None:
        return {When.NOT_MATCHED_BY_SOURCE: (target_side,)}
    source_side = Side(statement.source, source, SOURCE)
    return {
        When.MATCHED: (target_side, source_side),
        When.NOT_MATCHED: (source_side,),
        When.NOT_MATCHED_BY_SOURCE: (target_side,),
    }


def expression_text(value: Expression | None) -> str:
    """Return an expression as a string; raise UnsupportedError for a Column of Spark."""
    if isinstance(value, str):
        return value
    if isinstance(value, Literal) and isinstance(value.value, bool):
        return str(value.value)
    if is_spark_column(value):
        raise UnsupportedError(
            f"{value}: a Column is an expression of Spark; pass a DataFrame as the source, or write "
            "the expression as a string"
        )
    raise InvalidError(f"expected an expression as a string of SQL, found {value!r}")


def is_spark_column(value: object) -> bool:
    """Return whether a value is a Column of Spark."""
    return type(value).__module__.startswith("pyspark.")


def uncast(bound: Bound) -> Column | None:
    """Return the column that an expression compares, with at most a cast between integers."""
    if isinstance(bound, Column):
        return bound
    if isinstance(bound, Apply) and bound.function == "cast":
        inner = bound.args[0]
        if isinstance(inner, Column) and inner.kind in INTEGERS and bound.kind in INTEGERS:
            return inner
    return None


def _join_condition(
    statement: MergeStatement, schema: pa.Schema, source: pa.Schema
) -> JoinCondition:
    both = sides_of(statement, schema, source)[When.MATCHED]
    on = statement.on
    if is_spark_column(on):
        return _equated_columns(str(on), statement, schema, source)
    try:
        bound = bind_condition(expression_text(on), both).bound
    except UnsupportedError:
        return JoinCondition(has_rest=True)
    pairs, rest = _divide(bound)
    equated = _equated(pairs)
    has_rest = bool(rest) or len(equated) < len(pairs)
    return JoinCondition(tuple(pairs), tuple(rest), equated, has_rest)


def _equated_columns(
    text: str, statement: MergeStatement, schema: pa.Schema, source: pa.Schema
) -> JoinCondition:
    """Return what a Column of equalities equates; other Columns are left to Spark."""
    text = text.removeprefix("Column<'").removesuffix("'>")
    left = _EQUALS.sub("1", text)
    while "and(1, 1)" in left:
        left = left.replace("and(1, 1)", "1")
    if left == "1":
        parts = [f"{a}.`{b}` = {c}.`{d}`" for a, b, c, d in _EQUALS.findall(text)]
        text = " AND ".join(parts)
    try:
        found = bind_condition(text, sides_of(statement, schema, source)[When.MATCHED])
    except LakebedError:
        return JoinCondition(has_rest=True)
    pairs, rest = _divide(found.bound)
    equated = _equated(pairs)
    return JoinCondition((), (), equated, bool(rest) or len(equated) < len(pairs))


def _divide(bound: Bound) -> tuple[list[KeyPair], list[Bound]]:
    """Divide a join condition into equalities between the two tables, and the rest."""
    pairs: list[KeyPair] = []
    rest: list[Bound] = []
    for part in and_parts(bound):
        pair = _pair(part)
        if pair is None:
            rest.append(part)
        else:
            pairs.append(pair)
    return pairs, rest


def _pair(part: Bound) -> KeyPair | None:
    if not isinstance(part, Apply) or part.function != "=":
        return None
    one, other = part.args
    sides = [_prefixes(arg) for arg in (one, other)]
    if sides == [{TARGET}, {SOURCE}]:
        return KeyPair(one, other)
    return KeyPair(other, one) if sides == [{SOURCE}, {TARGET}] else None


def _prefixes(bound: Bound) -> set[str]:
    return {TARGET if name.startswith(TARGET) else SOURCE for name in column_names(bound)}


def _equated(pairs: Sequence[KeyPair]) -> dict[str, str]:
    found: dict[str, str] = {}
    for pair in pairs:
        target, source = uncast(pair.target), uncast(pair.source)
        if target is not None and source is not None:
            name = target.name.removeprefix(TARGET)
            found.setdefault(name, source.name.removeprefix(SOURCE))
    return found
