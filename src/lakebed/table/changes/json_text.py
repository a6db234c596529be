"""Change rows as in Hudi's CDC query: the rows before and after as JSON strings.

The format is that of rows that Hudi 1.2.0 reads from data files: no spaces, no entry for a null, a
date as its day number, a timestamp in microseconds since 1970, bytes in base64. Unlike in Hudi, the
meta columns are left out, and a decimal is written as a number; Hudi loses its value. A time of
day, which Spark's Hudi tables do not have, is in microseconds too.
"""

import base64
import json
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import UnsupportedError
from lakebed.format.logs.cdc import AFTER, BEFORE, OP, TS_MS

JSON_SCHEMA: Final = pa.schema(
    [
        pa.field(OP, pa.string(), nullable=False),
        pa.field(TS_MS, pa.string(), nullable=False),
        pa.field(BEFORE, pa.string()),
        pa.field(AFTER, pa.string()),
    ]
)

_CONTROLS: Final = [chr(code) for code in range(0x20)]
# JSON has only finite numbers; Java writes infinities and NaN as strings.
_ODD_FLOATS: Final = {"nan": '"NaN"', "inf": '"Infinity"', "-inf": '"-Infinity"'}


def changes_to_json(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return change rows with `before` and `after` as JSON strings, null if there was no row."""
    sides = [_objects(batch.column(name)) for name in (BEFORE, AFTER)]
    return pa.RecordBatch.from_arrays(
        [batch.column(OP), batch.column(TS_MS), *sides], schema=JSON_SCHEMA
    )


def _spelled(column: pa.Array) -> pa.StringArray:
    """Return each value of a column as JSON; null stays null."""
    kind = column.type
    if pa.types.is_struct(kind):
        return _objects(column)
    if pa.types.is_map(kind):
        return _maps(column)
    if pa.types.is_list(kind):
        return _wrapped("[", _joined(column, _or_null(_spelled(column.flatten()))), "]", column)
    if pa.types.is_string(kind):
        return _texts(column)
    if pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return _bytes(column)
    return _plain(column)


def _plain(column: pa.Array) -> pa.StringArray:
    kind = column.type
    if pa.types.is_date32(kind):
        column = column.cast(pa.int32())
    elif pa.types.is_timestamp(kind):
        column = column.cast(pa.timestamp("us", kind.tz), safe=False).cast(pa.int64())
    elif pa.types.is_time(kind):
        column = column.cast(pa.time64("us"), safe=False).cast(pa.int64())
    try:
        text = column.cast(pa.string())
    except pa.ArrowNotImplementedError as error:
        raise UnsupportedError(f"a column of type {kind} has no JSON form here") from error
    if pa.types.is_floating(kind):
        for odd, name in _ODD_FLOATS.items():
            text = pc.if_else(pc.equal(text, odd), name, text)
    return text


def _objects(rows: pa.StructArray) -> pa.StringArray:
    inner = pa.repeat(pa.scalar(""), len(rows))
    for field, column in zip(rows.type, rows.flatten(), strict=True):
        entry = _concat(f",{json.dumps(field.name, ensure_ascii=False)}:", _spelled(column))
        inner = _concat(inner, pc.fill_null(entry, ""))
    # Arrow's join that skips nulls loses rows that contain only nulls.
    return _wrapped("{", pc.replace_substring_regex(inner, "^,", ""), "}", rows)


def _maps(column: pa.MapArray) -> pa.StringArray:
    # Arrow can flatten lists, but not maps.
    lists = column.cast(pa.list_(pa.struct([column.type.key_field, column.type.item_field])))
    keys, items = lists.flatten().flatten()
    # The name of an entry is a string, whatever the type of the key.
    names = _spelled(keys) if pa.types.is_string(keys.type) else _texts(_spelled(keys))
    entries = pc.binary_join_element_wise(names, _or_null(_spelled(items)), pa.scalar(":"))
    return _wrapped("{", _joined(lists, entries), "}", column)


def _texts(column: pa.StringArray) -> pa.StringArray:
    text = pc.replace_substring(column, "\\", "\\\\")
    text = pc.replace_substring(text, '"', '\\"')
    if pc.any(pc.match_substring_regex(text, r"[\x00-\x1f]"), min_count=0).as_py():
        for control in _CONTROLS:
            text = pc.replace_substring(text, control, json.dumps(control)[1:-1])
    return _concat('"', text, '"')


def _bytes(column: pa.Array) -> pa.StringArray:
    # Arrow has no base64 function, so these values are encoded individually.
    values = [None if v is None else base64.b64encode(v).decode() for v in column.to_pylist()]
    return _concat('"', pa.array(values, pa.string()), '"')


def _joined(lists: pa.ListArray, texts: pa.StringArray) -> pa.StringArray:
    """Join the strings of all elements, list by list."""
    lengths = pc.fill_null(pc.list_value_length(lists), 0)
    ends = pc.cumulative_sum(lengths)
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), ends.cast(pa.int32())])
    return pc.binary_join(pa.ListArray.from_arrays(offsets, texts), ",")


def _or_null(texts: pa.StringArray) -> pa.StringArray:
    return pc.fill_null(texts, "null")


def _wrapped(opening: str, inner: pa.StringArray, closing: str, column: pa.Array) -> pa.StringArray:
    """Enclose the strings in brackets; the result is null where `column` is null."""
    text = _concat(opening, inner, closing)
    return pc.if_else(pc.is_valid(column), text, pa.scalar(None, pa.string()))


def _concat(*parts: str | pa.StringArray) -> pa.StringArray:
    scalars = [pa.scalar(part) if isinstance(part, str) else part for part in parts]
    return pc.binary_join_element_wise(*scalars, pa.scalar(""))
