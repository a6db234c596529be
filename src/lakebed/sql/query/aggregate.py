"""GROUP BY in this process: each batch is aggregated by Arrow, and the parts are combined.

Only the groups are held in memory. Types, overflow and NaN are those of Spark in ANSI mode.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import InvalidError, UnsupportedError
from lakebed.expr.scope import Expression
from lakebed.sql.query.local_rows import grouping_key

FUNCTIONS: Final = ("count", "sum", "min", "max", "avg")
_MANY_GROUPS = 1 << 19
_WIDE = 38
_ORDERED: Final[tuple[Callable[[pa.DataType], bool], ...]] = (
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_decimal,
    pa.types.is_string,
    pa.types.is_binary,
    pa.types.is_date,
    pa.types.is_timestamp,
    pa.types.is_boolean,
)
# The parts that are computed per batch, and how parts of several batches are combined.
_COMBINED = {"count": "sum", "sum": "sum", "min": "min", "max": "max"}


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One aggregate: its function, its argument (None counts rows), and the type of its result."""

    function: str
    argument: Expression | None
    kind: pa.DataType
    text: str

    @classmethod
    def of(cls, function: str, argument: Expression | None, text: str) -> "Aggregate":
        """Return an aggregate; raise an error if this process does not compute it."""
        if argument is None:
            if function != "count":
                raise InvalidError(f"SQL: {text}: expected an expression, found *")
            return cls(function, None, pa.int64(), text)
        return cls(function, argument, _result(function, argument.bound.kind, text), text)

    def parts(self, batch: pa.RecordBatch) -> dict[str, pa.Array]:
        """Return the columns to aggregate for the rows of a batch, by the part that they make."""
        if self.argument is None:
            return {"count": pa.repeat(pa.scalar(True), batch.num_rows)}
        values = self.argument.values(batch)
        if self.function == "count":
            return {"count": values}
        if self.function == "avg":
            return {"sum": values.cast(pa.float64()), "count": values}
        if self.function == "sum":
            return {"sum": values.cast(_summed(values.type))}
        if pa.types.is_floating(values.type):
            nan = pc.is_nan(values)
            plain = pc.if_else(nan, pa.scalar(None, values.type), values)
            marks = pc.if_else(nan, pa.scalar(True), pa.scalar(None, pa.bool_()))
            return {self.function: plain, "count": marks}
        if pa.types.is_boolean(values.type):
            return {self.function: values.cast(pa.int8())}
        return {self.function: values}

    def result(self, parts: dict[str, pa.ChunkedArray]) -> pa.Array:
        """Return the result for each group from the combined parts."""
        if self.function == "count":
            return pc.fill_null(parts["count"], 0).cast(pa.int64())
        if self.function == "avg":
            count = parts["count"].cast(pa.float64())
            some = pc.not_equal(count, pa.scalar(0.0))
            return pc.if_else(some, pc.divide(parts["sum"], count), pa.scalar(None, pa.float64()))
        if self.function == "sum":
            try:
                return parts["sum"].cast(self.kind)
            except pa.ArrowInvalid:
                raise InvalidError(f"SQL: {self.text}: the sum overflows {self.kind}") from None
        found = parts[self.function]
        if "count" in parts:
            has_nan = pc.greater(parts["count"], pa.scalar(0))
            if self.function == "min":
                has_nan = pc.and_(has_nan, pc.is_null(found))
            found = pc.if_else(has_nan, pa.scalar(float("nan"), found.type), found)
        return found.cast(self.kind)


def aggregated(
    batches: Iterable[pa.RecordBatch], keys: Sequence[Expression], aggregates: Sequence[Aggregate]
) -> pa.Table:
    """Return one row per group: the keys, then the aggregates. Without keys, all rows are one."""
    names = [f"k{at}" for at in range(len(keys))] or ["all"]
    held: list[pa.Table] = []
    for batch in batches:
        columns = [grouping_key(key.values(batch)) for key in keys]
        columns = columns or [pa.repeat(pa.scalar(0, pa.int8()), batch.num_rows)]
        found = dict(zip(names, columns, strict=True))
        steps = []
        for at, one in enumerate(aggregates):
            for part, values in one.parts(batch).items():
                found[f"{part}{at}"] = values
                options = pc.CountOptions("only_valid") if part == "count" else None
                steps.append((f"{part}{at}", part, options))
        grouped = pa.table(found).group_by(names).aggregate(steps)
        held.append(grouped.rename_columns([_plain(name) for name in grouped.column_names]))
        if sum(table.num_rows for table in held) > _MANY_GROUPS:
            held = [_combined(held, names)]
    if not held:
        kinds = [key.bound.kind for key in keys]
        if keys:
            return pa.table(
                [pa.array([], kind) for kind in (*kinds, *(one.kind for one in aggregates))],
                names=[*names, *(f"a{at}" for at in range(len(aggregates)))],
            )
        return pa.table(
            [pa.array([0 if one.function == "count" else None], one.kind) for one in aggregates],
            names=[f"a{at}" for at in range(len(aggregates))],
        )
    whole = _combined(held, names)
    columns = [whole.column(name) for name in names if keys]
    for at, one in enumerate(aggregates):
        parts = {
            part: whole.column(f"{part}{at}")
            for part in _COMBINED
            if f"{part}{at}" in whole.column_names
        }
        columns.append(one.result(parts))
    labels = [*(names if keys else []), *(f"a{at}" for at in range(len(aggregates)))]
    return pa.table(columns, names=labels)


def _combined(tables: Sequence[pa.Table], names: Sequence[str]) -> pa.Table:
    whole = pa.concat_tables(tables)
    steps = [
        (name, _COMBINED[name.rstrip("0123456789")])
        for name in whole.column_names
        if name not in names
    ]
    found = whole.group_by(list(names)).aggregate(steps)
    return found.rename_columns([_plain(name) for name in found.column_names])


def _plain(name: str) -> str:
    """Return the name of a column without the function that Arrow appends."""
    return name.partition("_")[0]


def _summed(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_floating(kind):
        return pa.float64()
    return pa.decimal128(_WIDE, kind.scale if pa.types.is_decimal(kind) else 0)


def _result(function: str, kind: pa.DataType, text: str) -> pa.DataType:
    if function == "count":
        return pa.int64()
    if function in ("min", "max"):
        if any(test(kind) for test in _ORDERED):
            return kind
    elif pa.types.is_integer(kind):
        return pa.float64() if function == "avg" else pa.int64()
    elif pa.types.is_floating(kind):
        return pa.float64()
    elif pa.types.is_decimal(kind) and function == "sum":
        return pa.decimal128(min(_WIDE, kind.precision + 10), kind.scale)
    raise UnsupportedError(f"SQL: {text}: {function} of {kind} needs a Spark session")
