"""Rows as JSON text, column by column, as Hudi's CDC query shows a row before and after.

No spaces, null for a missing value, dates and timestamps as their numbers (days, microseconds),
as Hudi's own text has them.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import UnsupportedError

_CONTROL = r"[\x00-\x1f]"
_SHORT = {"\b": r"\b", "\t": r"\t", "\n": r"\n", "\f": r"\f", "\r": r"\r"}
_ESCAPES = {chr(code): _SHORT.get(chr(code), f"\\u{code:04x}") for code in range(32)}


def json_texts(array: pa.Array, path: str) -> pa.StringArray:
    """Spell each value of a column; null is `null`."""
    return pc.fill_null(_spelled(array, path), "null")


def _spelled(array: pa.Array, path: str) -> pa.StringArray:
    """Spell each value; null stays null."""
    kind = array.type
    if pa.types.is_struct(kind):
        return _struct(array, path)
    if pa.types.is_list(kind):
        return _joined(array, json_texts(array.flatten(), path), "[", "]")
    if pa.types.is_map(kind):
        return _map(array, path)
    if pa.types.is_string(kind):
        return _quoted(array)
    return _scalar(array, path)


def _scalar(array: pa.Array, path: str) -> pa.StringArray:
    kind = array.type
    if pa.types.is_boolean(kind):
        return pc.if_else(array, "true", "false")
    if pa.types.is_floating(kind):
        return pc.if_else(pc.is_finite(array), array.cast(pa.string()), _named(array))
    if pa.types.is_date32(kind):
        return array.cast(pa.int32()).cast(pa.string())
    if pa.types.is_timestamp(kind):
        return array.cast(pa.int64()).cast(pa.string())
    if pa.types.is_integer(kind) or pa.types.is_decimal(kind):
        return array.cast(pa.string())
    raise UnsupportedError(
        f"column {path!r} of type {kind} has no text in change rows; read them with "
        'lakebed.open_table(spark, path).read(mode="cdc", since=...)'
    )


def _named(array: pa.Array) -> pa.StringArray:
    infinite = pc.if_else(pc.greater(array, 0), '"Infinity"', '"-Infinity"')
    return pc.if_else(pc.is_nan(array), '"NaN"', infinite)


def _quoted(array: pa.StringArray) -> pa.StringArray:
    text = pc.replace_substring(pc.replace_substring(array, "\\", "\\\\"), '"', '\\"')
    if pc.any(pc.match_substring_regex(text, _CONTROL)).as_py():
        for found, escape in _ESCAPES.items():
            text = pc.replace_substring(text, found, escape)
    return pc.binary_join_element_wise('"', text, '"', "")


def _struct(array: pa.StructArray, path: str) -> pa.StringArray:
    pieces: list[pa.StringArray | str] = []
    # Flattened, a null struct has null fields.
    for field, column in zip(array.type, array.flatten(), strict=True):
        name = _quoted(pa.array([field.name]))[0].as_py()
        pieces.append(f"{',' if pieces else '{'}{name}:")
        pieces.append(json_texts(column, f"{path}.{field.name}"))
    whole = pc.binary_join_element_wise(*pieces, "}", "") if pieces else pa.repeat("{}", len(array))
    return pc.if_else(array.is_valid(), whole, pa.scalar(None, pa.string()))


def _map(array: pa.MapArray, path: str) -> pa.StringArray:
    lists = array.cast(
        pa.list_(pa.struct([("k", array.type.key_type), ("v", array.type.item_type)]))
    )
    keys, values = lists.flatten().flatten()
    names = json_texts(keys, path)
    if not pa.types.is_string(keys.type):
        names = pc.binary_join_element_wise('"', names, '"', "")
    entries = pc.binary_join_element_wise(names, json_texts(values, path), ":")
    return _joined(lists, entries, "{", "}")


def _joined(lists: pa.ListArray, items: pa.StringArray, begin: str, end: str) -> pa.StringArray:
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
    offsets = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype(np.int32)
    texts = pa.ListArray.from_arrays(pa.array(offsets), items)
    whole = pc.binary_join_element_wise(begin, pc.binary_join(texts, ","), end, "")
    return pc.if_else(lists.is_valid(), whole, pa.scalar(None, pa.string()))


def changes_to_json(batch: pa.RecordBatch, names: Sequence[str]) -> pa.RecordBatch:
    """Give the columns `names` of change rows, the rows before and after as text."""
    columns = []
    for name in names:
        column = batch.column(name)
        is_row = pa.types.is_struct(column.type)
        columns.append(_spelled(column, name) if is_row else column.cast(pa.string()))
    schema = pa.schema([pa.field(name, pa.string()) for name in names])
    return pa.RecordBatch.from_arrays(columns, schema=schema)
