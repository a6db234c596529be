"""A table's columns: which types are legal, how they may change, how a batch fits them.

A table has a logical schema (what the user named: bool, int8 to int64, float, double,
decimal128, string, binary, date32, timestamp[us] with UTC or without a zone, and lists,
string-keyed maps and structs of these) and files hold its storage types (`storage_type`).
"""

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import SchemaError
from lakebed.format.avro_schema import MAX_DEPTH, check_name
from lakebed.format.meta_columns import IS_DELETED, META_PREFIX

_INT_DIGITS = {pa.int8(): 10, pa.int16(): 10, pa.int32(): 10, pa.int64(): 20}
_INTS = (pa.int8(), pa.int16(), pa.int32(), pa.int64())

_SCALARS = frozenset(
    {pa.bool_(), *_INTS, pa.float32(), pa.float64(), pa.string(), pa.binary(), pa.date32()}
)

_WIDER: dict[pa.DataType, frozenset[pa.DataType]] = {
    pa.int8(): frozenset({pa.int16(), pa.int32(), pa.int64(), pa.float64()}),
    pa.int16(): frozenset({pa.int32(), pa.int64(), pa.float64()}),
    pa.int32(): frozenset({pa.int64(), pa.float64()}),
    pa.float32(): frozenset({pa.float64()}),
}

Castable = Callable[[pa.DataType, pa.DataType], bool]


def normalise(schema: pa.Schema) -> pa.Schema:
    """Give the logical schema that a table of these columns has.

    The many spellings of one type (large and view strings, dictionaries, seconds and
    milliseconds, large lists) become one, and metadata goes. Raises SchemaError naming
    the column for a type or a name that no table can hold.
    """
    if not len(schema):
        raise SchemaError("a table needs at least one column")
    for name in schema.names:
        if name.startswith(META_PREFIX) and name != IS_DELETED:
            raise SchemaError(f"column {name!r}: names beginning with {META_PREFIX} are Hudi's own")
    return pa.schema(_normal_fields(list(schema), "", 1))


def _normal_fields(fields: list[pa.Field], path: str, depth: int) -> list[pa.Field]:
    seen: dict[str, str] = {}
    for field in fields:
        here = _join(path, field.name)
        if not field.name:
            raise SchemaError(f"column {here!r}: a column needs a name")
        check_name(field.name, here)
        folded = field.name.lower()
        if folded in seen:
            raise SchemaError(
                f"column {here!r}: there is {seen[folded]!r} already, and Spark does not tell"
                " case apart"
            )
        seen[folded] = field.name
    return [
        pa.field(f.name, _normal_type(f.type, _join(path, f.name), depth), f.nullable)
        for f in fields
    ]


def _normal_type(t: pa.DataType, path: str, depth: int) -> pa.DataType:
    if depth > MAX_DEPTH:
        raise SchemaError(f"column {path!r}: want at most {MAX_DEPTH} levels of nesting")
    if pa.types.is_dictionary(t):
        return _normal_type(t.value_type, path, depth)
    scalar = _normal_scalar(t, path)
    if scalar is not None:
        return scalar
    if pa.types.is_struct(t):
        if not t.num_fields:
            raise SchemaError(f"column {path!r}: a struct needs at least one field")
        return pa.struct(_normal_fields(list(t), path, depth + 1))
    if is_list_like(t):
        value = _normal_type(t.value_type, f"{path}.element", depth + 1)
        return pa.list_(pa.field("element", value, t.value_field.nullable))
    if pa.types.is_map(t):
        key = _normal_type(t.key_type, f"{path}.key", depth + 1)
        if key != pa.string():
            raise SchemaError(f"column {path!r}: want string map keys, got {t.key_type}")
        value = _normal_type(t.item_type, f"{path}.value", depth + 1)
        return pa.map_(key, pa.field("value", value, t.item_field.nullable))
    raise SchemaError(f"column {path!r}: a table cannot hold the type {t}")


