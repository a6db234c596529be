"""CREATE TABLE and DROP TABLE."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from lakebed.api.create import default_name
from lakebed.api.opening import create_table, drop_table, open_table
from lakebed.api.table import Table
from lakebed.errors import InvalidError, LakebedError, NotFoundError, OptionError
from lakebed.model.options.registry import find_option
from lakebed.model.spelling import nearest
from lakebed.sql.names import Name, path_of
from lakebed.sql.rows.insert import insert_rows, select_rows
from lakebed.sql.session import Session
from lakebed.sql.syntax.columns import Columns, name_list, parse_columns, parse_properties, split
from lakebed.sql.syntax.words import Words
from lakebed.table.config.ddl import parse_ddl

_FORMATS: Final = ("lakebed", "hudi")
# Hudi's short names of SQL, and ours: arguments of create_table.
_KEYWORDS: Final = {
    "primaryKey": "key",
    "preCombineField": "ordering",
    "preCombineFields": "ordering",
    "orderingFields": "ordering",
    "type": "table_type",
} | {
    word: word
    for word in ("key", "ordering", "table_type", "index", "buckets", "layout", "table_version")
}
_SPELLED: Final = {word.lower(): keyword for word, keyword in _KEYWORDS.items()}
_TYPES: Final = {"cow": "COPY_ON_WRITE", "mor": "MERGE_ON_READ"}
_LISTS: Final = ("key", "ordering", "partition_by")
_NUMBERS: Final = ("buckets", "table_version", "expected_rows")


@dataclass(slots=True)
class NewTable:
    """A CREATE TABLE statement."""

    name: Name
    if_not_exists: bool
    columns: Columns | None = None
    partition_by: list[str] = field(default_factory=list)
    properties: dict[str, str] = field(default_factory=dict)
    location: str | None = None
    query: str | None = None


def create(session: Session, words: Words) -> Any:
    """Execute CREATE TABLE."""
    new = _parse(words)
    catalog = session.catalog
    if new.if_not_exists and catalog.exists(new.name) and path_of(new.name) is None:
        return session.done(f"table {'.'.join(new.name)} already exists")
    if path_of(new.name) is None:
        catalog.check_new(new.name)
    url = new.location or catalog.place(new.name)
    if new.query is None and new.columns is None:
        return _register(session, new, url)
    rows = None if new.query is None else select_rows(session, new.query)
    if new.if_not_exists and _is_table(session, url):
        return session.done(f"table {'.'.join(new.name)} already exists")
    table = _make(session, new, url, rows)
    is_registered = False
    try:
        if new.location is not None and path_of(new.name) is None:
            catalog.register(new.name, table.path)
            is_registered = True
        if rows is None:
            return session.done(f"created table {'.'.join(new.name)} at {table.path}")
        return session.counts(insert_rows(table, rows, new=True))
    except BaseException:
        # Nothing of a failed statement remains.
        with suppress(LakebedError):
            drop_table(table.path, catalog.options_of(table.path))
        if is_registered:  # the name is not that of a table which another process created
            with suppress(LakebedError):
                catalog.forget(new.name)
        raise


def drop(session: Session, words: Words) -> Any:
    """Execute DROP TABLE."""
    if_exists = words.take("IF", "EXISTS")
    name = words.names("the name of a table")
    words.take("PURGE")
    words.end()
    try:
        session.catalog.drop(name)
    except NotFoundError:
        if not if_exists:
            raise
        return session.done(f"there is no table {'.'.join(name)}")
    return session.done(f"dropped table {'.'.join(name)}")


def _parse(words: Words) -> NewTable:
    new = NewTable((), words.take("IF", "NOT", "EXISTS"))
    new.name = words.names("the name of a table")
    if words.here is not None and words.here.text == "(":
        new.columns = parse_columns(words)
    while words.here is not None:
        if words.take("USING"):
            _check_format(words)
        elif words.take("PARTITIONED", "BY"):
            _parse_partition(words, new)
        elif words.take("TBLPROPERTIES") or words.take("OPTIONS"):
            new.properties |= parse_properties(words)
        elif words.take("LOCATION"):
            new.location = words.string("the path of the table")
        elif words.take("COMMENT"):
            words.string("a comment")
        elif words.is_word("AS", "SELECT", "WITH", "VALUES", "FROM"):
            words.take("AS")
            new.query = words.text[words.start :]
            break
        else:
            raise words.wrong(
                "expected USING, PARTITIONED BY, TBLPROPERTIES, LOCATION, COMMENT or AS",
                ["USING", "PARTITIONED", "TBLPROPERTIES", "LOCATION", "COMMENT"],
            )
    if new.query is not None and new.columns is not None:
        raise InvalidError(
            "CREATE TABLE ... AS takes its columns from the query; leave out the column list, and "
            "cast or name columns in the query"
        )
    return new


def _check_format(words: Words) -> None:
    name = words.name("the name of a format")
    if name.lower() not in _FORMATS:
        raise InvalidError(
            f"USING {name}: lakebed.sql creates tables USING lakebed"
            f"{nearest(name, _FORMATS)}; for other formats call spark.sql"
        )


def _parse_partition(words: Words, new: NewTable) -> None:
    """Parse names of columns, or new columns with their types."""
    at = words.at
    begin, end = words.parenthesized()
    items = split(words.text[begin:end])
    if all(len(Words(item).tokens) == 1 for item in items):
        words.at = at
        new.partition_by = name_list(words)
        return
    for item in items:
        if "(" in item.partition(" ")[0]:
            raise InvalidError(
                f"PARTITIONED BY ({item}): expected columns; to partition by a part of a timestamp, "
                "set hoodie.table.keygenerator.type=TIMESTAMP"
            )
        fields = parse_ddl(item)
        new.columns = new.columns or Columns()
        new.columns.fields += list(fields)
        new.partition_by += fields.names


def _register(session: Session, new: NewTable, url: str) -> Any:
    """Register an existing table at a LOCATION under a name."""
    if new.location is None:
        raise InvalidError(
            f"CREATE TABLE {'.'.join(new.name)}: expected columns, AS SELECT, or the LOCATION of an "
            "existing table"
        )
    table = open_table(session.spark, url, session.catalog.options_of(url))
    if new.properties or new.partition_by:
        raise InvalidError(
            f"CREATE TABLE {'.'.join(new.name)}: there is a table at {table.path}, which keeps its "
            "own properties and partitions; leave them out"
        )
    session.catalog.register(new.name, table.path)
    return session.done(f"table {'.'.join(new.name)} is at {table.path}")


def _is_table(session: Session, url: str) -> bool:
    try:
        open_table(None, url, session.catalog.options_of(url))
    except NotFoundError:
        return False
    return True


def _make(session: Session, new: NewTable, url: str, rows: Any) -> Table:
    keywords, properties = _divide(new.properties)
    schema: object = rows
    if new.columns is not None:
        schema = pa.schema(new.columns.fields)
        if new.columns.key:
            given = keywords.setdefault("key", new.columns.key)
            if given != new.columns.key:
                raise InvalidError(f"PRIMARY KEY {new.columns.key} contradicts primaryKey={given}")
    elif isinstance(rows, (pa.Table, pa.RecordBatchReader)):
        schema = rows.schema
    partition_by = keywords.pop("partition_by", new.partition_by)
    name = keywords.pop("name", None)
    return create_table(
        session.spark,
        url,
        schema,
        keywords.pop("key", None),
        **keywords,
        partition_by=partition_by,
        name=name or (new.name[-1] if path_of(new.name) is None else default_name(url)),
        properties=properties,
        storage_options=session.catalog.options_of(url),
    )


def _divide(given: Mapping[str, str]) -> tuple[dict[str, Any], dict[str, str]]:
    """Divide properties into arguments of `create_table` and options to store with the table."""
    keywords: dict[str, Any] = {}
    properties: dict[str, str] = {}
    for name, text in given.items():
        option = find_option(name)
        keyword = _SPELLED.get(name.lower()) or (option.keyword if option else "")
        if not keyword:
            if option is None and "." not in name:
                raise OptionError(f"unknown property {name!r}{nearest(name, _KEYWORDS)}")
            properties[name] = text
            continue
        if keyword in keywords:
            raise OptionError(f"property {name!r}: {keyword} is given twice")
        keywords[keyword] = _value(keyword, name, text)
    return keywords, properties


def _value(keyword: str, name: str, text: str) -> object:
    if keyword in _LISTS:
        return [part.strip() for part in text.split(",") if part.strip()]
    if keyword == "table_type":
        return _TYPES.get(text.strip().lower(), text)
    if keyword in _NUMBERS and text.strip().lower() != "auto":
        if not text.strip().isdigit():
            raise OptionError(f"property {name}={text!r}: expected a number")
        return int(text)
    return text.strip()
