"""Whatever the predicate: reading with it is the same as filtering after a full read.

Partitions, buckets, keys and row groups are skipped by what the predicate demands; none of them
may hold a row that it is true for.
"""

import math

import pyarrow as pa
import pytest

from lakebed.errors import InvalidError, LakebedError
from lakebed.expr.constraints import Allowed, constraints_of
from lakebed.expr.predicate import Predicate
from lakebed.storage.objects import memory_storage
from lakebed.table.read.parquet_source import open_parquet
from lakebed.table.read.row_group_filter import RowGroupFilter
from support.predicates import TABLE, Predicates
from support.runs import parquet
from support.tables import make

ROWS = TABLE.drop_columns(["list", "place"])


def understood(seed: int, schema: pa.Schema, count: int) -> list[Predicate]:
    source = Predicates(seed)
    found = []
    for number in range(count):
        try:
            found.append(Predicate.parse(source.predicate(1 + number % 3), schema))
        except LakebedError:
            continue
    assert len(found) > count * 0.8
    return found


def wanted(predicate: Predicate, rows: pa.Table) -> list[int] | None:
    """Return the ids that it keeps of all rows, None if it fails for one of them."""
    [batch] = rows.combine_chunks().to_batches()
    try:
        return sorted(predicate.filter(batch).column("id").to_pylist())
    except InvalidError:
        return None


@pytest.mark.parametrize(
    ("seed", "changes"),
    [
        (1, {"partition_by": ("n",), "buckets": 4}),
        (2, {"partition_by": ("i",), "buckets": 1, "table_type": "MERGE_ON_READ"}),
        (3, {"key": ("id", "yes"), "partition_by": (), "buckets": 4}),
    ],
)
def test_a_read_with_where_is_a_filter_after_a_full_read(seed, changes):
    table = make(schema=ROWS.schema, **{"key": ("id",), **changes})
    rows = (
        ROWS.filter(pa.compute.is_valid(ROWS["yes"])) if len(changes.get("key", ())) > 1 else ROWS
    )
    table.bulk_insert(rows)
    table.upsert(rows.slice(0, 20))
    full = table.read().read_all()
    assert full.num_rows == rows.num_rows
    compared = 0
    for predicate in understood(seed, full.schema, 60):
        kept = wanted(predicate, full)
        if kept is None:
            continue
        found = table.read(columns=["id"], where=predicate.text).read_all()["id"].to_pylist()
        assert sorted(found) == kept, predicate.text
        compared += bool(kept)
    assert compared > 20


def test_row_groups_are_skipped_only_where_no_row_matches():
    rows = ROWS.sort_by([("i", "ascending"), ("x", "ascending")])
    [batch] = rows.combine_chunks().to_batches()
    storage = memory_storage()
    storage.put("f", parquet(rows, row_group_rows=5))
    skipped = 0
    with open_parquet(storage, "f", "file") as file:
        for predicate in understood(4, rows.schema, 120):
            left = RowGroupFilter(predicate.bound, rows.schema).row_groups(file)
            for number in set(range(file.num_row_groups)) - set(
                range(10**6) if left is None else left
            ):
                kept = wanted(predicate, pa.Table.from_batches([batch.slice(5 * number, 5)]))
                assert not kept, predicate.text
                skipped += 1
    assert skipped > 50


@pytest.mark.parametrize("exact", [False, True])
def test_a_row_that_matches_fulfils_all_constraints(exact):
    [batch] = TABLE.combine_chunks().to_batches()
    tested = 0
    for predicate in understood(5, TABLE.schema, 2_000):
        demands = constraints_of(predicate, TABLE.schema, exact=exact).columns
        if not demands:
            continue
        try:
            kept = predicate.filter(batch).to_pylist()
        except InvalidError:
            continue
        for name, allowed in demands.items():
            assert all(is_allowed(row[name], allowed) for row in kept), (predicate.text, allowed)
            tested += len(kept)
    assert tested > 200


def is_allowed(value: object, allowed: Allowed) -> bool:
    if value is None:
        return allowed.null
    if isinstance(value, float) and math.isnan(value):
        return allowed.values is None and allowed.upper is None
    return allowed.holds(value)
