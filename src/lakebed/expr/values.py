"""The values of a part of a predicate, and the rows for which its evaluation failed.

Spark fails at the first row that overflows, divides by zero or cannot be cast, but evaluates a part
only for rows that earlier parts leave undecided: `b <> 0 AND a / b > 1` never fails. So errors are
recorded per row, and an error is raised only if the evaluation reaches that row.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

Data: TypeAlias = pa.Array | pa.Scalar


@dataclass(frozen=True, slots=True)
class Values:
    """An array, or a constant for all rows; null where `failed` is true, because of `reason`."""

    data: Data
    failed: pa.BooleanArray | None = None
    reason: str = ""

    @property
    def kind(self) -> pa.DataType:
        """Return the type of the values."""
        return self.data.type

    def with_errors(self, *others: tuple[pa.BooleanArray | None, str]) -> "Values":
        """Return the same values with additional failed rows; the first reason is kept."""
        failed, reason = None, ""
        for more, why in (*others, (self.failed, self.reason)):
            if more is None:
                continue
            failed = more if failed is None else pc.or_(failed, more)
            reason = reason or why
        return Values(self.data, failed, reason)


def null_of(kind: pa.DataType) -> pa.Scalar:
    """Return a null of type `kind`; unlike `pa.scalar(None, kind)`, this does not import pandas."""
    return pa.nulls(1, kind)[0]


def checked(data: Data, is_right: Data, reason: str) -> Values:
    """Return `data`, with an error in each row where `is_right` is false; null is not an error."""
    right = pc.fill_null(is_right, True)
    if pc.all(right).as_py() is not False:
        return Values(data)
    return Values(pc.if_else(right, data, null_of(data.type)), pc.invert(right), reason)


def strict_errors(args: Sequence[Values]) -> list[tuple[pa.BooleanArray | None, str]]:
    """Return the errors of operands that are evaluated in order up to the first null."""
    errors: list[tuple[pa.BooleanArray | None, str]] = []
    for number, arg in enumerate(args):
        failed = arg.failed
        if failed is not None:
            for before in args[:number]:
                failed = pc.and_(failed, pc.is_valid(before.data))
        errors.append((failed, arg.reason))
    return errors


def masked(failed: pa.BooleanArray | None, reached: Data) -> pa.BooleanArray | None:
    """Return the errors restricted to rows for which `reached` is true."""
    return None if failed is None else pc.and_(failed, pc.fill_null(reached, False))
