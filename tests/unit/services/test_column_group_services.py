"""Services on tables with column groups: cleaning, rollback, restore, savepoints, conversion."""

from typing import Any

import pyarrow as pa
import pytest

from lakebed.api.table import Table
from lakebed.errors import LakebedError, UnsupportedError
from support.tables import make

SCHEMA = pa.schema(
    [("id", pa.int64()), ("ts", pa.int64()), ("name", pa.string()), ("score", pa.int64())]
)
CLEAN = {"hoodie.clean.commits.retained": "1", "lakebed.clean.min.age.seconds": "0"}


def table(**more: Any) -> Table:
    t = make(
        schema=SCHEMA,
        ordering=("ts",),
        partition_by=(),
        table_type="MERGE_ON_READ",
        table_version=None,
        column_groups={"risk": ["score"]},
        properties={"hoodie.clean.automatic": "false", **more},
    )
    t.bulk_insert(whole(1, 2, 3, ts=1))
    return t


def whole(*keys: int, ts: int) -> pa.Table:
    return pa.Table.from_pylist(
        [{"id": k, "ts": ts, "name": f"n{k}", "score": k * ts} for k in keys], SCHEMA
    )


def scores(*keys: int, ts: int) -> pa.Table:
    return whole(*keys, ts=ts).select(["id", "ts", "score"])


def shown(t: Table) -> list[dict[str, Any]]:
    return sorted(t.read().read_all().to_pylist(), key=lambda row: row["id"])


def names(t: Table, group: str) -> list[str]:
    paths = [entry.path for entry in t._storage.list() if ".hoodie" not in entry.path]
    return [path for path in paths if f"_{group}" in path]


def test_each_group_is_compacted_and_cleaned_at_its_own_pace():
    t = table()
    for ts in (2, 3, 4):
        t.update_columns(scores(1, 2, ts=ts))
        t.compact()
    before = shown(t)
    assert sum(path.endswith(".parquet") and "log" not in path for path in names(t, "risk")) > 2
    t.clean(options=CLEAN)
    assert shown(t) == before
    default = t.files().to_pylist()
    assert {file["column_group"] for file in default} == {"", "risk"}
    assert not t.verify().findings


def test_cleaning_removes_the_files_of_a_dropped_group():
    t = table()
    t.update_columns(scores(9, ts=5))
    t.drop_column_group("risk")
    for ts in (6, 7, 8):
        t.upsert(whole(1, ts=ts).drop_columns(["score"]))
    before = shown(t)
    assert names(t, "risk")
    t.clean(options=CLEAN)
    assert not names(t, "risk")
    assert shown(t) == before
    assert [row["id"] for row in before] == [1, 2, 3, 9]
    assert not t.verify().findings


def test_a_rollback_of_a_definition_undoes_it():
    t = table()
    before = shown(t)
    added = t.add_column_group("web", "clicks BIGINT")
    t.rollback(added.instant)
    assert shown(t) == before
    t.add_column_group("web", "clicks BIGINT, seen BIGINT", ordering="seen")
    t.upsert(pa.table({"id": [1], "clicks": [5], "seen": [1]}))
    dropped = t.drop_column_group("risk")
    assert "score" not in shown(t)[0]
    t.rollback(dropped.instant)
    assert [{k: row[k] for k in SCHEMA.names} for row in shown(t)] == before
    assert shown(t)[0]["clicks"] == 5


def test_a_restore_brings_back_the_groups_of_its_time():
    t = table()
    before, point = shown(t), t.history().column("instant")[0].as_py()
    t.savepoint(point)
    t.add_column_group("web", "clicks BIGINT")
    t.drop_column_group("risk")
    t.upsert(pa.table({"id": [4], "clicks": [1], "ts": [1]}))
    assert [row["id"] for row in shown(t)] == [1, 2, 3, 4]
    t.restore(point)
    assert shown(t) == before
    assert {group.name for group in t.config.column_groups} == {"risk"}
    assert not t.verify().findings


def test_reads_of_the_past_see_the_groups_of_their_time():
    t = table()
    before, point = shown(t), t.history().column("instant")[0].as_py()
    t.drop_column_group("risk")
    t.add_column_group("web", "clicks BIGINT")
    assert sorted(t.read(as_of=point).read_all().to_pylist(), key=lambda r: r["id"]) == before
    assert "clicks" in shown(t)[0]


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (lambda t: t.cluster(), "cluster"),
        (lambda t: t.downgrade(9), "column groups"),
        (lambda t: t.downgrade(layout="default"), "column groups"),
        (lambda t: t.drop_column("score"), "drop_column_group"),
    ],
)
def test_what_has_no_meaning_for_groups_is_refused(act: Any, words: str):
    t = table()
    before = {entry.path for entry in t._storage.list()}
    with pytest.raises(LakebedError, match=words):
        act(t)
    assert {entry.path for entry in t._storage.list()} == before


def test_a_table_of_version_9_is_refused_with_a_hint_and_upgraded_takes_groups():
    t = make(schema=SCHEMA, ordering=("ts",), partition_by=(), table_type="MERGE_ON_READ")
    t.bulk_insert(whole(1, ts=1))
    with pytest.raises(UnsupportedError, match=r"upgrade\(\)"):
        t.add_column_group("web", "clicks BIGINT")
    t.upgrade(10)
    t.add_column_group("web", "clicks BIGINT")
    t.upsert(pa.table({"id": [1, 2], "ts": [1, 1], "clicks": [7, 8]}))
    assert [row["clicks"] for row in shown(t)] == [7, 8]


def test_a_compaction_of_one_group_leaves_the_others_alone():
    t = table()
    t.update_columns(scores(1, 2, ts=2))
    t.upsert(whole(1, ts=3))
    done = t.compact(groups=["risk"])
    assert {stat["column_group"] for stat in t.files().to_pylist() if stat["level"] == "L0"} == {""}
    assert [compaction.full for compaction in done]
    with pytest.raises(LakebedError, match="no column group 'wide'"):
        t.compact(groups=["wide"])


def test_a_group_compacted_without_new_keys_is_not_opened_for_the_keys_of_others():
    t = table()
    t.update_columns(scores(1, 2, ts=2))
    t.compact(groups=["risk"])
    explained = t.explain(columns=["name"]).to_dict()
    assert [g["name"] for g in explained["groups"] if g["columns_in"] or g["keys_in"]] == [""]
    t.update_columns(scores(7, ts=2))
    t.compact(groups=["risk"])
    explained = t.explain(columns=["name"]).to_dict()
    assert [g["name"] for g in explained["groups"] if g["columns_in"] or g["keys_in"]] == [
        "",
        "risk",
    ]
    assert t.read(columns=["name"]).read_all().num_rows == 4
