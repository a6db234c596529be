"""A table's columns: which types are allowed, and how they may change.

A table has a logical schema (the user's types: bool, int8 to int64, float, double, decimal128,
string, binary, date32, timestamp[us] with UTC or without a zone, and lists, string-keyed maps and
structs of these); files hold its storage types (`storage_type`).
"""

import pyarrow as pa

from lakebed.errors import SchemaError
from lakebed.format.avro.avro_schema import MAX_DEPTH, check_name
from lakebed.format.names.meta_columns import IS_DELETED, META_PREFIX, OUR_PREFIX

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


def normalise(schema: pa.Schema) -> pa.Schema:
    """Return the logical schema of a table with these columns.

    The variants of one type (large and view strings, dictionaries, seconds, milliseconds and
    nanoseconds, large lists) become one, and metadata is dropped. `conform` rejects values that
    need nanoseconds. Raises SchemaError, naming the column, if a type or a name is not allowed.
    """
    if not len(schema):
        raise SchemaError("a table needs at least one column")
    for name in schema.names:
        if name.startswith(META_PREFIX) and name != IS_DELETED:
            raise SchemaError(f"column {name!r}: names beginning with {META_PREFIX} are Hudi's own")
        if name.lower().startswith(OUR_PREFIX):
            raise SchemaError(
                f"column {name!r}: names beginning with {OUR_PREFIX} are Lakebed's own"
            )
    return pa.schema(_normal_fields(list(schema), "", 1))


def _normal_fields(fields: list[pa.Field], path: str, depth: int) -> list[pa.Field]:
    seen: dict[str, str] = {}
    for field in fields:
        here = join_path(path, field.name)
        if not field.name:
            raise SchemaError(f"column {here!r}: a column needs a name")
        check_name(field.name, here)
        folded = field.name.lower()
        if folded in seen:
            raise SchemaError(
                f"column {here!r}: {seen[folded]!r} exists already, and Spark ignores case"
            )
        seen[folded] = field.name
    return [
        pa.field(f.name, _normal_type(f.type, join_path(path, f.name), depth), f.nullable)
        for f in fields
    ]


def _normal_type(t: pa.DataType, path: str, depth: int) -> pa.DataType:
    if depth > MAX_DEPTH:
        raise SchemaError(f"column {path!r}: expected at most {MAX_DEPTH} levels of nesting")
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
            raise SchemaError(f"column {path!r}: expected string map keys, found {t.key_type}")
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
        # Arrow's zone only affects how the timestamp is displayed; the numbers are UTC already.
        return pa.timestamp("us", None if t.tz is None else "UTC")
    if pa.types.is_decimal(t):
        if t.precision > 38 or not 0 <= t.scale <= t.precision:
            raise SchemaError(
                f"column {path!r}: expected a decimal of at most 38 digits, found {t}"
            )
        return pa.decimal128(t.precision, t.scale)
    return None


def storage_type(t: pa.DataType) -> pa.DataType:
    """Return the type in files: int8 and int16 become int32, at any depth."""
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
    """Return the schema of files of a table with this logical schema."""
    return pa.schema([f.with_type(storage_type(f.type)) for f in schema])


def widens(narrow: pa.DataType, wide: pa.DataType) -> bool:
    """Return whether files of `narrow` can be read as `wide` without loss, by Spark and by Hudi.

    So a date is not widened to a timestamp without zone, which only Spark 4 can read
    (`ParquetVectorUpdaterFactory`), nor a long to a double, which Hudi reads but loses digits.
    """
    if pa.types.is_decimal(wide):
        if pa.types.is_decimal(narrow):
            more_scale = wide.scale - narrow.scale
            return bool(more_scale >= 0 and wide.precision - narrow.precision >= more_scale)
        return narrow in _INT_DIGITS and wide.precision - wide.scale >= _INT_DIGITS[narrow]
    return wide in _WIDER.get(narrow, ())


def evolve(current: pa.Schema, incoming: pa.Schema) -> pa.Schema:
    """Return the table's schema after a write of `incoming` columns.

    New columns are appended as nullable, within structs too; a wider type replaces a narrower one; a
    narrower type has no effect, since its values are cast to the table's type; a column without any
    value (type null) has no effect. Columns missing from `incoming` stay and must be nullable.
    Columns that are not nullable stay so: an incoming column that is nullable must still contain no
    nulls, which `conform` checks. Raises SchemaError, naming the column and both types, if they are
    incompatible.
    """
    typed = [_without_nulls(field, list(current)) for field in incoming]
    return pa.schema(_evolve_fields(list(current), list(normalise(pa.schema(typed))), ""))


def schema_changes(before: pa.Schema, after: pa.Schema) -> list[str]:
    """Return a description of the changes by `evolve`, one clause for each column or field.

    >>> schema_changes(pa.schema([("a", pa.int32())]), pa.schema([("a", pa.int64()), ("b", pa.int8())]))
    ["column 'a' would become int64 (it is int32)", "column 'b' is new"]
    """
    return _field_changes(list(before), list(after), "")


def new_fields(before: pa.Schema, after: pa.Schema) -> list[str]:
    """Return the columns that only `after` has."""
    return [name for name in after.names if find_field(list(before), name) is None]


def _field_changes(before: list[pa.Field], after: list[pa.Field], path: str) -> list[str]:
    found: list[str] = []
    for field in after:
        here = join_path(path, field.name)
        position = find_field(before, field.name)
        if position is None:
            found.append(f"column {here!r} is new")
        else:
            found += _type_changes(before[position].type, field.type, here)
    return found


def _type_changes(before: pa.DataType, after: pa.DataType, path: str) -> list[str]:
    if before == after:
        return []
    if pa.types.is_struct(before) and pa.types.is_struct(after):
        return _field_changes(list(before), list(after), path)
    if pa.types.is_list(before) and pa.types.is_list(after):
        return _type_changes(before.value_type, after.value_type, f"{path}.element")
    if pa.types.is_map(before) and pa.types.is_map(after):
        return _type_changes(before.item_type, after.item_type, f"{path}.value")
    return [f"column {path!r} would become {after} (it is {before})"]


def _without_nulls(field: pa.Field, current: list[pa.Field]) -> pa.Field:
    """Return the field with null types (as of empty lists) replaced by the table's types."""
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
        here = join_path(path, field.name)
        position = find_field(incoming, field.name)
        if position is None:
            if not field.nullable:
                raise SchemaError(
                    f"column {here!r}: expected a value in each row, found no such column"
                )
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
    raise SchemaError(
        f"column {path!r}: expected {current}, found {incoming}, which does not fit; cast it"
    )


def find_field(fields: list[pa.Field], name: str) -> int | None:
    """Return the position of the field `name`, or of the only one that matches ignoring case."""
    for i, field in enumerate(fields):
        if field.name == name:
            return i
    alike = [i for i, field in enumerate(fields) if field.name.lower() == name.lower()]
    return alike[0] if len(alike) == 1 else None


def is_list_like(t: pa.DataType) -> bool:
    """Return whether `t` is one of Arrow's list types."""
    return bool(
        pa.types.is_list(t)
        or pa.types.is_large_list(t)
        or pa.types.is_fixed_size_list(t)
        or pa.types.is_list_view(t)
        or pa.types.is_large_list_view(t)
    )


def join_path(path: str, name: str) -> str:
    """Return the path of a field below `path`, which is empty at the top."""
    return f"{path}.{name}" if path else name
