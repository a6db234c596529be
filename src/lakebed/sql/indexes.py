"""CREATE INDEX, DROP INDEX and SHOW INDEXES, of secondary indexes."""

from typing import Any, Final

import pyarrow as pa

from lakebed.errors import InvalidError, NotFoundError, UnsupportedError
from lakebed.model.spelling import listed, nearest
from lakebed.sql.session import Session
from lakebed.sql.syntax.columns import name_list, parse_properties
from lakebed.sql.syntax.words import Words

_KINDS: Final = ("secondary_index", "lakebed", "lsm")
_OTHERS: Final = ("record_index", "column_stats", "bloom_filters", "expression_index")
COLUMNS: Final = pa.schema(
    [
        ("index_name", pa.string()),
        ("columns", pa.string()),
        ("state", pa.string()),
        ("entries", pa.int64()),
        ("size_bytes", pa.int64()),
    ]
)


def create(session: Session, words: Words) -> Any:
    """Execute CREATE INDEX."""
    if_not_exists = words.take("IF", "NOT", "EXISTS")
    name = words.name("the name of an index")
    words.expect("ON")
    words.take("TABLE")
    table = session.table(words.names("the name of a table"))
    if words.take("USING"):
        _check_kind(words.name("the kind of an index"))
    columns = name_list(words)
    if words.take("OPTIONS") and (given := parse_properties(words)):
        raise InvalidError(f"CREATE INDEX: the option {next(iter(given))!r} has no effect here")
    words.end()
    spelled = {known.lower(): known for known in table.schema.names}
    columns = [spelled.get(column.lower(), column) for column in columns]
    built = table.create_index(name, columns, if_not_exists)
    if built is None:
        return session.done(f"index {name} already exists")
    return session.done(f"created index {name} on {', '.join(columns)}: {built.entries:,} entries")


def drop(session: Session, words: Words) -> Any:
    """Execute DROP INDEX."""
    if_exists = words.take("IF", "EXISTS")
    name = words.name("the name of an index")
    words.expect("ON")
    words.take("TABLE")
    table = session.table(words.names("the name of a table"))
    words.end()
    known = [index.name for index in table.indexes()]
    if name not in known and not if_exists:
        raise NotFoundError(
            f"table {table.name!r} has no index {name!r}{nearest(name, known)}; it has {listed(known)}"
        )
    table.drop_index(name, if_exists=True)
    return session.done(f"dropped index {name}" if name in known else f"there is no index {name}")


def show(session: Session, words: Words) -> Any:
    """Execute SHOW INDEXES, after its first words."""
    if not words.take("FROM") and not words.take("IN"):
        words.expect("ON")
    table = session.table(words.names("the name of a table"))
    words.end()
    rows = [
        {
            "index_name": index.name,
            "columns": ", ".join(index.columns),
            "state": index.state,
            "entries": index.entries,
            "size_bytes": index.size_bytes,
        }
        for index in table.indexes()
    ]
    return session.result(pa.Table.from_pylist(rows, schema=COLUMNS))


def _check_kind(kind: str) -> None:
    if kind.lower() in _KINDS:
        return
    if kind.lower() in _OTHERS:
        raise UnsupportedError(
            f"CREATE INDEX USING {kind}: Lakebed builds secondary indexes; a record index is chosen "
            "when the table is created: TBLPROPERTIES (index = 'record')"
        )
    raise InvalidError(
        f"CREATE INDEX USING {kind}: expected secondary_index{nearest(kind, (*_KINDS, *_OTHERS))}"
    )
