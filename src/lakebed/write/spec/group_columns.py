"""Divides the columns of a write among the column groups that it touches."""

from dataclasses import dataclass

import pyarrow as pa

from lakebed.errors import SchemaError
from lakebed.groups.definition import ColumnGroups
from lakebed.table.config.schema import evolve, find_field, schema_changes
from lakebed.write.spec.intake import Intake
from lakebed.write.spec.operation import Kind, Operation
from lakebed.write.spec.write_spec import TouchedGroup


@dataclass(frozen=True, slots=True)
class Divided:
    """The columns that a write stores, and those of each column group."""

    staged: pa.Schema
    touched: tuple[TouchedGroup, ...]


def divide_columns(
    table: str,
    operation: Operation,
    known: pa.Schema,
    rows: pa.Schema,
    intake: Intake,
    groups: ColumnGroups,
    marks_deletes: bool,
) -> Divided:
    """Return the column groups that a write touches, and its columns in each.

    Rows must have all columns of a group or none, except in an update of some columns. With
    `marks_deletes` some rows may be deletes, which apply to every group.
    """
    names = _checked_names(table, known, rows, intake)
    whole = operation.kind is not Kind.UPDATE_COLUMNS
    if whole and intake.fill_missing:
        names = known.names
    owners = groups.touched(names) or ("",)
    touched = [_touch(name, known, names, groups, whole=whole) for name in owners]
    if marks_deletes:
        for name in groups.names:
            if name not in owners:
                ordering = () if intake.flagged else _ordering(name, names, groups, "a delete")
                held = [*groups.shared, *ordering]
                schema = pa.schema([field for field in known if field.name in held])
                touched.append(TouchedGroup(name, schema, deletes=True))
    kept = {name for group in touched for name in group.schema.names}
    return Divided(pa.schema([f for f in known if f.name in kept]), tuple(touched))


def _checked_names(table: str, known: pa.Schema, rows: pa.Schema, intake: Intake) -> list[str]:
    """Return the columns as the table spells them; raise an error for new columns and wider types."""
    positions = [find_field(list(known), name) for name in rows.names]
    there = pa.schema([known.field(at).with_nullable(True) for at in positions if at is not None])
    changes = schema_changes(there, evolve(there, rows))
    if changes:
        how = "evolve=True has no effect here. " if intake.evolve else ""
        raise SchemaError(
            f"table {table!r}: {'; '.join(changes)}. {how}Writes do not change the columns of a table "
            "with column groups: call add_column_group with new columns, or leave out or cast the "
            "columns that differ"
        )
    return list(there.names)


def _touch(
    name: str, known: pa.Schema, names: list[str], groups: ColumnGroups, *, whole: bool
) -> TouchedGroup:
    own = [c for c in known.names if c not in groups.shared and groups.owner(c) == name]
    missing = [column for column in own if column not in names]
    title = _title(name)
    ordering = _ordering(name, names, groups, "a write")
    if missing and whole:
        raise SchemaError(
            f"column {missing[0]!r} is missing; {title} has {', '.join(own)}: give all columns of a "
            "group or none, or call update_columns, which keeps the values of missing columns; "
            "fill_missing=True writes whole rows, with null in the missing columns of all groups"
        )
    held = {*groups.shared, *ordering, *own} - set(missing)
    return TouchedGroup(
        name, pa.schema([f for f in known if f.name in held]), partial=bool(missing)
    )


def _ordering(name: str, names: list[str], groups: ColumnGroups, what: str) -> tuple[str, ...]:
    """Return the ordering columns of a group; raise SchemaError if the rows lack one."""
    found = groups.ordering_of(name)
    for column in found:
        if column not in names:
            raise SchemaError(
                f"ordering column {column!r} is missing: {_title(name)} orders the versions of a row "
                f"by it, and {what} that affects the group needs its value; the input has "
                f"{', '.join(names)}"
            )
    return found


def _title(name: str) -> str:
    return f"column group {name!r}" if name else "the default column group"
