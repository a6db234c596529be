"""Add and widen columns, and parse the columns that a caller adds: names, or columns with types."""

import re
from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from lakebed.api.indexes import TableIndexes
from lakebed.errors import InvalidError
from lakebed.groups.definition import ColumnGroup, parse_given
from lakebed.table.config.ddl import parse_ddl
from lakebed.table.config.given_schema import given_schema
from lakebed.write.alter.change_columns import execute_add_columns, execute_widen_column
from lakebed.write.alter.drop_column import check_droppable
from lakebed.write.spec.commit_summary import Commit

_TYPED: Final = re.compile(r"\s*(`[^`]*`|\w+)\s*[\s:]\s*\w")
"""The start of a DDL string: a name and a type. In a list of names, a comma follows the name."""


class TableColumns(TableIndexes):
    """The changes of a table's columns that need no rows."""

    def add_columns(self, columns: object) -> Commit:
        """Add columns, null in all existing rows, in a commit that writes no data file.

        In a table with column groups they belong to the default group; `add_column_group` adds
        columns to a group of their own.

        Args:
            columns: The new columns, as a DDL string (`"score DOUBLE, band STRING"`), an Arrow
                field, a list of them, or a schema.

        Raises:
            SchemaError: A column exists, was dropped, or is not nullable.

        Example:
            >>> import pyarrow as pa, lakebed
            >>> t = lakebed.create_table(None, "memory://doc/add", "id BIGINT, v STRING", key="id")
            >>> _ = t.insert(pa.table({"id": [1], "v": ["a"]}))
            >>> _ = t.add_columns("score DOUBLE")
            >>> t.read().read_all().to_pylist()
            [{'id': 1, 'v': 'a', 'score': None}]
        """
        self._check_writable()
        fields = given_fields(columns)
        commit, self._config = self._act(lambda target: execute_add_columns(target, fields))
        return commit

    def widen_column(self, name: str, kind: object) -> Commit:
        """Change the type of a column to a wider one, in a commit that writes no data file.

        Args:
            name: The column.
            kind: The wider type, as a string (`"BIGINT"`) or an Arrow type: INT to BIGINT or
                DOUBLE, FLOAT to DOUBLE, integers and decimals to larger decimals. In a struct, also
                new fields.

        Raises:
            SchemaError: There is no such column, or the type is not wider.
            UnsupportedError: The table has column groups.
        """
        self._check_writable()
        wider = given_type(kind)
        commit, self._config = self._act(lambda target: execute_widen_column(target, name, wider))
        return commit

    def check_droppable(self, names: Sequence[str]) -> None:
        """Raise the error that `drop_column` would raise for the first of these columns.

        Args:
            names: Columns to drop one after the other.
        """
        snapshot = self._snapshot(None)
        left = snapshot.schema
        for name in names:
            check_droppable(self._config, left, name)
            left = pa.schema([field for field in left if field.name != name])


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