def _normal_scalar(t: pa.DataType, path: str) -> pa.DataType | None:
    if t in _SCALARS:
        return t
    if pa.types.is_large_string(t) or pa.types.is_string_view(t):
        return pa.string()
    if pa.types.is_large_binary(t) or pa.types.is_binary_view(t):
        return pa.binary()
    if pa.types.is_timestamp(t):
        if t.unit == "ns":
            raise SchemaError(
                f"column {path!r}: want microseconds, got {t}, which Spark would cut off: cast it"
            )
        # Arrow's zone only tells how to show the instant; the numbers are UTC already.
        return pa.timestamp("us", None if t.tz is None else "UTC")
    if pa.types.is_decimal(t):
        if t.precision > 38 or not 0 <= t.scale <= t.precision:
            raise SchemaError(f"column {path!r}: want a decimal of at most 38 digits, got {t}")
        return pa.decimal128(t.precision, t.scale)
    return None


def storage_type(t: pa.DataType) -> pa.DataType:
    """Give the type that files hold: int8 and int16 become int32, at any depth."""
    if t in (pa.int8(), pa.int16()):
        return pa.int32()
    if pa.types.is_struct(t):
        return pa.struct([f.with_type(storage_type(f.type)) for f in t])
    if pa.types.is_list(t):
        return pa.list_(t.value_field.with_type(storage_type(t.value_type)))
    if pa.types.is_map(t):
        return pa.map_(t.key_type, t.item_field.with_type(storage_type(t.item_type)))
    return t


def storage_schema(schema: pa.Schema) -> pa.Schema:
    """Give the schema that files of a table with this logical schema hold."""
    return pa.schema([f.with_type(storage_type(f.type)) for f in schema])


def widens(narrow: pa.DataType, wide: pa.DataType) -> bool:
    """Tell whether files of `narrow` can be read as `wide` without loss, by Spark and by Hudi.

    Spark 4 (`ParquetVectorUpdaterFactory`) also reads dates as timestamps without zone,
    but Hudi's readers do not, and Hudi reads long as double, which loses digits.
    """
    if pa.types.is_decimal(wide):
        if pa.types.is_decimal(narrow):
            more_scale = wide.scale - narrow.scale
            return bool(more_scale >= 0 and wide.precision - narrow.precision >= more_scale)
        return narrow in _INT_DIGITS and wide.precision - wide.scale >= _INT_DIGITS[narrow]
    return wide in _WIDER.get(narrow, ())


def evolve(current: pa.Schema, incoming: pa.Schema) -> pa.Schema:
    """Give the table's schema after a write of `incoming` columns.

    New columns go to the end, nullable, in structs too; a wider type replaces a narrower
    one; a narrower one changes nothing, since its values are cast up; a column without
    any value (type null) changes nothing. Columns missing in `incoming` stay and must be
    nullable. Columns that must not be null stay so: a nullable column may hold no null,
    and `conform` looks. Raises SchemaError naming the column, the want and the got.
    """
    typed = [_without_nulls(field, list(current)) for field in incoming]
    return pa.schema(_evolve_fields(list(current), list(normalise(pa.schema(typed))), ""))


def _without_nulls(field: pa.Field, current: list[pa.Field]) -> pa.Field:
    """Give a field without values (an empty list has no type either) the table's type."""
    position = find_field(current, field.name)
    if position is None:
        return field
    known, t = current[position].type, field.type
    if pa.types.is_null(t):
        return field.with_type(known)
    if pa.types.is_struct(t) and pa.types.is_struct(known):
        return field.with_type(pa.struct([_without_nulls(f, list(known)) for f in t]))
    if is_list_like(t) and pa.types.is_list(known):
        element = _without_nulls(
            t.value_field.with_name("element"), [known.value_field.with_name("element")]
        )
        return field.with_type(pa.list_(element))
    if pa.types.is_map(t) and pa.types.is_map(known):
        value = _without_nulls(
            t.item_field.with_name("value"), [known.item_field.with_name("value")]
        )
        return field.with_type(pa.map_(t.key_type, value))
    return field


