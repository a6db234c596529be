"""Finds keys in more than one file group, by merging the keys of many slices.

With buckets the file group is computed from the key, so checking each slice is enough. Otherwise
the keys of a partition, or of the whole table under a global index, are merged as sorted streams.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakebed.errors import LakebedError, UnavailableError, UnsupportedError
from lakebed.format.names.meta_columns import RECORD_KEY
from lakebed.index.holders import HOLDERS_RULE, HOLDERS_SCHEMA, explode_holders
from lakebed.merge.passes import merge_in_passes
from lakebed.merge.run import Run
from lakebed.model.executor import TaskId
from lakebed.services.verify.findings import Code, Finding, Severity
from lakebed.services.verify.slice_checks import Checked
from lakebed.table.files.file_group import FileSlice, join_path
from lakebed.table.read.log_reader import slice_sources
from lakebed.table.read.run_reader import Needs, open_run
from lakebed.table.read.slice_reader import read_slice
from lakebed.table.read.spill import Spills
from lakebed.table.view import TableView


@dataclass(frozen=True, slots=True)
class HoldersCheck:
    """Slices that must have no key in common; pickled to workers."""

    view: TableView
    slices: tuple[FileSlice, ...]
    where: str

    @property
    def cost_bytes(self) -> int:
        """Return the estimated cost of this task, in bytes."""
        return sum(slice_.cost_bytes for slice_ in self.slices)


def check_holders(check: HoldersCheck, task: TaskId) -> Checked:
    """Find keys that are live in more than one of the slices."""
    del task
    try:
        return _check(check)
    except UnavailableError:
        raise
    except LakebedError as error:
        # The slice's own check reports which file it is.
        kind = Code.FILE_UNREADABLE
        if isinstance(error, UnsupportedError):
            kind = Code.FILE_UNSUPPORTED
        message = f"keys of {check.where} were not compared between file groups: {error}"
        return Checked((Finding(Severity.NOTE, kind, message, path=check.where),))


def _check(check: HoldersCheck) -> Checked:
    times, keys = 0, 0
    first: tuple[str, list[FileSlice]] | None = None
    with Spills() as spills:
        runs = [_run(check, slice_, number) for number, slice_ in enumerate(check.slices)]
        for batch in merge_in_passes(runs, HOLDERS_RULE, HOLDERS_SCHEMA, spills.spill):
            keys += batch.num_rows
            rows, places = explode_holders(batch.column(HOLDERS_SCHEMA.names[1]))
            several = np.flatnonzero(np.bincount(rows, minlength=batch.num_rows) > 1)
            times += int(several.size)
            if several.size and first is None:
                row = int(several[0])
                held = [check.slices[int(at)] for at in places[rows == row]]
                first = batch.column(RECORD_KEY)[row].as_py(), held
    counts = {"cross-checked key": keys}
    if first is None:
        return Checked((), counts)
    key, held = first
    ids = " and ".join(join_path(s.group.partition, s.group.file_id) for s in held[:3])
    finding = Finding(
        Severity.WARNING,
        Code.KEY_IN_SEVERAL_GROUPS,
        f"{check.where}: {times} keys are in more than one file group, the first is {key!r} in "
        f"{ids}; a read returns each of these rows",
        path=check.where,
        key=key,
        advice="an insert does not look keys up, so it can add such rows. An upsert of the key "
        "changes all of them, a delete removes all: delete the key and write it again to have one",
    )
    return Checked((finding,), counts)


def _run(check: HoldersCheck, slice_: FileSlice, number: int) -> Run:
    def batches() -> Iterator[pa.RecordBatch]:
        place = pa.scalar(str(number))
        for keys in _sorted_keys(check, slice_):
            columns = [keys, pa.repeat(place, len(keys))]
            yield pa.RecordBatch.from_arrays(columns, schema=HOLDERS_SCHEMA)

    return Run(f"file group {slice_.group.file_id}", batches())


def _sorted_keys(check: HoldersCheck, slice_: FileSlice) -> Iterator[pa.StringArray]:
    view = check.view
    sources = slice_sources(view, slice_)
    if all(source.is_base for source in sources):
        # Another writer's base file may be unsorted; if it is opened as a run, it is sorted.
        for source in sources:
            needs = Needs((), buffer_bytes=view.buffer_bytes)
            for batch in open_run(view.storage, source, needs).batches:
                yield batch.column(RECORD_KEY)
        return
    for batch in read_slice(view, slice_, [RECORD_KEY], sources=sources):
        yield batch.column(RECORD_KEY)
