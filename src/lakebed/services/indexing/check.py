"""Compares an index with the rows of the table, in both directions."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
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
from lakebed.table.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class CheckTask:
    """Slices to check: each row must have an entry in the runs, or be open."""

    part: PartTask
    runs: tuple[RunFile, ...]
    open_runs: tuple[RunFile, ...]

    @property
    def cost_bytes(self) -> int:
        """Return the estimated cost of reading the slices and the runs."""
        return self.part.cost_bytes + sum(run.size_bytes for run in self.runs)


@dataclass(frozen=True, slots=True)
class IndexCheck:
    """How many rows an index lacks, the key of one of them, and how many entries are current."""

    missing: int
    example: str
    current: int


def check_index(
    snapshot: Snapshot, index: OpenIndex, executor: Executor, merger: Merger | None = None
) -> IndexCheck:
    """Look for every row in the index, except in file groups that the index does not cover."""
    slices = [s for s in snapshot.slices if s.group not in index.manifest.whole and not s.damage]
    folder = index_folder(snapshot.config, index.definition)
    tasks = [
        CheckTask(part, tuple(index.runs), tuple(index.open_runs))
        for part in plan_parts(snapshot.view(merger), index.definition, folder, slices)
    ]
    found = list(executor.run(check_entries, tasks, f"verify index {index.definition.name}"))
    return IndexCheck(
        sum(one.missing for one in found),
        next((one.example for one in found if one.missing), ""),
        sum(one.current for one in found),
    )


def check_entries(work: CheckTask, task: TaskId) -> IndexCheck:
    """Compare the rows of a few slices with the entries of the index."""
    del task
    missing, example, current = 0, "", 0
    for batches in in_chunks(slice_entries(work.part)):
        entries = sort_entries(batches)
        found = _found(entries.column(ENTRY_KEY), work.part, work.runs)
        current += int(found.sum())
        left = entries.filter(pa.array(~found))
        left = _without_open(left, work)
        missing += left.num_rows
        if left.num_rows and not example:
            example = f"{left.column(PARTITION_PATH)[0]}:{left.column(RECORD_KEY)[0]}"
    return IndexCheck(missing, example, current)


def _found(keys: pa.Array, part: PartTask, runs: Sequence[RunFile]) -> np.ndarray:
    """Return a mask of the sorted `keys` that one of the runs holds."""
    found = np.zeros(len(keys), dtype=np.bool_)
    places = range(len(keys))
    for run in runs:
        for batch in find_entries(part.view.storage, run.path, [EVERYTHING]):
            held = batch.column(ENTRY_KEY)
            low, high = held[0].as_py(), held[len(held) - 1].as_py()
            start = bisect_left(places, low, key=lambda at: keys[at].as_py())
            end = bisect_right(places, high, key=lambda at: keys[at].as_py())
            among = pc.is_in(keys.slice(start, end - start), value_set=held)
            found[start:end] |= among.to_numpy(zero_copy_only=False)
    return found


def _without_open(entries: pa.RecordBatch, work: CheckTask) -> pa.RecordBatch:
    """Leave out the entries of open keys, which are candidates of every query."""
    for run in work.open_runs:
        for batch in find_entries(work.part.view.storage, run.path, [EVERYTHING]):
            if entries.num_rows:
                known = pc.is_in(row_keys(entries), value_set=row_keys(batch))
                entries = entries.filter(pc.invert(known))
    return entries
