"""Encode and decode one length-prefixed record, whose unions may have any number of branches."""

from typing import Final

import numpy as np
import pyarrow as pa

from lakebed.errors import CorruptError
from lakebed.format.avro.avro_rows import kernel
from lakebed.format.avro.avro_rows.block import REASONS
from lakebed.format.avro.avro_rows.columns import BadEntryError, Builder
from lakebed.format.avro.avro_rows.encode import encode_slice
from lakebed.format.avro.avro_rows.machine import choose_machine
from lakebed.format.avro.avro_rows.program import make_program
from lakebed.format.avro.avro_schema import MAX_DEPTH

_NO_LIMIT: Final = 1 << 62
_FIRST_ENTRIES: Final = 16


def encode_record(row: pa.RecordBatch, schema_text: str) -> pa.Buffer:
    """Encode a single row as an int32 length and the Avro binary of the record schema.

    Columns are matched by name; a union is a dense union. Raises the errors of `encode_records`.
    """
    columns = dict(zip(row.schema.names, row.columns, strict=True))
    return encode_slice(make_program(schema_text, None, unions=True), columns, 0, 1)


def decode_record(content: bytes, at: int, schema_text: str, what: str) -> pa.RecordBatch:
    """Decode the record whose int32 length is at `at` and which ends at the end of `content`.

    This takes a few times the size of `content` in memory. Raises CorruptError, naming `what`, the
    offset and the field, if the record is invalid.
    """
    program = make_program(schema_text, None, unions=True)
    data = np.frombuffer(content, np.uint8)
    length = int.from_bytes(content[at : at + 4])
    if len(content) != at + 4 + length:
        raise CorruptError(
            f"{what}: expected {length} bytes, found {max(0, len(content) - at - 4)}"
        )
    machine = choose_machine(length)
    caps = np.full(len(program.costs), _FIRST_ENTRIES, np.int64)
    counts = np.zeros_like(program.costs)
    state = np.zeros(kernel.STATE_SIZE, np.int64)
    state[kernel.AT], state[kernel.ROWS_LEFT] = at, 1
    state[kernel.REACH], state[kernel.BUDGET] = len(content), _NO_LIMIT
    ending = kernel.GROW
    while ending == kernel.GROW:
        layout = program.lay_out(caps)
        ending = machine.walk(
            data,
            layout.code,
            layout.slots,
            layout.valid,
            counts,
            layout.caps,
            program.costs,
            np.zeros_like(counts),
            np.zeros((MAX_DEPTH, 2), np.int64),
            state,
        )
        if ending == kernel.GROW:
            # Each restart repeats the walk: to need few, grow to the size of the largest group.
            group = program.code[state[kernel.FAULT_PC], kernel.GROUP]
            caps[group] = max(2 * caps[group], state[kernel.DETAIL], caps.max())
    if ending != kernel.DONE:
        path = program.paths[state[kernel.FAULT_PC]]
        reason = REASONS[ending].format(int(state[kernel.DETAIL]))
        raise CorruptError(f"{what}: byte {state[kernel.FAULT_AT]}, field {path!r}: {reason}")
    try:
        return Builder(program, layout, counts, data, machine).batch()
    except BadEntryError as bad:
        raise CorruptError(f"{what}: byte {bad.at}, field {bad.path!r}: {bad.reason}") from bad
