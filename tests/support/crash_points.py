"""Some work on a table with a fault at one storage operation after the other."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, Self

import pytest

from lakebed.errors import LakebedError, UnavailableError
from lakebed.storage.storage import Storage
from support.faulty import FaultyStorage, Silent, SimulatedCrash
from support.tables import contents, copy_of

When = Literal["before", "after"]
CHANGES = ("put", "delete", "close")
"""How the operations begin after which the objects in memory are others."""
Point = tuple[int, When]
"""The number of a storage operation, from 1 on, and on which side of it the fault is."""


class Unseen:
    """Picks the states that a test has not met yet: what comes of the others is known.

    Most lost answers end in one of a few states, and to recover takes longest.
    """

    def __init__(self) -> None:
        self._seen: set[tuple[object, ...]] = set()

    def __call__(self, storage: Storage, *more: object) -> bool:
        """Return whether these objects, with `more` that counts, come for the first time."""
        state = (frozenset(contents(storage).items()), *more)
        is_new = state not in self._seen
        self._seen.add(state)
        return is_new


@dataclass(frozen=True)
class Work:
    """What is done to some objects, the operations that this takes, and what it leaves.

    work = Work.of(contents(storage), act)
    for storage, what in work.crashes(work.ends()):
        check_and_recover(storage, what)
    """

    objects: dict[str, bytes]
    act: Callable[[Storage], object]
    ops: tuple[str, ...]
    done: Storage

    @classmethod
    def of(cls, objects: dict[str, bytes], act: Callable[[Storage], object]) -> Self:
        """Do it once, without a fault."""
        dry = FaultyStorage(copy_of(objects))
        act(dry)
        return cls(objects, act, tuple(dry.ops), dry.inner)

    def points(self, when: When, only: tuple[str, ...] = ("",), every: int = 0) -> list[Point]:
        """Return the operations that begin with one of `only`, and `every` so many-th of the rest."""
        return [
            (number, when)
            for number, op in enumerate(self.ops, 1)
            if op.startswith(only) or (every and number % every == 0)
        ]

    def ends(self) -> list[Point]:
        """Return a point for each different state that a crash can leave.

        A crash before an operation, or at one that only reads, leaves what the last change left.
        """
        return [(1, "before"), *self.points("after", CHANGES)]

    def steps(self, when: When) -> list[Point]:
        """Return each operation; the lost answer of one that only reads is none before it, too."""
        return self.points(when, ("",) if when == "before" else CHANGES)

    def crashes(self, points: Iterable[Point]) -> Iterator[tuple[Storage, str]]:
        """Yield what a process leaves that dies at each of the points, and the words for it."""
        for number, when in points:
            storage = copy_of(self.objects)
            with pytest.raises(SimulatedCrash):
                self.act(FaultyStorage(storage, number, when))
            yield storage, f"crash {when} operation {number}, {self.ops[number - 1]}"

    def outages(
        self,
        points: Iterable[Point],
        length: int = 1,
        refused: type[LakebedError] = UnavailableError,
    ) -> Iterator[tuple[Storage, str, bool]]:
        """Yield what is left where no answer comes, the words for it, and whether the work failed.

        The process lives on, and `length` operations have no answer. No other error than
        `refused` may come of it.
        """
        for number, when in points:
            storage = copy_of(self.objects)
            failed = False
            try:
                self.act(Silent(storage, number, when, length))
            except refused:
                failed = True
            what = f"no answer {when} operation {number} (of {length}), {self.ops[number - 1]}"
            yield storage, what, failed
