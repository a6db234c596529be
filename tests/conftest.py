"""Settings that every test shares."""

import os

import pytest
from hypothesis import HealthCheck, settings

# Wall-clock deadlines fail on a busy machine and say nothing about the code.
# The same examples at every run, so that a change is not blamed for what luck has found: the soak
# draws new ones.
settings.register_profile(
    "lakebed",
    deadline=None,
    derandomize=True,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "soak", settings.get_profile("lakebed"), derandomize=False, max_examples=2_000
)
settings.load_profile(os.environ.get("LAKEBED_HYPOTHESIS", "lakebed"))


LONG = (
    "tests/property/",
    "tests/soak/",
    "tests/fault/test_processes",
    "tests/spark/cluster/",
    "tests/spark/test_foreign_sessions",
    "tests/spark/test_pages",
    "tests/spark/test_tables",
    "tests/spark/test_predicates",
    "tests/spark/test_services",
    "tests/spark/test_hudi_tables",
    "tests/interop/test_guest_matrix",
    "tests/interop/test_lsm_tables",
    "tests/interop/test_payloads",
    "tests/interop/test_services",
)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the longest tests first, so that no worker is left alone with them at the end."""
    items.sort(key=lambda item: not item.nodeid.startswith(LONG))
