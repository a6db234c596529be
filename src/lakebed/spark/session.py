"""A SparkSession set up right, and the check of one that is not.

A user trips over four things: the workers' Python, the size of Arrow batches, filter
push-down being off, and the seconds that a cold Python worker takes. `local_session`
settles them; another session works too, or gets a sentence that says what to change.
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
    # Larger batches: fewer calls per row in our tasks. The crossing itself takes as long.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "50000",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "8",
    # Beyond 32 files Spark would look at each in a task of its own, before every read.
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
    """Start (or find) a Spark session on this machine, ready for Lakebed.

    `conf` adds to or overrides the defaults (options for Java are added to ours); a session that
    is running already keeps its own. `warm_up=False` returns before the Python workers are
    started, for a session that only reads tables without logs. `PYSPARK_PYTHON` is set to this interpreter unless the environment names one: the
    workers must have this package. Where the environment names a Spark Connect server
    (`SPARK_REMOTE=sc://...`) the session is one of that server, and only what a session may
    set is set.
    """
    settings = {} if SparkSession.getActiveSession() else _defaults(cores, app)
    # Where this process starts the JVM, it also warms up what the first write needs.
    warms = warm_up and _DAEMON in settings
    compiling = compile_kernels() if warms else None
    given = dict(conf or {})
    if _JAVA_OPTIONS in settings and _JAVA_OPTIONS in given:
        given[_JAVA_OPTIONS] = f"{settings[_JAVA_OPTIONS]} {given[_JAVA_OPTIONS]}"
    builder = SparkSession.builder
    for name, value in {**settings, **given}.items():
        builder = builder.config(name, value)
    with warnings.catch_warnings():
        # A local Connect server takes them at its start; its client then tries once more.
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
    """Reject a session in which a write could go wrong, saying what to set."""
    if _conf(spark, "spark.speculation", "false").lower() == "true":
        raise InvalidError(
            "this session has spark.speculation=true: two copies of a task would write the same "
            "rows at once; start the session with spark.speculation=false"
        )
    check_arrow(spark)


def check_arrow(spark: SparkSession) -> None:
    """Reject a session whose rows would not come through between the JVM and Python."""
    codec = _conf(spark, "spark.sql.execution.arrow.compression.codec", "none").lower()
    if codec == "lz4":
        raise InvalidError(
            "this session has spark.sql.execution.arrow.compression.codec=lz4, with which Spark "
            "takes minutes for thousands of rows; set it to none"
        )


def check_reachable(storage: Storage) -> None:
    """Reject a table that only this process can see."""
    if storage.url.startswith("memory:"):
        raise InvalidError(
            f"{storage.url}: Spark's workers cannot see this process's memory; put the table on "
            "disk or in an object store, or open it without a session"
        )


def _settle_environment() -> None:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    # Without it Spark looks for an address on the network, and warns about what it finds.
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")


def _driver_memory() -> str:
    """Return the JVM a quarter of the machine: the Python workers and the page cache need theirs.

    Spark's own default, 1 GB, is what a local session with all its tasks trips over first.
    """
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return f"{min(max(total // (4 << 30), _MIN_MEMORY_GB), _MAX_MEMORY_GB)}g"


def _logging() -> dict[str, str]:
    """Log warnings only, unless the user's Spark configuration folder has its own say."""
    if "SPARK_CONF_DIR" in os.environ:
        return {}
    file = Path(__file__).with_name("log4j2.properties")
    return {_JAVA_OPTIONS: f"-Dlog4j2.configurationFile={file.as_uri()}"}


def _conf(spark: SparkSession, name: str, default: str) -> str:
    value = spark.conf.get(name, default)
    return default if value is None else str(value)
