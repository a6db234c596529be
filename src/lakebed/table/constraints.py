"""What a predicate demands of single columns, for skipping what cannot hold such rows.

Every row for which the predicate is true fulfils all constraints; not every row that fulfils
them satisfies the predicate. So a part that is not understood, or that a session's settings
could read in another way, demands nothing. A column is held to finite values (=, <=>, IN) or
to a range (<, <=, >, >=, BETWEEN), and only beside literals of its own type: integers,
strings, truth values, and dates, which may also be written as ISO text.
"""

import datetime as dt
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import TypeAlias

import pyarrow as pa
from sqlglot import expressions as sql

from lakebed.errors import LakebedError
from lakebed.table.coercion import INTEGERS
from lakebed.table.literal import type_named
from lakebed.table.predicate_syntax import parse_tree

Value: TypeAlias = int | str | bool | dt.date

_INTEGER = re.compile(r"-?[0-9]{1,40}", re.ASCII)
_ISO_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
_LONG = range(-(1 << 63), 1 << 63)
_SIGNS: dict[type[sql.Expression], str] = {
    sql.EQ: "=",
    sql.NullSafeEQ: "<=>",
    sql.LT: "<",
    sql.LTE: "<=",
    sql.GT: ">",
    sql.GTE: ">=",
}
_FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True, slots=True)
class Bound:
    """One end of a range; `inclusive` if it belongs to it."""

    value: Value
    inclusive: bool


@dataclass(frozen=True, slots=True)
class Allowed:
    """What one column may hold, never null: finite values, or else a range."""

    values: frozenset[Value] | None = None
    lower: Bound | None = None
    upper: Bound | None = None

    @property
    def is_empty(self) -> bool:
        """Tell whether no value is allowed."""
        return self.values is not None and not self.values

    def holds(self, value: Value) -> bool:
        """Tell whether `value`, of the column's type, is allowed."""
        if self.values is not None:
            return value in self.values
        return (self.lower is None or _low(self.lower) <= (value, False)) and (
            self.upper is None or (value, True) <= _high(self.upper)
        )

    def both(self, other: "Allowed") -> "Allowed":
        """Give what this and `other` allow."""
        if self.values is not None:
            return Allowed(frozenset(filter(other.holds, self.values)))
        if other.values is not None:
            return other.both(self)
        lower = max(_known(self.lower, other.lower), key=_low, default=None)
        upper = min(_known(self.upper, other.upper), key=_high, default=None)
        if lower is not None and upper is not None and not _low(lower) < _high(upper):
            return Allowed(frozenset())
        return Allowed(None, lower, upper)

    def either(self, other: "Allowed") -> "Allowed":
        """Give at least what one of the two allows: a range has no gaps."""
        if self.is_empty or other.is_empty:
            return other if self.is_empty else self
        if self.values is not None and other.values is not None:
            return Allowed(self.values | other.values)
        (low, high), (other_low, other_high) = _ends(self), _ends(other)
        return Allowed(
            None,
            None if low is None or other_low is None else min(low, other_low, key=_low),
            None if high is None or other_high is None else max(high, other_high, key=_high),
        )


def _low(bound: Bound) -> tuple[Value, bool]:
    """Place a lower end among values: it stands right before, or right after its own."""
    return bound.value, not bound.inclusive


def _high(bound: Bound) -> tuple[Value, bool]:
    """Place an upper end among values, likewise."""
    return bound.value, bound.inclusive


def _ends(allowed: Allowed) -> tuple[Bound | None, Bound | None]:
    if allowed.values is None:
        return allowed.lower, allowed.upper
    ends = [Bound(value, True) for value in allowed.values]
    return min(ends, key=_low), max(ends, key=_high)


def _known(*bounds: Bound | None) -> list[Bound]:
    return [bound for bound in bounds if bound is not None]


@dataclass(frozen=True, slots=True)
class Constraints:
    """What a predicate demands, by column; a column that is not named may hold anything."""

    columns: Mapping[str, Allowed] = field(default_factory=dict)

    @property
    def is_impossible(self) -> bool:
        """Tell whether no row at all can satisfy the predicate."""
        return any(allowed.is_empty for allowed in self.columns.values())

    def values(self, column: str) -> frozenset[Value] | None:
        """Give the finite values of `column`, None if it has no such constraint."""
        allowed = self.columns.get(column)
        return None if allowed is None else allowed.values


def parse_constraints(where: str | None, schema: pa.Schema) -> Constraints:
    """Give what `where` demands of the columns of `schema`; never an error.

    A text that we cannot parse demands nothing: Spark may still understand it.
    """
    # What a backslash means depends on the session (spark.sql.parser.escapedStringLiterals).
    if where is None or "\\" in where:
        return Constraints()
    try:
        return Constraints(_Reader(schema).demands(parse_tree(where)))
    except (LakebedError, RecursionError):
        return Constraints()


def column_value(text: str, kind: pa.DataType) -> Value | None:
    """Give the value that a column of type `kind` has where its plain text is `text`.

    None for a type whose text is not taken back, and for any other spelling.

    >>> column_value("-7", pa.int32()), column_value("7.0", pa.int32())
    (-7, None)
    """
    if kind in INTEGERS:
        return int(text) if _INTEGER.fullmatch(text) else None
    if kind == pa.date32():
        return _date(text)
    return text if kind == pa.string() else None


_Demands: TypeAlias = Mapping[str, Allowed]


