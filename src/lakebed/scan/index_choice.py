"""Decides whether a read uses secondary indexes, and which: by the number of candidates, and by bytes.

An index pays off if it leaves few candidates. The searches of a predicate are tried in the order of
their estimates; candidates of several searches are intersected while that can save much. If too
many are left, or if reading them would not save half of the bytes, the read scans as if there were
no index. The same table and predicate always lead to the same decision, and each index gets a note
that says why.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.expr.constraints import Constraints, has_one_meaning
from lakebed.expr.predicate import Predicate
from lakebed.format.names.meta_columns import META_FIELDS, PARTITION_PATH, RECORD_KEY
from lakebed.index.secondary.open_index import Candidates, OpenIndex, UnusableIndex
from lakebed.model.packing import file_cost
from lakebed.scan.index_search import Search, Searches, intersect
from lakebed.scan.prune import Pruned, prune_by_index
from lakebed.scan.prune_step import PruneStep
from lakebed.table.config.table_config import TableConfig
from lakebed.table.files.file_group import FileGroupId, FileSlice
from lakebed.table.read.key_filter import KeyFilter
from lakebed.terminal.text import plural, size_text

MAX_CANDIDATES = 10_000
"""More candidates than this are not looked up by key."""

MAX_SHARE = 0.02
"""Nor is a greater share of the rows."""

FEW_CANDIDATES = 100
"""So few candidates are always looked up, however small the table is, and not intersected further."""

KEY_BYTES = 1 << 20
"""Roughly how many bytes of a large file are read to find one key in it."""

_NO_KEYS = KeyFilter(keys=())
# Below this cost it does not matter how a table is read.
_SMALL_BYTES = 8 << 20
# So many more candidates than allowed may be found by one search, if others are intersected with it.
_INTERSECT = 10
# A search whose estimate is beyond this many times the limit is not even begun. Estimates count
# whole row groups at both ends of each range, so that they are far too large for few entries.
_HOPELESS = 20
_ROW_GROUPS = 1 << 16


@dataclass(frozen=True, slots=True)
class IndexNote:
    """Whether a read uses a secondary index, and why or why not."""

    name: str
    columns: tuple[str, ...]
    used: bool
    reason: str


@dataclass(frozen=True, slots=True)
class CandidateKeys:
    """The keys that rows of each partition can have, except in the file groups `whole`."""

    by_partition: Mapping[str, KeyFilter]
    whole: frozenset[FileGroupId] = frozenset()

    def of(self, group: FileGroupId) -> KeyFilter | None:
        """Return the keys to read from a file group; None for all keys."""
        if group.whole in self.whole:
            return None
        return self.by_partition.get(group.partition, _NO_KEYS)


@dataclass(frozen=True, slots=True)
class Choice:
    """The slices to read and, if an index was used, the candidates; and a note for each index."""

    slices: tuple[FileSlice, ...]
    candidates: CandidateKeys | None = None
    notes: tuple[IndexNote, ...] = ()
    steps: tuple[PruneStep, ...] = ()


Indexes = Sequence[OpenIndex | UnusableIndex]


def choose_indexes(
    config: TableConfig,
    schema: pa.Schema,
    predicate: Predicate | None,
    pruned: Pruned,
    indexes: Indexes,
    *,
    exact: bool,
) -> Choice:
    """Decide how to read the slices that are left; `exact` as for `constraints_of`."""
    notes = _Notes(indexes)
    unchanged = Choice(pruned.slices)
    usable = [index for index in indexes if isinstance(index, OpenIndex)]
    if predicate is None or (not exact and not has_one_meaning(predicate)):
        why = (
            "there is no predicate"
            if predicate is None
            else "the session may read '\\' differently"
        )
        return replace(unchanged, notes=notes.all(why))
    keys = pruned.key_filter
    if not pruned.slices or (keys is not None and keys.is_exact):
        return replace(unchanged, notes=notes.all("the record keys are known from the predicate"))
    if not usable:
        return replace(unchanged, notes=notes.all(""))
    full = pa.schema([*META_FIELDS, *schema])
    searches = Searches(usable, full, exact).of(predicate.bound)
    rows = max(index.num_entries for index in usable)
    limit = min(MAX_CANDIDATES, max(FEW_CANDIDATES, int(rows * MAX_SHARE)))
    found = _find(searches, limit, rows, notes)
    if found is None:
        return replace(unchanged, notes=notes.all("the predicate does not limit its first column"))
    used, candidates = found
    kept = _narrow(candidates, pruned)
    slices, cost = _prune(config, schema, kept, pruned.slices)
    full_cost = sum(slice_.cost_bytes for slice_ in pruned.slices)
    if full_cost > _SMALL_BYTES and cost > full_cost // 2:
        number = plural(candidates.keys.num_rows, "candidate")
        scattered = plural(len(slices), "file group")
        why = (
            f"a scan of {size_text(full_cost)} costs less than reading {number} in {scattered}, "
            f"{len(candidates.whole & {s.group.whole for s in slices})} of them whole"
        )
        return replace(unchanged, notes=notes.reject(used, why).all(""))
    conditions = tuple(text for search in used for text in search.conditions)
    names = dict.fromkeys(index.definition.name for search in used for index in search.indexes)
    step = PruneStep(f"index {' and '.join(names)}", conditions, len(slices))
    return Choice(slices, kept, notes.all("another index was used"), (step,))


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

    def reject(self, searches: Sequence[Search], why: str) -> "_Notes":
        """Take back that the searches were used."""
        for search in searches:
            for index in search.indexes:
                del self._found[index.definition.name]
            self.add(search, why, used=False)
        return self

    def all(self, otherwise: str) -> tuple[IndexNote, ...]:
        """Return a note for each index: `otherwise` for those that have none yet."""
        return tuple(self._note(index, otherwise) for index in self._indexes)

    def _note(self, index: OpenIndex | UnusableIndex, otherwise: str) -> IndexNote:
        definition = index.definition
        if isinstance(index, UnusableIndex):
            return IndexNote(definition.name, definition.columns, False, index.reason)
        known = self._found.get(definition.name)
        return known or IndexNote(definition.name, definition.columns, False, otherwise)


def _find(
    searches: Sequence[Search], limit: int, rows: int, notes: _Notes
) -> tuple[list[Search], Candidates] | None:
    """Return the searches that were used, and the candidates of all of them; None to scan."""
    most = limit * _INTERSECT if len(searches) > 1 else limit
    used: list[Search] = []
    found: Candidates | None = None
    for search in searches:
        left = None if found is None else found.keys.num_rows
        names = {index.definition.name for index in search.indexes}
        if left is not None and names <= {i.definition.name for s in used for i in s.indexes}:
            continue
        if left is not None and (left <= FEW_CANDIDATES or search.estimate > left * _INTERSECT):
            notes.add(
                search, f"not needed: {plural(left, 'candidate')} are left without it", used=False
            )
            continue
        if search.estimate > limit * _HOPELESS + _ROW_GROUPS:
            share = min(100, round(100 * search.estimate / max(1, rows)))
            notes.add(search, f"about {share} % of its entries match: {search}", used=False)
            continue
        held = search.find(most)
        if held is None:
            notes.add(search, f"more than {most:,} candidates, or damaged: {search}", used=False)
            continue
        number = plural(held.keys.num_rows, "candidate")
        notes.add(search, f"{number} in {search}", used=True)
        used.append(search)
        found = held if found is None else intersect(found, held)
    if found is None or found.keys.num_rows <= limit:
        return None if found is None else (used, found)
    notes.reject(used, f"{found.keys.num_rows:,} candidates are more than {limit:,}")
    return None


def _narrow(candidates: Candidates, pruned: Pruned) -> CandidateKeys:
    """Return the candidates by partition, without keys that the predicate excludes."""
    keys = candidates.keys
    if pruned.key_filter is not None:
        keys = keys.filter(pruned.key_filter.mask(keys.column(RECORD_KEY).combine_chunks()))
    there = pa.array(sorted({slice_.group.partition for slice_ in pruned.slices}), pa.string())
    keys = keys.filter(pc.is_in(keys.column(PARTITION_PATH), value_set=there))
    grouped = keys.group_by(PARTITION_PATH, use_threads=False).aggregate([(RECORD_KEY, "list")])
    return CandidateKeys(
        {
            row[PARTITION_PATH]: KeyFilter.of(keys=row[f"{RECORD_KEY}_list"])
            for row in grouped.to_pylist()
        },
        candidates.whole,
    )


def _prune(
    config: TableConfig, schema: pa.Schema, keys: CandidateKeys, slices: Sequence[FileSlice]
) -> tuple[tuple[FileSlice, ...], int]:
    """Return the slices that can hold a candidate, in their order, and the cost of reading them."""
    held: dict[str, list[FileSlice]] = {}
    chosen: set[FileGroupId] = set()
    cost = 0
    for slice_ in slices:
        if slice_.group.whole in keys.whole:
            chosen.add(slice_.group)
            cost += slice_.cost_bytes
        elif slice_.group.partition in keys.by_partition:
            held.setdefault(slice_.group.partition, []).append(slice_)
    for partition, members in held.items():
        wanted = keys.by_partition[partition]
        found = prune_by_index(config, schema, Constraints({}), wanted, members)
        share = -(-len(wanted.keys or ()) // max(1, len(found)))
        chosen |= {slice_.group for slice_ in found}
        cost += sum(keys_cost(slice_, share) for slice_ in found)
    return tuple(slice_ for slice_ in slices if slice_.group in chosen), cost


def keys_cost(slice_: FileSlice, number: int) -> int:
    """Estimate the cost of reading `number` keys of a slice, in bytes."""
    sizes = (min(file.size_bytes, number * KEY_BYTES) for file in slice_.files)
    return sum(file_cost(size, 1) for size in sizes)
