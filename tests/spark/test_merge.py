"""Merges and updates on Spark: the same as in process, and what a Delta user types."""

import pathlib
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import lakebed
from lakebed.errors import InvalidError, SchemaError
from lakebed.model.options.writers import DRIVER_MAX_BYTES

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCHEMA = "id BIGINT, n BIGINT, s STRING, ts BIGINT"
FIRST = [(1, 10, "a", 5), (2, 20, "鍵", 5), (3, 30, "🗝", 5), (4, 40, "d", 5)]
SOURCE = [(1, 5, "x", 6), (2, 0, "y", 6), (3, 7, "z", 4), (9, 9, "w", 6)]


def arrow(rows: list[tuple[Any, ...]]) -> pa.Table:
    names = ("id", "n", "s", "ts")
    return pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows])


def rows_of(table: Any) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in table.to_arrow().to_pylist())


def merge(table: Any, source: Any) -> Any:
    builder = table.merge(source, "target.id = source.id")
    builder = builder.when_matched("source.n = 0").delete()
    builder = builder.when_matched("target.s = 'a'").update({"n": "target.n + source.n", "s": None})
    builder = builder.when_matched().update("all").when_not_matched().insert("all")
    return builder.when_not_matched_by_source("n > 1").update({"s": "upper(target.s)"}).execute()


@pytest.mark.parametrize(
    "kind",
    [
        {"table_type": "COPY_ON_WRITE"},
        {"table_type": "MERGE_ON_READ", "ordering": "ts"},
        {"table_type": "MERGE_ON_READ", "index": "global_simple", "buckets": None},
    ],
)
def test_a_merge_on_spark_is_the_merge_in_process(spark: SparkSession, path: str, kind: Any):
    found = []
    for session, where in ((None, f"{path}/a"), (spark, f"{path}/s")):
        table = lakebed.create_table(session, where, SCHEMA, key="id", **kind)
        table.insert(arrow(FIRST))
        source = arrow(SOURCE) if session is None else spark.createDataFrame(arrow(SOURCE))
        commit = merge(table, source)
        updated = table.update({"n": "n * 2"}, where="id > 3")
        counts = (commit.inserted, commit.updated, commit.deleted, updated.updated)
        # The upsert that a merge becomes; the deleted key 2 starts again.
        table.merge(
            source, ["id"]
        ).when_matched().update_all().when_not_matched().insert_all().execute()
        found.append((counts, rows_of(table)))
    assert found[0] == found[1]
    late = "ordering" in kind
    assert found[0][0] == (1, 2 if late else 3, 1, 2)


def test_a_small_merge_runs_beside_spark_and_a_column_on_it(spark: SparkSession, path: str):
    table = lakebed.create_table(spark, path, SCHEMA, key="id")
    table.insert(arrow(FIRST))
    source = spark.createDataFrame(arrow(SOURCE))
    spark.conf.unset(DRIVER_MAX_BYTES.name)
    try:
        assert merge(table, source).updated == 3
    finally:
        spark.conf.set(DRIVER_MAX_BYTES.name, "0")
    on = F.col("t.id") == F.col("s.id")
    builder = table.merge(source, on, source_alias="s", target_alias="t")
    builder = builder.when_matched(F.col("s.n") > 6).update(
        {
            "id": F.col("s.id"),
            "s": F.concat(F.col("t.s"), F.lit("!")),
            "n": "array_max(array(s.n, 1))",
        }
    )
    assert builder.execute().updated == 2
    assert [row[2] for row in rows_of(table) if row[0] in (3, 9)] == ["z!", "w!"]


def test_what_would_be_ambiguous_is_refused_on_spark_too(spark: SparkSession, path: str):
    table = lakebed.create_table(spark, path, SCHEMA, key="id", ordering="ts")
    table.insert(arrow(FIRST))
    twice = spark.createDataFrame(arrow([(1, 1, "a", 9), (1, 2, "b", 9)]))
    by_key = table.merge(twice, ["id"])
    with pytest.raises(InvalidError, match="2 source rows match the target row with key id=1"):
        by_key.when_matched().update({"n": "source.n"}).execute()
    with pytest.raises(InvalidError, match="2 source rows have the key id=1"):
        by_key.when_matched().update("all").when_not_matched().insert("all").execute()
    with pytest.raises(InvalidError, match="a row to insert has the key id=1"):
        once = twice.where("n = 1")
        table.merge(once, "source.n = target.n").when_not_matched().insert("all").execute()
    with pytest.raises(
        InvalidError, match=r"ordering value \(ts\) of the row with key id=1 is lower"
    ):
        table.update({"ts": "ts - 1"}, where="id = 1")
    with pytest.raises(SchemaError, match=r"no column nn \(did you mean n\?\)"):
        by_key.when_matched().update({"nn": "1"}).execute()
    with pytest.raises(InvalidError, match="nope"):
        by_key.when_matched().update({"n": "nope(source.n)"}).execute()
    assert by_key.when_matched().delete().execute().deleted == 1
    assert [row[0] for row in rows_of(table)] == [2, 3, 4]
