"""The rules for the columns of a group, which are checked when it is defined."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import pyarrow as pa

from lakebed.errors import InvalidError, SchemaError
from lakebed.groups.definition import ColumnGroup
from lakebed.model.spelling import nearest


def settle_group(
    group: ColumnGroup,
    schema: pa.Schema,
    key: Sequence[str],
    partition: Sequence[str],
    ordering: Sequence[str],
) -> ColumnGroup:
    """Return the group without columns that every group stores; raise an error if it is invalid.

    A definition may list the key columns or omit them. The same holds for the table's ordering
    column, unless the group has its own.
    """
    what = f"column group {group.name!r}"
    for name in group.columns:
        if name not in schema.names:
            raise SchemaError(
                f"{what}: no column {name!r}{nearest(name, schema.names)}; the columns there are: "
                f"{', '.join(schema.names)}"
            )
    listed = [name for name in key if name in group.columns]
    if listed and len(listed) < len(key):
        missing = next(name for name in key if name not in group.columns)
        raise InvalidError(
            f"{what}: it lists the key column {listed[0]!r} and not {missing!r}; list all key columns "
            "or none: every group holds them"
        )
    own = group.ordering if group.ordering not in ordering else None
    if own in (*key, *partition):
        raise InvalidError(
            f"{what}: {own!r} is a key or partition column and has the same value in every version "
            "of a row; name another ordering column"
        )
    if own is not None and pa.types.is_binary(schema.field(own).type):
        raise SchemaError(
            f"{what}: the ordering column {own!r} is binary; use a number, a string, a date or a "
            "timestamp"
        )
    shared = {*key, *partition, *ordering}
    columns = tuple(name for name in group.columns if name not in shared)
    if not columns:
        raise InvalidError(
            f"{what}: expected at least one column other than {', '.join(sorted(shared))}"
        )
    for name in columns:
        if not schema.field(name).nullable and name != own:
            raise SchemaError(
                f"{what}: column {name!r} may not be null, but a row written through another group "
                "has no value for it; only key, partition and ordering columns can be NOT NULL"
            )
    return replace(group, columns=columns, ordering=own)


def check_apart(groups: Iterable[ColumnGroup]) -> None:
    """Raise an error if a column is in two groups, or if names of groups differ only by case."""
    owners: dict[str, str] = {}
    names: dict[str, str] = {}
    for group in groups:
        if (other := names.setdefault(group.name.lower(), group.name)) != group.name:
            raise InvalidError(
                f"column groups {other!r} and {group.name!r}: the names differ only by case"
            )
        for name in group.columns:
            owner = owners.setdefault(name, group.name)
            if owner != group.name:
                raise InvalidError(
                    f"column {name!r} is in the column groups {owner!r} and {group.name!r}; only key "
                    "and partition columns can be in several groups"
                )


def check_default(
    groups: Sequence[ColumnGroup],
    schema: pa.Schema,
    key: Sequence[str],
    partition: Sequence[str],
    ordering: Sequence[str],
) -> None:
    """Raise an error if a column of the default group is NOT NULL."""
    grouped = {name for group in groups for name in group.columns}
    for field in schema:
        free = field.name not in (*key, *partition, *ordering, *grouped)
        if free and not field.nullable:
            raise SchemaError(
                f"column {field.name!r} may not be null, but in a table with column groups a row "
                "written through another group has no value for it; only key, partition and ordering "
                "columns can be NOT NULL"
            )


def nullable_schema(schema: pa.Schema, key: Sequence[str], partition: Sequence[str]) -> pa.Schema:
    """Return the schema with all columns nullable, except key and partition columns.

    Ordering columns are nullable too, because a row may have no version in a group.
    """
    fixed = {*key, *partition}
    return pa.schema([f if f.name in fixed else f.with_nullable(True) for f in schema])
