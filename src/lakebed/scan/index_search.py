"""Finds the searches in secondary indexes that a predicate allows, and the candidates they return.

A search is a list of key ranges in one index. Every row that satisfies the predicate is among the
candidates of each search of the predicate; so the candidates of several searches are intersected.
For a disjunction, the result is the union of its branches' candidates, if each branch has a search.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce

import pyarrow as pa

from lakebed.expr.bound import Apply, Bound
from lakebed.expr.constraints import Constraints, part_constraints
from lakebed.format.index.ordered_bytes import after_prefix
from lakebed.format.names.meta_columns import PARTITION_PATH, RECORD_KEY
from lakebed.index.secondary.open_index import Candidates, OpenIndex
from lakebed.index.secondary.ranges import KeyRanges, key_ranges
from lakebed.scan.prune_step import allowed_text
from lakebed.terminal.text import plural

_MAX_BRANCHES = 100
# An estimate counts complete row groups at both ends of each range, in each run.
_ROW_GROUP_ENTRIES = 2 * 4_096
_KEY_COLUMNS = [PARTITION_PATH, RECORD_KEY]


@dataclass(frozen=True, slots=True)
class RangeSearch:
    """A search for ranges of keys in one index; `estimate` is how many entries it may find."""

    index: OpenIndex
    key_ranges: KeyRanges
    conditions: tuple[str, ...]
    estimate: int

    @property
    def indexes(self) -> tuple[OpenIndex, ...]:
        """Return the index that is searched, in a tuple."""
        return (self.index,)

    @property
    def least(self) -> int:
        """Return a lower bound of the entries found: the estimate less the edges of the ranges."""
        edges = len(self.key_ranges.ranges) * len(self.index.runs) * _ROW_GROUP_ENTRIES
        return max(0, self.estimate - edges)

    @property
    def is_for_values(self) -> bool:
        """Return whether the search is for single values only, not for ranges."""
        return all(end == after_prefix(low) for low, end in self.key_ranges.ranges)

    def find(self, limit: int) -> Candidates | None:
        """Return the candidates; None if there are more than `limit`, or the index is damaged."""
        return self.index.find(self.key_ranges.ranges, limit)

    def __str__(self) -> str:
        ranges = plural(len(self.key_ranges.ranges), "range")
        return f"{ranges} for {' and '.join(self.conditions)}"


@dataclass(frozen=True, slots=True)
class UnionSearch:
    """A search for each branch of a disjunction."""

    branches: tuple["Search", ...]

    @property
    def least(self) -> int:
        """Return a lower bound of the entries that the searches find."""
        return sum(branch.least for branch in self.branches)

    @property
    def indexes(self) -> tuple[OpenIndex, ...]:
        """Return the indexes that are searched."""
        found = {
            index.definition.name: index for branch in self.branches for index in branch.indexes
        }
        return tuple(found.values())

    @property
    def is_for_values(self) -> bool:
        """Return whether all searches are for single values only, not for ranges."""
        return all(branch.is_for_values for branch in self.branches)

    @property
    def conditions(self) -> tuple[str, ...]:
        """Return the disjunction as a single condition, in a tuple."""
        return (" OR ".join(" AND ".join(branch.conditions) for branch in self.branches),)

    def find(self, limit: int) -> Candidates | None:
        """Return the candidates of all branches; None if one of them has too many."""
        found = []
        for branch in self.branches:
            held = branch.find(limit)
            if held is None:
                return None
            found.append(held)
        return reduce(unite, found)

    def __str__(self) -> str:
        return f"{len(self.branches)} searches for {self.conditions[0]}"


Search = RangeSearch | UnionSearch


@dataclass(frozen=True, slots=True)
class Searches:
    """Finds the searches of predicates on columns of `schema` in `indexes`.

    With `exact`, every constant of a predicate is used; see `lakebed.expr.constraints`.
    """

    indexes: Sequence[OpenIndex]
    schema: pa.Schema
    exact: bool

    def of(self, node: Bound) -> list[Search]:
        """Return the searches that `node` allows, those with the fewest entries first."""
        found: list[Search] = list(
            self._ranges(part_constraints(node, self.schema, exact=self.exact))
        )
        found += [union for part in _disjunctions(node) if (union := self._union(part))]
        return sorted(found, key=_rank)

    def _ranges(self, constraints: Constraints) -> Iterator[RangeSearch]:
        for index in self.indexes:
            columns = index.definition.columns
            found = key_ranges(columns, index.kinds, constraints)
            if found is not None:
                stated = constraints.stated(columns[: found.columns])
                texts = tuple(allowed_text(name, allowed) for name, allowed in stated.items())
                yield RangeSearch(index, found, texts, index.estimate(found.ranges))

    def _union(self, node: Apply) -> UnionSearch | None:
        branches = list(_operands(node, "or"))
        if len(branches) > _MAX_BRANCHES:
            return None
        best: list[Search] = []
        for branch in branches:
            options = self.of(branch)
            if not options:
                return None
            best.append(options[0])
        return UnionSearch(tuple(best))


def unite(one: Candidates, other: Candidates) -> Candidates:
    """Return the union of two sets of candidates."""
    keys = pa.concat_tables([one.keys, other.keys])
    unique = keys.group_by(_KEY_COLUMNS, use_threads=False).aggregate([])
    return Candidates(unique, one.whole | other.whole)


def intersect(one: Candidates, other: Candidates) -> Candidates:
    """Return the intersection of two sets of candidates.

    A file group that either index does not cover must be read completely.
    """
    keys = one.keys.join(other.keys, keys=_KEY_COLUMNS, join_type="left semi", use_threads=False)
    return Candidates(keys, one.whole | other.whole)


def _rank(search: Search) -> tuple[int, bool, int, str]:
    """Return the sort key of a search.

    Searches with few entries come first, then values before ranges, then more columns, then names.
    """
    columns = search.key_ranges.columns if isinstance(search, RangeSearch) else 0
    names = ",".join(index.definition.name for index in search.indexes)
    return search.least, not search.is_for_values, -columns, names


def _disjunctions(node: Bound) -> Iterator[Apply]:
    """Yield the disjunctions that must all be true if `node` is true."""
    for part in _operands(node, "and"):
        if isinstance(part, Apply) and part.function == "or":
            yield part


def _operands(node: Bound, function: str) -> Iterator[Bound]:
    """Yield the operands of a chain of one function; of any other node, the node itself."""
    waiting = [node]
    while waiting:
        found = waiting.pop()
        if isinstance(found, Apply) and found.function == function:
            waiting.extend(reversed(found.args))
        else:
            yield found
