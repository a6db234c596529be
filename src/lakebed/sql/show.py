"""SHOW, DESCRIBE and EXPLAIN."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from sqlglot.tokens import TokenType

from lakebed.api.table import Table
from lakebed.errors import NotFoundError
from lakebed.model.options.option import Fate, Scope
from lakebed.model.options.registry import find_option
from lakebed.model.spelling import nearest
from lakebed.sql import indexes
from lakebed.sql.names import DEFAULT, check_database
from lakebed.sql.procedures import show_procedures
from lakebed.sql.session import Session
from lakebed.sql.syntax.dialect import tokenize
from lakebed.sql.syntax.words import Words
from lakebed.table.config.ddl import type_text
from lakebed.table.config.table_config import TableConfig
from lakebed.table.config.writer_index import INDEXES

_SHOWS = (
    "TABLES",
    "DATABASES",
    "COLUMNS",
    "INDEXES",
    "CREATE TABLE",
    "TBLPROPERTIES",
    "PARTITIONS",
    "PROCEDURES",
)


_DESCRIBES = ("HISTORY", "DETAIL", "EXTENDED", "FORMATTED")


def show(session: Session, words: Words) -> Any:
    """Execute SHOW."""
    if words.take("TABLES"):
        return _tables(session, words)
    if words.take("DATABASES") or words.take("SCHEMAS") or words.take("NAMESPACES"):
        words.end()
        return session.result(pa.table({"namespace": session.catalog.databases()}))
    if words.take("INDEXES") or words.take("INDEX"):
        return indexes.show(session, words)
    if words.take("COLUMNS"):
        table = _table(session, words)
        return session.result(pa.table({"col_name": table.schema.names}))
    if words.take("CREATE", "TABLE"):
        name = words.names("the name of a table")
        words.end()
        return session.result(pa.table({"createtab_stmt": [_ddl(name, session.table(name))]}))
    if words.take("TBLPROPERTIES"):
        return _properties(session, words)
    if words.take("PARTITIONS"):
        table = _table(session, words)
        partitions = table.files().column("partition").unique().sort()
        return session.result(pa.table({"partition": partitions}))
    if words.take("PROCEDURES"):
        words.end()
        return session.result(show_procedures())
    raise words.wrong(f"expected SHOW {', '.join(_SHOWS)}", _SHOWS)


def describe(session: Session, words: Words) -> Any:
    """Execute DESCRIBE."""
    if words.take("HISTORY"):
        return session.result(_table(session, words, plain=True).history())
    if words.take("DETAIL"):
        return session.result(_detail(_table(session, words, plain=True)))
    extended = words.take("EXTENDED") or words.take("FORMATTED")
    words.take("TABLE")
    extended |= words.take("EXTENDED") or words.take("FORMATTED")
    name = words.names("the name of a table")
    try:
        table = session.table(name)
    except NotFoundError as error:
        keyword = "" if words.here is None else nearest(name[0], _DESCRIBES, cutoff=0.75)
        raise NotFoundError(f"{error}{keyword}") from None
    rows = [(field.name, type_text(field.type), _note(table, field)) for field in table.schema]
    if words.here is not None:
        column = words.name("a column")
        words.end()
        rows = [row for row in rows if row[0].lower() == column.lower()]
        if not rows:
            raise NotFoundError(
                f"table {table.name!r} has no column {column!r}{nearest(column, table.schema.names)}"
            )
    if extended:
        rows += [("", "", ""), ("# Detailed Table Information", "", "")]
        rows += [(name, text, "") for name, text in _facts(table).items()]
    names = ("col_name", "data_type", "comment")
    return session.result(
        pa.table([list(column) for column in zip(*rows, strict=True)], names=list(names))
    )


def explain(session: Session, lines: Sequence[str]) -> Any:
    """Return the lines of a plan as rows."""
    return session.result(pa.table({"plan": list(lines)}))


def _tables(session: Session, words: Words) -> Any:
    database = DEFAULT
    if words.take("IN") or words.take("FROM"):
        database = words.name("the name of a database")
        check_database(session.catalog, database)
    pattern = None
    if words.take("LIKE") or (words.here is not None and words.here.token_type is TokenType.STRING):
        pattern = words.string("a pattern")
    words.end()
    names = [name for name in session.catalog.tables(database) if _is_like(name, pattern)]
    return session.result(
        pa.table(
            {
                "namespace": pa.array([database] * len(names), pa.string()),
                "tableName": pa.array(names, pa.string()),
                "isTemporary": pa.array([False] * len(names), pa.bool_()),
            }
        )
    )


def _is_like(name: str, pattern: str | None) -> bool:
    """Return whether a name matches a pattern of SHOW TABLES, in which * is any string."""
    if pattern is None:
        return True
    return any(
        re.fullmatch(".*".join(map(re.escape, part.strip().split("*"))), name, re.IGNORECASE)
        for part in pattern.replace("%", "*").split("|")
    )


def _table(session: Session, words: Words, *, plain: bool = False) -> Table:
    if not plain and not words.take("IN"):
        words.take("FROM")
    name = words.names("the name of a table")
    words.end()
    return session.table(name)


def _properties(session: Session, words: Words) -> Any:
    table = session.table(words.names("the name of a table"))
    held = dict(sorted(table.config.properties.items()))
    if words.here is not None:
        begin, end = words.parenthesized()
        words.end()
        wanted = words.text[begin:end].strip().strip("'\"")
        if wanted not in held:
            raise NotFoundError(
                f"table {table.name!r} does not store the property {wanted!r}{nearest(wanted, held)}"
            )
        held = {wanted: held[wanted]}
    return session.result(
        pa.table(
            {
                "key": pa.array(list(held), pa.string()),
                "value": pa.array(list(held.values()), pa.string()),
            }
        )
    )


def _note(table: Table, field: pa.Field) -> str:
    config = table.config
    parts = {
        "key": config.record_key_fields,
        "partition": config.partition_fields,
        "ordering": config.ordering_fields,
    }
    notes = [what for what, names in parts.items() if field.name in names]
    return ", ".join([*notes, *([] if field.nullable else ["not null"])])


def _facts(table: Table) -> Mapping[str, str]:
    found = table.describe()
    return {
        "Name": found.name,
        "Location": found.path,
        "Provider": "lakebed",
        "Type": found.table_type,
        "Layout": found.layout,
        "Table Version": str(found.version),
        "Index": found.index,
        "Merge Mode": found.merge_mode,
        "Primary Key": ", ".join(found.key) or "generated",
        "Ordering": ", ".join(found.ordering),
        "Partitioned By": ", ".join(found.partition_by),
        "Commits": str(found.commits),
        "Last Commit": found.last_instant or "",
    }


def _detail(table: Table) -> pa.Table:
    found = table.describe()
    return pa.table(
        {
            "name": [found.name],
            "location": [found.path],
            "table_type": [found.table_type],
            "layout": [found.layout],
            "version": [found.version],
            "index": [found.index],
            "primary_key": [", ".join(found.key)],
            "partition_columns": [", ".join(found.partition_by)],
            "num_partitions": [found.partitions],
            "num_file_groups": [found.file_groups],
            "num_files": [found.files],
            "size_bytes": [found.size_bytes],
            "num_commits": [found.commits],
            "last_commit": pa.array([found.last_instant], pa.string()),
        }
    )


def _ddl(name: Sequence[str], table: Table) -> str:
    """Return the CREATE TABLE statement of a table."""
    config = table.config
    columns = [
        f"  {_quoted(field.name)} {_type(field.type)}" + ("" if field.nullable else " NOT NULL")
        for field in table.schema
    ]
    lines = [f"CREATE TABLE {'.'.join(map(_quoted, name))} (", ",\n".join(columns), ")"]
    lines.append("USING lakebed")
    if config.partition_fields:
        lines.append(f"PARTITIONED BY ({', '.join(map(_quoted, config.partition_fields))})")
    lines.append(f"LOCATION {_string(table.path)}")
    given = {
        "primaryKey": ",".join(config.record_key_fields),
        "preCombineFields": ",".join(config.ordering_fields),
        "type": "cow" if config.table_type == "COPY_ON_WRITE" else "mor",
        "layout": str(config.layout),
        "table_version": str(config.version),
        **_index_words(config),
    }
    shown = [f"  {word} = {_string(value)}" for word, value in given.items() if value]
    shown += [
        f"  {_string(key)} = {_string(value)}"
        for key, value in sorted(config.properties.items())
        if key.startswith(("hoodie.columngroup.", "hoodie.colgroup.")) or _is_setting(key)
    ]
    return "\n".join([*lines, "TBLPROPERTIES (", ",\n".join(shown), ")"])


def _index_words(config: TableConfig) -> dict[str, str]:
    """Return the properties that say which index the table's writers use."""
    buckets = getattr(config.index, "buckets", None)
    for word, kind in INDEXES.items():
        if kind(buckets, config.record_key_fields) == config.index:
            return {"index": word} | ({"buckets": str(buckets)} if buckets else {})
    return {}


def _is_setting(name: str) -> bool:
    """Return whether a property is an option of its own that CREATE TABLE takes."""
    option = find_option(name)
    return (
        option is not None
        and option.fate is Fate.HONOURED
        and not option.keyword
        and Scope.CREATE in option.subject.scope
    )


def _type(kind: pa.DataType) -> str:
    """Return a type in capitals, but not the names of its fields."""
    text = type_text(kind)
    return text if pa.types.is_nested(kind) else text.upper()


def _quoted(name: str) -> str:
    """Return a name in backticks, unless it can be nothing but a name."""
    is_plain = name.isidentifier() and name.isascii()
    if is_plain and tokenize(name)[0].token_type is TokenType.VAR:
        return name
    return "`" + name.replace("`", "``") + "`"


def _string(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
