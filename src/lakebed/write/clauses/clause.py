"""The clauses of a merge, as values that every engine executes alike."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from enum import Enum


class When(Enum):
    """The rows to which a clause applies."""

    MATCHED = "when_matched"  # pairs of a target row and a source row
    NOT_MATCHED = "when_not_matched"  # source rows without a target row
    NOT_MATCHED_BY_SOURCE = "when_not_matched_by_source"  # target rows without a source row


class Act(Enum):
    """What a clause does with its rows."""

    UPDATE = "update"
    INSERT = "insert"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class Literal:
    """A Python value, where a string would otherwise be a SQL expression; see `lit`."""

    value: object


def lit(value: object) -> Literal:
    """Return a Python value as an expression of `merge` or `update`.

    Only strings need it, because a plain string is a SQL expression; the value of a list, struct or
    map column needs it too.

    Args:
        value: The value, of the type of the column that it is assigned to.

    Example:
        >>> import pyarrow as pa, lakebed
        >>> t = lakebed.create_table(None, "memory://doc/lit", "id BIGINT, v STRING", key="id")
        >>> _ = t.insert(pa.table({"id": [1], "v": ["a"]}))
        >>> _ = t.update({"v": lakebed.lit("it's")})
        >>> t.to_arrow().to_pylist()
        [{'id': 1, 'v': "it's"}]
    """
    return value if isinstance(value, Literal) else Literal(value)


Expression = object
"""A string of SQL, a `Literal`, or, on Spark, a Column."""

_PLAIN = (bool, int, float, Decimal, bytes, date, datetime, type(None))


def as_expression(value: object) -> Expression:
    """Return the value of a column assignment, with Python values as literals."""
    return Literal(value) if isinstance(value, _PLAIN) else value


@dataclass(frozen=True, slots=True)
class Clause:
    """One clause. `values` are the assigned columns; None means all columns of the source.

    Errors call it by its `label`, or else by the call that adds it to a merge.
    """

    when: When
    act: Act
    condition: Expression | None = None
    values: Mapping[str, Expression] | None = None
    label: str = ""

    @property
    def takes_all(self) -> bool:
        """Return whether the clause assigns all columns of the source."""
        return self.act is not Act.DELETE and self.values is None

    def __str__(self) -> str:
        given = "" if self.condition is None else repr(self.condition)
        return self.label or f"{self.when.value}({given}).{self.act.value}()"


@dataclass(frozen=True, slots=True)
class MergeStatement:
    """A merge: the aliases of the source and the target, the join condition, and the clauses.

    An update has no source: then `on` is None, every clause applies to target rows, and `where`
    selects them.
    """

    source: str
    target: str
    on: Expression | None
    clauses: tuple[Clause, ...]
    where: str | None = None

    def of(self, when: When) -> tuple[Clause, ...]:
        """Return the clauses for one kind of rows, in order."""
        return tuple(clause for clause in self.clauses if clause.when is when)

    @property
    def deletes(self) -> bool:
        """Return whether a clause may delete rows."""
        return any(clause.act is Act.DELETE for clause in self.clauses)

    @property
    def inserts(self) -> bool:
        """Return whether a clause may insert rows."""
        return any(clause.act is Act.INSERT for clause in self.clauses)
