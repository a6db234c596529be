"""A SQL predicate as text, on Arrow batches.

Comparisons, AND, OR, NOT, IN, BETWEEN, LIKE, IS, +, -, * and literals, with the rows that
Spark's ANSI mode gives in a session in UTC; anything else is refused by name rather than
guessed. A row stays only where the predicate is true, neither false nor unknown.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import expressions as sql

from lakebed.errors import InvalidError, SchemaError, UnsupportedError
from lakebed.table.coercion import (
    Term,
    arithmetic_types,
    beyond_long,
    compare,
    comparison_type,
    is_in,
    is_number,
)
from lakebed.table.literal import as_type, like_regex, number, type_named
from lakebed.table.predicate_syntax import parse_tree, refuse

_SIGNS: dict[type[sql.Expression], str] = {
    sql.EQ: "=",
    sql.NEQ: "<>",
    sql.LT: "<",
    sql.LTE: "<=",
    sql.GT: ">",
    sql.GTE: ">=",
}
_ARITHMETIC: dict[type[sql.Expression], Callable[..., pc.Expression]] = {
    sql.Add: pc.add_checked,
    sql.Sub: pc.subtract_checked,
    sql.Mul: pc.multiply_checked,
}
_NULL = pa.NA
# Not pa.scalar(None, ...), which imports pandas.
_UNKNOWN = pa.nulls(1, pa.bool_())[0]
# From this many on Spark looks values up in a set, where -0.0 is not 0.0.
_LONG_LIST = 10


@dataclass(frozen=True, slots=True)
class Predicate:
    """A parsed predicate: which columns it needs, and the filter itself."""

    text: str
    columns: tuple[str, ...]
    expression: pc.Expression

    @classmethod
    def parse(cls, text: str, schema: pa.Schema) -> Self:
        """Parse `text` against `schema`, or say which part is not understood."""
        tree = parse_tree(text)
        builder = _Builder(text, schema)
        try:
            expression = builder.condition(tree)
            # On no rows: types that do not go together show here and not mid-stream.
            schema.empty_table().filter(expression)
        except (pa.ArrowException, RecursionError) as error:
            raise InvalidError(f"predicate {text[:200]!r}: {error}") from error
        return cls(text, tuple(builder.columns), expression)

    def filter(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Give the rows of `batch` for which the predicate is true.

        Raises InvalidError where a value of the rows overflows in the predicate's arithmetic.
        """
        try:
            kept = pa.Table.from_batches([batch]).filter(self.expression).combine_chunks()
        except pa.ArrowException as error:
            raise InvalidError(f"predicate {self.text[:200]!r}: {error}") from error
        batches = kept.to_batches()
        return batches[0] if batches else batch.slice(0, 0)


