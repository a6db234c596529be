"""The pipeline on a standalone master with two workers, and on a Spark Connect server."""

import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pyspark
import pytest

HOME = os.path.dirname(pyspark.__file__)
SMOKE = pathlib.Path(__file__).with_name("smoke.py")
START_SECONDS = 120


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def environment(folder: pathlib.Path, **more: str) -> dict[str, str]:
    """Return what a server needs to know; the driver's import path is not among it."""
    env = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    return env | {
        "SPARK_HOME": HOME,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_CONF_DIR": str(folder),
        "PYSPARK_PYTHON": sys.executable,
        **more,
    }


@contextmanager
def running(
    folder: pathlib.Path, *commands: list[str], ready: Callable[[], bool], **env: str
) -> Iterator[None]:
    """Run servers until the block ends; it begins when they are ready."""
    log = folder / "servers.log"
    servers = []
    try:
        with log.open("wb") as out:
            servers += [
                subprocess.Popen(
                    command,
                    env=environment(folder, **env),
                    stdout=out,
                    stderr=out,
                    start_new_session=True,
                    cwd=folder,
                )
                for command in commands
            ]
        deadline = time.monotonic() + START_SECONDS
        while not ready():
            alive = all(server.poll() is None for server in servers)
            if not alive or time.monotonic() > deadline:
                pytest.fail(log.read_text()[-4000:])
            time.sleep(0.2)
        yield
    finally:
        for server in reversed(servers):
            if server.poll() is None:
                os.killpg(server.pid, signal.SIGTERM)
        for server in servers:
            try:
                server.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(server.pid, signal.SIGKILL)
                server.wait(10)


def smoke(url: str, folder: pathlib.Path) -> dict[str, Any]:
    """Run the smoke set in a process of its own: a process serves one JVM or server only."""
    env = {key: value for key, value in environment(folder).items() if key != "SPARK_HOME"}
    done = subprocess.run(
        [sys.executable, str(SMOKE), url, str(folder / "table")],
        env=env,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-6000:]
    report: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return report


def check(report: dict[str, Any]) -> None:
    assert report["loaded"] == [1000, 4]
    assert report["inserted"] == 10
    assert report["count"] == report["alone"] == 1010
    assert report["new"] == list(range(995, 1010))
    assert (report["before"], report["new before"]) == (1000, 0)
    assert "'id'" in report["refused"]
    assert report["commits"] == 2
    assert report["compacted"] == [2, 2, 40]
    assert len(report["files"]) == 2
    # The write tokens of the driver's own tasks end with 0.
    assert not any(re.search(r"_\d+-\d+-0_", name) for name in report["files"])
    assert report["after compaction"] == ["v3"]
    assert report["findings"] == []
    assert report["cleaned"]
    assert report["streamed by format"] == report["streamed by function"] == 1010


@pytest.mark.timeout(600)
def test_a_standalone_cluster_with_two_workers(tmp_path: pathlib.Path):
    port, ui = free_port(), free_port()
    url = f"spark://127.0.0.1:{port}"
    launcher = [f"{HOME}/bin/spark-class"]
    master = [
        *launcher, "org.apache.spark.deploy.master.Master",
        "--host", "127.0.0.1", "--port", str(port), "--webui-port", str(ui),
    ]  # fmt: skip
    workers = [
        [
            *launcher, "org.apache.spark.deploy.worker.Worker",
            "--host", "127.0.0.1", "--webui-port", "0", "-c", "1", "-m", "1g",
            "-d", str(tmp_path / f"worker{number}"), url,
        ]
        for number in range(2)
    ]  # fmt: skip

    def ready() -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{ui}/json/", timeout=5) as answer:
                return bool(json.load(answer)["aliveworkers"] == 2)
        except (OSError, urllib.error.URLError, ValueError):
            return False

    with running(tmp_path, master, *workers, ready=ready, SPARK_DAEMON_MEMORY="256m"):
        report = smoke(url, tmp_path)
    check(report)
    # Both workers had an executor.
    assert all(list((tmp_path / f"worker{number}").glob("app-*")) for number in range(2))


@pytest.mark.timeout(600)
def test_a_spark_connect_server(tmp_path: pathlib.Path):
    port = free_port()
    server = [
        f"{HOME}/bin/spark-submit", "--master", "local[2]",
        "--class", "org.apache.spark.sql.connect.service.SparkConnectServer",
        "--conf", "spark.connect.grpc.binding.address=127.0.0.1",
        "--conf", f"spark.connect.grpc.binding.port={port}",
        "--conf", "spark.driver.host=127.0.0.1", "--conf", "spark.driver.bindAddress=127.0.0.1",
        "--conf", "spark.ui.enabled=false",
        "spark-internal",
    ]  # fmt: skip

    def ready() -> bool:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            return False
        return True

    with running(tmp_path, server, ready=ready):
        report = smoke(f"sc://127.0.0.1:{port}", tmp_path)
    check(report)
    assert report["kind"] == "pyspark.sql.connect.session"
    assert report["same session"]
