"""Parse the columns of a new column group: names, or columns with types."""

import re
from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from lakebed.errors import InvalidError
from lakebed.groups.definition import ColumnGroup, parse_given
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
