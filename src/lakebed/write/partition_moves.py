"""Where a global index sends each row, and the delete that a moved row leaves behind.

A row whose partition has changed is deleted where it was and inserted where it belongs (Hudi's
`hoodie.simple.index.update.partition.path`, on by default). The existing row is read first if its
ordering value matters or a partial update builds on it. It is also read if a base file may still
hold a key that a log has deleted: only one of several locations is live. Such rows wait for
`settle_moves`, grouped by file group; rows with several file groups wait together.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import UnsupportedError
from lakebed.format.names.meta_columns import RECORD_KEY
from lakebed.index.holders import HOLDERS, HOLDERS_RULE, HOLDERS_SCHEMA, explode_holders
from lakebed.index.kinds import strategy_of
from lakebed.index.strategy import Numbers
from lakebed.merge.passes import merge_in_passes
from lakebed.merge.rule import MergeRule
from lakebed.merge.run import COMMIT_TIME_DELETE, DELETED, FLAGS, Run
from lakebed.merge.window import merge_runs
from lakebed.model.executor import Executor, TaskId
from lakebed.model.packing import cost_of
from lakebed.table.config.partitions import partition_column
from lakebed.table.config.table_config import TableType
from lakebed.table.files.file_group import FileSlice
from lakebed.table.read.slice_reader import read_slice
from lakebed.write.rows import RoutedRows
from lakebed.write.spec.write_spec import WriteSpec
from lakebed.write.staging import LogPolicy, Segment, read_segment, spiller, stage_routed

Mask = npt.NDArray[np.bool_]

# The locations where a key is live now.
_ALIVE = "_lakebed_alive"
_KEY = pa.field(RECORD_KEY, pa.string())
_PLACES = pa.field(HOLDERS, pa.string())


@dataclass(frozen=True, slots=True)
class _Routes:
    """Rows by number, and the partition and file id that each goes to, or waits for.

    `flag` replaces the flags of the rows, if set.
    """

    at: Numbers
    partitions: pa.Array
    ids: pa.Array
    wait: bool = False
    flag: int | None = None

    def where(self, mask: Mask) -> "_Routes":
        chosen = pa.array(mask)
        partitions, ids = self.partitions.filter(chosen), self.ids.filter(chosen)
        return replace(self, at=self.at[mask], partitions=partitions, ids=ids)


class _Places:
    """Every location of every row of a batch: its partition, and whether that is the row's own."""

    def __init__(self, places: pa.Array, homes: pa.Array, slices: Sequence[FileSlice]) -> None:
        self.at, numbers = explode_holders(places)
        self.homes = homes.take(pa.array(self.at))
        self.partitions, self.ids = groups_at(slices, numbers)
        self.found: Mask = numbers >= 0
        same = pc.fill_null(pc.equal(self.homes, self.partitions), False)
        self.at_home: Mask = self.found & same.to_numpy(zero_copy_only=False)
        self.counts = np.bincount(self.at[self.found], minlength=len(places))

    def rows_with(self, mask: Mask) -> Mask:
        """Return a mask of the locations whose row has any location in `mask`."""
        rows = np.zeros(self.counts.size, dtype=bool)
        rows[self.at[mask]] = True
        return rows[self.at]

    def firsts(self, mask: Mask) -> Mask:
        """Return a mask of the first location in `mask` of each row."""
        chosen = np.flatnonzero(mask)
        firsts = np.zeros_like(mask)
        firsts[chosen[np.unique(self.at[chosen], return_index=True)[1]]] = True
        return firsts

    def there(self, mask: Mask, flag: int | None = None) -> _Routes:
        """Route rows to the file groups of the locations in `mask`."""
        return _Routes(self.at, self.partitions, self.ids, flag=flag).where(mask)

    def home(self, mask: Mask) -> _Routes:
        """Route rows to their own partitions, as new rows."""
        return _Routes(self.at, self.homes, pa.nulls(self.at.size, pa.string())).where(mask)


def groups_at(
    slices: Sequence[FileSlice], numbers: Numbers
) -> tuple[pa.StringArray, pa.StringArray]:
    """Return partition and file id of the slice with each number, null for -1.

    The cost does not depend on the number of slices: a batch has rows of only a few slices.
    """
    coded = pa.array(numbers, mask=numbers < 0).dictionary_encode()
    groups = [slices[number].group for number in coded.dictionary.to_pylist()]
    partitions = pa.array([group.partition for group in groups], pa.string())
    ids = pa.array([group.file_id for group in groups], pa.string())
    return partitions.take(coded.indices), ids.take(coded.indices)


