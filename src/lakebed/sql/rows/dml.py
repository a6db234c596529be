"""UPDATE, DELETE and TRUNCATE."""

from typing import Any

from sqlglot.tokens import TokenType

from lakebed.api.table import Table
from lakebed.errors import InvalidError, UnsupportedError
from lakebed.format.names.meta_columns import RECORD_KEY
from lakebed.model.spelling import listed, nearest
from lakebed.sql.names import Name
from lakebed.sql.query.run import run_query
from lakebed.sql.session import Session
from lakebed.sql.syntax.columns import split
from lakebed.sql.syntax.qualifiers import unqualified
from lakebed.sql.syntax.words import Words

_SUBQUERY = ("SELECT", "EXISTS")


def delete(session: Session, words: Words) -> Any:
    """Execute DELETE."""
    name, alias, table = _target(session, words)
    if words.here is None:
        return truncate_table(session, table)
    words.expect("WHERE")
    begin, end = words.until([])
    condition = words.text[begin:end]
    if not condition.strip():
        raise words.wrong("expected a condition")
    if has_subquery(condition):
        return _delete_found(session, table, name, alias, condition)
    where = unqualified(condition, [alias, name[-1]], table.schema.names)
    return session.counts(table.delete(where=where))


def truncate(session: Session, words: Words) -> Any:
    """Execute TRUNCATE TABLE."""
    table = session.table(words.names("the name of a table"))
    words.end()
    return truncate_table(session, table)


def truncate_table(session: Session, table: Table) -> Any:
    """Delete all rows."""
    return session.counts(table.delete(where="true"))


def update(session: Session, words: Words) -> Any:
    """Execute UPDATE."""
    name, alias, table = _target(session, words, before="SET")
    words.expect("SET")
    begin, end = words.until([("WHERE",)])
    where = None
    if words.take("WHERE"):
        start, stop = words.until([])
        where = words.text[start:stop]
        if not where.strip():
            raise words.wrong("expected a condition")
    names = [alias, name[-1]]
    columns = table.schema.names
    values = {}
    for item in split(words.text[begin:end]):
        column, value = assignment(item, names, columns, table.name)
        if column in values:
            raise InvalidError(f"UPDATE: column {column!r} is assigned twice")
        values[column] = unqualified(value, names, columns)
    if any(map(has_subquery, (*values.values(), where or ""))):
        raise UnsupportedError(
            "UPDATE: a subquery is not supported; use MERGE INTO ... USING (SELECT ...)"
        )
    where = None if where is None else unqualified(where, names, columns)
    return session.counts(table.update(values, where=where))


def assignment(item: str, names: list[str], columns: list[str], table: str) -> tuple[str, str]:
    """Return the column and the expression of `column = expression`."""
    words = Words(item)
    column = words.name("a column")
    folded = {name.lower() for name in names} - {name.lower() for name in columns}
    if column.lower() in folded and words.take_sign(TokenType.DOT):
        column = words.name("a column")
    if words.here is not None and words.here.text == ".":
        raise UnsupportedError(
            f"column {column!r}: a field of a struct cannot be assigned alone; assign the struct"
        )
    if words.here is None or words.here.text != "=":
        raise words.wrong("expected '='")
    words.at += 1
    begin, end = words.until([])
    spelled = {known.lower(): known for known in columns}
    if column.lower() not in spelled:
        raise InvalidError(
            f"table {table!r}: no column {column!r}{nearest(column, columns)}; it has {listed(columns)}"
        )
    if not words.text[begin:end].strip():
        raise words.wrong("expected an expression")
    return spelled[column.lower()], words.text[begin:end]


def _target(session: Session, words: Words, before: str = "WHERE") -> tuple[Name, str, Table]:
    name = words.names("the name of a table")
    alias = name[-1]
    words.take("AS")
    if words.here is not None and not words.is_word(before):
        alias = words.name("an alias")
    return name, alias, session.table(name)


def has_subquery(text: str) -> bool:
    """Return whether an expression contains a query."""
    words = Words(text)
    return any(words.is_word(*_SUBQUERY, ahead=at) for at in range(len(words.tokens)))


def _delete_found(session: Session, table: Table, name: Name, alias: str, condition: str) -> Any:
    """Delete the rows that a query of Spark finds, by their keys."""
    if session.spark is None:
        raise session.needs_spark("a subquery in DELETE")
    keys = [*(table.config.record_key_fields or [RECORD_KEY]), *table.config.partition_fields]
    listed_keys = ", ".join(f"{_quoted(alias)}.{_quoted(key)}" for key in dict.fromkeys(keys))
    source = ".".join(map(_quoted, name))
    # All parts are the statement's own text and quoted names.
    query = f"SELECT {listed_keys} FROM {source} AS {_quoted(alias)} WHERE {condition}"  # noqa: S608
    # The parameters are literals already.
    plain = Session(session.catalog)
    return session.counts(table.delete(run_query(plain, query)))


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