class _Builder:
    """Walks the parsed tree; every node becomes a term with the type that Spark gives it."""

    def __init__(self, text: str, schema: pa.Schema) -> None:
        self._text = text
        self._schema = schema
        self.columns: dict[str, None] = {}

    def condition(self, node: sql.Expression) -> pc.Expression:
        """Give the filter of a node that must be a truth value."""
        term = self._term(node)
        if pa.types.is_null(term.kind):
            return pc.scalar(_UNKNOWN)
        if term.kind != pa.bool_():
            raise InvalidError(
                f"predicate {self._text[:200]!r}: {node.sql('spark')} is of type {term.kind}, "
                "want a truth value"
            )
        return term.expression

    def _term(self, node: sql.Expression) -> Term:
        if isinstance(node, sql.Paren):
            return self._term(node.this)
        if isinstance(node, sql.Column):
            return self._column(node)
        if type(node) in _ARITHMETIC:
            return self._arithmetic(node)
        constant = self._constant(node)
        if constant is not None:
            return Term.of(constant)
        if isinstance(node, sql.Neg):
            return self._negative(node)
        return Term(pa.bool_(), self._truth(node))

    def _truth(self, node: sql.Expression) -> pc.Expression:
        if type(node) in _SIGNS:
            return self._compared(_SIGNS[type(node)], self._term(node.left), self._term(node.right))
        known: dict[type[sql.Expression], Callable[[], pc.Expression]] = {
            sql.And: lambda: self.condition(node.left) & self.condition(node.right),
            sql.Or: lambda: self.condition(node.left) | self.condition(node.right),
            sql.Not: lambda: ~self.condition(node.this),
            sql.NullSafeEQ: lambda: self._same(node),
            sql.NullSafeNEQ: lambda: ~self._same(node),
            sql.In: lambda: self._in(node),
            sql.Between: lambda: self._between(node),
            sql.Is: lambda: self._is(node),
            sql.Like: lambda: self._like(node),
        }
        if type(node) not in known:
            raise self._refuse(node)
        return known[type(node)]()

    def _compared(self, sign: str, one: Term, other: Term) -> pc.Expression:
        kind = self._common([one, other])
        if sign not in ("=", "<>") and (beyond_long(one, other) or beyond_long(other, one)):
            raise refuse(self._text, "an integer beside a decimal beyond 64 bits")
        if pa.types.is_null(one.kind) or pa.types.is_null(other.kind):
            return pc.scalar(_UNKNOWN)
        return compare(sign, self._cast(one, kind), self._cast(other, kind))

    def _same(self, node: sql.Expression) -> pc.Expression:
        one, other = self._operand(node.left), self._operand(node.right)
        both_null = one.expression.is_null() & other.expression.is_null()
        return pc.coalesce(self._compared("=", one, other), both_null)

    def _between(self, node: sql.Expression) -> pc.Expression:
        value, low, high = map(self._operand, (node.this, node.args["low"], node.args["high"]))
        return self._compared(">=", value, low) & self._compared("<=", value, high)

    def _in(self, node: sql.Expression) -> pc.Expression:
        if node.args.get("query") is not None or not node.expressions:
            raise self._refuse(node)
        value, items = self._operand(node.this), [self._term(item) for item in node.expressions]
        kind = self._common([value, *items])
        known = [self._cast(item, kind) for item in items if not pa.types.is_null(item.kind)]
        if pa.types.is_null(value.kind) or not known:
            return pc.scalar(_UNKNOWN)
        constants = [item.constant for item in known if item.constant is not None]
        if len(constants) < len(known) or _is_long_with_zero(kind, constants):
            raise self._refuse(node)
        # One lookup in a set: as many ORs, nested, would overflow Arrow's stack.
        found = is_in(self._cast(value, kind), constants)
        no = pc.if_else(value.expression.is_valid(), pc.scalar(False), pc.scalar(_UNKNOWN))
        otherwise = no if len(known) == len(items) else pc.scalar(_UNKNOWN)
        return pc.if_else(found, pc.scalar(True), otherwise)

    def _is(self, node: sql.Expression) -> pc.Expression:
        if isinstance(node.expression, sql.Null):
            return self._term(node.this).expression.is_null()
        if not isinstance(node.expression, sql.Boolean):
            raise self._refuse(node)
        truth = self.condition(node.this)
        return pc.coalesce(truth == pc.scalar(bool(node.expression.this)), pc.scalar(False))

    def _like(self, node: sql.Expression) -> pc.Expression:
        value, pattern = self._term(node.this), node.expression
        if value.kind != pa.string() or not isinstance(pattern, sql.Literal):
            raise self._refuse(node)
        if not pattern.is_string:
            raise self._refuse(node)
        with self._naming():
            regex = like_regex(str(pattern.this))
        pc.match_substring_regex(pa.scalar(""), pattern=regex)  # one that is too long shows here
        found = pc.match_substring_regex(value.expression, pattern=regex)
        return ~found if node.args.get("negate") else found

    def _arithmetic(self, node: sql.Expression) -> Term:
        left, right = self._term(node.left), self._term(node.right)
        kinds = arithmetic_types(left.kind, right.kind, isinstance(node, sql.Mul))
        if kinds is None:
            raise self._refuse(node)
        one, other, act = left.cast(kinds[0]), right.cast(kinds[1]), _ARITHMETIC[type(node)]
        if one.constant is not None and other.constant is not None:
            return Term.of(act(one.constant, other.constant))
        expression = act(one.expression, other.expression)
        sample = act(pa.scalar(None, kinds[0]), pa.scalar(None, kinds[1]))
        return Term(sample.type, expression)

    def _negative(self, node: sql.Neg) -> Term:
        term = self._term(node.this)
        if not is_number(term.kind):
            raise self._refuse(node)
        if term.constant is not None:
            return Term.of(pc.negate_checked(term.constant))
        return Term(term.kind, pc.negate_checked(term.expression))

    def _constant(self, node: sql.Expression, sign: str = "") -> pa.Scalar | None:
        """Give the value of a literal, None for a node that is none."""
        inner = node.this
        if isinstance(node, sql.Null) and not sign:
            return _NULL
        if isinstance(node, sql.Boolean) and not sign:
            return pa.scalar(bool(inner))
        if isinstance(node, sql.Neg) and isinstance(inner, (sql.Literal, sql.Cast)):
            return self._constant(inner, "-")
        with self._naming():
            if isinstance(node, sql.Literal) and node.is_string:
                return None if sign else pa.scalar(str(inner))
            if isinstance(node, sql.Literal):
                return number(sign + str(inner))
            if isinstance(node, sql.Cast) and isinstance(inner, sql.Literal):
                return as_type(sign + str(inner.this), self._target(node))
        return None

    def _target(self, node: sql.Cast) -> pa.DataType:
        sizes = [int(str(size.this)) for size in node.to.expressions]
        kind = type_named(str(node.to.this.value), sizes)
        if kind is None:
            raise self._refuse(node)
        return kind

    def _common(self, terms: list[Term]) -> pa.DataType:
        kind = comparison_type(terms)
        if kind is None:
            kinds = dict.fromkeys("text" if term.is_text else str(term.kind) for term in terms)
            raise refuse(self._text, f"comparing {' with '.join(kinds)}")
        return kind

    def _cast(self, term: Term, kind: pa.DataType) -> Term:
        if term.constant is None or not term.is_text or kind == pa.string():
            return term.cast(kind)
        with self._naming():
            return Term.of(as_type(term.constant.as_py(), kind))

    def _operand(self, node: sql.Expression) -> Term:
        """Give a term that stands twice in what is made of it, so it must not hold another."""
        term = self._term(node)
        inner = node.unnest()
        if term.constant is None and term.kind == pa.bool_() and not isinstance(inner, sql.Column):
            raise self._refuse(node)
        return term

    def _column(self, node: sql.Column) -> Term:
        outer = str(node.parts[0].name).lower()
        near = [known for known in self._schema.names if known.lower() == outer]
        if near and node.table:
            raise refuse(self._text, f"the nested field {node.sql('spark')}")
        if len(near) != 1:
            raise SchemaError(
                f"predicate {self._text[:200]!r}: no column {node.sql('spark')}; the table has "
                f"{', '.join(self._schema.names)}"
            )
        self.columns[near[0]] = None
        return Term(self._schema.field(near[0]).type, pc.field(near[0]))

    @contextmanager
    def _naming(self) -> Iterator[None]:
        try:
            yield
        except InvalidError as error:
            raise InvalidError(f"predicate {self._text[:200]!r}: {error}") from error

    def _refuse(self, node: sql.Expression) -> UnsupportedError:
        return refuse(self._text, str(node.sql("spark")))


def _is_long_with_zero(kind: pa.DataType, constants: list[pa.Scalar]) -> bool:
    long = pa.types.is_floating(kind) and len(constants) >= _LONG_LIST
    return long and any(constant.as_py() == 0 for constant in constants)
