"""Compares an index with the rows of the table, in both directions.

Tasks read the rows, a few slices at a time, and look for their entries in all runs. They also mark the
entries of the compacted runs that belong to a row, one bit for each, so memory stays bounded. Of
the other entries, those of keys that were written since may be stale, as may those of commits that
are not compacted yet; the rest should not exist.
"""

import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.format.names.meta_columns import PARTITION_PATH, RECORD_KEY
from lakebed.index.secondary.entries import ENTRY_KEY, find_entries, row_keys, sort_entries
from lakebed.index.secondary.manifest import RunFile
from lakebed.index.secondary.open_index import OpenIndex, index_folder
from lakebed.merge.rule import Merger
from lakebed.model.executor import Executor, TaskId
from lakebed.services.indexing.parts import (
    EVERYTHING,
    PartTask,
    in_chunks,
    plan_parts,
    slice_entries,
)
from lakebed.storage.storage import Storage
from lakebed.table.snapshot import Snapshot

_Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class CheckTask:
    """Slices to check: each row must have an entry in the runs, or be open.

    The first `compacted` runs are those whose entries are marked.
    """

    part: PartTask
    runs: tuple[RunFile, ...]
    compacted: int
    open_runs: tuple[RunFile, ...]

    @property
    def cost_bytes(self) -> int:
        """Return the estimated cost of reading the slices and the runs."""
        return self.part.cost_bytes + sum(run.size_bytes for run in self.runs)


@dataclass(frozen=True, slots=True)
class Checked:
    """The result of one task; `marks` has the compressed bits of each compacted run."""

    missing: int
    example: str
    current: int
    marks: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class IndexCheck:
    """The differences between an index and the rows.

    `missing` rows have no entry, `superfluous` entries have no row, although no write explains
    that; `example` and `superfluous_example` are keys of them. `current` entries belong to a row.
    """

    missing: int
    example: str
    current: int
    superfluous: int = 0
    superfluous_example: str = ""


def check_index(
    snapshot: Snapshot, index: OpenIndex, executor: Executor, merger: Merger | None = None
) -> IndexCheck:
    """Compare an index with all rows, except in file groups that the index does not cover."""
    manifest, view = index.manifest, snapshot.view(merger)
    left_out = [s for s in snapshot.slices if s.group in manifest.whole or s.damage]
    gone = {slice_.group for slice_ in left_out}
    slices = [slice_ for slice_ in snapshot.slices if slice_.group not in gone]
    folder = index_folder(snapshot.config, index.definition)
    compacted = (*manifest.base, *manifest.delta.entries)
    tasks = [
        CheckTask(part, tuple(index.runs), len(compacted), tuple(index.open_runs))
        for part in plan_parts(view, index.definition, folder, slices)
    ]
    missing = current = 0
    example = ""
    marks = [np.zeros(run.entries, dtype=np.bool_) for run in compacted]
    for one in executor.run(check_entries, tasks, f"verify index {index.definition.name}"):
        missing, current = missing + one.missing, current + one.current
        example = example or one.example
        for number, packed in enumerate(one.marks):
            marks[number] |= _unpack(packed, len(marks[number]))
    if manifest.keeps_hidden:
        # Nothing tells which of these entries belonged to hidden versions, which a compaction of the
        # table drops: also one that moves the table to a layout that hides none.
        return IndexCheck(missing, example, current)
    partitions = manifest.emptied | {group.partition for group in (*gone, *manifest.whole)}
    since = [run for of in manifest.unsettled for run in of.files]
    superfluous, other = 0, ""
    for number, (run, mark) in enumerate(zip(compacted, marks, strict=True)):
        written = since if number >= len(manifest.base) else [*manifest.delta.files, *since]
        for left in _unexplained(snapshot.storage, run, mark, partitions, written):
            superfluous += left.num_rows
            other = other or _key(left)
    return IndexCheck(missing, example, current, superfluous, other)


