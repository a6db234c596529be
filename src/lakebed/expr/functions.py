"""The functions of predicates: the number and types of their operands, and their result types."""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

import pyarrow as pa

from lakebed.errors import LakebedError
from lakebed.expr.bound import Bound, Constant
from lakebed.expr.dates import OF_DATES, OF_TIMESTAMPS
from lakebed.expr.types import (
    INTEGERS,
    TIMES,
    TIMESTAMP,
    is_negated_exactly,
    is_number,
    is_real,
    type_named,
)
from lakebed.expr.values import null_of
from lakebed.model.spelling import nearest

_MANY = 1_000


class Binding(Protocol):
    """The methods of the binder that functions call."""

    def apply(
        self, function: str, args: Sequence[Bound], kind: pa.DataType, option: object = None
    ) -> Bound:
        """Return a node that applies a function to operands."""
        ...

    def cast(self, bound: Bound, kind: pa.DataType) -> Bound:
        """Return an operand, implicitly cast."""
        ...

    def explicit_cast(self, bound: Bound, kind: pa.DataType, what: str, tries: bool) -> Bound:
        """Bind an explicit cast; with `tries`, a cast that fails returns null."""
        ...

    def compare(self, sign: str, left: Bound, right: Bound) -> Bound:
        """Bind a comparison."""
        ...

    def common(self, args: Sequence[Bound], what: str) -> tuple[list[Bound], pa.DataType]:
        """Return the operands cast to their common type, and that type."""
        ...

    def arithmetic(self, sign: str, left: Bound, right: Bound, what: str) -> Bound:
        """Bind an arithmetic operator."""
        ...

    def refuse(self, part: str) -> LakebedError:
        """Return the error for a part of the predicate that is not supported."""
        ...


_Bind: TypeAlias = Callable[[Binding, str, list[Bound], str], Bound]


def bind_function(binding: Binding, name: str, args: list[Bound], what: str) -> Bound:
    """Bind a call of `name`; raise an error if the function or its operands are not supported."""
    known = _FUNCTIONS.get(name)
    if known is None:
        raise binding.refuse(f"the function {name}{nearest(name, _FUNCTIONS, cutoff=0.75)}")
    least, most, bind = known
    if not least <= len(args) <= most:
        count = f"{least}" if least == most else f"{least} to {most}"
        raise binding.refuse(f"{what} ({name} of {len(args)} operands, expected {count})")
    return bind(binding, _ALIASES.get(name, name), args, what)


def _text(result: pa.DataType) -> _Bind:
    def bind(binding: Binding, name: str, args: list[Bound], what: str) -> Bound:
        options = tuple(_constant(binding, arg, pa.string(), what) for arg in args[1:])
        option = options[0] if len(options) == 1 else options or None
        if any(arg is None for arg in options):
            return Constant(null_of(result))
        return binding.apply(name, [_string(binding, args[0], what)], result, option)

    return bind


def _length(binding: Binding, name: str, args: list[Bound], what: str) -> Bound:
    one = args[0] if args[0].kind == pa.binary() else _string(binding, args[0], what)
    return binding.apply(name, [one], pa.int32())


def _substring(binding: Binding, name: str, args: list[Bound], what: str) -> Bound:
    numbers = [_constant(binding, arg, pa.int32(), what) for arg in args[1:]]
    if None in numbers:
        return Constant(null_of(pa.string()))
    option = (numbers[0], numbers[1] if len(numbers) > 1 else None)
    return binding.apply(name, [_string(binding, args[0], what)], pa.string(), option)


def _replace(binding: Binding, name: str, args: list[Bound], what: str) -> Bound:
    options = [_constant(binding, arg, pa.string(), what) for arg in args[1:]]
    if None in options:
        return Constant(null_of(pa.string()))
    return binding.apply(name, [_string(binding, args[0], what)], pa.string(), (*options, "")[:2])


def _concat(binding: Binding, name: str, args: list[Bound], what: str) -> Bound:
    parts = [binding.explicit_cast(arg, pa.string(), what, False) for arg in args]
    return binding.apply(name, parts, pa.string())


def _string(binding: Binding, arg: Bound, what: str) -> Bound:
    if pa.types.is_null(arg.kind):
        return binding.cast(arg, pa.string())
    if arg.kind != pa.string():
        raise binding.refuse(f"{what} (expected a string)")
    return arg


def _constant(binding: Binding, arg: Bound, kind: pa.DataType, what: str) -> object:
    if not isinstance(arg, Constant):
        raise binding.refuse(f"{what} (expected literals after the first operand)")
    fits = arg.kind in INTEGERS if kind in INTEGERS else arg.kind == kind
    if not fits and not pa.types.is_null(arg.kind):
        raise binding.refuse(f"{what} (expected literals of another type after the first operand)")
    cast = binding.cast(arg, kind)
    assert isinstance(cast, Constant)
    return cast.value.as_py()


def _number(binding: Binding, name: str, args: list[Bound], what: str) -> Bound:
    kind = args[0].kind
    if not is_number(kind) or not is_negated_exactly(kind):
        raise binding.refuse(f"{what} (expected a number of at most 34 digits)")
    return binding.apply(name, args, kind)


def _whole(binding: Binding, name: str, args: list[Bound], what: str) -> Bound:
    kind = args[0].kind
    if not is_number(kind):
        raise binding.refuse(f"{what} (expected a number)")
    if kind in INTEGERS:
        return binding.cast(args[0], pa.int64())
    if is_real(kind):
        return binding.apply(name, args, pa.int64())
    return binding.apply(name, args, pa.decimal128(min(kind.precision - kind.scale + 1, 38), 0))


