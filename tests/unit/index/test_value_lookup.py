"""Lookups by the values of indexed columns."""

import pytest

import lakebed
from lakebed.errors import DamageWarning, InvalidError, KeyValueError, SchemaError
from support.secondary import index_by_hand
from support.tables import make, reopen
from unit.index.test_index_choice import SCHEMA, row, rows


@pytest.fixture(scope="module")
def table() -> lakebed.Table:
    table = make(schema=SCHEMA, table_type="MERGE_ON_READ", buckets=4, partition_by=("dt",))
    table.insert(rows(range(3000)))
    table.upsert(rows(range(0, 3000, 7)))
    for name, columns in (
        ("by_age_city", ["age", "city"]),
        ("by_city", ["city"]),
        ("by_score", ["score"]),
        ("by_zip", ["place.zip"]),
    ):
        index_by_hand(table, name, columns)
    return table


def ids(found) -> list[str]:
    return sorted(found.column("id").to_pylist())


def wanted(test) -> list[str]:
    return [f"k{n:05}" for n in range(3000) if test(row(n))]


def test_rows_are_found_by_the_values_of_a_column(table):
    found = table.lookup([{"city": "city0007"}, {"city": "nowhere"}], columns=["id", "age"])
    assert found.column_names == ["id", "age"]
    assert ids(found) == ["k00007", "k01007", "k02007"]


def test_null_nan_and_zero_are_values(table):
    nan = float("nan")
    assert ids(table.lookup([{"city": None}])) == wanted(lambda r: r["city"] is None)
    assert ids(table.lookup([{"score": nan}])) == wanted(lambda r: r["score"] != r["score"])
    assert ids(table.lookup([{"score": -0.0}])) == wanted(lambda r: r["score"] == 0)


def test_several_columns_and_fields_of_structs(table):
    assert ids(table.lookup([{"age": 7, "city": "city0107"}])) == ["k00107", "k01107", "k02107"]
    assert ids(table.lookup([{"place.zip": "z9"}])) == wanted(
        lambda r: r["place"] is not None and r["place"]["zip"] == "z9"
    )
    # A column that is in no index is checked on the candidates, as are partition columns.
    assert ids(table.lookup([{"city": "city0008", "dt": "p1"}])) == []
    assert len(ids(table.lookup([{"city": "city0008", "dt": "p0"}]))) == 3


def test_keys_and_values_may_be_mixed(table):
    found = table.lookup([{"id": "k00001"}, {"city": "city0007"}, {"age": 9, "city": "city0009"}])
    assert len(found) == 1 + 3 + 3


def test_values_that_many_rows_have_are_found_too(table):
    many = [{"age": age} for age in range(0, 100, 2)]
    assert len(table.lookup(many)) == 1500


def test_without_an_index_the_error_says_what_to_do(table):
    with pytest.raises(InvalidError, match=r"column 'id' is missing.*price.*create_index"):
        table.lookup([{"price": 3}])
    with pytest.raises(InvalidError, match="'nothing'"):
        table.lookup([{"nothing": 3}])
    with pytest.raises(SchemaError, match="'nothing'"):
        table.lookup([{"city": "x", "nothing": 3}])
    with pytest.raises(KeyValueError, match="age"):
        table.lookup([{"age": "many"}])


def test_a_past_state_is_searched_without_the_index(table):
    first = table.history().column("instant").to_pylist()[-1]
    assert ids(table.lookup([{"city": "city0007"}], as_of=first)) == ["k00007", "k01007", "k02007"]


def test_uncovered_commits_and_missing_runs_leave_the_answer_right():
    table = make(schema=SCHEMA, table_type="MERGE_ON_READ", buckets=2, partition_by=("dt",))
    table.insert(rows(range(50)))
    index_by_hand(table, "by_city", ["city"])
    table.upsert(rows(range(50, 60)))
    assert ids(table.lookup([{"city": "city0055"}, {"city": "city0007"}])) == ["k00007", "k00055"]
    [path] = [e.path for e in table._storage.list(".hoodie/lakebed") if "base.parquet" in e.path]
    table._storage.delete(path)
    with pytest.warns(DamageWarning, match="by_city.*repair"):
        assert ids(reopen(table._storage).lookup([{"city": "city0007"}])) == ["k00007"]
