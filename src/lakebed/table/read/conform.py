"""Converts batches to a schema by column name; casts keep every value, in nested types too."""

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import SchemaError
from lakebed.format.files.float_widening import widen_column
from lakebed.table.config.schema import find_field, is_list_like, join_path, widens

Cast = Callable[[pa.Array, pa.DataType], pa.Array | None]


def castable(source: pa.DataType, target: pa.DataType) -> bool:
    """Return whether a cast between two types is allowed; each value is checked when it is cast.

    Allowed are widening, variants of one type, and whole numbers and decimals that fit.
    """
    if widens(source, target):
        return True
    if pa.types.is_timestamp(source) and pa.types.is_timestamp(target):
        return (source.tz is None) == (target.tz is None)
    if pa.types.is_integer(source):
        return bool(pa.types.is_integer(target) or target == pa.float64())
    if pa.types.is_decimal(source) and pa.types.is_decimal(target):
        return True
    texts = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    if any(is_text(source) for is_text in texts):
        return bool(target == pa.string())
    blobs = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view)
    return any(is_blob(source) for is_blob in blobs) and bool(target == pa.binary())


def cast_exactly(array: pa.Array, target: pa.DataType) -> pa.Array | None:
    """Return the values cast to a type that can hold them; None for any other type.

    Raises ArrowInvalid for a value that would change. A float becomes the double of its decimal
    string, as in Hudi.
    """
    if not castable(array.type, target):
        return None
    if pa.types.is_float32(array.type) and pa.types.is_float64(target):
        return widen_column(array)
    return array.cast(target, safe=True)


