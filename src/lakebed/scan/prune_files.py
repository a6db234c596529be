"""Leaves out file slices by the column statistics of the file index, before any footer is opened.

Only slices that consist of a base file are left out: where logs lie on top of it, a version in them
may match. Files without statistics are kept, and skipped by row group once their footers are open.
"""

from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from functools import reduce
from typing import Final

import pyarrow as pa

from lakebed.expr.bound import Apply, Bound, Column, Constant
from lakebed.expr.constraints import Allowed, Constraints, Value, constraints_of
from lakebed.expr.predicate import Predicate
from lakebed.format.names.meta_columns import META_FIELDS
from lakebed.scan.prune import Pruned
from lakebed.scan.prune_step import PruneStep, allowed_text
from lakebed.table.read.row_group_filter import RowGroupFilter
from lakebed.table.snapshot import Snapshot

MIN_FILES: Final = 8
"""For fewer files, reading their footers takes no more requests than reading statistics."""

_MAX_VALUES: Final = 1_000


def prune_by_statistics(
    snapshot: Snapshot, predicate: Predicate, pruned: Pruned, *, exact: bool
) -> Pruned:
    """Leave out the slices in whose file no row can satisfy `predicate`; `exact` as in `plan_scan`."""
    if snapshot.column_groups:
        return pruned  # the columns of a row are in several files
    bases = {
        slice_.base_file.path: slice_.base_file.name.instant
        for slice_ in pruned.slices
        if slice_.base_file is not None and not slice_.needs_merge and not slice_.damage
    }
    schema = pa.schema([*META_FIELDS, *snapshot.schema])
    constraints = constraints_of(predicate, schema, exact=exact)
    tested = _condition(predicate, constraints, schema, exact=exact)
    if len(bases) < MIN_FILES or tested is None:
        return pruned
    columns = frozenset(predicate.columns)
    found = snapshot.commits.statistics(snapshot.timeline, frozenset(bases.values()), columns)
    known = [path for path in bases if path in found]
    held = RowGroupFilter(tested, schema).files(found[path] for path in known)
    gone = {path for path, may_match in zip(known, held, strict=True) if not may_match}
    if not gone:
        return pruned
    left = tuple(s for s in pruned.slices if s.base_file is None or s.base_file.path not in gone)
    stated = constraints.stated(predicate.columns)
    conditions = tuple(allowed_text(name, allowed) for name, allowed in stated.items())
    step = PruneStep("column statistics", conditions or tuple(predicate.columns), len(left))
    return replace(pruned, slices=left, steps=(*pruned.steps, step))


def _condition(
    predicate: Predicate, constraints: Constraints, schema: pa.Schema, *, exact: bool
) -> "Bound | None":
    """Return a condition that is true for every row that satisfies the predicate.

    A session that is not `exact` may evaluate the predicate itself in another way, but not its
    constraints.
    """
    parts = [part for name in constraints.columns for part in _parts(name, constraints, schema)]
    if exact:
        parts.append(predicate.bound)
    return reduce(lambda one, other: _apply("and", one, other), parts) if parts else None


def _parts(name: str, constraints: Constraints, schema: pa.Schema) -> Iterator[Bound]:
    if name not in schema.names:
        return  # a field of a struct
    allowed = constraints.columns[name]
    column = Column(name, schema.field(name).type)
    values = None if allowed.values is None else list(allowed.values)
    if values is not None and len(values) > _MAX_VALUES:
        return
    is_null = _apply("is null", column)
    ranges = _ranges(column, allowed)
    if values is not None:
        ranges = (
            [reduce(_either, (_compare(column, "=", value) for value in values))] if values else []
        )
    tested: Bound = _apply("not", is_null)
    for part in ranges:
        tested = _apply("and", tested, part)
    if allowed.null:
        tested = is_null if values == [] else _either(is_null, tested)
    yield tested


def _ranges(column: Column, allowed: Allowed) -> list[Bound]:
    ends = ((allowed.lower, ">"), (allowed.upper, "<"))
    return [
        _compare(column, f"{sign}=" if end.inclusive else sign, end.value)
        for end, sign in ends
        if end is not None
    ]


def _compare(column: Column, sign: str, value: Value) -> Bound:
    # A number may need a wider type than the column's, in which it would be rounded.
    is_number = isinstance(value, (int, float, Decimal)) and not isinstance(value, bool)
    constant = pa.scalar(value) if is_number else pa.scalar(value, column.kind)
    return _apply(sign, column, Constant(constant))


def _either(one: Bound, other: Bound) -> Bound:
    return _apply("or", one, other)


def _apply(function: str, *args: Bound) -> Apply:
    return Apply(function, args, pa.bool_())
