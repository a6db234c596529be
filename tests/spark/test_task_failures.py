"""Tasks that fail and are tried again, that die, and that run twice: the rows count once."""

import pathlib
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from spark.frames import strays
from support.spark_faults import all_scenarios, first_rows, second_rows, wanted_rows


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return tmp_path_factory.mktemp("faults")


@pytest.fixture(scope="module")
def reports(folder: pathlib.Path) -> dict[str, dict[str, Any]]:
    return all_scenarios(str(folder))


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