def route_globally(
    rows: pa.RecordBatch, spec: WriteSpec, slices: Sequence[FileSlice]
) -> RoutedRows:
    """Route each row to its partition and file group; a row that moves leaves a delete behind.

    `rows` carry flags and HOLDERS. A delete goes to every file group that holds its key.
    """
    gone_rows = rows.column(FLAGS).to_numpy() & DELETED != 0
    places = _Places(rows.column(HOLDERS), _homes(rows, gone_rows, spec), slices)
    found, gone = places.found, gone_rows[places.at]
    if not strategy_of(spec.index).moves_rows(spec.config):
        return _placed(rows, [places.there(found), places.home(~found & ~gone)])
    moves = found & ~gone & ~places.at_home
    stays = found & ~moves
    later = _needs_rows(spec, places) & ~gone & found
    _refuse_merger(spec, rows, places.at[moves])
    homeless = moves & ~places.rows_with(stays)
    several = places.counts[places.at] > 1
    waiting = _Routes(places.at, places.partitions, places.ids, wait=True)
    nowhere = pa.repeat(pa.scalar(""), places.at.size), pa.nulls(places.at.size, pa.string())
    joint = _Routes(places.at, *nowhere, wait=True)
    return _placed(
        rows,
        [
            places.there(stays & ~later),
            places.home((~found & ~gone) | (places.firsts(homeless) & ~later)),
            places.there(moves & ~later, COMMIT_TIME_DELETE),
            waiting.where(later & ~several),
            joint.where(places.firsts(later & several)),
        ],
    )


def _needs_rows(spec: WriteSpec, places: _Places) -> Mask:
    """Return a mask of the locations whose existing rows must be read first.

    If a key has several locations on a merge-on-read table, logs may have deleted it in some.
    """
    if not spec.rule.is_associative:
        return np.zeros_like(places.found)
    asked = bool(spec.rule.ordering_fields) or spec.is_partial
    on_read = spec.config.table_type is TableType.MERGE_ON_READ
    several = (places.counts[places.at] > 1) & (asked or on_read)
    mask: Mask = several | (~places.at_home & asked)
    return mask


def _homes(rows: pa.RecordBatch, gone: Mask, spec: WriteSpec) -> pa.StringArray:
    """Return the partition of each row; a delete has none, as it may lack the columns."""
    if gone.all():
        return pa.nulls(rows.num_rows, pa.string())
    paths = partition_column(rows.filter(pa.array(~gone)), spec.config)
    return paths.take(pa.array(np.cumsum(~gone) - 1, mask=gone))


def _refuse_merger(spec: WriteSpec, rows: pa.RecordBatch, moving: Numbers) -> None:
    if moving.size and not spec.rule.is_associative:
        key = rows.column(RECORD_KEY)[int(moving[0])].as_py()
        raise UnsupportedError(
            f"key {key!r} changes its partition, which is not supported with a custom merger, or one "
            "that fills columns; create the table with "
            "hoodie.simple.index.update.partition.path=false"
        )


def _placed(rows: pa.RecordBatch, parts: Sequence[_Routes]) -> RoutedRows:
    """Return the rows of all routes as one batch with their destinations."""
    held = rows.column(FLAGS).to_numpy()
    flags = [
        held[part.at] if part.flag is None else np.full(part.at.size, part.flag, dtype=np.uint8)
        for part in parts
    ]
    taken = rows.take(pa.array(np.concatenate([part.at for part in parts])))
    position = taken.schema.get_field_index(FLAGS)
    field = taken.schema.field(position)
    return RoutedRows(
        taken.set_column(position, field, pa.array(np.concatenate(flags))),
        pa.concat_arrays([part.partitions for part in parts]),
        pa.concat_arrays([part.ids for part in parts]),
        pa.array(np.concatenate([np.full(part.at.size, part.wait) for part in parts])),
    )


@dataclass(frozen=True, slots=True)
class Move:
    """Rows that wait until the existing rows of their keys have been read.

    `slices` are all file slices that may hold the keys; `read_bytes` estimates the size of the
    slices that do.
    """

    spec: WriteSpec
    slices: tuple[FileSlice, ...]
    segments: tuple[Segment, ...]
    read_bytes: int = 0

    @property
    def cost_bytes(self) -> int:
        """Return the estimated cost of this task, in bytes."""
        return sum(map(cost_of, self.segments)) + self.read_bytes


def settle_moves(
    segments: Iterable[Segment],
    slices: Sequence[FileSlice],
    spec: WriteSpec,
    executor: Executor,
) -> list[Segment]:
    """Read the existing rows of waiting keys, and route the waiting rows.

    Locations are numbers of `slices`. An existing row with the greater ordering value stays: the
    incoming row is late.
    """
    settled: list[Segment] = []
    waiting: dict[tuple[str, str | None], list[Segment]] = defaultdict(list)
    for segment in segments:
        if segment.wait:
            waiting[segment.partition, segment.file_id].append(segment)
        else:
            settled.append(segment)
    places = tuple(slices)
    costs = {(s.group.partition, s.group.file_id): cost_of(s) for s in places}
    total = sum(costs.values())
    moves = [
        Move(spec, places, tuple(held), costs.get((partition, file_id or ""), total))
        for (partition, file_id), held in waiting.items()
    ]
    for found in executor.run(_settle, moves, "move rows"):
        settled += found
    return settled


