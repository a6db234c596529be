"""Which lock a table has, and what every kind of lock promises."""

import threading
from pathlib import Path
from typing import Any

import pytest

import lakebed
from lakebed.commit.file_lock import FileLock
from lakebed.commit.lock import GUARD_PATH, InProcessLock, TableLock, lock_options, table_lock
from lakebed.commit.storage_lock import StorageLock
from lakebed.errors import LockedError, OptionError, UnsupportedError
from lakebed.model.clock import ManualClock, SystemClock
from lakebed.storage.local import LocalStorage
from lakebed.storage.objects import memory_storage
from support.faulty import FaultyStorage
from support.tables import batch, make, reopen, settle, user_rows

PROVIDERS = "org.apache.hudi.client.transaction.lock."
DISK = f"{PROVIDERS}FileSystemBasedLockProvider"
CLOUD = f"{PROVIDERS}StorageBasedLockProvider"
MEMORY = f"{PROVIDERS}InProcessLockProvider"
PROVIDER = "hoodie.write.lock.provider"
FOLDER = "hoodie.write.lock.filesystem.path"
EXPIRE = "hoodie.write.lock.filesystem.expire"
VALIDITY = "hoodie.write.lock.storage.validity.timeout.secs"
RENEW = "hoodie.write.lock.storage.renew.interval.secs"


class Cloud(FaultyStorage):
    """A memory that passes for a store of several processes."""

    @property
    def url(self) -> str:
        return "s3://bucket/table"


def places(tmp_path: Path) -> dict[str, Any]:
    return {
        DISK: LocalStorage(str(tmp_path)),
        CLOUD: Cloud(memory_storage()),
        MEMORY: memory_storage(),
    }


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("provider", [DISK, CLOUD, MEMORY])
def test_the_lock_follows_from_where_the_table_lies(tmp_path, provider, named):
    storage = places(tmp_path)[provider]
    wanted = {
        DISK: FileLock(str(tmp_path / ".hoodie/lock"), str(tmp_path / GUARD_PATH)),
        CLOUD: StorageLock(storage, 300, 30),
        MEMORY: InProcessLock(storage.url),
    }
    assert table_lock(storage, {PROVIDER: provider} if named else {}) == wanted[provider]
    assert table_lock(storage) == wanted[provider]


@pytest.mark.parametrize("place", [DISK, CLOUD, MEMORY])
@pytest.mark.parametrize("provider", [DISK, CLOUD, MEMORY])
def test_a_provider_that_does_not_fit_the_place_is_refused(tmp_path, place, provider):
    if place == provider:
        return
    storage = places(tmp_path)[place]
    with pytest.raises(UnsupportedError, match=f"{provider} does not lock out .* expected {place}"):
        table_lock(storage, {PROVIDER: provider})


@pytest.mark.parametrize(
    "provider",
    [
        f"{PROVIDERS}ZookeeperBasedLockProvider",
        "org.apache.hudi.hive.transaction.lock.HiveMetastoreBasedLockProvider",
        "org.apache.hudi.aws.transaction.lock.DynamoDBBasedLockProvider",
        "FileSystemBasedLockProvider",
    ],
)
def test_a_provider_whose_lock_we_do_not_take_is_refused_by_name_on_writing(provider):
    storage = memory_storage()
    make(storage).insert(batch(("a", 1, 1, "p")))
    path = ".hoodie/hoodie.properties"
    storage.put(path, storage.read(path) + f"{PROVIDER}={provider}\n".encode())
    table = reopen(storage)
    assert set(user_rows(table)) == {("p", "a")}
    with pytest.raises(UnsupportedError, match=f"{provider}: this release does not take that lock"):
        table.insert(batch(("b", 1, 1, "p")))
    assert set(user_rows(reopen(storage))) == {("p", "a")}
    with pytest.raises(OptionError, match=PROVIDER):
        lakebed.create_table(
            None, "memory://new", batch().schema, key="id", properties={PROVIDER: provider}
        )


def test_options_of_a_table_reach_its_lock(tmp_path):
    given = {EXPIRE: "7", FOLDER: str(tmp_path / "far"), VALIDITY: "120", RENEW: "12"}
    properties = settle(properties=given)
    disk = table_lock(LocalStorage(str(tmp_path / "t")), properties)
    assert disk == FileLock(str(tmp_path / "far/lock"), str(tmp_path / "t" / GUARD_PATH), 7)
    cloud = Cloud(memory_storage())
    assert table_lock(cloud, properties) == StorageLock(cloud, 120, 12)


@pytest.mark.parametrize(
    ("text", "folder"),
    [
        ("/a/b", "/a/b"),
        ("/a/b/", "/a/b"),
        ("file:/a/b", "/a/b"),
        ("file:///a b", "/a b"),
        ("file://localhost/a", "/a"),
        ("", ""),
        (" ", ""),
    ],
)
def test_the_folder_of_the_lock_is_a_path_or_an_address(text, folder):
    assert lock_options({FOLDER: text}).folder == folder


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (FOLDER, "a/b"),
        (FOLDER, "hdfs://host/a"),
        (FOLDER, "s3a://bucket/a"),
        (FOLDER, "file://host/a"),
        (EXPIRE, "-1"),
        (EXPIRE, "soon"),
        (EXPIRE, "1.5"),
        (EXPIRE, "1" * 5000),
        (VALIDITY, "299"),
        (VALIDITY, "٣٠٠٠"),
        (RENEW, "0"),
        (RENEW, "31"),
    ],
)
def test_an_option_that_cannot_be_meant_is_refused_by_name(name, value):
    with pytest.raises(OptionError, match=name):
        lock_options({name: value})


def locks(tmp_path: Path) -> list[TableLock]:
    return [
        InProcessLock(f"memory://{tmp_path}"),
        FileLock(str(tmp_path / "d/lock"), str(tmp_path / "e/guard")),
    ]


@pytest.mark.parametrize("which", [0, 1])
def test_a_second_writer_is_refused_after_its_wait_and_let_in_afterwards(tmp_path, which):
    lock, clock = locks(tmp_path)[which], ManualClock()
    with lock.hold(clock, 5):
        started = clock.ms
        with (
            pytest.raises(LockedError, match="has held the table for 5 s"),
            locks(tmp_path)[which].hold(clock, 5),
        ):
            pytest.fail("two hold the lock")
        assert 5000 <= clock.ms - started < 6000
    with locks(tmp_path)[which].hold(clock, 0) as held:
        held.check()


@pytest.mark.parametrize("which", [0, 1])
def test_an_error_gives_the_lock_back(tmp_path, which):
    with pytest.raises(RuntimeError), locks(tmp_path)[which].hold(ManualClock(), 0):
        raise RuntimeError
    with locks(tmp_path)[which].hold(ManualClock(), 0):
        pass


@pytest.mark.parametrize("which", [0, 1])
def test_threads_take_turns(tmp_path, which):
    inside, most = 0, 0

    def work():
        nonlocal inside, most
        for _ in range(5):
            with locks(tmp_path)[which].hold(SystemClock(), 30):
                inside += 1
                most = max(most, inside)
                inside -= 1

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1
