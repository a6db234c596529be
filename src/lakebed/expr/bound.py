"""A predicate bound to a schema: columns, constants, and functions applied to them.

Nodes have Spark's types, with casts inserted where Spark casts, and constant parts are already
evaluated. The tree is evaluated on rows, and searched for constraints on keys, partitions and row
group statistics.
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
    """A constant value.

    `text` is the string literal from which the constant was cast. `is_literal` is true if it was
    written as a literal. `is_computed` is true if it is the result of more than a literal and a
    numeric cast: a session in another time zone could compute another value.
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
    """A function applied to operands.

    `option` holds any other argument, such as the LIKE pattern.
    """

    function: str
    args: tuple[Bound, ...]
    kind: pa.DataType
    option: object = None


def walk(node: Bound) -> Iterator[Bound]:
    """Yield `node` and all its descendants, parents first."""
    waiting = [node]
    while waiting:
        found = waiting.pop()
        yield found
        if isinstance(found, Apply):
            waiting.extend(reversed(found.args))


def column_names(node: Bound) -> tuple[str, ...]:
    """Return the names of the columns that `node` needs, in order of appearance."""
    return tuple(dict.fromkeys(found.name for found in walk(node) if isinstance(found, Column)))


FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True, slots=True)
class Comparison:
    """A comparison whose right operand is a constant."""

    sign: str
    operand: Bound
    constant: Constant


def compared_with_constant(node: Apply) -> Comparison | None:
    """Return a comparison with its constant on the right; None if neither operand is a constant."""
    left, right = node.args
    sign = node.function
    if isinstance(left, Constant):
        left, right, sign = right, left, FLIPPED.get(sign, sign)
    return Comparison(sign, left, right) if isinstance(right, Constant) else None
