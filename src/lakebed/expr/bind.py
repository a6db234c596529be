"""Bind a syntax tree to a schema: resolve names, determine types, insert casts.

Functions that are not listed and expressions whose result could differ from Spark's are rejected
with an error that names them. So are constant expressions whose evaluation fails.
"""

from collections.abc import Callable, Sequence
from typing import ClassVar

import pyarrow as pa

from lakebed.errors import InvalidError, LakebedError, SchemaError
from lakebed.expr.arithmetic import is_quotient_exact, is_remainder_exact
from lakebed.expr.bound import FLIPPED, Apply, Bound, Column, Constant
from lakebed.expr.casts import is_castable
from lakebed.expr.evaluate import Among, evaluate_constant
from lakebed.expr.functions import bind_function
from lakebed.expr.literal import number, parse_like, parse_text
from lakebed.expr.parser import parse_syntax
from lakebed.expr.syntax import Syntax
from lakebed.expr.text import matches
from lakebed.expr.tokens import invalid, unsupported
from lakebed.expr.types import (
    INTEGERS,
    LONGS,
    MAX_DIGITS,
    as_decimal,
    common_type,
    comparison_type,
    is_negated_exactly,
    is_number,
    is_real,
    is_supported,
    product_type,
    quotient_type,
    remainder_type,
    sum_type,
    type_name,
    type_named,
)
from lakebed.expr.values import null_of
from lakebed.model.spelling import similar

BOOL = pa.bool_()
# Spark searches lists of this length or more with a set, in which -0.0 differs from 0.0.
_LONG_LIST = 10


def bind_predicate(text: str, schema: pa.Schema) -> Bound:
    """Parse and bind `text`; raise an error if it is not a valid boolean expression."""
    binder = Binder(text, schema)
    try:
        return binder.condition(parse_syntax(text))
    except (pa.ArrowException, RecursionError) as error:
        raise invalid(text, str(error)) from error


