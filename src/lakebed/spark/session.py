"""Sets up a SparkSession for Lakebed, and checks other sessions.

Four things commonly go wrong: the workers' Python, the size of Arrow batches, filter push-down
being off, and the seconds that a cold Python worker takes. `local_session` handles them; any other
session works too, or raises an error that says what to change.
"""

import os
import sys
import warnings
from pathlib import Path

from pyspark.sql import SparkSession

from lakebed.errors import InvalidError
from lakebed.spark.warm_up import compile_kernels, warm_workers
from lakebed.storage.storage import Storage

_DAEMON = "spark.python.daemon.module"
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_SQL_DEFAULTS = {
    # Larger batches need fewer calls per row in Lakebed's tasks; the transfer itself is not faster.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "50000",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "8",
    # Beyond 32 files Spark would inspect each in its own task, before every read.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "10000",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}
_JVM_DEFAULTS = {
    _DAEMON: "lakebed.spark.daemon",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}
_MIN_MEMORY_GB, _MAX_MEMORY_GB = 1, 8


def local_session(
    cores: int | str = "*",
    app: str = "lakebed",
    conf: dict[str, str] | None = None,
    *,
    warm_up: bool = True,
) -> SparkSession:
    """Start a Spark session on this machine, configured for Lakebed, or return the active one.

    `conf` adds to or overrides the defaults (Java options are appended to the defaults); an active
    session keeps its own settings. `warm_up=False` returns before the Python workers are started,
    for a session that only reads tables without logs. `PYSPARK_PYTHON` is set to this interpreter
    unless the environment sets it: the workers need this package. If the environment names a Spark
    Connect server (`SPARK_REMOTE=sc://...`), the session belongs to that server, and only session
    settings are set.
    """
    settings = {} if SparkSession.getActiveSession() else _defaults(cores, app)
    # If this process starts the JVM, it also does the work that the first write would wait for.
    warms = warm_up and _DAEMON in settings
    compiling = compile_kernels() if warms else None
    given = dict(conf or {})
    if _JAVA_OPTIONS in settings and _JAVA_OPTIONS in given:
        given[_JAVA_OPTIONS] = f"{settings[_JAVA_OPTIONS]} {given[_JAVA_OPTIONS]}"
    builder = SparkSession.builder
    for name, value in {**settings, **given}.items():
        builder = builder.config(name, value)
    with warnings.catch_warnings():
        # A local Connect server accepts these settings at its start; its client then tries to set
        # them again.
        warnings.filterwarnings("ignore", "Failed to set spark", UserWarning)
        session = builder.getOrCreate()
    if warms:
        warm_workers(session, compiling)
    return session


def _defaults(cores: int | str, app: str) -> dict[str, str]:
    remote = os.environ.get("SPARK_REMOTE")
    settings = dict(_SQL_DEFAULTS)
    if remote is None:
        settings["spark.master"] = f"local[{cores}]"
    if remote is None or remote.startswith("local"):
        _settle_environment()
        settings |= _JVM_DEFAULTS | _logging()
        settings |= {"spark.app.name": app, "spark.driver.memory": _driver_memory()}
    return settings


def check_session(spark: SparkSession) -> None:
    """Raise an error, saying what to set, if writes could go wrong in this session."""
    if _conf(spark, "spark.speculation", "false").lower() == "true":
        raise InvalidError(
            "this session has spark.speculation=true: two copies of a task would write the same "
            "rows at once; start the session with spark.speculation=false"
        )
    check_arrow(spark)


def check_arrow(spark: SparkSession) -> None:
    """Raise an error if rows could not be transferred between the JVM and Python."""
    codec = _conf(spark, "spark.sql.execution.arrow.compression.codec", "none").lower()
    if codec == "lz4":
        raise InvalidError(
            "this session has spark.sql.execution.arrow.compression.codec=lz4, with which Spark "
            "takes minutes for thousands of rows; set it to none"
        )


def check_reachable(storage: Storage) -> None:
    """Raise an error for a table that only this process can see."""
    if storage.url.startswith("memory:"):
        raise InvalidError(
            f"{storage.url}: Spark's workers cannot see this process's memory; put the table on "
            "disk or in an object store, or open it without a session"
        )


def _settle_environment() -> None:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    # Without this setting Spark looks for a network address, and warns about the one that it finds.
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")


def _driver_memory() -> str:
    """Return a quarter of the machine's memory: Python workers and the page cache need the rest.

    All tasks of a local session share this memory, and Spark's default, 1 GB, is soon exceeded.
    """
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return f"{min(max(total // (4 << 30), _MIN_MEMORY_GB), _MAX_MEMORY_GB)}g"


def _logging() -> dict[str, str]:
    """Return the settings that limit logging to warnings; none if SPARK_CONF_DIR is set."""
    if "SPARK_CONF_DIR" in os.environ:
        return {}
    file = Path(__file__).with_name("log4j2.properties")
    return {_JAVA_OPTIONS: f"-Dlog4j2.configurationFile={file.as_uri()}"}


def _conf(spark: SparkSession, name: str, default: str) -> str:
    value = spark.conf.get(name, default)
    return default if value is None else str(value)
