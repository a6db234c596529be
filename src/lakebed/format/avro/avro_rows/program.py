"""Compile a schema to instructions, which `kernel` documents.

A program is compiled once per schema and set of columns. It is data, not machine code: the kernel
interprets it.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from lakebed.errors import UnsupportedError
from lakebed.format.avro.avro_rows.kernel import (
    ARRAY,
    BASE,
    BOOLEAN,
    CHOICE,
    DOUBLE,
    END,
    FLOAT,
    HIGH,
    JUMP,
    LEAVE,
    LOOP,
    LOW,
    NUMBER,
    Bytes,
    Ints,
)
from lakebed.format.avro.avro_rows.shape import BARE, Form, Shape, parse_shape
from lakebed.format.avro.avro_schema import MAX_DEPTH, avro_to_arrow

_KEY: Final = Shape(Form.BYTES, 1)
_WIDTHS: Final = {BOOLEAN: 1, FLOAT: 4, DOUBLE: 8}
_DAY_MICROS: Final = 24 * 60 * 60 * 1_000_000
_ENTRY_COST: Final = 17  # a slot, its flag, and about the same amount as Arrow data
_MAX_COST: Final = 1 << 31  # keeps sums of costs within 64 bits


@dataclass(frozen=True, slots=True)
class Node:
    """A value of the schema that is read or written: a column, or a part of one.

    `group` is the group of its entries. The children of an array or map are in the group `items`; a
    map has two children, the keys and the values. Each child of a union has its own group; the
    child for null is -1.
    """

    field: pa.Field
    path: str
    shape: Shape
    group: int
    children: tuple[int, ...] = ()
    items: int = -1


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """The instructions for a schema; the column BASE is the number of a node, or -1.

    `paths` contains the path of each instruction's value. `least` is the minimum size of a record
    in bytes, `costs` the memory of an entry of each group, and `roots` the nodes of the columns.
    """

    schema: pa.Schema
    code: Ints
    nodes: tuple[Node, ...]
    roots: tuple[int, ...]
    paths: tuple[str, ...]
    costs: Ints
    least: int

    def lay_out(self, entries: Ints) -> "Layout":
        """Allocate room for `entries[group]` entries in each group."""
        groups = np.array([node.group for node in self.nodes], np.int64)
        ends = np.cumsum(entries[groups])
        bases = ends - entries[groups]
        code = self.code.copy()
        used = code[:, BASE] >= 0
        code[used, BASE] = bases[code[used, BASE]]
        room = int(ends[-1]) if len(ends) else 0
        return Layout(code, bases, np.zeros(room, np.int64), np.zeros(room, np.uint8), entries)


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """The entries of all nodes; those of a node start at `bases[node]` in `slots` and `valid`."""

    code: Ints
    bases: Ints
    slots: Ints
    valid: Bytes
    caps: Ints

    def entries(self, node: int, count: int) -> tuple[Ints, Bytes]:
        """Return the first `count` entries of a node."""
        base = int(self.bases[node])
        return self.slots[base : base + count], self.valid[base : base + count]

    def clear(self) -> None:
        """Discard all entries."""
        self.slots.fill(0)
        self.valid.fill(0)


@functools.lru_cache(maxsize=16)
def _make(text: str, columns: frozenset[str] | None, unions: bool) -> Program:
    schema = avro_to_arrow(text, unions=unions)
    shape = parse_shape(text)
    maker = _Maker()
    roots = []
    for field, child in zip(schema, shape.children, strict=True):
        wanted = columns is None or field.name in columns
        node = maker.add(field, child, field.name, group=0, wanted=wanted, depth=1)
        if wanted:
            roots.append(node)
    maker.emit(END, BARE, "", 0, -1)
    fields = [maker.nodes[root].field for root in roots]
    return Program(
        pa.schema(fields),
        np.array(maker.code, np.int64),
        tuple(maker.nodes),
        tuple(roots),
        tuple(maker.paths),
        maker.costs(),
        shape.least,
    )


def make_program(text: str, columns: Sequence[str] | None, *, unions: bool = False) -> Program:
    """Compile the program of a record schema for the given columns; None means all.

    `unions` and errors are those of `avro_to_arrow`.
    """
    return _make(text, None if columns is None else frozenset(columns), unions)


class _Maker:
    """Compiles a schema in one walk over its shape and, in parallel, its Arrow types."""

    def __init__(self) -> None:
        self.code: list[list[int]] = []
        self.paths: list[str] = []
        self.nodes: list[Node] = []
        self._groups = 1

    def costs(self) -> Ints:
        """Return the memory of an entry of each group, in bytes."""
        costs = [0] * self._groups
        for node in self.nodes:
            longest = max((len(symbol.encode()) for symbol in node.shape.symbols), default=0)
            costs[node.group] += _ENTRY_COST + longest
        return np.array([min(cost, _MAX_COST) for cost in costs], np.int64)

    def emit(  # the columns of an instruction, in order
        self, op: int, union: int, path: str, group: int, base: int, low: int = 0, high: int = 0
    ) -> int:
        """Append one instruction and return its number."""
        self.code.append([op, union, len(self.code) + 1, group, base, low, high, 0])
        self.paths.append(path)
        return len(self.code) - 1

    def add(
        self, field: pa.Field, shape: Shape, path: str, *, group: int, wanted: bool, depth: int
    ) -> int:
        """Append the instructions for a value; return its node, or -1 if it is not selected."""
        if depth > MAX_DEPTH:
            raise UnsupportedError(f"Avro field {path!r}: nested deeper than {MAX_DEPTH} levels")
        node = -1
        if wanted:
            node = len(self.nodes)
            self.nodes.append(Node(field, path, shape, group))
        if shape.form in (Form.ARRAY, Form.MAP):
            self._add_items(node, field, shape, path, group, depth)
            return node
        if shape.form is Form.UNION:
            self._add_branches(node, field, shape, path, group, depth)
            return node
        low, high = _range(field.type, shape)
        at = self.emit(shape.form, shape.null, path, group, node, low, high)
        self.code[at][-1] = _unit(shape)
        if shape.form is Form.RECORD:
            children = tuple(
                self.add(
                    field.type.field(index),
                    child,
                    f"{path}.{field.type.field(index).name}",
                    group=group,
                    wanted=wanted,
                    depth=depth + 1,
                )
                for index, child in enumerate(shape.children)
            )
            self.code[at][JUMP] = len(self.code)
            if wanted:
                self.nodes[node] = Node(field, path, shape, group, children)
        return node

    def _add_branches(
        self, node: int, field: pa.Field, shape: Shape, path: str, group: int, depth: int
    ) -> None:
        first = 1 + self.emit(CHOICE, BARE, path, group, node, len(shape.children))
        for _ in shape.children:
            self.emit(LEAVE, BARE, path, group, -1)
        children, ends = [], []
        for branch, child in enumerate(shape.children):
            if child.form is Form.NULL:
                children.append(-1)
                ends.append(first + branch)
                continue
            own = self._groups if node >= 0 else 0
            self._groups += node >= 0
            self.code[first + branch][JUMP:LOW] = [len(self.code), own, node]
            inner = field.type.field(branch)
            wanted = node >= 0
            children.append(self.add(inner, child, path, group=own, wanted=wanted, depth=depth + 1))
            ends.append(self.emit(LEAVE, BARE, path, own, node))
        for at in ends:
            self.code[at][JUMP] = len(self.code)
        if node >= 0:
            self.nodes[node] = Node(field, path, shape, group, tuple(children))

    def _add_items(
        self, node: int, field: pa.Field, shape: Shape, path: str, group: int, depth: int
    ) -> None:
        array = self.emit(ARRAY, shape.null, path, group, node)
        wanted = node >= 0
        items = self._groups if wanted else 0
        self._groups += wanted
        if shape.form is Form.MAP:
            parts = [
                (field.type.key_field, _KEY, f"{path}.key"),
                (field.type.item_field, shape.children[0], f"{path}.value"),
            ]
        else:
            parts = [(field.type.value_field, shape.children[0], f"{path}.element")]
        children = tuple(
            self.add(part, child, name, group=items, wanted=wanted, depth=depth + 1)
            for part, child, name in parts
        )
        loop = self.emit(LOOP, BARE, path, items, node, group, array)
        self.code[loop][-1] = sum(child.least for _, child, _ in parts)
        self.code[array][HIGH] = loop
        self.code[array][JUMP] = loop + 1
        if wanted:
            self.nodes[node] = Node(field, path, shape, group, children, items)


def _unit(shape: Shape) -> int:
    if shape.form == NUMBER:
        return shape.unit
    return shape.size if shape.form is Form.FIXED else _WIDTHS.get(shape.form, 0)


def _range(arrow: pa.DataType, shape: Shape) -> tuple[int, int]:
    """Return the minimum and maximum of a column's numbers, in Avro's unit."""
    if shape.symbols:
        return 0, len(shape.symbols) - 1
    if pa.types.is_time(arrow):
        return 0, _DAY_MICROS // shape.unit - 1
    width = arrow.bit_width if shape.form is Form.NUMBER else 64
    top = 2 ** (width - 1)
    return -(top // shape.unit), (top - 1) // shape.unit
