"""Queries of one table in this process: columns, expressions, WHERE, GROUP BY, ORDER BY, LIMIT."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
from sqlglot import exp
from sqlglot.tokens import TokenType

from lakebed.errors import InvalidError, UnsupportedError
from lakebed.expr.scope import Expression
from lakebed.model.spelling import listed, nearest
from lakebed.sql.query.aggregate import FUNCTIONS, Aggregate, aggregated
from lakebed.sql.query.local_rows import Order, distinct, limited, ordered, projected
from lakebed.sql.query.tables import Source, find_references
from lakebed.sql.session import Session
from lakebed.sql.syntax.columns import split
from lakebed.sql.syntax.dialect import tokenize
from lakebed.sql.syntax.expressions import parse_expression
from lakebed.sql.syntax.qualifiers import unqualified
from lakebed.sql.syntax.words import Words

_CLAUSES: Final = (
    ("WHERE",),
    ("GROUP", "BY"),
    ("HAVING",),
    ("ORDER", "BY"),
    ("LIMIT",),
    ("OFFSET",),
)
_VALUES: Final = (TokenType.STRING, TokenType.NUMBER)
_OTHERS: Final = {
    exp.Join: "a join",
    exp.Subquery: "a subquery",
    exp.SetOperation: "a set operation",
    exp.Window: "a window",
    exp.CTE: "WITH",
    exp.Lateral: "LATERAL",
    exp.Pivot: "PIVOT",
    exp.Having: "HAVING",
    exp.Values: "VALUES",
    exp.TableSample: "TABLESAMPLE",
    exp.Distinct: "DISTINCT inside a function",
    exp.Cluster: "CLUSTER BY",
    exp.Sort: "SORT BY",
    exp.Hint: "a hint",
}


@dataclass(slots=True)
class Item:
    """One item of a SELECT list: its text, and its name in the result."""

    text: str
    name: str


@dataclass(slots=True)
class LocalQuery:
    """The parts of a query of one table."""

    items: list[Item]
    is_distinct: bool = False
    where: str | None = None
    group_by: list[str] = field(default_factory=list)
    order_by: list[tuple[str, bool, bool]] = field(default_factory=list)
    limit: int | None = None
    offset: int = 0


def run_local(session: Session, tree: exp.Expression, text: str) -> pa.RecordBatchReader:
    """Execute a query of at most one table; raise UnsupportedError for any other query."""
    if not isinstance(tree, exp.Select):
        known = (what for kind, what in _OTHERS.items() if isinstance(tree, kind))
        raise session.needs_spark(next(known, "this query"))
    if Words(text).is_word("FROM"):
        raise session.needs_spark("a query that begins with FROM")
    for kind, what in _OTHERS.items():
        for node in tree.find_all(kind):
            if not (kind is exp.Distinct and node.parent is tree):
                raise session.needs_spark(what)
    references = find_references(session, tree)
    if not references:
        if tree.args.get("from_") is not None:
            raise session.needs_spark("a function as a table")
        return _without_table(_parse(tree, text, None, ()))
    (reference,) = references
    names = [reference.alias, reference.node.name]
    query = _parse(tree, text, reference.source, [name for name in names if name])
    return _run(session, reference.source, query)


def _parse(tree: exp.Select, text: str, source: Source | None, names: Sequence[str]) -> LocalQuery:
    columns = [] if source is None else source.schema.names

    def plain(part: str) -> str:
        return unqualified(part, names, columns)

    words = Words(text)
    words.expect("SELECT")
    if not tree.expressions:
        raise words.wrong("expected columns, expressions or *")
    is_distinct = words.take("DISTINCT")
    words.take("ALL")
    begin, from_at = words.start, _from(words, tree)
    end = words.tokens[from_at].start if from_at is not None else words.until(_CLAUSES)[1]
    query = LocalQuery(_items(tree, text[begin:end], source, plain), is_distinct)
    if from_at is not None:
        words.at = from_at
        words.until(_CLAUSES)
    while words.here is not None:
        clause = next((one for one in _CLAUSES if words.take(*one)), None)
        if clause is None:
            raise words.wrong("expected WHERE, GROUP BY, ORDER BY or LIMIT")
        start, stop = words.until(_CLAUSES)
        part = plain(text[start:stop])
        if clause[0] == "WHERE":
            query.where = part
        elif clause[0] == "GROUP":
            query.group_by = split(part)
        elif clause[0] == "ORDER":
            # A qualified name is a column of the table, so names of items are replaced before.
            orders = [_ordering(one) for one in split(text[start:stop])]
            query.order_by = [
                (plain(_sorted_by(one, query.items)), descends, last)
                for one, descends, last in orders
            ]
        elif part.strip().upper() != "ALL":
            number = _number(clause[0], part)
            query.limit, query.offset = (
                (number, query.offset) if clause[0] == "LIMIT" else (query.limit, number)
            )
    return query


def _from(words: Words, tree: exp.Select) -> int | None:
    """Return the place of the token FROM of the query itself."""
    from_ = tree.args.get("from_")
    if from_ is None:
        return None
    node = from_.this
    function = isinstance(node.this, exp.Func)
    start = node.this.meta["start"] if function else min(p.meta["start"] for p in node.parts)
    place = next(at for at, token in enumerate(words.tokens) if token.start == start)
    if place == 0 or words.tokens[place - 1].text.upper() != "FROM":
        raise words.wrong("expected SELECT before FROM")
    if words.tokens[place].token_type is TokenType.STRING:
        raise words.wrong("expected the name of a table, found a string", before=True)
    return place - 1


def _items(
    tree: exp.Select, text: str, source: Source | None, plain: Callable[[str], str]
) -> list[Item]:
    found: list[Item] = []
    for node, part in zip(tree.expressions, split(text), strict=True):
        if isinstance(node, exp.Star) or (
            isinstance(node, exp.Column) and isinstance(node.this, exp.Star)
        ):
            if source is None or node.args.get("except_") or node.args.get("replace"):
                raise InvalidError("SQL: * needs a table")
            found += [Item(_quoted(name), name) for name in source.columns()]
        elif isinstance(node, exp.Alias):
            found.append(Item(plain(_without_alias(part)), node.alias))
        else:
            found.append(Item(plain(part), _name(node, plain(part))))
    return found


def _name(node: exp.Expression, text: str) -> str:
    """Return the name of an item without an alias, as Spark names it in simple cases."""
    if isinstance(node, (exp.Column, exp.Literal)):
        return str(node.name)
    return "count(1)" if text.replace(" ", "").lower() == "count(*)" else text


def _without_alias(part: str) -> str:
    words = Words(part)
    words.tokens.pop()
    if words.tokens[-1].text.upper() == "AS" and words.tokens[-1].token_type is TokenType.ALIAS:
        words.tokens.pop()
    return part[: int(words.tokens[-1].end) + 1]


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _ordering(part: str) -> tuple[str, bool, bool]:
    """Return an item of ORDER BY: its expression, whether it descends, and whether nulls are last."""
    words = Words(part)
    begin, end = words.until([("ASC",), ("DESC",), ("NULLS",)])
    descends = words.take("DESC")
    words.take("ASC")
    nulls_last = descends
    if words.take("NULLS"):
        nulls_last = words.take("LAST")
        if not nulls_last:
            words.expect("FIRST")
    words.end()
    return part[begin:end], descends, nulls_last


def _number(clause: str, part: str) -> int:
    if not part.strip().isdigit():
        raise InvalidError(f"SQL: {clause} {part[:40]}: expected a number")
    return int(part)


def _without_table(query: LocalQuery) -> pa.RecordBatchReader:
    row = pa.record_batch([pa.array([0])], ["one"])
    items = [parse_expression(item.text, pa.schema([])) for item in query.items]
    batch = pa.record_batch(
        [item.values(row) for item in items], [item.name for item in query.items]
    )
    return pa.RecordBatchReader.from_batches(batch.schema, [batch])


def _run(session: Session, source: Source, query: LocalQuery) -> pa.RecordBatchReader:
    if query.group_by or any(_aggregate(item.text) for item in query.items):
        return _grouped(session, source, query)
    schema = source.schema
    items = [_item(item.text, schema) for item in query.items]
    orders = [
        Order(parse_expression(text, schema), descends, nulls_last)
        for text, descends, nulls_last in query.order_by
    ]
    if query.is_distinct and orders:
        raise session.needs_spark("DISTINCT with ORDER BY")
    needed = {c for one in (*items, *(o.expression for o in orders)) for c in one.columns}
    reader = _read(source, query, needed)
    if orders:
        stop = None if query.limit is None else query.limit + query.offset
        reader = ordered(reader, orders, stop)
    reader = projected(reader, items, [item.name for item in query.items])
    if query.is_distinct:
        reader = distinct(reader)
    return limited(reader, query.offset, query.limit)


def _item(text: str, schema: pa.Schema) -> Expression:
    try:
        return parse_expression(text, schema)
    except UnsupportedError as error:
        raise UnsupportedError(
            f"{error}; with a Spark session, lakebed.sql(spark, ...) evaluates all of Spark's functions"
        ) from error


def _grouped_by(text: str, items: Sequence[Item], schema: pa.Schema) -> str:
    """Return the expression of an item of GROUP BY: a position, a column, or else an item's name."""
    name = text.strip().strip("`").lower()
    if name in map(str.lower, schema.names):
        return text
    return _at_position(text, items) or _named(name, items) or text


