"""Choose the rows of the target that a merge reads: by key, by predicate, or all."""

from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import ConflictError
from lakebed.expr.bound import Apply, Bound, Column, column_names, walk
from lakebed.expr.predicate import Predicate
from lakebed.expr.types import INTEGERS
from lakebed.merge.rule import Merger
from lakebed.scan.lookup import look_up, plan_lookup
from lakebed.scan.scan import Scan, plan_scan
from lakebed.table.read.source_cache import SourceCache
from lakebed.table.snapshot import Snapshot
from lakebed.write.clauses.bind import BoundMerge
from lakebed.write.clauses.clause import When
from lakebed.write.clauses.plan import TARGET, MergePlan

# A source of at most this many rows may look its keys up; a larger one is joined with a scan.
LOOKUP_ROWS = 65_536
# So few keys are always looked up; more of them if a scan would read this many bytes for each key.
_FEW_KEYS = 1_000
_SCANNED_BYTES_PER_KEY = 1 << 10
# Functions that no value makes fail.
_SAFE = frozenset(["and", "or", "not", "=", "<>", "<", "<=", ">", ">=", "<=>", "in", "is null"])


def check_columns(plan: MergePlan, snapshot: Snapshot) -> None:
    """Raise ConflictError if the table's columns changed since the merge was checked."""
    if snapshot.schema != plan.schema:
        raise ConflictError(
            f"merge: the columns of table {snapshot.config.name!r} changed meanwhile; retry"
        )


def scan_target(merge: BoundMerge, snapshot: Snapshot, merger: Merger | None) -> Scan:
    """Plan a scan of all rows of the target that the merge can affect."""
    plan = merge.plan
    return plan_scan(snapshot, merge.read, plan.statement.where or pushed(plan), merger)


def pushed(plan: MergePlan) -> Predicate | None:
    """Return the part of the join condition that every matched row of the target fulfils.

    Only conditions that cannot fail are included: rows that match nothing are tested too.
    """
    if plan.statement.of(When.NOT_MATCHED_BY_SOURCE):
        return None
    parts = [part for part in plan.join.rest if _is_of_target(part)]
    if not parts:
        return None
    bound = parts[0] if len(parts) == 1 else Apply("and", tuple(parts), pa.bool_())
    made = _without_prefix(bound)
    return Predicate("the condition of the merge", column_names(made), made)


def keys_to_look_up(plan: MergePlan, source: pa.Table) -> pa.Table | None:
    """Return the keys of the source if looking them up finds every row that can match.

    They are None if the merge needs other rows, does not join by key, or if there are too many.
    """
    config, equated = plan.config, plan.equated
    keys = config.record_key_fields
    needs_all = plan.statement.of(When.NOT_MATCHED_BY_SOURCE) or source.num_rows > LOOKUP_ROWS
    if needs_all or not keys or not set(keys) <= equated.keys():
        return None
    partition = config.partition_fields
    names = dict.fromkeys((*keys, *(partition if set(partition) <= equated.keys() else ())))
    columns: dict[str, pa.ChunkedArray] = {}
    fits = pa.array([True] * source.num_rows) if source.num_rows else pa.array([], pa.bool_())
    for name in names:
        column, kind = source.column(equated[name]), plan.schema.field(name).type
        if column.type != kind:
            if column.type not in INTEGERS or kind not in INTEGERS:
                return None
            fits = pc.and_(fits, pc.fill_null(_in_range(column, kind), False))
        columns[name] = column
    for column in columns.values():
        fits = pc.and_(fits, column.is_valid())
    found = pa.table(dict(columns)).filter(fits)
    wanted = pa.schema([plan.schema.field(name) for name in names])
    return (
        found.cast(pa.schema([f.with_nullable(True) for f in wanted]))
        .group_by(list(names))
        .aggregate([])
    )


def is_lookup_cheaper(
    merge: BoundMerge, snapshot: Snapshot, merger: Merger | None, keys: pa.Table
) -> bool:
    """Return whether to look up `keys` rather than to scan the table."""
    if keys.num_rows <= _FEW_KEYS:
        return True
    scanned: int = scan_target(merge, snapshot, merger).cost_bytes
    return bool(scanned >= keys.num_rows * _SCANNED_BYTES_PER_KEY)


def find_rows(
    merge: BoundMerge, snapshot: Snapshot, merger: Merger | None, keys: pa.Table
) -> pa.Table:
    """Return the rows of the table with `keys`, with the columns that the merge reads."""
    cache = SourceCache()

    def plan(within: Snapshot) -> Scan:
        return plan_scan(within, merge.read, None, merger, indexes=())

    found = [
        look_up(plan_lookup(snapshot, batch, plan, cache), batch, cache)
        for batch in keys.combine_chunks().to_batches(max_chunksize=LOOKUP_ROWS)
        if batch.num_rows
    ]
    return pa.concat_tables([plan(snapshot.within(())).empty(), *found])


def without_predicate(scan: Scan) -> Scan:
    """Return the scan of the same slices with all their rows."""
    return replace(scan, predicate=None)


def _in_range(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    half = 1 << (kind.bit_width - 1)
    low, high = pa.scalar(-half, pa.int64()), pa.scalar(half - 1, pa.int64())
    wide = column.cast(pa.int64())
    return pc.and_(pc.greater_equal(wide, low), pc.less_equal(wide, high))


def _is_of_target(part: Bound) -> bool:
    nodes = list(walk(part))
    safe = all(node.function in _SAFE for node in nodes if isinstance(node, Apply))
    names = column_names(part)
    return safe and bool(names) and all(name.startswith(TARGET) for name in names)


def _without_prefix(bound: Bound) -> Bound:
    if isinstance(bound, Column):
        return replace(bound, name=bound.name.removeprefix(TARGET))
    if isinstance(bound, Apply):
        return replace(bound, args=tuple(map(_without_prefix, bound.args)))
    return bound
