"""Tasks that fail and are tried again, that die, and that run twice: the rows count once."""

import json
import os
import pathlib
import subprocess
import sys
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from spark.faults_run import SCENARIOS
from spark.frames import strays
from support.spark_faults import first_rows, second_rows, wanted_rows

pytestmark = pytest.mark.timeout(600)

TESTS = pathlib.Path(__file__).parents[1]
SCRIPT = pathlib.Path(__file__).with_name("faults_run.py")


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Run every write and service with every fault in a process with its own JVM."""
    folder = tmp_path_factory.mktemp("faults")
    env = {**os.environ, "PYTHONPATH": f"{TESTS}:{TESTS.parent / 'src'}"}
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(folder)],
        env={**env, "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=580,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return {**found, "folder": folder / "writes"}


@pytest.fixture
def folder(services: dict[str, Any]) -> pathlib.Path:
    return services["folder"]


@pytest.fixture
def reports(services: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return services["writes"]


def as_lists(rows: list[tuple[Any, ...]]) -> list[list[Any]]:
    return sorted(list(row) for row in rows)


@pytest.mark.parametrize("scenario", ["retried", "killed", "twice"])
def test_after_a_task_ran_again_rows_are_right_and_no_file_is_left(folder, reports, scenario):
    report = reports[scenario]
    assert report["error"] is None
    assert report["rows"] == as_lists(wanted_rows())
    table = lakebed.open_table(None, str(folder / scenario))
    got = table.read().read_all().to_pylist()
    assert sorted(list(row.values()) for row in got) == as_lists(wanted_rows())
    assert strays(table) == []
    # Also to a reader that goes by file names alone: one base file per group and instant.
    files = [path.name for path in (folder / scenario).rglob(f"*{report['instant']}*.parquet")]
    assert len(files) == len({name.split("_")[0] for name in files}) == 4


def test_a_task_that_failed_after_closing_its_file_was_tried_again(reports):
    struck = reports["retried"]["struck"]
    attempts = {
        (line.split()[0], line.rpartition(".")[2]) for line in struck if "input" not in line
    }
    assert attempts == {("0", "arrow"), ("1", "arrow"), ("0", "parquet"), ("1", "parquet")}


def test_a_worker_that_was_killed_was_replaced(reports):
    struck = [line for line in reports["killed"]["struck"] if line.endswith(".parquet")]
    attempts = [line.split()[0] for line in struck]
    # File groups share a task: the first one ends it, and the next attempt writes all of them.
    assert 1 <= attempts.count("0") <= 4
    assert attempts.count("1") == 4


def test_a_row_that_is_refused_is_not_tried_again(folder, reports):
    report = reports["refused"]
    assert report["error"].startswith("KeyValueError")
    assert set(report["struck"]) == {"0 input"}
    assert report["rows"] == as_lists(first_rows())
    assert strays(lakebed.open_table(None, str(folder / "refused"))) == []


def test_an_outage_is_tried_again_and_arrives_as_an_outage(folder, reports):
    report = reports["outage"]
    assert report["error"].startswith("UnavailableError")
    assert report["error"].endswith("the store is away")
    assert {"0 input", "1 input", "2 input"} <= set(report["struck"])
    assert report["rows"] == as_lists(first_rows())
    table = lakebed.open_table(None, str(folder / "outage"))
    # A task that was still running may leave a temporary run; the next write sweeps it up.
    assert [name for name in strays(table) if not name.startswith(".hoodie/.temp/")] == []
    names = ["id", "ts", "region", "value"]
    table.insert(pa.table(list(zip(*second_rows(), strict=True)), names=names))
    assert strays(table) == []
    got = sorted(list(row.values()) for row in table.read().read_all().to_pylist())
    assert got == as_lists(wanted_rows())


@pytest.mark.parametrize(
    ("fault", "service"),
    [(fault, of) for fault, services in SCENARIOS.items() if fault != "outage" for of in services],
)
def test_a_service_whose_tasks_ran_again_leaves_the_rows_and_nothing_else(services, fault, service):
    report = services[f"{fault} {service}"]
    assert report["error"] is None
    assert report["done"]
    assert report["same rows"]
    assert report["strays"] == []
    assert report["findings"] == []
    assert report["attempts"] == ([] if fault == "twice" else ["0", "1"])


@pytest.mark.parametrize("service", SCENARIOS["outage"])
def test_a_service_that_meets_an_outage_can_be_repeated(services, service):
    report = services[f"outage {service}"]
    assert report["error"] == "UnavailableError"
    assert report["done later"]
    assert report["attempts"] == ["0", "1", "2"]
    assert report["same rows"]
    assert report["strays"] == []
    assert report["findings"] == []


@pytest.mark.parametrize("service", ["full", "cluster"])
def test_speculation_is_refused_for_services(services, service):
    kind, text = services[f"speculation {service}"]
    assert kind == "InvalidError"
    assert "spark.speculation=false" in text
