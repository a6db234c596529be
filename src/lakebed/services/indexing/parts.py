"""The tasks that build an index: they turn rows into sorted parts, and parts into base runs.

A part holds the entries of a few slices. Its name is derived from the files of those slices, so an
interrupted build, when resumed, finds the parts that it has already written. Each base run holds a
range of keys. Ranges are split only between different values, so all entries of a value are in one
run.

In Hudi's layout the current row is not enough, because a hidden version may win later. Logs are
merged with each other before they are merged with the base file, so a row of the base file gets an
entry too. While a compaction is pending, logs that were written since will be merged with the new
base file alone, so each of their versions gets an entry. A version that loses supplies the columns
that a partial version lacks, so with several columns the keys of partial versions are open until
the table is compacted.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain, pairwise
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import NotFoundError
from lakebed.format.index.ordered_bytes import leading_values
from lakebed.format.names.meta_columns import PARTITION_PATH, RECORD_KEY
from lakebed.index.secondary.definition import IndexDefinition
from lakebed.index.secondary.entries import (
    ENTRY_KEY,
    ENTRY_SCHEMA,
    find_entries,
    make_entries,
    make_keys,
    read_row_group_keys,
    row_keys,
    sort_entries,
    write_entries,
)
from lakebed.index.secondary.manifest import CommitRuns, RunFile
from lakebed.merge.passes import merge_in_passes
from lakebed.merge.rule import MergeRule
from lakebed.merge.run import Run
from lakebed.merge.window import gather
from lakebed.model.executor import Executor, TaskId
from lakebed.storage.storage import Storage
from lakebed.table.files.file_group import FileSlice
from lakebed.table.read.group_reader import merge_needs
from lakebed.table.read.key_filter import KeyFilter, Range
from lakebed.table.read.log_reader import slice_sources
from lakebed.table.read.projection import project, shape
from lakebed.table.read.run_reader import read_run
from lakebed.table.read.run_source import RunKind
from lakebed.table.read.slice_reader import read_slice
from lakebed.table.view import TableView
from lakebed.write.index_runs import split_deletes

_PART_BYTES: Final = 64 << 20
_MIN_SLICES_BYTES: Final = 4 << 20
_TASKS: Final = 16
_BASE_ENTRIES: Final = 1_000_000
EVERYTHING: Final[Range] = (b"", None)
OPEN_KINDS: Final = (pa.string(), pa.string())
"""The types of the values by which open entries are sorted: partition and record key."""

_ALL: Final = (EVERYTHING,)
_RULE: Final = MergeRule(key=ENTRY_KEY)


@dataclass(frozen=True, slots=True)
class PartTask:
    """Slices whose entries are written as parts; `keys` limits them to some keys of each slice."""

    view: TableView
    definition: IndexDefinition
    folder: str
    slices: tuple[FileSlice, ...]
    keys: tuple[tuple[str, ...], ...] | None = None

    @property
    def cost_bytes(self) -> int:
        """Return the estimated cost of reading the slices."""
        return sum(slice_.cost_bytes for slice_ in self.slices)

    @property
    def names(self) -> list[str]:
        """Return the columns to read: the record key and the indexed columns."""
        tops = dict.fromkeys(_top(name, self.view) for name in self.definition.columns)
        return [RECORD_KEY, *tops]

    @property
    def filtered(self) -> Iterator[tuple[FileSlice, KeyFilter | None]]:
        """Yield each slice with the filter of its keys."""
        for number, slice_ in enumerate(self.slices):
            yield slice_, None if self.keys is None else KeyFilter.of(keys=self.keys[number])

    def merges_logs_first(self, slice_: FileSlice) -> bool:
        """Return whether the logs of a slice are merged before its base file, as Hudi does."""
        return bool(slice_.log_files) and self.view.rule.logs_first

    @property
    def keeps_hidden(self) -> bool:
        """Return whether the parts may have entries of versions that others hide."""
        return any(map(self.merges_logs_first, self.slices))

    @property
    def name(self) -> str:
        """Return a name that changes if any file of the slices changes."""
        files = [file.path for slice_ in self.slices for file in slice_.files]
        pending = [repr(slice_.boundary) for slice_ in self.slices]
        told = json.dumps([files, pending, self.keys])
        return hashlib.sha256(told.encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class RangeTask:
    """Parts to be merged into one base run, which holds the entries of a range of keys.

    If `stale` is set, its runs are merged in as well, without their stale entries.
    """

    storage: Storage
    parts: tuple[RunFile, ...]
    span: Range
    path: str
    cost_bytes: int
    stale: "Stale | None" = None


@dataclass(frozen=True, slots=True)
class Stale:
    """Older runs, and the keys and partitions whose entries in these runs are stale."""

    runs: tuple[RunFile, ...]
    keys: tuple[RunFile, ...] = ()
    partitions: frozenset[str] = frozenset()

    def current(self, storage: Storage, span: Range) -> list[Run]:
        """Return the runs, each limited to a range and without its stale entries."""
        gone = [row_keys(b) for run in self.keys for b in find_entries(storage, run.path, _ALL)]
        keys = pa.concat_arrays([pa.array([], pa.string()), *gone])
        emptied = pa.array(sorted(self.partitions), pa.string())

        def kept(path: str) -> Iterator[pa.RecordBatch]:
            for batch in gather(find_entries(storage, path, [span])):
                drop = pc.or_(
                    pc.is_in(row_keys(batch), value_set=keys),
                    pc.is_in(batch.column(PARTITION_PATH), value_set=emptied),
                )
                yield batch.filter(pc.invert(drop))

        return [Run(run.path, kept(run.path)) for run in self.runs]


def plan_parts(
    view: TableView, definition: IndexDefinition, folder: str, slices: Sequence[FileSlice]
) -> list[PartTask]:
    """Return the tasks that write the parts of `slices`; small slices share a task."""
    ordered = sorted(slices, key=lambda slice_: slice_.group)
    total = sum(slice_.cost_bytes for slice_ in ordered)
    most = max(_MIN_SLICES_BYTES, min(_PART_BYTES, total // _TASKS))
    tasks: list[PartTask] = []
    held: list[FileSlice] = []
    for slice_ in ordered:
        held.append(slice_)
        if sum(one.cost_bytes for one in held) >= most:
            tasks.append(PartTask(view, definition, folder, tuple(held)))
            held = []
    return [*tasks, PartTask(view, definition, folder, tuple(held))] if held else tasks


def write_parts(work: PartTask, task: TaskId) -> CommitRuns:
    """Write the entries of slices as sorted parts, unless an earlier attempt has written them."""
    storage = work.view.storage
    told = f"{work.folder}/parts/{work.name}.json"
    try:
        return CommitRuns.parse(json.loads(storage.read(told)))
    except NotFoundError:
        pass

    def write(kind: str, entries: Iterable[pa.RecordBatch]) -> Iterator[RunFile]:
        for number, rows in enumerate(in_chunks(entries)):
            path = f"{work.folder}/parts/{work.name}-{task.write_token}-{kind}{number}.parquet"
            yield write_entries(storage, path, [sort_entries(rows)])

    values = chain(slice_entries(work), _hidden_entries(work))
    parts = CommitRuns(tuple(write("", values)), tuple(write("open", _open_keys(work))))
    storage.put(told, json.dumps(asdict(parts)).encode())
    return parts


def merge_range(work: RangeTask, task: TaskId) -> RunFile:
    """Merge the entries of a range of keys into one base run."""
    del task
    merged = merge_entries(work.storage, work.path, work.parts, work.span, work.stale)
    return write_entries(work.storage, work.path, merged)


def merge_parts(
    storage: Storage,
    definition: IndexDefinition,
    kinds: Sequence[pa.DataType],
    parts: Sequence[RunFile],
    prefix: str,
    executor: Executor,
    stale: Stale | None = None,
) -> tuple[RunFile, ...]:
    """Merge parts into base runs whose paths begin with `prefix`, in the order of their keys.

    With `stale`, the current entries of older runs are merged in as well.
    """
    parts = [part for part in parts if part.entries]
    every = [*parts, *(() if stale is None else stale.runs)]
    total = sum(part.entries for part in every)
    size = sum(part.size_bytes for part in every)
    splits: list[bytes] = []
    if (wanted := -(-total // _BASE_ENTRIES)) > 1:
        firsts = sorted(key for part in every for key in read_row_group_keys(storage, part.path))
        step = len(firsts) / wanted
        chosen = {leading_values(firsts[int(n * step)], kinds) for n in range(1, wanted)}
        splits = sorted(chosen - {b""})
    bounds = [b"", *splits, None]
    tasks = [
        RangeTask(
            storage,
            tuple(parts),
            (low or b"", high),
            f"{prefix}-{number:05}.parquet",
            size // (len(splits) + 1),
            stale,
        )
        for number, (low, high) in enumerate(pairwise(bounds))
    ]
    runs = list(executor.run(merge_range, tasks, f"merge index {definition.name}")) if every else []
    return tuple(sorted((run for run in runs if run.entries), key=lambda run: run.path))


def merge_entries(
    storage: Storage,
    path: str,
    parts: Sequence[RunFile],
    span: Range = EVERYTHING,
    stale: Stale | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the entries of sorted parts in a range of keys, each once, in order.

    Temporary runs have paths that begin with `path`.
    """
    runs = [] if stale is None else stale.current(storage, span)
    runs += [Run(part.path, find_entries(storage, part.path, [span])) for part in parts]
    spilled: list[str] = []

    def spill(batches: Iterator[pa.RecordBatch]) -> Run:
        name = f"{path}-pass-{len(spilled)}"
        spilled.append(name)
        write_entries(storage, name, (batch.select(ENTRY_SCHEMA.names) for batch in batches))
        return Run(name, find_entries(storage, name, _ALL))

    try:
        yield from merge_in_passes(runs, _RULE, ENTRY_SCHEMA, spill)
    finally:
        for name in spilled:
            storage.delete(name)