class _Reader:
    """Walks the parsed tree; a node that demands nothing gives no columns."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._names = {name.lower() for name in schema.names}

    def demands(self, node: sql.Expression) -> _Demands:
        """Give what must hold of each column where `node` is true."""
        inner = node.unnest()
        if type(inner) in _SIGNS:
            return self._compared(_SIGNS[type(inner)], inner.left, inner.right)
        known: dict[type[sql.Expression], Callable[[], _Demands]] = {
            sql.And: lambda: reduce(_both, map(self.demands, inner.flatten())),
            sql.Or: lambda: reduce(_either, map(self.demands, inner.flatten())),
            sql.In: lambda: self._in(inner),
            sql.Between: lambda: _both(
                self._compared(">=", inner.this, inner.args["low"]),
                self._compared("<=", inner.this, inner.args["high"]),
            ),
        }
        return known[type(inner)]() if type(inner) in known else {}

    def _compared(self, sign: str, left: sql.Expression, right: sql.Expression) -> _Demands:
        column = self._column(left)
        if column is None:
            left, right, sign = right, left, _FLIPPED.get(sign, sign)
            column = self._column(left)
        if column is None:
            return {}
        if sign == "=" or (sign == "<=>" and not isinstance(right.unnest(), sql.Null)):
            return self._one_of(column, [right])
        value = self._literal(right, column.type)
        if value is None or isinstance(value, bool) or sign == "<=>":
            return {}
        bound = Bound(value, sign.endswith("="))
        is_lower = sign.startswith(">")
        return {column.name: Allowed(lower=bound) if is_lower else Allowed(upper=bound)}

    def _in(self, node: sql.Expression) -> _Demands:
        column = self._column(node.this)
        if column is None or node.args.get("query") is not None or not node.expressions:
            return {}
        return self._one_of(column, node.expressions)

    def _one_of(self, column: pa.Field, items: Iterable[sql.Expression]) -> _Demands:
        # Nothing equals null.
        known = [item for item in items if not isinstance(item.unnest(), sql.Null)]
        values = [self._literal(item, column.type) for item in known]
        exact = frozenset(value for value in values if value is not None)
        if None in values or not _is_constrained(column.type):
            return {}
        if column.type in INTEGERS:
            half = 1 << (column.type.bit_width - 1)
            exact = frozenset(value for value in exact if value in range(-half, half))
        return {column.name: Allowed(exact)}

    def _column(self, node: sql.Expression) -> pa.Field | None:
        inner = node.unnest()
        if type(inner) is not sql.Column or inner.table:
            return None
        wanted = str(inner.name).lower()
        near = [name for name in self._schema.names if name.lower() == wanted]
        # Two columns that differ in case only are found by a session's own rule.
        return self._schema.field(near[0]) if len(near) == 1 else None

    def _literal(self, node: sql.Expression, kind: pa.DataType) -> Value | None:
        """Give the value of a literal that is of the type `kind` itself, None for any other."""
        inner = node.unnest()
        if isinstance(inner, sql.Boolean):
            return bool(inner.this) if kind == pa.bool_() else None
        if kind in INTEGERS:
            return _integer(inner)
        if kind == pa.date32():
            is_date = isinstance(inner, sql.Cast) and _target(inner) == pa.date32()
            return _date(_text(inner.this if is_date else inner))
        return self._string(_text(inner)) if kind == pa.string() else None

    def _string(self, text: str | None) -> str | None:
        # In some sessions a text in double quotes is a column, and of a quote written twice
        # none stays.
        if text is None or text.lower() in self._names or "'" in text or '"' in text:
            return None
        # A lone surrogate is in no table, and no key can be spelled with it.
        return text if text.encode("utf-8", "ignore").decode() == text else None


def _both(one: _Demands, other: _Demands) -> _Demands:
    shared = {name: one[name].both(other[name]) for name in one.keys() & other.keys()}
    return {**one, **other, **shared}


def _either(one: _Demands, other: _Demands) -> _Demands:
    for side, rest in ((one, other), (other, one)):
        if any(allowed.is_empty for allowed in side.values()):
            return rest  # that side is never true
    return {name: one[name].either(other[name]) for name in one.keys() & other.keys()}


def _is_constrained(kind: pa.DataType) -> bool:
    return kind in (*INTEGERS, pa.string(), pa.bool_(), pa.date32())


def _integer(node: sql.Expression) -> int | None:
    """Give the value of `5`, `-5` or `5L`; beyond 64 bits it is a decimal, and so none."""
    if type(node) is sql.Neg and not isinstance(node.this, sql.Neg):
        positive = _integer(node.this)
        return None if positive is None else -positive
    if isinstance(node, sql.Cast):
        inner, target = _integer(node.this), _target(node)
        if inner is None or target not in INTEGERS:
            return None
        half = 1 << (target.bit_width - 1)
        return inner if inner in range(-half, half) else None
    if not isinstance(node, sql.Literal) or node.is_string:
        return None
    text = str(node.this)
    value = int(text) if _INTEGER.fullmatch(text) else None
    return value if value is not None and value in _LONG else None


def _target(node: sql.Expression) -> pa.DataType | None:
    if not isinstance(node.to, sql.DataType) or node.to.expressions:
        return None
    return type_named(str(getattr(node.to.this, "value", "")), [])


def _text(node: sql.Expression) -> str | None:
    return str(node.this) if isinstance(node, sql.Literal) and node.is_string else None


def _date(text: str | None) -> dt.date | None:
    """Read a date in the one form that is the same as text and as a date: 2024-01-02."""
    if text is None or not _ISO_DATE.fullmatch(text):
        return None
    try:
        return dt.date.fromisoformat(text)
    except ValueError:
        return None
