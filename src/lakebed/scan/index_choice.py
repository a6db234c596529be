"""Decides whether a read uses secondary indexes, and which, by the number and cost of candidates.

An index pays off if it leaves few candidates. The searches of a predicate are tried in the order of
their estimates, and their candidates are intersected as long as that can save much. If too many
candidates are left, or if reading them would not save half of the bytes, the read scans as if there
were no index. The same table and predicate always lead to the same decision, and each index gets a
note that says why.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from lakebed.expr.constraints import constraints_of, has_one_meaning
from lakebed.expr.predicate import Predicate
from lakebed.format.names.meta_columns import META_FIELDS, PARTITION_PATH
from lakebed.index.secondary.open_index import Candidates, OpenIndex, UnusableIndex
from lakebed.scan.candidates import CandidateKeys, candidate_keys, slices_with
from lakebed.scan.index_search import Search, Searches, intersect
from lakebed.scan.prune import Pruned, key_filter
from lakebed.scan.prune_step import PruneStep
from lakebed.table.config.table_config import TableConfig
from lakebed.table.files.file_group import FileSlice
from lakebed.terminal.text import plural, size_text

MAX_CANDIDATES = 10_000
"""The most candidates that are looked up by key."""

MAX_SHARE = 0.02
"""The largest share of a table's rows that is looked up by key."""

FEW_CANDIDATES = 100
"""The limit is never lower than this, and so few candidates are not intersected any further."""

# Below this cost it does not matter how a table is read.
_SMALL_BYTES = 8 << 20
# One search may find this many times the limit, if it can be intersected with others.
_INTERSECT = 50
# A search that would find more entries than this many times the limit is not started.
_HOPELESS = 20
_UNLIMITED = "the predicate does not limit its first column"


@dataclass(frozen=True, slots=True)
class IndexNote:
    """Whether a read uses a secondary index, and why or why not."""

    name: str
    columns: tuple[str, ...]
    used: bool
    reason: str


@dataclass(frozen=True, slots=True)
class Choice:
    """The slices to read, the candidates if an index was used, and a note for each index."""

    slices: tuple[FileSlice, ...]
    candidates: CandidateKeys | None = None
    notes: tuple[IndexNote, ...] = ()
    steps: tuple[PruneStep, ...] = ()


Indexes = Sequence[OpenIndex | UnusableIndex]


@dataclass(frozen=True, slots=True)
class Found:
    """The candidates, if any, that searches of secondary indexes found for a predicate."""

    notes: "_Notes"
    searches: tuple[Search, ...] = ()
    candidates: Candidates | None = None
    otherwise: str = _UNLIMITED

    @property
    def partitions(self) -> frozenset[str] | None:
        """Return the partitions of the candidates; None if these are many, or not the only rows."""
        held = self.candidates
        if held is None or held.whole or held.keys.num_rows > FEW_CANDIDATES:
            return None
        return frozenset(held.keys.column(PARTITION_PATH).to_pylist())


def find_candidates(
    config: TableConfig,
    schema: pa.Schema,
    predicate: Predicate | None,
    indexes: Indexes,
    *,
    exact: bool,
) -> Found:
    """Search the indexes for rows that may satisfy a predicate; see `constraints_of` for `exact`."""
    notes = _Notes(indexes)
    usable = [index for index in indexes if isinstance(index, OpenIndex)]
    if predicate is None or not usable:
        return Found(notes, otherwise="there is no predicate")
    if not exact and not has_one_meaning(predicate):
        return Found(notes, otherwise="the session may interpret '\\' differently")
    full = pa.schema([*META_FIELDS, *schema])
    constraints = constraints_of(predicate, full)
    keys = key_filter(config, schema, constraints)
    if constraints.is_impossible or (keys is not None and keys.is_exact):
        return Found(notes, otherwise="the record keys are known from the predicate")
    searches = Searches(usable, full, exact).of(predicate.bound)
    rows = max(index.num_entries for index in usable)
    return _find(searches, max_candidates(rows), rows, notes)


