"""Encode Arrow columns as length-prefixed Avro records, which follow the head of a block."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import InvalidError, UnsupportedError
from lakebed.format.avro.avro_rows import kernel
from lakebed.format.avro.avro_rows.kernel import Bytes, Ints
from lakebed.format.avro.avro_rows.machine import choose_machine
from lakebed.format.avro.avro_rows.program import Node, Program, make_program
from lakebed.format.avro.avro_rows.shape import Form
from lakebed.format.avro.avro_rows.sized.kernel import words_of
from lakebed.format.avro.avro_schema import MAX_DEPTH

_SLICE_ROWS: Final = 65_536
_MAX_BYTES: Final = (1 << 31) - 1
_LONGEST: Final = 11  # ten bytes of an integer, and one of a union index or of the end of an array
_NUMPY: Final[dict[int, type[np.generic]]] = {8: np.int8, 16: np.int16, 32: np.int32, 64: np.int64}


def encode_records(
    batch: pa.RecordBatch,
    schema_text: str,
    *,
    slice_rows: int = _SLICE_ROWS,
    max_bytes: int = _MAX_BYTES,
) -> pa.Buffer:
    """Encode each row as an int32 length and the Avro binary of the record schema.

    Columns and struct fields are matched by name. A missing field becomes null, and a field that
    the schema lacks is dropped. Raises InvalidError, naming the field, for a null where the schema
    has none, and for a value that the schema cannot represent, such as an unknown symbol.
    """
    program = make_program(schema_text, None)
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    parts = [
        encode_slice(program, columns, start, min(slice_rows, batch.num_rows - start), max_bytes)
        for start in range(0, batch.num_rows, slice_rows)
    ]
    if len(parts) == 1:
        return parts[0]
    return pa.py_buffer(b"".join(parts))


def encode_slice(
    program: Program,
    columns: dict[str, pa.Array],
    start: int,
    rows: int,
    max_bytes: int = _MAX_BYTES,
) -> pa.Buffer:
    """Encode a range of rows, in halves if they are too large for one pass."""
    entries = _Entries(program, rows)
    everywhere = np.ones(rows, np.uint8)
    for root in program.roots:
        column = columns.get(program.nodes[root].field.name)
        entries.add(root, None if column is None else column.slice(start, rows), everywhere)
    if max(entries.size_bytes, *map(len, entries.groups)) > max_bytes:
        return _encode_halves(program, columns, start, rows, max_bytes)
    return entries.pack(start)


def _encode_halves(
    program: Program, columns: dict[str, pa.Array], start: int, rows: int, max_bytes: int
) -> pa.Buffer:
    if rows == 1:
        raise UnsupportedError(
            f"Avro record of row {start}: expected at most {max_bytes} bytes of text, bytes and items"
        )
    half = rows // 2
    parts = (
        encode_slice(program, columns, start, half, max_bytes),
        encode_slice(program, columns, start + half, rows - half, max_bytes),
    )
    return pa.py_buffer(b"".join(parts))


@dataclass(frozen=True, slots=True, eq=False)
class _Column:
    """The entries of one node."""

    slots: Ints
    valid: Bytes


class _Entries:
    """The entries of all nodes in the form that `kernel` reads, and the bytes to which they point.

    `groups` contains the number of entries of each group.
    """

    def __init__(self, program: Program, rows: int) -> None:
        self._program = program
        self._columns: dict[int, _Column] = {}
        self._data: list[Bytes] = []
        self.size_bytes = 0
        self.groups = [range(0)] * len(program.costs)
        self.groups[0] = range(rows)

    def add(self, number: int, array: pa.Array | None, live: Bytes) -> None:
        """Add the entries of a node and its descendants; all are null if `array` is None.

        Entries that are not `live` have a null ancestor, and are not written.
        """
        node = self._program.nodes[number]
        count = len(self.groups[node.group])
        if array is None:
            nothing = np.zeros(count, np.uint8)
            self._columns[number] = _Column(np.zeros(count, np.int64), nothing)
            for child in node.children:
                if child >= 0:
                    self.add(child, None, nothing)
            return
        form = node.shape.form
        if form in (Form.ARRAY, Form.MAP):
            array = _as_list(array, node)
        elif form not in (Form.RECORD, Form.UNION):
            array = _cast(array, node)
        valid = _validity(array) & live
        if form is Form.RECORD:
            slots = self._record(node, array, valid)
        elif form is Form.UNION:
            slots = self._branches(node, array)
        elif form in (Form.ARRAY, Form.MAP):
            slots = self._items(node, array, valid)
        else:
            slots = self._leaf(node, array, valid)
        self._columns[number] = _Column(slots, valid)

    def _record(self, node: Node, array: pa.Array, valid: Bytes) -> Ints:
        if not pa.types.is_struct(array.type):
            raise InvalidError(
                f"column {node.path!r}: expected {node.field.type}, found {array.type}"
            )
        for child in node.children:
            index = array.type.get_field_index(self._program.nodes[child].field.name)
            self.add(child, array.field(index) if index >= 0 else None, valid)
        return np.zeros(len(array), np.int64)

    def _branches(self, node: Node, array: pa.Array) -> Ints:
        """Add the values of a dense union, in which several entries may refer to the same value."""
        for branch, child in enumerate(node.children):
            if child >= 0:
                values = array.field(branch)
                self.groups[self._program.nodes[child].group] = range(len(values))
                self.add(child, values, np.ones(len(values), np.uint8))
        return _plain(array.offsets, np.int32) << 32 | _plain(array.type_codes, np.int8)

    def _items(self, node: Node, array: pa.Array, valid: Bytes) -> Ints:
        offsets = _plain(array, np.int32, 1)
        counts = np.diff(offsets)
        first, end = int(offsets[0]), int(offsets[-1])
        self.groups[node.items] = range(end - first)
        items = array.values.slice(first, end - first)
        live = np.repeat(valid, counts)
        if node.shape.form is Form.MAP:
            for child, part in zip(node.children, (items.field(0), items.field(1)), strict=True):
                self.add(child, part, live)
        else:
            self.add(node.children[0], items, live)
        return (offsets[:-1] - first) << 32 | counts

    def _leaf(self, node: Node, array: pa.Array, valid: Bytes) -> Ints:
        arrow = node.field.type
        if node.shape.symbols:
            return _indices(array, valid, node)
        if pa.types.is_decimal(arrow):
            return self._decimals(node, array, valid)
        if node.shape.form in (Form.BYTES, Form.FIXED):
            return self._sized(node, array, valid)
        if node.shape.form is Form.BOOLEAN:
            bits = np.unpackbits(np.frombuffer(array.buffers()[1], np.uint8), bitorder="little")
            return bits[array.offset : array.offset + len(array)].astype(np.int64)
        values = _plain(array, _NUMPY[arrow.bit_width])
        if node.shape.unit > 1:
            return _in_unit(values, valid, node)
        return values

    def _sized(self, node: Node, array: pa.Array, valid: Bytes) -> Ints:
        offsets = _plain(array, np.int32, 1)
        lengths = np.diff(offsets)
        if node.shape.form is Form.FIXED:
            wrong = (lengths != node.shape.size) & (valid > 0)
            if wrong.any():
                found = int(lengths[wrong.argmax()])
                raise InvalidError(
                    f"column {node.path!r}: expected {node.shape.size} bytes, found {found}"
                )
        first, end = int(offsets[0]), int(offsets[-1])
        data = array.buffers()[2]
        start = self._append(np.frombuffer(data, np.uint8)[first:end] if end > first else _NONE)
        return (offsets[:-1] - first + start) << 32 | lengths

    def _decimals(self, node: Node, array: pa.Array, valid: Bytes) -> Ints:
        """Return entries that refer to the big-endian bytes of each number."""
        first = 16 * array.offset
        words = np.frombuffer(array.buffers()[1], np.uint8)[first : first + 16 * len(array)]
        digits = words.reshape(-1, 16)[:, ::-1]
        sign = np.where(digits[:, :1] >= 0x80, 0xFF, 0).astype(np.uint8)
        # A leading byte is redundant if it and the first bit of the next byte repeat the sign.
        spare = (digits[:, :-1] == sign) & ((digits[:, 1:] ^ sign) < 0x80)
        spares = np.minimum.accumulate(spare, axis=1).sum(axis=1)
        size = node.shape.size
        if node.shape.form is Form.FIXED:
            if ((16 - spares > size) & (valid > 0)).any():
                raise InvalidError(
                    f"column {node.path!r}: a decimal that does not fit {size} bytes"
                )
            lengths = np.full(len(array), size, np.int64)
            padding = np.repeat(sign, max(0, size - 16), axis=1)
            digits = np.concatenate([padding, digits], axis=1)
        else:
            lengths = 16 - spares
        width = digits.shape[1]
        start = self._append(np.ascontiguousarray(digits).reshape(-1))
        ends = start + width * np.arange(1, len(array) + 1)
        slots: Ints = (ends - lengths) << 32 | lengths
        return slots

    def _append(self, data: Bytes) -> int:
        self._data.append(data)
        self.size_bytes += len(data)
        return self.size_bytes - len(data)

    def pack(self, start: int) -> pa.Buffer:
        """Encode the records; error messages count rows from `start`."""
        program = self._program
        sizes = np.array([len(group) for group in self.groups], np.int64)
        layout = program.lay_out(sizes)
        room = 4 * len(self.groups[0]) + self.size_bytes
        for number, node in enumerate(program.nodes):
            slots, valid = layout.entries(number, len(self.groups[node.group]))
            slots[:], valid[:] = self._columns[number].slots, self._columns[number].valid
            room += len(slots) * _LONGEST
        state = np.zeros(kernel.STATE_SIZE, np.int64)
        state[kernel.ROWS_LEFT] = len(self.groups[0])
        out = pa.allocate_buffer(room + len(_PADDING), resizable=True)
        target = np.frombuffer(out, np.uint8)
        data = np.concatenate([*self._data, _PADDING])
        ending = choose_machine(room).pack(
            layout.code,
            layout.slots,
            layout.valid,
            data,
            words_of(data),
            target,
            words_of(target),
            np.zeros_like(sizes),
            np.zeros((MAX_DEPTH, 2), np.int64),
            state,
        )
        row = start + int(state[kernel.FAULT_AT])
        if ending == kernel.NULL:
            path = program.paths[state[kernel.FAULT_PC]]
            raise InvalidError(f"column {path!r}: null in row {row}, where the schema has no null")
        if ending != kernel.DONE:
            raise UnsupportedError(f"Avro record of row {row}: expected less than 2 GiB")
        out.resize(int(state[kernel.AT]))
        return out


_NONE: Final = np.zeros(0, np.uint8)
_PADDING: Final = np.zeros(8, np.uint8)


def _plain(array: pa.Array, kind: type[np.generic], more: int = 0) -> Ints:
    """Return the numbers in a column's data buffer: one for each entry, and `more`."""
    buffer = array.buffers()[1]
    if len(array) + more == 0 or buffer is None or buffer.size == 0:
        return np.zeros(len(array) + more, np.int64)
    first, end = array.offset, array.offset + len(array) + more
    return np.frombuffer(buffer, kind)[first:end].astype(np.int64)


