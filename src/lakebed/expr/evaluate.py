"""Evaluate a bound predicate on the arrays of a batch, recording errors per row."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.expr import arithmetic, dates, text
from lakebed.expr.bound import Apply, Bound, Column, Constant
from lakebed.expr.casts import cast
from lakebed.expr.compare import COMPARISONS, compare, is_among, same
from lakebed.expr.types import LONGS
from lakebed.expr.values import Data, Values, masked, null_of, strict_errors


@dataclass(frozen=True, slots=True)
class Among:
    """The non-null constants in the list of an IN, and whether the list contains null."""

    values: pa.Array
    constants: tuple[Constant, ...]
    has_null: bool


def evaluate(node: Bound, batch: pa.RecordBatch) -> Values:
    """Return the values of `node` for the rows of `batch`."""
    return _Evaluator(batch).values(node)


def evaluate_constant(node: Apply) -> Values:
    """Return the value of a function of constants, as an array of one row."""
    row = pa.record_batch([pa.nulls(1)], names=[""])
    return _Evaluator(row, constants_as_rows=True).values(node)


class _Evaluator:
    def __init__(self, batch: pa.RecordBatch, *, constants_as_rows: bool = False) -> None:
        self._batch = batch
        self._constants_as_rows = constants_as_rows

    def values(self, node: Bound) -> Values:
        """Return the values of `node` for all rows."""
        if isinstance(node, Column):
            return Values(self._batch.column(node.name))
        if isinstance(node, Constant):
            one = node.value
            return Values(pa.repeat(one, 1) if self._constants_as_rows else one)
        special = _SPECIAL.get(node.function)
        if special is not None:
            return special(self, node)
        args = [self.values(arg) for arg in node.args]
        # Spark evaluates the divisor first.
        order = args[::-1] if node.function in ("/", "%", "div") else args
        found = _apply(node, [arg.data for arg in args])
        return found.with_errors(*strict_errors(order))

    def logic(self, node: Apply) -> Values:
        """Evaluate AND and OR; errors count only in rows that earlier operands leave undecided."""
        is_and = node.function == "and"
        act = pc.and_kleene if is_and else pc.or_kleene
        found = self.values(node.args[0])
        for arg in node.args[1:]:
            more = self.values(arg)
            failed = more.failed
            if failed is not None:
                # False decides an AND, true an OR.
                open_ = pc.fill_null(found.data, is_and)
                failed = masked(failed, open_ if is_and else pc.invert(open_))
            reason = found.reason or more.reason
            joined = Values(act(found.data, more.data), failed, reason)
            found = joined.with_errors((found.failed, reason))
        return found

    def among(self, node: Apply) -> Values:
        """Evaluate IN: null if the value is null, or not found in a list that contains null."""
        assert isinstance(node.option, Among)
        value = self.values(node.args[0])
        unknown = null_of(pa.bool_())
        found = is_among(value.data, node.option.values)
        no = unknown if node.option.has_null else pa.scalar(False)
        known = pc.if_else(found, pa.scalar(True), no)
        found = Values(pc.if_else(pc.is_valid(value.data), known, unknown))
        for arg in node.args[1:]:
            more = self.values(arg)
            is_open = pc.invert(pc.fill_null(found.data, False))
            failed = masked(more.failed, pc.and_(is_open, pc.is_valid(value.data)))
            equal = compare("=", value.data, more.data)
            joined = Values(pc.or_kleene(found.data, equal), failed, more.reason)
            found = joined.with_errors((found.failed, found.reason))
        return found.with_errors((value.failed, value.reason))

    def case(self, node: Apply) -> Values:
        """Evaluate CASE; its operands are pairs of WHEN and THEN, and ELSE at the end."""
        waiting: Data = pa.scalar(True)
        out: Data = null_of(node.kind)
        errors: list[tuple[pa.BooleanArray | None, str]] = []
        pairs = [*zip(node.args[:-1:2], node.args[1:-1:2], strict=True), (None, node.args[-1])]
        for test, then in pairs:
            chosen = waiting
            if test is not None:
                asked = self.values(test)
                errors.append((masked(asked.failed, waiting), asked.reason))
                is_true = pc.fill_null(asked.data, False)
                chosen = pc.and_(waiting, is_true)
                waiting = pc.and_(waiting, pc.invert(is_true))
            made = self.values(then)
            errors.append((masked(made.failed, chosen), made.reason))
            out = pc.if_else(chosen, made.data, out)
        return Values(out).with_errors(*errors)

    def coalesce(self, node: Apply) -> Values:
        """Evaluate COALESCE: the first operand that is not null."""
        found = self.values(node.args[0])
        for arg in node.args[1:]:
            more = self.values(arg)
            failed = masked(more.failed, pc.is_null(found.data))
            joined = Values(pc.coalesce(found.data, more.data), failed, more.reason)
            found = joined.with_errors((found.failed, found.reason))
        return found

    def extreme(self, node: Apply) -> Values:
        """Evaluate GREATEST and LEAST, which ignore nulls."""
        sign = ">" if node.function == "greatest" else "<"
        args = [self.values(arg) for arg in node.args]

        def better(one: Data, other: Data) -> Data:
            other_wins = pc.coalesce(compare(sign, other, one), pc.is_null(one))
            return pc.if_else(other_wins, other, one)

        data = reduce(better, (arg.data for arg in args))
        return Values(data).with_errors(*((arg.failed, arg.reason) for arg in args))

    def total(self, node: Apply) -> Values:
        """Evaluate IS NULL, <=>, IS TRUE, IS FALSE and ISNAN, which are never null."""
        args = [self.values(arg) for arg in node.args]
        data = [arg.data for arg in args]
        if node.function == "is null":
            made = pc.is_null(data[0])
        elif node.function == "<=>":
            made = same(*data)
        elif node.function == "isnan":
            made = pc.fill_null(pc.is_nan(data[0]), False)
        else:
            made = pc.fill_null(pc.equal(data[0], pa.scalar(bool(node.option))), False)
        return Values(made).with_errors(*((arg.failed, arg.reason) for arg in args))

    def try_cast(self, node: Apply) -> Values:
        """Evaluate TRY_CAST: null where the cast fails."""
        value = self.values(node.args[0])
        made = cast(value.data, node.kind)
        return Values(made.data, value.failed, value.reason)


_SPECIAL: dict[str, Callable[[_Evaluator, Apply], Values]] = {
    "and": _Evaluator.logic,
    "or": _Evaluator.logic,
    "in": _Evaluator.among,
    "case": _Evaluator.case,
    "coalesce": _Evaluator.coalesce,
    "greatest": _Evaluator.extreme,
    "least": _Evaluator.extreme,
    "is null": _Evaluator.total,
    "<=>": _Evaluator.total,
    "is truth": _Evaluator.total,
    "isnan": _Evaluator.total,
    "try_cast": _Evaluator.try_cast,
}


def _apply(node: Apply, data: Sequence[Data]) -> Values:
    """Apply a function that returns null if an operand is null."""
    name = node.function
    if name in COMPARISONS:
        return Values(compare(name, *data))
    if name == "cast":
        return cast(data[0], node.kind)
    if name in ("+", "-", "*"):
        return arithmetic.combine(name, data[0], data[1], node.kind)
    if name in dates.OF_DATES or name in dates.OF_TIMESTAMPS:
        return Values(dates.part(name, data[0]))
    return _FUNCTIONS[name](node, *data)


def _rounded(node: Apply, data: Data) -> Values:
    """Return FLOOR or CEIL; doubles saturate to 64-bit integers, and NaN becomes 0, as in Java."""
    mode = "down" if node.function == "floor" else "up"
    if pa.types.is_decimal(data.type):
        wide = pc.cast(data, pa.decimal128(38, data.type.scale))
        return Values(pc.cast(pc.round(wide, ndigits=0, round_mode=mode), node.kind))
    data = pc.round(pc.cast(data, pa.float64()), ndigits=0, round_mode=mode)
    high, low = float(LONGS.stop), float(LONGS.start)
    inner = pc.and_(pc.greater_equal(data, pa.scalar(low)), pc.less(data, pa.scalar(high)))
    whole = pc.cast(pc.if_else(inner, data, pa.scalar(0.0)), pa.int64())
    edge = pc.if_else(pc.less(data, pa.scalar(0.0)), pa.scalar(LONGS.start), pa.scalar(LONGS[-1]))
    edge = pc.if_else(pc.is_nan(data), pa.scalar(0), edge)
    return Values(pc.if_else(inner, whole, edge))


_FUNCTIONS: dict[str, Callable[..., Values]] = {
    "field": lambda node, one: Values(pc.struct_field(one, [node.option])),
    "not": lambda _, one: Values(pc.invert(one)),
    "/": lambda node, one, other: arithmetic.divide(one, other, node.kind),
    "%": lambda node, one, other: arithmetic.remainder(one, other, node.kind),
    "div": lambda _, one, other: arithmetic.divide_whole(one, other),
    "negative": lambda _, one: arithmetic.negative(one),
    "abs": lambda _, one: arithmetic.absolute(one),
    "floor": _rounded,
    "ceil": _rounded,
    "like": lambda node, one: Values(text.matches(one, node.option.regex)),
    "length": lambda _, one: Values(text.length(one)),
    "lower": lambda _, one: Values(text.lower(one)),
    "upper": lambda _, one: Values(text.upper(one)),
    "trim": lambda _, one: Values(text.trim(one, "trim")),
    "ltrim": lambda _, one: Values(text.trim(one, "ltrim")),
    "rtrim": lambda _, one: Values(text.trim(one, "rtrim")),
    "concat": lambda _, *parts: Values(text.concatenate(*parts)),
    "substring": lambda node, one: Values(text.substring(one, *node.option)),
    "replace": lambda node, one: Values(text.replace(one, *node.option)),
    "startswith": lambda node, one: Values(text.holds(one, str(node.option), "startswith")),
    "endswith": lambda node, one: Values(text.holds(one, str(node.option), "endswith")),
    "contains": lambda node, one: Values(text.holds(one, str(node.option), "contains")),
    "date_add": lambda _, one, days: Values(dates.add_days(one, days)),
    "date_sub": lambda _, one, days: Values(dates.add_days(one, days, -1)),
    "datediff": lambda _, end, start: Values(dates.days_between(end, start)),
}