def _remainder(binding: Binding, _: str, args: list[Bound], what: str) -> Bound:
    return binding.arithmetic("%", args[0], args[1], what)


def _is_null(binding: Binding, name: str, args: list[Bound], _: str) -> Bound:
    found = binding.apply("is null", args, pa.bool_())
    return found if name == "isnull" else binding.apply("not", [found], pa.bool_())


def _is_nan(binding: Binding, name: str, args: list[Bound], what: str) -> Bound:
    if not is_number(args[0].kind):
        raise binding.refuse(f"{what} (expected a number)")
    one = args[0] if is_real(args[0].kind) else binding.cast(args[0], pa.float64())
    return binding.apply(name, [one], pa.bool_())


def _one_of(binding: Binding, name: str, args: list[Bound], _: str) -> Bound:
    cast, kind = binding.common(args, name)
    return cast[0] if pa.types.is_null(kind) else binding.apply(name, cast, kind)


def _null_if(binding: Binding, _: str, args: list[Bound], __: str) -> Bound:
    equal = binding.compare("=", args[0], args[1])
    nothing = Constant(null_of(args[0].kind))
    return binding.apply("case", [equal, nothing, args[0]], args[0].kind)


def _if(binding: Binding, name: str, args: list[Bound], what: str) -> Bound:
    if args[0].kind != pa.bool_():
        raise binding.refuse(f"{what} (expected a boolean first)")
    cast, kind = binding.common(args[1:], name)
    return binding.apply("case", [args[0], *cast], kind)


def _date_part(binding: Binding, name: str, args: list[Bound], what: str) -> Bound:
    kind = pa.date32() if name in OF_DATES else args[0].kind
    if name in OF_TIMESTAMPS and kind not in TIMES[1:]:
        kind = TIMESTAMP
    return binding.apply(name, [_time_argument(binding, args[0], kind, what)], pa.int32())


def _date_sum(binding: Binding, name: str, args: list[Bound], what: str) -> Bound:
    if args[1].kind not in INTEGERS[:3]:
        raise binding.refuse(f"{what} (expected days as INT)")
    day = _time_argument(binding, args[0], pa.date32(), what)
    return binding.apply(name, [day, binding.cast(args[1], pa.int32())], pa.date32())


def _date_difference(binding: Binding, name: str, args: list[Bound], what: str) -> Bound:
    days = [_time_argument(binding, arg, pa.date32(), what) for arg in args]
    return binding.apply(name, days, pa.int32())


def _time_argument(binding: Binding, arg: Bound, kind: pa.DataType, what: str) -> Bound:
    text = isinstance(arg, Constant) and arg.kind == pa.string()
    if not text and arg.kind not in TIMES and not pa.types.is_null(arg.kind):
        raise binding.refuse(f"{what} (expected a date or a timestamp)")
    return binding.cast(arg, kind)


def _cast_to(binding: Binding, name: str, args: list[Bound], what: str) -> Bound:
    kind = type_named(name.upper())
    assert kind is not None, name
    return binding.explicit_cast(args[0], kind, what, False)


_ALIASES = {
    **dict.fromkeys(("char_length", "character_length", "len"), "length"),
    **dict.fromkeys(("lcase",), "lower"),
    **dict.fromkeys(("ucase",), "upper"),
    **dict.fromkeys(("ifnull", "nvl"), "coalesce"),
    **dict.fromkeys(("date_diff",), "datediff"),
    **dict.fromkeys(("ceiling",), "ceil"),
    "substr": "substring",
    "dateadd": "date_add",
}
_STRING, _BOOL = pa.string(), pa.bool_()
_FUNCTIONS: dict[str, tuple[int, int, _Bind]] = {
    **dict.fromkeys(("length", "char_length", "character_length", "len"), (1, 1, _length)),
    **dict.fromkeys(("lower", "lcase", "upper", "ucase"), (1, 1, _text(_STRING))),
    **dict.fromkeys(("trim", "ltrim", "rtrim"), (1, 1, _text(_STRING))),
    **dict.fromkeys(("substring", "substr"), (2, 3, _substring)),
    "replace": (2, 3, _replace),
    "concat": (1, _MANY, _concat),
    **dict.fromkeys(("startswith", "endswith", "contains"), (2, 2, _text(_BOOL))),
    "abs": (1, 1, _number),
    **dict.fromkeys(("floor", "ceil", "ceiling"), (1, 1, _whole)),
    "mod": (2, 2, _remainder),
    **dict.fromkeys(("isnull", "isnotnull"), (1, 1, _is_null)),
    "isnan": (1, 1, _is_nan),
    "coalesce": (1, _MANY, _one_of),
    **dict.fromkeys(("ifnull", "nvl"), (2, 2, _one_of)),
    **dict.fromkeys(("greatest", "least"), (2, _MANY, _one_of)),
    "nullif": (2, 2, _null_if),
    "if": (3, 3, _if),
    **dict.fromkeys(sorted(OF_DATES | OF_TIMESTAMPS), (1, 1, _date_part)),
    **dict.fromkeys(("date_add", "dateadd", "date_sub"), (2, 2, _date_sum)),
    **dict.fromkeys(("datediff", "date_diff"), (2, 2, _date_difference)),
    **dict.fromkeys(
        [
            "boolean",
            "tinyint",
            "smallint",
            "int",
            "bigint",
            "float",
            "double",
            "decimal",
            "date",
            "timestamp",
            "binary",
            "string",
        ],
        (1, 1, _cast_to),
    ),
}
FUNCTION_NAMES = frozenset(_FUNCTIONS)
