"""Write to one table from sessions of several kinds, and print how each went.

Usage: foreign_sessions.py <table path> <python of another version or ''>. One JVM serves
all: Spark takes `PYSPARK_PYTHON` anew for every SparkContext.
"""

import json
import os
import sys
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

import lakebed

outcomes: dict[str, Any] = {}


def session(python: str | None, **conf: str) -> SparkSession:
    os.environ.pop("PYSPARK_PYTHON", None)
    if python is not None:
        os.environ["PYSPARK_PYTHON"] = python
    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    for name, value in conf.items():
        builder = builder.config(name.replace("__", "."), value)
    return builder.getOrCreate()


def attempt(case: str, spark: SparkSession, rows: Any) -> None:
    try:
        table = lakebed.open_table(spark, sys.argv[1])
        table.insert(rows)
        outcomes[case] = ["rows", table.read().count()]
    except Exception as error:  # noqa: BLE001 - the test says which it may be
        outcomes[case] = [type(error).__name__, str(error)]


def some_rows(spark: SparkSession, start: int, stop: int) -> Any:
    return spark.range(start, stop).selectExpr("id", "'x' as v")


path, other = sys.argv[1:]
schema = pa.schema([("id", pa.int64()), ("v", pa.string())])
table = lakebed.create_table(None, path, schema, key="id", buckets=1, table_type="COPY_ON_WRITE")
table.bulk_insert(pa.table({"id": [0, 1, 2], "v": ["a", "b", "c"]}, schema))

spark = session(None)
attempt("bare python3 on the path", spark, some_rows(spark, 3, 6))
spark.stop()
if other:
    spark = session(other)
    attempt("another version", spark, some_rows(spark, 3, 6))
    spark.stop()
spark = session("/no/such/python")
attempt("no such python", spark, some_rows(spark, 3, 6))
spark.stop()
# However small: what runs on the driver has no second copy of a task.
on_spark = {"lakebed__spark__driver__max__bytes": "0"}
spark = session(sys.executable, spark__speculation="true", **on_spark)
attempt("speculation, DataFrame", spark, some_rows(spark, 3, 6))
attempt("speculation, Arrow data", spark, pa.table({"id": [9], "v": ["z"]}))
spark.stop()
spark = session(sys.executable, spark__speculation="false")
attempt("plain session", spark, some_rows(spark, 3, 6))
spark.stop()
outcomes["history"] = table.history().num_rows
print(json.dumps(outcomes))
