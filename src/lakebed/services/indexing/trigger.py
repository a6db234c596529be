"""Decides when a secondary index is compacted, and how: pure functions of its manifest.

Looking up a changed key takes as long as scanning some 40 rows, and a scan of the table reads every
row, so both are put off until they are worth it: a stale entry costs a query one superfluous
candidate. Many runs cost every query. So runs of small commits are merged often, which costs little,
and rows are looked up when stale entries have become many.
"""

from collections.abc import Iterable
from enum import Enum, auto
from typing import Final

from lakebed.index.secondary.manifest import CommitRuns, Manifest, MergedRuns
from lakebed.model.instant import Instant
from lakebed.model.options.services import IndexOptions

FEW_KEYS: Final = 10_000
"""Up to this many changed keys are always looked up: queries for more candidates scan instead."""

# A run with a greater share of the rows is not merged: writing it again costs more than opening it.
_SMALL_SHARE: Final = 1 / 32
# Few changed keys are looked up at this share of the rows.
_FEW_SHARE: Final = 0.2
# Looking up the keys of commits with up to this many rows takes less time than the commits took.
_SMALL_COMMIT: Final = 200


class Due(Enum):
    """What a compaction of an index has to do."""

    NOTHING = auto()
    MERGE = auto()
    """Merge the runs of commits."""
    SETTLE = auto()
    """Replace the entries of changed rows with their current ones."""


def what_is_due(manifest: Manifest, options: IndexOptions) -> Due:
    """Return what is due: rows may not be covered, entries open or stale, or runs too many."""
    unsettled = manifest.unsettled
    settled = sum(run.entries for run in (*manifest.base, *manifest.delta.entries))
    still_open = sum(run.entries for of in unsettled for run in of.open)
    if manifest.whole or still_open > max(FEW_KEYS // 100, options.open_ratio * settled):
        return Due.SETTLE
    runs = _count_runs(unsettled)
    sizes = [count_entries(of) for of in unsettled]
    changed, rows = sum(sizes), settled
    if sizes and max(sizes) > settled:
        # Most rows are new: those of the largest commit replaced few.
        changed, rows = changed - max(sizes), max(sizes)
    if changed <= FEW_KEYS:
        often = runs > options.max_runs or bool(manifest.merged)
        if often and changed > _FEW_SHARE * rows:
            return Due.SETTLE
    else:
        commits = len(manifest.commits) + sum(len(one.commits) for one in manifest.merged)
        if changed > options.changed_ratio * rows or changed <= _SMALL_COMMIT * commits:
            return Due.SETTLE
    small = [of for of, size in zip(unsettled, sizes, strict=True) if size <= _small(manifest)]
    return Due.MERGE if _count_runs(small) > options.max_runs else Due.NOTHING


def choose_runs(manifest: Manifest, max_runs: int) -> tuple[list[Instant], list[MergedRuns]]:
    """Return the commits, and the runs merged before, whose runs are to be merged.

    Larger runs are merged only with at least as many entries as they have, so each entry is written
    again only a few times, however many commits there are.
    """
    small = _small(manifest)
    held: list[Instant | MergedRuns] = [*manifest.commits, *manifest.merged]
    sizes = {one: count_entries(_runs(manifest, one)) for one in held}
    kept = sorted((one for one in held if sizes[one] <= small), key=sizes.__getitem__)
    chosen: list[Instant | MergedRuns] = []
    total = 0
    while kept and (len(kept) > max_runs // 2 or sizes[kept[0]] <= total):
        total += sizes[kept[0]]
        chosen.append(kept.pop(0))
    return (
        [one for one in chosen if not isinstance(one, MergedRuns)],
        [one for one in chosen if isinstance(one, MergedRuns)],
    )


def count_entries(runs: CommitRuns) -> int:
    """Return the number of entries of all kinds."""
    return sum(run.entries for run in runs.files)


def _runs(manifest: Manifest, one: Instant | MergedRuns) -> CommitRuns:
    return one.runs if isinstance(one, MergedRuns) else manifest.commits[one]


def _small(manifest: Manifest) -> float:
    """Return the maximum size of runs that are merged."""
    rows = sum(run.entries for run in manifest.base)
    return max(FEW_KEYS // 10, _SMALL_SHARE * rows)


def _count_runs(held: Iterable[CommitRuns]) -> int:
    """Return how many runs a query opens."""
    return sum(len(of.entries) + len(of.open) for of in held)
