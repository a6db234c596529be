"""Derive constraints on single columns from a predicate, to skip files and row groups.

Every row for which the predicate is true satisfies all constraints. The converse need not hold:
parts of the predicate that are not supported here add no constraint. A constraint restricts a
column to a finite set of values (=, <=>, IN, a boolean column by itself), to a range (<, <=, >, >=,
BETWEEN, LIKE 'prefix%'), to null (IS NULL) or to values other than null (IS NOT NULL).

Spark sessions may interpret a literal differently, depending on time zone and quoting. Unless the
caller knows the session's settings (`exact`), only literals with one meaning in every session are
used: integers, strings, booleans, and dates, also as ISO strings. Fields of structs, named such as
`place.city`, are constrained with `exact` only.
"""

import datetime as dt
import decimal
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TypeAlias

import pyarrow as pa

from lakebed.expr.bound import Apply, Bound, Column, Constant, compared_with_constant
from lakebed.expr.evaluate import Among
from lakebed.expr.literal import WHOLE, Like
from lakebed.expr.predicate import Predicate
from lakebed.expr.types import INTEGERS, is_number

Value: TypeAlias = int | str | bool | float | decimal.Decimal | dt.date | dt.datetime

_ISO_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
_SIGNS = ("=", "<=>", "<", "<=", ">", ">=")
_LAST_CHARACTER = "\U0010ffff"


@dataclass(frozen=True, slots=True)
class Limit:
    """One end of a range; the range includes it if `inclusive` is set."""

    value: Value
    inclusive: bool


@dataclass(frozen=True, slots=True)
class Allowed:
    """The values that one column may hold: a finite set or a range, and null if `null` is set.

    A range without an upper end includes NaN, which is greater than all numbers.
    """

    values: frozenset[Value] | None = None
    lower: Limit | None = None
    upper: Limit | None = None
    null: bool = False

    @property
    def is_empty(self) -> bool:
        """Return whether neither a value nor null is allowed."""
        return self.values is not None and not self.values and not self.null

    def holds(self, value: Value) -> bool:
        """Return whether `value`, of the column's type, is allowed."""
        if self.values is not None:
            return value in self.values
        return (self.lower is None or _low(self.lower) <= (value, False)) and (
            self.upper is None or (value, True) <= _high(self.upper)
        )

    def both(self, other: "Allowed") -> "Allowed":
        """Return the values that both constraints allow."""
        return replace(_intersection(self, other), null=self.null and other.null)

    def either(self, other: "Allowed") -> "Allowed":
        """Return a constraint that allows the values of both, and possibly values in between."""
        return replace(_union(self, other), null=self.null or other.null)


def _intersection(one: Allowed, other: Allowed) -> Allowed:
    if one.values is not None:
        return Allowed(frozenset(filter(other.holds, one.values)))
    if other.values is not None:
        return _intersection(other, one)
    lower = max(_known(one.lower, other.lower), key=_low, default=None)
    upper = min(_known(one.upper, other.upper), key=_high, default=None)
    if lower is not None and upper is not None and not _low(lower) < _high(upper):
        return Allowed(frozenset())
    return Allowed(None, lower, upper)


def _union(one: Allowed, other: Allowed) -> Allowed:
    for side, rest in ((one, other), (other, one)):
        if side.values is not None and not side.values:
            return rest
    if one.values is not None and other.values is not None:
        return Allowed(one.values | other.values)
    (low, high), (other_low, other_high) = _ends(one), _ends(other)
    return Allowed(
        None,
        None if low is None or other_low is None else min(low, other_low, key=_low),
        None if high is None or other_high is None else max(high, other_high, key=_high),
    )


def _low(bound: Limit) -> tuple[Value, bool]:
    """Return the sort key of a lower end: an inclusive end sorts before an exclusive one."""
    return bound.value, not bound.inclusive


def _high(bound: Limit) -> tuple[Value, bool]:
    """Return the sort key of an upper end: an exclusive end sorts before an inclusive one."""
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
    """The values that a predicate allows in each column; other columns may hold any value."""

    columns: Mapping[str, Allowed] = field(default_factory=dict)

    @property
    def is_impossible(self) -> bool:
        """Return whether no row can satisfy the predicate."""
        return any(allowed.is_empty for allowed in self.columns.values())

    def values(self, column: str) -> frozenset[Value] | None:
        """Return the finite set of values of `column`; None if it may hold other values or null."""
        allowed = self.columns.get(column)
        return None if allowed is None or allowed.null else allowed.values

    def stated(self, columns: Iterable[str]) -> Mapping[str, Allowed]:
        """Return the constraints on the given columns, leaving out columns that have none."""
        return {name: self.columns[name] for name in columns if name in self.columns}


