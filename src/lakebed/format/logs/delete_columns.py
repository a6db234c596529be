"""Convert the content of delete blocks to Arrow columns and back.

The version is followed by a single length-prefixed Avro record, which `avro_rows` reads and writes;
its unions become dense unions.

A delete without an ordering value always wins. Hudi writes it as `int 0`, and reads null as the
same. So a delete whose only ordering value is the int 0, or the day 1970-01-01, always wins, in
Hudi and here. In an array, as in Hudi, an int 0 is a value if the column is an int or a date, and
means that there is no ordering value otherwise.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakebed.errors import CorruptError, KeyValueError, UnknownFormatError
from lakebed.format.avro.avro_rows.record import decode_record, encode_record
from lakebed.format.avro.avro_schema import avro_to_arrow
from lakebed.format.logs.delete_block import ARRAY, CONTENT_VERSION, SCHEMA, OrderingKind
from lakebed.format.logs.ordering_columns import fit_ordering, ordering_values, takes_int

Longs = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

_VERSION: Final = struct.Struct(">i")
_LIST: Final = avro_to_arrow(SCHEMA, unions=True).field(0)
_ORDERING: Final = _LIST.type.value_type.field(2).type
_ITEMS: Final = _ORDERING.field(ARRAY).type.field(0).type


@dataclass(frozen=True, slots=True)
class DeleteColumns:
    """The deletes of one block, in the order of the block.

    `ordering` has a column per ordering field. Its values are null where `no_ordering` is true,
    which means that the delete always wins, or where one of several values is missing.
    """

    keys: pa.StringArray
    ordering: list[pa.Array]
    no_ordering: npt.NDArray[np.bool_]


class DeleteField:
    """One of the ordering values of each delete.

    `branch` is the branch of the union for each delete, 0 for null; `values` are grouped by branch.
    """

    def __init__(self, deletes: int) -> None:
        self.branch = np.zeros(deletes, np.int64)
        self.is_zero = np.zeros(deletes, np.bool_)  # the int 0
        self.values: list[tuple[OrderingKind, Longs, pa.Array]] = []

    def put(self, rows: Longs, union: pa.UnionArray, at: Longs) -> None:
        """Set the values of `rows` to the union's values at the positions `at`."""
        codes, places = _numbers(union.type_codes)[at], _numbers(union.offsets)[at]
        self.branch[rows] = codes
        for branch in np.unique(codes[codes > 0]):
            mine = codes == branch
            values = union.field(int(branch)).field(0).take(pa.array(places[mine]))
            self.values.append((OrderingKind(int(branch)), rows[mine], values))
            if branch == OrderingKind.INT:
                self.is_zero[rows[mine]] = _numbers(values) == 0


@dataclass(frozen=True, slots=True)
class Deletes:
    """The deletes of a block; without an array, a delete has its value in the first field."""

    keys: pa.StringArray
    is_array: Flags
    count: Longs
    fields: list[DeleteField]


def encode_deletes(
    keys: pa.StringArray, partition: str, ordering: Sequence[pa.Array] | None
) -> bytes:
    """Encode the content of a DELETE block for keys of one partition.

    `ordering` has a column per ordering field. Without columns, or where all are null, a delete
    always wins. A row in which only some are null is rejected, because Hudi cannot read it.
    """
    if keys.null_count:
        raise KeyValueError(f"deletes: expected a key in each row, found {keys.null_count} nulls")
    place = pa.repeat(pa.scalar(partition), len(keys))
    orderings = _orderings(keys, list(ordering or ()))
    deletes = pa.StructArray.from_arrays(
        [keys.cast(pa.string()), place, orderings], fields=list(_LIST.type.value_type)
    )
    listed = pa.ListArray.from_arrays(pa.array([0, len(keys)], pa.int32()), deletes, _LIST.type)
    row = pa.RecordBatch.from_arrays([listed], schema=pa.schema([_LIST]))
    return b"".join((_VERSION.pack(CONTENT_VERSION), encode_record(row, SCHEMA)))


