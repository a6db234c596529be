"""The other engines as fixtures, and the marker that keeps these tests out of `make test`."""

import pathlib
from collections.abc import Iterator

import pytest

from interop.clients import Hudi, HudiRs

HERE = pathlib.Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test of this folder `interop`; the first use of Hudi also starts its JVM."""
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.interop)


@pytest.fixture(scope="session")
def hudi(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hudi]:
    """Return Apache Hudi 1.2.0, started once for all tests."""
    peer = Hudi(tmp_path_factory.mktemp("hudi-peer"))
    yield peer
    peer.close()


@pytest.fixture(scope="session")
def hudi_rs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HudiRs]:
    """Return hudi-rs 0.5.0, started once for all tests."""
    peer = HudiRs(tmp_path_factory.mktemp("hudi-rs-peer"))
    yield peer
    peer.close()