def check_entries(work: CheckTask, task: TaskId) -> Checked:
    """Compare the rows of a few slices with the entries of the index."""
    del task
    missing, example, current = 0, "", 0
    marks = [np.zeros(run.entries, dtype=np.bool_) for run in work.runs[: work.compacted]]
    for batches in in_chunks(slice_entries(work.part)):
        entries = sort_entries(batches)
        found = _found(entries.column(ENTRY_KEY), work, marks)
        current += int(found.sum())
        left = entries.filter(pa.array(~found))
        left = _without_open(left, work)
        missing += left.num_rows
        if left.num_rows and not example:
            example = _key(left)
    return Checked(missing, example, current, tuple(map(_pack, marks)))


def _key(entries: pa.RecordBatch) -> str:
    return f"{entries.column(PARTITION_PATH)[0]}:{entries.column(RECORD_KEY)[0]}"


def _pack(mark: _Mask) -> bytes:
    return zlib.compress(np.packbits(mark).tobytes(), 1)


def _unpack(packed: bytes, length: int) -> _Mask:
    bits = np.unpackbits(np.frombuffer(zlib.decompress(packed), dtype=np.uint8), count=length)
    return bits.astype(np.bool_)


def _found(keys: pa.Array, work: CheckTask, marks: Sequence[_Mask]) -> _Mask:
    """Return a mask of the sorted `keys` that one of the runs holds; mark these entries."""
    found = np.zeros(len(keys), dtype=np.bool_)
    places = range(len(keys))
    for number, run in enumerate(work.runs):
        position = 0
        for batch in find_entries(work.part.view.storage, run.path, [EVERYTHING]):
            held = batch.column(ENTRY_KEY)
            low, high = held[0].as_py(), held[len(held) - 1].as_py()
            start = bisect_left(places, low, key=lambda at: keys[at].as_py())
            end = bisect_right(places, high, key=lambda at: keys[at].as_py())
            among = keys.slice(start, end - start)
            found[start:end] |= _is_in(among, held)
            if number < work.compacted:
                marks[number][position : position + len(held)] |= _is_in(held, among)
            position += len(held)
    return found


def _is_in(values: pa.Array, among: pa.Array) -> _Mask:
    mask: _Mask = pc.is_in(values, value_set=among).to_numpy(zero_copy_only=False)
    return mask


def _without_open(entries: pa.RecordBatch, work: CheckTask) -> pa.RecordBatch:
    """Leave out the entries of open keys, which are candidates of every query."""
    return _without_keys(entries, work.part.view.storage, work.open_runs)


def _without_keys(
    entries: pa.RecordBatch, storage: Storage, runs: Sequence[RunFile]
) -> pa.RecordBatch:
    """Leave out the entries whose partition and record key one of the runs has."""
    for run in runs:
        if not entries.num_rows:
            break
        for batch in find_entries(storage, run.path, [EVERYTHING]):
            known = pc.is_in(row_keys(entries), value_set=row_keys(batch))
            entries = entries.filter(pc.invert(known))
    return entries


def _unexplained(
    storage: Storage,
    run: RunFile,
    mark: _Mask,
    partitions: frozenset[str],
    written: Sequence[RunFile],
) -> Iterator[pa.RecordBatch]:
    """Yield the entries that are not marked, in other partitions, of keys that `written` lacks."""
    if mark.all():
        return
    for batches in in_chunks(_unmarked(storage, run, mark, partitions)):
        left = _without_keys(pa.concat_batches(batches), storage, written)
        if left.num_rows:
            yield left


def _unmarked(
    storage: Storage, run: RunFile, mark: _Mask, partitions: frozenset[str]
) -> Iterator[pa.RecordBatch]:
    among, position = pa.array(sorted(partitions), pa.string()), 0
    for batch in find_entries(storage, run.path, [EVERYTHING]):
        rest = ~mark[position : position + batch.num_rows]
        rest &= ~_is_in(batch.column(PARTITION_PATH).cast(pa.string()), among)
        position += batch.num_rows
        if rest.any():
            yield batch.filter(pa.array(rest))