class Binder:
    """Binds the nodes of one predicate; `expr/functions.py` binds the functions."""

    what: ClassVar[str] = "predicate"
    """What errors call the text."""

    def __init__(self, text: str, schema: pa.Schema) -> None:
        self._text = text
        self._schema = schema
        self._handlers: dict[str, Callable[[Syntax], Bound]] = {
            "group": lambda node: self.bind(node.args[0]),
            "column": self._column,
            "field": self._field,
            "true": lambda _: literal(pa.scalar(True)),
            "false": lambda _: literal(pa.scalar(False)),
            "null": lambda _: literal(pa.NA),
            "string": lambda node: literal(pa.scalar(str(node.value), pa.string())),
            "number": self._number,
            "typed": self._typed,
            "and": self._logic,
            "or": self._logic,
            "not": lambda node: self.apply("not", [self.condition(node.args[0])], BOOL),
            "between": self._between,
            "in": self._in,
            "like": self._like,
            "is null": lambda node: self.apply("is null", [self.bind(node.args[0])], BOOL),
            "is truth": lambda node: self.apply(
                "is truth", [self.condition(node.args[0])], BOOL, node.value
            ),
            "case": self._case,
            "cast": self._cast,
            "try_cast": self._cast,
            "negative": self._signed,
            "positive": self._signed,
            "||": self._concatenated,
            "call": self._call,
            **dict.fromkeys(("=", "<>", "<", "<=", ">", ">=", "<=>"), self._comparison),
            **dict.fromkeys(("+", "-", "*", "/", "%", "div"), self._arithmetic),
        }

    def bind(self, node: Syntax) -> Bound:
        """Bind a node of any type."""
        return self._handlers[node.kind](node)

    def condition(self, node: Syntax) -> Bound:
        """Bind a node that must be boolean."""
        bound = self.bind(node)
        if pa.types.is_null(bound.kind):
            return literal(null_of(BOOL))
        if bound.kind != BOOL:
            problem = f"{self.spelled(node)} is of type {type_name(bound.kind)}, expected a boolean"
            raise invalid(self._text, problem)
        return bound

    def apply(
        self, function: str, args: Sequence[Bound], kind: pa.DataType, option: object = None
    ) -> Bound:
        """Return a node that applies a function, or its value if all operands are constants."""
        node = Apply(function, tuple(args), kind, option)
        if not all(isinstance(arg, Constant) for arg in args):
            return node
        found = evaluate_constant(node)
        if found.failed is not None and found.failed[0].as_py():
            raise invalid(self._text, found.reason)
        return Constant(found.data[0], is_computed=True)

    def cast(self, bound: Bound, kind: pa.DataType) -> Bound:
        """Return `bound` cast to `kind`, a type to which Spark casts implicitly."""
        if bound.kind == kind:
            return bound
        if not isinstance(bound, Constant):
            if not is_castable(bound.kind, kind):
                raise self.refuse(f"{type_name(bound.kind)} as {type_name(kind)}")
            return self.apply("cast", [bound], kind)
        if pa.types.is_null(bound.kind) or not bound.value.is_valid:
            return Constant(null_of(kind))
        if bound.kind == pa.string():
            text = bound.value.as_py()
            try:
                return Constant(parse_text(text, kind), text=text, is_computed=bound.is_computed)
            except InvalidError as error:
                raise invalid(self._text, str(error)) from error
        if not is_castable(bound.kind, kind):
            raise self.refuse(f"{type_name(bound.kind)} as {type_name(kind)}")
        if bound.kind in INTEGERS and kind in INTEGERS and bound.kind.bit_width <= kind.bit_width:
            # A shortcut, because a list of values may be long.
            value = pa.scalar(bound.value.as_py(), kind)
            return Constant(value, bound.text, is_computed=bound.is_computed)
        made = self.apply("cast", [bound], kind)
        assert isinstance(made, Constant)
        plain = bound.kind in INTEGERS and kind in INTEGERS and not bound.is_computed
        return Constant(made.value, bound.text, is_computed=not plain)

    def compare(self, sign: str, left: Bound, right: Bound) -> Bound:
        """Bind a comparison, casting both sides to one type."""
        kind = self.comparison_type([left, right])
        for one, other, flipped in ((left, right, sign), (right, left, FLIPPED.get(sign, sign))):
            beyond = _beyond_long(one, other)
            if beyond is not None and flipped in FLIPPED:
                # Spark evaluates such a comparison to a constant, even for nulls.
                return literal(pa.scalar((beyond > 0) == flipped.startswith("<")))
        if pa.types.is_null(kind):
            return literal(pa.scalar(True) if sign == "<=>" else null_of(BOOL))
        return self.apply(sign, [self.cast(left, kind), self.cast(right, kind)], BOOL)

    def comparison_type(self, args: Sequence[Bound]) -> pa.DataType:
        """Return the type in which operands are compared; raise an error if they cannot be."""
        kind = comparison_type([arg.kind for arg in args])
        if kind is None:
            kinds = dict.fromkeys(type_name(arg.kind) for arg in args)
            raise self.refuse(f"comparing {' with '.join(kinds)}")
        return kind

    def common(self, args: Sequence[Bound], what: str) -> tuple[list[Bound], pa.DataType]:
        """Return the operands cast to their common type, and that type."""
        kind = common_type([arg.kind for arg in args])
        if kind is None:
            kinds = dict.fromkeys(type_name(arg.kind) for arg in args)
            raise self.refuse(f"{what} of {' and '.join(kinds)}")
        return [self.cast(arg, kind) for arg in args], kind

    def refuse(self, part: str) -> LakebedError:
        """Return the error for a part of the predicate that is not supported."""
        return unsupported(self._text, part)

    def spelled(self, node: Syntax) -> str:
        """Return the part of the predicate's text from which `node` was parsed."""
        return self._text[node.start : node.end]

    def _column(self, node: Syntax) -> Bound:
        name = str(node.value)
        near = [known for known in self._schema.names if known.lower() == name.lower()]
        if len(near) != 1:
            names = self._schema.names
            found = f"column {name} is ambiguous; the table has {', '.join(names)}"
            found = found if near else missing_column(name, names)
            raise SchemaError(f"{self.what} {self._text[:200]!r}: {found}")
        return Column(near[0], self._schema.field(near[0]).type)

    def _field(self, node: Syntax) -> Bound:
        whole, name = self.bind(node.args[0]), str(node.value)
        if not pa.types.is_struct(whole.kind):
            raise invalid(
                self._text,
                f"{self.spelled(node)}: expected a struct, found {type_name(whole.kind)}",
            )
        fields = list(whole.kind)
        near = [at for at, field in enumerate(fields) if field.name.lower() == name.lower()]
        if len(near) != 1:
            raise SchemaError(
                f"{self.what} {self._text[:200]!r}: expected one field {name!r} in {whole.kind}, found {len(near)}"
            )
        return self.apply("field", [whole], fields[near[0]].type, near[0])

    def _number(self, node: Syntax) -> Bound:
        try:
            return literal(number(str(node.value)))
        except InvalidError as error:
            raise invalid(self._text, str(error)) from error

    def _typed(self, node: Syntax) -> Bound:
        text = str(node.args[0].value)
        if node.value == "X":
            try:
                return literal(pa.scalar(bytes.fromhex(text), pa.binary()))
            except ValueError as error:
                raise invalid(self._text, f"X'{text[:60]}' is not hexadecimal") from error
        kind = type_named(str(node.value))
        assert kind is not None, node.value
        return self.cast(literal(pa.scalar(text)), kind)

    def _logic(self, node: Syntax) -> Bound:
        return self.apply(node.kind, [self.condition(arg) for arg in node.args], BOOL)

    def _comparison(self, node: Syntax) -> Bound:
        return self.compare(node.kind, *map(self.bind, node.args))

    def _between(self, node: Syntax) -> Bound:
        value, low, high = map(self.bind, node.args)
        sides = [self.compare(">=", value, low), self.compare("<=", value, high)]
        return self.apply("and", sides, BOOL)

    def _in(self, node: Syntax) -> Bound:
        value, *items = map(self.bind, node.args)
        if not items:
            raise invalid(self._text, f"{self.spelled(node)}: expected at least one value")
        kind = self.comparison_type([value, *items])
        if pa.types.is_null(kind):
            return literal(null_of(BOOL))
        items = [self.cast(item, kind) for item in items]
        constants = [item for item in items if isinstance(item, Constant)]
        known = tuple(constant for constant in constants if constant.value.is_valid)
        values = pa.array([constant.value.as_py() for constant in known], kind)
        if is_real(kind) and len(constants) >= _LONG_LIST and 0 in values.to_pylist():
            raise self.refuse(f"0 in a list of {_LONG_LIST} or more {type_name(kind)} values")
        option = Among(values, known, has_null=len(known) < len(constants))
        others = [item for item in items if not isinstance(item, Constant)]
        return self.apply("in", [self.cast(value, kind), *others], BOOL, option)

    def _like(self, node: Syntax) -> Bound:
        value, pattern = map(self.bind, node.args)
        escape = "\\" if node.value is None else str(node.value)
        is_text = isinstance(pattern, Constant) and pattern.kind == pa.string()
        if value.kind != pa.string() or not is_text or len(escape) != 1:
            raise self.refuse(f"{self.spelled(node)} (expected a string, and a pattern in quotes)")
        assert isinstance(pattern, Constant)
        if not pattern.value.is_valid:
            return literal(null_of(BOOL))
        try:
            like = parse_like(pattern.value.as_py(), escape)
            matches(pa.scalar(""), like.regex)  # raises an error if the pattern is too long
        except InvalidError as error:
            raise invalid(self._text, str(error)) from error
        return self.apply("like", [value], BOOL, like)

    def _case(self, node: Syntax) -> Bound:
        subject = self.bind(node.args[0]) if node.value else None
        parts = node.args[1:] if node.value else node.args
        has_else = len(parts) % 2 == 1
        whens, thens = parts[: len(parts) - has_else : 2], [self.bind(part) for part in parts[1::2]]
        if has_else:
            thens.append(self.bind(parts[-1]))
        if subject is None:
            tests = [self.condition(when) for when in whens]
        else:
            tests = [self.compare("=", subject, self.bind(when)) for when in whens]
        results, kind = self.common(thens, "CASE")
        if not has_else:
            results.append(Constant(null_of(kind)))
        pairs = [one for pair in zip(tests, results, strict=False) for one in pair]
        return self.apply("case", [*pairs, results[-1]], kind)

    def _cast(self, node: Syntax) -> Bound:
        bound = self.bind(node.args[0])
        assert isinstance(node.value, tuple)
        name, *sizes = node.value
        kind = type_named(name, sizes)
        if kind is None:
            raise self.refuse(f"the type {name}" + (f"({', '.join(sizes)})" if sizes else ""))
        return self.explicit_cast(bound, kind, self.spelled(node), node.kind == "try_cast")

    def explicit_cast(self, bound: Bound, kind: pa.DataType, what: str, tries: bool) -> Bound:
        """Bind an explicit cast; with `tries`, a cast that fails returns null."""
        text = isinstance(bound, Constant) and bound.kind == pa.string()
        if not is_supported(bound.kind) and not pa.types.is_null(bound.kind):
            raise self.refuse(what)
        if not text and not is_castable(bound.kind, kind):
            raise self.refuse(f"{what} (a cast of {type_name(bound.kind)} to {type_name(kind)})")
        try:
            if tries and not isinstance(bound, Constant):
                return self.apply("try_cast", [bound], kind)
            return self.cast(bound, kind)
        except InvalidError:
            if tries:
                return Constant(null_of(kind))
            raise

    def _signed(self, node: Syntax) -> Bound:
        bound = self.bind(node.args[0])
        if not is_number(bound.kind):
            raise self.refuse(f"{self.spelled(node)} (a sign before {type_name(bound.kind)})")
        if node.kind == "positive":
            return bound
        if not is_negated_exactly(bound.kind):
            raise self.refuse(f"{self.spelled(node)} (the negative of {type_name(bound.kind)})")
        return self.apply("negative", [bound], bound.kind)

    def _arithmetic(self, node: Syntax) -> Bound:
        left, right = map(self.bind, node.args)
        return self.arithmetic(node.kind, left, right, self.spelled(node))

    def arithmetic(self, sign: str, left: Bound, right: Bound, what: str) -> Bound:
        """Bind + - * / % or DIV, with Spark's types for the operands and the result."""
        if left.kind == pa.date32() and right.kind in INTEGERS[:3] and sign in ("+", "-"):
            days = self.cast(right, pa.int32())
            return self.apply("date_add" if sign == "+" else "date_sub", [left, days], left.kind)
        if right.kind == pa.date32() and left.kind in INTEGERS[:3] and sign == "+":
            return self.arithmetic(sign, right, left, what)
        left, right = _typed_null(left, right), _typed_null(right, left)
        if not (is_number(left.kind) and is_number(right.kind)):
            kinds = f"{type_name(left.kind)} and {type_name(right.kind)}"
            raise self.refuse(f"{what} (arithmetic on {kinds})")
        decimals = pa.types.is_decimal(left.kind) or pa.types.is_decimal(right.kind)
        if decimals and not (is_real(left.kind) or is_real(right.kind)):
            return self._decimals(sign, left, right, what)
        kind = pa.float64() if sign == "/" or decimals else common_type([left.kind, right.kind])
        if sign == "div":
            if is_real(left.kind) or is_real(right.kind):
                raise self.refuse(f"{what} (DIV of {type_name(left.kind)})")
            kind = pa.int64()
        return self.apply(sign, [self.cast(left, kind), self.cast(right, kind)], kind)

    def _decimals(self, sign: str, left: Bound, right: Bound, what: str) -> Bound:
        left, right = self._as_decimal(left), self._as_decimal(right)
        one, other = left.kind, right.kind
        if sign == "/":
            kind = quotient_type(one, other)
            is_sure = is_quotient_exact(one, other, kind)
        elif sign == "%":
            kind = remainder_type(one, other)
            is_sure = is_remainder_exact(one, other)
        elif sign == "*":
            kind = product_type(one, other)
            is_sure = one.precision + other.precision <= MAX_DIGITS
        else:
            kind = sum_type(one, other)
            is_sure = sign != "div"
        if not is_sure:
            raise self.refuse(f"{what} ({sign} of {type_name(one)} and {type_name(other)})")
        return self.apply(sign, [left, right], kind)

    def _as_decimal(self, bound: Bound) -> Bound:
        if isinstance(bound, Constant) and bound.is_literal and bound.kind in INTEGERS:
            # The precision is that of the digits for an integer literal, else that of the type.
            digits = len(str(abs(bound.value.as_py())))
            return self.cast(bound, pa.decimal128(digits, 0))
        return self.cast(bound, as_decimal(bound.kind))

    def _concatenated(self, node: Syntax) -> Bound:
        return self._call_of("concat", node, node.args)

    def _call(self, node: Syntax) -> Bound:
        return self._call_of(str(node.value), node, node.args)

    def _call_of(self, name: str, node: Syntax, args: Sequence[Syntax]) -> Bound:
        return bind_function(self, name, [self.bind(arg) for arg in args], self.spelled(node))


