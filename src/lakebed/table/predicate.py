"""A SQL predicate as text, on Arrow batches.

Comparisons, AND, OR, NOT, IN, BETWEEN, LIKE, IS, +, -, * and literals, with the rows that
Spark's ANSI mode gives in a session in UTC; anything else is refused by name rather than
guessed. A row stays only where the predicate is true, neither false nor unknown.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import expressions as sql

from lakebed.errors import InvalidError, SchemaError, UnsupportedError
from lakebed.table.coercion import (
    INTEGERS,
    Term,
    arithmetic_types,
    common_type,
    compare,
    is_in,
    type_for_text,
)
from lakebed.table.literal import TIMESTAMP, TIMESTAMP_NTZ, as_type, number
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
_CASTS = {
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "DATE": pa.date32(),
    "TIMESTAMPTZ": TIMESTAMP,
    "TIMESTAMPLTZ": TIMESTAMP,
    "TIMESTAMPNTZ": TIMESTAMP_NTZ,
}
_NULL = pa.scalar(None, pa.null())
_UNKNOWN = pa.scalar(None, pa.bool_())
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
            return self._compared(_SIGNS[type(node)], node.left, node.right)
        known: dict[type[sql.Expression], Callable[[], pc.Expression]] = {
            sql.And: lambda: self.condition(node.left) & self.condition(node.right),
            sql.Or: lambda: self.condition(node.left) | self.condition(node.right),
            sql.Not: lambda: ~self.condition(node.this),
            sql.NullSafeEQ: lambda: self._same(node),
            sql.NullSafeNEQ: lambda: ~self._same(node),
            sql.In: lambda: self._in(node),
            sql.Between: lambda: (
                self._compared(">=", node.this, node.args["low"])
                & self._compared("<=", node.this, node.args["high"])
            ),
            sql.Is: lambda: self._is(node),
            sql.Like: lambda: self._like(node),
        }
        if type(node) not in known:
            raise self._refuse(node)
        return known[type(node)]()

    def _compared(self, sign: str, left: sql.Expression, right: sql.Expression) -> pc.Expression:
        one, other = self._term(left), self._term(right)
        kind = self._common([one, other])
        if pa.types.is_null(one.kind) or pa.types.is_null(other.kind):
            return pc.scalar(_UNKNOWN)
        return compare(sign, self._cast(one, kind), self._cast(other, kind))

    def _same(self, node: sql.Expression) -> pc.Expression:
        one, other = self._term(node.left), self._term(node.right)
        both_null = one.expression.is_null() & other.expression.is_null()
        equal = self._compared("=", node.left, node.right)
        return pc.coalesce(equal, both_null)

    def _in(self, node: sql.Expression) -> pc.Expression:
        if node.args.get("query") is not None or not node.expressions:
            raise self._refuse(node)
        value, items = self._term(node.this), [self._term(item) for item in node.expressions]
        if any(item.constant is None for item in items):
            raise self._refuse(node)
        kind = self._common([value, *items])
        known = [item for item in items if not pa.types.is_null(item.kind)]
        if pa.types.is_null(value.kind) or not known:
            return pc.scalar(_UNKNOWN)
        constants = [self._cast(item, kind).constant for item in known]
        if pa.types.is_floating(kind) and len(constants) >= _LONG_LIST:
            if any(constant.as_py() == 0 for constant in constants):
                raise self._refuse(node)
        found = is_in(self._cast(value, kind), constants)
        # One lookup in a set: as many ORs, nested, would overflow Arrow's stack.
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
        regex = self._regex(str(pattern.this))
        found = pc.match_substring_regex(value.expression, pattern=regex)
        return ~found if node.args.get("negate") else found

    def _regex(self, pattern: str) -> str:
        def one(found: re.Match[str]) -> str:
            part = found.group()
            if part in ("%", "_"):
                return ".*" if part == "%" else "."
            if part[0] == "\\" and part not in (r"\%", r"\_", r"\\"):
                raise InvalidError(
                    f"predicate {self._text[:200]!r}: pattern {pattern!r}: want %, _ or \\ "
                    f"after a backslash, found {part[1:]!r}"
                )
            return rf"\x{{{ord(part[-1]):x}}}"

        body = re.sub(r"\\.?|[^A-Za-z0-9\u0080-\U0010ffff]", one, pattern, flags=re.DOTALL)
        return rf"\A(?s:{body})\z"

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
        if not pa.types.is_primitive(term.kind) or arithmetic_types(term.kind, pa.int8(), False) is None:
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
        try:
            if isinstance(node, sql.Neg) and isinstance(inner, (sql.Literal, sql.Cast)) and not sign:
                return self._constant(inner, "-")
            if isinstance(node, sql.Literal) and node.is_string and not sign:
                return pa.scalar(str(inner))
            if isinstance(node, sql.Literal) and not node.is_string:
                return number(sign + str(inner))
            if isinstance(node, sql.Cast) and isinstance(inner, sql.Literal):
                return as_type(sign + str(inner.this), self._target(node))
        except InvalidError as error:
            raise InvalidError(f"predicate {self._text[:200]!r}: {error}") from error
        return None

    def _target(self, node: sql.Cast) -> pa.DataType:
        name = str(node.to.this.value)
        sizes = [int(str(size.this)) for size in node.to.expressions]
        if name == "DECIMAL" and len(sizes) != 1:
            precision, scale = sizes or (10, 0)
            if 0 <= scale <= precision <= 38:
                return pa.decimal128(precision, scale)
        if name not in _CASTS or sizes or node.args.get("safe"):
            raise self._refuse(node)
        return _CASTS[name]

    def _common(self, terms: list[Term]) -> pa.DataType:
        """Give the type in which Spark compares `terms`; text literals take the others'."""
        kinds = [term.kind for term in terms if not pa.types.is_null(term.kind)]
        texts = [t for t in terms if t.kind == pa.string() and t.constant is not None]
        others = [t.kind for t in terms if not pa.types.is_null(t.kind) and t not in texts]
        return kinds, texts, others
