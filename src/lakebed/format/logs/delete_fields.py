"""The deletes of one block field by field: ordering values grouped by their branch.

Two parsers give the same: one for blocks of plain forms, at once, and one for all, record by
record.
"""

import struct
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from lakebed.errors import CorruptError
from lakebed.format.avro.avro_columns import Bytes, Flags, Longs, read_longs, read_slices
from lakebed.format.logs.delete_block import (
    CONTENT_VERSION,
    DeleteRecord,
    OrderingKind,
    OrderingValue,
    parse_delete_block,
)
from lakebed.format.logs.delete_walk import Items, read_orderings, walk_records
from lakebed.format.logs.ordering_columns import DECIMAL, NATURAL

_HEAD: Final = struct.Struct(">ii")
_MAX_BYTES: Final = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class DeleteField:
    """One ordering value of each record: its branch, 0 for null, and per branch rows and values."""

    branch: Longs
    is_zero: Flags  # the int 0
    values: dict[OrderingKind, tuple[Longs, pa.Array]]


@dataclass(frozen=True, slots=True)
class DeleteFields:
    """The records of a block; one without an array has its value in the first field."""

    keys: pa.StringArray
    is_array: Flags
    count: Longs
    fields: list[DeleteField]


def walk_deletes(content: bytes) -> DeleteFields | None:
    """Parse a block of plain forms; None for any other, and for a broken one."""
    if not _HEAD.size < len(content) <= _MAX_BYTES:
        return None
    if _HEAD.unpack_from(content) != (CONTENT_VERSION, len(content) - _HEAD.size):
        return None
    data = np.frombuffer(content, dtype=np.uint8)
    (count,), (at,), (ok,) = read_longs(data, np.array([_HEAD.size]))
    records = walk_records(data, int(at), int(count)) if ok else None
    if records is None:
        return None
    source = pa.py_buffer(content)
    orderings = read_orderings(data, records.ordering)
    there = records.part_start >= 0
    try:
        keys = read_slices(source, records.key_start, records.key_end).cast(pa.string())
        read_slices(source, records.part_start[there], records.part_end[there]).cast(pa.string())
        fields = [_walk_field(data, source, items) for items in orderings.items]
    except pa.ArrowInvalid:
        return None
    return DeleteFields(keys, orderings.is_array, orderings.count, fields)


def _walk_field(data: Bytes, source: pa.Buffer, items: Items) -> DeleteField:
    values = {}
    for branch in np.unique(items.branch[items.branch > 0]):
        rows = np.flatnonzero(items.branch == branch)
        kind = OrderingKind(int(branch))
        values[kind] = (rows, _extract(data, source, items, kind, rows))
    is_zero = (items.branch == OrderingKind.INT) & (items.number == 0)
    return DeleteField(items.branch, is_zero, values)


def _extract(
    data: Bytes, source: pa.Buffer, items: Items, kind: OrderingKind, rows: Longs
) -> pa.Array:
    """Return the values of one branch; ArrowInvalid for text that is none."""
    start, end = items.start[rows], items.end[rows]
    match kind:
        case OrderingKind.BOOLEAN:
            return pa.array(data[start] != 0)
        case OrderingKind.FLOAT | OrderingKind.DOUBLE:
            width = 4 if kind is OrderingKind.FLOAT else 8
            raw = np.ascontiguousarray(data[start[:, None] + np.arange(width)])
            return pa.array(raw.view(f"<f{width}").reshape(-1))
        case OrderingKind.BYTES | OrderingKind.STRING:
            return read_slices(source, start, end).cast(NATURAL[kind])
        case OrderingKind.DECIMAL:
            return _extract_decimals(data, start, end)
    return pa.array(items.number[rows])


def _extract_decimals(data: Bytes, start: Longs, end: Longs) -> pa.Array:
    size = (end - start)[:, None]
    if (size < 1).any() or (size > 16).any():
        raise pa.ArrowInvalid("a decimal of no bytes, or of more than 16")
    # Sixteen bytes that end where the value ends; those before it repeat its sign.
    raw = data.take(end[:, None] + np.arange(-16, 0), mode="clip")
    sign = np.where(data[start] >= 0x80, 0xFF, 0).astype(np.uint8)[:, None]
    big = np.where(np.arange(16) >= 16 - size, raw, sign)
    little = np.ascontiguousarray(big[:, ::-1])
    found = pa.Array.from_buffers(DECIMAL, len(start), [None, pa.py_buffer(little)])
    found.validate(full=True)
    return found


def parse_deletes(content: bytes, what: str) -> DeleteFields:
    """Parse any block, record by record."""
    records = parse_delete_block(content, what)
    for number, record in enumerate(records):
        if record.record_key is None:
            raise CorruptError(f"{what}: delete {number} of {len(records)} has no key")
    keys = pa.array([record.record_key for record in records], pa.string())
    is_array = np.array([isinstance(record.ordering, tuple) for record in records], dtype=bool)
    rows = [_ordering_row(record) for record in records]
    count = np.array([len(row) for row in rows], dtype=np.int64)
    fields = [_plain_field(rows, field) for field in range(max([1, *map(len, rows)]))]
    return DeleteFields(keys, is_array, count, fields)


def _ordering_row(record: DeleteRecord) -> tuple[OrderingValue | None, ...]:
    ordering = record.ordering
    return ordering if isinstance(ordering, tuple) else (ordering,)


def _plain_field(rows: list[tuple[OrderingValue | None, ...]], field: int) -> DeleteField:
    branch = np.zeros(len(rows), dtype=np.int64)
    is_zero = np.zeros(len(rows), dtype=bool)
    by_kind: dict[OrderingKind, tuple[list[int], list[object]]] = {}
    for number, row in enumerate(rows):
        if len(row) > field and (value := row[field]) is not None:
            branch[number] = value.kind
            is_zero[number] = value.kind is OrderingKind.INT and value.value == 0
            places, values = by_kind.setdefault(value.kind, ([], []))
            places.append(number)
            values.append(value.value)
    typed = {
        kind: (np.array(places, dtype=np.int64), pa.array(values, NATURAL.get(kind, pa.int64())))
        for kind, (places, values) in by_kind.items()
    }
    return DeleteField(branch, is_zero, typed)
