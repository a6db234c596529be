"""Which conditions of a query narrow the read of a table.

The query keeps all its conditions: a read is only narrowed. So a condition is used only if rows
that do not meet it cannot reach the result, whatever the joins around it do, and if evaluating it
for every row cannot fail.
"""

from collections.abc import Collection, Iterator

import pyarrow as pa
from sqlglot import exp

from lakebed.errors import LakebedError
from lakebed.expr.bound import Apply, Constant, walk
from lakebed.expr.predicate import Predicate
from lakebed.expr.types import is_number
from lakebed.sql.query.tables import Reference

_SAFE = frozenset(
    [
        *("and", "or", "not", "=", "<>", "<", "<=", ">", ">=", "<=>"),
        *("in", "is null", "is truth", "like", "field"),
    ]
)
_SIGNS = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NullSafeEQ: "<=>",
}
# The words of typed literals, by sqlglot's names of their types.
_TYPED = {
    "DATE": "DATE",
    "TIMESTAMP": "TIMESTAMP",
    "TIMESTAMPTZ": "TIMESTAMP",
    "TIMESTAMPLTZ": "TIMESTAMP_LTZ",
    "TIMESTAMPNTZ": "TIMESTAMP_NTZ",
}
_NUMBERS = ("TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL")


def pushed_predicate(reference: Reference, references: Collection[Reference]) -> str | None:
    """Return the predicate that every needed row of a table fulfils; None if there is none."""
    if reference.source.is_range:
        return None
    select = reference.node.find_ancestor(exp.Select)
    if select is None:
        return None
    columns = _Columns(reference, select, references)
    texts = []
    for condition in _conditions(reference.node, select):
        text = columns.text(condition)
        if text is not None and _is_safe(text, reference.source.schema):
            texts.append(text)
    return " AND ".join(dict.fromkeys(texts)) or None


def _is_safe(text: str, schema: pa.Schema) -> bool:
    """Return whether a predicate is valid, and cannot fail for any row."""
    try:
        bound = Predicate.parse(text, schema).bound
    except LakebedError:
        return False
    for node in walk(bound):
        if not isinstance(node, Apply) or node.function in _SAFE:
            continue
        (of,) = node.args[:1]
        if node.function != "cast" or not (is_number(of.kind) and is_number(node.kind)):
            return False
    return not isinstance(bound, Constant)


def _conditions(node: exp.Table, select: exp.Select) -> Iterator[exp.Expression]:
    """Yield the conditions of `select` that drop every row of `node` which does not fulfil them."""
    from_ = select.args.get("from_")
    joins = select.args.get("joins") or []
    sources = [from_.this if from_ is not None else None, *(join.this for join in joins)]
    at = next((place for place, source in enumerate(sources) if source is node), None)
    if at is None or node.args.get("joins") or node.args.get("pivots") or node.args.get("sample"):
        return
    if any(join.method for join in joins) or select.args.get("laterals"):
        return
    is_nullable = False
    is_hidden = bool(at) and joins[at - 1].kind in ("SEMI", "ANTI")
    for place, join in enumerate(joins, 1):
        side, kind, on = join.side, join.kind, join.args.get("on")
        filters_right = side in ("", "LEFT") or kind in ("SEMI", "ANTI")
        filters_left = (side in ("", "RIGHT") and kind != "ANTI") or kind == "SEMI"
        own = place == at and filters_right
        earlier = place > at and filters_left and not is_nullable and not is_hidden
        if on is not None and (own or earlier):
            yield from _and_parts(on)
        if place == at and kind not in ("SEMI", "ANTI"):
            is_nullable = side in ("LEFT", "FULL")
        elif place > at:
            is_nullable |= side in ("RIGHT", "FULL")
    where = select.args.get("where")
    if where is not None and not is_nullable and not is_hidden:
        yield from _and_parts(where.this)


def _and_parts(condition: exp.Expression) -> Iterator[exp.Expression]:
    if isinstance(condition, exp.And):
        yield from _and_parts(condition.this)
        yield from _and_parts(condition.expression)
    elif isinstance(condition, exp.Paren):
        yield from _and_parts(condition.this)
    else:
        yield condition


