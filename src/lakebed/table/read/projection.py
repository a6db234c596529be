"""Converts the columns of a file to the columns of the table's schema."""

from collections.abc import Sequence

import pyarrow as pa

from lakebed.errors import SchemaError
from lakebed.format.names.java_text import column_text
from lakebed.format.names.meta_columns import META_FIELDS
from lakebed.table.config.schema import find_field
from lakebed.table.read.conform import cast_exactly, check_nulls, conform_array


def project(schema: pa.Schema, columns: Sequence[str] | None) -> list[pa.Field]:
    """Return the fields of `columns`, which may be meta columns; None means all of `schema`.

    Raises SchemaError, naming the column, if the table does not have it.
    """
    if columns is None:
        return list(schema)
    known = {**{f.name: f for f in META_FIELDS}, **{f.name: f for f in schema}}
    for name in columns:
        if name not in known:
            raise SchemaError(f"column {name!r}: the table has no such column")
    return [known[name] for name in columns]


def find_columns(present: pa.Schema, fields: Sequence[pa.Field]) -> list[str]:
    """Return the names of `fields` in a file, leaving out fields that the file lacks."""
    there = list(present)
    positions = [find_field(there, field.name) for field in fields]
    return [there[position].name for position in positions if position is not None]


def shape(batch: pa.RecordBatch, target: pa.Schema) -> pa.RecordBatch:
    """Convert a batch of a file to `target` as Hudi reads it; missing columns become null."""
    present = list(batch.schema)
    arrays = []
    for field in target:
        position = find_field(present, field.name)
        if position is None:
            array = pa.nulls(batch.num_rows, field.type)
        else:
            column = batch.column(position)
            array = conform_array(column, field, field.name, cast_stored, strict=False)
        check_nulls(array, field, field.name)
        arrays.append(array)
    return with_columns(batch, arrays, target)


def with_columns(
    batch: pa.RecordBatch, arrays: Sequence[pa.Array], target: pa.Schema
) -> pa.RecordBatch:
    """Return the rows of `batch` with other columns; without columns, only their number is kept."""
    if not arrays:
        return batch.select([])
    return pa.RecordBatch.from_arrays(arrays, schema=target)


def cast_stored(array: pa.Array, target: pa.DataType) -> pa.Array | None:
    """Return a file's values in a column's type as Hudi reads them; None if Hudi cannot.

    More types are read than are written: Avro's enum, fixed and times, numbers as strings in Java's
    format, and whole numbers as floats, which are rounded.
    """
    source = array.type
    if pa.types.is_integer(source) and pa.types.is_floating(target):
        return array.cast(target, safe=False)
    if target == pa.string() and (pa.types.is_integer(source) or source in _FLOATS):
        # Hudi also shows the partition column of a timestamp key generator as a string, and an
        # update by its SQL leaves that type in the table's schema.
        return column_text(array, "")
    if _is_other_spelling(source, target):
        return array.cast(target, safe=True)
    return cast_exactly(array, target)


_FLOATS = (pa.float32(), pa.float64())


def _is_other_spelling(source: pa.DataType, target: pa.DataType) -> bool:
    if pa.types.is_fixed_size_binary(source) or pa.types.is_binary(source):
        return bool(target in (pa.string(), pa.binary()))
    if pa.types.is_time(source):
        return bool(pa.types.is_time(target))
    # INT96 has no zone; Spark too uses the table's type here.
    return bool(pa.types.is_timestamp(source) and pa.types.is_timestamp(target))