def choose_indexes(config: TableConfig, schema: pa.Schema, pruned: Pruned, found: Found) -> Choice:
    """Decide how to read the remaining slices: only the candidates, or all rows."""
    unchanged = Choice(pruned.slices, notes=found.notes.all(found.otherwise))
    candidates = found.candidates
    if candidates is None:
        return unchanged
    kept = candidate_keys(candidates, pruned.key_filter, pruned.slices)
    slices, cost = slices_with(config, schema, kept, pruned.slices)
    full_cost = sum(slice_.cost_bytes for slice_ in pruned.slices)
    if not pays_off(cost, full_cost):
        number = plural(candidates.keys.num_rows, "candidate")
        scattered = plural(len(slices), "file group")
        why = (
            f"a scan of {size_text(full_cost)} costs less than reading {number} in {scattered}, "
            f"{len(candidates.whole & {s.group.whole for s in slices})} of them whole"
        )
        return replace(
            unchanged, notes=found.notes.without(found.searches, why).all(found.otherwise)
        )
    conditions = tuple(text for search in found.searches for text in search.conditions)
    names = dict.fromkeys(
        index.definition.name for search in found.searches for index in search.indexes
    )
    step = PruneStep(f"index {' and '.join(names)}", conditions, len(slices))
    return replace(unchanged, slices=slices, candidates=kept, steps=(step,))


def pays_off(cost: int, full_cost: int) -> bool:
    """Return whether reading candidates at `cost` bytes is preferable to a scan."""
    return full_cost <= _SMALL_BYTES or cost <= full_cost // 2


def max_candidates(rows: int) -> int:
    """Return how many candidates are read by key at most, in a table of `rows` rows."""
    return min(MAX_CANDIDATES, max(FEW_CANDIDATES, int(rows * MAX_SHARE)))


class _Notes:
    """Collects one note for each index."""

    def __init__(self, indexes: Indexes) -> None:
        self._indexes = indexes
        self._found: dict[str, IndexNote] = {}

    def add(self, search: Search, why: str, *, used: bool) -> None:
        for index in search.indexes:
            known = self._found.get(index.definition.name)
            if known is None or used or not known.used:
                self._found[index.definition.name] = IndexNote(
                    index.definition.name, index.definition.columns, used, why
                )

    def without(self, searches: Sequence[Search], why: str) -> "_Notes":
        """Return the notes, with `searches` marked as not used because of `why`."""
        others = _Notes(self._indexes)
        names = {index.definition.name for search in searches for index in search.indexes}
        others._found = {name: note for name, note in self._found.items() if name not in names}
        for search in searches:
            others.add(search, why, used=False)
        return others

    def all(self, otherwise: str) -> tuple[IndexNote, ...]:
        """Return a note for each index; `otherwise` is the reason in notes not yet made."""
        return tuple(self._note(index, otherwise) for index in self._indexes)

    def _note(self, index: OpenIndex | UnusableIndex, otherwise: str) -> IndexNote:
        definition = index.definition
        if isinstance(index, UnusableIndex):
            return IndexNote(definition.name, definition.columns, False, index.reason)
        known = self._found.get(definition.name)
        return known or IndexNote(definition.name, definition.columns, False, otherwise)


def _problems(search: Search) -> str:
    return "; ".join(problem for index in search.indexes for problem in index.problems[:1])


def _find(searches: Sequence[Search], limit: int, rows: int, notes: _Notes) -> Found:
    """Run the searches; return their intersected candidates, or none if a scan is better."""
    most = limit * _INTERSECT if len(searches) > 1 else limit
    used: list[Search] = []
    found: Candidates | None = None
    for search in searches:
        left = None if found is None else found.keys.num_rows
        names = {index.definition.name for index in search.indexes}
        if left is not None and names <= {i.definition.name for s in used for i in s.indexes}:
            continue
        if left is not None and (left <= FEW_CANDIDATES or search.least > left * _INTERSECT):
            notes.add(
                search, f"not needed: {plural(left, 'candidate')} are left without it", used=False
            )
            continue
        if search.least > limit * _HOPELESS:
            share = min(100, round(100 * search.least / max(1, rows)))
            notes.add(search, f"about {share} % of its entries match: {search}", used=False)
            continue
        held = None if _problems(search) else search.find(most)
        if held is None:
            why = f"more than {most:,} candidates in {search}"
            notes.add(search, _problems(search) or why, used=False)
            continue
        number = plural(held.keys.num_rows, "candidate")
        notes.add(search, f"{number} in {search}", used=True)
        used.append(search)
        found = held if found is None else intersect(found, held)
    if found is None or found.keys.num_rows <= limit:
        return Found(notes, tuple(used), found)
    why = f"{found.keys.num_rows:,} candidates are more than {limit:,}"
    return Found(notes.without(used, why))