class _Columns:
    """Writes conditions on the columns of one table in the grammar of predicates."""

    def __init__(
        self, reference: Reference, select: exp.Select, references: Collection[Reference]
    ) -> None:
        self._alias = reference.alias.lower()
        self._schema = {name.lower(): name for name in reference.source.schema.names}
        joins = select.args.get("joins") or []
        others = [join.this for join in joins]
        if select.args.get("from_") is not None:
            others.append(select.args["from_"].this)
        known = {id(one.node): one for one in references}
        self._taken: set[str] = set()
        self._only_qualified = False
        for node in others:
            if node is reference.node:
                continue
            other = known.get(id(node))
            if other is None:
                self._only_qualified = True
            else:
                self._taken |= {name.lower() for name in other.source.schema.names}

    def text(self, node: exp.Expression) -> str | None:
        """Return a condition as a predicate on this table; None if it is not one."""
        try:
            return self._text(node)
        except _NotSupported:
            return None

    def _text(self, node: exp.Expression) -> str:
        sign = _SIGNS.get(type(node))
        if sign is not None:
            return f"{self._operand(node.this)} {sign} {self._operand(node.expression)}"
        if isinstance(node, exp.Paren):
            return self._text(node.this)
        if isinstance(node, (exp.And, exp.Or)):
            word = "AND" if isinstance(node, exp.And) else "OR"
            return f"({self._text(node.this)} {word} {self._text(node.expression)})"
        if isinstance(node, exp.Not):
            return f"NOT ({self._text(node.this)})"
        return self._test(node)

    def _test(self, node: exp.Expression) -> str:
        if isinstance(node, exp.Between) and not node.args.get("symmetric"):
            low, high = node.args["low"], node.args["high"]
            return (
                f"{self._operand(node.this)} BETWEEN {self._operand(low)} AND {self._operand(high)}"
            )
        if isinstance(node, exp.In) and not node.args.get("query") and not node.args.get("unnest"):
            items = [self._operand(one) for one in _items(node)]
            return f"{self._operand(node.this)} IN ({', '.join(items)})"
        if isinstance(node, exp.Is) and isinstance(node.expression, exp.Null):
            return f"{self._operand(node.this)} IS NULL"
        if isinstance(node, exp.Like) and _is_string(node.expression):
            return f"{self._operand(node.this)} LIKE {self._operand(node.expression)}"
        if isinstance(node, exp.Column):
            return self._column(node)
        raise _NotSupported

    def _operand(self, node: exp.Expression) -> str:
        if isinstance(node, exp.Column):
            return self._column(node)
        if isinstance(node, exp.Literal):
            return _string(str(node.this)) if node.is_string else str(node.this)
        if isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal):
            return f"-{self._operand(node.this)}"
        if isinstance(node, exp.Boolean):
            return "TRUE" if node.this else "FALSE"
        if isinstance(node, exp.HexString):
            return f"X'{node.name}'"
        if isinstance(node, exp.Paren):
            return self._operand(node.this)
        if isinstance(node, exp.Cast):
            return self._cast(node)
        raise _NotSupported

    def _cast(self, node: exp.Cast) -> str:
        """Return a typed literal; sqlglot parses `DATE '...'` and `5L` as casts."""
        kind = node.to.this.name
        inner = node.this
        if isinstance(inner, exp.Neg) or not isinstance(inner, exp.Literal):
            raise _NotSupported
        if kind in _TYPED and inner.is_string:
            return f"{_TYPED[kind]} {_string(inner.name)}"
        if kind in _NUMBERS:
            return f"CAST({self._operand(inner)} AS {node.to.sql('spark')})"
        raise _NotSupported

    def _column(self, node: exp.Column) -> str:
        name, qualifier = node.name.lower(), node.table.lower()
        if node.args.get("db") is not None or name not in self._schema:
            raise _NotSupported
        if qualifier != self._alias and (qualifier or self._only_qualified or name in self._taken):
            raise _NotSupported
        return "`" + str(self._schema[name]).replace("`", "``") + "`"


class _NotSupported(Exception):  # noqa: N818 - never leaves this module
    """A part of a condition that is not used."""


def _items(node: exp.In) -> Iterator[exp.Expression]:
    held = node.args.get("field")
    for item in (*node.expressions, *([held] if held is not None else [])):
        if isinstance(item, exp.Tuple):
            yield from item.expressions
        else:
            yield item


def _is_string(node: exp.Expression) -> bool:
    return isinstance(node, exp.Literal) and bool(node.is_string)


def _string(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