def constraints_of(
    predicate: Predicate | None, schema: pa.Schema, *, exact: bool = False
) -> Constraints:
    """Return the constraints of `predicate` on the columns of `schema`.

    With `exact`, every constant is used, with its value in ANSI mode and in UTC.
    """
    if predicate is None:
        return Constraints()
    if not exact and not has_one_meaning(predicate):
        return Constraints()
    return part_constraints(predicate.bound, schema, exact=exact)


def part_constraints(part: Bound, schema: pa.Schema, *, exact: bool) -> Constraints:
    """Return the constraints that hold for all rows for which `part` of a predicate is true."""
    return Constraints(_ConstraintFinder(schema, exact=exact).demands(part))


def has_one_meaning(predicate: Predicate) -> bool:
    """Return whether the predicate's string literals have the same value in every session.

    The meaning of a backslash depends on spark.sql.parser.escapedStringLiterals.
    """
    return "\\" not in predicate.text


def column_value(text: str, kind: pa.DataType) -> Value | None:
    """Parse the string form of a value of type `kind`; None for another type or format.

    >>> column_value("-7", pa.int32()), column_value("7.0", pa.int32())
    (-7, None)
    """
    if kind in INTEGERS:
        return int(text) if WHOLE.fullmatch(text) else None
    if kind == pa.date32():
        return _date(text)
    return text if kind == pa.string() else None


_Demands: TypeAlias = Mapping[str, Allowed]


class _ConstraintFinder:
    """Finds the constraints of a bound predicate by walking its tree."""

    def __init__(self, schema: pa.Schema, *, exact: bool) -> None:
        self._names = {name.lower() for name in schema.names}
        self._exact = exact

    def demands(self, node: Bound) -> _Demands:
        """Return the constraints by column if `node` is true; empty if there are none."""
        if node.kind == pa.bool_() and (column := self._plain_column(node)) is not None:
            return {column.name: Allowed(frozenset({True}))}
        if not isinstance(node, Apply):
            return {}
        if node.function in _SIGNS:
            return self._compared(node)
        known: dict[str, Callable[[Apply], _Demands]] = {
            "and": lambda node: reduce(_both, map(self.demands, node.args)),
            "or": lambda node: reduce(_either, map(self.demands, node.args)),
            "in": self._in,
            "like": self._like,
            "startswith": lambda node: self._begins(node.args[0], str(node.option)),
            "is null": lambda node: self._null(node, is_null=True),
            "not": self._not,
        }
        return known[node.function](node) if node.function in known else {}

    def _compared(self, node: Apply) -> _Demands:
        sides = compared_with_constant(node)
        column = None if sides is None else self._column(sides.operand)
        if sides is None or column is None:
            return {}
        sign, constant = sides.sign, sides.constant
        if sign == "<=>" and not constant.value.is_valid:
            return {column.name: Allowed(frozenset(), null=True)}
        if sign in ("=", "<=>"):
            return self._one_of(column, [constant])
        value = self._literal(constant, column.kind)
        if value is None or isinstance(value, bool):
            return {}
        limit = Limit(value, sign.endswith("="))
        is_lower = sign.startswith(">")
        return {column.name: Allowed(lower=limit) if is_lower else Allowed(upper=limit)}

    def _in(self, node: Apply) -> _Demands:
        assert isinstance(node.option, Among)
        column = self._column(node.args[0])
        if column is None or len(node.args) > 1:
            return {}
        return self._one_of(column, node.option.constants)

    def _like(self, node: Apply) -> _Demands:
        assert isinstance(node.option, Like)
        like = node.option
        return self._begins(node.args[0], like.prefix, is_whole=like.is_whole)

    def _begins(self, node: Bound, text: str, *, is_whole: bool = False) -> _Demands:
        prefix = self._string(text)
        column = self._plain_column(node)
        if column is None or not prefix:
            return {}
        if is_whole:
            return {column.name: Allowed(frozenset({prefix}))}
        after = _after_prefix(prefix)
        upper = None if after is None else Limit(after, False)
        return {column.name: Allowed(None, Limit(prefix, True), upper)}

    def _not(self, node: Apply) -> _Demands:
        inner = node.args[0]
        if (column := self._plain_column(inner)) is not None:
            return {column.name: Allowed(frozenset({False}))}
        is_null = isinstance(inner, Apply) and inner.function == "is null"
        return self._null(inner, is_null=False) if isinstance(inner, Apply) and is_null else {}

    def _one_of(self, column: Column, items: Iterable[Constant]) -> _Demands:
        # A null in the list never matches.
        known = [item for item in items if item.value.is_valid]
        values = [self._literal(item, column.kind) for item in known]
        exact = frozenset(value for value in values if value is not None)
        if None in values or not self._is_constrained(column.kind):
            return {}
        if column.kind in INTEGERS:
            half = 1 << (column.kind.bit_width - 1)
            exact = frozenset(value for value in exact if value in range(-half, half))
        return {column.name: Allowed(exact)}

    def _null(self, node: Apply, *, is_null: bool) -> _Demands:
        column = self._plain_column(node.args[0])
        if column is None:
            return {}
        return {column.name: Allowed(frozenset(), null=True) if is_null else Allowed()}

    def _column(self, node: Bound) -> Column | None:
        """Return the column that `node` is, or casts to a wider type of its family; or None."""
        if isinstance(node, Apply) and node.function == "cast":
            inner = node.args[0]
            wider = _is_wider(inner.kind, node.kind, exact=self._exact)
            return self._plain_column(inner) if wider else None
        return self._plain_column(node)

    def _plain_column(self, node: Bound) -> Column | None:
        """Return `node` if it is a column, or a field of a struct as a column; otherwise None."""
        if isinstance(node, Column):
            return node
        if not self._exact or not isinstance(node, Apply) or node.function != "field":
            return None
        struct, at = node.args[0], node.option
        outer = self._plain_column(struct)
        if outer is None or not isinstance(at, int):
            return None
        name = struct.kind.field(at).name
        path = f"{outer.name}.{name}"
        # With a dot in a name, the path would be ambiguous.
        dotted = "." in name or (isinstance(struct, Column) and "." in struct.name)
        return None if dotted or path.lower() in self._names else Column(path, node.kind)

    def _literal(self, constant: Constant, kind: pa.DataType) -> Value | None:
        """Return the value of a constant as a value of type `kind`; None if it cannot be used."""
        if not constant.value.is_valid or not self._is_constrained(kind):
            return None
        if not self._exact:
            if constant.is_computed:
                return None
            if kind == pa.date32():
                return _date(constant.text)
            if constant.text is not None:
                return None
        if kind == pa.string() and constant.kind == kind:
            return self._string(constant.value.as_py())
        if not _is_of_kind(constant.kind, kind):
            return None
        value: Value = constant.value.as_py()
        return None if isinstance(value, float) and math.isnan(value) else value

    def _string(self, text: str) -> str | None:
        # Depending on the session, double quotes may enclose a column name, and doubled quotes
        # vanish.
        if not self._exact and (text.lower() in self._names or "'" in text or '"' in text):
            return None
        return text

    def _is_constrained(self, kind: pa.DataType) -> bool:
        if kind in (*INTEGERS, pa.string(), pa.bool_(), pa.date32()):
            return True
        return self._exact and bool(is_number(kind) or pa.types.is_timestamp(kind))