def _validity(array: pa.Array) -> Bytes:
    if not array.null_count:
        return np.ones(len(array), np.uint8)
    bits = np.unpackbits(np.frombuffer(array.buffers()[0], np.uint8), bitorder="little")
    return bits[array.offset : array.offset + len(array)]


def _cast(array: pa.Array, node: Node) -> pa.Array:
    """Return a column cast to the type of the schema."""
    if array.type == node.field.type:
        return array
    try:
        return array.cast(node.field.type)
    except pa.ArrowException as error:
        raise InvalidError(
            f"column {node.path!r}: expected {node.field.type}, found {array.type}: {error}"
        ) from error


def _as_list(array: pa.Array, node: Node) -> pa.Array:
    """Return a list or map column; its items are cast separately."""
    wanted = pa.types.is_map if node.shape.form is Form.MAP else pa.types.is_list
    return array if wanted(array.type) else _cast(array, node)


def _indices(array: pa.Array, valid: Bytes, node: Node) -> Ints:
    symbols: Sequence[str] = node.shape.symbols
    found = pc.index_in(array, value_set=pa.array(symbols, pa.string()))
    unknown = (valid > 0) & (_validity(found) == 0)
    if unknown.any():
        raise InvalidError(
            f"column {node.path!r}: expected one of {', '.join(symbols)[:200]}, found"
            f" {str(array[int(unknown.argmax())])[:80]!r}"
        )
    return _plain(found, np.int32)


def _in_unit(values: Ints, valid: Bytes, node: Node) -> Ints:
    whole = values // node.shape.unit
    lost = (whole * node.shape.unit != values) & (valid > 0)
    if lost.any():
        raise InvalidError(
            f"column {node.path!r}: the schema has milliseconds, found"
            f" {int(values[lost.argmax()])} microseconds"
        )
    return whole
