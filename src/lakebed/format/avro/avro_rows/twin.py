"""The plain Python twin of the compiled loops, for small blocks while numba is not imported.

It shares no code with `kernel`; both run the same tests.
"""

from collections.abc import Iterator
from typing import Final

from lakebed.format.avro.avro_binary import encode_long
from lakebed.format.avro.avro_rows import kernel
from lakebed.format.avro.avro_rows.kernel import (
    ARRAY,
    BOOLEAN,
    BYTES,
    CHOICE,
    END,
    FIXED,
    LEAVE,
    LOOP,
    NUMBER,
    RECORD,
    Bytes,
    Ints,
    Words,
)
from lakebed.format.avro.avro_rows.shape import LONE

_WORD: Final = (1 << 64) - 1


class _Stop(Exception):  # noqa: N818 - the end of a walk, not an error
    """Raised when a record cannot be decoded; `ending` is the code with which the walk ends."""

    def __init__(self, ending: int, detail: int = 0) -> None:
        super().__init__(ending)
        self.ending = ending
        self.detail = detail


class _Record:
    """Reads values of one record, never past its end."""

    def __init__(self, data: memoryview, at: int, end: int) -> None:
        self.data = data
        self.at = at
        self.end = end

    def long(self) -> int:
        value = 0
        at = self.at
        for place in range(10):
            if at == self.end:
                raise _Stop(kernel.CUT)
            byte = self.data[at]
            at += 1
            value |= (byte & 0x7F) << 7 * place
            if byte < 0x80 and value <= _WORD:
                self.at = at
                return value >> 1 ^ -(value & 1)
        raise _Stop(kernel.LONG)

    def skip(self, size: int) -> int:
        if size > self.end - self.at:
            raise _Stop(kernel.CUT)
        self.at += size
        return self.at - size


class _Walk:
    """The entries of a batch while records are added; see `kernel` for the arguments."""

    def __init__(
        self,
        code: Ints,
        slots: Ints,
        valid: Bytes,
        counts: Ints,
        caps: Ints,
        costs: Ints,
        state: Ints,
    ) -> None:
        self._code: list[list[int]] = code.tolist()
        self._slots = slots
        self._valid = valid
        self.counts: list[int] = counts.tolist()
        self._caps: list[int] = caps.tolist()
        self._costs: list[int] = costs.tolist()
        self.spent = int(state[kernel.SPENT])
        self._budget = int(state[kernel.BUDGET])
        self.pc = 0

    def take(self, record: _Record) -> None:
        """Decode one record, or raise `_Stop`."""
        loops: list[Iterator[None]] = []
        self.pc = 0
        while (op := self._code[self.pc][kernel.OP]) != END:
            if op == LOOP:
                if next(loops[-1], self) is self:
                    loops.pop()
                    self.pc += 1
                else:
                    self.pc = self._code[self.pc][kernel.HIGH] + 1
            elif op == CHOICE:
                self._choose(record)
            elif op == LEAVE:
                _, _, self.pc, group, base, *_ = self._code[self.pc]
                self.counts[group] += base >= 0
            else:
                self._value(op, record, loops)
        if record.at != record.end:
            raise _Stop(kernel.REST, record.end - record.at)
        self.counts[0] += 1

    def _value(self, op: int, record: _Record, loops: list[Iterator[None]]) -> None:
        _, union, jump, group, base, _, high, _ = self._code[self.pc]
        if union >= 0:
            before = record.at
            branch = record.long()
            if branch not in (0, 1) or (union == LONE and branch):
                record.at = before
                raise _Stop(kernel.BRANCH, branch)
            if branch == union:
                self.pc = jump
                return
        value = self._leaf(op, record)
        if base >= 0:
            self._slots[base + self.counts[group]] = value
            self._valid[base + self.counts[group]] = 1
        if op == ARRAY:
            self.pc = high
            loops.append(self._items(record, self._code[high]))
        else:
            self.pc += 1

    def _choose(self, record: _Record) -> None:
        _, _, _, group, base, branches, *_ = self._code[self.pc]
        before = record.at
        branch = record.long()
        if not 0 <= branch < branches:
            record.at = before
            raise _Stop(kernel.BRANCH, branch)
        if base >= 0:
            self._slots[base + self.counts[group]] = branch
            self._valid[base + self.counts[group]] = 1
        self.pc += 1 + branch
        _, _, jump, own, base, *_ = self._code[self.pc]
        if base >= 0:
            self._reserve(own, 1, self._caps[group])
        self.pc = jump

    def _leaf(self, op: int, record: _Record) -> int:
        *_, low, high, unit = self._code[self.pc]
        before = record.at
        if op in (RECORD, ARRAY):
            return 0
        if op == NUMBER:
            value = record.long()
            if not low <= value <= high:
                record.at = before
                raise _Stop(kernel.RANGE, value)
            return value * unit
        if op == BYTES:
            length = record.long()
            if not 0 <= length <= record.end - record.at:
                record.at = before
                raise _Stop(kernel.COUNT, length)
            return record.skip(length) << 32 | length
        at = record.skip(unit)
        if op == FIXED:
            return at << 32 | unit
        value = int.from_bytes(record.data[at : record.at], "little", signed=op != BOOLEAN)
        if op == BOOLEAN and value > 1:
            record.at = at
            raise _Stop(kernel.FLAG, value)
        return value

    def _items(self, record: _Record, loop: list[int]) -> Iterator[None]:
        """Yield once for each item; the walk decodes the item before it continues."""
        _, _, _, group, base, parent, _, least = loop
        while count := record.long():
            span_end = None
            if count < 0:
                span = record.long()
                if not 0 <= span <= record.end - record.at:
                    raise _Stop(kernel.SPAN)
                span_end = record.at + span
            count = abs(count)
            if count > (record.end - record.at) // least:
                raise _Stop(kernel.COUNT, min(count, _WORD >> 1))
            if base >= 0:
                self._reserve(group, count)
                self._slots[base + self.counts[parent]] += count
            for _ in range(count):
                yield
                if base >= 0:
                    self.counts[group] += 1
            if span_end not in (None, record.at):
                raise _Stop(kernel.SPAN)

    def _reserve(self, group: int, count: int, most: int = 0) -> None:
        self.spent += count * self._costs[group]
        if self.spent > self._budget:
            raise _Stop(kernel.FULL)
        if self.counts[group] + count > self._caps[group]:
            raise _Stop(kernel.GROW, most or self.counts[group] + count)


