"""Delete blocks as columns: `delete_block`'s bytes from and to Arrow, without a loop over rows.

A delete without an ordering value always wins. Hudi writes it as `int 0`, and reads a null so too.
By that a delete whose one ordering value is the int 0, or the day 1970-01-01, always wins in Hudi
and here: its bytes say no more. In an array an int 0 is a value where the column is an int or a
date, as in Hudi; elsewhere it stands for none.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import CorruptError, InvalidError, KeyValueError
from lakebed.format.avro.avro_binary import encode_bytes, encode_long
from lakebed.format.avro.avro_columns import Flags, Longs, encode_sized, join
from lakebed.format.logs.delete_block import CONTENT_VERSION, OrderingKind, encode_delete_block
from lakebed.format.logs.delete_fields import DeleteField, DeleteFields, parse_deletes, walk_deletes
from lakebed.format.logs.ordering_columns import encode_ordering, fit_ordering, takes_int

_HEAD: Final = struct.Struct(">ii")
_NO_ORDERING: Final = b"\x04\x00"
_MAX_BYTES: Final = (1 << 31) - 1
_WALK_MIN_BYTES: Final = 2 << 10
"""Below it, the plain parser is as fast."""


@dataclass(frozen=True, slots=True)
class DeleteColumns:
    """The deletes of one block, in its order.

    `ordering` has a column per ordering field; it is null where `no_ordering` says that the delete
    always wins, and where a value of several is missing.
    """

    keys: pa.StringArray
    ordering: list[pa.Array]
    no_ordering: npt.NDArray[np.bool_]


def encode_deletes(
    keys: pa.StringArray, partition: str, ordering: Sequence[pa.Array] | None
) -> bytes:
    """Write the content of a DELETE block of keys in one partition.

    `ordering` has a column per ordering field; None or no column at all is deletes that always
    win, and so is each row in which all are null. A row in which only some are null is refused:
    Hudi cannot read it.
    """
    if not len(keys):
        return encode_delete_block([])
    if keys.null_count:
        raise KeyValueError(f"deletes: want a key in each row, found {keys.null_count} nulls")
    place = b"\x02" + encode_bytes(partition.encode())
    last = _encode_orderings(keys, list(ordering)) if ordering else _NO_ORDERING
    column = join([b"\x02", encode_sized(keys), place, last])
    # The column begins at the start of its buffer: it was just made.
    records = column.buffers()[2][: pc.sum(pc.binary_length(column)).as_py()]
    body = b"".join((encode_long(len(keys)), records, b"\x00"))
    if len(body) > _MAX_BYTES:
        raise InvalidError(f"deletes: want less than 2 GiB in a block, found {len(body)} bytes")
    return _HEAD.pack(CONTENT_VERSION, len(body)) + body


def decode_deletes(
    content: bytes, ordering_types: Sequence[pa.DataType], what: str
) -> DeleteColumns:
    """Parse the content of a DELETE block into columns of the table's types.

    CorruptError names the key of an ordering value that its column cannot hold. A timestamp of
    milliseconds must be asked for in that unit: on disk it is a bare number.
    """
    parsed = walk_deletes(content) if len(content) >= _WALK_MIN_BYTES else None
    return _columns(parsed or parse_deletes(content, what), ordering_types, what)


def _columns(
    parsed: DeleteFields, ordering_types: Sequence[pa.DataType], what: str
) -> DeleteColumns:
    absent = _absent(parsed, ordering_types)
    columns = [
        _column(parsed, number, kind, ~absent, what) for number, kind in enumerate(ordering_types)
    ]
    wrong = ~absent & (parsed.count != len(ordering_types))
    if ordering_types and wrong.any():
        row = int(np.argmax(wrong))
        raise CorruptError(
            f"{what}: delete of key {parsed.keys[row].as_py()!r}: "
            f"want {len(ordering_types)} ordering values, found {parsed.count[row]}"
        )
    return DeleteColumns(parsed.keys, columns, absent)


def _encode_orderings(keys: pa.StringArray, ordering: list[pa.Array]) -> pa.Array:
    columns = []
    for values in ordering:
        try:
            columns.append(encode_ordering(values, _NO_ORDERING))
        except pa.ArrowInvalid as error:
            raise KeyValueError(f"ordering values of deletes: {error}") from error
    if len(columns) == 1:
        return columns[0]
    nulls = np.array([values.is_null().to_numpy(zero_copy_only=False) for values in ordering])
    none = nulls.all(axis=0)
    if (some := nulls.any(axis=0) & ~none).any():
        key = keys[int(np.argmax(some))].as_py()
        raise KeyValueError(f"delete of key {key!r}: want all ordering values or none, found some")
    whole = join([b"\x18\x02" + encode_long(len(columns)), *columns, b"\x00"])
    return pc.if_else(pa.array(none), pa.scalar(_NO_ORDERING, pa.large_binary()), whole)


def _absent(parsed: DeleteFields, types: Sequence[pa.DataType]) -> Flags:
    """Return which deletes have no ordering value at all."""
    alone = parsed.fields[0]
    none: Flags = np.ones(len(alone.branch), dtype=bool)
    for number, field in enumerate(parsed.fields):
        kind = types[number] if number < len(types) else None
        none &= (field.branch == 0) | _stands_for_none(parsed, field, kind)
    return np.where(parsed.is_array, none, (alone.branch == 0) | alone.is_zero)


def _stands_for_none(parsed: DeleteFields, field: DeleteField, kind: pa.DataType | None) -> Flags:
    """Return where an int 0 in an array is no value, because the column holds no ints."""
    if kind is not None and takes_int(kind):
        return np.zeros(len(field.branch), dtype=bool)
    return parsed.is_array & field.is_zero


def _column(
    parsed: DeleteFields, number: int, kind: pa.DataType, wanted: Flags, what: str
) -> pa.Array:
    """Return one ordering value of the records that are wanted, null of the others."""
    if number >= len(parsed.fields):
        return pa.nulls(len(parsed.keys), kind)
    field = parsed.fields[number]
    wanted = wanted & ~_stands_for_none(parsed, field, kind)
    parts = [pa.nulls(0, kind)]
    taken = np.full(len(wanted), -1, dtype=np.int64)
    filled = 0
    for branch, (rows, values) in field.values.items():
        kept = wanted[rows]
        if kept.any():
            places = rows[kept]
            parts.append(_fit(parsed, values.filter(pa.array(kept)), branch, kind, places, what))
            taken[places] = np.arange(filled, filled + len(places))
            filled += len(places)
    if len(parts) == 2 and filled == len(wanted):
        return parts[1]
    return pa.concat_arrays(parts).take(pa.array(taken, mask=taken < 0))


def _fit(
    parsed: DeleteFields,
    values: pa.Array,
    branch: OrderingKind,
    kind: pa.DataType,
    rows: Longs,
    what: str,
) -> pa.Array:
    try:
        if (found := fit_ordering(values, branch, kind)) is not None:
            return found
        row = 0
    except pa.ArrowInvalid:
        row = _first_misfit(values, branch, kind)
    raise CorruptError(
        f"{what}: delete of key {parsed.keys[int(rows[row])].as_py()!r}: want an ordering value "
        f"of type {kind}, found {branch.name} {values[row].as_py()!r}"
    )


def _first_misfit(values: pa.Array, branch: OrderingKind, kind: pa.DataType) -> int:
    """Find the first value that the type cannot hold, by halves: one of them is there."""
    low, high = 0, len(values)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            fit_ordering(values[low:middle], branch, kind)
            low = middle
        except pa.ArrowInvalid:
            high = middle
    return low
