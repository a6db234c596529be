"""The columns of one write, fitted to the columns of the table."""

from dataclasses import dataclass

import pyarrow as pa

from lakebed.errors import InvalidError, SchemaError, UnsupportedError
from lakebed.format.avro.avro_schema import arrow_to_avro
from lakebed.format.names.meta_columns import IS_DELETED, OUR_PREFIX, RECORD_KEY
from lakebed.groups.definition import NO_GROUPS, ColumnGroups
from lakebed.model.spelling import similar
from lakebed.table.config.merge_mode import MergeMode
from lakebed.table.config.schema import evolve, find_field, new_fields, normalise, schema_changes
from lakebed.table.config.table_config import TableConfig
from lakebed.write.spec.group_columns import divide_columns
from lakebed.write.spec.intake import Intake
from lakebed.write.spec.operation import Kind, Operation
from lakebed.write.spec.write_spec import Marker, TouchedGroup


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of one write, checked against the columns of the table."""

    staged: pa.Schema
    table: pa.Schema
    table_text: str
    markers: tuple[Marker, ...]
    touched: tuple[TouchedGroup, ...] = ()


def settle_columns(
    config: TableConfig,
    operation: Operation,
    known: pa.Schema,
    incoming: pa.Schema,
    intake: Intake,
    groups: ColumnGroups = NO_GROUPS,
) -> Columns:
    """Fit the incoming columns to the columns of the table.

    Raises an error, naming the column, if one does not fit.
    """
    if not config.record_key_fields:
        # Such a table generates its keys; rows that were read from the table carry their keys.
        incoming = pa.schema([field for field in incoming if field.name != RECORD_KEY])
    if incoming.names or config.record_key_fields or operation.kind is not Kind.DELETE:
        _check_given(incoming)
    markers = () if operation.kind is Kind.DELETE else _markers(config, incoming)
    if operation.kind is Kind.DELETE:
        fields = dict.fromkeys(delete_fields(config))
        _check_columns(config, incoming, tuple(fields), ())
        staged = pa.schema([known.field(name) for name in fields if name in known.names])
        # A delete applies to every column group.
        touched = tuple(TouchedGroup(name, staged) for name in groups.names) if groups else ()
        return Columns(staged, known, arrow_to_avro(known, config.name), (), touched)
    steering = {name for name, _ in markers}
    rows = pa.schema([f for f in incoming if f.name not in steering or _held(known, f)])
    if groups:
        _check_columns(config, rows, _needed(config), ())
        grouped = divide_columns(
            config.name, operation, known, rows, intake, groups, bool(markers) or intake.flagged
        )
        text = arrow_to_avro(known, config.name)
        return Columns(grouped.staged, known, text, markers, grouped.touched)
    _check_columns(config, rows, _needed(config), config.ordering_fields)
    if operation.kind is Kind.UPDATE_COLUMNS:
        _check_no_fill(config)
        table = _evolve_some(known, rows)
        names = [table.names[_found(table, name)] for name in rows.names]
        staged = pa.schema([field for field in table if field.name in names])
    else:
        if not operation.replaces_all and not intake.fill_missing:
            _check_all_there(known, rows)
        known = pa.schema([]) if operation.replaces_columns else known
        table = evolve(known, rows) if known.names else normalise(rows)
        staged = table
    check_spelling(config, known, table)
    if known.names:
        if not operation.replaces_all:
            check_not_dropped(config, known, table)
        _check_evolution(config, known, table, intake)
    return Columns(staged, table, arrow_to_avro(table, config.name), markers)


def delete_fields(config: TableConfig) -> tuple[str, ...]:
    """Return the columns that identify a row to delete; a global index needs no partition."""
    if config.index is not None and config.index.is_global:
        return config.record_key_fields
    return _needed(config)


def _held(known: pa.Schema, field: pa.Field) -> bool:
    return find_field(list(known), field.name) is not None


def _found(schema: pa.Schema, name: str) -> int:
    position = find_field(list(schema), name)
    assert position is not None, name
    return position


def _needed(config: TableConfig) -> tuple[str, ...]:
    return (*config.record_key_fields, *config.partition_fields)


def _markers(config: TableConfig, incoming: pa.Schema) -> tuple[Marker, ...]:
    """Return the columns that mark a row as a delete: either of them suffices.

    `_hoodie_is_deleted` need not be a column of the table: then it only controls the write.
    """
    found: list[Marker] = []
    for name, text in ((IS_DELETED, None), config.delete_marker or ("", None)):
        position = find_field(list(incoming), name) if name else None
        if position is None:
            continue
        kind = incoming.field(position).type
        if text is None and kind != pa.bool_():
            raise SchemaError(f"column {IS_DELETED!r}: expected boolean, found {kind}")
        if pa.types.is_nested(kind) or pa.types.is_binary(kind):
            raise SchemaError(
                f"column {name!r} marks deletes: expected a string or a number, found {kind}"
            )
        found.append((incoming.field(position).name, text))
    return tuple(found)


def _check_no_fill(config: TableConfig) -> None:
    """Raise an error if the table's values yield: Hudi does not define partial updates for them."""
    if config.fill is not None:
        gives_way = "a null" if config.fill.marker is None else repr(config.fill.marker)
        raise UnsupportedError(
            f"table {config.name!r} merges column by column, so some columns cannot be updated "
            f"alone: call upsert, with {gives_way} where the older value is to stay"
        )


