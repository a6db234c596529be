"""Read the content of an Avro data block or CDC block as a stream of columns.

Integers are big-endian:

    4   version (3)
    4   number of records
    each record:
    4   length
    n   Avro binary, by the schema in the block's header SCHEMA

Agrees with Hudi's HoodieAvroDataBlock and HoodieCDCDataBlock.
"""

import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from lakebed.errors import CorruptError, UnknownFormatError, UnsupportedError
from lakebed.format.avro.avro_rows import kernel
from lakebed.format.avro.avro_rows.columns import BadEntryError, Builder
from lakebed.format.avro.avro_rows.kernel import Ints
from lakebed.format.avro.avro_rows.machine import TWIN, choose_machine
from lakebed.format.avro.avro_rows.program import Layout, Program, make_program
from lakebed.format.avro.avro_schema import MAX_DEPTH

ReadAt = Callable[[int, int], bytes]

BLOCK_VERSION: Final = 3
MAX_RECORD_BYTES: Final = 256 << 20
_HEAD: Final = struct.Struct(">ii")
_EXPANSION: Final = 8
"""The memory limit for entries, as a multiple of the buffer size."""
_LEAST_BUDGET: Final = 8 << 20
_FIRST_ITEMS: Final = 1024

REASONS: Final = {
    kernel.CUT: "the record ends in a value",
    kernel.LONG: "a number of more than 64 bits",
    kernel.BRANCH: "expected a branch that the union has, found {}",
    kernel.RANGE: "a number that the type cannot hold: {}",
    kernel.FLAG: "expected a boolean of 0 or 1, found {}",
    kernel.COUNT: "a length or count that does not fit the record: {}",
    kernel.SPAN: "items whose size differs from that of their block",
    kernel.REST: "{} bytes of the record are left over",
}


def encode_head(records: int) -> bytes:
    """Encode the header of a block's content."""
    return _HEAD.pack(BLOCK_VERSION, records)


def read_avro_block(
    read_at: ReadAt,
    length: int,
    schema_text: str,
    columns: Sequence[str] | None,
    *,
    buffer_bytes: int = 10 << 20,
    max_rows: int = 65_536,
    what: str,
) -> Iterator[pa.RecordBatch]:
    """Read the content of a block, `length` bytes long, as batches of columns.

    `read_at(offset, length)` returns bytes of the content. At most `buffer_bytes` are buffered,
    unless a single record is longer; a batch takes a few times as much memory. `columns` selects
    columns (None: all), which keep the schema's order and the types of `avro_to_arrow`. Names that
    the schema lacks are ignored, because older blocks lack newer columns.

    Raises CorruptError if the content does not match its schema, lengths or count, at the latest
    instead of the last batch; UnsupportedError if the content is valid but too large.
    """
    program = make_program(schema_text, columns)
    return _Stream(read_at, length, program, buffer_bytes, max_rows, what).batches()


