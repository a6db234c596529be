"""SELECT: on Spark as Spark executes it, in process for queries of one table."""

from dataclasses import dataclass
from typing import Any

from sqlglot import exp
from sqlglot.tokens import TokenType

from lakebed.errors import InvalidError, UnsupportedError
from lakebed.sql.query.local_query import run_local
from lakebed.sql.query.needs import Needs
from lakebed.sql.query.predicates import pushed_predicate
from lakebed.sql.query.tables import Reference, find_references, name_of
from lakebed.sql.session import Session
from lakebed.sql.syntax.dialect import parse_one, tokenize
from lakebed.sql.syntax.parameters import inline, literal, spark_arguments

_QUERIES = (exp.Select, exp.SetOperation, exp.Subquery, exp.Values)


@dataclass(frozen=True, slots=True)
class PlannedRead:
    """A read of a table for a query: its columns (None means all) and its predicate."""

    reference: Reference
    columns: list[str] | None
    where: str | None


def run_query(session: Session, text: str) -> Any:
    """Execute a query; return a DataFrame, or without Spark a RecordBatchReader."""
    if session.spark is None:
        text = inline(text, session.used(text))
        return run_local(session, checked_query(parse_one(text)), text)
    tree = checked_query(parse_one(text))
    reads = plan_reads(session, tree, text)
    frames = {
        f"lakebed_{at}": read.reference.source.read(read.columns, read.where)
        for at, read in enumerate(reads)
    }
    from lakebed.sql.query.frames import query_frames  # noqa: PLC0415 - pyspark is heavy

    query, arguments = _spark_text(session, tree, text, reads)
    columns = [name for read in reads for name in read.reference.source.schema.names]
    return query_frames(session.spark, query, frames, arguments, columns)


def checked_query(tree: exp.Expression) -> exp.Expression:
    """Return the tree of a query; raise UnsupportedError for another statement."""
    if not isinstance(tree, _QUERIES):
        raise UnsupportedError(f"SQL: expected a query, found {type(tree).__name__.upper()}")
    return tree


def plan_reads(session: Session, tree: exp.Expression, text: str) -> list[PlannedRead]:
    """Return the reads of Lakebed tables in a query; parameters in `tree` become literals."""
    _bind(tree, session)
    references = find_references(session, tree)
    needs = Needs(tree, tokenize(text), references)
    return [
        PlannedRead(one, needs.columns(one), pushed_predicate(one, references))
        for one in references
    ]


def _bind(tree: exp.Expression, session: Session) -> None:
    for node in list(tree.find_all(exp.Placeholder)):
        name = str(node.this)
        if name not in session.parameters:
            continue  # reported by the check of the whole statement
        if isinstance(node.parent, exp.Table):
            raise InvalidError(f"parameter :{name}: a table has a name, which is not a value")
        value = session.parameters[name]
        if isinstance(value, (list, tuple)):
            made: exp.Expression = exp.Tuple(expressions=[_literal(one, name) for one in value])
        else:
            made = _literal(value, name)
        node.replace(made)


def _literal(value: object, name: str) -> exp.Expression:
    return parse_one(f"SELECT {literal(value, name)}").expressions[0]


def _spark_text(
    session: Session, tree: exp.Expression, text: str, reads: list[PlannedRead]
) -> tuple[str, dict[str, object]]:
    """Return the user's text with a placeholder for a DataFrame in place of each Lakebed table.

    The rest of the text stays as it is: sqlglot does not reproduce all of Spark's SQL, and in some
    functions it drops arguments.
    """
    tokens = tokenize(text)
    edits = [
        (*_span(read.reference, tokens), f"{{lakebed_{at}}}{_alias(read.reference)}")
        for at, read in enumerate(reads)
    ]
    names = {name_of(read.reference.node) for read in reads if not _is_function(read.reference)}
    for column in tree.find_all(exp.Column):
        qualifier = column.args.get("db")
        if qualifier is not None and (column.text("db"), column.table) in names:
            edits.append((qualifier.meta["start"], column.args["table"].meta["start"], ""))
    changes, arguments = spark_arguments(text, session.used(text))
    edits += [
        change for change in changes if not any(begin <= change[0] < end for begin, end, _ in edits)
    ]
    end = next((t.start for t in tokens if t.token_type is TokenType.SEMICOLON), len(text))
    pieces, at = [], 0
    for begin, stop, new in sorted(edits):
        pieces += [_braced(text[at:begin]), new]
        at = stop
    used = "".join([*pieces, _braced(text[at:end])])
    return used, {name: value for name, value in arguments.items() if f":{name}" in used}


def _braced(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


def _is_function(reference: Reference) -> bool:
    return isinstance(reference.node.this, exp.Func)


def _alias(reference: Reference) -> str:
    """Return an alias that keeps the name by which the query refers to the table's columns."""
    node = reference.node
    if node.alias or not node.name or _is_function(reference) or node.args.get("sample"):
        return ""
    return " AS `" + str(node.name).replace("`", "``") + "`"


def _span(reference: Reference, tokens: list[Any]) -> tuple[int, int]:
    """Return the part of the text that names a table, with its time travel or its arguments."""
    node = reference.node
    if _is_function(reference):
        start = node.this.meta["start"]
        at = next(place for place, token in enumerate(tokens) if token.start == start) + 1
        depth = 0
        while True:
            depth += (tokens[at].token_type is TokenType.L_PAREN) - (
                tokens[at].token_type is TokenType.R_PAREN
            )
            if not depth:
                return start, int(tokens[at].end) + 1
            at += 1
    spans = [part.meta for part in node.parts]
    start, end = min(one["start"] for one in spans), max(one["end"] for one in spans) + 1
    if node.args.get("version") is None:
        return start, end
    at = next(place for place, token in enumerate(tokens) if token.start >= end)
    while tokens[at].token_type not in (TokenType.STRING, TokenType.NUMBER, TokenType.COLON):
        at += 1
    # A parameter is two tokens.
    at += tokens[at].token_type is TokenType.COLON
    return start, int(tokens[at].end) + 1


def explain_reads(session: Session, text: str) -> list[str]:
    """Return the lines that describe the reads of Lakebed tables in a query."""
    tree = checked_query(parse_one(text))
    lines = []
    for read in plan_reads(session, tree, text):
        source = read.reference.source
        columns = source.columns() if read.columns is None else read.columns
        lines.append(f"table {read.reference.alias} ({source.table.path})")
        lines.append(f"  columns: {', '.join(columns)}")
        lines.append(f"  where: {read.where or 'none'}")
        if source.as_of is not None:
            lines.append(f"  as of: {source.as_of}")
        plan = source.explain(read.columns, read.where)
        if plan is None:
            lines.append(f"  changes since {source.since}, until {source.until or 'now'}")
        else:
            lines += [f"  {line}" for line in str(plan).splitlines()]
    if not lines:
        raise InvalidError("EXPLAIN: the query reads no table of this catalogue")
    return lines
