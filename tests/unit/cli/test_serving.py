"""Serve gives each table its turn, says one line per action, and ends when told to."""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import lakebed
from lakebed.cli.main import app
from lakebed.cli.serving import Happened, Server
from lakebed.errors import LockedError
from lakebed.model.clock import ManualClock

SCHEMA = pa.schema([("id", pa.string()), ("v", pa.int64())])
SOURCES = Path(lakebed.__file__).parents[1]


def make(path, upserts=5):
    table = lakebed.create_table(
        None, path, SCHEMA, key="id", buckets=1,
        properties={"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"},
    )  # fmt: skip
    table.bulk_insert(pa.table({"id": ["a", "b"], "v": [0, 0]}, schema=SCHEMA))
    for n in range(upserts):
        table.upsert(pa.table({"id": ["a"], "v": [n]}, schema=SCHEMA))
    return table


def test_one_round_compacts_what_is_due_and_says_so(tmp_path):
    table = make(tmp_path / "t")
    make(tmp_path / "quiet", upserts=0)
    done = CliRunner().invoke(
        app, ["serve", str(tmp_path / "t"), str(tmp_path / "quiet"), "--once"]
    )
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert any(" compaction: " in line for line in lines)
    assert not [line for line in lines if "quiet" in line]
    actions = table.history().column("action").to_pylist()
    assert "commit" in actions
    assert table.read().read_all().num_rows == 2


def test_with_json_each_action_is_a_line(tmp_path):
    make(tmp_path / "t")
    done = CliRunner().invoke(app, ["serve", str(tmp_path / "t"), "--once", "--json"])
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert "compaction" in {line["action"] for line in found}
    assert not any(line["failed"] for line in found)


def test_a_table_that_fails_does_not_stop_the_others(tmp_path):
    make(tmp_path / "t")
    done = CliRunner().invoke(app, ["serve", str(tmp_path / "gone"), str(tmp_path / "t"), "--once"])
    assert done.exit_code == 1
    assert "open failed: NotFoundError" in done.stdout
    assert " compaction: " in done.stdout


def test_clustering_is_done_where_it_is_asked_for_and_fits(tmp_path):
    table = lakebed.create_table(
        None, tmp_path / "s", SCHEMA, key="id", index="simple",
        properties={"hoodie.parquet.small.file.limit": "0"},
    )  # fmt: skip
    for n in range(3):
        table.insert(pa.table({"id": [f"k{n}"], "v": [n]}, schema=SCHEMA))
    make(tmp_path / "t", upserts=0)
    tables = [str(tmp_path / "s"), str(tmp_path / "t")]
    assert CliRunner().invoke(app, ["serve", *tables, "--once"]).stdout == ""
    done = CliRunner().invoke(app, ["serve", *tables, "--once", "--cluster"])
    assert done.exit_code == 0, done.output
    [line] = done.stdout.splitlines()
    assert "/s clustering: " in line
    assert len(table.layers()) == 1


def test_a_pause_of_no_seconds_is_wrong_usage(tmp_path):
    assert CliRunner().invoke(app, ["serve", str(tmp_path), "--every", "0"]).exit_code == 2


class Stop(threading.Event):
    """Moves the clock on instead of waiting, and stops after so many waits."""

    def __init__(self, clock, waits):
        super().__init__()
        self._clock, self._waits = clock, waits

    def wait(self, timeout=None):
        self._clock.ms += int(timeout * 1000)
        self._waits -= 1
        if self._waits == 0:
            self.set()
        return self.is_set()


def test_failures_are_waited_out_longer_and_longer_and_success_ends_it():
    clock = ManualClock(0)
    turns, told = [], []

    def open_table(path):
        turns.append((path, clock.ms // 1000))
        if path == "bad" and len([p for p, _ in turns if p == "bad"]) != 4:
            raise LockedError("held")
        return path

    server = Server(["good", "bad"], open_table, [], clock, told.append, Stop(clock, 20))
    failed = server.run(10)
    assert [at for path, at in turns if path == "bad"][:6] == [0, 20, 60, 140, 150, 170]
    assert [at for path, at in turns if path == "good"][:4] == [0, 10, 20, 30]
    assert failed == len(told)
    assert told[0].message == "held; retrying in 20 s"
    assert all(happened.failed for happened in told)


def test_a_stop_comes_between_two_steps():
    clock, told = ManualClock(0), []
    server = Server(["t", "u"], lambda path: path, [], clock, told.append)

    def first(table):
        server.stop.set()
        return ["did it"]

    def second(table):
        raise AssertionError("the second step must not begin")

    server.steps = [("first", first), ("second", second)]
    assert server.run(1) == 0
    assert [(happened.table, happened.message) for happened in told] == [("t", "did it")]
    assert str(told[0]) == "1970-01-01T00:00:00Z t str: did it"
    assert str(Happened(0, "t", "open", "no", True)) == "1970-01-01T00:00:00Z t open failed: no"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_loop_cleanly(tmp_path, number):
    make(tmp_path / "t")
    process = subprocess.Popen(
        [sys.executable, "-c", "from lakebed.cli.main import main; main()", "serve", "t"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(SOURCES), "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    line = process.stdout.readline()
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert " t " in line
    assert process.returncode == 0, errors
    assert "ending after this step" in errors
    assert "Traceback" not in errors
