"""The plain Python twin of the compiled merge, for small merges while numba is not imported.

It shares no code with `merge/kernel.py`; both run the same tests.
"""

from collections.abc import Sequence

from lakebed.merge.run import BARRIER, DELETED, OPEN


class LoserTree:
    """A tournament of sorted runs: run `runner` has the least key, run `losers[n]` lost at node n.

    Run r first plays at node (r + k) // 2; node 1 is the final. A tie goes to the lower run.
    """

    def __init__(self, runs: Sequence[Sequence[bytes]]) -> None:
        self.runs = runs
        self.heads = [0] * len(runs)
        self.losers: list[int | None] = [None] * len(runs)
        self.runner: int | None = None
        for run in range(len(runs)):
            self._play(run)

    def pop(self) -> tuple[int, int]:
        """Return the run with the next key and the row in that run; raise IndexError at the end."""
        run = self.runner
        if run is None or self.heads[run] == len(self.runs[run]):
            raise IndexError("every run is used up")
        row = self.heads[run]
        self.heads[run] += 1
        self._play(run)
        return run, row

    def _play(self, run: int) -> None:
        node = (run + len(self.runs)) // 2
        while node > 0:
            rival = self.losers[node]
            if rival is None:
                # The first run to arrive waits for a rival; the winner of the two continues.
                self.losers[node] = run
                return
            if self._is_before(rival, run):
                self.losers[node], run = run, rival
            node //= 2
        self.runner = run

    def _is_before(self, left: int, right: int) -> bool:
        left_keys, right_keys = self.runs[left], self.runs[right]
        if self.heads[left] == len(left_keys):
            return False
        if self.heads[right] == len(right_keys):
            return True
        return (left_keys[self.heads[left]], left) < (right_keys[self.heads[right]], right)


def order_runs(runs: Sequence[Sequence[bytes]]) -> tuple[list[int], list[bool], int]:
    """Return row numbers across all runs in key order, and whether each starts a new key.

    The last result is -1, or the row of a key that is less than the key before it in its run.
    """
    firsts = [0]
    for keys in runs:
        for row in range(1, len(keys)):
            if keys[row] < keys[row - 1]:
                return [], [], firsts[-1] + row
        firsts.append(firsts[-1] + len(keys))
    tree = LoserTree(runs)
    positions: list[int] = []
    starts: list[bool] = []
    before: bytes | None = None
    for _ in range(firsts[-1]):
        run, row = tree.pop()
        key = runs[run][row]
        positions.append(firsts[run] + row)
        starts.append(key != before)
        before = key
    return positions, starts, -1


class _Version:
    """The result for a key after folding some of its versions."""

    __slots__ = ("flags", "ordering", "row", "sources", "yields")

    def __init__(
        self,
        row: int,
        flags: int,
        ordering: tuple[int, ...],
        has: Sequence[bool],
        *,
        yields: bool = False,
    ) -> None:
        self.yields = yields
        self.row = row
        self.flags = flags
        self.ordering = ordering
        self.sources = [row if there and not flags & DELETED else -1 for there in has]

    def meet(self, new: "_Version", *, loser_gives: bool, open_stays: bool) -> "_Version":
        """Return the result of folding in a newer version."""
        if open_stays and new.flags & DELETED and self.flags & DELETED and self.flags & OPEN:
            new_wins = False
        elif new.yields:
            new_wins = not self.flags & OPEN and new.ordering > self.ordering
        else:
            new_wins = bool(
                new.flags & BARRIER or self.flags & OPEN or new.ordering >= self.ordering
            )
        winner, loser = (new, self) if new_wins else (self, new)
        gives = new_wins or loser_gives
        if gives and not winner.flags & DELETED:
            winner.sources = [
                own if own >= 0 else other
                for own, other in zip(winner.sources, loser.sources, strict=True)
            ]
        winner.flags |= (self.flags | new.flags) & BARRIER
        return winner


def fold_versions(
    rows: Sequence[int],
    starts: Sequence[bool],
    flags: Sequence[int],
    orderings: Sequence[tuple[int, ...]],
    has: Sequence[Sequence[bool]],
    yields: Sequence[bool],
    *,
    loser_gives: bool = False,
    open_stays: bool = False,
) -> tuple[list[int], list[list[int]], list[int]]:
    """Fold the versions of each key, oldest first; return winners, sources by key, and flags.

    `has[i]` lists for each class of columns whether version i has them, and `yields[i]` is whether
    version i comes last and wins only by a greater ordering. `loser_gives` and `open_stays` are as
    in `tree.fold_versions`.
    """
    standing: list[_Version] = []
    for at, row in enumerate(rows):
        version = _Version(row, flags[at], orderings[at], has[at], yields=yields[at])
        if starts[at]:
            standing.append(version)
        else:
            standing[-1] = standing[-1].meet(
                version, loser_gives=loser_gives, open_stays=open_stays
            )
    return (
        [version.row for version in standing],
        [version.sources for version in standing],
        [version.flags for version in standing],
    )
