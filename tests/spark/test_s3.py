"""A table in an object store for which Spark has no connector: workers go through our storage."""

import pytest
from pyspark.sql import SparkSession

import lakebed
from lakebed.errors import InvalidError, KeyValueError
from spark.frames import arrow_rows, every_type, rows, session_conf
from support.s3 import S3Server


def test_workers_write_and_read_a_table_on_s3(spark: SparkSession, s3_server: S3Server):
    url, options = f"s3://{s3_server.bucket}/warehouse/every type", s3_server.options()
    frame = every_type(spark)
    table = lakebed.create_table(
        spark,
        url,
        frame.schema,
        key="id",
        ordering="ts",
        partition_by="yes",
        table_type="COPY_ON_WRITE",
        buckets=1,
        storage_options=options,
    )
    first = table.bulk_insert(frame)
    assert rows(table.read()) == rows(frame)
    assert rows(table.read(["id", "text"], where="ts >= 3")) == rows(
        frame.where("ts >= 3").select("id", "text")
    )
    later = frame.where("id = 'usual'").selectExpr("*").replace("湖床 🏞️ é", "neu", "text")
    table.insert(later.unionAll(frame.where("id = 'nulls'").replace("nulls", "more", "id")))
    assert table.read(where="text = 'neu'").count() == 1
    assert table.read().count() == 5
    assert rows(table.read(as_of=first.instant)) == rows(frame)
    opened = lakebed.open_table(None, url, options)
    assert arrow_rows(opened.read()) == arrow_rows(table.read().toArrow())


def test_a_failed_write_leaves_nothing_on_s3(spark: SparkSession, s3_server: S3Server):
    url, options = f"s3://{s3_server.bucket}/failed", s3_server.options()
    table = lakebed.create_table(spark, url, "id string", key="id", storage_options=options)
    with pytest.raises(KeyValueError):
        table.bulk_insert(spark.createDataFrame([("a",), (None,)], "id string"))
    storage = table._storage
    left = [path for entry in storage.list("") if "/.locks/" not in (path := entry.path)]
    assert left == [".hoodie/hoodie.properties"]
    assert table.read().count() == 0


def test_reading_through_python_refuses_a_codec_with_which_spark_hardly_moves(
    spark: SparkSession, s3_server: S3Server
):
    url, options = f"s3://{s3_server.bucket}/codec", s3_server.options()
    table = lakebed.create_table(spark, url, "id string", key="id", storage_options=options)
    table.bulk_insert(spark.createDataFrame([("a",)], "id string"))
    with (
        session_conf(spark, spark__sql__execution__arrow__compression__codec="lz4"),
        pytest.raises(InvalidError, match="set it to none"),
    ):
        table.read()