def _sorted_by(text: str, items: Sequence[Item]) -> str:
    """Return the expression of an item of ORDER BY, in which an item's name precedes a column."""
    position = _at_position(text, items)
    if position is not None:
        return position
    pieces, at = [], 0
    for token in tokenize(text):
        before, after = text[: token.start].rstrip()[-1:], text[token.end + 1 :].lstrip()[:1]
        # A field, a function, or the word of a literal such as DATE '2026-11-19' is not a name.
        if token.token_type in _VALUES or before == "." or (after and after in ".('\""):
            continue
        named = _named(str(token.text).lower(), items)
        if named is not None:
            is_all = (token.start, token.end + 1) == (0, len(text))
            pieces += [text[at : token.start], named if is_all else f"({named})"]
            at = int(token.end) + 1
    return "".join([*pieces, text[at:]])


def _at_position(text: str, items: Sequence[Item]) -> str | None:
    bare = text.strip()
    if not bare.isdigit():
        return None
    if not 1 <= int(bare) <= len(items):
        raise InvalidError(f"SQL: position {bare}: expected 1 to {len(items)}")
    return items[int(bare) - 1].text


def _named(name: str, items: Sequence[Item]) -> str | None:
    """Return the expression of the item with a name, in lower case; None if there is none."""
    found = {item.text for item in items if item.name.lower() == name}
    if len(found) > 1:
        raise InvalidError(f"SQL: {name} is the name of several items: {listed(sorted(found))}")
    return next(iter(found), None)


