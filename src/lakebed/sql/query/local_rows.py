"""Rows of a query in this process: projected, distinct, ordered and limited as streams."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.expr.scope import Expression

_MANY_ROWS = 1 << 20


@dataclass(frozen=True, slots=True)
class Order:
    """One item of ORDER BY."""

    expression: Expression
    descends: bool
    nulls_last: bool


def projected(
    reader: pa.RecordBatchReader, items: Sequence[Expression], names: Sequence[str]
) -> pa.RecordBatchReader:
    """Return the values of expressions for each row."""
    schema = pa.schema([pa.field(n, item.bound.kind) for n, item in zip(names, items, strict=True)])

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in reader:
            columns = [item.values(batch) for item in items]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)

    return pa.RecordBatchReader.from_batches(schema, batches())


def limited(reader: pa.RecordBatchReader, offset: int, limit: int | None) -> pa.RecordBatchReader:
    """Return the rows after `offset`, at most `limit`; no more batches than needed are read."""
    if not offset and limit is None:
        return reader

    def batches() -> Iterator[pa.RecordBatch]:
        skip, left = offset, limit
        if left == 0:
            return
        for batch in reader:
            part = batch.slice(skip)
            skip = max(0, skip - batch.num_rows)
            if left is not None:
                part = part.slice(0, left)
                left -= part.num_rows
            if part.num_rows:
                yield part
            if left == 0:
                return

    return pa.RecordBatchReader.from_batches(reader.schema, batches())


def distinct(reader: pa.RecordBatchReader) -> pa.RecordBatchReader:
    """Return each row once; all different rows are held in memory."""
    names = [f"c{at}" for at in range(len(reader.schema))]
    held: list[pa.Table] = []
    for batch in reader:
        columns = [grouping_key(column) for column in batch.columns]
        held.append(pa.table(columns, names=names).group_by(names).aggregate([]))
        if sum(table.num_rows for table in held) > _MANY_ROWS:
            held = [pa.concat_tables(held).group_by(names).aggregate([])]
    if not held:
        return reader.schema.empty_table().to_reader()
    found = pa.concat_tables(held).group_by(names).aggregate([])
    return found.rename_columns(reader.schema.names).cast(reader.schema).to_reader()


def grouping_key(column: pa.Array) -> pa.Array:
    """Return a column in which equal values have equal bytes, as Spark groups them."""
    if not pa.types.is_floating(column.type):
        return column
    nan = pa.scalar(float("nan"), column.type)
    zero = pa.scalar(0.0, column.type)
    return pc.if_else(pc.is_nan(column), nan, pc.if_else(pc.equal(column, zero), zero, column))


def ordered(
    reader: pa.RecordBatchReader, orders: Sequence[Order], limit: int | None
) -> pa.RecordBatchReader:
    """Return the rows in order; with a limit, no more rows than that are kept in memory."""
    held: list[pa.RecordBatch] = []
    rows = 0
    most = None if limit is None else max(limit, _MANY_ROWS)
    for batch in reader:
        held.append(batch)
        rows += batch.num_rows
        if most is not None and rows > 2 * most:
            best = _sorted(pa.Table.from_batches(held), orders).slice(0, limit)
            held, rows = best.to_batches(), best.num_rows
    table = _sorted(pa.Table.from_batches(held, reader.schema), orders)
    return (table if limit is None else table.slice(0, limit)).to_reader()


def _sorted(table: pa.Table, orders: Sequence[Order]) -> pa.Table:
    """Sort by Spark's rules: NaN is the greatest number, and nulls are where they are asked for."""
    if not table.num_rows:
        return table
    batch = table.combine_chunks().to_batches()[0]
    keys: dict[str, pa.Array] = {}
    directions = []
    for at, order in enumerate(orders):
        values = order.expression.values(batch)
        direction = "descending" if order.descends else "ascending"
        keys[f"null{at}"] = pc.is_null(values)
        directions.append((f"null{at}", "ascending" if order.nulls_last else "descending"))
        if pa.types.is_floating(values.type):
            keys[f"nan{at}"] = pc.fill_null(pc.is_nan(values), False)
            directions.append((f"nan{at}", direction))
        keys[f"key{at}"] = values
        directions.append((f"key{at}", direction))
    return table.take(pc.sort_indices(pa.table(keys), sort_keys=directions))
