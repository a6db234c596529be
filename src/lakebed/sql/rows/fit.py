"""Fit the rows of a query to the columns that an INSERT names: by position or by name."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from lakebed.errors import InvalidError, SchemaError
from lakebed.model.spelling import listed, nearest
from lakebed.sql.rows.assign import fits, stored
from lakebed.table.config.ddl import type_text
from lakebed.table.config.schema import normalise

_MOST_DIGITS = 38


@dataclass(frozen=True, slots=True)
class Target:
    """The columns of a table that receive the columns of a query, in the query's order.

    `fixed` are columns with one value for all rows.
    """

    table: str
    schema: pa.Schema
    names: Sequence[str]
    fixed: Mapping[str, object] = field(default_factory=dict)
    by_name: bool = False


def fit_rows(rows: Any, target: Target) -> Any:
    """Return the rows with the names and types of the table's columns.

    `rows` is a DataFrame, a RecordBatchReader or a pyarrow Table.
    """
    if isinstance(rows, (pa.Table, pa.RecordBatchReader)):
        return _fit_arrow(rows, target)
    from lakebed.sql.query.frames import columns_of, fitted_frame  # noqa: PLC0415 - pyspark is heavy

    given = columns_of(rows)
    names = _matched(given.names, target)
    for at, name in enumerate(names):
        if not fits(given.field(at).type, target.schema.field(name).type):
            raise _mismatch(target, name, given.field(at).type)
    return fitted_frame(rows, names, target.schema, _constants(target, names))


def _fit_arrow(rows: pa.Table | pa.RecordBatchReader, target: Target) -> pa.RecordBatchReader:
    reader = rows.to_reader() if isinstance(rows, pa.Table) else rows
    names = _matched(reader.schema.names, target)
    constants = _constants(target, names)
    fields = [target.schema.field(name).with_nullable(True) for name in (*names, *constants)]
    schema = pa.schema(fields)
    for at, name in enumerate(names):
        given = reader.schema.field(at).type
        if not fits(_normal(given), target.schema.field(name).type):
            raise _mismatch(target, name, given)

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in reader:
            columns = [
                _cast(batch.column(at), one.type) for at, one in enumerate(fields[: len(names)])
            ]
            columns += [
                pa.repeat(pa.scalar(constants[one.name], one.type), batch.num_rows)
                for one in fields[len(names) :]
            ]
            yield pa.record_batch(columns, schema=schema)

    return pa.RecordBatchReader.from_batches(schema, batches())


def _cast(values: pa.Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_decimal(kind) and pa.types.is_integer(values.type):
        # Arrow refuses a type that does not hold every integer; here it must hold these.
        values = values.cast(pa.decimal128(_MOST_DIGITS, kind.scale))
    return values.cast(kind)


def _matched(given: Sequence[str], target: Target) -> list[str]:
    """Return the column of the table for each column of the query."""
    if not target.by_name:
        if len(given) != len(target.names):
            raise InvalidError(
                f"table {target.table!r}: the query returns {len(given)} columns "
                f"({listed(given)}), expected {len(target.names)} ({', '.join(target.names)})"
            )
        return list(target.names)
    spelled = {name.lower(): name for name in target.names}
    for name in given:
        if name.lower() not in spelled:
            raise SchemaError(
                f"table {target.table!r}: no column {name!r}{nearest(name, target.names)}; it has "
                f"{listed(target.names)}"
            )
    return [spelled[name.lower()] for name in given]


def _constants(target: Target, names: Sequence[str]) -> dict[str, object]:
    """Return the values of the columns that the query does not return; null if none is fixed."""
    fixed = {
        name: stored(pa.scalar(value), target.schema.field(name).type, name, repr(value)).as_py()
        for name, value in target.fixed.items()
    }
    left = [name for name in target.schema.names if name not in (*names, *fixed)]
    for name in left:
        if not target.schema.field(name).nullable:
            raise SchemaError(
                f"table {target.table!r}: column {name!r} needs a value: it is NOT NULL"
            )
    return fixed | dict.fromkeys(left)


def _normal(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_null(kind):
        return kind
    return normalise(pa.schema([pa.field("column", kind)])).field(0).type


def _mismatch(target: Target, name: str, given: pa.DataType) -> SchemaError:
    wanted = type_text(target.schema.field(name).type)
    return SchemaError(
        f"table {target.table!r}: column {name!r} is {wanted}, and the query returns "
        f"{type_text(given)} for it; cast it: CAST(... AS {wanted.upper()})"
    )
