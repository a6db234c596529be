"""Bind a merge to the columns of its source and its target, for evaluation on Arrow data."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import pyarrow as pa

from lakebed.errors import InvalidError, UnsupportedError
from lakebed.expr.bound import Apply, Bound, Column, column_names
from lakebed.expr.scope import (
    Expression,
    Side,
    and_parts,
    bind_column,
    bind_condition,
    bind_literal,
    bind_value,
)
from lakebed.expr.types import INTEGERS
from lakebed.format.names.meta_columns import META_PREFIX, RECORD_KEY
from lakebed.groups.definition import ColumnGroups
from lakebed.table.config.schema import normalise
from lakebed.table.config.table_config import TableConfig
from lakebed.write.clauses.clause import Act, Literal, MergeStatement, When
from lakebed.write.clauses.clause import Expression as Given
from lakebed.write.clauses.columns import (
    Assigned,
    Equated,
    assign_columns,
    ordering_columns,
    written_columns,
)
from lakebed.write.spec.columns import delete_fields

TARGET, SOURCE = "target.", "source."
"""The prefixes of columns in the batches on which a merge is evaluated."""


@dataclass(frozen=True, slots=True)
class KeyPair:
    """An equality in the join condition: an expression of the target, and one of the source."""

    target: Bound
    source: Bound


@dataclass(frozen=True, slots=True)
class BoundClause:
    """A clause with its bound condition and values."""

    when: When
    act: Act
    condition: Expression | None
    values: dict[str, Expression]
    takes_all: bool
    text: str

    @property
    def yields(self) -> bool:
        """Return whether a late row changes nothing; see `Assigned`."""
        return self.takes_all


@dataclass(frozen=True, slots=True)
class BoundMerge:
    """A merge that can be evaluated.

    `written` are the columns of the rows that it writes, `read` those of the target that it reads,
    and `ordering` the ordering columns of each rule. `pairs` are the equalities of the join
    condition, and `rest` is the rest of it. `equated` maps columns of the target to columns of the
    source with equal values.
    """

    statement: MergeStatement
    config: TableConfig
    schema: pa.Schema
    clauses: tuple[BoundClause, ...]
    written: tuple[str, ...]
    read: tuple[str, ...]
    ordering: tuple[tuple[str, ...], ...]
    pairs: tuple[KeyPair, ...] = ()
    rest: tuple[Bound, ...] = ()
    equated: Equated | None = None

    def of(self, when: When) -> tuple[BoundClause, ...]:
        """Return the clauses for one kind of rows, in order."""
        return tuple(clause for clause in self.clauses if clause.when is when)

    @property
    def names(self) -> tuple[str, ...]:
        """Return the columns of the rows to write, the record key if the table generates it."""
        return self.written if self.config.record_key_fields else (RECORD_KEY, *self.written)

    @property
    def only_deletes(self) -> bool:
        """Return whether the merge writes nothing but deletes."""
        return all(clause.act is Act.DELETE for clause in self.clauses)

    @property
    def flags_deletes(self) -> bool:
        """Return whether the rows to write have flags, because some of them are deletes."""
        return self.statement.deletes and not self.only_deletes

    @property
    def reads_own_keys(self) -> bool:
        """Return whether only rows that the merge writes could change its result."""
        return self.joins_by_key and not self.of(When.NOT_MATCHED_BY_SOURCE)

    @property
    def is_upsert(self) -> bool:
        """Return whether the merge is an upsert of all rows of its source."""
        kinds = {(clause.when, clause.act) for clause in self.clauses}
        return (
            len(self.clauses) == 2
            and kinds == {(When.MATCHED, Act.UPDATE), (When.NOT_MATCHED, Act.INSERT)}
            and all(clause.condition is None and clause.takes_all for clause in self.clauses)
            and self.inserts_own_keys
            and len(self.pairs) == len(self.identity)
        )

    @property
    def identity(self) -> tuple[str, ...]:
        """Return the columns that identify a row of the table."""
        config = self.config
        is_global = config.index is not None and config.index.is_global
        partition = () if is_global else config.partition_fields
        return tuple(dict.fromkeys((*config.record_key_fields, *partition)))

    @property
    def joins_by_key(self) -> bool:
        """Return whether a source row can only match the target row of its key."""
        names = self.identity
        return bool(self.config.record_key_fields) and set(names) <= (self.equated or {}).keys()

    @property
    def inserts_own_keys(self) -> bool:
        """Return whether every inserted row has the key by which its source row was joined."""
        return (
            self.joins_by_key
            and not self.rest
            and all(
                _column_of(clause.values.get(name)) == SOURCE + (self.equated or {})[name]
                for clause in self.of(When.NOT_MATCHED)
                for name in self.identity
            )
        )


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


def bind_merge(
    statement: MergeStatement,
    config: TableConfig,
    schema: pa.Schema,
    groups: ColumnGroups,
    source: pa.Schema | None,
) -> BoundMerge:
    """Bind a merge to the table's columns `schema` and those of the source.

    Raises UnsupportedError for an expression that only Spark can evaluate.
    """
    target_side = Side(statement.target, schema, TARGET)
    sides: dict[When, tuple[Side, ...]] = {When.NOT_MATCHED_BY_SOURCE: (target_side,)}
    pairs: list[KeyPair] = []
    rest: list[Bound] = []
    equated: dict[str, str] = {}
    if source is not None:
        if statement.source.lower() == statement.target.lower():
            raise InvalidError(f"merge: source and target have the same alias {statement.source!r}")
        source_side = Side(statement.source, source, SOURCE)
        both = (target_side, source_side)
        sides |= {When.MATCHED: both, When.NOT_MATCHED: (source_side,)}
        joined = bind_condition(_text(statement.on), both)
        pairs, rest = _divide(joined.bound)
        equated = _equated(pairs)
    names = [] if source is None else source.names
    assigned = assign_columns(statement, config, schema, names, equated)
    clauses = tuple(_bind_clause(one, sides[one.clause.when], schema) for one in assigned)
    written = written_columns(schema, groups, assigned)
    if all(one.clause.act is Act.DELETE for one in assigned):
        written = [name for name in schema.names if name in delete_fields(config)]
    return BoundMerge(
        statement,
        config,
        schema,
        clauses,
        tuple(written),
        tuple(_read(config, schema, written, clauses, pairs, rest)),
        ordering_columns(config, groups, written),
        tuple(pairs),
        tuple(rest),
        equated,
    )


def _bind_clause(assigned: Assigned, sides: Sequence[Side], schema: pa.Schema) -> BoundClause:
    clause = assigned.clause
    condition = clause.condition
    bound = None if condition is None else bind_condition(_text(condition), sides)
    values = {
        name: bind_column(sides[-1], column, schema.field(name))
        for name, column in assigned.sources.items()
    }
    for name, value in assigned.values.items():
        values[name] = _bind_value(value, sides, schema.field(name))
    return BoundClause(clause.when, clause.act, bound, values, assigned.yields, str(clause))


def _bind_value(value: Given, sides: Sequence[Side], field: pa.Field) -> Expression:
    if isinstance(value, Literal):
        return bind_literal(value.value, field)
    return bind_value(_text(value), sides, field)


def _text(value: Given | None) -> str:
    """Return an expression as a string; raise UnsupportedError for a Column of Spark."""
    if isinstance(value, str):
        return value
    if isinstance(value, Literal) and isinstance(value.value, bool):
        return str(value.value)
    if type(value).__module__.startswith("pyspark."):
        raise UnsupportedError(
            f"{value}: a Column is an expression of Spark; open the table with a session, or write "
            "the expression as a string"
        )
    raise InvalidError(f"expected an expression as a string of SQL, found {value!r}")


def _divide(bound: Bound) -> tuple[list[KeyPair], list[Bound]]:
    """Divide a join condition into equalities of the two tables, and the rest."""
    pairs, rest = [], []
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


def uncast(bound: Bound) -> Column | None:
    """Return the column that an expression compares, with at most a cast between integers."""
    if isinstance(bound, Column):
        return bound
    if isinstance(bound, Apply) and bound.function == "cast":
        inner = bound.args[0]
        if isinstance(inner, Column) and inner.kind in INTEGERS and bound.kind in INTEGERS:
            return inner
    return None


def _column_of(value: Expression | None) -> str | None:
    column = None if value is None else uncast(value.bound)
    return None if column is None else column.name


def _read(
    config: TableConfig,
    schema: pa.Schema,
    written: Collection[str],
    clauses: Sequence[BoundClause],
    pairs: Sequence[KeyPair],
    rest: Sequence[Bound],
) -> list[str]:
    """Return the columns of the target that are read: those written, and those of expressions."""
    used = [
        name for clause in clauses for value in clause.values.values() for name in value.columns
    ]
    used += [name for clause in clauses if clause.condition for name in clause.condition.columns]
    used += [name for pair in pairs for name in column_names(pair.target)]
    used += [name for part in rest for name in column_names(part)]
    found = {name.removeprefix(TARGET) for name in used if name.startswith(TARGET)}
    found.update(written)
    names = [name for name in schema.names if name in found]
    return names if config.record_key_fields else [RECORD_KEY, *names]
