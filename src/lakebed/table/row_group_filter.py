"""Which row groups of one file can hold a row for which a predicate is true, by their statistics.

Only for rows that no other run can change: of a key with several versions, skipping one would
show an older one. Statistics are bounds, perhaps wider than the values; they say nothing of
NaN, which is greater than all numbers. What is not understood rules nothing out, so the
predicate itself must still be asked.
"""

import decimal
import math
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Self, TypeAlias

import pyarrow as pa
from sqlglot import expressions as sql

from lakebed.errors import InvalidError
from lakebed.format.parquet_statistics import ChunkStatistics, Physical
from lakebed.table.coercion import INTEGERS, Term, is_number
from lakebed.table.literal import as_type, number, type_named
from lakebed.table.parquet_source import ParquetSource
from lakebed.table.predicate_syntax import parse_tree
from lakebed.table.projection import cast_stored
from lakebed.table.schema import find_field

# Days and moments as numbers of days or microseconds, text as its bytes.
_Bound: TypeAlias = int | float | decimal.Decimal | bytes

_SIGNS: dict[type[sql.Expression], str] = {
    sql.EQ: "=",
    sql.NEQ: "<>",
    sql.LT: "<",
    sql.LTE: "<=",
    sql.GT: ">",
    sql.GTE: ">=",
}
_FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_OPPOSITE = {"=": "<>", "<>": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
# No statistics have more digits than this.
_EXACT = decimal.Context(prec=100)
_UNITS: dict[str, int | decimal.Decimal] = {"ms": 1000, "us": 1, "ns": decimal.Decimal("0.001")}


@dataclass(frozen=True, slots=True)
class RowGroupFilter:
    """A parsed predicate on columns of the table's `schema`, meta columns among them."""

    tree: sql.Expression
    schema: pa.Schema

    @classmethod
    def parse(cls, text: str, schema: pa.Schema) -> Self:
        """Parse `text`, or raise as `Predicate.parse` does."""
        return cls(parse_tree(text), schema)

    def row_groups(self, file: ParquetSource) -> list[int] | None:
        """Give the row groups of `file` that can hold a wanted row; None if that may be any."""
        names = {str(column.name).lower() for column in self.tree.find_all(sql.Column)}
        stored = [name for name in file.schema.names if name.lower() in names]
        if not names:
            return None
        groups = file.statistics(stored)
        try:
            return [
                number
                for number, chunks in enumerate(groups)
                if _Reader(self.schema, file.schema, chunks).may_be(self.tree, True)
            ]
        except RecursionError:
            return None


class _Reader:
    """Walks the parsed tree for one row group; in three-valued logic false is not the same as not true."""

    def __init__(
        self, schema: pa.Schema, present: pa.Schema, chunks: Mapping[str, ChunkStatistics]
    ) -> None:
        self._schema = schema
        self._present = present
        self._chunks = chunks

    def may_be(self, node: sql.Expression, truth: bool) -> bool:
        """Tell whether `node` can be `truth` for any row."""
        inner = node.unnest()
        if type(inner) in _SIGNS:
            return self._compared(_SIGNS[type(inner)], inner.left, inner.right, truth)
        every, some = (all, any) if truth else (any, all)
        known: dict[type[sql.Expression], Callable[[], bool]] = {
            sql.And: lambda: every(self.may_be(part, truth) for part in inner.flatten()),
            sql.Or: lambda: some(self.may_be(part, truth) for part in inner.flatten()),
            sql.Not: lambda: self.may_be(inner.this, not truth),
            sql.NullSafeEQ: lambda: self._same(inner, truth),
            sql.NullSafeNEQ: lambda: self._same(inner, not truth),
            sql.In: lambda: not truth or self._in(inner),
            sql.Between: lambda: every(
                (
                    self._compared(">=", inner.this, inner.args["low"], truth),
                    self._compared("<=", inner.this, inner.args["high"], truth),
                )
            ),
            sql.Is: lambda: self._is(inner, truth),
            sql.Column: lambda: self._compared("=", inner, sql.Boolean(this=truth), True),
        }
        return known[type(inner)]() if type(inner) in known else True

    def _compared(
        self, sign: str, left: sql.Expression, right: sql.Expression, truth: bool
    ) -> bool:
        column = self._column(left)
        if column is None:
            left, right, sign = right, left, _FLIPPED.get(sign, sign)
            column = self._column(left)
        value = None if column is None else _value(right, column.type)
        if column is None or value is None:
            return True
        return self._test(column, sign if truth else _OPPOSITE[sign], value)

    def _same(self, node: sql.Expression, truth: bool) -> bool:
        sides = (node.left, node.right)
        for one, other in (sides, sides[::-1]):
            if isinstance(other.unnest(), sql.Null):
                return self._null(one, truth)
        return not truth or self._compared("=", *sides, True)

    def _in(self, node: sql.Expression) -> bool:
        column = self._column(node.this)
        if column is None or node.args.get("query") is not None or not node.expressions:
            return True
        # Nothing equals null.
        items = [item for item in node.expressions if not isinstance(item.unnest(), sql.Null)]
        values = [_value(item, column.type) for item in items]
        return any(value is None or self._test(column, "=", value) for value in values)

    def _is(self, node: sql.Expression, truth: bool) -> bool:
        if isinstance(node.expression, sql.Null):
            return self._null(node.this, truth)
        if not truth or not isinstance(node.expression, sql.Boolean):
            return True
        return self.may_be(node.this, bool(node.expression.this))

    def _null(self, node: sql.Expression, truth: bool) -> bool:
        column = self._column(node)
        stored = None if column is None else self._stored(column)
        if column is None or (stored is not None and pa.types.is_nested(stored.type)):
            return True
        if stored is None:
            return truth
        chunk = self._chunks.get(stored.name)
        if chunk is None or chunk.null_count is None:
            return True
        return chunk.null_count != (0 if truth else chunk.num_values)

    def _test(self, column: pa.Field, sign: str, value: _Bound) -> bool:
        """Tell whether a value of the column can compare so with `value`."""
        stored = self._stored(column)
        if stored is None:
            return False  # all null
        chunk = self._chunks.get(stored.name)
        if chunk is None or not _is_ordered_as(stored.type, column.type) or sign == "<>":
            return True
        if chunk.null_count is not None and chunk.null_count == chunk.num_values:
            return False
        if sign in (">", ">="):
            upper = _shown(chunk.upper, chunk.physical, stored.type, column.type)
            # NaN is greater, and no statistics show it.
            if upper is None or pa.types.is_floating(stored.type):
                return True
            return upper > value if sign == ">" else upper >= value  # type: ignore[operator]
        lower = _shown(chunk.lower, chunk.physical, stored.type, column.type)
        if lower is not None and not (
            lower < value if sign == "<" else lower <= value  # type: ignore[operator]
        ):
            return False
        upper = _shown(chunk.upper, chunk.physical, stored.type, column.type)
        return sign != "=" or upper is None or upper >= value  # type: ignore[operator]

    def _column(self, node: sql.Expression) -> pa.Field | None:
        inner = node.unnest()
        if type(inner) is not sql.Column or inner.table:
            return None
        wanted = str(inner.name).lower()
        near = [name for name in self._schema.names if name.lower() == wanted]
        if len(near) != 1:
            return None
        found = self._stored(self._schema.field(near[0]))
        # Arrow cannot tell two columns of one name apart.
        alone = found is None or self._present.names.count(found.name) == 1
        return self._schema.field(near[0]) if alone else None

    def _stored(self, column: pa.Field) -> pa.Field | None:
        """Give the column that the file has for this one; None if it lacks it."""
        fields = list(self._present)
        position = find_field(fields, column.name)
        return None if position is None else fields[position]


def _shown(
    raw: bytes | None, physical: Physical, stored: pa.DataType, kind: pa.DataType
) -> _Bound | None:
    """Return a bound as a column of type `kind` shows it: widened or rounded as its values are."""
    bound = _bound(raw, physical, stored)
    if bound is None or stored == kind or not pa.types.is_floating(kind):
        return bound
    if pa.types.is_decimal(stored):
        return None
    shown = cast_stored(pa.array([bound], stored), kind)
    return None if shown is None else float(shown[0].as_py())


def _bound(raw: bytes | None, physical: Physical, kind: pa.DataType) -> _Bound | None:
    """Give a bound of a column chunk as a value of the file's type `kind`; None if it is none."""
    if raw is None:
        return None
    if _family(kind) == "text":
        return raw if physical is Physical.BYTE_ARRAY else None
    if physical is Physical.BOOLEAN:
        return raw[0] if len(raw) == 1 and kind == pa.bool_() else None
    if pa.types.is_floating(kind):
        layouts = {(Physical.FLOAT, 4): "<f", (Physical.DOUBLE, 8): "<d"}
        layout = layouts.get((physical, len(raw)))
        real = math.nan if layout is None else float(struct.unpack(layout, raw)[0])
        return None if math.isnan(real) else real
    whole = _whole(raw, physical, signed=not pa.types.is_unsigned_integer(kind))
    if whole is None or kind == pa.bool_():
        return None
    if pa.types.is_decimal(kind):
        return decimal.Decimal(whole).scaleb(-kind.scale, _EXACT)
    if pa.types.is_timestamp(kind):
        return whole * _UNITS[kind.unit] if kind.unit in _UNITS else None
    return whole


def _whole(raw: bytes, physical: Physical, *, signed: bool) -> int | None:
    widths = {Physical.INT32: 4, Physical.INT64: 8}
    if physical in widths:
        return (
            int.from_bytes(raw, "little", signed=signed) if len(raw) == widths[physical] else None
        )
    binary = physical in (Physical.BYTE_ARRAY, Physical.FIXED_LEN_BYTE_ARRAY)
    return int.from_bytes(raw, "big", signed=True) if binary and 0 < len(raw) <= 32 else None


def _value(node: sql.Expression, kind: pa.DataType) -> _Bound | None:
    """Give the value beside which a column of type `kind` is compared, if it is a literal."""
    constant = _constant(node)
    if constant is None:
        return None
    try:
        made = _beside(constant, kind)
    except (InvalidError, pa.ArrowException):
        return None
    if made is None:
        return None
    if pa.types.is_timestamp(made.type) or made.type == pa.date32():
        return int(made.value)
    found = made.as_py()
    if isinstance(found, float) and math.isnan(found):
        return None  # nearly every value is less
    return found.encode() if isinstance(found, str) else found


def _beside(constant: pa.Scalar, kind: pa.DataType) -> pa.Scalar | None:
    floating = pa.types.is_floating(kind)
    if constant.type == pa.string() and kind != pa.string():
        # To a text a decimal is a double, as a float is.
        known = kind in INTEGERS or _family(kind) == "moment" or floating
        return as_type(constant.as_py(), pa.float64() if floating else kind) if known else None
    if _family(constant.type) != _family(kind):
        return None
    if floating:
        return Term.of(constant).cast(pa.float64()).constant
    if _family(kind) == "number":
        # Beside a double a whole number or a decimal is rounded to one.
        return None if pa.types.is_floating(constant.type) else constant
    return _fit(constant, kind)


def _constant(node: sql.Expression, sign: str = "") -> pa.Scalar | None:
    inner = node.unnest()
    held = inner.this
    try:
        if isinstance(inner, sql.Neg) and not sign:
            return _constant(held, "-")
        if isinstance(inner, sql.Boolean) and not sign:
            return pa.scalar(bool(held))
        if isinstance(inner, sql.Literal) and inner.is_string:
            return None if sign else pa.scalar(str(held))
        if isinstance(inner, sql.Literal):
            return number(sign + str(held))
        if isinstance(inner, sql.Cast) and isinstance(held, sql.Literal):
            kind = _target(inner)
            return None if kind is None else as_type(sign + str(held.this), kind)
    except InvalidError:
        return None
    return None


def _target(node: sql.Cast) -> pa.DataType | None:
    sizes = [int(str(size.this)) for size in node.to.expressions]
    return type_named(str(getattr(node.to.this, "value", "")), sizes)


def _fit(value: pa.Scalar, kind: pa.DataType) -> pa.Scalar | None:
    """Give `value` in the type `kind`, None if it has no equal there."""
    made = value.cast(kind)
    return made if made.cast(value.type).equals(value) else None


def _is_ordered_as(stored: pa.DataType, kind: pa.DataType) -> bool:
    """Tell whether values of a file's type keep their order, and each its value, as `kind`."""
    if pa.types.is_timestamp(stored):
        return bool(pa.types.is_timestamp(kind) and stored.tz in (None, "UTC"))
    if stored == pa.date32():
        return bool(kind == stored)
    family = _family(stored)
    return family is not None and family == _family(kind)


def _family(kind: pa.DataType) -> str | None:
    if kind in (pa.string(), pa.large_string()):
        return "text"
    if kind == pa.date32() or pa.types.is_timestamp(kind):
        return "moment"
    if kind == pa.bool_():
        return "truth"
    half = pa.types.is_float16(kind)
    is_one = (is_number(kind) or pa.types.is_unsigned_integer(kind)) and not half
    return "number" if is_one else None
