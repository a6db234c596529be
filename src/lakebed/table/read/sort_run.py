"""Sorts rows in bounded memory: chunks are sorted, spilled and merged.

All versions of a key are kept, in their order of arrival: only the merge knows how they combine. So
the rows of several consecutive logs can be sorted as one run.
"""

from collections.abc import Iterable, Iterator
from itertools import chain

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.format.names.meta_columns import RECORD_KEY
from lakebed.merge.passes import MAX_FAN_IN
from lakebed.merge.rule import MergeRule
from lakebed.merge.run import FLAGS, Run
from lakebed.merge.window import order_runs
from lakebed.table.read.parquet_source import READ_ROWS
from lakebed.table.read.spill import Spills

SORT_BYTES = 128 << 20
"""How many bytes of an unsorted run are held in memory at once."""


def sort_batches(
    batches: Iterable[pa.RecordBatch],
    schema: pa.Schema | None,
    what: str,
    *,
    sort_bytes: int = SORT_BYTES,
    max_fan_in: int = MAX_FAN_IN,
    key: str = RECORD_KEY,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of `batches` by ascending `key`; equal keys stay in their order.

    A batch may lack columns of `schema`, which are then null, and may have flags. Without a schema
    all batches have the columns of the first. Up to about three times `sort_bytes` is held in
    memory, the rest in temporary files, which are deleted at the end.
    """
    batches = iter(batches)
    first = next(batches, None)
    if first is None:
        return
    if schema is None:
        schema = pa.schema([field for field in first.schema if field.name != FLAGS])
    batches = chain([first], batches)
    rule = MergeRule(key=key)
    with Spills() as spills:
        runs: list[Run] = []
        for chunk, is_last in _chunks(batches, schema, sort_bytes):
            rows = _sorted(chunk, key)
            if is_last and not runs:
                yield from _pieces(rows)
                return
            runs.append(spills.spill(_pieces(rows)))
        while len(runs) > max_fan_in:
            runs = [
                spills.spill(order_runs(runs[at : at + max_fan_in], rule, schema))
                for at in range(0, len(runs), max_fan_in)
            ]
        yield from order_runs([_named(run, what) for run in runs], rule, schema)


def _chunks(
    batches: Iterable[pa.RecordBatch], schema: pa.Schema, sort_bytes: int
) -> Iterator[tuple[list[pa.RecordBatch], bool]]:
    """Yield batches of about `sort_bytes` together, and whether they are the last."""
    held: list[pa.RecordBatch] = []
    size_bytes = 0
    for batch in batches:
        if size_bytes >= sort_bytes:
            yield _alike(held, schema), False
            held, size_bytes = [], 0
        held.append(batch)
        size_bytes += batch.nbytes
    if held:
        yield _alike(held, schema), True


def _alike(batches: list[pa.RecordBatch], schema: pa.Schema) -> list[pa.RecordBatch]:
    """Project all batches to the same columns, if they differ."""
    first = batches[0].schema
    if all(batch.schema.equals(first) for batch in batches):
        return batches
    flagged = any(FLAGS in batch.schema.names for batch in batches)
    fields = [*schema, pa.field(FLAGS, pa.uint8())] if flagged else list(schema)
    return [_with_fields(batch, pa.schema(fields)) for batch in batches]


def _with_fields(batch: pa.RecordBatch, target: pa.Schema) -> pa.RecordBatch:
    present = set(batch.schema.names)
    columns = []
    for field in target:
        if field.name in present:
            columns.append(batch.column(field.name))
        elif field.name == FLAGS:
            columns.append(pa.repeat(pa.scalar(0, pa.uint8()), batch.num_rows))
        else:
            columns.append(pa.nulls(batch.num_rows, field.type))
    fields = [field if field.name == FLAGS else field.with_nullable(True) for field in target]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


def _sorted(batches: list[pa.RecordBatch], key: str) -> pa.RecordBatch:
    """Return the batches as one batch in key order; equal keys stay in order of arrival."""
    rows = pa.concat_batches(batches)
    batches.clear()
    keys = rows.column(key)
    ascends = pc.all(pc.less_equal(keys.slice(0, max(0, len(keys) - 1)), keys.slice(1)))
    if ascends.as_py() is not False:
        return rows
    return rows.take(pc.sort_indices(keys))


def _pieces(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    for start in range(0, rows.num_rows, READ_ROWS):
        yield rows.slice(start, READ_ROWS)


def _named(run: Run, what: str) -> Run:
    return Run(what, run.batches)
