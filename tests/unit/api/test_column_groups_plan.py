"""The test plan of RFC-80, item by item; each test carries the words of its item.

Item 1, all existing tests pass on tables without column groups, is the rest of the suite: such
tables take the same path. Item 6 does not exist in the RFC.
"""

from typing import Any

import pyarrow as pa
import pytest

import lakebed
from lakebed.api.table import Table
from support.tables import make, reopen

SCHEMA = pa.schema(
    [("id", pa.int64()), ("ts", pa.int64()), ("name", pa.string()), ("score", pa.int64())]
)
TYPE = {"table_type": "MERGE_ON_READ", "table_version": None, "partition_by": ()}


def rows(*keys: int, at: int) -> pa.Table:
    found = [{"id": k, "ts": at, "name": f"n{k}", "score": k * at} for k in keys]
    return pa.Table.from_pylist(found, SCHEMA)


def scores(*keys: int, at: int) -> pa.Table:
    return rows(*keys, at=at).select(["id", "ts", "score"])


def table(**more: Any) -> Table:
    return make(
        schema=SCHEMA, ordering=("ts",), **TYPE, **{"column_groups": {"risk": "score"}, **more}
    )


def shown(t: Table, **how: Any) -> list[dict[str, Any]]:
    return sorted(t.read(**how).read_all().to_pylist(), key=lambda row: row["id"])


def files(t: Table) -> set[tuple[str, str]]:
    return {(row["column_group"], row["level"]) for row in t.files().to_pylist()}


def test_plan_item_1_a_table_without_column_groups_is_byte_for_byte_what_it_was():
    """Without a group nothing in its files, their names or its properties speaks of groups."""
    t = make(schema=SCHEMA, ordering=("ts",), **TYPE | {"table_version": 10})
    t.bulk_insert(rows(1, 2, at=1))
    t.upsert(rows(2, 3, at=2))
    t.compact()
    stored = [
        part for e in t._storage.list("") for part in (e.path.encode(), t._storage.read(e.path))
    ]
    marks = (b"columngroup", b"column_group", b"colgroup")
    assert not [part for part in stored for mark in marks if mark in part]
    assert "column_group" not in t.files().schema.names


@pytest.mark.parametrize("spelling", ["hoodie.columngroup.risk", "hoodie.colgroup.risk"])
def test_plan_item_2_column_groups_are_set_when_a_merge_on_read_bucket_table_is_created(
    spelling: str,
):
    t = table(column_groups={}, properties={spelling: "id,score;ts"})
    assert [group.name for group in t.config.column_groups] == ["risk"]
    t.bulk_insert(rows(1, at=1))
    assert files(t) == {("", "L1"), ("risk", "L1")}
    assert [g.encode() for g in reopen(t._storage).config.column_groups] == ["score"]


@pytest.mark.parametrize("spelling", ["hoodie.columngroup.risk", "hoodie.colgroup.risk"])
def test_plan_item_2_column_groups_are_set_in_sql(spelling: str):
    catalog = lakebed.catalog(None, f"memory://plan/{spelling}")
    catalog.sql(
        "CREATE TABLE t (id BIGINT, ts BIGINT, name STRING, score BIGINT) TBLPROPERTIES "
        f"(primaryKey='id', preCombineField='ts', type='mor', '{spelling}'='id,score;ts')"
    )
    catalog.sql("INSERT INTO t VALUES (1, 1, 'one', 10)")
    assert files(catalog.table("t")) == {("", "L1"), ("risk", "L1")}
    catalog.sql("UPDATE t SET score = 11 WHERE id = 1")
    assert files(catalog.table("t")) == {("", "L1"), ("risk", "L1"), ("risk", "L0")}
    assert shown(catalog.table("t")) == [{"id": 1, "ts": 1, "name": "one", "score": 11}]


def test_plan_item_3_column_groups_are_added_and_deleted():
    t = table()
    t.bulk_insert(rows(1, 2, at=1))
    t.add_column_group("web", "clicks BIGINT, seen BIGINT", ordering="seen")
    t.upsert(pa.table({"id": [2], "clicks": [5], "seen": [1]}))
    assert [row["clicks"] for row in shown(t)] == [None, 5]
    t.drop_column_group("risk")
    assert shown(t)[1] == {"id": 2, "ts": 1, "name": "n2", "clicks": 5, "seen": 1}


