"""Reduce rows in key order to one row per key: fold repeated keys, and take the surviving rows."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakebed.errors import CorruptError, InvalidError, UnsupportedError
from lakebed.format.names.meta_columns import COMMIT_TIME, STAMPS
from lakebed.merge.arrays import Bytes, Ints, int64_array, to_numpy, uint8_array
from lakebed.merge.custom import Repeated, merge_rounds
from lakebed.merge.fill import fill_classes, stand_in
from lakebed.merge.ranks import ordering_ranks
from lakebed.merge.rule import Merger, MergeRule
from lakebed.merge.run import COMMIT_TIME_DELETE, DELETED, FLAGS, Run
from lakebed.merge.tree import Order, Versions, fold_versions


@dataclass(frozen=True, slots=True)
class Part:
    """Rows of one run in the schema of the merge, with their flags if any is set.

    `lacks` are the columns, null here, that keep their older values. If `yields`, the rows come
    last and win only by a greater ordering value. If `repeats`, rows with the same key are kept
    separately.
    """

    rows: pa.RecordBatch
    flags: Bytes | None = None
    lacks: frozenset[str] = frozenset()
    yields: bool = False
    repeats: bool = False


@dataclass(frozen=True, slots=True)
class Survivors:
    """The result for each key: the winning row, the source row of each class of columns, and flags.

    Rows are numbered across all parts; -1 means null. The flags are None if none is set.
    """

    winners: Ints
    classes: Sequence[Sequence[str]]
    sources: Ints
    flags: Bytes | None


def to_part(batch: pa.RecordBatch, schema: pa.Schema, run: Run, key: str) -> Part:
    """Return `batch` with the columns of `schema`; missing columns are null, except `key`.

    Raises InvalidError if `batch` lacks `key`, and CorruptError if a key is null.
    """
    what = run.name
    columns = []
    lacks = []
    names = batch.schema.names
    # Columns of one type share their nulls: a column group lacks most columns of a wide row.
    nulls: dict[pa.DataType, pa.Array] = {}
    for field in schema:
        if field.name not in names:
            lacks.append(field.name)
            if field.type not in nulls:
                nulls[field.type] = pa.nulls(batch.num_rows, field.type)
            columns.append(nulls[field.type])
            continue
        column = batch.column(field.name)
        if column.type != field.type:
            raise InvalidError(
                f"{what}: column {field.name!r}: expected {field.type}, found {column.type}"
            )
        columns.append(column)
    if key in lacks:
        raise InvalidError(f"{what}: column {key!r} is missing; have {', '.join(names)}")
    if nulls := batch.column(key).null_count:
        raise CorruptError(f"{what}: expected a {key!r} in every row, found {nulls} rows with none")
    rows = pa.RecordBatch.from_arrays(columns, schema=schema)
    lacking = frozenset(lacks) if run.partial else frozenset()
    return Part(rows, _flags(batch, what), lacking, run.yields, run.repeats)


def check_rule(rule: MergeRule, schema: pa.Schema) -> None:
    """Raise an error if the schema lacks the key or an ordering field."""
    for name in (rule.key, *rule.ordering_fields):
        if name not in schema.names:
            raise InvalidError(f"merge: column {name!r} is missing; have {', '.join(schema.names)}")


def with_flags(rows: pa.RecordBatch, flags: Bytes | None) -> pa.RecordBatch:
    """Append the column of flags, all 0 if `flags` is None."""
    values = np.zeros(rows.num_rows, np.uint8) if flags is None else flags
    return rows.append_column(pa.field(FLAGS, pa.uint8()), uint8_array(values))


def resolve(
    parts: Sequence[Part], order: Order, rule: MergeRule, *, keep_deletes: bool, kernel: bool
) -> pa.RecordBatch:
    """Return one row per key, in key order.

    With `keep_deletes` a deleted key keeps its ordering values and its commit time, and the flags
    are the last column; otherwise it is left out.
    """
    if rule.merger is None:
        survivors = choose(parts, order, rule, kernel=kernel)
    else:
        parts, survivors = _merge_custom(parts, order, rule.merger)
    return _take(_table(parts), survivors, rule, keep_deletes=keep_deletes)


def choose(parts: Sequence[Part], order: Order, rule: MergeRule, *, kernel: bool) -> Survivors:
    """Choose the result for each key by ordering and arrival; the cost is that of repeated keys."""
    flags = _all_flags(parts)
    if flags is not None and rule.natural_deletes:
        flags = np.where(flags & DELETED != 0, np.uint8(COMMIT_TIME_DELETE), flags)
    winners = order.positions[order.starts]
    results = None if flags is None else flags[winners]
    if len(winners) == len(order.positions):
        return Survivors(winners, [parts[0].rows.schema.names], winners[np.newaxis], results)
    repeated, keys = _repeated(order)
    at, starts = order.positions[repeated], order.starts[repeated]
    columns = _columns_of(parts, at, rule)
    sources = np.tile(winners, (len(columns.classes), 1))
    if flags is None and not rule.ordering_fields and columns.is_plain:
        winners[keys] = at[np.append(starts[1:], True)]
        sources[:, keys] = winners[keys]
        return Survivors(winners, columns.classes, sources, results)
    folded = fold_versions(
        Versions(
            at,
            starts,
            np.zeros(len(at), np.uint8) if flags is None else flags[at],
            _ranks(parts, at, rule),
            columns.parts,
            columns.presence,
            columns.yields,
            loser_gives=rule.loser_gives,
            open_stays=rule.logs_first,
        ),
        kernel=kernel,
    )
    winners[keys] = folded.winners
    if results is not None:
        results[keys] = folded.flags
    if rule.fill is None:
        sources[:, keys] = folded.sources
        return Survivors(winners, columns.classes, sources, results)
    sources[:, keys] = stand_in(folded.sources, folded.winners)
    survivors = Survivors(winners, columns.classes, sources, results)
    if rule.logs_first or columns.yields.any():
        return survivors
    return _stamped(survivors, keys, np.maximum(folded.sources.max(axis=0), folded.winners))


def _stamped(survivors: Survivors, keys: Ints, newest: Ints) -> Survivors:
    """Set the stamps of filled rows to those of the version that filled them, for incremental reads.

    Rows are numbered in the order of their runs.
    """
    stamps = [name for names in survivors.classes for name in names if name in STAMPS]
    if not stamps:
        return survivors
    classes = [[name for name in names if name not in stamps] for names in survivors.classes]
    filled = survivors.winners.copy()
    filled[keys] = newest
    kept = [at for at, names in enumerate(classes) if names]
    return replace(
        survivors,
        classes=[*(classes[at] for at in kept), stamps],
        sources=np.vstack([survivors.sources[kept], filled]),
    )


def every_version(parts: Sequence[Part], order: Order) -> pa.RecordBatch:
    """Return all versions of all keys, in key order, with their flags."""
    flags = _all_flags(parts)
    rows = _one_batch(_table(parts).take(int64_array(order.positions)))
    return with_flags(rows, None if flags is None else flags[order.positions])


def _merge_custom(
    parts: Sequence[Part], order: Order, merger: Merger
) -> tuple[Sequence[Part], Survivors]:
    """Resolve repeated keys with the custom merger, whose results become an additional part."""
    table = _table(parts)
    flags = _all_flags(parts)
    winners = order.positions[order.starts]
    sources = winners.copy()
    results = np.zeros(len(winners), np.uint8) if flags is None else flags[winners]
    if len(winners) < len(order.positions):
        repeated, keys = _repeated(order)
        at, starts = order.positions[repeated], order.starts[repeated]
        part_numbers = _part_numbers(parts)[at]
        lacked = {name for part in parts for name in part.lacks}
        versions = Repeated(
            at,
            starts,
            np.zeros(len(at), np.uint8) if flags is None else flags[at],
            {name: _lacking(parts, name)[part_numbers] for name in lacked},
        )
        merged, results[keys] = merge_rounds(table, versions, merger)
        winners[keys] = at[np.append(starts[1:], True)]
        sources[keys] = table.num_rows + np.arange(len(keys))
        parts = [*parts, Part(merged)]
    survivors = Survivors(winners, [table.column_names], sources[np.newaxis], results)
    return parts, survivors


def _take(
    table: pa.Table, survivors: Survivors, rule: MergeRule, *, keep_deletes: bool
) -> pa.RecordBatch:
    winners, sources, flags = survivors.winners, survivors.sources, survivors.flags
    deleted = None if flags is None else flags & DELETED != 0
    if deleted is not None and not keep_deletes:
        winners, sources, deleted = winners[~deleted], sources[:, ~deleted], None
    columns: dict[str, pa.Array] = {}
    for names, rows in zip(survivors.classes, sources, strict=True):
        columns |= _columns(table, names, rows if deleted is None else np.where(deleted, -1, rows))
        kept = [name for name in names if name == COMMIT_TIME or name in rule.ordering_fields]
        if deleted is not None and kept:
            columns |= _columns(table, kept, np.where(deleted, winners, rows))
    if deleted is not None:
        columns |= _columns(table, [rule.key], winners)
    batch = pa.RecordBatch.from_arrays(
        [columns[name] for name in table.column_names], schema=table.schema
    )
    return with_flags(batch, flags) if keep_deletes else batch


def _columns(table: pa.Table, names: Sequence[str], rows: Ints) -> dict[str, pa.Array]:
    picked = table.select(names)
    if _are_consecutive(rows):
        # Such as the columns of a base file that no log on top of it has.
        batch = _one_batch(picked.slice(int(rows[0]), len(rows)))
    else:
        nulls = rows < 0
        batch = _one_batch(picked.take(int64_array(rows, nulls if nulls.any() else None)))
    return dict(zip(names, batch.columns, strict=True))


def _are_consecutive(rows: Ints) -> bool:
    if not len(rows) or rows[0] < 0 or rows[-1] - rows[0] != len(rows) - 1:
        return False
    return bool((np.diff(rows) == 1).all())


def _one_batch(table: pa.Table) -> pa.RecordBatch:
    columns = [
        column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
        for column in table.columns
    ]
    return pa.RecordBatch.from_arrays(columns, schema=table.schema)


def _repeated(order: Order) -> tuple[npt.NDArray[np.bool_], Ints]:
    """Return a mask of the rows of keys with several versions, and the numbers of these keys."""
    single = order.starts & np.append(order.starts[1:], True)
    numbers = np.cumsum(order.starts) - 1
    return ~single, numbers[order.starts & ~single]


@dataclass(frozen=True, slots=True)
class _Columns:
    """Classes of columns that the same parts have, and the part of each version.

    `presence` is 1 where a part has a class. If values may yield to others, every version is a
    separate part.
    """

    classes: Sequence[Sequence[str]]
    parts: Ints
    presence: Bytes
    yields: Bytes

    @property
    def is_plain(self) -> bool:
        return bool(self.presence.all()) and not self.yields.any()


def _columns_of(parts: Sequence[Part], rows: Ints, rule: MergeRule) -> _Columns:
    numbers = _part_numbers(parts)[rows]
    yields = np.array([part.yields for part in parts], np.uint8)
    lacked = sorted({name for part in parts for name in part.lacks})
    names = parts[0].rows.schema.names
    if rule.fill is not None:
        if lacked:
            raise UnsupportedError(
                f"a run without the column {lacked[0]!r} is a partial update, in a table whose "
                "merge fills columns (hoodie.table.partial.update.mode): this combination "
                "is not supported; write every column"
            )
        classes, presence = fill_classes(_table(parts), rows, rule.fill)
        return _Columns(classes, np.arange(len(rows)), presence, yields[numbers])
    if not lacked:
        return _Columns([names], numbers, np.ones((1, len(parts)), np.uint8), yields)
    grouped: dict[tuple[bool, ...], list[str]] = {}
    for name in names:
        grouped.setdefault(tuple(name not in part.lacks for part in parts), []).append(name)
    return _Columns(list(grouped.values()), numbers, np.array(list(grouped), np.uint8), yields)


def _ranks(parts: Sequence[Part], rows: Ints, rule: MergeRule) -> Ints:
    picked = _table(parts).select(list(rule.ordering_fields))
    columns = _one_batch(picked.take(int64_array(rows))).columns if rule.ordering_fields else []
    return ordering_ranks(columns, len(rows))


def _table(parts: Sequence[Part]) -> pa.Table:
    return pa.Table.from_batches([part.rows for part in parts])


def _part_numbers(parts: Sequence[Part]) -> Ints:
    """Return the number of the part that each row belongs to."""
    return np.repeat(np.arange(len(parts)), [part.rows.num_rows for part in parts])


def _lacking(parts: Sequence[Part], name: str) -> npt.NDArray[np.bool_]:
    return np.array([name in part.lacks for part in parts], np.bool_)


def _all_flags(parts: Sequence[Part]) -> Bytes | None:
    if all(part.flags is None for part in parts):
        return None
    return np.concatenate(
        [
            np.zeros(part.rows.num_rows, np.uint8) if part.flags is None else part.flags
            for part in parts
        ]
    )


def _flags(batch: pa.RecordBatch, what: str) -> Bytes | None:
    if FLAGS not in batch.schema.names:
        return None
    column = batch.column(FLAGS)
    if column.type != pa.uint8() or column.null_count:
        raise InvalidError(
            f"{what}: column {FLAGS!r}: expected uint8 without nulls, found {column.type} with "
            f"{column.null_count} nulls"
        )
    flags: Bytes = to_numpy(column, np.uint8)
    return flags if flags.any() else None
