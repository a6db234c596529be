"""INSERT INTO and INSERT OVERWRITE."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lakebed.api.table import Table
from lakebed.errors import InvalidError, NotFoundError, SchemaError, UnsupportedError
from lakebed.model.spelling import listed, nearest
from lakebed.sql.names import Name
from lakebed.sql.query.run import run_query
from lakebed.sql.rows.fit import Target, fit_rows
from lakebed.sql.rows.values import parse_values, values_table
from lakebed.sql.session import Session
from lakebed.sql.syntax.columns import name_list
from lakebed.sql.syntax.parameters import inline
from lakebed.sql.syntax.partitions import parse_partition, partition_values
from lakebed.sql.syntax.words import Words
from lakebed.write.spec.commit_summary import Commit


@dataclass(slots=True)
class Insert:
    """An INSERT statement: its table, the columns it names, in their order, and its query."""

    name: Name
    overwrite: bool
    query: str
    columns: list[str] | None = None
    by_name: bool = False
    partition_text: dict[str, str | None] = field(default_factory=dict)
    partition: dict[str, object] = field(default_factory=dict)


def insert(session: Session, words: Words, prefix: str = "") -> Any:
    """Execute INSERT; `prefix` is a WITH clause that preceded it."""
    literals = Words(inline(words.text, session.used(words.text)))
    literals.at = _insert_at(literals)
    given = _parse(literals, "")
    statement = _parse(words, prefix)
    statement.partition = partition_values(given.partition_text)
    table = session.table(statement.name)
    target = _target(table, statement)
    rows, count = _rows(session, statement.query, target)
    fitted = fit_rows(rows, target)
    if not statement.overwrite:
        return session.counts(insert_rows(table, fitted), count)
    commit = table.insert_overwrite(fitted, whole_table=not statement.partition)
    if statement.partition and not commit.rows:
        _clear_partition(table, statement.partition)
    return session.counts(commit, count)


def insert_rows(table: Table, rows: Any, *, new: bool = False) -> Commit:
    """Add rows to a table; those of an existing key are merged by the table's merge mode.

    A table that generates its keys, and a `new` table that has no rows yet, needs no search for
    existing keys.
    """
    if new or not table.config.record_key_fields:
        return table.bulk_insert(rows)
    return table.upsert(rows)


def select_rows(session: Session, query: str) -> Any:
    """Return the rows of a query: a DataFrame, or a RecordBatchReader."""
    if Words(query).is_word("VALUES") and session.spark is None:
        raise session.needs_spark("a table AS VALUES, whose columns have no names,")
    return run_query(session, query)


def _parse(words: Words, prefix: str) -> Insert:
    overwrite = words.take("OVERWRITE")
    if not overwrite:
        words.expect("INTO")
    words.take("TABLE")
    statement = Insert(words.names("the name of a table"), overwrite, "")
    if words.take("PARTITION"):
        statement.partition_text = parse_partition(words)
    words.take("IF", "NOT", "EXISTS")
    if words.here is not None and words.here.text == "(" and not _is_query(words):
        statement.columns = name_list(words)
    statement.by_name = words.take("BY", "NAME")
    if words.here is None:
        raise words.wrong("expected VALUES or a query")
    if prefix and words.is_word("WITH"):
        raise words.wrong("a second WITH")
    if not words.is_word("VALUES", "SELECT", "WITH", "FROM", "TABLE") and words.here.text != "(":
        raise words.wrong("expected VALUES or SELECT", ["VALUES", "SELECT"])
    statement.query = f"{prefix} {words.text[words.start :]}".strip().rstrip(";")
    return statement


def _insert_at(words: Words) -> int:
    """Return the place after INSERT, which a WITH clause may precede."""
    words.until([("INSERT",)])
    return words.at + 1


def _is_query(words: Words) -> bool:
    return words.is_word("SELECT", "WITH", "VALUES", "FROM", "TABLE", ahead=1) or (
        words.at + 1 < len(words.tokens) and words.tokens[words.at + 1].text == "("
    )


def _target(table: Table, statement: Insert) -> Target:
    schema = table.schema
    spelled = {name.lower(): name for name in schema.names}

    def known(name: str) -> str:
        if name.lower() not in spelled:
            raise SchemaError(
                f"table {table.name!r}: no column {name!r}{nearest(name, schema.names)}; it has "
                f"{listed(schema.names)}"
            )
        return str(spelled[name.lower()])

    partition = {known(name): value for name, value in statement.partition.items()}
    for name in partition:
        if name not in table.config.partition_fields:
            raise InvalidError(f"PARTITION ({name}): the table is not partitioned by {name!r}")
    fixed = {name: value for name, value in partition.items() if value is not None}
    names = [known(name) for name in statement.columns or ()]
    if len(set(names)) != len(names):
        raise InvalidError(f"INSERT: a column is named twice in {', '.join(names)}")
    if statement.columns is None:
        names = [name for name in schema.names if name not in fixed]
    return Target(table.name, schema, names, fixed, by_name=statement.by_name)


def _rows(session: Session, query: str, target: Target) -> tuple[Any, int | None]:
    """Return the rows of the query, and their number if it is known."""
    words = Words(inline(query, session.used(query)))
    if words.take("VALUES"):
        try:
            rows = values_table(parse_values(words), target)
        except UnsupportedError:
            if session.spark is None:
                raise
        else:
            return rows, rows.num_rows
    return run_query(session, query), None


def _clear_partition(table: Table, partition: Mapping[str, object]) -> None:
    """Delete the partition that a statement without rows overwrites."""
    fields: Sequence[str] = table.config.partition_fields
    spelled = {name.lower(): value for name, value in partition.items()}
    values = {name: spelled.get(name.lower()) for name in fields}
    if None in values.values():
        return
    try:
        table.delete_partitions([values])
    except NotFoundError:
        return
