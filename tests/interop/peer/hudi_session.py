"""Start the one Spark session in which Apache Hudi's bundle runs; run as a script, only fetch the bundle.

Runs in the peer environment (requirements/hudi.txt), never in Lakebed's own: Hudi 1.2.0 has no
bundle for the Spark that Lakebed needs.
"""

import os
import sys
import time

from pyspark.sql import SparkSession

BUNDLE = "org.apache.hudi:hudi-spark3.5-bundle_2.12:1.2.0"

CONFIG = {
    "spark.jars.packages": BUNDLE,
    "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
    "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
    "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
    "spark.sql.session.timeZone": "UTC",
    "spark.driver.extraJavaOptions": "-Duser.timezone=UTC",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    # INT96, Spark's own default, has no unit and no zone: a test could not tell what was written.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # Answers hold dates before 1582 as they are. Reading stays at Spark's default, which refuses
    # such dates in files that do not say which calendar they use: our tables must say it.
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
}


def start_session(
    warehouse: str, *, cores: int = 2, memory: str = "2g", more: dict[str, str] | None = None
) -> SparkSession:
    """Start a local session with Hudi's bundle; `warehouse` takes the tables that SQL makes."""
    os.environ["TZ"] = "UTC"
    time.tzset()
    builder = SparkSession.builder.master(f"local[{cores}]").appName("lakebed-hudi-peer")
    where = {"spark.sql.warehouse.dir": warehouse, "spark.driver.memory": memory}
    for key, value in (CONFIG | where | (more or {})).items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


if __name__ == "__main__":
    session = start_session(os.path.join(os.getcwd(), "spark-warehouse"), cores=1, memory="512m")
    session._jvm.java.lang.Class.forName("org.apache.hudi.DefaultSource")
    session.stop()
    print(f"Hudi's bundle is here: {BUNDLE}", file=sys.stderr)
