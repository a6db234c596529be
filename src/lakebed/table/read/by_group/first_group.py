"""Reads one column group before the others, for the keys that can fulfil a predicate.

A row that fulfils a predicate fulfils each of its conjuncts. If a conjunct is about columns of one
group only, and is not true where they are null, then the key of the row is in this group, with
values that fulfil the conjunct. So the group is merged first, with these columns alone, and the
others are read for the keys that are found. Row groups of its base file are skipped by their
statistics, if no log could change them. The predicate itself is evaluated on the joined rows.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import LakebedError
from lakebed.expr.bound import Apply, Bound, column_names
from lakebed.expr.predicate import Predicate
from lakebed.format.names.meta_columns import META_COLUMNS, RECORD_KEY
from lakebed.groups.definition import ColumnGroups
from lakebed.table.files.file_group import FileSlice
from lakebed.table.read.base_file import open_columns
from lakebed.table.read.key_filter import KeyFilter
from lakebed.table.read.row_group_filter import RowGroupFilter
from lakebed.table.view import TableView

MAX_KEYS = 100_000
"""With more keys than this, the other groups are read whole."""

_MIN_KEYS = 1_000
# With more keys than this, row groups that hold some are decoded whole.
_MAX_SEARCHED = 2
# A filter by more than this share of the rows saves less than it costs.
_MOST = 0.125
# Keys that are spread over all row groups save only the merge of other rows, which pays off if
# there are many times as many columns as the predicate tests.
_MANY_COLUMNS = 64
_FEW_ROW_GROUPS = 0.5


@dataclass(frozen=True, slots=True)
class FirstGroup:
    """The column group that is read first, and the conjuncts that it can judge."""

    group: str
    test: Predicate

    def row_groups(self, schema: pa.Schema) -> RowGroupFilter:
        """Return the filter of row groups by the conjuncts."""
        return RowGroupFilter(self.test.bound, schema)

    def keys(self, batches: Iterable[pa.RecordBatch]) -> KeyFilter | None:
        """Return the keys of the rows that fulfil the conjuncts; None if they are too many.

        `batches` are the rows of the group, with their keys and the columns of the conjuncts. It is
        closed as soon as the result is known.
        """
        found: list[pa.Array] = []
        seen = count = 0
        for batch in batches:
            try:
                kept = self.test.filter(batch).column(RECORD_KEY)
            except LakebedError:
                # An error counts only in rows that the other conjuncts leave undecided.
                return None
            seen += batch.num_rows
            count += len(kept)
            if count > min(MAX_KEYS, max(_MIN_KEYS, _MOST * seen)):
                return None
            found.append(kept)
        keys = KeyFilter.of(keys=pa.chunked_array(found, pa.string()).to_pylist())
        return replace(keys, decodes=count > _MAX_SEARCHED)


def first_group(
    view: TableView,
    parts: Mapping[str, FileSlice],
    predicate: RowGroupFilter | None,
    keys: KeyFilter | None,
    columns: int,
) -> FirstGroup | None:
    """Return the group to read first of `parts`, the slices that a read opens by column group.

    `columns` is how many columns the read takes. Returns None if no group can judge a conjunct, if
    only some `keys` are read anyway, or if the statistics of the row groups promise no gain.
    """
    if predicate is None or len(parts) < 2 or not view.config.has_meta_columns:
        return None
    if keys is not None and keys.is_exact and len(keys.keys or ()) <= _MIN_KEYS:
        return None
    tests = _tests(predicate, view.column_groups, parts)
    if not tests:
        return None
    costs = {name: _cost(view, parts[name], test, predicate.schema) for name, test in tests.items()}
    name = min(costs, key=costs.__getitem__)
    test = tests[name]
    if costs[name][0] > _FEW_ROW_GROUPS and columns < _MANY_COLUMNS * len(test.columns):
        return None
    return FirstGroup(name, test)


def _tests(
    predicate: RowGroupFilter, groups: ColumnGroups, parts: Mapping[str, FileSlice]
) -> dict[str, Predicate]:
    """Return the conjuncts that each group can judge, as one predicate."""
    found: dict[str, list[Bound]] = defaultdict(list)
    for test in _conjuncts(predicate.bound):
        names = column_names(test)
        owners = {groups.owner(name) for name in names}
        if len(owners) != 1 or any(n in groups.shared or n in META_COLUMNS for n in names):
            continue
        [owner] = owners
        if owner in parts and _rejects_nulls(test, predicate.schema):
            found[owner].append(test)
    return {owner: _predicate(reduce(_both, tests)) for owner, tests in found.items()}


def _conjuncts(bound: Bound) -> Iterator[Bound]:
    if isinstance(bound, Apply) and bound.function == "and":
        for part in bound.args:
            yield from _conjuncts(part)
    else:
        yield bound


def _both(one: Bound, other: Bound) -> Bound:
    return Apply("and", (one, other), pa.bool_())


def _predicate(bound: Bound) -> Predicate:
    names = column_names(bound)
    return Predicate(f"a condition on {', '.join(names)}", names, bound)


def _rejects_nulls(test: Bound, schema: pa.Schema) -> bool:
    """Return whether a conjunct is not true for a row whose columns are null."""
    fields = [schema.field(name) for name in column_names(test)]
    nulls = [pa.nulls(1, field.type) for field in fields]
    row = pa.RecordBatch.from_arrays(nulls, names=[field.name for field in fields])
    try:
        return not pc.any(_predicate(test).mask(row)).as_py()
    except LakebedError:
        return False


def _cost(
    view: TableView, part: FileSlice, test: Predicate, schema: pa.Schema
) -> tuple[float, int]:
    """Return the share of row groups that a group leaves, as far as known, and its bytes."""
    size = sum(file.size_bytes for file in part.files)
    base = part.base_file
    if base is None or part.log_files:
        return 1.0, size
    with open_columns(
        view.storage, base.path, f"base file {base.path!r}", serves=base.serves
    ) as file:
        left = RowGroupFilter(test.bound, schema).row_groups(file)
        return 1.0 if left is None else len(left) / max(1, file.num_row_groups), size


def needed_for(first: FirstGroup) -> Sequence[str]:
    """Return the columns to read of the first group."""
    return [RECORD_KEY, *first.test.columns]
