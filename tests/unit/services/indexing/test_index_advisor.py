"""Indexes that are proposed from the predicates of past reads."""

import json

import pyarrow as pa
import pytest

from lakebed.services.indexing.advisor import PATH
from support.tables import make, reopen
from unit.index.test_index_choice import SCHEMA, row, rows


@pytest.fixture
def table():
    table = make(schema=SCHEMA, table_type="MERGE_ON_READ", buckets=2, partition_by=("dt",))
    table.insert(rows(range(3000)))
    return table


def test_reads_that_scanned_lead_to_proposals_and_an_index_ends_them(table):
    table.set_properties({"lakebed.index.advisor": "true"})
    for number in range(3):
        table.count(where=f"city = 'city000{number}' AND price > 5")
    table.read(where="age = 7 OR age = 9").read_all()
    advice = table.advise_indexes()
    assert [one.columns for one in advice] == [("city", "price"), ("age",)]
    assert advice[0].reads == 3
    assert advice[0].scanned_bytes > 0
    assert "3 reads scanned" in str(advice[0])
    table.create_index("by_city", ["city"])
    assert [one.columns for one in table.advise_indexes()] == [("age",)]
    table.read(where="city = 'city0001'").read_all()
    assert [one.reads for one in table.advise_indexes()] == [1]


def test_no_value_is_stored_and_the_file_stays_small(table):
    table.set_properties({"lakebed.index.advisor": "true"})
    for number in range(100):
        table.read(where=f"city = 'secret{number}' AND price < {number}.5").read_all()
    table.advise_indexes()
    data = table._storage.read(PATH)
    assert b"secret" not in data
    [row] = json.loads(data)
    assert row["values"] == ["city"]
    assert row["ranges"] == ["price"]
    assert row["reads"] == 100
    assert table.verify().errors == 0


def test_nothing_is_kept_unless_it_is_asked_for(table):
    table.read(where="city = 'x'").read_all()
    assert table.advise_indexes() == ()
    table.set_properties({"lakebed.index.advisor": "true"})
    table.read().read_all()
    table.read(where="id = 'k00001'").read_all()
    table.explain(where="city = 'x'")
    assert table.advise_indexes() == ()


def test_another_process_adds_to_what_is_there_and_damage_starts_again(table):
    table.set_properties({"lakebed.index.advisor": "true"})
    for _ in range(2):
        reopen(table._storage).read(where="city = 'x'").read_all()
    assert [one.reads for one in reopen(table._storage).advise_indexes()] == [2]
    table._storage.put(PATH, b"[{}]")
    assert reopen(table._storage).advise_indexes() == ()
    reopen(table._storage).read(where="city = 'x'").read_all()
    assert [one.reads for one in table.advise_indexes()] == [1]


def test_an_index_that_would_find_too_many_rows_is_not_proposed(table):
    table.set_properties({"lakebed.index.advisor": "true"})
    flat = [{**row(n), "age": n % 3} for n in range(3000)]
    table.insert_overwrite(pa.Table.from_pylist(flat, schema=SCHEMA), whole_table=True)
    table.read(where="dt = 'p1' AND age > 3").read_all()
    table.read(where="age = 2").read_all()
    assert [one.columns for one in table.advise_indexes()] == []
