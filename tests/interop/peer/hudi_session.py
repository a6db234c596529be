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
    # Without the second, Hudi's size estimator starts three JVMs to look at this one, in vain.
    "spark.driver.extraJavaOptions": "-Duser.timezone=UTC -Djol.skipHotspotSAAttach=true",
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
    # The caller's may name Lakebed's own Spark and Python, which are of another version.
    for name in ("SPARK_HOME", "SPARK_CONF_DIR", "PYSPARK_DRIVER_PYTHON", "PYSPARK_SUBMIT_ARGS"):
        os.environ.pop(name, None)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["TZ"] = "UTC"
    time.tzset()
    builder = SparkSession.builder.master(f"local[{cores}]").appName("lakebed-hudi-peer")
    where = {"spark.sql.warehouse.dir": warehouse, "spark.driver.memory": memory}
    for key, value in (CONFIG | where | (more or {})).items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


if __name__ == "__main__":
    session = start_session(os.path.join(os.getcwd(), "spark-warehouse"), cores=1, memory="512m")
    meta_folder = session._jvm.org.apache.hudi.common.table.HoodieTableMetaClient.METAFOLDER_NAME
    session.stop()
    if meta_folder != ".hoodie":
        sys.exit(f"{BUNDLE}: its classes are not in the session")
