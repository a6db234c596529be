"""A predicate bound to a schema: columns, constants, and functions applied to them.

Every node has the type that Spark gives it, casts stand where Spark puts them, and constant
parts are evaluated. This one tree is evaluated on rows, and asked what it demands of keys,
partitions and row group statistics.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa

Bound: TypeAlias = "Column | Constant | Apply"


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the table."""

    name: str
    kind: pa.DataType


@dataclass(frozen=True, slots=True)
class Constant:
    """A value.

    `text` is the string literal that it was cast from. It `is_literal` as it is written;
    `is_computed` if anything but a literal, cast between numbers at most, was evaluated: what a
    session with another time zone could evaluate to another value.
    """

    value: pa.Scalar
    text: str | None = None
    is_literal: bool = False
    is_computed: bool = False

    @property
    def kind(self) -> pa.DataType:
        """Return the type of the value."""
        return self.value.type


@dataclass(frozen=True, slots=True)
class Apply:
    """A function applied to operands; `option` is what it has besides, as LIKE its pattern."""

    function: str
    args: tuple[Bound, ...]
    kind: pa.DataType
    option: object = None


def walk(node: Bound) -> Iterator[Bound]:
    """Yield `node` and all nodes below it."""
    waiting = [node]
    while waiting:
        found = waiting.pop()
        yield found
        if isinstance(found, Apply):
            waiting.extend(reversed(found.args))


def column_names(node: Bound) -> tuple[str, ...]:
    """Return the columns that `node` needs, in the order in which they stand."""
    return tuple(dict.fromkeys(found.name for found in walk(node) if isinstance(found, Column)))
