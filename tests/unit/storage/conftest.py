"""The three kinds of storage."""

import uuid

import pytest

from lakebed.storage.local import LocalStorage
from lakebed.storage.objects import memory_storage
from lakebed.storage.open import open_storage
from lakebed.storage.storage import Storage
from support.s3 import S3Server


@pytest.fixture
def s3_storage(s3_server: S3Server) -> Storage:
    return open_storage(f"s3://{s3_server.bucket}/{uuid.uuid4()}/tab le%20", s3_server.options())


@pytest.fixture(params=["local", "memory", "s3"])
def storage(request: pytest.FixtureRequest, tmp_path) -> Storage:
    if request.param == "local":
        return LocalStorage(str(tmp_path / "table"))
    if request.param == "memory":
        return memory_storage()
    return request.getfixturevalue("s3_storage")
