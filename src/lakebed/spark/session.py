"""A SparkSession set up right, and the check of one that is not.

A user trips over four things: the workers' Python, the size of Arrow batches, filter
push-down being off, and the seconds that a cold Python worker takes. `local_session`
settles them; another session works too, or gets a sentence that says what to change.
"""

import os
import sys

from pyspark.sql import SparkSession

from lakebed.errors import InvalidError

_LOCAL_DEFAULTS = {
    # 50 k rows or 4 MB a batch crosses a fifth faster than Spark's 10 k rows.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "50000",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.python.daemon.module": "lakebed.spark.daemon",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "8",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}


def local_session(
    cores: int | str = "*", app: str = "lakebed", conf: dict[str, str] | None = None
) -> SparkSession:
    """Start (or find) a Spark session on this machine, ready for Lakebed.

    `conf` adds to or overrides the defaults. `PYSPARK_PYTHON` is set to this interpreter
    unless the environment names one: the workers must have this package.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    builder = SparkSession.builder.master(f"local[{cores}]").appName(app)
    for name, value in {**_LOCAL_DEFAULTS, **(conf or {})}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def check_session(spark: SparkSession) -> None:
    """Refuse a session in which a write could go wrong, saying what to set."""
    if _conf(spark, "spark.speculation", "false").lower() == "true":
        raise InvalidError(
            "this session has spark.speculation=true: two copies of a task would write the same "
            "rows at once; start the session with spark.speculation=false"
        )
    codec = _conf(spark, "spark.sql.execution.arrow.compression.codec", "none").lower()
    if codec == "lz4":
        raise InvalidError(
            "this session has spark.sql.execution.arrow.compression.codec=lz4, with which Spark "
            "takes minutes for thousands of rows; set it to none"
        )


def _conf(spark: SparkSession, name: str, default: str) -> str:
    value = spark.conf.get(name, default)
    return default if value is None else str(value)
