"""The simple indexes on Spark: the join finds what the merge in process finds."""

import random
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import lakebed
from lakebed.errors import KeyValueError
from spark.frames import arrow_rows, rows, session_conf, strays
from support.s3 import S3Server

DDL = "id string, dt string, ts bigint, v bigint"
SCHEMA = pa.schema(
    [("id", pa.string()), ("dt", pa.string()), ("ts", pa.int64()), ("v", pa.int64())]
)
Row = dict[str, Any]


def some_rows(seed: int, count: int = 60) -> list[Row]:
    """Return rows with repeated keys, in several partitions."""
    dice = random.Random(seed)
    return [
        {
            "id": f"k{dice.randrange(30)}",
            "dt": dice.choice("pqr"),
            "ts": dice.randrange(5),
            "v": seed * 1000 + number,
        }
        for number in range(count)
    ]


def frame_of(spark: SparkSession, found: list[Row]) -> DataFrame:
    """Return the rows as a frame; Spark cuts it into tasks in the order of the rows."""
    return spark.createDataFrame([tuple(row[name] for name in SCHEMA.names) for row in found], DDL)


@pytest.mark.parametrize(
    ("table_type", "index", "ordering"),
    [
        ("COPY_ON_WRITE", "simple", None),
        ("MERGE_ON_READ", "simple", "ts"),
        ("COPY_ON_WRITE", "global_simple", "ts"),
        ("MERGE_ON_READ", "global_simple", None),
        ("MERGE_ON_READ", "bloom", None),
        ("COPY_ON_WRITE", "global_bloom", "ts"),
        ("COPY_ON_WRITE", "record", None),
        ("MERGE_ON_READ", "global_record", "ts"),
    ],
)
def test_spark_and_the_process_make_the_same_table(
    spark: SparkSession, path: str, table_type: str, index: str, ordering: str | None
):
    how: dict[str, Any] = {"key": "id", "partition_by": "dt", "table_type": table_type}
    how |= {"index": index, "ordering": ordering}
    ours = lakebed.create_table(None, f"{path}-arrow", SCHEMA, **how)
    theirs = lakebed.create_table(spark, f"{path}-spark", SCHEMA, **how)
    for step in range(2):
        # A shuffled join at one step, a broadcast one at the next.
        threshold = "-1" if step % 2 else "10MB"
        with session_conf(spark, spark__sql__autoBroadcastJoinThreshold=threshold):
            came = some_rows(step)
            ours.upsert(pa.Table.from_pylist(came, schema=SCHEMA))
            theirs.upsert(frame_of(spark, came))
            gone = some_rows(step + 10, 4)
            ours.delete(pa.Table.from_pylist(gone, schema=SCHEMA))
            theirs.delete(frame_of(spark, gone))
        assert rows(theirs.read()) == arrow_rows(ours.read())
    assert strays(theirs) == []


def test_of_equal_keys_the_last_to_arrive_wins_whatever_the_join(spark: SparkSession, path: str):
    table = lakebed.create_table(spark, path, SCHEMA, key="id", index="simple")
    table.upsert(frame_of(spark, [{"id": "a", "dt": "p", "ts": 0, "v": -1}]))
    came = [{"id": key, "dt": "p", "ts": 0, "v": n} for n in range(500) for key in "ab"]
    for threshold in ("-1", "10MB"):
        with session_conf(spark, spark__sql__autoBroadcastJoinThreshold=threshold):
            table.upsert(frame_of(spark, came))
        found = {row["id"]: row["v"] for row in table.read().collect()}
        assert found == {"a": 499, "b": 499}


def test_a_key_in_two_file_groups_is_updated_and_deleted_in_both(spark: SparkSession, path: str):
    properties = {"hoodie.parquet.small.file.limit": "0"}
    table = lakebed.create_table(
        spark, path, SCHEMA, key="id", index="simple", properties=properties
    )
    one = [{"id": "a", "dt": "p", "ts": 0, "v": 1}, {"id": "b", "dt": "p", "ts": 0, "v": 1}]
    table.insert(frame_of(spark, one))
    table.insert(frame_of(spark, one))
    assert table.read().count() == 4
    table.upsert(frame_of(spark, [{**one[0], "v": 2}]))
    assert sorted((r["id"], r["v"]) for r in table.read().collect()) == [
        ("a", 2),
        ("a", 2),
        ("b", 1),
        ("b", 1),
    ]
    table.delete(where="id = 'b'")
    assert {row["id"] for row in table.read().collect()} == {"a"}


def test_a_key_that_no_table_can_hold_is_an_error_of_ours(spark: SparkSession, path: str):
    table = lakebed.create_table(spark, path, SCHEMA, key="id", index="simple")
    table.upsert(frame_of(spark, [{"id": "a", "dt": "p", "ts": 0, "v": 1}]))
    with pytest.raises(KeyValueError, match="'id'"):
        table.upsert(frame_of(spark, [{"id": None, "dt": "p", "ts": 0, "v": 1}]))
    assert table.read().count() == 1


@pytest.mark.parametrize("index", ["simple", "global_simple"])
def test_keys_are_found_where_spark_cannot_open_the_files(
    spark: SparkSession, s3_server: S3Server, index: str
):
    table = lakebed.create_table(
        spark,
        f"s3://{s3_server.bucket}/located-{index}",
        SCHEMA,
        key="id",
        partition_by="dt",
        index=index,
        storage_options=s3_server.options(),
    )
    table.upsert(frame_of(spark, [{"id": k, "dt": "p", "ts": 0, "v": 1} for k in "abc"]))
    table.upsert(frame_of(spark, [{"id": k, "dt": "p", "ts": 0, "v": 2} for k in "bcd"]))
    found = sorted((row["id"], row["v"]) for row in table.read().collect())
    assert found == [("a", 1), ("b", 2), ("c", 2), ("d", 2)]


@pytest.mark.parametrize("index", ["simple", "global_simple"])
def test_keys_of_tombstones_and_of_logs_are_found(spark: SparkSession, path: str, index: str):
    table = lakebed.create_table(
        spark,
        path,
        SCHEMA,
        key="id",
        ordering="ts",
        index=index,
        table_type="MERGE_ON_READ",
        properties={"lakebed.spark.driver.max.bytes": "0"},
    )
    table.bulk_insert(frame_of(spark, [{"id": k, "dt": "p", "ts": 1, "v": 1} for k in "abc"]))
    gone = pa.Table.from_pylist([{"id": "a", "dt": "p", "ts": 5, "v": 1}], SCHEMA)
    table.upsert(gone.append_column("_hoodie_is_deleted", pa.array([True])))
    table.delete([{"id": "b"}])
    table.schedule_compaction()
    table.upsert(frame_of(spark, [{"id": "b", "dt": "p", "ts": 2, "v": 2}]))
    table.compact()
    late = [{"id": "a", "dt": "p", "ts": 3, "v": 3}, {"id": "b", "dt": "p", "ts": 3, "v": 3}]
    table.upsert(frame_of(spark, late))
    found = sorted((row["id"], row["v"]) for row in table.read().collect())
    assert found == [("b", 3), ("c", 1)]
