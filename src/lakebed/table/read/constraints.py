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

from lakebed.errors import LakebedError
from lakebed.expr.bind import bind_predicate
from lakebed.expr.bound import Apply, Bound, Column, Constant
from lakebed.expr.evaluate import Among
from lakebed.expr.types import INTEGERS

Value: TypeAlias = int | str | bool | dt.date

_INTEGER = re.compile(r"-?[0-9]{1,40}", re.ASCII)
_ISO_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
_SIGNS = ("=", "<=>", "<", "<=", ">", ">=")
_FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True, slots=True)
class Limit:
    """One end of a range; `inclusive` if it belongs to it."""

    value: Value
    inclusive: bool


@dataclass(frozen=True, slots=True)
class Allowed:
    """What one column may hold, never null: finite values, or else a range."""

    values: frozenset[Value] | None = None
    lower: Limit | None = None
    upper: Limit | None = None

    @property
    def is_empty(self) -> bool:
        """Return whether no value is allowed."""
        return self.values is not None and not self.values

    def holds(self, value: Value) -> bool:
        """Return whether `value`, of the column's type, is allowed."""
        if self.values is not None:
            return value in self.values
        return (self.lower is None or _low(self.lower) <= (value, False)) and (
            self.upper is None or (value, True) <= _high(self.upper)
        )

    def both(self, other: "Allowed") -> "Allowed":
        """Return what this and `other` allow."""
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
        """Return at least what one of the two allows: a range has no gaps."""
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


def _low(bound: Limit) -> tuple[Value, bool]:
    """Place a lower end among values: it stands right before, or right after its own."""
    return bound.value, not bound.inclusive


def _high(bound: Limit) -> tuple[Value, bool]:
    """Place an upper end among values, likewise."""
    return bound.value, bound.inclusive


def _ends(allowed: Allowed) -> tuple[Limit | None, Limit | None]:
    if allowed.values is None:
        return allowed.lower, allowed.upper
    ends = [Limit(value, True) for value in allowed.values]
    return min(ends, key=_low), max(ends, key=_high)


def _known(*bounds: Limit | None) -> list[Limit]:
    return [bound for bound in bounds if bound is not None]


@dataclass(frozen=True, slots=True)
class Constraints:
    """What a predicate demands, by column; a column that is not named may hold anything."""

    columns: Mapping[str, Allowed] = field(default_factory=dict)

    @property
    def is_impossible(self) -> bool:
        """Return whether no row at all can satisfy the predicate."""
        return any(allowed.is_empty for allowed in self.columns.values())

    def values(self, column: str) -> frozenset[Value] | None:
        """Return the finite values of `column`, None if it has no such constraint."""
        allowed = self.columns.get(column)
        return None if allowed is None else allowed.values


def parse_constraints(where: str | None, schema: pa.Schema) -> Constraints:
    """Return what `where` demands of the columns of `schema`; never an error.

    A text that is outside the grammar demands nothing: whoever evaluates it will refuse it.
    """
    # What a backslash means depends on the session (spark.sql.parser.escapedStringLiterals).
    if where is None or "\\" in where:
        return Constraints()
    try:
        return Constraints(_Reader(schema).demands(bind_predicate(where, schema)))
    except LakebedError:
        return Constraints()


def column_value(text: str, kind: pa.DataType) -> Value | None:
    """Return the value that a column of type `kind` has where its plain text is `text`.

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
    """Walks a bound predicate; a node that demands nothing gives no columns."""

    def __init__(self, schema: pa.Schema) -> None:
        self._names = {name.lower() for name in schema.names}

    def demands(self, node: Bound) -> _Demands:
        """Return what must hold of each column where `node` is true."""
        if not isinstance(node, Apply):
            return {}
        if node.function in _SIGNS:
            return self._compared(node.function, node.args[0], node.args[1])
        known: dict[str, Callable[[], _Demands]] = {
            "and": lambda: reduce(_both, map(self.demands, node.args)),
            "or": lambda: reduce(_either, map(self.demands, node.args)),
            "in": lambda: self._in(node),
        }
        return known[node.function]() if node.function in known else {}

    def _compared(self, sign: str, left: Bound, right: Bound) -> _Demands:
        if isinstance(left, Constant):
            left, right, sign = right, left, _FLIPPED.get(sign, sign)
        column = _column(left)
        if column is None or not isinstance(right, Constant):
            return {}
        if sign == "=" or (sign == "<=>" and right.value.is_valid):
            return self._one_of(column, [right])
        value = self._literal(right, column.kind)
        if value is None or isinstance(value, bool) or sign == "<=>":
            return {}
        bound = Limit(value, sign.endswith("="))
        is_lower = sign.startswith(">")
        return {column.name: Allowed(lower=bound) if is_lower else Allowed(upper=bound)}

    def _in(self, node: Apply) -> _Demands:
        assert isinstance(node.option, Among)
        column = _column(node.args[0])
        if column is None or len(node.args) > 1:
            return {}
        return self._one_of(column, node.option.constants)

    def _one_of(self, column: Column, items: Iterable[Constant]) -> _Demands:
        # Nothing equals null.
        known = [item for item in items if item.value.is_valid]
        values = [self._literal(item, column.kind) for item in known]
        exact = frozenset(value for value in values if value is not None)
        if None in values or not _is_constrained(column.kind):
            return {}
        if column.kind in INTEGERS:
            half = 1 << (column.kind.bit_width - 1)
            exact = frozenset(value for value in exact if value in range(-half, half))
        return {column.name: Allowed(exact)}

    def _literal(self, constant: Constant, kind: pa.DataType) -> Value | None:
        """Return the value of a literal that is of the type `kind` itself, None for any other."""
        if constant.is_computed or not constant.value.is_valid:
            return None
        if kind == pa.date32():
            return _date(constant.text)
        if constant.text is not None:
            return None
        if kind == pa.string():
            return self._string(constant.value.as_py())
        fits = constant.kind in INTEGERS if kind in INTEGERS else constant.kind == kind
        value: Value | None = constant.value.as_py() if fits and _is_constrained(kind) else None
        return value

    def _string(self, text: str) -> str | None:
        # In some sessions a text in double quotes is a column, and of a quote written twice
        # none stays.
        if text.lower() in self._names or "'" in text or '"' in text:
            return None
        # A lone surrogate is in no table, and no key can be spelled with it.
        return text if text.encode("utf-8", "ignore").decode() == text else None


def _column(node: Bound) -> Column | None:
    """Return the column that `node` is, perhaps as a wider integer."""
    if isinstance(node, Apply) and node.function == "cast" and node.kind in INTEGERS:
        inner = node.args[0]
        wider = inner.kind in INTEGERS and inner.kind.bit_width <= node.kind.bit_width
        return inner if wider and isinstance(inner, Column) else None
    return node if isinstance(node, Column) else None


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


def _date(text: str | None) -> dt.date | None:
    """Read a date in the one form that is the same as text and as a date: 2024-01-02."""
    if text is None or not _ISO_DATE.fullmatch(text):
        return None
    try:
        return dt.date.fromisoformat(text)
    except ValueError:
        return None
