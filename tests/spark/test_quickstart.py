"""Apache Hudi's quickstart for PySpark with another format's name; docs/quickstart-hudi.md has the limits.

The statements are those of the Python tabs, in their order, on one path. What Hudi 1.2.0 answers
to them was looked at: the keys it makes, an upsert of rows that bring their key, tables that
mode overwrite replaces.
"""

import json
from typing import Any

import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col

import lakebed

COLUMNS = ["ts", "uuid", "rider", "driver", "fare", "city"]
DATA = [
    (1695159649087, "334e26e9-8355-45cc-97c6-c31daf0df330", "rider-A", "driver-K", 19.10, "san_francisco"),
    (1695091554788, "e96c4396-3fad-413a-a942-4cb36106d721", "rider-C", "driver-M", 27.70, "san_francisco"),
    (1695046462179, "9909a8b1-2d15-4d3d-8ec9-efc48c536a00", "rider-D", "driver-L", 33.90, "san_francisco"),
    (1695516137016, "e3cf430c-889d-4015-bc98-59bdce1e530c", "rider-F", "driver-P", 34.15, "sao_paulo"),
    (1695115999911, "c8abbe79-8d89-47ea-b4ce-4d224bae5bfa", "rider-J", "driver-T", 17.85, "chennai"),
]  # fmt: skip
CHANGED = [
    (1695159649087, "334e26e9-8355-45cc-97c6-c31daf0df330", "rider-A", "driver-K", 19.10, "san_francisco"),
    (1695091554788, "e96c4396-3fad-413a-a942-4cb36106d721", "rider-B", "driver-L", 27.70, "san_francisco"),
    (1695046462179, "9909a8b1-2d15-4d3d-8ec9-efc48c536a00", "rider-C", "driver-M", 33.90, "san_francisco"),
    (1695516137016, "e3cf430c-889d-4015-bc98-59bdce1e530c", "rider-C", "driver-N", 34.15, "sao_paulo"),
]  # fmt: skip
NAME = "trips_table"
HUDI_OPTIONS = {"hoodie.table.name": NAME, "hoodie.datasource.write.partitionpath.field": "city"}


def fares(frame: DataFrame) -> dict[str, float]:
    return {row["rider"]: row["fare"] for row in frame.select("rider", "fare").collect()}


def test_the_quickstart_runs_with_only_the_formats_name_changed(spark: SparkSession, path: str):
    inserts = spark.createDataFrame(DATA).toDF(*COLUMNS)
    inserts.write.format("lakebed").options(**HUDI_OPTIONS).mode("overwrite").save(path)

    spark.read.format("lakebed").load(path).createOrReplaceTempView("trips_table")
    query = "SELECT uuid, fare, ts, rider, driver, city FROM  trips_table WHERE fare > 20.0"
    assert len(spark.sql(query).collect()) == 3
    query = (
        "SELECT _hoodie_commit_time, _hoodie_record_key, _hoodie_partition_path, rider, driver, "
        "fare FROM trips_table"
    )
    first = spark.sql(query).collect()
    assert len({row["_hoodie_record_key"] for row in first}) == 5
    inserted_at = first[0]["_hoodie_commit_time"]

    updates = spark.read.format("lakebed").load(path).filter("rider == 'rider-D'")
    updates = updates.withColumn("fare", col("fare") * 10)
    updates.write.format("lakebed").options(**HUDI_OPTIONS).mode("append").save(path)
    assert fares(spark.read.format("lakebed").load(path)) == {
        "rider-A": 19.1, "rider-C": 27.7, "rider-D": 339.0, "rider-F": 34.15, "rider-J": 17.85,
    }  # fmt: skip

    deletes = spark.read.format("lakebed").load(path).filter("rider == 'rider-F'")
    delete_options = {**HUDI_OPTIONS, "hoodie.datasource.write.operation": "delete"}
    deletes.write.format("lakebed").options(**delete_options).mode("append").save(path)
    assert "rider-F" not in fares(spark.read.format("lakebed").load(path))

    past = spark.read.format("lakebed").option("as.of.instant", inserted_at).load(path)
    assert fares(past)["rider-D"] == 33.9
    dotted = "{}-{}-{} {}:{}:{}.{}".format(
        *(inserted_at[a:b] for a, b in ((0, 4), (4, 6), (6, 8), (8, 10), (10, 12), (12, 14), (14, 17)))
    )  # fmt: skip
    past = spark.read.format("lakebed").option("as.of.instant", dotted).load(path)
    assert len(fares(past)) == 5
    past = spark.read.format("lakebed").option("as.of.instant", "2021-07-28").load(path)
    assert past.count() == 0

    spark.read.format("lakebed").load(path).createOrReplaceTempView("trips_table")
    query = (
        "SELECT DISTINCT(_hoodie_commit_time) AS commitTime FROM  trips_table ORDER BY commitTime"
    )
    commits = [row[0] for row in spark.sql(query).limit(50).collect()]
    begin = commits[len(commits) - 2]
    incremental_read_options = {
        "hoodie.datasource.query.type": "incremental",
        "hoodie.datasource.read.begin.instanttime": begin,
    }
    increment = spark.read.format("lakebed").options(**incremental_read_options).load(path)
    increment.createOrReplaceTempView("trips_incremental")
    query = (
        "SELECT `_hoodie_commit_time`, fare, rider, driver, uuid, ts FROM trips_incremental "
        "WHERE fare > 20.0"
    )
    assert {row["rider"] for row in spark.sql(query).collect()} >= {"rider-D"}


