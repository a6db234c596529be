"""Finds row groups of a file that can hold a row satisfying a predicate, by their statistics.

This is only for rows that no other run can change: if a key has several versions, skipping one
would reveal an older version. Statistics are bounds, possibly wider than the values; they do not
cover NaN, which is greater than all numbers. Expressions that are not understood exclude nothing,
so the predicate itself must still be evaluated.
"""

import decimal
import math
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

import pyarrow as pa

from lakebed.expr.bound import Apply, Bound, Column, Constant, column_names, compared_with_constant
from lakebed.expr.evaluate import Among
from lakebed.expr.types import INTEGERS, TIMES, is_number
from lakebed.format.files.parquet_statistics import ChunkStatistics, FileStatistics, Physical
from lakebed.table.config.schema import find_field
from lakebed.table.read.parquet_source import ParquetSource
from lakebed.table.read.projection import cast_stored

# Dates and timestamps as numbers of days or microseconds, strings as their bytes.
_Bound: TypeAlias = int | float | decimal.Decimal | bytes

_SIGNS = ("=", "<>", "<", "<=", ">", ">=")
_OPPOSITE = {"=": "<>", "<>": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
# No statistics have more digits than this.
_EXACT = decimal.Context(prec=100)
_UNITS: dict[str, int | decimal.Decimal] = {"ms": 1000, "us": 1, "ns": decimal.Decimal("0.001")}


@dataclass(frozen=True, slots=True)
class RowGroupFilter:
    """A bound predicate on columns of the table's `schema`, meta columns included."""

    bound: Bound
    schema: pa.Schema

    def row_groups(self, file: ParquetSource) -> list[int] | None:
        """Return the row groups of `file` that can hold a matching row; None if all of them can."""
        names = {name.lower() for name in column_names(self.bound)}
        stored = [name for name in file.schema.names if name.lower() in names]
        if not names:
            return None
        groups = file.statistics(stored)
        columns = _Columns(self.schema, file.schema)
        return [
            number
            for number, chunks in enumerate(groups)
            if _StatisticsTest(columns, chunks).may_be(self.bound, True)
        ]

    def files(self, found: Iterable[FileStatistics]) -> Iterator[bool]:
        """Yield for each file whether it can hold a matching row."""
        known: dict[bytes, _Columns] = {}
        for file in found:
            columns = known.get(file.schema)
            if columns is None:
                present = pa.ipc.read_schema(pa.py_buffer(file.schema))
                columns = known[file.schema] = _Columns(self.schema, present)
            yield _StatisticsTest(columns, file.columns).may_be(self.bound, True)


class _Columns:
    """Finds the columns of a predicate in the table's schema and in that of a file.

    Many row groups, and many files, have the same schema, so what was found is kept.
    """

    def __init__(self, schema: pa.Schema, present: pa.Schema) -> None:
        self._schema = schema
        self._present = list(present)
        self._found: dict[str, pa.Field | None] = {}
        self._stored: dict[str, pa.Field | None] = {}

    def column(self, node: Bound) -> pa.Field | None:
        """Return the column that `node` refers to, possibly through a cast that keeps values."""
        while isinstance(node, Apply) and node.function == "cast":
            if not _keeps_values(node.args[0].kind, node.kind):
                return None
            node = node.args[0]
        if not isinstance(node, Column):
            return None
        if node.name not in self._found:
            self._found[node.name] = self._find(node.name)
        return self._found[node.name]

    def _find(self, name: str) -> pa.Field | None:
        field = self._schema.field(name)
        found = self.stored(field)
        # Arrow cannot distinguish two columns of the same name.
        alone = found is None or [f.name for f in self._present].count(found.name) == 1
        return field if alone else None

    def stored(self, column: pa.Field) -> pa.Field | None:
        """Return the file's column for a column of the table; None if the file lacks it."""
        name = column.name
        if name not in self._stored:
            position = find_field(self._present, name)
            self._stored[name] = None if position is None else self._present[position]
        return self._stored[name]


class _StatisticsTest:
    """Evaluates a predicate for one row group, or one file, in three-valued logic.

    Null is not true or false.
    """

    def __init__(self, columns: _Columns, chunks: Mapping[str, ChunkStatistics]) -> None:
        self._columns = columns
        self._chunks = chunks

    def may_be(self, node: Bound, truth: bool) -> bool:
        """Return whether `node` can be `truth` for any row."""
        if isinstance(node, Constant):
            return node.value.as_py() is truth
        if isinstance(node, Column):
            equals = Apply("=", (node, Constant(pa.scalar(truth))), pa.bool_())
            return self._compared(equals, True)
        if node.function in _SIGNS:
            return self._compared(node, truth)
        every, some = (all, any) if truth else (any, all)
        known: dict[str, Callable[[], bool]] = {
            "and": lambda: every(self.may_be(part, truth) for part in node.args),
            "or": lambda: some(self.may_be(part, truth) for part in node.args),
            "not": lambda: self.may_be(node.args[0], not truth),
            "<=>": lambda: self._same(node, truth),
            "in": lambda: not truth or self._in(node),
            "is null": lambda: self._null(node.args[0], truth),
            "is truth": lambda: not truth or self.may_be(node.args[0], bool(node.option)),
        }
        return known[node.function]() if node.function in known else True

    def _compared(self, node: Apply, truth: bool) -> bool:
        sides = compared_with_constant(node)
        column = None if sides is None else self._columns.column(sides.operand)
        value = None
        if sides is not None and column is not None:
            value = _value(sides.constant.value, column.type)
        if sides is None or column is None or value is None:
            return True
        return self._test(column, sides.sign if truth else _OPPOSITE[sides.sign], value)

    def _same(self, node: Apply, truth: bool) -> bool:
        one, other = node.args
        for side, beside in ((one, other), (other, one)):
            if isinstance(beside, Constant) and not beside.value.is_valid:
                return self._null(side, truth)
        return not truth or self._compared(replace(node, function="="), True)

    def _in(self, node: Apply) -> bool:
        assert isinstance(node.option, Among)
        column = self._columns.column(node.args[0])
        if column is None or len(node.args) > 1:
            return True
        # Nothing equals null.
        values = [_value(item.value, column.type) for item in node.option.constants]
        return any(value is None or self._test(column, "=", value) for value in values)

    def _null(self, node: Bound, truth: bool) -> bool:
        column = self._columns.column(node)
        stored = None if column is None else self._columns.stored(column)
        if column is None or (stored is not None and pa.types.is_nested(stored.type)):
            return True
        if stored is None:
            return truth
        chunk = self._chunks.get(stored.name)
        if chunk is None or chunk.null_count is None:
            return True
        return chunk.null_count != (0 if truth else chunk.num_values)

    def _test(self, column: pa.Field, sign: str, value: _Bound) -> bool:
        """Return whether the comparison with `value` can be true for a value of the column."""
        stored = self._columns.stored(column)
        if stored is None:
            return False  # all null
        chunk = self._chunks.get(stored.name)
        if chunk is None or not _is_ordered_as(stored.type, column.type) or sign == "<>":
            return True
        if chunk.null_count is not None and chunk.null_count == chunk.num_values:
            return False
        if sign in (">", ">="):
            upper = _shown(chunk.upper, chunk.physical, stored.type, column.type)
            # NaN is greater than all values, and bounds do not show it.
            if upper is None or (pa.types.is_floating(stored.type) and chunk.may_be_nan):
                return True
            return upper > value if sign == ">" else upper >= value  # type: ignore[operator]
        lower = _shown(chunk.lower, chunk.physical, stored.type, column.type)
        if lower is not None and not (
            lower < value if sign == "<" else lower <= value  # type: ignore[operator]
        ):
            return False
        upper = _shown(chunk.upper, chunk.physical, stored.type, column.type)
        return sign != "=" or upper is None or upper >= value  # type: ignore[operator]


def _shown(
    raw: bytes | None, physical: Physical, stored: pa.DataType, kind: pa.DataType
) -> _Bound | None:
    """Return a bound as a column of type `kind` shows it: widened or rounded like its values."""
    bound = read_bound(raw, physical, stored)
    if bound is None or stored == kind or not pa.types.is_floating(kind):
        return bound
    if pa.types.is_decimal(stored):
        return None
    shown = cast_stored(pa.array([bound], stored), kind)
    return None if shown is None else float(shown[0].as_py())


def read_bound(raw: bytes | None, physical: Physical, kind: pa.DataType) -> _Bound | None:
    """Return a bound of a column chunk as a value of the file's type `kind`; None if there is none."""
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


def _value(constant: pa.Scalar, kind: pa.DataType) -> _Bound | None:
    """Return a constant in the form in which bounds of type `kind` are compared, or None."""
    if not constant.is_valid or _family(constant.type) != _family(kind):
        return None
    if pa.types.is_floating(constant.type) != pa.types.is_floating(kind):
        return None  # compared with a double, a whole number or a decimal is rounded to a double
    made: pa.Scalar | None = constant
    if _family(kind) == "time":
        try:
            made = _fit(constant, kind)
        except pa.ArrowException:
            return None
    if made is None:
        return None
    if pa.types.is_timestamp(made.type) or made.type == pa.date32():
        return int(made.value)
    found = made.as_py()
    if isinstance(found, float) and math.isnan(found):
        return None  # every number is less than NaN
    return found.encode() if isinstance(found, str) else found


def _keeps_values(source: pa.DataType, target: pa.DataType) -> bool:
    """Return whether a cast either keeps values and their order, or fails."""
    if source in INTEGERS:
        return target in INTEGERS or pa.types.is_decimal(target)
    if pa.types.is_decimal(source):
        return bool(pa.types.is_decimal(target) and target.scale >= source.scale)
    if source == pa.float32():
        return bool(target == pa.float64())
    return source in TIMES and target in TIMES[1:]


def _fit(value: pa.Scalar, kind: pa.DataType) -> pa.Scalar | None:
    """Return `value` in the type `kind`; None if that type has no equal value."""
    made = value.cast(kind)
    return made if made.cast(value.type).equals(value) else None


def _is_ordered_as(stored: pa.DataType, kind: pa.DataType) -> bool:
    """Return whether values of the type `stored` keep their value and order when cast to `kind`."""
    if pa.types.is_timestamp(stored):
        return bool(pa.types.is_timestamp(kind) and stored.tz in (None, "UTC"))
    if stored == pa.date32():
        return bool(kind == stored)
    family = _family(stored)
    return family is not None and family == _family(kind)


def is_text(kind: pa.DataType) -> bool:
    """Return whether bounds of the type are compared as the bytes of strings."""
    return _family(kind) == "text"


def _family(kind: pa.DataType) -> str | None:
    if kind in (pa.string(), pa.large_string()):
        return "text"
    if kind == pa.date32() or pa.types.is_timestamp(kind):
        return "time"
    if kind == pa.bool_():
        return "truth"
    half = pa.types.is_float16(kind)
    is_one = (is_number(kind) or pa.types.is_unsigned_integer(kind)) and not half
    return "number" if is_one else None