def missing_column(name: str, names: Sequence[str], *, qualified: bool = False) -> str:
    """Return the message for a column that does not exist, with the most similar name.

    >>> missing_column("amuont", ["id", "amount"])
    'no column amuont (did you mean amount?); the table has id, amount'
    """
    plain = {known.rpartition(".")[2] if qualified else known: known for known in names}
    folded = {known.lower(): full for known, full in plain.items()}
    near = similar(name, folded)
    hint = f" (did you mean {folded[near]}?)" if near else ""
    what = "the columns are" if qualified else "the table has"
    own = [known for known in names if not known.startswith("_hoodie_")]
    return f"no column {name}{hint}; {what} {', '.join(own)}"


def literal(value: pa.Scalar) -> Constant:
    """Return a literal as a constant."""
    return Constant(value, is_literal=True)


def _typed_null(bound: Bound, other: Bound) -> Bound:
    return Constant(null_of(other.kind)) if pa.types.is_null(bound.kind) else bound


def _beyond_long(value: Bound, limit: Bound) -> int | None:
    """Return 1 or -1 for a decimal literal above or below all 64-bit integers, otherwise None.

    `value` must be an integer; if it is not, None is returned as well.
    """
    if value.kind not in INTEGERS or not isinstance(limit, Constant) or not limit.is_literal:
        return None
    if not pa.types.is_decimal(limit.kind) or not limit.value.is_valid:
        return None
    found = limit.value.as_py()
    return 1 if found > LONGS[-1] else -1 if found < LONGS[0] else None
