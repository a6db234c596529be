"""Merges as sources of a write: the rows are computed when the write begins."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import pyarrow as pa

from lakebed.engine.engine import open_stream, stage_stream
from lakebed.engine.merging.match import SourceRows
from lakebed.engine.merging.rows import MergedRows, Tally, check_unique
from lakebed.merge.rule import Merger
from lakebed.scan.scan import Scan
from lakebed.table.read.conform import conform_array
from lakebed.table.snapshot import Snapshot
from lakebed.write.clauses.bind import BoundMerge
from lakebed.write.clauses.clause import When
from lakebed.write.clauses.plan import SOURCE, source_schema
from lakebed.write.clauses.targets import (
    check_columns,
    find_rows,
    is_lookup_cheaper,
    keys_to_look_up,
    pushed,
    scan_target,
)
from lakebed.write.pipeline import Source
from lakebed.write.spec.write_spec import WriteSpec
from lakebed.write.staging import Staged

Read = Callable[[Scan], pa.RecordBatchReader]
"""Returns the rows of a scan."""


def as_repeatable(data: object) -> object:
    """Return the rows in a form that shows their columns before they are read."""
    return data if isinstance(data, (pa.Table, pa.RecordBatch)) else open_stream(data)


def collect_source(data: object) -> pa.Table:
    """Return the rows of a source in memory, with the types that a table would store."""
    stream = open_stream(data)
    schema = source_schema(stream.schema)
    batches = [_typed(batch, schema) for batch in stream]
    return pa.Table.from_batches(batches, schema)


def _typed(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    columns = [conform_array(batch.column(field.name), field, field.name) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def merged_source(
    merge: BoundMerge, rows: pa.Table | None, merger: Merger | None, read: Read
) -> Source:
    """Return a source of the rows that a merge writes; `rows` is its own source."""
    plan = merge.plan
    tally = Tally()
    names = list(plan.names)
    fields = [plan.schema.field(name) for name in names if name in plan.schema.names]

    def stage(spec: WriteSpec, snapshot: Snapshot) -> list[Staged]:
        check_columns(plan, snapshot)
        tally.clear()
        held = None if rows is None else SourceRows(plan.join, rows)
        found = MergedRows(
            merge, held, lambda keys: _present(merge, snapshot, merger, keys), names, tally
        )
        stream = found.read(_targets(merge, rows, snapshot, merger, read))
        return stage_stream(pa.RecordBatchReader.from_batches(found.schema(), stream), spec)

    return Source(
        pa.schema(fields),
        stage,
        reads_table=True,
        repeatable=True,
        where=plan.statement.where or pushed(plan),
        counted=tally.counts,
        reads_own_keys=plan.reads_own_keys,
        intake=plan.intake,
    )


def upserted_source(merge: BoundMerge, data: object) -> Source:
    """Return a source of the rows of a merge that is an upsert: every row of its source.

    The rows are streamed; only their keys are held, to find repeated ones.
    """
    plan = merge.plan
    [clause] = merge.of(When.NOT_MATCHED)
    stream = open_stream(data)
    schema = source_schema(stream.schema)
    names = list(plan.schema.names)

    def rows() -> Iterator[pa.RecordBatch]:
        keys: list[pa.RecordBatch] = []
        for batch in open_stream(data) if isinstance(data, (pa.Table, pa.RecordBatch)) else stream:
            typed = _typed(batch, schema).rename_columns([SOURCE + name for name in schema.names])
            columns = [
                conform_array(clause.values[name].values(typed), plan.schema.field(name), name)
                for name in names
            ]
            made = pa.RecordBatch.from_arrays(columns, names=names)
            keys.append(made.select(list(plan.identity)))
            yield made
        if keys:
            check_unique(pa.Table.from_batches(keys), plan)

    def stage(spec: WriteSpec, snapshot: Snapshot) -> list[Staged]:
        check_columns(plan, snapshot)
        made = pa.schema([field.with_nullable(True) for field in plan.schema])
        return stage_stream(pa.RecordBatchReader.from_batches(made, rows()), spec)

    return Source(plan.schema, stage, repeatable=isinstance(data, (pa.Table, pa.RecordBatch)))


def _targets(
    merge: BoundMerge,
    rows: pa.Table | None,
    snapshot: Snapshot,
    merger: Merger | None,
    read: Read,
) -> Iterator[pa.RecordBatch]:
    keys = None if rows is None else keys_to_look_up(merge.plan, rows)
    if keys is not None and is_lookup_cheaper(merge, snapshot, merger, keys):
        yield from find_rows(merge, snapshot, merger, keys).to_batches()
        return
    if rows is not None and not rows.num_rows and not merge.of(When.NOT_MATCHED_BY_SOURCE):
        return
    yield from read(scan_target(merge, snapshot, merger))


def _present(
    merge: BoundMerge, snapshot: Snapshot, merger: Merger | None, keys: pa.RecordBatch
) -> pa.Table:
    narrow = replace(merge, read=merge.plan.identity)
    return find_rows(narrow, snapshot, merger, pa.Table.from_batches([keys]))