def _settle(move: Move, task: TaskId) -> list[Segment]:
    spec = move.spec
    staged = stage_routed(_settled_rows(move, task), spec, task, LogPolicy(direct=False), "moved")
    return [segment for segment in staged if isinstance(segment, Segment)]


def _settled_rows(move: Move, task: TaskId) -> Iterator[RoutedRows]:
    spec = move.spec
    fields = [_nullable(field) for field in spec.view.schema]
    schema = pa.schema([_KEY, *fields, _PLACES, pa.field(_ALIVE, pa.string())])
    runs = [Run("existing rows", _rows_there(move)), _rows_that_came(move, task)]
    for batch in merge_runs(runs, spec.rule, schema):
        # Only incoming rows have locations: a row without any is an existing one that won.
        won = batch.filter(pc.is_valid(batch.column(HOLDERS)))
        if won.num_rows:
            yield _route_settled(won, move)


def _route_settled(won: pa.RecordBatch, move: Move) -> RoutedRows:
    """Route each row to its own partition, as an update if it is live there; delete it elsewhere.

    The row is never sent to a file group where it is deleted: a row of a base file below the delete
    could reappear.
    """
    rows = _with_flags(won, move.spec)
    homes = partition_column(rows, move.spec.config)
    alive = _Places(won.column(_ALIVE), homes, move.slices)
    new = ~alive.rows_with(alive.at_home)
    return _placed(
        rows,
        [
            alive.there(alive.at_home),
            alive.home(alive.firsts(new)),
            alive.there(alive.found & ~alive.at_home, COMMIT_TIME_DELETE),
        ],
    )


def _rows_there(move: Move) -> Iterator[pa.RecordBatch]:
    """Yield the current row of each key to move, and the locations where it is live."""
    spec = move.spec
    names = set(spec.rule.ordering_fields)
    wanted = [f for f in spec.view.schema if spec.is_partial or f.name in names]
    fields = [_nullable(field) for field in wanted]
    ordering = [field for field in fields if field.name in names]
    schema = pa.schema([_KEY, *fields])
    numbers = _numbers(move)
    rows = [Run("rows", _live(move, number, fields)) for number in numbers]
    keys = [Run("keys", _with_place(_live(move, number, ordering), number)) for number in numbers]
    alive = Run("places", map(_as_alive, merge_runs(keys, HOLDERS_RULE, HOLDERS_SCHEMA)))
    current = Run("rows", merge_runs(rows, spec.rule, schema), partial=True)
    both = schema.append(pa.field(_ALIVE, pa.string()))
    return merge_runs([alive, current], MergeRule(), both)


def _numbers(move: Move) -> list[int]:
    """Return the locations of the waiting rows, which are a small part of all locations."""
    found: set[int] = set()
    for segment in move.segments:
        for batch in read_segment(move.spec.storage, segment):
            found.update(np.unique(explode_holders(batch.column(HOLDERS))[1]).tolist())
    return sorted(found - {-1})


def _live(move: Move, number: int, fields: Sequence[pa.Field]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file slice in key order, as a reader sees them."""
    spec = move.spec
    schema = pa.schema([_KEY, *fields])
    for batch in read_slice(spec.view, move.slices[number], schema.names, by_key=True):
        yield pa.RecordBatch.from_arrays(batch.columns, schema=schema)


def _with_place(batches: Iterable[pa.RecordBatch], number: int) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        place = pa.repeat(pa.scalar(str(number)), batch.num_rows)
        columns = [batch.column(RECORD_KEY), place]
        yield pa.RecordBatch.from_arrays(columns, schema=HOLDERS_SCHEMA)


def _as_alive(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.rename_columns([RECORD_KEY, _ALIVE])


def _rows_that_came(move: Move, task: TaskId) -> Run:
    spec = move.spec
    spill = spiller(move.segments[0], spec, f"move-{task.write_token}")
    staged = [Run(s.path, read_segment(spec.storage, s)) for s in move.segments]
    schema = pa.schema([_KEY, *(_nullable(field) for field in spec.schema), _PLACES])
    # Incoming rows are always partial: they do not say where keys are live.
    return Run("incoming rows", merge_in_passes(staged, spec.rule, schema, spill), partial=True)


def _nullable(field: pa.Field) -> pa.Field:
    return field.with_nullable(True)


def _with_flags(rows: pa.RecordBatch, spec: WriteSpec) -> pa.RecordBatch:
    flags = pa.array(np.zeros(rows.num_rows, dtype=np.uint8))
    names = spec.view.schema.names
    columns = [rows.column(RECORD_KEY), flags, *map(rows.column, names), rows.column(HOLDERS)]
    fields = [_KEY, pa.field(FLAGS, pa.uint8()), *spec.view.schema, _PLACES]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))
