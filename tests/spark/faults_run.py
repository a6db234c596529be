"""Run writes and services while tasks of Spark fail, die or run twice, and print what came of it.

Usage: faults_run.py <folder>. One JVM serves all: tasks are tried again only in a session that
was started for it, and speculation is a setting of the session as well.
"""

import json
import os
import pathlib
import sys
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

import lakebed
from lakebed.api.engines import Engines
from lakebed.errors import LakebedError
from lakebed.model.clock import SystemClock
from lakebed.model.options.writers import DRIVER_MAX_BYTES
from lakebed.table.config.properties_file import load_config
from spark.frames import strays
from support.spark_faults import (
    FAULTS,
    FaultyInTask,
    Twice,
    first_rows,
    make_all,
    retrying_session,
    second_rows,
)

SCENARIOS = {
    "retried": ("full", "log", "cluster"),
    "killed": ("full",),
    "twice": ("log", "cluster"),
    "outage": ("full", "cluster"),
}
ROWS = pa.schema([("id", "string"), ("ts", "int64"), ("region", "string"), ("value", "string")])


def loaded(path: str, service: str) -> lakebed.Table:
    """Make a table that needs `service`, without Spark: that is slow, and not the matter here."""
    clusters = service == "cluster"
    table = lakebed.create_table(
        None,
        path,
        ROWS,
        key="id",
        ordering="ts",
        partition_by="region",
        index="simple" if clusters else "bucket",
        buckets=None if clusters else 2,
        table_type="COPY_ON_WRITE" if clusters else "MERGE_ON_READ",
        properties={"hoodie.parquet.small.file.limit": "0"} if clusters else {},
    )
    for rows in (first_rows(), second_rows(), second_rows()):
        columns = [list(column) for column in zip(*rows, strict=True)]
        table.upsert(pa.Table.from_arrays([pa.array(c) for c in columns], schema=ROWS))
    return table


def act(table: lakebed.Table, service: str) -> Any:
    """Run the service; give how many file groups it wrote."""
    if service == "cluster":
        done = table.cluster()
        return done and done.written
    options = {"hoodie.log.compaction.blocks.threshold": "2"}
    return [done.full + done.log for done in table.compact(service, options=options)]


def scenario(spark: SparkSession, fault: str, service: str, path: str) -> dict[str, Any]:
    """Run a service with something going wrong; tell what came of it."""
    table = loaded(path, service)
    before = rows_of(table)
    log = pathlib.Path(f"{path}.log")
    log.touch()
    suffix, kind = FAULTS[fault]
    # What logs are joined into is no .parquet file where runs are blocks of log files.
    storage: Any = FaultyInTask(table._storage, ("",) if suffix else (), kind, str(log))
    struck = lakebed.Table(storage, load_config(storage), Engines(spark), SystemClock())
    if fault == "twice":
        main: Any = struck._engines.main
        main.executor = Twice(main.executor)
    report: dict[str, Any] = {"done": None, "error": None}
    try:
        report["done"] = act(struck, service)
    except LakebedError as error:
        report["error"] = type(error).__name__
        report["strays after the error"] = strays(table)
        report["done later"] = act(table, service)
    report["attempts"] = sorted({line.split()[0] for line in log.read_text().splitlines()})
    report["same rows"] = rows_of(table) == before
    report["strays"] = strays(table)
    report["findings"] = [str(finding) for finding in table.verify()]
    return report


def rows_of(table: lakebed.Table) -> list[list[Any]]:
    return sorted(list(row.values()) for row in table.read().read_all().to_pylist())


def refused(spark: SparkSession, path: str, service: str) -> list[str]:
    """Return the error of a session with speculation."""
    try:
        act(lakebed.open_table(spark, path), service)
    except LakebedError as error:
        return [type(error).__name__, str(error)]
    return ["done", ""]


def main(folder: str) -> None:
    spark = retrying_session()
    reports: dict[str, Any] = {"writes": make_all(spark, os.path.join(folder, "writes"))}
    for fault, services in SCENARIOS.items():
        for service in services:
            path = os.path.join(folder, f"{fault}-{service}")
            reports[f"{fault} {service}"] = scenario(spark, fault, service, path)
    spark.stop()
    spark = lakebed.local_session("1", conf={"spark.speculation": "true"})
    spark.conf.set(DRIVER_MAX_BYTES.name, "0")
    for service in ("full", "cluster"):
        path = os.path.join(folder, f"guess-{service}")
        loaded(path, service)
        reports[f"speculation {service}"] = refused(spark, path, service)
    spark.stop()
    print(json.dumps(reports))


if __name__ == "__main__":
    main(sys.argv[1])