def _is_wider(narrow: pa.DataType, wide: pa.DataType, *, exact: bool) -> bool:
    if narrow in INTEGERS and wide in INTEGERS:
        return bool(narrow.bit_width <= wide.bit_width)
    if not exact:
        return False
    if pa.types.is_decimal(narrow) and pa.types.is_decimal(wide):
        return bool(narrow.scale <= wide.scale)
    return bool(narrow == pa.float32() and wide == pa.float64())


def _is_of_kind(constant: pa.DataType, kind: pa.DataType) -> bool:
    """Return whether a constant's value can be compared exactly with a column of `kind`."""
    families = (INTEGERS.__contains__, pa.types.is_decimal, pa.types.is_floating)
    alike = any(is_one(constant) and is_one(kind) for is_one in families)
    return bool(alike or constant == kind)


def _after_prefix(prefix: str) -> str | None:
    """Return the smallest string greater than all strings that start with `prefix`, or None.

    >>> _after_prefix("ab"), _after_prefix("a\U0010ffff")
    ('ac', 'b')
    """
    kept = prefix.rstrip(_LAST_CHARACTER)
    if not kept:
        return None
    # Skip the surrogates, which no string contains.
    last = 0xE000 if kept[-1] == "\ud7ff" else ord(kept[-1]) + 1
    return kept[:-1] + chr(last)


def _both(one: _Demands, other: _Demands) -> _Demands:
    shared = {name: one[name].both(other[name]) for name in one.keys() & other.keys()}
    return {**one, **other, **shared}


def _either(one: _Demands, other: _Demands) -> _Demands:
    for side, rest in ((one, other), (other, one)):
        if any(allowed.is_empty for allowed in side.values()):
            return rest  # the operand of `side` is never true
    return {name: one[name].either(other[name]) for name in one.keys() & other.keys()}


def _date(text: str | None) -> dt.date | None:
    """Parse a date like 2024-01-02; None for any other string.

    Only in this format do dates compare the same as strings and as dates.
    """
    if text is None or not _ISO_DATE.fullmatch(text):
        return None
    try:
        return dt.date.fromisoformat(text)
    except ValueError:
        return None