def _evolve_fields(current: list[pa.Field], incoming: list[pa.Field], path: str) -> list[pa.Field]:
    evolved = []
    matched = set()
    for field in current:
        here = _join(path, field.name)
        position = find_field(incoming, field.name)
        if position is None:
            if not field.nullable:
                raise SchemaError(f"column {here!r}: want a value in each row, got no such column")
            evolved.append(field)
            continue
        matched.add(position)
        evolved.append(field.with_type(_evolve_type(field.type, incoming[position].type, here)))
    added = [f.with_nullable(True) for i, f in enumerate(incoming) if i not in matched]
    return evolved + added


def _evolve_type(current: pa.DataType, incoming: pa.DataType, path: str) -> pa.DataType:
    if current == incoming or widens(incoming, current):
        return current
    if widens(current, incoming):
        return incoming
    if pa.types.is_struct(current) and pa.types.is_struct(incoming):
        return pa.struct(_evolve_fields(list(current), list(incoming), path))
    if pa.types.is_list(current) and pa.types.is_list(incoming):
        value = _evolve_type(current.value_type, incoming.value_type, f"{path}.element")
        return pa.list_(current.value_field.with_type(value))
    if pa.types.is_map(current) and pa.types.is_map(incoming):
        value = _evolve_type(current.item_type, incoming.item_type, f"{path}.value")
        return pa.map_(current.key_type, current.item_field.with_type(value))
    raise SchemaError(f"column {path!r}: want {current} or what it widens to, got {incoming}")


def find_field(fields: list[pa.Field], name: str) -> int | None:
    """Find a field by its name, or by its name but for case if that is unique."""
    for i, field in enumerate(fields):
        if field.name == name:
            return i
    alike = [i for i, field in enumerate(fields) if field.name.lower() == name.lower()]
    return alike[0] if len(alike) == 1 else None


def is_list_like(t: pa.DataType) -> bool:
    """Tell whether Arrow has `t` as one of its several kinds of list."""
    return bool(
        pa.types.is_list(t)
        or pa.types.is_large_list(t)
        or pa.types.is_fixed_size_list(t)
        or pa.types.is_list_view(t)
        or pa.types.is_large_list_view(t)
    )


def castable(source: pa.DataType, target: pa.DataType) -> bool:
    """Tell whether values of a batch may be cast to a column, each checked to keep its value.

    Widening, other spellings of one type, whole numbers and decimals that fit.
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


def conform(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Give `batch` with exactly the columns of `schema`, in its order and types.

    Columns are found by name, or by name but for case if that is unique; missing ones
    are null. Raises SchemaError naming the column for one that the schema does not have,
    a type that does not fit, a value that would change, or a null where none may be.
    """
    fields = list(batch.schema)
    positions = [find_field(fields, name) for name in schema.names]
    _refuse_strangers(fields, positions, "")
    columns = [
        pa.nulls(batch.num_rows, field.type)
        if position is None
        else conform_array(batch.column(position), field, field.name)
        for field, position in zip(schema, positions, strict=True)
    ]
    for field, column in zip(schema, columns, strict=True):
        check_nulls(column, field, field.name)
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def conform_array(
    array: pa.Array, field: pa.Field, path: str, allowed: Castable = castable, strict: bool = True
) -> pa.Array:
    """Cast one column to the type of `field`, structs by the names of their fields.

    `allowed` says which scalar types may be cast. Struct fields that `field` does not
    have are refused if `strict`, else dropped. Nulls are left to `check_nulls`.
    """
    if array.type == field.type:
        return array
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), field.type)
    if pa.types.is_dictionary(array.type):
        return conform_array(array.dictionary_decode(), field, path, allowed, strict)
    if pa.types.is_struct(field.type) and pa.types.is_struct(array.type):
        return _conform_struct(array, field.type, path, allowed, strict)
    if pa.types.is_list(field.type) and is_list_like(array.type):
        return _conform_list(array, field.type, path, allowed, strict)
    if pa.types.is_map(field.type) and pa.types.is_map(array.type):
        return _conform_map(array, field.type, path, allowed, strict)
    return _cast(array, field.type, path, allowed)


