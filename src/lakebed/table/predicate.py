"""A SQL predicate as text, on Arrow batches.

Comparisons, AND, OR, NOT, IN, BETWEEN, LIKE, IS NULL, arithmetic and literals; anything
else is refused by name rather than guessed. Nulls follow SQL: a row stays only where the
predicate is true.
"""

import datetime as dt
import decimal
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc
import sqlglot
from sqlglot import expressions as sql
from sqlglot.errors import SqlglotError

from lakebed.errors import InvalidError, SchemaError, UnsupportedError

_MAX_TEXT = 100_000
_COMPARE: dict[type[sql.Expression], Callable[[pc.Expression, pc.Expression], pc.Expression]] = {
    sql.EQ: operator.eq,
    sql.NEQ: operator.ne,
    sql.LT: operator.lt,
    sql.LTE: operator.le,
    sql.GT: operator.gt,
    sql.GTE: operator.ge,
}
_ARITHMETIC: dict[type[sql.Expression], Callable[[pc.Expression, pc.Expression], pc.Expression]] = {
    sql.Add: operator.add,
    sql.Sub: operator.sub,
    sql.Mul: operator.mul,
}


# The parts of sqlglot's nodes that are looked at below.
_PARTS = frozenset(
    {"this", "expression", "expressions", "query", "low", "high", "negate", "to", "safe"}
    | {"is_string", "quoted", "table", "db", "catalog"}
)


