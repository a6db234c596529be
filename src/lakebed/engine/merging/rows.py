"""Evaluate the clauses of a merge: from rows of the target and the source to rows to write."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.engine.merging.match import Rows, SourceRows, as_batch
from lakebed.expr.compare import compare
from lakebed.format.names.meta_columns import RECORD_KEY
from lakebed.format.names.record_key import join_key_texts, key_texts
from lakebed.merge.run import COMMIT_TIME_DELETE, FLAGS
from lakebed.table.config.partitions import partition_column
from lakebed.table.read.conform import conform_array
from lakebed.write.clauses.bind import BoundClause, BoundMerge
from lakebed.write.clauses.clause import Act, When
from lakebed.write.clauses.plan import TARGET, MergePlan
from lakebed.write.clauses.refusals import exists, key_text, lowered, repeated, several_match
from lakebed.write.spec.status import RowCounts

_BATCH_ROWS = 65_536

FindKeys = Callable[[pa.RecordBatch], pa.Table]
"""Returns the rows of the table that have the keys of a batch."""


@dataclass(slots=True)
class Tally:
    """The numbers of rows that a merge has changed so far."""

    inserted: int = 0
    updated: int = 0
    deleted: int = 0

    def counts(self) -> RowCounts:
        """Return the numbers as a value."""
        return RowCounts(self.inserted, self.updated, self.deleted)

    def clear(self) -> None:
        """Start again from zero."""
        self.inserted = self.updated = self.deleted = 0


@dataclass(slots=True)
class MergedRows:
    """The rows that a merge writes, with the columns `names` and flags that mark deletes."""

    merge: BoundMerge
    source: SourceRows | None
    find: FindKeys
    names: Sequence[str]
    tally: Tally
    _matched: npt.NDArray[np.bool_] = field(init=False)

    def __post_init__(self) -> None:
        rows = 0 if self.source is None else self.source.count
        self._matched = np.zeros(rows, dtype=np.bool_)

    def read(self, targets: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows to write; `targets` are the rows of the table that can be affected."""
        for batch in targets:
            if batch.num_rows:
                yield from self._of_target(batch)
        yield from self._inserted()

    def schema(self) -> pa.Schema:
        """Return the columns of the rows."""
        fields = [pa.field(name, self._type(name)) for name in self.names]
        return pa.schema([*fields, pa.field(FLAGS, pa.uint8())])

    def _type(self, name: str) -> pa.DataType:
        return pa.string() if name == RECORD_KEY else self.merge.plan.schema.field(name).type

    def _of_target(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        target = rows.rename_columns([TARGET + name for name in rows.schema.names])
        is_alone = np.ones(target.num_rows, dtype=np.bool_)
        if self.source is not None:
            for at, found in self.source.matches(target):
                is_alone[at] = False
                self._matched[found] = True
                yield from self._of_pairs(target, at, found)
        by_source = self.merge.of(When.NOT_MATCHED_BY_SOURCE)
        if by_source and is_alone.any():
            at = np.flatnonzero(is_alone)
            for clause, chosen in self._chosen(by_source, len(at), _taker(target, at)):
                yield from self._changed(clause, target, at[chosen], None)

    def _of_pairs(self, target: pa.RecordBatch, at: Rows, found: Rows) -> Iterator[pa.RecordBatch]:
        source = self.source
        assert source is not None

        def pick(rows: Rows, names: Sequence[str]) -> pa.RecordBatch:
            return source.pairs(target, at[rows], found[rows], names)

        chosen = self._chosen(self.merge.of(When.MATCHED), len(at), pick)
        self._check_single(target, [(clause, at[rows]) for clause, rows in chosen])
        is_gone = np.zeros(target.num_rows, dtype=np.bool_)
        for clause, rows in chosen:
            once = rows
            if clause.act is Act.DELETE:
                once = rows[~is_gone[at[rows]]]
                once = once[np.unique(at[once], return_index=True)[1]]
                is_gone[at[once]] = True
            yield from self._changed(clause, target, at[once], found[once])

    def _chosen(
        self,
        clauses: Sequence[BoundClause],
        count: int,
        pick: Callable[[Rows, Sequence[str]], pa.RecordBatch],
    ) -> list[tuple[BoundClause, Rows]]:
        """Return for each clause the rows, of `count`, to which it is the first that applies."""
        left = np.arange(count)
        found = []
        for clause in clauses:
            if not len(left):
                break
            if clause.condition is None:
                found.append((clause, left))
                break
            batch = pick(left, clause.condition.columns)
            mask = clause.condition.mask(batch).to_numpy(zero_copy_only=False)
            found.append((clause, left[mask]))
            left = left[~mask]
        return [(clause, rows) for clause, rows in found if len(rows)]

    def _check_single(
        self, target: pa.RecordBatch, chosen: Sequence[tuple[BoundClause, Rows]]
    ) -> None:
        """Raise InvalidError if several source rows would change one target row.

        Deleting a row twice is the same as deleting it once.
        """
        if not chosen or all(clause.act is Act.DELETE for clause, _ in chosen):
            return
        counts = np.bincount(np.concatenate([rows for _, rows in chosen]))
        if counts.max() > 1:
            row = target.slice(int(np.argmax(counts)), 1)
            raise several_match(self._key_of(row), int(counts.max()))

    def _key_of(self, row: pa.RecordBatch) -> str:
        names = self.merge.plan.identity or (RECORD_KEY,)
        there = [name for name in names if TARGET + name in row.schema.names]
        return key_text({name: row.column(TARGET + name)[0].as_py() for name in there})

    def _changed(
        self, clause: BoundClause, target: pa.RecordBatch, at: Rows, found: Rows | None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the updated or deleted rows of a clause."""
        if clause.act is Act.UPDATE:
            used = {name for value in clause.values.values() for name in value.columns}
            at, values = self._updated(clause, target, at, found, sorted(used))
            self.tally.updated += len(at)
        else:
            values = {}
            self.tally.deleted += len(at)
        if len(at):
            kept = pa.array(at)
            columns = [
                values[name] if name in values else target.column(TARGET + name).take(kept)
                for name in self.names
            ]
            flag = COMMIT_TIME_DELETE if clause.act is Act.DELETE else 0
            yield self._batch(columns, len(at), flag)

    def _updated(
        self,
        clause: BoundClause,
        target: pa.RecordBatch,
        at: Rows,
        found: Rows | None,
        names: Sequence[str],
    ) -> tuple[Rows, dict[str, pa.Array]]:
        """Return the rows to update, without late ones, and their new values."""
        if found is None or self.source is None:
            batch = _taker(target, at)(np.arange(len(at)), names)
        else:
            batch = self.source.pairs(target, at, found, names)
        schema = self.merge.plan.schema
        values = {
            name: conform_array(value.values(batch), schema.field(name), name)
            for name, value in clause.values.items()
        }
        rules = [r for r in self.merge.plan.ordering if not clause.values.keys().isdisjoint(r)]
        if not rules:
            return at, values
        lower = [self._lower(rule, target, at, values) for rule in rules]
        if not clause.yields:
            below = np.logical_or.reduce(lower)
            if below.any():
                row = target.slice(int(at[np.flatnonzero(below)[0]]), 1)
                raise lowered(clause.text, self._key_of(row), rules)
            return at, values
        stays = np.logical_and.reduce(lower) & (len(rules) == len(self.merge.plan.ordering))
        kept = pa.array(np.flatnonzero(~stays))
        return at[~stays], {name: column.take(kept) for name, column in values.items()}

    def _lower(
        self,
        rule: Sequence[str],
        target: pa.RecordBatch,
        at: Rows,
        values: dict[str, pa.Array],
    ) -> npt.NDArray[np.bool_]:
        """Return whether the new ordering values of each row are lower than the old ones."""
        rows = pa.array(at)
        old = [target.column(TARGET + name).take(rows) for name in rule]
        new = [values.get(name, held) for name, held in zip(rule, old, strict=True)]
        return is_lower(new, old)

    def _inserted(self) -> Iterator[pa.RecordBatch]:
        clauses = self.merge.of(When.NOT_MATCHED)
        source = self.source
        if source is None or not clauses:
            return
        rows = np.flatnonzero(~self._matched)
        made: list[pa.RecordBatch] = []
        for start in range(0, len(rows), _BATCH_ROWS):
            part = rows[start : start + _BATCH_ROWS]

            def pick(some: Rows, names: Sequence[str], part: Rows = part) -> pa.RecordBatch:
                return source.take(part[some], names)

            for clause, chosen in self._chosen(clauses, len(part), pick):
                made.append(self._new_rows(clause, pick, chosen))
        self._check_keys(made)
        self.tally.inserted += sum(batch.num_rows for batch in made)
        yield from made

    def _new_rows(
        self,
        clause: BoundClause,
        pick: Callable[[Rows, Sequence[str]], pa.RecordBatch],
        rows: Rows,
    ) -> pa.RecordBatch:
        names = sorted({name for value in clause.values.values() for name in value.columns})
        batch = pick(rows, names)
        columns = []
        for name in self.names:
            value = clause.values.get(name)
            if value is None:
                columns.append(pa.nulls(len(rows), self._type(name)))
            else:
                given = self.merge.plan.schema.field(name)
                columns.append(conform_array(value.values(batch), given, name))
        return self._batch(columns, len(rows), 0)

    def _check_keys(self, made: Sequence[pa.RecordBatch]) -> None:
        """Raise InvalidError if two rows to insert have one key, or a row of the table has it."""
        names = self.merge.plan.identity
        if not made or not self.merge.plan.config.record_key_fields:
            return
        rows = pa.Table.from_batches([batch.select(list(names)) for batch in made])
        check_unique(rows, self.merge.plan)
        if self.merge.plan.inserts_own_keys:
            return
        for batch in rows.combine_chunks().to_batches(max_chunksize=_BATCH_ROWS):
            there = self.find(batch.filter(_complete(batch)))
            if there.num_rows:
                raise exists(key_text(there.slice(0, 1).to_pylist()[0]))

    def _batch(self, columns: Sequence[pa.Array], count: int, flag: int) -> pa.RecordBatch:
        flags = pa.array(np.full(count, flag, dtype=np.uint8))
        return pa.RecordBatch.from_arrays([*columns, flags], schema=self.schema())


def check_unique(rows: pa.Table, plan: MergePlan) -> None:
    """Raise InvalidError if two rows, given by their identity columns, have the same key."""
    numbers = np.zeros(rows.num_rows, dtype=np.int64)
    batch = as_batch(rows, rows.num_rows)
    if _complete(batch).false_count:
        return  # the write rejects null keys, and names the column
    for texts in _identity_texts(batch, plan):
        coded = texts.dictionary_encode(null_encoding="encode")
        pairs = numbers * len(coded.dictionary) + coded.indices.to_numpy()
        numbers = np.unique(pairs, return_inverse=True)[1]
    counts = np.bincount(numbers, minlength=1)
    if counts.max() > 1:
        row = int(np.flatnonzero(numbers == np.argmax(counts))[0])
        raise repeated(key_text(rows.slice(row, 1).to_pylist()[0]), int(counts.max()))


def _identity_texts(batch: pa.RecordBatch, plan: MergePlan) -> list[pa.Array]:
    """Return record keys and, unless keys are unique in the whole table, partition paths."""
    config = plan.config
    fields = config.record_key_fields
    texts = key_texts({name: batch.column(name) for name in fields}, fields)
    found = [join_key_texts(texts, config.composite_key)]
    if set(config.partition_fields) <= set(plan.identity) and config.partition_fields:
        found.append(partition_column(batch, config))
    return found


def _complete(batch: pa.RecordBatch) -> pa.BooleanArray:
    """Return whether a row has a value in every column."""
    names = [name for name in batch.schema.names if name != "#"]
    return reduce(pc.and_, (batch.column(name).is_valid() for name in names))


def is_lower(new: Sequence[pa.Array], old: Sequence[pa.Array]) -> npt.NDArray[np.bool_]:
    """Return whether the first column that differs is lower; null is not lower than anything."""
    lower = np.zeros(len(new[0]), dtype=np.bool_)
    equal = ~lower
    for one, other in zip(new, old, strict=True):
        less = pc.fill_null(compare("<", one, other), False).to_numpy(zero_copy_only=False)
        same = pc.fill_null(compare("=", one, other), False).to_numpy(zero_copy_only=False)
        lower |= equal & less
        equal &= same
    return lower


def _taker(target: pa.RecordBatch, at: Rows) -> Callable[[Rows, Sequence[str]], pa.RecordBatch]:
    """Return a function that takes some of the target rows `at`."""

    def pick(rows: Rows, names: Sequence[str]) -> pa.RecordBatch:
        taken = pa.Table.from_batches([target.select(list(names))]).take(pa.array(at[rows]))
        return as_batch(taken, len(rows))

    return pick
