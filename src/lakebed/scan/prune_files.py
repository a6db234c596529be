"""Leaves out file slices by the column statistics of the file index, before any footer is opened.

Only slices that consist of a base file are left out: where logs lie on top of it, a version in them
may match. Files without statistics are kept, and skipped by row group once their footers are open.
"""

from collections.abc import Iterator, Set
from dataclasses import replace
from decimal import Decimal
from functools import reduce
from typing import Final

import pyarrow as pa

from lakebed.expr.bound import Apply, Bound, Column, Constant, walk
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
_PREFIXES: Final = ("like", "startswith")


class FilePruner:
    """Finds the files in which no row can satisfy a predicate; `exact` is as in `plan_scan`."""

    def __init__(self, snapshot: Snapshot, predicate: Predicate, *, exact: bool) -> None:
        self._snapshot = snapshot
        self._columns = predicate.columns
        schema = pa.schema([*META_FIELDS, *snapshot.schema])
        self._constraints = constraints_of(predicate, schema, exact=exact)
        condition = file_condition(predicate, self._constraints, schema, exact=exact)
        # In a table with column groups, the columns of a row are in several files.
        self._filter: RowGroupFilter | None = None
        if condition is not None and not snapshot.column_groups:
            self._filter = RowGroupFilter(condition, schema)
        self._tested: dict[str, bool] = {}

    def within(self, snapshot: Snapshot) -> Snapshot:
        """Return the snapshot of the partitions that may have matching rows, if they are known."""
        if self._filter is None or snapshot.is_listed:
            return snapshot
        if snapshot.partitions is not None and len(snapshot.partitions) < MIN_FILES:
            return snapshot
        partitions = snapshot.partitions_without(lambda: self._gone(None))
        return snapshot if partitions is None else snapshot.within(partitions)

    def prune(self, pruned: Pruned) -> Pruned:
        """Leave out slices that consist of a single file in which no row can match."""
        bases = {
            slice_.base_file.path: slice_.base_file.name.instant
            for slice_ in pruned.slices
            if slice_.base_file is not None and not slice_.needs_merge and not slice_.damage
        }
        if self._filter is None or len(bases) < MIN_FILES:
            return pruned
        gone = self._gone(frozenset(bases.values())) & bases.keys()
        if not gone:
            return pruned
        left = tuple(
            s for s in pruned.slices if s.base_file is None or s.base_file.path not in gone
        )
        stated = self._constraints.stated(self._columns)
        conditions = tuple(allowed_text(name, allowed) for name, allowed in stated.items())
        step = PruneStep("column statistics", conditions or tuple(self._columns), len(left))
        return replace(pruned, slices=left, steps=(*pruned.steps, step))

    def _gone(self, instants: Set[str] | None) -> frozenset[str]:
        """Return the files, of commits `instants` or of all commits, without matching rows."""
        assert self._filter is not None
        held = self._snapshot
        found = held.commits.statistics(held.timeline, instants, frozenset(self._columns))
        new = [path for path in found if path not in self._tested]
        self._tested |= zip(new, self._filter.files(map(found.__getitem__, new)), strict=True)
        return frozenset(path for path in found if not self._tested[path])


def file_condition(
    predicate: Predicate, constraints: Constraints, schema: pa.Schema, *, exact: bool
) -> "Bound | None":
    """Return a condition that is true for every row that satisfies the predicate.

    A session that is not `exact` may evaluate the predicate itself in another way, but not its
    constraints. These are also the only form in which prefixes are compared with statistics.
    """
    functions = {node.function for node in walk(predicate.bound) if isinstance(node, Apply)}
    parts: list[Bound] = [predicate.bound] if exact else []
    if not exact or not functions.isdisjoint(_PREFIXES):
        parts += (
            part for name in constraints.columns for part in _parts(name, constraints, schema)
        )
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
