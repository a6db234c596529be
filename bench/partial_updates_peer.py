"""Time updates of 3 columns of 200 in Hudi, Paimon or Delta; run by the peer environment's Python.

    .venv-hudi/bin/python bench/partial_updates_peer.py hudi INPUT --runs 3

INPUT is made by `bench/column_groups.py --input`: the rows, updates of 3 columns, and updates of all
columns of the same keys. Prints one JSON object with the seconds and the
bytes of each step. Each engine does what it has for this: Hudi 1.2.0 and Delta a MERGE that sets 3
columns, Paimon an insert of 3 columns into a table with its partial-update engine. A merge-on-read
table has 4 buckets and is compacted once, after the updates. The session is `local[2]`; a small table
is written and updated first and is not counted. `failed` is the error that ended the updates of 3
columns, if any.
"""

import argparse
import json
import os
import pathlib
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Final

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "interop" / "peer"))

from hudi_session import CONFIG, start_session

WARM_UP_ROWS = 2_000
NAMESPACE: Final = "lake"
# Those of CONFIG that put Hudi into the session.
_OF_HUDI: Final = (
    "spark.jars.packages",
    "spark.serializer",
    "spark.kryo.registrator",
    "spark.sql.extensions",
    "spark.sql.catalog.spark_catalog",
)
PEERS: Final[dict[str, dict[str, str]]] = {
    "hudi": {"hoodie.spark.sql.merge.into.partial.updates": "true"},
    "paimon": {
        "spark.jars.packages": "org.apache.paimon:paimon-spark-3.5:0.9.0",
        "spark.sql.extensions": "org.apache.paimon.spark.extensions.PaimonSparkSessionExtensions",
        "spark.sql.catalog.lakes": "org.apache.paimon.spark.SparkCatalog",
    },
    "delta": {
        "spark.jars.packages": "io.delta:delta-spark_2.12:3.3.2",
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    },
}


def create(engine: str, name: str, place: str, columns: str) -> str:
    """Return the statement that creates a table of the engine, of 4 buckets where it has them."""
    if engine == "delta":
        return f"create table {name} ({columns}) using delta location '{place}'"
    if engine == "paimon":
        options = {
            "primary-key": "id",
            "bucket": "4",
            "merge-engine": "partial-update",
            "sequence.field": "ts",
            "write-only": "true",
        }
        given = ", ".join(f"'{key}'='{value}'" for key, value in options.items())
        return f"create table {name} ({columns}) tblproperties ({given})"
    options = {
        "type": "mor",
        "primaryKey": "id",
        "preCombineField": "ts",
        "hoodie.index.type": "BUCKET",
        "hoodie.bucket.index.num.buckets": "4",
        "hoodie.metadata.enable": "false",
        "hoodie.compact.inline": "false",
        "hoodie.compact.schedule.inline": "false",
    }
    given = ", ".join(f"'{key}'='{value}'" for key, value in options.items())
    return f"create table {name} ({columns}) using hudi location '{place}' tblproperties ({given})"


def update(engine: str, name: str, columns: list[str]) -> str:
    """Return the statement that stores `columns`, besides `id`, of the view `changes`."""
    if engine == "paimon":
        listed = ", ".join(["id", *columns])
        return f"insert into {name} ({listed}) select {listed} from changes"
    sets = ", ".join(f"t.{column} = s.{column}" for column in columns)
    return f"merge into {name} t using changes s on t.id = s.id when matched then update set {sets}"


def compaction(engine: str, name: str) -> str | None:
    """Return the statement that merges the logs into the base files; None if there are none."""
    if engine == "delta":
        return None
    if engine == "paimon":
        return f"call lakes.sys.compact(table => '{name.removeprefix('lakes.')}')"
    given = "options => 'hoodie.compact.inline.max.delta.commits=1'"
    return f"call run_compaction(op => 'scheduleAndExecute', table => '{name}', {given})"


def size(place: str) -> int:
    """Return the bytes of the data files of a table."""
    files = [path for path in pathlib.Path(place).rglob("*") if path.is_file()]
    data = (path for path in files if ".parquet" in path.name or ".log." in path.name)
    return sum(path.stat().st_size for path in data if path.suffix != ".crc")


def session(engine: str, scratch: str) -> SparkSession:
    """Start a session with the engine."""
    settings = PEERS[engine] | {"spark.sql.sources.useV1SourceList": ""}
    if engine != "hudi":
        for name in _OF_HUDI:
            CONFIG.pop(name)
    if engine == "paimon":
        settings["spark.sql.catalog.lakes.warehouse"] = os.path.join(scratch, "lakes")
    return start_session(os.path.join(scratch, "warehouse"), memory="4g", more=settings)


def main() -> None:
    """Do what the options say."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("engine", choices=PEERS)
    parser.add_argument("input")
    parser.add_argument("--runs", type=int, default=3)
    args = parser.parse_args()
    engine = args.engine
    result = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # Spark and its JVM print to standard output; the JSON keeps it for itself
    found: dict[str, list[float]] = {}
    failed = None

    with tempfile.TemporaryDirectory(prefix="lakebed-partial-") as scratch:
        spark = session(engine, scratch)
        if engine == "paimon":
            spark.sql(f"create database lakes.{NAMESPACE}")
        whole = spark.read.parquet(os.path.join(args.input, "whole"))
        columns = ", ".join(f"{f.name} {f.dataType.simpleString()}" for f in whole.schema)

        def measured(step: str, place: str, work: Callable[[], object]) -> None:
            before, start = size(place), time.perf_counter()
            work()
            found.setdefault(step, []).append(round(time.perf_counter() - start, 3))
            found.setdefault(f"{step} bytes", []).append(size(place) - before)

        def story(title: str, kind: str, rows: int | None) -> None:
            name = f"lakes.{NAMESPACE}.{title}" if engine == "paimon" else title
            place = os.path.join(scratch, title)
            if engine == "paimon":
                place = os.path.join(scratch, "lakes", f"{NAMESPACE}.db", title)
            spark.sql(create(engine, name, place, columns))
            source = whole if rows is None else whole.limit(rows)
            source.createOrReplaceTempView("given")
            measured("write", place, lambda: spark.sql(f"insert into {name} select * from given"))
            for run in range(1, args.runs + 1):
                changes = spark.read.parquet(os.path.join(args.input, kind, str(run)))
                taken = changes if rows is None else changes.where(f"id < {rows}")
                taken.createOrReplaceTempView("changes")
                statement = update(engine, name, changes.columns[1:])
                measured(f"update {kind}", place, lambda s=statement: spark.sql(s).collect())
            compact = compaction(engine, name)
            if compact is not None and rows is None:
                measured(f"compaction {kind}", place, lambda: spark.sql(compact).collect())
            count = spark.sql(f"select count(*) from {name}").collect()[0][0]
            if rows is None and count != whole.count():
                raise SystemExit(f"{engine}: {count} rows, expected {whole.count()}")
            shutil.rmtree(place, ignore_errors=True)

        story("warm", "few", WARM_UP_ROWS)
        found.clear()
        story("wide_all", "all", None)
        try:
            story("wide_few", "few", None)
        except Py4JError as error:
            failed = str(getattr(error, "java_exception", error)).splitlines()[0]
        spark.stop()
    answer = {"engine": engine, **found, "failed": failed}
    print(json.dumps(answer), file=result, flush=True)


if __name__ == "__main__":
    main()
