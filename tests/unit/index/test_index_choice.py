"""When a read uses secondary indexes, which, and that the rows are those of a scan."""

import datetime as dt
import math
import re
from decimal import Decimal

import pyarrow as pa
import pytest

from lakebed.api.table import Table
from lakebed.errors import DamageWarning
from lakebed.scan.scan import plan_scan
from support.secondary import index_by_hand
from support.tables import make, reopen

SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("dt", pa.string()),
        ("city", pa.string()),
        ("age", pa.int32()),
        ("score", pa.float64()),
        ("price", pa.decimal128(9, 2)),
        ("at", pa.timestamp("us", "UTC")),
        ("place", pa.struct([("zip", pa.string())])),
    ]
)
START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def row(n: int) -> dict:
    return {
        "id": f"k{n:05}",
        "dt": f"p{n % 2}",
        "city": None if n % 500 == 3 else f"city{n % 1000:04}",
        "age": n % 100,
        "score": math.nan if n % 700 == 1 else -0.0 if n % 700 == 2 else n / 8,
        "price": Decimal(n) / 4,
        "at": START + dt.timedelta(hours=n),
        "place": None if n % 900 == 5 else {"zip": f"z{n % 800}"},
    }


def rows(numbers) -> pa.Table:
    return pa.Table.from_pylist([row(n) for n in numbers], schema=SCHEMA)


@pytest.fixture(scope="module")
def table() -> Table:
    table = make(schema=SCHEMA, table_type="MERGE_ON_READ", buckets=4, partition_by=("dt",))
    table.insert(rows(range(6000)))
    table.upsert(rows(range(0, 6000, 7)))
    for name, columns in (
        ("by_age_city", ["age", "city"]),
        ("by_at", ["at"]),
        ("by_city", ["city"]),
        ("by_price", ["price"]),
        ("by_score", ["score"]),
        ("by_zip", ["place.zip"]),
    ):
        index_by_hand(table, name, columns)
    return table


def scanned(table: Table, where: str) -> list:
    """Return what a read without indexes finds."""
    snapshot = table._snapshot(None)
    scan = plan_scan(snapshot, snapshot.schema.names, where, indexes=())
    return shown(table._engines.read(scan).read_all())


def shown(found: pa.Table) -> list:
    return sorted(map(repr, found.to_pylist()))


def used(table: Table, where: str) -> set[str]:
    return {note.name for note in table.explain(where=where).indexes if note.used}


@pytest.mark.parametrize(
    ("where", "names"),
    [
        ("city = 'city0007'", {"by_city"}),
        ("city IN ('city0007', 'city0008', 'nowhere')", {"by_city"}),
        ("city IS NULL", {"by_city"}),
        ("city LIKE 'city000%'", {"by_city"}),
        ("city > 'city0990'", {"by_city"}),
        ("city BETWEEN 'city0990' AND 'city0992' OR city IS NULL", {"by_city"}),
        ("age = 7 AND city = 'city0107'", {"by_age_city", "by_city"}),
        ("age = 7 AND city >= 'city09'", {"by_age_city", "by_city"}),
        ("score = 0.0", {"by_score"}),
        ("score = -0.0 AND dt = 'p0'", {"by_score"}),
        ("score > 749", {"by_score"}),
        ("price = 7.25", {"by_price"}),
        ("price BETWEEN 7.1 AND 7.9", {"by_price"}),
        ("at = TIMESTAMP '2026-01-02 00:00:00'", {"by_at"}),
        ("at < TIMESTAMP '2026-01-02 00:00:00'", {"by_at"}),
        ("place.zip = 'z5'", {"by_zip"}),
        ("place.zip IS NULL", {"by_zip"}),
        ("city = 'city0007' OR price = 3", {"by_city", "by_price"}),
        ("(city = 'city0007' OR price = 3) AND age < 50", {"by_city", "by_price"}),
        ("city = 'city0007' OR age = 3", {"by_city", "by_age_city"}),
        ("city = 'nowhere'", {"by_city"}),
    ],
)
def test_an_indexed_predicate_returns_the_rows_of_a_scan(table, where, names):
    found = used(table, where)
    assert found
    assert found <= names
    assert shown(table.read(where=where).read_all()) == scanned(table, where)


@pytest.mark.parametrize(
    ("where", "name", "why"),
    [
        ("age >= 0", "by_age_city", "more than"),
        ("city = 'city0007' OR id > 'k'", "by_city", "does not limit"),
        ("city = 'city0007' AND id = 'k00007'", "by_city", "record keys are known"),
        ("score = CAST('NaN' AS DOUBLE)", "by_score", "does not limit"),
        ("upper(city) = 'X'", "by_city", "does not limit"),
        ("city = 'city0007' AND price > 0", "by_price", "not needed"),
    ],
)
def test_an_index_that_does_not_help_is_not_used_and_the_reason_is_told(table, where, name, why):
    notes = {note.name: note for note in table.explain(where=where).indexes}
    assert not notes[name].used
    assert why in notes[name].reason
    assert shown(table.read(where=where).read_all()) == scanned(table, where)