def _evolve_some(known: pa.Schema, rows: pa.Schema) -> pa.Schema:
    """Evolve the schema by partial rows, which may lack non-nullable columns of existing rows."""
    needed = {field.name for field in known if not field.nullable}
    evolved = evolve(pa.schema([field.with_nullable(True) for field in known]), rows)
    return pa.schema([f.with_nullable(False) if f.name in needed else f for f in evolved])


def _misspelled(name: str, known: pa.Schema, incoming: pa.Schema) -> str:
    near = similar(name, [one for one in incoming.names if find_field(list(known), one) is None])
    return f" (the rows have {near!r})" if near else ""


def _check_all_there(known: pa.Schema, incoming: pa.Schema) -> None:
    """Raise an error for rows that lack a column of the table: null would overwrite its values."""
    missing = [
        field
        for field in known
        if field.name != IS_DELETED and find_field(list(incoming), field.name) is None
    ]
    if missing:
        name = missing[0].name
        fill = "pass fill_missing=True to write null there, " if missing[0].nullable else ""
        raise SchemaError(
            f"column {name!r} is missing{_misspelled(name, known, incoming)}; the table has {', '.join(known.names)}: give every column, "
            f"{fill}or call update_columns, which keeps the values of missing columns"
        )


def _check_evolution(
    config: TableConfig, known: pa.Schema, table: pa.Schema, intake: Intake
) -> None:
    """Raise an error for schema changes that the caller has not asked for."""
    changes = schema_changes(known, table)
    if changes and not intake.evolve:
        raise SchemaError(
            f"table {config.name!r}: {'; '.join(changes)}. To change the table's columns, pass "
            'evolve=True (with format("lakebed"): leave out mergeSchema=false); otherwise '
            "leave out or cast the columns that differ"
        )


def check_not_dropped(config: TableConfig, known: pa.Schema, table: pa.Schema) -> None:
    """Raise an error for a new column with the name of a dropped one.

    Older files still hold its values, which would reappear.
    """
    for name in new_fields(known, table):
        if name.lower() in (dropped.lower() for dropped in config.dropped_columns):
            raise SchemaError(
                f"table {config.name!r}: column {name!r} was dropped, and older files still hold its "
                "values, which would reappear: use another name, or rewrite the table with "
                "insert_overwrite(rows, whole_table=True, evolve=True)"
            )


def check_spelling(config: TableConfig, before: pa.Schema, after: pa.Schema) -> None:
    """Raise an error for a wider key or partition column whose values would be formatted differently.

    `1` as an int is the key `1`, as a double `1.0`: the same row would exist twice.
    """
    for name in _needed(config):
        if name not in before.names:
            continue
        old, new = before.field(name).type, after.field(name).type
        if old != new and not (pa.types.is_integer(old) and pa.types.is_integer(new)):
            raise SchemaError(
                f"column {name!r} is part of the key or the partition: expected {old} as before, found "
                f"{new}, which would format its values differently"
            )


def _check_columns(
    config: TableConfig, schema: pa.Schema, fields: tuple[str, ...], ordering: tuple[str, ...]
) -> None:
    """Raise an error for rows that lack a key, partition or ordering column."""
    ordered = config.merge_mode is not MergeMode.COMMIT_TIME_ORDERING
    for name in (*fields, *(ordering if ordered else ())):
        if find_field(list(schema), name) is None:
            kind = (
                "record key"
                if name in config.record_key_fields
                else "partition"
                if name in config.partition_fields
                else "ordering"
            )
            raise SchemaError(
                f"{kind} column {name!r} is missing; the input has {', '.join(schema.names)}"
            )


def _check_given(schema: pa.Schema) -> None:
    """Raise an error for reserved names, and for names that occur twice."""
    if not schema.names:
        raise InvalidError("the input has no columns")
    for name in schema.names:
        if name.lower().startswith(OUR_PREFIX):
            raise SchemaError(
                f"column {name!r}: names beginning with {OUR_PREFIX} are Lakebed's own"
            )
        if schema.names.count(name) > 1:
            raise SchemaError(f"column {name!r} occurs twice")