def _cast(array: pa.Array, target: pa.DataType, path: str, allowed: Castable) -> pa.Array:
    if not allowed(array.type, target):
        raise SchemaError(f"column {path!r}: want {target}, got {array.type}")
    try:
        return array.cast(target, safe=True)
    except pa.ArrowInvalid as error:
        raise SchemaError(
            f"column {path!r}: want {target}, got a value of {array.type} that it cannot hold"
            f" ({error})"
        ) from error


def _conform_struct(
    array: pa.StructArray, target: pa.DataType, path: str, allowed: Castable, strict: bool
) -> pa.StructArray:
    fields = list(array.type)
    positions = [find_field(fields, f.name) for f in target]
    if strict:
        _refuse_strangers(fields, positions, path)
    children = [
        pa.nulls(len(array), field.type)
        if position is None
        else conform_array(array.field(position), field, _join(path, field.name), allowed, strict)
        for field, position in zip(target, positions, strict=True)
    ]
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(children, fields=list(target), mask=mask)


def _window(array: pa.Array) -> tuple[pa.Array, int, int]:
    """Give a list's or map's offsets counted from its first value, and where that is."""
    offsets = array.offsets
    start, stop = offsets[0].as_py(), offsets[-1].as_py()
    # A copy in any case: Arrow takes no null mask beside offsets that are a slice.
    return pc.subtract(offsets, pa.scalar(start, offsets.type)), start, stop - start


def _conform_list(
    array: pa.Array, target: pa.DataType, path: str, allowed: Castable, strict: bool
) -> pa.ListArray:
    if not pa.types.is_list(array.type):
        array = array.cast(pa.list_(array.type.value_field))
    offsets, start, count = _window(array)
    values = conform_array(
        array.values.slice(start, count), target.value_field, f"{path}.element", allowed, strict
    )
    mask = array.is_null() if array.null_count else None
    return pa.ListArray.from_arrays(offsets, values, type=target, mask=mask)


def _conform_map(
    array: pa.MapArray, target: pa.DataType, path: str, allowed: Castable, strict: bool
) -> pa.MapArray:
    offsets, start, count = _window(array)
    key = pa.field("key", target.key_type, nullable=False)
    keys = conform_array(array.keys.slice(start, count), key, f"{path}.key", allowed, strict)
    items = conform_array(
        array.items.slice(start, count), target.item_field, f"{path}.value", allowed, strict
    )
    mask = array.is_null() if array.null_count else None
    return pa.MapArray.from_arrays(offsets, keys, items, type=target, mask=mask)


def _refuse_strangers(fields: list[pa.Field], positions: list[int | None], path: str) -> None:
    for i, field in enumerate(fields):
        if i not in positions:
            raise SchemaError(
                f"column {_join(path, field.name)!r}: the table has no such column;"
                " evolve its schema first"
            )


def check_nulls(array: pa.Array, field: pa.Field, path: str) -> None:
    """Refuse nulls where `field`, or a field inside it, must have a value."""
    if not field.nullable and array.null_count:
        raise SchemaError(
            f"column {path!r}: want a value in each row, got {array.null_count} nulls"
        )
    if not _has_required(field.type):
        return
    if pa.types.is_struct(field.type):
        # Where the struct itself is null, its fields hold nothing.
        present = array.filter(array.is_valid()) if array.null_count else array
        for i, child in enumerate(field.type):
            check_nulls(present.field(i), child, _join(path, child.name))
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


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