def test_the_quickstarts_changes_are_read(spark: SparkSession, path: str):
    options = {**HUDI_OPTIONS, "hoodie.table.cdc.enabled": "true"}
    inserts = spark.createDataFrame(CHANGED).toDF(*COLUMNS)
    inserts.write.format("lakebed").options(**options).mode("overwrite").save(path)
    updates = spark.read.format("lakebed").load(path)
    updates = updates.filter("rider == 'rider-A' or rider == 'rider-B'")
    updates = updates.withColumn("fare", col("fare") * 10)
    updates.write.format("lakebed").mode("append").save(path)
    cdc_read_options: dict[str, Any] = {
        "hoodie.datasource.query.incremental.format": "cdc",
        "hoodie.datasource.query.type": "incremental",
        "hoodie.datasource.read.begin.instanttime": 0,
    }
    changes = spark.read.format("lakebed").options(**cdc_read_options).load(path).collect()
    assert sorted(row.op for row in changes) == ["i"] * 4 + ["u"] * 2
    fare = {json.loads(row.after)["rider"]: json.loads(row.after)["fare"] for row in changes if row.op == "u"}  # fmt: skip
    assert fare == {"rider-A": 191.0, "rider-B": 277.0}


def test_the_quickstarts_table_types_keys_and_merge_modes(spark: SparkSession, path: str):
    inserts = spark.createDataFrame(DATA).toDF(*COLUMNS)
    inserts.write.format("lakebed").options(**HUDI_OPTIONS).mode("overwrite").save(path)
    options = {**HUDI_OPTIONS, "hoodie.datasource.write.table.type": "MERGE_ON_READ"}
    inserts.write.format("lakebed").options(**options).mode("overwrite").save(path)
    options |= {"hoodie.datasource.write.recordkey.field": "uuid"}
    options |= {"hoodie.table.ordering.fields": "ts"}
    inserts.write.format("lakebed").options(**options).mode("overwrite").save(path)
    late = inserts.filter("rider == 'rider-A'").withColumn("fare", col("fare") * 2)
    late.withColumn("ts", col("ts") - 1).write.format("lakebed").options(**options).mode(
        "append"
    ).save(path)
    config = lakebed.open_table(None, path).config
    assert (config.table_type, config.record_key_fields) == ("MERGE_ON_READ", ("uuid",))
    assert fares(spark.read.format("lakebed").load(path))["rider-A"] == 19.1


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE trips SET fare = 25.0 WHERE rider = 'rider-D'",
        "DELETE FROM trips WHERE uuid = '334e26e9-8355-45cc-97c6-c31daf0df330'",
        "MERGE INTO trips t USING trips s ON t.uuid = s.uuid WHEN MATCHED THEN DELETE",
        "SELECT * FROM trips TIMESTAMP AS OF '2022-03-08'",
        "SELECT * FROM hudi_table_changes('trips', 'latest_state', 'earliest')",
        "CREATE INDEX record_index ON trips (uuid)",
    ],
)
def test_statements_of_sql_that_need_a_connector_of_java_are_refused_by_spark(
    spark: SparkSession, path: str, statement: str
):
    schema = pa.schema([(name, pa.string()) for name in COLUMNS])
    lakebed.create_table(None, path, schema, key="uuid")
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW trips USING lakebed OPTIONS (path '{path}')")
    with pytest.raises((PySparkException, Py4JJavaError)):
        spark.sql(statement).collect()
