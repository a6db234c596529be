"""Parse the columns that a caller adds: names, or columns with types."""

import re
from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from lakebed.errors import InvalidError
from lakebed.groups.definition import ColumnGroup, parse_given
from lakebed.table.config.ddl import parse_ddl
from lakebed.table.config.given_schema import given_schema

_TYPED: Final = re.compile(r"\s*(`[^`]*`|\w+)\s*[\s:]\s*\w")
"""The start of a DDL string: a name and a type. In a list of names, a comma follows the name."""


def given_group(
    name: object, columns: object, ordering: str | None
) -> tuple[ColumnGroup, list[pa.Field]]:
    """Return the group, and the columns that were given with a type."""
    if not isinstance(name, str):
        raise InvalidError(f"column group: expected a name as a string, found {name!r}")
    if isinstance(columns, str) and not _TYPED.match(columns):
        return parse_given(name, columns, ordering), []
    if isinstance(columns, pa.Field):
        columns = [columns]
    listed = list(columns) if isinstance(columns, Sequence) and not isinstance(columns, str) else []
    if listed and all(isinstance(one, str) for one in listed):
        return parse_given(name, listed, ordering), []
    if listed and all(isinstance(one, (str, pa.Field)) for one in listed):
        fields = [one for one in listed if isinstance(one, pa.Field)]
        names = [one.name if isinstance(one, pa.Field) else one for one in listed]
        return ColumnGroup.create(name, names, ordering), fields
    text, _, own = columns.partition(";") if isinstance(columns, str) else (columns, "", "")
    schema = given_schema(text)
    if schema is None:
        raise InvalidError(
            f"column group {name!r}: expected columns as a DDL string, Arrow fields, a list of names "
            f"or 'a,b;ordering', found {columns!r}"
        )
    return ColumnGroup.create(name, schema.names, own.strip() or ordering), list(schema)


def given_fields(columns: object) -> list[pa.Field]:
    """Return new columns with their types; raise InvalidError if there are none."""
    if isinstance(columns, pa.Field):
        columns = [columns]
    if isinstance(columns, Sequence) and not isinstance(columns, str):
        if columns and all(isinstance(one, pa.Field) for one in columns):
            return list(columns)
    else:
        schema = given_schema(columns)
        if schema is not None:
            return list(schema)
    raise InvalidError(
        "add_columns: expected columns as a DDL string ('score DOUBLE'), Arrow fields or a schema, "
        f"found {columns!r}"
    )


def given_type(kind: object) -> pa.DataType:
    """Return a type that is given as an Arrow type or as a string in DDL syntax."""
    if isinstance(kind, pa.DataType):
        return kind
    if not isinstance(kind, str):
        raise InvalidError(
            f"widen_column: expected a type such as 'BIGINT', found {type(kind).__name__}"
        )
    schema = parse_ddl(f"column {kind}")
    if len(schema) != 1:
        raise InvalidError(f"widen_column: expected one type such as 'BIGINT', found {kind!r}")
    return schema.field(0).type
