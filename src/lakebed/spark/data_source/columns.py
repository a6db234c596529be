"""The columns that a read asks for, against those of the table."""

from collections.abc import Iterable

import pyarrow as pa

from lakebed.errors import InvalidError, SchemaError
from lakebed.format.names.meta_columns import META_FIELDS
from lakebed.model.spelling import nearest
from lakebed.spark.schema import arrow_to_spark, spark_layout
from lakebed.table.read.conform import conform_array
from lakebed.table.snapshot import Snapshot


def full_schema(snapshot: Snapshot) -> pa.Schema:
    """Return the meta columns and the table's columns."""
    return pa.schema([*META_FIELDS, *snapshot.schema])


def real_names(asked: Iterable[pa.Field], full: pa.Schema) -> list[str]:
    """Return the table's spelling of the requested columns."""
    return [_found(full, field.name).name for field in asked]


def _found(full: pa.Schema, name: str) -> pa.Field:
    near = [field for field in full if field.name.lower() == name.lower()]
    exact = [field for field in near if field.name == name]
    if len(exact or near) != 1:
        raise SchemaError(
            f"no column {name!r}{nearest(name, full.names)}; the table has {', '.join(full.names)}"
        )
    return (exact or near)[0]


def check_columns(asked: pa.Schema, full: pa.Schema) -> None:
    """Raise an error if the user's schema is not a selection of the table's columns."""
    if not asked.names:
        raise InvalidError("schema: expected at least one column")
    for field in asked:
        held = _found(full, field.name)
        known = spark_layout(arrow_to_spark(pa.schema([held]))).field(0)
        if field.type != known.type:
            raise SchemaError(
                f"column {field.name!r}: the table has {known.type}, and the schema asks for "
                f"{field.type}; cast the column after reading"
            )
        if held.nullable and not field.nullable:
            raise SchemaError(f"column {field.name!r} is nullable in the table; remove NOT NULL")


def exactly(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Cast a batch to exactly the types that Spark expects, because Spark checks only the first."""
    names = {name.lower(): position for position, name in enumerate(batch.schema.names)}
    columns = []
    for field in schema:
        position = batch.schema.get_field_index(field.name)
        held = batch.column(names[field.name.lower()] if position < 0 else position)
        columns.append(conform_array(held, field, field.name))
    return pa.RecordBatch.from_arrays(columns, schema=schema)
