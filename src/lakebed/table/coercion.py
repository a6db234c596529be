"""Values of a predicate with their types, and how Spark's ANSI mode brings two together.

Comparing casts both sides to one type first: a float meets an integer or a decimal as a
double, an integer meets a decimal as a decimal wide enough for both, a date meets a
timestamp at its midnight in UTC. A double that is not a number equals itself and is
greater than all others.
"""

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.table.literal import TIMESTAMP, TIMESTAMP_NTZ

INTEGERS = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
_DIGITS = dict(zip(INTEGERS, (3, 5, 10, 20), strict=True))
_MOMENTS = (pa.date32(), TIMESTAMP_NTZ, TIMESTAMP)
_MAX_DIGITS = 38


@dataclass(frozen=True, slots=True)
class Term:
    """One side of a comparison: an expression of a type, or a constant."""

    kind: pa.DataType
    expression: pc.Expression
    constant: pa.Scalar | None = None

    @classmethod
    def of(cls, constant: pa.Scalar) -> "Term":
        """Give the term of a constant."""
        return cls(constant.type, pc.scalar(constant), constant)

    @property
    def is_text(self) -> bool:
        """Tell whether this is a text literal, which takes the type of what it meets."""
        return self.constant is not None and self.kind == pa.string()

    def cast(self, kind: pa.DataType) -> "Term":
        """Give the same value in the type `kind`, which can hold it."""
        if kind == self.kind:
            return self
        # Of Arrow's own ways from decimal to double the last bit is not sure; text's is.
        steps = [pa.string(), kind] if _to_double(self.kind, kind) else [kind]
        # An integer beyond 2**53 is rounded, as in Spark.
        safe = kind != pa.float64()
        if self.constant is None:
            expression = self.expression
            for step in steps:
                expression = expression.cast(step, safe=safe)
            return Term(kind, expression)
        constant = self.constant
        for step in steps:
            options = pc.CastOptions.safe(step) if safe else pc.CastOptions.unsafe(step)
            constant = pc.cast(constant, options=options)
        return Term.of(constant)


def _to_double(source: pa.DataType, target: pa.DataType) -> bool:
    return bool(pa.types.is_decimal(source) and target == pa.float64())


def comparison_type(terms: Sequence[Term]) -> pa.DataType | None:
    """Give the type in which Spark compares `terms`, None if only Spark can."""
    with_text = any(term.is_text for term in terms)
    known = (term.kind for term in terms if not term.is_text and not pa.types.is_null(term.kind))
    kinds = list(dict.fromkeys(known))
    if not kinds:
        return pa.string() if with_text else pa.null()
    if with_text and pa.string() not in kinds:
        # Which of several types a text takes depends on the order in which they stand.
        return _type_for_text(kinds[0]) if len(kinds) == 1 else None
    kind = None if pa.types.is_nested(kinds[0]) else kinds[0]
    for other in kinds[1:]:
        kind = None if kind is None else _common_type(kind, other)
    return kind


def _common_type(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """Give the type in which the two are compared, None if there is none without text."""
    if left == right:
        return left
    if left in INTEGERS and right in INTEGERS:
        return max(left, right, key=INTEGERS.index)
    if left in _MOMENTS and right in _MOMENTS:
        return max(left, right, key=_MOMENTS.index)
    if not (is_number(left) and is_number(right)):
        return None
    if pa.types.is_floating(left) or pa.types.is_floating(right):
        return pa.float64()
    one, other = as_decimal(left), as_decimal(right)
    scale = max(one.scale, other.scale)
    precision = max(one.precision - one.scale, other.precision - other.scale) + scale
    # Beyond 38 digits Spark rounds or gives up.
    return pa.decimal128(precision, scale) if precision <= _MAX_DIGITS else None


def _type_for_text(kind: pa.DataType) -> pa.DataType | None:
    """Give the type to which Spark casts a text that is compared with a `kind`."""
    if kind in INTEGERS:
        return pa.int64()
    if is_number(kind):
        return pa.float64()
    return kind if kind in _MOMENTS else None


def arithmetic_types(
    left: pa.DataType, right: pa.DataType, multiplies: bool
) -> tuple[pa.DataType, pa.DataType] | None:
    """Give what to cast the two sides of +, - or * to, None where Spark's result could differ."""
    if not (is_number(left) and is_number(right)):
        return None
    if not pa.types.is_decimal(left) and not pa.types.is_decimal(right):
        both = _common_type(left, right)
        return both, both
    if pa.types.is_floating(left) or pa.types.is_floating(right):
        return pa.float64(), pa.float64()
    one, other = as_decimal(left), as_decimal(right)
    if multiplies:
        digits = one.precision + other.precision
    else:
        whole = max(one.precision - one.scale, other.precision - other.scale)
        digits = whole + max(one.scale, other.scale)
    return (one, other) if digits + 1 <= _MAX_DIGITS else None


def as_decimal(kind: pa.DataType) -> pa.DataType:
    """Give the decimal that holds every value of an integer type."""
    return pa.decimal128(_DIGITS[kind], 0) if kind in INTEGERS else kind


def is_number(kind: pa.DataType) -> bool:
    """Tell whether `kind` is an integer, a decimal or a floating point number."""
    return kind in INTEGERS or pa.types.is_floating(kind) or pa.types.is_decimal(kind)


_Comparison = Callable[[pc.Expression, pc.Expression], pc.Expression]


def _equal(left: pc.Expression, right: pc.Expression) -> pc.Expression:
    return (left == right) | (pc.is_nan(left) & pc.is_nan(right))


def _less(left: pc.Expression, right: pc.Expression) -> pc.Expression:
    return (left < right) | (~pc.is_nan(left) & pc.is_nan(right))


_PLAIN: dict[str, _Comparison] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_FLOATING: dict[str, _Comparison] = {
    "=": _equal,
    "<>": lambda left, right: ~_equal(left, right),
    "<": _less,
    "<=": lambda left, right: ~_less(right, left),
    ">": lambda left, right: _less(right, left),
    ">=": lambda left, right: ~_less(left, right),
}


def beyond_long(value: Term, limit: Term) -> bool:
    """Tell whether `limit` is a decimal that no integer reaches: then nulls are less to Spark."""
    if value.kind not in INTEGERS or limit.constant is None or not pa.types.is_decimal(limit.kind):
        return False
    return not -(1 << 63) <= limit.constant.as_py() < 1 << 63


def compare(sign: str, left: Term, right: Term) -> pc.Expression:
    """Compare two terms of one type; unknown where either is null."""
    known = _FLOATING if pa.types.is_floating(left.kind) else _PLAIN
    return known[sign](left.expression, right.expression)


def is_in(value: Term, constants: list[pa.Scalar]) -> pc.Expression:
    """Tell whether `value` equals one of `constants`, all of its type; false for null."""
    expression = value.expression
    if pa.types.is_floating(value.kind):
        # -0.0 equals 0.0, but they have different hashes; adding zero makes them one.
        expression = expression + pc.scalar(pa.scalar(0.0, value.kind))
        return expression.isin(pa.array([c.as_py() + 0.0 for c in constants], value.kind))
    return expression.isin(pa.array([c.as_py() for c in constants], value.kind))