def decode_deletes(
    content: bytes, ordering_types: Sequence[pa.DataType], what: str
) -> DeleteColumns:
    """Decode the content of a DELETE block into columns of the given ordering types.

    Raises CorruptError, naming the key, if an ordering value does not fit its type. A timestamp
    that was written in milliseconds must be requested in milliseconds, because on disk it is a
    plain number.
    """
    deletes = parse_deletes(content, what)
    absent = _absent(deletes, ordering_types)
    columns = [
        _column(deletes, number, kind, ~absent, what) for number, kind in enumerate(ordering_types)
    ]
    wrong = ~absent & (deletes.count != len(ordering_types))
    if ordering_types and wrong.any():
        row = int(np.argmax(wrong))
        raise CorruptError(
            f"{what}: delete of key {deletes.keys[row].as_py()!r}: "
            f"expected {len(ordering_types)} ordering values, found {deletes.count[row]}"
        )
    return DeleteColumns(deletes.keys, columns, absent)


def _orderings(keys: pa.StringArray, columns: list[pa.Array]) -> pa.UnionArray:
    """Return the ordering values of deletes as a union, with int 0 for deletes without one."""
    rows = len(keys)
    try:
        values = [ordering_values(column) for column in columns]
    except pa.ArrowInvalid as error:
        raise KeyValueError(f"ordering values of deletes: {error}") from error
    nulls = np.array([_nulls(column) for column in columns]).reshape(len(columns), rows)
    none = nulls.all(axis=0)
    if (some := nulls.any(axis=0) & ~none).any():
        key = keys[int(np.argmax(some))].as_py()
        raise KeyValueError(
            f"delete of key {key!r}: expected all ordering values or none, found some"
        )
    zero: tuple[int, pa.Array] = (OrderingKind.INT, pa.array([0], pa.int32()))
    if not values:
        return _union(_ORDERING, [zero], np.zeros(rows, np.int64), np.zeros(rows, np.int64))
    whole = np.cumsum(~none) - 1
    if len(values) == 1:
        parts = [zero, (values[0][0], values[0][1].drop_null())]
    else:
        parts = [zero, (ARRAY, _arrays([(kind, part.drop_null()) for kind, part in values]))]
    return _union(_ORDERING, parts, np.where(none, 0, 1), np.where(none, 0, whole))


def _arrays(parts: list[tuple[OrderingKind, pa.Array]]) -> pa.ListArray:
    """Return arrays that each contain one value from each part."""
    rows, width = len(parts[0][1]), len(parts)
    items = _union(
        _ITEMS.value_type,
        parts,
        np.tile(np.arange(width), rows),
        np.repeat(np.arange(rows), width),
    )
    offsets = pa.array(np.arange(0, rows * width + 1, width), pa.int32())
    return pa.ListArray.from_arrays(offsets, items, _ITEMS)


def _union(
    kind: pa.DataType, parts: Sequence[tuple[int, pa.Array]], part: Longs, at: Longs
) -> pa.UnionArray:
    """Return a dense union whose entry i is value `at[i]` of part `part[i]`."""
    starts = np.zeros(len(parts), np.int64)
    held: dict[int, list[pa.Array]] = {}
    for number, (branch, values) in enumerate(parts):
        before = held.setdefault(branch, [])
        starts[number] = sum(map(len, before))
        before.append(values)
    children = [
        pa.StructArray.from_arrays([pa.concat_arrays(held[branch])], fields=list(field.type))
        if (field := kind.field(branch)) and branch in held
        else pa.nulls(0, field.type)
        for branch in range(kind.num_fields)
    ]
    branches = np.array([branch for branch, _ in parts], np.int8)
    buffers = [
        None,
        pa.py_buffer(branches[part]),
        pa.py_buffer((starts[part] + at).astype(np.int32)),
    ]
    return pa.Array.from_buffers(kind, len(part), buffers, children=children)


