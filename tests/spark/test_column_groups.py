"""Column groups on Spark: the rows of the model, through workers and through the data source."""

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import lakebed
from lakebed.model.options.writers import DRIVER_MAX_BYTES
from spark.frames import session_conf
from support.grouped import GroupedModel
from support.grouped_history import KEYS, GroupedHistory, as_table, by_key

DDL = "id bigint, dt string, ts bigint, name string, score double, band string, scored_at bigint"
ROWS = 6_000


@pytest.fixture(params=["0", "64MB"])
def near(request, spark: SparkSession):
    """Let Spark's workers do all work, or the driver what is small."""
    with session_conf(spark, **{DRIVER_MAX_BYTES.name: request.param}):
        yield


def test_writes_of_some_groups_reach_only_their_files(spark, path, near):
    groups = {"risk": "score,band;scored_at"}
    t = lakebed.create_table(
        spark, path, DDL, key="id", ordering="ts", partition_by="dt", column_groups=groups
    )
    whole = (
        "id",
        "concat('d', id % 3) dt",
        "1L ts",
        "concat('n', id) name",
        "id / 2D score",
        "'x' band",
        "5L scored_at",
    )
    t.bulk_insert(spark.range(ROWS).selectExpr(*whole))
    scores = spark.range(100, ROWS + 100, 100).selectExpr(
        "id", "concat('d', id % 3) dt", "1D score", "'up' band", "6L scored_at"
    )
    commit = t.upsert(scores)
    assert all("_risk_" in (stat.path or "") for stat in commit.write_stats)
    names = spark.range(50).selectExpr("id", "concat('d', id % 3) dt", "2L ts", "'new' name")
    commit = t.update_columns(names)
    assert not any("_risk" in (stat.path or "") for stat in commit.write_stats)
    t.delete([{"id": 0, "dt": "d0"}])
    for _ in range(2):
        assert t.read(where="band = 'up'").count() == ROWS // 100
        assert t.read(where="name = 'new'").count() == 49
        loaded = spark.read.format("lakebed").load(path)
        assert loaded.where("band = 'up' and name is null").count() == 1
        for columns in (["name"], ["score"], ["dt"], ["ts", "band"]):
            assert t.read(columns=columns).count() == ROWS, columns
        assert t.count() == ROWS
        t.compact()


def test_merges_win_in_every_group_and_delete_what_a_group_has_never_held(spark, path, near):
    ddl = "id bigint, ts bigint, name string, score double, scored_at bigint, clicks bigint"
    groups = {"risk": "score;scored_at", "web": ["clicks"]}
    t = lakebed.create_table(
        spark, path, ddl, key="id", ordering="ts", buckets=1, column_groups=groups
    )
    t.upsert(spark.range(1, 4).selectExpr("id", "5L ts", "concat('n', id) name"))
    t.upsert(spark.range(1, 2).selectExpr("id", "9L ts", "7L clicks"))
    t.update({"clicks": "coalesce(clicks, 0) + 1", "name": "upper(name)"})
    deleting = t.merge(spark.range(3, 4), ["id"]).when_matched().delete()
    commit = deleting.when_not_matched_by_source("id = 2").update({"clicks": 20}).execute()
    assert (commit.updated, commit.deleted) == (1, 1)
    for _ in range(2):
        found = t.read(columns=["id", "ts", "name", "clicks"]).collect()
        assert sorted(map(tuple, found)) == [(1, 5, "N1", 8), (2, 5, "N2", 20)]
        t.compact()


def test_one_group_without_logs_is_read_by_spark_itself(spark, path):
    groups = {"risk": ["score", "band", "scored_at"]}
    t = lakebed.create_table(spark, path, DDL, key="id", ordering="ts", column_groups=groups)
    t.bulk_insert(
        spark.range(100).selectExpr(
            "id", "'a' dt", "1L ts", "'n' name", "1D score", "'x' band", "5L scored_at"
        )
    )
    plan = t.read(columns=["score", "id"])._jdf.queryExecution().executedPlan().toString()
    assert "FileScan parquet" in plan
    assert "MapInArrow" not in plan
    assert t.read(columns=["score", "id"]).count() == 100


def test_a_widened_table_without_logs_is_read_by_spark_itself(spark, path):
    groups = {"risk": ["score", "band", "scored_at"]}
    t = lakebed.create_table(spark, path, DDL, key="id", ordering="ts", column_groups=groups)
    whole = "id", "'a' dt", "1L ts", "'n' name", "1D score", "'x' band", "5L scored_at"
    t.bulk_insert(spark.range(100).selectExpr(*whole))
    t.compact(widen=True)
    read = t.read(columns=["score", "name"])
    plan = read._jdf.queryExecution().executedPlan().toString()
    assert "FileScan parquet" in plan
    assert "MapInArrow" not in plan
    assert {tuple(row) for row in read.collect()} == {(1.0, "n")}
    scores = spark.range(1, 3).selectExpr("id", "2L ts", "2D score")
    t.update_columns(scores)
    assert t.read(where="score = 2 AND name = 'n'").count() == 2
    assert spark.read.format("lakebed").load(path).where("score = 2 and name = 'n'").count() == 2


@pytest.mark.parametrize("seed", [11, 12, 17])
def test_random_histories_are_the_same_on_spark(spark, path, seed):
    history = GroupedHistory(seed, alters=False)
    t = lakebed.create_table(
        spark,
        path,
        _schema(history),
        key="id",
        ordering=list(history.table.config.ordering_fields),
        column_groups={g.name: g.encode() for g in history.table.config.column_groups},
    )
    model = GroupedModel(history.model.groups)
    with session_conf(spark, **{DRIVER_MAX_BYTES.name: "0"}):
        for number in range(5):
            picked = [list(model.groups.columns), ["risk"], [""]][max(0, number - 2)]
            names = [name for group in picked for name in model.groups.columns[group]]
            order = [model.groups.ordering[group] for group in picked]
            names += [name for name in dict.fromkeys(order) if name and name not in names]
            rows = history.rows(names, flagged=number == 2)
            model.write(rows, deleted="_hoodie_is_deleted" if number == 2 else None)
            t.upsert(spark.createDataFrame(as_table(rows)))
        found = pa.Table.from_batches(t.read().toArrow().to_batches())
        assert by_key(found) == model.rows()
        state = by_key(t.lookup([{"id": key} for key in range(KEYS)]))
        assert state == model.rows()
        t.compact(widen=seed % 2 == 0)
        assert by_key(t.read().toArrow()) == model.rows()
        rows = history.rows(names, flagged=False)
        model.write(rows)
        t.update_columns(spark.createDataFrame(as_table(rows)))
        assert by_key(t.read().toArrow()) == model.rows()
        t.compact(widen=True)
        assert by_key(t.read().toArrow()) == model.rows()
        scored = {row["id"] for row in model.rows().values() if (row["score"] or 0) > 40}
        found = t.read(columns=["id", "name"], where="score > 40").toArrow()
        assert set(found.column("id").to_pylist()) == scored


def _schema(history: GroupedHistory) -> pa.Schema:
    return history.table.read().schema