def _read(source: Source, query: LocalQuery, needed: set[str]) -> pa.RecordBatchReader:
    if source.mode == "cdc":
        if query.where is not None:
            raise InvalidError("SQL: WHERE on change rows needs a Spark session")
        return source.read(None, None)
    names = [name for name in source.schema.names if name in needed]
    return source.read(names or source.schema.names[:1], query.where)


def _grouped(session: Session, source: Source, query: LocalQuery) -> pa.RecordBatchReader:
    schema = source.schema
    keys = [_grouped_by(text, query.items, schema) for text in query.group_by]
    if query.is_distinct:
        raise session.needs_spark("DISTINCT with GROUP BY")
    key_items = [parse_expression(text, schema) for text in keys]
    aggregates, outputs = [], []
    for item in query.items:
        called = _aggregate(item.text)
        if called is not None:
            function, argument = called
            of = None if argument == "*" else parse_expression(argument, schema)
            aggregates.append(Aggregate.of(function, of, item.text))
            outputs.append((item.name, len(keys) + len(aggregates) - 1))
            continue
        bound = parse_expression(item.text, schema).bound
        place = next((at for at, key in enumerate(key_items) if key.bound == bound), None)
        if place is None:
            raise InvalidError(
                f"SQL: {item.text} is neither in GROUP BY nor an aggregate "
                f"({', '.join(FUNCTIONS)}); an expression of aggregates needs a Spark session"
            )
        outputs.append((item.name, place))
    arguments = [one.argument for one in aggregates if one.argument is not None]
    needed = {c for one in (*key_items, *arguments) for c in one.columns}
    rows = aggregated(_read(source, query, needed), key_items, aggregates)
    table = pa.table([rows.column(at) for _, at in outputs], names=[name for name, _ in outputs])
    result = table.to_reader()
    if query.order_by:
        texts = {item.text: at for at, item in enumerate(query.items)}
        orders = []
        for text, descends, nulls_last in query.order_by:
            if text not in texts:
                raise session.needs_spark(f"ORDER BY {text} of a grouped query")
            name = _quoted(outputs[texts[text]][0])
            orders.append(Order(parse_expression(name, table.schema), descends, nulls_last))
        result = ordered(result, orders, None)
    return limited(result, query.offset, query.limit)


def _aggregate(text: str) -> tuple[str, str] | None:
    """Return the function and the argument of an aggregate; None for another expression."""
    words = Words(text)
    if not words.is_word(*(name.upper() for name in FUNCTIONS)):
        if [str(token.text) for token in words.tokens[1:]] == ["(", "*", ")"]:
            name = words.name("a function")
            raise InvalidError(f"SQL: {text}: no function {name}(*){nearest(name, FUNCTIONS)}")
        return None
    name = words.name("a function").lower()
    if words.here is None or words.here.text != "(":
        return None
    begin, end = words.parenthesized()
    if words.here is not None:
        return None
    return name, text[begin:end].strip()