def parse_deletes(content: bytes, what: str) -> Deletes:
    """Parse the content of a DELETE block with ordering values of any types."""
    if len(content) < 2 * _VERSION.size:
        raise CorruptError(
            f"{what}: expected a delete block of 8 bytes or more, found {len(content)}"
        )
    (version,) = _VERSION.unpack_from(content)
    if version != CONTENT_VERSION:
        raise UnknownFormatError(
            f"{what}: delete block version {version}, expected {CONTENT_VERSION}"
        )
    records = decode_record(content, _VERSION.size, SCHEMA, what).column(0).values
    keys, ordering = records.field(0), records.field(2)
    if keys.null_count:
        row = int(np.argmax(_nulls(keys)))
        raise CorruptError(f"{what}: delete {row} of {len(keys)} has no key")
    in_array = _numbers(ordering.type_codes) == ARRAY
    arrays = ordering.field(ARRAY).field(0)
    # A null array means no ordering value, like a plain null.
    there = ~_nulls(arrays)
    rows = np.flatnonzero(in_array)[there]
    offsets = _numbers(arrays.offsets)
    starts, sizes = offsets[:-1][there], np.diff(offsets)[there]
    is_array = np.zeros(len(keys), np.bool_)
    is_array[rows] = True
    count = np.ones(len(keys), np.int64)
    count[rows] = sizes
    fields = [DeleteField(len(keys)) for _ in range(int(sizes.max(initial=1)))]
    alone = np.flatnonzero(~in_array)
    fields[0].put(alone, ordering, alone)
    for number, field in enumerate(fields):
        longer = sizes > number
        field.put(rows[longer], arrays.values, starts[longer] + number)
    return Deletes(keys, is_array, count, fields)


def _absent(deletes: Deletes, types: Sequence[pa.DataType]) -> Flags:
    """Return for each delete whether it has no ordering value."""
    alone = deletes.fields[0]
    none: Flags = np.ones(len(alone.branch), dtype=bool)
    for number, field in enumerate(deletes.fields):
        kind = types[number] if number < len(types) else None
        none &= (field.branch == 0) | _stands_for_none(deletes, field, kind)
    return np.where(deletes.is_array, none, (alone.branch == 0) | alone.is_zero)


def _stands_for_none(deletes: Deletes, field: DeleteField, kind: pa.DataType | None) -> Flags:
    """Return for each delete whether the int 0 in its array means that there is no value."""
    if kind is not None and takes_int(kind):
        return np.zeros(len(field.branch), dtype=bool)
    return deletes.is_array & field.is_zero


def _column(deletes: Deletes, number: int, kind: pa.DataType, wanted: Flags, what: str) -> pa.Array:
    """Return one ordering value of each delete selected by `wanted`, and null for others."""
    if number >= len(deletes.fields):
        return pa.nulls(len(deletes.keys), kind)
    field = deletes.fields[number]
    wanted = wanted & ~_stands_for_none(deletes, field, kind)
    parts = [pa.nulls(0, kind)]
    taken = np.full(len(wanted), -1, dtype=np.int64)
    filled = 0
    for branch, rows, values in field.values:
        kept = wanted[rows]
        if kept.any():
            places = rows[kept]
            parts.append(_fit(deletes, values.filter(pa.array(kept)), branch, kind, places, what))
            taken[places] = np.arange(filled, filled + len(places))
            filled += len(places)
    if len(parts) == 2 and filled == len(wanted):
        return parts[1]
    return pa.concat_arrays(parts).take(pa.array(taken, mask=taken < 0))


def _fit(
    deletes: Deletes,
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
        f"{what}: delete of key {deletes.keys[int(rows[row])].as_py()!r}: expected an ordering value "
        f"of type {kind}, found {branch.name} {values[row].as_py()!r}"
    )


def _first_misfit(values: pa.Array, branch: OrderingKind, kind: pa.DataType) -> int:
    """Return the position of the first value that does not fit the type; there must be one."""
    low, high = 0, len(values)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            fit_ordering(values[low:middle], branch, kind)
            low = middle
        except pa.ArrowInvalid:
            high = middle
    return low


def _nulls(column: pa.Array) -> Flags:
    found: Flags = column.is_null().to_numpy(zero_copy_only=False)
    return found


def _numbers(column: pa.Array) -> Longs:
    found: Longs = column.to_numpy().astype(np.int64)
    return found
