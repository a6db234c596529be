"""Finds keys that the base files of column groups lack, by merging sorted streams of keys.

Readers rely on a base file to have every key that any column group held when its instant began, or
a tombstone of it (`table/files/group_keys.py`): a read of its group alone misses all other keys.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import LakebedError, UnavailableError
from lakebed.format.names.meta_columns import RECORD_KEY
from lakebed.merge.rule import MergeRule
from lakebed.merge.run import Run
from lakebed.merge.window import merge_runs
from lakebed.model.executor import TaskId
from lakebed.services.verify.findings import Code, Finding, Mend, Severity
from lakebed.services.verify.slice_checks import Checked
from lakebed.table.files.file_group import BaseFile, FileSlice
from lakebed.table.read.log_reader import slice_sources
from lakebed.table.read.run_reader import KEY_FIELD, Needs, open_run
from lakebed.table.read.slice_reader import read_slice
from lakebed.table.snapshot import LATEST
from lakebed.table.view import TableView

CompletionOf = Callable[[str], str]

# True for a key that the base file, or a tombstone beside it, holds.
_HELD = pa.field("_lakebed_held", pa.bool_())
_SCHEMA = pa.schema([KEY_FIELD, _HELD])


@dataclass(frozen=True, slots=True)
class GroupKeysCheck:
    """A base file, its tombstones, and the other column groups as of its instant.

    Pickled to workers; `view` is that of the whole table.
    """

    view: TableView
    base_file: BaseFile
    own: FileSlice
    others: tuple[FileSlice, ...]

    @property
    def cost_bytes(self) -> int:
        """Return the estimated cost of this task, in bytes."""
        return sum(slice_.cost_bytes for slice_ in (self.own, *self.others))


def group_keys_checks(
    view: TableView, parts: Mapping[str, FileSlice], completion_of: CompletionOf
) -> Iterator[GroupKeysCheck]:
    """Yield a check for each base file in `parts`, the newest slices of one file group."""
    for name, part in parts.items():
        if (base := part.base_file) is None:
            continue
        rest = [other for group, other in parts.items() if group != name]
        then = [_as_of(other, base.name.instant, completion_of) for other in rest]
        others = tuple(other for other in then if other is not None)
        if others:
            own = replace(part, log_files=(), boundary=None, damage=())
            yield GroupKeysCheck(view, base, own, others)


def _as_of(part: FileSlice, instant: str, completion_of: CompletionOf) -> FileSlice | None:
    """Return the slice of a column group when an instant began; None if empty or unknown.

    It is unknown if a log's completion time is no longer in the archive. It is not needed, so None
    too, if there is a newer base file: readers look for keys there.
    """
    base = part.base_file
    times = {log: completion_of(log.name.instant) for log in part.log_files}
    if LATEST in times.values() or (base is not None and base.name.instant > instant):
        return None
    logs = tuple(log for log, time in times.items() if time <= instant)
    if base is None and not logs:
        return None
    return replace(part, log_files=logs, boundary=None, damage=())


def check_group_keys(check: GroupKeysCheck, task: TaskId) -> Checked:
    """Find keys of other column groups that a base file lacks."""
    del task
    base = check.base_file
    try:
        times, first = lacking_keys(check)
    except UnavailableError:
        raise
    except LakebedError as error:
        # The slice's own check reports which file it is.
        message = f"{base.path}: its keys were not compared with other column groups: {error}"
        return Checked((Finding(Severity.NOTE, Code.FILE_UNREADABLE, message, path=base.path),))
    counts = {"compared base file": 1}
    if not times:
        return Checked((), counts)
    finding = Finding(
        Severity.ERROR,
        Code.GROUP_KEYS,
        f"base file {base.path!r}: it lacks {times} keys that other column groups held when its "
        f"instant began, the first is {first!r}; reads of this column group alone miss these rows",
        path=base.path,
        instant=base.name.instant,
        key=first,
        mend=Mend.COMPLETE_KEYS,
        advice="lakebed repair --drop-lost reads all keys and rewrites the base file with them; "
        "no row is lost",
    )
    return Checked((finding,), counts)


def lacking_keys(check: GroupKeysCheck) -> tuple[int, str | None]:
    """Return how many keys the base file lacks, and the first of them."""
    own = check.view.of_group(check.own.group.column_group)
    needs = Needs((), buffer_bytes=own.buffer_bytes)
    opened = [open_run(own.storage, source, needs) for source in slice_sources(own, check.own)]
    runs = [replace(run, batches=_held(run), partial=True, repeats=False) for run in opened]
    for other in check.others:
        name = other.group.column_group
        keys = read_slice(check.view.of_group(name), other, [RECORD_KEY], by_key=True)
        runs.append(Run(f"column group {name or 'default'!r}", keys, partial=True))
    times, first = 0, None
    for batch in merge_runs(runs, MergeRule(), _SCHEMA):
        lacking = batch.filter(pc.is_null(batch.column(_HELD.name))).column(RECORD_KEY)
        if len(lacking) and first is None:
            first = lacking[0].as_py()
        times += len(lacking)
    return times, first


def _held(run: Run) -> Iterator[pa.RecordBatch]:
    for batch in run.batches:
        held = pa.repeat(pa.scalar(value=True), batch.num_rows)
        yield pa.RecordBatch.from_arrays([batch.column(RECORD_KEY), held], schema=_SCHEMA)
