"""Some work on a table with a fault at one storage operation after the other."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, Self

import pytest

from lakebed.errors import LakebedError, UnavailableError
from lakebed.storage.storage import Storage
from support.faulty import FaultyStorage, Silent, SimulatedCrash
from support.tables import copy_of

When = Literal["before", "after"]
Point = tuple[int, When]
"""The number of a storage operation, from 1 on, and on which side of it the fault is."""


@dataclass(frozen=True)
class Work:
    """What is done to some objects, the operations that this takes, and what it leaves.

    work = Work.of(contents(storage), act)
    for storage, what in work.crashes(work.points("after", ("put", "delete"))):
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
        """Give the operations that begin with one of `only`, and `every` so many-th of the rest."""
        return [
            (number, when)
            for number, op in enumerate(self.ops, 1)
            if op.startswith(only) or (every and number % every == 0)
        ]

    def steps(self, when: When) -> list[Point]:
        """Give each operation; after one that changes nothing all is as before the next."""
        return self.points(when, ("",) if when == "before" else ("put", "delete", "close"))

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