def test_fewer_file_groups_are_read_and_the_step_is_told(table):
    found = table.explain(where="price = 7.25")
    assert found.file_groups.read == 1
    assert found.file_groups.total == 8
    assert found.pruned_by[-1].by in ("index by_price", "footers")
    assert "by_price (price) used: 1 candidate in 1 range for price = 7.25" in str(found)


def test_two_indexes_of_which_each_alone_leaves_too_many_are_intersected(table):
    where = "age < 5 AND price < 250"
    found = table.explain(where=where)
    assert {note.name for note in found.indexes if note.used} == {"by_age_city", "by_price"}
    assert any(step.by == "index by_age_city and by_price" for step in found.pruned_by)
    assert shown(table.read(where=where).read_all()) == scanned(table, where)
    assert used(table, "age < 5") == set()
    notes = {note.name: note for note in table.explain(where="age < 5 AND price < 1250").indexes}
    assert "candidates are more than 120" in notes["by_price"].reason


def test_a_past_state_never_uses_an_index(table):
    last = table.history().column("instant").to_pylist()[0]
    notes = table.explain(where="city = 'city0007'", as_of=last).indexes
    assert not any(note.used for note in notes)
    assert "latest state" in notes[0].reason
    plain = table.read(where="city = 'city0007'", as_of=last).read_all()
    assert shown(plain) == scanned(table, "city = 'city0007'")


def test_commits_that_the_index_does_not_cover_are_read_whole():
    table = make(schema=SCHEMA, table_type="MERGE_ON_READ", buckets=4, partition_by=("dt",))
    table.insert(rows(range(400)))
    index_by_hand(table, "by_city", ["city"])
    moved = {**row(9), "city": "city0007"}
    away = {**row(7), "city": "elsewhere"}
    table.upsert(pa.Table.from_pylist([moved, away], schema=SCHEMA))
    assert used(table, "city = 'city0007'") == {"by_city"}
    found = table.read(where="city = 'city0007'").read_all()
    assert found.column("id").to_pylist() == ["k00009"]
    assert table.explain(where="city = 'nowhere'").file_groups.read <= 2


def test_the_same_key_in_two_partitions_is_found_in_the_right_one():
    table = make(schema=SCHEMA, table_type="MERGE_ON_READ", buckets=1, partition_by=("dt",))
    twins = [{**row(1), "dt": "p0", "city": "a"}, {**row(1), "dt": "p1", "city": "b"}]
    table.insert(pa.Table.from_pylist(twins, schema=SCHEMA))
    index_by_hand(table, "by_city", ["city"])
    for city, partition in (("a", "p0"), ("b", "p1")):
        where = f"city = '{city}'"
        assert used(table, where) == {"by_city"}
        assert table.explain(where=where).partitions.read == 1
        assert table.read(where=where).read_all().column("dt").to_pylist() == [partition]


def test_a_damaged_index_file_is_a_warning_and_the_right_answer():
    table = make(schema=SCHEMA, table_type="MERGE_ON_READ", buckets=2, partition_by=("dt",))
    table.insert(rows(range(100)))
    index_by_hand(table, "by_city", ["city"])
    [path] = [e.path for e in table._storage.list(".hoodie/lakebed") if "base.parquet" in e.path]
    table._storage.put(path, b"nothing")
    with pytest.warns(DamageWarning, match="by_city.*repair"):
        found = reopen(table._storage).read(where="city = 'city0007'").read_all()
    assert found.num_rows == 1
    table._storage.delete(path)
    with pytest.warns(DamageWarning, match="by_city.*repair"):
        [note] = reopen(table._storage).explain(where="city = 'city0007'").indexes
    assert not note.used
    assert re.search(r"damaged: .*base\.parquet.*repair", note.reason)


def test_a_delete_by_predicate_finds_its_rows_by_the_index():
    table = make(schema=SCHEMA, table_type="MERGE_ON_READ", buckets=2, partition_by=("dt",))
    table.insert(rows(range(100)))
    index_by_hand(table, "by_city", ["city"])
    table.delete(where="city = 'city0007' OR city IS NULL")
    assert table.count() == 98
    assert table.count(where="city = 'city0007'") == 0


def test_few_candidates_are_read_without_listing_the_other_partitions():
    table = make(schema=SCHEMA, table_type="MERGE_ON_READ", buckets=1, partition_by=("dt",))
    table.insert(rows(range(100)))
    index_by_hand(table, "by_city", ["city"])
    table = reopen(table._storage)
    assert table.read(where="city = 'city0007'").read_all().num_rows == 1
    assert "slices" not in vars(table._snapshot(None))
    # The partition of a predicate counts as well.
    assert table.count(where="city = 'city0007' AND dt = 'p0'") == 0
    assert table.explain(where="city = 'city0007' AND dt = 'p0'").file_groups.read == 0
