"""One local session for all tests of this folder, and moto's S3 server beside it."""

import os
import pathlib
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

import lakebed
from lakebed.model.options.writers import DRIVER_MAX_BYTES
from support.s3 import S3Server, running_s3_server
from support.spark_faults import QUICK_JVM

HERE = pathlib.Path(__file__).parent
os.environ.setdefault("JDK_JAVA_OPTIONS", QUICK_JVM)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test of this folder; the first also starts a JVM."""
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.spark)
        if item.path.is_relative_to(HERE / "cluster"):
            item.add_marker(pytest.mark.cluster)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Return the session that `local_session` makes, on two cores; small work runs on Spark too."""
    warehouse = tmp_path_factory.mktemp("warehouse")
    session = lakebed.local_session(2, conf={"spark.sql.warehouse.dir": warehouse.as_uri()})
    session.conf.set(DRIVER_MAX_BYTES.name, "0")
    yield session
    session.stop()


@pytest.fixture
def path(tmp_path: pathlib.Path) -> str:
    """Return where a table may be made."""
    return str(tmp_path / "table")


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    """Return moto's S3 server with a bucket."""
    with running_s3_server() as server:
        yield server