def conform(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return `batch` with exactly the columns of `schema`, in its order and types.

    Columns are matched by name, or ignoring case if that is unique; missing columns are null.
    Raises SchemaError, naming the column, for a column that the schema does not have, a type that
    does not match, a value that would change, or a null in a column that is not nullable.
    """
    fields = list(batch.schema)
    positions = [find_field(fields, name) for name in schema.names]
    _refuse_strangers(fields, positions, "")
    columns = [
        pa.nulls(batch.num_rows, field.type)
        if position is None
        else conform_array(_with_offsets(batch.column(position)), field, field.name)
        for field, position in zip(schema, positions, strict=True)
    ]
    for field, column in zip(schema, columns, strict=True):
        check_nulls(column, field, field.name)
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _with_offsets(array: pa.Array) -> pa.Array:
    # An empty list inside of an array may come without offsets, above all from Java. Arrow's format
    # allows that, but not all of its code looks: `nbytes` reads the first offset nevertheless.
    nested = pa.types.is_nested(array.type)
    if nested and any(buffer is not None and not buffer.size for buffer in array.buffers()):
        return pa.concat_arrays([array, array.slice(0, 0)])
    return array


def conform_array(
    array: pa.Array, field: pa.Field, path: str, cast: Cast = cast_exactly, strict: bool = True
) -> pa.Array:
    """Cast one column to the type of `field`, structs by the names of their fields.

    `cast` returns the values of a scalar column in another type, or None if that cast is not
    allowed. Struct fields that `field` does not have are rejected if `strict`, otherwise dropped.
    Nulls are left to `check_nulls`.
    """
    if array.type == field.type:
        return array
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), field.type)
    if pa.types.is_dictionary(array.type):
        return conform_array(array.dictionary_decode(), field, path, cast, strict)
    if pa.types.is_struct(field.type) and pa.types.is_struct(array.type):
        return _conform_struct(array, field.type, path, cast, strict)
    if pa.types.is_list(field.type) and is_list_like(array.type):
        return _conform_list(array, field.type, path, cast, strict)
    if pa.types.is_map(field.type) and pa.types.is_map(array.type):
        return _conform_map(array, field.type, path, cast, strict)
    return _cast(array, field.type, path, cast)


def _cast(array: pa.Array, target: pa.DataType, path: str, cast: Cast) -> pa.Array:
    try:
        found = cast(array, target)
    except pa.ArrowInvalid as error:
        raise SchemaError(
            f"column {path!r}: expected {target}, found a value of {array.type} that it cannot hold"
            f" ({error}){_remedy(array.type, path)}"
        ) from error
    if found is None:
        raise SchemaError(f"column {path!r}: expected {target}, found {array.type}")
    return found


def _remedy(source: pa.DataType, path: str) -> str:
    """Return a hint on how to drop nanoseconds before writing; '' for other values."""
    if not pa.types.is_timestamp(source) or source.unit != "ns":
        return ""
    cut = "datetime64[us]" if source.tz is None else f"datetime64[us, {source.tz}]"
    return (
        "; a table stores microseconds: truncate the values before writing, in pandas with "
        f'df["{path}"] = df["{path}"].astype("{cut}")'
    )


def _conform_struct(
    array: pa.StructArray, target: pa.DataType, path: str, cast: Cast, strict: bool
) -> pa.StructArray:
    fields = list(array.type)
    positions = [find_field(fields, f.name) for f in target]
    if strict:
        _refuse_strangers(fields, positions, path)
    children = [
        pa.nulls(len(array), field.type)
        if position is None
        else conform_array(array.field(position), field, join_path(path, field.name), cast, strict)
        for field, position in zip(target, positions, strict=True)
    ]
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(children, fields=list(target), mask=mask)


def _window(array: pa.Array) -> tuple[pa.Array, int, int]:
    """Return a list's or map's offsets relative to its first value, and that value's position."""
    offsets = array.offsets
    if not len(array):  # it may have no offsets, see `_with_offsets`
        return pa.array([0], offsets.type), 0, 0
    start, stop = offsets[0].as_py(), offsets[-1].as_py()
    # Always a copy: Arrow accepts no null mask with sliced offsets.
    return pc.subtract(offsets, pa.scalar(start, offsets.type)), start, stop - start


def _conform_list(
    array: pa.Array, target: pa.DataType, path: str, cast: Cast, strict: bool
) -> pa.ListArray:
    if not pa.types.is_list(array.type):
        array = array.cast(pa.list_(array.type.value_field))
    offsets, start, count = _window(array)
    values = conform_array(
        array.values.slice(start, count), target.value_field, f"{path}.element", cast, strict
    )
    mask = array.is_null() if array.null_count else None
    return pa.ListArray.from_arrays(offsets, values, type=target, mask=mask)


def _conform_map(
    array: pa.MapArray, target: pa.DataType, path: str, cast: Cast, strict: bool
) -> pa.MapArray:
    offsets, start, count = _window(array)
    key = pa.field("key", target.key_type, nullable=False)
    keys = conform_array(array.keys.slice(start, count), key, f"{path}.key", cast, strict)
    items = conform_array(
        array.items.slice(start, count), target.item_field, f"{path}.value", cast, strict
    )
    mask = array.is_null() if array.null_count else None
    return pa.MapArray.from_arrays(offsets, keys, items, type=target, mask=mask)


def _refuse_strangers(fields: list[pa.Field], positions: list[int | None], path: str) -> None:
    for i, field in enumerate(fields):
        if i not in positions:
            raise SchemaError(
                f"column {join_path(path, field.name)!r}: the table has no such column;"
                " evolve its schema first"
            )


def check_nulls(array: pa.Array, field: pa.Field, path: str) -> None:
    """Raise an error for nulls where `field`, or a field inside it, is not nullable."""
    if not field.nullable and array.null_count:
        raise SchemaError(
            f"column {path!r}: expected a value in each row, found {array.null_count} nulls"
        )
    if not _has_required(field.type):
        return
    if pa.types.is_struct(field.type):
        # If the struct itself is null, its fields have no values.
        present = array.filter(array.is_valid()) if array.null_count else array
        for i, child in enumerate(field.type):
            check_nulls(present.field(i), child, join_path(path, child.name))
    elif pa.types.is_list(field.type):
        check_nulls(array.flatten(), field.type.value_field, f"{path}.element")
    else:
        _, start, count = _window(array)
        check_nulls(array.items.slice(start, count), field.type.item_field, f"{path}.value")


def _has_required(t: pa.DataType) -> bool:
    if pa.types.is_struct(t):
        return any(not f.nullable or _has_required(f.type) for f in t)
    if pa.types.is_list(t):
        return not t.value_field.nullable or _has_required(t.value_type)
    if pa.types.is_map(t):
        return not t.item_field.nullable or _has_required(t.item_type)
    return False
