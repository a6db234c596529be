"""Write, read and look up a table on a cluster; prints what it found.

    python deploy/try_it.py --master spark://master:7077 --path s3://lake/trips

The credentials of the store come from the environment, here and where Spark's Python workers run.
"""

import argparse

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import lakebed

SETTINGS = {
    "spark.executor.memory": "1g",
    # Workers of tasks share one import of lakebed, instead of importing it in each.
    "spark.python.daemon.module": "lakebed.spark.daemon",
    "spark.speculation": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "50000",
}


def session(master: str) -> SparkSession:
    """Return a session on a cluster."""
    builder = SparkSession.builder.appName("lakebed").master(master)
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def run(spark: SparkSession, path: str, rows: int) -> None:
    """Load the table once more: the same keys, newer versions."""
    frame = spark.range(rows).select(
        "id",
        F.concat(F.lit("city"), F.col("id") % 10).alias("city"),
        (F.col("id") % 977 / 7).alias("fare"),
        F.unix_micros(F.current_timestamp()).alias("ts"),
    )
    try:
        table = lakebed.open_table(spark, path)
    except lakebed.NotFoundError:
        table = lakebed.create_table(spark, path, frame.schema, key="id", ordering="ts", buckets=4)
    print(table.upsert(frame))
    table.read(columns=["city", "fare"]).groupBy("city").count().orderBy("city").show()
    print(table.lookup([{"id": 7}]).to_pylist())
    print(table.describe())


def main() -> None:
    """Parse the arguments and run."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--path", required=True)
    parser.add_argument("--rows", type=int, default=100_000)
    arguments = parser.parse_args()
    spark = session(arguments.master)
    try:
        run(spark, arguments.path, arguments.rows)
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
