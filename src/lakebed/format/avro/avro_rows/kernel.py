"""Compiled loops that execute a program over the bytes of many Avro records.

A program is a matrix of numbers, one row per instruction:

    OP      the kind of value
    UNION   index of null in its union, BARE or LONE (see `shape`)
    JUMP    the instruction after this value
    GROUP   the group of its entries: 0 for rows, others for the items of one array or map
    BASE    where its entries start in `slots` and `valid`; negative: the value is skipped
    LOW, HIGH   the range of valid numbers; for a LOOP, the group and the instruction of its ARRAY;
                for a CHOICE, the number of its branches
    UNIT    the factor of a number; the size of a FIXED; the minimum size of an item

An entry is a number in `slots` and a 1 in `valid`; both are 0 initially. Bytes are represented by
their offset and length, `at << 32 | length`; an array by the number of its items (to read), or by
its first item and their number (to write). Entry i of a group is at BASE + i for all values of the
group, null or not, so a null and its descendants need no work.

A CHOICE is a union of null and several types. One instruction per branch follows it and jumps to
the branch's value; after each value, a LEAVE jumps to the end of the union. Each branch has its own
group, so branches that are not taken need no entries. The entry of a CHOICE is the index of the
branch and, to write, also the entry in the branch's group: `entry << 32 | branch`.

`twin` does the same in plain Python and shares no code; both run the same tests. Numbers are int64
throughout: numba converts a mix of int64 and uint64 to floats. Importing numba is slow; see
`format/compiled.py`.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]
Words = npt.NDArray[np.uint64]

_int64: Any = np.int64

# Instructions. Those before LOOP have the values of `shape.Form`; a map is an array of pairs.
NUMBER, BOOLEAN, FLOAT, DOUBLE, BYTES, FIXED, RECORD, ARRAY, LOOP, END, CHOICE, LEAVE = range(12)
OP, UNION, JUMP, GROUP, BASE, LOW, HIGH, UNIT = range(8)

# Indexes into the state of `walk`.
AT, ROWS_LEFT, REACH, SPENT, BUDGET, FAULT_AT, FAULT_PC, DETAIL = range(8)
STATE_SIZE = 8

# How a walk ends: all rows are read; no complete record is left; the batch is full; a group needs #
# room for DETAIL entries. From CUT on, the bytes are invalid.
DONE, MORE, FULL, GROW, CUT, LENGTH, LONG, BRANCH, RANGE, FLAG, COUNT, SPAN, REST, NULL = range(14)

Walk = Callable[[Bytes, Ints, Ints, Bytes, Ints, Ints, Ints, Ints, Ints, Ints], int]
Pack = Callable[[Ints, Ints, Bytes, Bytes, Words, Bytes, Words, Ints, Ints, Ints], int]


def compile_kernels(cached: bool) -> tuple[Walk, Pack]:
    """Compile `_walk` and `_pack`."""
    import numba as nb  # noqa: PLC0415 - see the module's docstring

    data = nb.types.Array(nb.uint8, 1, "C", readonly=True)
    words = nb.types.Array(nb.uint64, 1, "A", readonly=True, aligned=False)
    out_words = nb.types.Array(nb.uint64, 1, "A", aligned=False)
    ints, code, flags, number = nb.int64[::1], nb.int64[:, ::1], nb.uint8[::1], nb.int64
    walk = number(data, code, ints, flags, ints, ints, ints, ints, code, ints)
    pack = number(code, ints, flags, data, words, flags, out_words, ints, code, ints)
    return (
        nb.njit(walk, cache=cached, nogil=True)(_walk),
        nb.njit(pack, cache=cached, nogil=True)(_pack),
    )


def _walk(  # noqa: C901, PLR0912, PLR0915 - one function: numba caches no calls of others
    data: Bytes,
    code: Ints,
    slots: Ints,
    valid: Bytes,
    counts: Ints,
    caps: Ints,
    costs: Ints,
    marks: Ints,
    stack: Ints,
    state: Ints,
) -> int:
    """Decode complete records from `data[state[AT]:]` into the entries; return how the walk ended.

    For each group, `counts` is the number of entries, `caps` the maximum number, and `costs` how
    much of `state[BUDGET]` an entry uses. `state[REACH]` is the end of the block, counted from
    `data[0]`. A record that cannot be decoded leaves `counts` and `state` unchanged.
    """
    size = data.shape[0]
    groups = counts.shape[0]
    at: int = state[AT]
    spent = state[SPENT]

    def read_long(at: int, end: int) -> tuple[int, int]:
        """Return a number and the position after it: -1 if the record ends, -2 if too long."""
        value: int = _int64(0)
        shift = _int64(0)
        while at < end:
            byte = _int64(data[at])
            at += 1
            if shift == 63 and byte > 1:
                return value, _int64(-2)
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return ((value >> 1) & 0x7FFFFFFFFFFFFFFF) ^ -(value & 1), at
            shift += 7
        return value, _int64(-1)

    while True:
        if state[ROWS_LEFT] == 0:
            return DONE
        if counts[0] == caps[0]:
            return FULL
        if size - at < 4:
            state[DETAIL] = 4
            return MORE
        start = at
        spent_before = spent
        length = (
            (_int64(data[at]) << 24)
            | (_int64(data[at + 1]) << 16)
            | (_int64(data[at + 2]) << 8)
            | _int64(data[at + 3])
        )
        at += 4
        end = at + length
        if length > 0x7FFFFFFF or end > state[REACH]:
            state[FAULT_AT] = start
            state[DETAIL] = length
            return LENGTH
        if end > size:
            state[DETAIL] = length + 4
            return MORE
        for group in range(groups):
            marks[group] = counts[group]
        pc = 0
        depth = -1
        fault = 0
        detail = _int64(0)
        while True:
            op = code[pc, OP]
            base = code[pc, BASE]
            group = code[pc, GROUP]
            if op == LOOP:
                left = stack[depth, 0]
                if left > 0:
                    left -= 1
                    if base >= 0:
                        counts[group] += 1
                if left == 0:
                    if stack[depth, 1] >= 0 and stack[depth, 1] != at:
                        fault = SPAN
                        break
                    left, after = read_long(at, end)
                    if after < 0:
                        fault = CUT if after == -1 else LONG
                        break
                    at = after
                    if left == 0:
                        depth -= 1
                        pc += 1
                        continue
                    stack[depth, 1] = -1
                    if left < 0:
                        left = -left
                        span, after = read_long(at, end)
                        if after < 0:
                            fault = CUT if after == -1 else LONG
                            break
                        at = after
                        if span < 0 or span > end - at:
                            fault = SPAN
                            break
                        stack[depth, 1] = at + span
                    if left < 0 or left > (end - at) // code[pc, UNIT]:
                        fault = COUNT
                        detail = left
                        break
                    if base >= 0:
                        spent += left * costs[group]
                        if spent > state[BUDGET]:
                            fault = FULL
                            break
                        if counts[group] + left > caps[group]:
                            fault = GROW
                            detail = counts[group] + left
                            break
                        slots[base + counts[code[pc, LOW]]] += left
                stack[depth, 0] = left
                pc = code[pc, HIGH] + 1
                continue
            if op >= END:
                if op == END:
                    break
                if op == LEAVE:
                    if base >= 0:
                        counts[group] += 1
                    pc = code[pc, JUMP]
                    continue
                branch, after = read_long(at, end)
                if after < 0:
                    fault = CUT if after == -1 else LONG
                    break
                if branch < 0 or branch >= code[pc, LOW]:
                    fault = BRANCH
                    detail = branch
                    break
                at = after
                if base >= 0:
                    slots[base + counts[group]] = branch
                    valid[base + counts[group]] = 1
                pc += 1 + branch
                if code[pc, BASE] >= 0:
                    own = code[pc, GROUP]
                    spent += costs[own]
                    if spent > state[BUDGET]:
                        fault = FULL
                        break
                    if counts[own] == caps[own]:
                        # Make room for the case that all entries of the group take this branch.
                        fault = GROW
                        detail = caps[group]
                        break
                pc = code[pc, JUMP]
                continue
            union = code[pc, UNION]
            if union >= 0:
                branch, after = read_long(at, end)
                if after < 0:
                    fault = CUT if after == -1 else LONG
                    break
                if branch < 0 or branch > 1 or (union == 2 and branch == 1):
                    fault = BRANCH
                    detail = branch
                    break
                at = after
                if branch == union:
                    pc = code[pc, JUMP]
                    continue
            value = _int64(0)
            if op == NUMBER:
                value, after = read_long(at, end)
                if after < 0:
                    fault = CUT if after == -1 else LONG
                    break
                if value < code[pc, LOW] or value > code[pc, HIGH]:
                    fault = RANGE
                    detail = value
                    break
                at = after
                value *= code[pc, UNIT]
            elif op == BYTES:
                length, after = read_long(at, end)
                if after < 0:
                    fault = CUT if after == -1 else LONG
                    break
                if length < 0 or length > end - after:
                    fault = COUNT
                    detail = length
                    break
                value = after << 32 | length
                at = after + length
            elif op == RECORD:
                pass
            elif op == ARRAY:
                depth += 1
                stack[depth, 0] = 0
                stack[depth, 1] = -1
            else:
                width = code[pc, UNIT]
                if width > end - at:
                    fault = CUT
                    break
                if op == FIXED:
                    value = at << 32 | width
                elif op == BOOLEAN:
                    value = _int64(data[at])
                    if value > 1:
                        fault = FLAG
                        detail = value
                        break
                elif op == DOUBLE:
                    for step in range(8):
                        value |= _int64(data[at + step]) << (8 * step)
                else:
                    for step in range(4):
                        value |= _int64(data[at + step]) << (8 * step)
                at += width
            if base >= 0:
                place = base + counts[group]
                slots[place] = value
                valid[place] = 1
            # An array's items are between it and its LOOP. Jump to the LOOP, which reads the count.
            pc = code[pc, HIGH] if op == ARRAY else pc + 1
        if fault == 0 and at != end:
            fault = REST
            detail = end - at
        if fault != 0:
            state[FAULT_AT] = at
            state[FAULT_PC] = pc
            state[DETAIL] = detail
            for group in range(groups):
                counts[group] = marks[group]
            state[SPENT] = spent_before
            return fault
        counts[0] += 1
        state[AT] = at
        state[ROWS_LEFT] -= 1
        state[SPENT] = spent


def _pack(  # noqa: C901, PLR0912, PLR0915 - one loop, as above
    code: Ints,
    slots: Ints,
    valid: Bytes,
    data: Bytes,  # noqa: ARG001 - only the twin reads it
    words: Words,
    out: Bytes,
    out_words: Words,
    places: Ints,
    stack: Ints,
    state: Ints,
) -> int:
    """Encode `state[ROWS_LEFT]` records with length prefixes; return how the walk ended.

    The caller must give `out` room for the longest form of every entry, plus eight bytes.
    """
    at: int = _int64(0)

    def write_long(at: int, value: int) -> int:
        """Write a number and return the position after it."""
        rest = (value << 1) ^ (value >> 63)
        while rest < 0 or rest > 0x7F:
            out[at] = np.uint8(rest & 0x7F | 0x80)
            rest = (rest >> 7) & 0x1FFFFFFFFFFFFFF
            at += 1
        out[at] = np.uint8(rest)
        return at + 1

    for row in range(state[ROWS_LEFT]):
        places[0] = row
        start = at
        at += 4
        pc = 0
        depth = -1
        while True:
            op = code[pc, OP]
            if op == LOOP:
                stack[depth, 0] += 1
                if stack[depth, 0] < stack[depth, 1]:
                    places[code[pc, GROUP]] = stack[depth, 0]
                    pc = code[pc, HIGH] + 1
                else:
                    out[at] = 0
                    at += 1
                    depth -= 1
                    pc += 1
                continue
            if op >= END:
                if op == END:
                    break
                if op == CHOICE:
                    value = slots[code[pc, BASE] + places[code[pc, GROUP]]]
                    at = write_long(at, value & 0xFFFFFFFF)
                    pc += 1 + (value & 0xFFFFFFFF)
                    if code[pc, BASE] >= 0:
                        places[code[pc, GROUP]] = value >> 32
                pc = code[pc, JUMP]
                continue
            place = code[pc, BASE] + places[code[pc, GROUP]]
            union = code[pc, UNION]
            if valid[place] == 0:
                if union not in (0, 1):
                    state[FAULT_AT] = row
                    state[FAULT_PC] = pc
                    return NULL
                out[at] = np.uint8(2 * union)
                at += 1
                pc = code[pc, JUMP]
                continue
            if union >= 0:
                out[at] = np.uint8(2 if union == 0 else 0)
                at += 1
            value = slots[place]
            if op == NUMBER:
                at = write_long(at, value)
            elif op in (BYTES, FIXED):
                length = value & 0xFFFFFFFF
                if op == BYTES:
                    at = write_long(at, length)
                source = value >> 32
                for step in range(0, length, 8):
                    out_words[at + step] = words[source + step]
                at += length
            elif op == ARRAY:
                count = value & 0xFFFFFFFF
                if count > 0:
                    at = write_long(at, count)
                depth += 1
                stack[depth, 0] = (value >> 32) - 1
                stack[depth, 1] = (value >> 32) + count
            elif op != RECORD:
                out_words[at] = np.uint64(value)
                at += code[pc, UNIT]
            pc = code[pc, HIGH] if op == ARRAY else pc + 1
        length = at - start - 4
        if length > 0x7FFFFFFF:
            state[FAULT_AT] = row
            return LENGTH
        for step in range(4):
            out[start + step] = np.uint8((length >> (24 - 8 * step)) & 0xFF)
    state[AT] = at
    return DONE