def walk(
    data: Bytes,
    code: Ints,
    slots: Ints,
    valid: Bytes,
    counts: Ints,
    caps: Ints,
    costs: Ints,
    marks: Ints,  # noqa: ARG001 - only the kernel needs it
    stack: Ints,  # noqa: ARG001
    state: Ints,
) -> int:
    """Decode complete records into the entries; see `kernel._walk`."""
    view = data.data
    walk = _Walk(code, slots, valid, counts, caps, costs, state)
    while state[kernel.ROWS_LEFT]:
        at = int(state[kernel.AT])
        if counts[0] == caps[0]:
            return kernel.FULL
        length = int.from_bytes(view[at : at + 4], "big")
        if len(view) - at < 4:
            state[kernel.DETAIL] = 4
            return kernel.MORE
        if length >= 1 << 31 or at + 4 + length > state[kernel.REACH]:
            state[kernel.FAULT_AT], state[kernel.DETAIL] = at, length
            return kernel.LENGTH
        if length > len(view) - at - 4:
            state[kernel.DETAIL] = length + 4
            return kernel.MORE
        record = _Record(view, at + 4, at + 4 + length)
        try:
            walk.take(record)
        except _Stop as stop:
            state[kernel.FAULT_AT], state[kernel.FAULT_PC] = record.at, walk.pc
            state[kernel.DETAIL] = stop.detail
            return stop.ending
        counts[:] = walk.counts
        state[kernel.AT], state[kernel.SPENT] = record.at, walk.spent
        state[kernel.ROWS_LEFT] -= 1
    return kernel.DONE


def pack(
    code: Ints,
    slots: Ints,
    valid: Bytes,
    data: Bytes,
    words: Words,  # noqa: ARG001
    out: Bytes,
    out_words: Words,  # noqa: ARG001 - only the kernel writes words
    places: Ints,
    stack: Ints,  # noqa: ARG001 - only the kernel needs it
    state: Ints,
) -> int:
    """Encode records with length prefixes; see `kernel._pack`."""
    writer = _Writer(code.tolist(), slots.tolist(), valid.tolist(), data.data)
    at = 0
    for row in range(int(state[kernel.ROWS_LEFT])):
        places[0] = row
        try:
            record = writer.record(places)
        except _Stop as stop:
            state[kernel.FAULT_AT], state[kernel.FAULT_PC] = row, stop.detail
            return stop.ending
        if len(record) >= 1 << 31:
            state[kernel.FAULT_AT] = row
            return kernel.LENGTH
        whole = len(record).to_bytes(4, "big") + record
        out[at : at + len(whole)] = memoryview(whole)
        at += len(whole)
    state[kernel.AT] = at
    return kernel.DONE


class _Writer:
    """Encodes the values of successive records."""

    def __init__(
        self, code: list[list[int]], slots: list[int], valid: list[int], data: memoryview
    ) -> None:
        self._code = code
        self._slots = slots
        self._valid = valid
        self._data = data

    def record(self, places: Ints) -> bytes:
        out = bytearray()
        self._values(0, len(self._code) - 1, places, out)
        return bytes(out)

    def _values(self, pc: int, end: int, places: Ints, out: bytearray) -> None:
        """Encode the values of the instructions from `pc` up to `end`."""
        while pc < end:
            op, union, jump, group, base, _, high, unit = self._code[pc]
            if op == LEAVE:
                pc = jump
                continue
            place = base + int(places[group])
            if op == CHOICE:
                at, branch = self._slots[place] >> 32, self._slots[place] & 0xFFFFFFFF
                out += encode_long(branch)
                _, _, pc, own, base, *_ = self._code[pc + 1 + branch]
                if base >= 0:
                    places[own] = at
                continue
            if not self._valid[place]:
                if union not in (0, 1):
                    raise _Stop(kernel.NULL, pc)
                out += encode_long(union)
                pc = jump
                continue
            if union >= 0:
                out += encode_long(0 if union == LONE else 1 - union)
            value = self._slots[place]
            if op == ARRAY:
                self._items(pc, high, value, places, out)
                pc = jump
                continue
            self._leaf(op, value, unit, out)
            pc += 1

    def _items(self, pc: int, loop: int, value: int, places: Ints, out: bytearray) -> None:
        first, count = value >> 32, value & 0xFFFFFFFF
        out += encode_long(count) if count else b""
        for item in range(first, first + count):
            places[self._code[loop][kernel.GROUP]] = item
            self._values(pc + 1, loop, places, out)
        out += b"\0"

    def _leaf(self, op: int, value: int, unit: int, out: bytearray) -> None:
        if op == NUMBER:
            out += encode_long(value)
        elif op in (BYTES, FIXED):
            at, length = value >> 32, value & 0xFFFFFFFF
            out += encode_long(length) if op == BYTES else b""
            out += self._data[at : at + length]
        elif op != RECORD:
            out += (value & _WORD).to_bytes(8, "little")[:unit]
