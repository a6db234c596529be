"""An S3 server for the layers that care where a table lies."""

from collections.abc import Iterator

import pytest

from support.s3 import S3Server, running_s3_server


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    with running_s3_server() as server:
        yield server
