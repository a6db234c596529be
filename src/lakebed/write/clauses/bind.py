"""Bind a merge to the columns of its source and its target, for evaluation on Arrow data."""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from lakebed.errors import UnsupportedError
from lakebed.expr.bound import column_names
from lakebed.expr.scope import (
    Expression,
    Side,
    bind_column,
    bind_condition,
    bind_literal,
    bind_value,
)
from lakebed.format.names.meta_columns import RECORD_KEY
from lakebed.write.clauses.clause import Act, Literal, When
from lakebed.write.clauses.clause import Expression as Given
from lakebed.write.clauses.columns import Assigned
from lakebed.write.clauses.plan import TARGET, MergePlan, expression_text, sides_of


@dataclass(frozen=True, slots=True)
class BoundClause:
    """A clause with its bound condition and values.

    With `yields`, a late row changes nothing; see `Assigned`.
    """

    when: When
    act: Act
    condition: Expression | None
    values: dict[str, Expression]
    yields: bool
    text: str


@dataclass(frozen=True, slots=True)
class BoundMerge:
    """A merge that can be evaluated; `read` are the columns of the target that it reads."""

    plan: MergePlan
    clauses: tuple[BoundClause, ...]
    read: tuple[str, ...]

    def of(self, when: When) -> tuple[BoundClause, ...]:
        """Return the clauses for one kind of rows, in order."""
        return tuple(clause for clause in self.clauses if clause.when is when)


def bind_merge(plan: MergePlan, source: pa.Schema | None) -> BoundMerge:
    """Bind a merge whose source has the columns `source`.

    Raises UnsupportedError for an expression that only Spark can evaluate.
    """
    if plan.statement.on is not None and not plan.join.pairs and not plan.join.rest:
        # Raises the error that the plan has put off.
        bind_condition(
            expression_text(plan.statement.on),
            sides_of(plan.statement, plan.schema, source)[When.MATCHED],
        )
        raise UnsupportedError(f"merge: {plan.statement.on}: only Spark evaluates this condition")
    sides = sides_of(plan.statement, plan.schema, source)
    clauses = tuple(_bind(one, sides[one.clause.when], plan.schema) for one in plan.assigned)
    return BoundMerge(plan, clauses, tuple(_read(plan, clauses)))


def _bind(assigned: Assigned, sides: Sequence[Side], schema: pa.Schema) -> BoundClause:
    clause = assigned.clause
    condition = clause.condition
    bound = None if condition is None else bind_condition(expression_text(condition), sides)
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
    return bind_value(expression_text(value), sides, field)


def _read(plan: MergePlan, clauses: Sequence[BoundClause]) -> list[str]:
    """Return the columns of the target that are read: those written, and those of expressions."""
    used = [
        name for clause in clauses for value in clause.values.values() for name in value.columns
    ]
    used += [name for clause in clauses if clause.condition for name in clause.condition.columns]
    used += [name for pair in plan.join.pairs for name in column_names(pair.target)]
    used += [name for part in plan.join.rest for name in column_names(part)]
    found = {name.removeprefix(TARGET) for name in used if name.startswith(TARGET)}
    found.update(plan.written)
    names = [name for name in plan.schema.names if name in found]
    return names if plan.config.record_key_fields else [RECORD_KEY, *names]