def slice_entries(work: PartTask) -> Iterator[pa.RecordBatch]:
    """Yield the entries of the rows of slices, in no particular order."""
    for slice_, key_filter in work.filtered:
        versions = [slice_]
        if slice_.base_file and work.merges_logs_first(slice_):
            versions.append(replace(slice_, log_files=(), tombstones=(), boundary=None))
        for version in versions:
            for batch in read_slice(work.view, version, work.names, key_filter=key_filter):
                yield make_entries(batch, work.definition.columns, slice_.group.partition)


def _hidden_entries(work: PartTask) -> Iterator[pa.RecordBatch]:
    """Yield the entries of all versions in the logs of slices with a pending compaction."""
    for slice_, key_filter in work.filtered:
        if work.merges_logs_first(slice_) and slice_.boundary is not None:
            for batch, may_mix in _log_rows(work, slice_, key_filter):
                if not may_mix:
                    yield make_entries(batch, work.definition.columns, slice_.group.partition)


def _open_keys(work: PartTask) -> Iterator[pa.RecordBatch]:
    """Yield the keys of rows that may combine indexed columns of several versions."""
    for slice_, key_filter in work.filtered:
        if work.merges_logs_first(slice_) and len(work.definition.columns) > 1:
            for batch, may_mix in _log_rows(work, slice_, key_filter):
                if may_mix:
                    yield make_keys(batch, slice_.group.partition)


def _log_rows(
    work: PartTask, slice_: FileSlice, key_filter: KeyFilter | None
) -> Iterator[tuple[pa.RecordBatch, bool]]:
    """Yield the rows of the logs of a slice, and whether they may be combined with other versions."""
    view = work.view
    # A version that lacks a column has null there if no other version has the column.
    fields = project(view.schema, work.names)
    target = pa.schema([field.with_nullable(True) for field in fields])
    logs = [s for s in slice_sources(view, slice_) if not s.is_base and s.kind is RunKind.DATA]
    rule, needs = merge_needs(view, target, logs, key_filter)
    is_filled = rule.fill is not None and slice_.boundary is not None
    for source in logs:
        may_mix = len(work.definition.columns) > 1 and (source.partial or is_filled)
        for batch in read_run(view.storage, source, needs):
            yield shape(split_deletes(batch)[0], target), may_mix


def in_chunks(batches: Iterable[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    """Yield lists of consecutive batches, each of about _PART_BYTES."""
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        held.append(batch)
        size += batch.nbytes
        if size >= _PART_BYTES:
            yield held
            held, size = [], 0
    if held:
        yield held


def _top(column: str, view: TableView) -> str:
    return column if column in view.schema.names else column.partition(".")[0]
