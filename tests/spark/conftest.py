"""One local session for all tests of this folder, and moto's S3 server beside it."""

import pathlib
import socket
import subprocess
import sys
import time
from collections.abc import Iterator

import boto3
import pytest
from pyspark.sql import SparkSession

import lakebed
from spark.frames import S3Server

HERE = pathlib.Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test of this folder; the first also starts a JVM."""
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.spark)
        if item.path.is_relative_to(HERE / "cluster"):
            item.add_marker(pytest.mark.cluster)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Give the session that `local_session` makes, on two cores."""
    warehouse = tmp_path_factory.mktemp("warehouse")
    session = lakebed.local_session(2, conf={"spark.sql.warehouse.dir": warehouse.as_uri()})
    yield session
    session.stop()


@pytest.fixture
def path(tmp_path: pathlib.Path) -> str:
    """Give where a table may be made."""
    return str(tmp_path / "table")


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    """Give moto's S3 server with a bucket."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        server = S3Server(probe.getsockname()[1])
    process = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(server.port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + 60
        while True:
            try:
                socket.create_connection(("127.0.0.1", server.port), timeout=1).close()
                break
            except OSError:
                assert process.poll() is None, "moto's server stopped"
                assert time.monotonic() < deadline, "moto's server did not start"
                time.sleep(0.05)
        client = boto3.client(
            "s3",
            endpoint_url=f"http://127.0.0.1:{server.port}",
            aws_access_key_id="key",
            aws_secret_access_key="secret",
            region_name="us-east-1",
        )
        client.create_bucket(Bucket=server.bucket)
        yield server
    finally:
        process.terminate()
        process.wait(timeout=10)
