"""Reads the intact part of a damaged table, leaving damaged file slices out of a scan.

The commits show which slices lack a file. Bad bytes are detected only by reading, after the first
rows would have been returned, so every slice is read once to its end beforehand.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from lakebed.errors import DAMAGE_ERRORS
from lakebed.model.executor import Executor, TaskId
from lakebed.scan.scan import Scan
from lakebed.table.files.damage import describe
from lakebed.table.files.file_group import FileSlice, join_path


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A damaged file slice that a scan leaves out, and its problem."""

    slice_: FileSlice
    problem: str

    def __str__(self) -> str:
        group = self.slice_.group
        return f"{join_path(group.partition, group.file_id)} ({self.problem})"


@dataclass(frozen=True, slots=True)
class _Look:
    scan: Scan
    number: int
    slice_: FileSlice


def leave_out_damaged(scan: Scan, executor: Executor) -> tuple[Scan, tuple[LeftOut, ...]]:
    """Return `scan` without the damaged slices, and the slices left out."""
    left = {
        number: "; ".join(map(describe, slice_.damage))
        for number, slice_ in enumerate(scan.slices)
        if slice_.damage
    }
    whole = replace(scan, slices=(), key_filter=None, candidates=None, predicate=None)
    looks = [_Look(whole, n, slice_) for n, slice_ in enumerate(scan.slices) if n not in left]
    looked = executor.run(_look_at, looks, "look for damage")
    left |= {number: problem for number, problem in looked if problem is not None}
    kept = tuple(slice_ for number, slice_ in enumerate(scan.slices) if number not in left)
    out = tuple(LeftOut(scan.slices[number], left[number]) for number in sorted(left))
    return replace(scan, slices=kept), out


def describe_left_out(url: str, left: Sequence[LeftOut]) -> str:
    """Return the warning about the slices that a read left out."""
    slices = "1 damaged file slice" if len(left) == 1 else f"{len(left)} damaged file slices"
    return (
        f"{url}: the read leaves out {slices} with all rows: {'; '.join(map(str, left))}. "
        "verify() says what can be done"
    )


def _look_at(look: _Look, task: TaskId) -> tuple[int, str | None]:
    """Read a slice to its end; return its problem, or None."""
    del task
    try:
        for _ in look.scan.read(look.slice_, look.scan.full_schema.names, None):
            pass
    except DAMAGE_ERRORS as error:
        return look.number, str(error)
    return look.number, None
