"""Match rows of the target with rows of the source by the equalities of a join condition.

The distinct values of each source column get numbers, and a row's numbers are combined to one, so
any number of columns of any type becomes one sorted integer column, which is searched for all rows
of a batch at once.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.expr.bound import Bound
from lakebed.expr.scope import Expression
from lakebed.expr.types import is_real
from lakebed.write.clauses.plan import SOURCE, JoinCondition

Rows = npt.NDArray[np.int64]
_NONE = -1
# Without an equality, every target row is compared with every source row, this many pairs at once.
_PAIRS = 1 << 20
_ROW = "#"


@dataclass(frozen=True, slots=True)
class _Numbered:
    """The distinct values of one side of an equality, in the order of their numbers."""

    expression: Expression
    values: pa.Array

    def numbers(self, batch: pa.RecordBatch) -> Rows:
        """Return the number of each row's value; -1 for null and for an unknown value."""
        found = pc.index_in(_normal(self.expression.values(batch)), value_set=self.values)
        numbers: Rows = pc.fill_null(found, _NONE).to_numpy().astype(np.int64)
        return numbers


class SourceRows:
    """The rows of a source, found by the values that the join condition compares."""

    def __init__(self, join: JoinCondition, rows: pa.Table) -> None:
        self.rows = rows.rename_columns([SOURCE + name for name in rows.column_names])
        self._rest = [_expression(part) for part in join.rest]
        self._targets: list[_Numbered] = []
        self._steps: list[Rows] = []
        numbers = np.zeros(rows.num_rows, dtype=np.int64)
        whole = self.take(np.arange(rows.num_rows))
        for pair in join.pairs:
            values = _normal(_expression(pair.source).values(whole))
            distinct = values.unique().drop_null()
            one = _Numbered(_expression(pair.target), distinct)
            own = _Numbered(_expression(pair.source), distinct).numbers(whole)
            self._targets.append(one)
            numbers = np.where(
                (numbers == _NONE) | (own == _NONE), _NONE, numbers * len(distinct) + own
            )
            # Renumbered after each column, so that the products stay small.
            step = np.unique(numbers[numbers != _NONE])
            self._steps.append(step)
            numbers = _positions(step, numbers)
        self._order = np.argsort(numbers, kind="stable")
        self._sorted = numbers[self._order]

    @property
    def count(self) -> int:
        """Return the number of rows."""
        return int(self.rows.num_rows)

    def take(self, rows: Rows, names: Sequence[str] | None = None) -> pa.RecordBatch:
        """Return some rows, with all columns or the columns `names`."""
        picked = self.rows if names is None else self.rows.select(list(names))
        whole = len(rows) == self.count and names is None
        found = picked if whole and np.array_equal(rows, np.arange(len(rows))) else None
        return as_batch(picked.take(pa.array(rows)) if found is None else found, len(rows))

    def matches(self, target: pa.RecordBatch) -> Iterator[tuple[Rows, Rows]]:
        """Yield the positions of matching rows: those of the target, and those of the source.

        All matches of a target row are in one pair of arrays.
        """
        if not self.count or not target.num_rows:
            return
        for at, found in self._equal(target):
            if not self._rest:
                yield at, found
                continue
            kept = np.ones(len(at), dtype=np.bool_)
            for condition in self._rest:
                left = np.flatnonzero(kept)
                batch = self.pairs(target, at[left], found[left], condition.columns)
                kept[left] = condition.mask(batch).to_numpy(zero_copy_only=False)
            yield at[kept], found[kept]

    def pairs(
        self, target: pa.RecordBatch, at: Rows, found: Rows, names: Sequence[str]
    ) -> pa.RecordBatch:
        """Return the columns `names` of pairs of a target row and a source row."""
        sources = [name for name in names if name.startswith(SOURCE)]
        targets = [name for name in names if not name.startswith(SOURCE)]
        own = self.take(found, sources)
        taken = [target.column(name).take(pa.array(at)) for name in targets]
        columns = [*(own.column(name) for name in sources), *taken, pa.array(at)]
        return pa.RecordBatch.from_arrays(columns, names=[*sources, *targets, _ROW])

    def _equal(self, target: pa.RecordBatch) -> Iterator[tuple[Rows, Rows]]:
        if not self._targets:
            yield from self._every_pair(target)
            return
        numbers = np.zeros(target.num_rows, dtype=np.int64)
        for one, step in zip(self._targets, self._steps, strict=True):
            own = one.numbers(target)
            combined = numbers * len(one.values) + own
            combined[(numbers == _NONE) | (own == _NONE)] = _NONE
            numbers = _positions(step, combined)
        low = np.searchsorted(self._sorted, numbers, "left")
        high = np.searchsorted(self._sorted, numbers, "right")
        counts = np.where(numbers == _NONE, 0, high - low)
        at = np.repeat(np.arange(target.num_rows), counts)
        within = np.arange(len(at)) - np.repeat(np.cumsum(counts) - counts, counts)
        yield at, self._order[np.repeat(low, counts) + within]

    def _every_pair(self, target: pa.RecordBatch) -> Iterator[tuple[Rows, Rows]]:
        rows = max(1, _PAIRS // self.count)
        for start in range(0, target.num_rows, rows):
            stop = min(start + rows, target.num_rows)
            at = np.repeat(np.arange(start, stop), self.count)
            yield at, np.tile(np.arange(self.count), stop - start)


def as_batch(table: pa.Table, rows: int) -> pa.RecordBatch:
    """Return a table as one batch, with a column of row numbers in case it has no others."""
    columns = [
        column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
        for column in table.columns
    ]
    numbers = pa.array(np.arange(rows))
    return pa.RecordBatch.from_arrays([*columns, numbers], names=[*table.column_names, _ROW])


def _expression(bound: Bound) -> Expression:
    return Expression.of("the join condition", bound)


def _normal(values: pa.Array) -> pa.Array:
    """Return the values with one zero: -0.0 equals 0.0."""
    return pc.add(values, pa.scalar(0.0, values.type)) if is_real(values.type) else values


def _positions(known: Rows, wanted: Rows) -> Rows:
    """Return the position of each wanted number in the sorted numbers `known`; -1 if it is absent."""
    if not len(known):
        return np.full(len(wanted), _NONE, dtype=np.int64)
    at = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    return np.where((known[at] == wanted) & (wanted != _NONE), at, _NONE)