class _Stream:
    """One pass over a block: the buffered bytes, and the progress through the rest.

    `_base` is the offset of the buffer within the content.
    """

    def __init__(
        self,
        read_at: ReadAt,
        length: int,
        program: Program,
        buffer_bytes: int,
        max_rows: int,
        what: str,
    ) -> None:
        self._read_at = read_at
        self._length = length
        self._program = program
        self._buffer_bytes = min(max(buffer_bytes, 1), MAX_RECORD_BYTES)
        self._max_rows = max(max_rows, 1)
        self._what = what
        self._data = b""
        self._base = 0
        self._records = 0
        self._state = np.zeros(kernel.STATE_SIZE, np.int64)
        self._budget = max(_LEAST_BUDGET, _EXPANSION * self._buffer_bytes) // 2
        self._layout: Layout | None = None
        self._machine = TWIN
        self._batch_at = 0
        if program.costs[0] > self._budget:
            raise UnsupportedError(
                f"{what}: a record of this schema takes {program.costs[0]} bytes in memory, expected at"
                f" most {self._budget}; use a larger buffer than {self._buffer_bytes} bytes"
            )

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield all batches, filling the buffer whenever it has no complete record left."""
        self._records = self._parse_head()
        state = self._state
        state[kernel.ROWS_LEFT] = self._records
        state[kernel.AT] = _HEAD.size
        need = 4
        while state[kernel.ROWS_LEFT]:
            self._fill(need)
            ending = kernel.FULL
            while ending == kernel.FULL:
                ending, counts = self._take()
                if not state[kernel.ROWS_LEFT]:
                    self._check_end()
                if counts[0]:
                    yield self._build(counts)
            need = int(state[kernel.DETAIL])
        self._check_end()

    def _parse_head(self) -> int:
        if self._length < _HEAD.size:
            raise CorruptError(
                f"{self._what}: expected at least {_HEAD.size} bytes, found {self._length}"
            )
        self._data = self._read(0, min(self._length, self._buffer_bytes + _HEAD.size))
        version, records = _HEAD.unpack_from(self._data)
        if version != BLOCK_VERSION:
            raise UnknownFormatError(f"{self._what}: version {version}, expected {BLOCK_VERSION}")
        room = (self._length - _HEAD.size) // (4 + self._program.least)
        if not 0 <= records <= room:
            raise CorruptError(
                f"{self._what}: {records} records in {self._length} bytes, which hold {room}"
            )
        return int(records)

    def _read(self, offset: int, length: int) -> bytes:
        data = self._read_at(offset, length)
        if len(data) != length:
            raise CorruptError(
                f"{self._what}: expected {length} bytes at byte {offset}, found {len(data)}"
            )
        return data

    def _fill(self, need: int) -> None:
        """Fill the buffer with at least `need` bytes, counted from the next record."""
        at = int(self._state[kernel.AT])
        rest = self._length - self._base - at
        if need > rest:
            raise CorruptError(
                f"{self._place(at)}: expected {need} bytes, the block has {rest} left"
            )
        if need > MAX_RECORD_BYTES:
            raise UnsupportedError(
                f"{self._place(at)}: a record of {need - 4} bytes, expected at most"
                f" {MAX_RECORD_BYTES - 4}"
            )
        held = len(self._data) - at
        if held < need:
            more = min(max(need, self._buffer_bytes), rest) - held
            new = self._read(self._base + len(self._data), more)
            self._base += at
            self._data = self._data[at:] + new if held else new
            self._state[kernel.AT] = 0
        self._state[kernel.REACH] = self._length - self._base

    def _take(self) -> tuple[int, Ints]:
        """Decode the records of one batch from the buffer.

        Return the code with which the walk ended, and the number of entries in each group.
        """
        state, program = self._state, self._program
        data = np.frombuffer(self._data, np.uint8)
        self._batch_at = int(state[kernel.AT])
        size_bytes = len(data) - self._batch_at
        self._machine = choose_machine(size_bytes)
        layout = self._clean_layout(size_bytes)
        counts = np.zeros(len(program.costs), np.int64)
        marks = np.zeros_like(counts)
        stack = np.zeros((MAX_DEPTH, 2), np.int64)
        state[kernel.SPENT], state[kernel.BUDGET] = 0, self._budget
        while True:
            ending = self._machine.walk(
                data,
                layout.code,
                layout.slots,
                layout.valid,
                counts,
                layout.caps,
                program.costs,
                marks,
                stack,
                state,
            )
            if ending == kernel.GROW:
                layout = self._layout = _grow(program, layout, counts, state)
                continue
            if ending > kernel.GROW:
                raise self._explain(ending)
            if ending == kernel.FULL and not counts[0]:
                raise UnsupportedError(
                    f"{self._place(int(state[kernel.AT]))}: field"
                    f" {program.paths[state[kernel.FAULT_PC]]!r}: items that take more than"
                    f" {self._budget} bytes in one record; use a larger buffer than"
                    f" {self._buffer_bytes} bytes"
                )
            return ending, counts

    def _build(self, counts: Ints) -> pa.RecordBatch:
        assert self._layout is not None
        data = np.frombuffer(self._data, np.uint8)
        try:
            return Builder(self._program, self._layout, counts, data, self._machine).batch()
        except BadEntryError as bad:
            record = self._records - int(self._state[kernel.ROWS_LEFT] + counts[0])
            start = self._batch_at
            while (end := start + 4 + int.from_bytes(self._data[start : start + 4])) < bad.at:
                record, start = record + 1, end
            raise CorruptError(
                f"{self._what}, record {record}, byte {self._base + bad.at}, field {bad.path!r}:"
                f" {bad.reason}"
            ) from bad

    def _clean_layout(self, size_bytes: int) -> Layout:
        """Return an empty layout with room for the rows that `size_bytes` can contain."""
        costs = self._program.costs
        rows = min(
            self._max_rows,
            int(self._state[kernel.ROWS_LEFT]),
            size_bytes // (4 + self._program.least),
            self._budget // max(1, int(costs[0])),
        )
        if self._layout is not None and self._layout.caps[0] >= max(1, rows):
            self._layout.clear()
            return self._layout
        caps = np.full(len(costs), min(rows, _FIRST_ITEMS), np.int64)
        caps[0] = rows
        self._layout = self._program.lay_out(np.maximum(caps, 1))
        return self._layout

    def _place(self, at: int) -> str:
        """Describe the next record and its offset in the content, for error messages."""
        record = self._records - int(self._state[kernel.ROWS_LEFT])
        return f"{self._what}, record {record}, byte {self._base + at}"

    def _explain(self, ending: int) -> CorruptError:
        state = self._state
        place, detail = self._place(int(state[kernel.FAULT_AT])), int(state[kernel.DETAIL])
        if ending == kernel.LENGTH:
            return CorruptError(f"{place}: a record of {detail} bytes does not fit the block")
        path = self._program.paths[state[kernel.FAULT_PC]]
        where = f"{place}, field {path!r}" if path else place
        return CorruptError(f"{where}: {REASONS[ending].format(detail)}")

    def _check_end(self) -> None:
        rest = self._length - self._base - int(self._state[kernel.AT])
        if rest:
            raise CorruptError(
                f"{self._what}: {rest} bytes are left over after its {self._records} records, from"
                f" byte {self._length - rest} on"
            )


def _grow(program: Program, layout: Layout, counts: Ints, state: Ints) -> Layout:
    """Return a layout with the same entries and more room in the group that is full."""
    caps = layout.caps.copy()
    group = program.code[state[kernel.FAULT_PC], kernel.GROUP]
    caps[group] = max(2 * caps[group], state[kernel.DETAIL])
    wider = program.lay_out(caps)
    for number, node in enumerate(program.nodes):
        count = int(counts[node.group])
        slots, valid = wider.entries(number, count)
        slots[:], valid[:] = layout.entries(number, count)
    return wider
