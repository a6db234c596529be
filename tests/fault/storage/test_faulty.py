"""The storage that crashes, tried on a small piece of work."""

import pytest

from lakebed.storage.local import LocalStorage
from lakebed.storage.objects import memory_storage
from lakebed.storage.storage import Storage
from support.faulty import FaultyStorage, SimulatedCrash


def work(storage: Storage) -> None:
    storage.put_if_absent("requested", b"")
    with storage.open_write("data") as stream:
        stream.write(b"rows")
    storage.put("completed", storage.read("data"))
    storage.delete("requested")


OPS = [
    "put_if_absent requested",
    "open_write data",
    "close data",
    "read data",
    "put completed",
    "delete requested",
]


def paths(storage: Storage) -> list[str]:
    return [entry.path for entry in storage.list()]


def test_without_a_crash_everything_passes_through_and_is_logged():
    inner = memory_storage()
    faulty = FaultyStorage(inner)
    work(faulty)
    assert faulty.ops == OPS
    assert paths(inner) == ["completed", "data"]
    assert faulty.url == inner.url


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("fail_at", range(1, len(OPS) + 1))
def test_it_crashes_at_the_chosen_operation_and_stays_dead(fail_at, when):
    faulty = FaultyStorage(memory_storage(), fail_at, when)
    with pytest.raises(SimulatedCrash, match=f"{when} {OPS[fail_at - 1]}"):
        work(faulty)
    assert faulty.ops == OPS[:fail_at]
    for call in (faulty.list, lambda: faulty.delete("data"), lambda: faulty.local_path("data")):
        with pytest.raises(SimulatedCrash, match="the process died at"):
            call()
    assert len(faulty.ops) == fail_at


@pytest.mark.parametrize(
    ("fail_at", "when", "left"),
    [
        (1, "before", []),
        (1, "after", ["requested"]),
        (3, "before", ["requested"]),
        (3, "after", ["data", "requested"]),
        (6, "before", ["completed", "data", "requested"]),
        (6, "after", ["completed", "data"]),
    ],
)
def test_the_operation_takes_effect_only_when_the_crash_comes_after_it(fail_at, when, left):
    inner = memory_storage()
    with pytest.raises(SimulatedCrash):
        work(FaultyStorage(inner, fail_at, when))
    assert paths(inner) == left


def test_a_crash_leaves_the_hidden_file_of_an_open_stream_as_a_dead_process_would(tmp_path):
    faulty = FaultyStorage(LocalStorage(str(tmp_path)), 3)
    with pytest.raises(SimulatedCrash):
        work(faulty)
    hidden = [path.name for path in tmp_path.iterdir() if path.name.startswith(".lakebed-tmp-")]
    assert len(hidden) == 1
    assert paths(faulty.inner) == ["requested"]


def test_an_error_in_the_work_aborts_the_stream_as_one_operation():
    inner = memory_storage()
    faulty = FaultyStorage(inner)
    with pytest.raises(ZeroDivisionError), faulty.open_write("data") as stream:
        stream.write(b"rows")
        raise ZeroDivisionError
    assert faulty.ops == ["open_write data", "abort data"]
    assert paths(inner) == []


def test_no_handler_for_exceptions_can_catch_the_crash():
    assert not issubclass(SimulatedCrash, Exception)