@dataclass(frozen=True, slots=True)
class Predicate:
    """A parsed predicate: which columns it needs, and the filter itself."""

    text: str
    columns: tuple[str, ...]
    expression: pc.Expression

    @classmethod
    def parse(cls, text: str, schema: pa.Schema) -> Self:
        """Parse `text` against `schema`, or say which part is not understood."""
        if len(text) > _MAX_TEXT:
            raise InvalidError(f"predicate of {len(text)} characters: want at most {_MAX_TEXT}")
        try:
            tree = sqlglot.parse_one(text, read="spark", into=sql.Condition)
        except (SqlglotError, RecursionError) as error:
            raise InvalidError(f"predicate {text[:200]!r}: {error}") from error
        builder = _Builder(text, schema)
        try:
            builder.check(tree)
            expression = builder.condition(tree)
            # On no rows: types that do not go together show here and not mid-stream.
            schema.empty_table().filter(expression)
        except (pa.ArrowException, RecursionError) as error:
            raise InvalidError(f"predicate {text[:200]!r}: {error}") from error
        return cls(text, tuple(builder.columns), expression)

    def filter(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Give the rows of `batch` for which the predicate is true."""
        kept = pa.Table.from_batches([batch]).filter(self.expression).combine_chunks()
        batches = kept.to_batches()
        return batches[0] if batches else batch.slice(0, 0)


class _Builder:
    """Walks the parsed tree; literals take the type of the column that they meet."""

    def __init__(self, text: str, schema: pa.Schema) -> None:
        self._text = text
        self._schema = schema
        self.columns: dict[str, None] = {}

    def check(self, tree: sql.Expression) -> None:
        """Refuse a node with a part that is not known here: it could turn the meaning round."""
        for node in tree.walk():
            if any(held and part not in _PARTS for part, held in node.args.items()):
                raise self._refuse(node)

    def condition(self, node: sql.Expression) -> pc.Expression:
        """Give the filter of a node that must be a truth value."""
        simple = {
            sql.Paren: lambda: self.condition(node.this),
            sql.And: lambda: self.condition(node.left) & self.condition(node.right),
            sql.Or: lambda: self.condition(node.left) | self.condition(node.right),
            sql.Not: lambda: ~self.condition(node.this),
            sql.In: lambda: self._in(node),
            sql.Between: lambda: self._between(node),
            sql.Is: lambda: self._is(node),
            sql.Like: lambda: self._like(node),
            sql.Column: lambda: self._value(node, None),
            sql.Boolean: lambda: pc.scalar(bool(node.this)),
        }.get(type(node))
        if simple is not None:
            return simple()
        compare = _COMPARE.get(type(node))
        if compare is None:
            raise self._refuse(node)
        kind = self._kind(node.left) or self._kind(node.right)
        return compare(self._value(node.left, kind), self._value(node.right, kind))

    def _in(self, node: sql.Expression) -> pc.Expression:
        if node.args.get("query") is not None or not node.expressions:
            raise self._refuse(node)
        kind = self._kind(node.this)
        value = self._value(node.this, kind)
        literals = [self._literal(literal, kind) for literal in node.expressions]
        # One lookup in a set: as many ORs, nested, would overflow Arrow's stack.
        known = [held for literal in literals if (held := _as_kind(literal, kind)) is not None]
        found = value.isin(pa.array([held.as_py() for held in known], kind))
        unknown = pc.scalar(pa.scalar(None, pa.bool_()))
        no = pc.if_else(value.is_valid(), pc.scalar(False), unknown)
        has_null = any(not literal.is_valid for literal in literals)
        return pc.if_else(found, pc.scalar(True), unknown if has_null else no)

    def _between(self, node: sql.Expression) -> pc.Expression:
        kind = self._kind(node.this)
        value = self._value(node.this, kind)
        low, high = self._value(node.args["low"], kind), self._value(node.args["high"], kind)
        return (value >= low) & (value <= high)

    def _is(self, node: sql.Expression) -> pc.Expression:
        value = self._value(node.this, None)
        if isinstance(node.expression, sql.Null):
            return value.is_null()
        if isinstance(node.expression, sql.Boolean):
            return pc.coalesce(value == pc.scalar(bool(node.expression.this)), pc.scalar(False))
        raise self._refuse(node)

    def _like(self, node: sql.Expression) -> pc.Expression:
        if not isinstance(node.expression, sql.Literal):
            raise self._refuse(node)
        found = pc.match_like(self._value(node.this, None), pattern=node.expression.this)
        return ~found if node.args.get("negate") else found

    def _value(self, node: sql.Expression, kind: pa.DataType | None) -> pc.Expression:
        if isinstance(node, sql.Paren):
            return self._value(node.this, kind)
        if isinstance(node, sql.Column):
            return pc.field(self._name(node))
        arithmetic = _ARITHMETIC.get(type(node))
        if arithmetic is not None:
            return arithmetic(self._value(node.left, kind), self._value(node.right, kind))
        return pc.scalar(self._literal(node, kind))

    def _literal(self, node: sql.Expression, kind: pa.DataType | None) -> pa.Scalar:
        try:
            value = self._python(node)
            if value is None:
                return pa.scalar(None, kind or pa.null())
            return _cast(value, kind)
        except (
            pa.ArrowException,
            ValueError,
            OverflowError,
            decimal.InvalidOperation,
        ) as error:
            raise InvalidError(
                f"predicate {self._text!r}: {node.sql('spark')} is no value of type {kind}"
            ) from error

    def _python(self, node: sql.Expression) -> str | int | float | bool | decimal.Decimal | None:
        if isinstance(node, sql.Null):
            return None
        if isinstance(node, sql.Boolean):
            return bool(node.this)
        if isinstance(node, sql.Neg):
            value = self._python(node.this)
            if isinstance(value, (int, float, decimal.Decimal)):
                return -value
        if isinstance(node, sql.Literal):
            if node.is_string:
                return str(node.this)
            text = str(node.this)
            return int(text) if text.isdigit() else decimal.Decimal(text)
        if isinstance(node, sql.Cast) and isinstance(node.this, sql.Literal):
            return str(node.this.this)  # DATE '...', TIMESTAMP '...'
        raise self._refuse(node)

    def _kind(self, node: sql.Expression) -> pa.DataType | None:
        for column in node.find_all(sql.Column):
            return self._schema.field(self._name(column)).type
        return None

    def _name(self, node: sql.Column) -> str:
        name = str(node.name)
        if node.table or name not in self._schema.names:
            near = [known for known in self._schema.names if known.lower() == name.lower()]
            if len(near) != 1 or node.table:
                raise SchemaError(
                    f"predicate {self._text!r}: no column {node.sql('spark')}; the table has "
                    f"{', '.join(self._schema.names)}"
                )
            name = near[0]
        self.columns[name] = None
        return name

    def _refuse(self, node: sql.Expression) -> UnsupportedError:
        return UnsupportedError(
            f"predicate {self._text!r}: {node.sql('spark')} is not understood in process; "
            "filter the result instead, or read with Spark"
        )


def _as_kind(literal: pa.Scalar, kind: pa.DataType | None) -> pa.Scalar | None:
    """Give `literal` in the type of a column, None for one that no value there can equal."""
    if not literal.is_valid:
        return None
    try:
        return literal if kind is None else literal.cast(kind)
    except pa.ArrowInvalid:
        return None


def _cast(value: str | float | decimal.Decimal, kind: pa.DataType | None) -> pa.Scalar:
    if kind is None:
        return pa.scalar(float(value) if isinstance(value, decimal.Decimal) else value)
    return _cast_text(value, kind) if isinstance(value, str) else _cast_number(value, kind)


def _cast_text(value: str, kind: pa.DataType) -> pa.Scalar:
    if pa.types.is_floating(kind):
        return pa.scalar(float(value), kind)
    if pa.types.is_timestamp(kind):
        moment = dt.datetime.fromisoformat(value)
        if kind.tz is not None and moment.tzinfo is None:
            moment = moment.replace(tzinfo=dt.UTC)
        return pa.scalar(moment, kind)
    return pa.scalar(value).cast(kind)


def _cast_number(value: float | decimal.Decimal, kind: pa.DataType) -> pa.Scalar:
    if pa.types.is_timestamp(kind):
        raise ValueError("a time is given as text")
    if pa.types.is_floating(kind) and not isinstance(value, bool):
        return pa.scalar(float(value), kind)
    if pa.types.is_integer(kind):
        return pa.scalar(value, pa.int64()) if isinstance(value, int) else pa.scalar(float(value))
    if pa.types.is_decimal(kind):
        # In its own precision: 1.555 is no decimal(10, 2), but compares with one.
        return pa.scalar(decimal.Decimal(value))
    return pa.scalar(str(value)) if pa.types.is_string(kind) else pa.scalar(value).cast(kind)
