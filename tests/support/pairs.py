"""Fewer combinations, with every two choices still together in one of them."""

import itertools
import os
from collections.abc import Sequence
from typing import TypeVar

Case = TypeVar("Case", bound=tuple[object, ...])
# The long runs try all combinations.
ALL = os.environ.get("LAKEBED_SOAK") == "1"


def pairs_of(case: tuple[object, ...]) -> set[tuple[object, ...]]:
    """Return every two choices of a case, with their places."""
    return set(itertools.combinations(enumerate(map(repr, case)), 2))


def pairwise(cases: Sequence[Case]) -> list[Case]:
    """Return those of `cases` that together have every two choices which are together in any.

    Most faults need two choices to meet, few need three. The choice is the same in each run: a
    case that adds the most pairs comes next, the first one of several.
    """
    if ALL:
        return list(cases)
    missing = set().union(*map(pairs_of, cases))
    chosen = []
    while missing:
        best = max(cases, key=lambda case: len(pairs_of(case) & missing))
        missing -= pairs_of(best)
        chosen.append(best)
    return [case for case in cases if case in chosen]
