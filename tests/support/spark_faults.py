"""Tables on which tasks of Spark failed or ran twice, made in a process with its own JVM.

Each scenario loads forty rows and then inserts ten older and ten newer versions and ten
new keys, with something going wrong in the second write. `all_scenarios` makes them in a process of
their own and returns what the writes reported.
"""

import json
import os
import pathlib
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark import TaskContext

import lakebed
from lakebed.api.engines import Engines
from lakebed.errors import KeyValueError, UnavailableError
from lakebed.model.clock import SystemClock
from lakebed.model.executor import Executor, Report, TaskId
from lakebed.model.options.writers import DRIVER_MAX_BYTES
from lakebed.storage.storage import Storage
from lakebed.storage.streams import WriteStream
from lakebed.table.config.properties_file import load_config

TESTS = pathlib.Path(__file__).parents[1]
# For the JVMs that tests start: their code runs too seldom for the second compiler and a collector
# of many threads to pay.
QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
SCHEMA = "id string, ts bigint, region string, value string"
REGIONS = ("eu", "us")


def first_rows() -> list[tuple[str, int, str, str]]:
    """Return what every scenario loads before anything goes wrong."""
    return [(f"key {n:02}", 5, REGIONS[n % 2], "first") for n in range(40)]


def second_rows() -> list[tuple[str, int, str, str]]:
    """Return what every scenario then inserts: older, newer and new."""
    older = [(f"key {n:02}", 4, REGIONS[n % 2], "older") for n in range(10)]
    newer = [(f"key {n:02}", 6, REGIONS[n % 2], "newer") for n in range(10, 20)]
    fresh = [(f"key {n:02}", 1, REGIONS[n % 2], "fresh") for n in range(40, 50)]
    return older + newer + fresh


def wanted_rows() -> list[tuple[str, int, str, str]]:
    """Return what a table of any scenario holds in the end, in the order of its keys."""
    held = {row[0]: row for row in first_rows()}
    for row in second_rows():
        if row[1] >= held.get(row[0], row)[1]:
            held[row[0]] = row
    return sorted(held.values())


def all_scenarios(folder: str) -> dict[str, dict[str, Any]]:
    """Make the table of every scenario below `folder`, in one process."""
    env = {"JDK_JAVA_OPTIONS": QUICK_JVM, **os.environ, "PYTHONPATH": str(TESTS)}
    env["PYSPARK_PYTHON"] = sys.executable
    done = subprocess.run(
        [sys.executable, "-m", "support.spark_faults", folder],
        env=env,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    reports: dict[str, dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return reports


class BrokenTask(RuntimeError):
    """What a task dies of: none of ours, so Spark tries it again."""


@dataclass(frozen=True)
class FaultyInTask:
    """A Storage that travels to the workers and fails there, after a file was closed.

    `fault` is "raise" or "kill" (first attempt only) or "outage" (every attempt); `suffix`
    tells which files it strikes. On the driver it does nothing.
    """

    inner: Storage
    suffix: tuple[str, ...]
    fault: str
    log: str

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.inner, name)

    def open_write(self, path: str, *, durable: bool = True) -> Any:
        return _FaultyStream(self.inner.open_write(path, durable=durable), self, path)

    def strike(self, path: str) -> None:
        context = TaskContext.get()
        if context is None or not path.endswith(self.suffix):
            return
        with open(self.log, "a") as log:
            log.write(f"{context.attemptNumber()} {path}\n")
        if self.fault == "outage":
            raise UnavailableError(f"{path}: the store is away")
        if context.attemptNumber() == 0 and self.fault == "raise":
            raise BrokenTask(path)
        if context.attemptNumber() == 0 and self.fault == "kill":
            os.kill(os.getpid(), signal.SIGKILL)


class _FaultyStream:
    def __init__(self, inner: WriteStream, storage: FaultyInTask, path: str) -> None:
        self._inner, self._storage, self._path = inner, storage, path

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def close(self) -> None:
        already = self._inner.closed
        self._inner.close()
        if not already:
            self._storage.strike(self._path)

    def __enter__(self) -> "_FaultyStream":
        return self

    def __exit__(self, kind: Any, *rest: Any) -> None:
        if kind is None:
            self.close()
        else:
            self._inner.abort()


@dataclass(frozen=True)
class Twice:
    """An Executor that runs every task twice, and counts the second run only."""

    inner: Executor

    def run(
        self,
        task: Callable[[Any, TaskId], Any],
        items: Sequence[Any],
        label: str,
        report: Report | None = None,
    ) -> Iterator[Any]:
        list(self.inner.run(task, items, label))
        yield from self.inner.run(task, items, label, report)


# Which files a fault strikes, and how.
FAULTS = {
    "retried": ((".arrow", ".parquet"), "raise"),
    "killed": ((".parquet",), "kill"),
    "twice": ((), ""),
    "refused": ((), ""),
    "outage": ((".arrow",), "outage"),
}


def retrying_session() -> Any:
    """Start a session that tries tasks again, and in which Spark does even small work."""
    spark = lakebed.local_session("2,3")
    spark.conf.set(DRIVER_MAX_BYTES.name, "0")
    return spark


def make_all(spark: Any, folder: str) -> dict[str, dict[str, Any]]:
    """Make the table of every scenario below `folder`; return what the writes reported."""
    return {name: _make(spark, name, os.path.join(folder, name)) for name in FAULTS}


def _make(spark: Any, scenario: str, path: str) -> dict[str, Any]:
    table = lakebed.create_table(
        spark,
        path,
        SCHEMA,
        key="id",
        ordering="ts",
        partition_by="region",
        table_type="COPY_ON_WRITE",
        buckets=2,
        name="faults",
    )
    table.bulk_insert(spark.createDataFrame(first_rows(), SCHEMA))
    log = f"{path}.log"
    pathlib.Path(log).touch()
    bad = [(None, 1, "eu", "bad")] if scenario == "refused" else []
    rows = spark.createDataFrame(second_rows() + bad, SCHEMA).repartition(2)

    def note(batches: Iterable[Any]) -> Iterator[Any]:
        context = TaskContext.get()
        with open(log, "a") as file:
            file.write(f"{context.attemptNumber() if context else None} input\n")
        yield from batches

    suffix, fault = FAULTS[scenario]
    struck = _open(spark, path, FaultyInTask(table._storage, suffix, fault, log))
    if scenario == "twice":
        main: Any = struck._engines.main
        main.executor = Twice(main.executor)
    report: dict[str, Any] = {"instant": None, "error": None}
    try:
        report["instant"] = struck.insert(rows.mapInArrow(note, SCHEMA)).instant
    except (KeyValueError, UnavailableError) as error:
        report["error"] = f"{type(error).__name__}: {error}"
    report["struck"] = sorted(pathlib.Path(log).read_text().splitlines())
    report["rows"] = sorted(list(row) for row in table.read().collect())
    return report


def _open(spark: Any, path: str, storage: Any) -> lakebed.Table:
    return lakebed.Table(storage, load_config(storage), Engines(spark), SystemClock())


def main(folder: str) -> None:
    """Make the table of every scenario below a folder; print what happened."""
    spark = retrying_session()
    reports = make_all(spark, folder)
    spark.stop()
    print(json.dumps(reports))


if __name__ == "__main__":
    # Under its importable name, so that what is pickled here is found by the workers.
    from support import spark_faults

    spark_faults.main(*sys.argv[1:])