def test_plan_item_3_column_groups_are_added_and_deleted_in_sql():
    catalog = lakebed.catalog(None, "memory://plan/alter")
    catalog.sql(
        "CREATE TABLE t (id BIGINT, name STRING, a BIGINT, b BIGINT, c BIGINT) TBLPROPERTIES "
        "(primaryKey='id', type='mor', table_version=10)"
    )
    catalog.sql("ALTER TABLE t SET TBLPROPERTIES ('hoodie.columngroup.k'='a,b,c;a')")
    catalog.sql("INSERT INTO t VALUES (1, 'one', 1, 2, 3)")
    assert files(catalog.table("t")) == {("", "L1"), ("k", "L1")}
    catalog.sql("ALTER TABLE t UNSET TBLPROPERTIES ('hoodie.columngroup.k')")
    assert shown(catalog.table("t")) == [{"id": 1, "name": "one"}]


def test_plan_item_4_data_is_written_by_column_groups():
    t = table()
    t.bulk_insert(rows(1, 2, at=1))
    commit = t.update_columns(scores(1, at=2))
    assert {stat.path.rpartition("_risk_")[1] for stat in commit.write_stats} == {"_risk_"}
    commit = t.upsert(rows(1, at=3).drop_columns(["score"]))
    assert not any("_risk" in stat.path for stat in commit.write_stats)


def test_plan_item_5_data_is_read_by_column_groups():
    t = table()
    t.bulk_insert(rows(1, 2, at=1))
    t.update_columns(scores(2, 9, at=2))
    notes = {note.name: note for note in t.explain(["score"]).groups}
    assert (notes["risk"].columns_in > 0, notes[""].columns_in + notes[""].keys_in) == (True, 0)
    assert [row["score"] for row in shown(t, columns=["id", "score"])] == [1, 4, 18]
    assert [row["name"] for row in shown(t, columns=["id", "name"])] == ["n1", "n2", None]


def test_plan_item_7_compaction_by_column_group():
    t = table(buckets=1)
    t.bulk_insert(rows(1, 2, at=1))
    t.update_columns(scores(1, at=2))
    t.upsert(rows(1, at=3))
    before = shown(t)
    t.compact(groups=["risk"])
    assert files(t) == {("", "L0"), ("", "L1"), ("risk", "L1")}
    t.compact()
    assert files(t) == {("", "L1"), ("risk", "L1")}
    assert shown(t) == before


def test_plan_item_8_full_compaction_merges_the_data_of_all_column_groups():
    t = table(buckets=1)
    t.bulk_insert(rows(1, 2, at=1))
    t.upsert(scores(2, 9, at=2))
    before = shown(t)
    t.compact(widen=True)
    assert files(t) == {("*", "L1")}
    [path] = [row["path"] for row in t.files().to_pylist()]
    assert set(SCHEMA.names) <= set(_schema(t, path).names)
    assert shown(t) == before
    t.update_columns(scores(1, at=3))
    assert [row["score"] for row in shown(t)] == [3, 4, 18]


def _schema(t: Table, path: str) -> pa.Schema:
    import pyarrow.parquet as pq

    return pq.read_schema(pa.BufferReader(t._storage.read(path)))


def test_the_multi_stream_join_of_the_rfc():
    """Orders, payments and scores arrive in any order; the wide rows are complete in the end."""
    t = lakebed.create_table(
        None,
        "memory://plan/orders",
        "id BIGINT, item STRING, ordered_at BIGINT, paid DOUBLE, paid_at BIGINT, score DOUBLE, scored_at BIGINT",
        key="id",
        buckets=2,
        column_groups={
            "orders": "item;ordered_at",
            "pay": "paid;paid_at",
            "risk": "score;scored_at",
        },
        properties={"hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL"},
    )
    streams = [
        pa.table({"id": [1, 2], "item": ["lamp", "chair"], "ordered_at": [1, 1]}),
        pa.table({"id": [2, 3], "paid": [20.0, 30.0], "paid_at": [2, 2]}),
        pa.table({"id": [1, 3], "score": [0.1, 0.3], "scored_at": [3, 3]}),
        pa.table({"id": [2], "paid": [19.0], "paid_at": [1]}),  # late
    ]
    for rows_ in streams:
        t.upsert(rows_)
    wanted = [(1, "lamp", None, 0.1), (2, "chair", 20.0, None), (3, None, 30.0, 0.3)]
    for _ in range(2):
        found = shown(t, columns=["id", "item", "paid", "score"])
        assert [tuple(row.values()) for row in found] == wanted
        t.compact(widen=True)
