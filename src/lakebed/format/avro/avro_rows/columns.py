"""Convert the entries that a walk over records produced to a batch of Arrow columns."""

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakebed.format.avro.avro_rows.machine import Machine
from lakebed.format.avro.avro_rows.program import Layout, Node, Program
from lakebed.format.avro.avro_rows.shape import Form
from lakebed.format.avro.avro_rows.sized.kernel import Bytes, Ints, words_of

_LENGTH: Final = 0xFFFFFFFF
_INTS: Final = {8: np.int8, 16: np.int16, 32: np.int32, 64: np.int64}


class BadEntryError(Exception):
    """Raised for bytes that are invalid in their column; `at` is their offset in the data."""

    def __init__(self, path: str, at: int, reason: str) -> None:
        super().__init__(reason)
        self.path = path
        self.at = at
        self.reason = reason


class Builder:
    """Builds the columns of one batch from its entries, and from the bytes to which they point."""

    def __init__(
        self, program: Program, layout: Layout, counts: Ints, data: Bytes, machine: Machine
    ) -> None:
        self._program = program
        self._layout = layout
        self._counts = counts
        self._data = data
        self._machine = machine

    def batch(self) -> pa.RecordBatch:
        """Return the batch.

        Raise BadEntryError for bytes that are not a valid string or decimal.
        """
        columns = [self._column(root) for root in self._program.roots]
        rows = int(self._counts[0])
        # A struct keeps the number of rows even if there are no columns.
        kind = pa.struct(list(self._program.schema))
        whole = pa.StructArray.from_buffers(kind, rows, [None], children=columns)
        return pa.RecordBatch.from_struct_array(whole)

    def _column(self, number: int) -> pa.Array:
        node = self._program.nodes[number]
        count = int(self._counts[node.group])
        slots, valid = self._layout.entries(number, count)
        validity = _bitmap(valid) if node.field.nullable and not valid.all() else None
        form = node.shape.form
        if form is Form.RECORD:
            children = [self._column(child) for child in node.children]
            return pa.StructArray.from_buffers(
                node.field.type, count, [validity], children=children
            )
        if form in (Form.ARRAY, Form.MAP):
            return self._lists(node, slots, validity)
        if form is Form.UNION:
            return self._union(node, slots)
        if node.shape.symbols:
            return _symbols(node, slots, validity)
        if pa.types.is_decimal(node.field.type):
            return self._decimals(node, slots, valid, validity)
        if form in (Form.BYTES, Form.FIXED):
            return self._sized(node, slots, validity)
        return pa.Array.from_buffers(node.field.type, count, [validity, _numbers(node, slots)])

    def _lists(self, node: Node, slots: Ints, validity: pa.Buffer | None) -> pa.Array:
        children = [self._column(child) for child in node.children]
        if node.shape.form is Form.MAP:
            entries = pa.struct([node.field.type.key_field, node.field.type.item_field])
            count = int(self._counts[node.items])
            children = [pa.StructArray.from_buffers(entries, count, [None], children=children)]
        buffers = [validity, pa.py_buffer(_offsets(slots).astype(np.int32))]
        return pa.Array.from_buffers(node.field.type, len(slots), buffers, children=children)

    def _union(self, node: Node, slots: Ints) -> pa.Array:
        places = np.zeros(len(slots), np.int32)
        children = []
        for branch, child in enumerate(node.children):
            taken = slots == branch
            count = int(np.count_nonzero(taken))
            places[taken] = np.arange(count)
            if child < 0 or not count:
                children.append(pa.nulls(count, node.field.type.field(branch).type))
            else:
                children.append(self._column(child))
        buffers = [None, pa.py_buffer(slots.astype(np.int8)), pa.py_buffer(places)]
        return pa.Array.from_buffers(node.field.type, len(slots), buffers, children=children)

    def _sized(self, node: Node, slots: Ints, validity: pa.Buffer | None) -> pa.Array:
        offsets = _offsets(slots & _LENGTH)
        out = np.empty(int(offsets[-1]) + 8, np.uint8)
        text = pa.types.is_string(node.field.type)
        bad = self._machine.gather(
            self._data, words_of(self._data), slots, offsets, out, words_of(out), text
        )
        if bad >= 0:
            raise BadEntryError(node.path, int(slots[bad]) >> 32, "expected UTF-8")
        buffers = [validity, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(out[:-8])]
        return pa.Array.from_buffers(node.field.type, len(slots), buffers)

    def _decimals(
        self, node: Node, slots: Ints, valid: Bytes, validity: pa.Buffer | None
    ) -> pa.Array:
        words = np.zeros((len(slots), 2), np.int64)
        arrow = node.field.type
        limit = 10**arrow.precision - 1
        low = (limit & (1 << 64) - 1) - (limit >> 63 & 1) * (1 << 64)
        bad = self._machine.decimals(self._data, slots, valid, words, limit >> 64, low)
        if bad >= 0:
            raise BadEntryError(
                node.path,
                int(slots[bad]) >> 32,
                f"expected a decimal of at most {arrow.precision} digits",
            )
        return pa.Array.from_buffers(arrow, len(slots), [validity, pa.py_buffer(words)])


def _numbers(node: Node, slots: Ints) -> pa.Buffer:
    if node.shape.form is Form.BOOLEAN:
        return _bitmap(slots.astype(np.uint8))
    values: npt.NDArray[np.generic] = slots.astype(_INTS[node.field.type.bit_width])
    return pa.py_buffer(values)


def _symbols(node: Node, slots: Ints, validity: pa.Buffer | None) -> pa.Array:
    symbols = [symbol.encode() for symbol in node.shape.symbols]
    ends = np.cumsum([0, *map(len, symbols)], dtype=np.int32)
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(b"".join(symbols))]
    names = pa.StringArray.from_buffers(len(symbols), *buffers[1:])
    indices = pa.Array.from_buffers(pa.int64(), len(slots), [validity, pa.py_buffer(slots.copy())])
    return names.take(indices)


def _offsets(lengths: Ints) -> Ints:
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def _bitmap(flags: Bytes) -> pa.Buffer:
    return pa.py_buffer(np.packbits(flags, bitorder="little"))
