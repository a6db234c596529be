"""Apache Hudi and Lakebed write one table at the same time and keep each other out by its lock file."""

import contextlib
import itertools
import os
import pathlib
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from interop.clients import Hudi, PeerError
from interop.rows import user_rows
from lakebed.commit.lock import table_lock
from lakebed.errors import ConflictError, LockedError
from lakebed.model.clock import SystemClock
from lakebed.storage.open import open_storage

SCHEMA = pa.schema(
    [("id", pa.string()), ("v", pa.int64()), ("ts", pa.int64()), ("dt", pa.string())]
)
PROVIDER = "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider"
BUCKETS = 2
ROUNDS = 5
PATIENT, HASTY = "400", "3"
# Hudi refuses a writer whose mode is not that of the table's properties, to the letter.
SEVERAL = {"hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL"}
# Cleaners and archivers of both would meet as well, which is not the matter here.
NO_SERVICES = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}
MODES = pytest.mark.parametrize("mode", [{}, SEVERAL], ids=["one of ours", "several"])


def rows_of(*rows: tuple[str, int, int, str]) -> pa.Table:
    """Return rows of SCHEMA."""
    named = [dict(zip(SCHEMA.names, row, strict=True)) for row in rows]
    return pa.Table.from_pylist(named, schema=SCHEMA)


def create(path: pathlib.Path, mode: Mapping[str, str] | None = None) -> lakebed.Table:
    """Create a table of SCHEMA whose properties name Hudi's lock, with one row."""
    table = lakebed.create_table(
        None,
        str(path),
        SCHEMA,
        key="id",
        ordering="ts",
        partition_by="dt",
        table_type="COPY_ON_WRITE",
        buckets=BUCKETS,
        properties={"hoodie.write.lock.provider": PROVIDER, **NO_SERVICES, **(mode or {})},
    )
    table.upsert(rows_of(("first", 0, 1, "p")))
    return table


def hudi_options(path: pathlib.Path, retries: str) -> dict[str, str]:
    """Return the options of a Hudi writer among others, which asks for the lock every 50 ms."""
    return {
        "hoodie.table.name": path.name,
        "hoodie.datasource.write.table.type": "COPY_ON_WRITE",
        "hoodie.datasource.write.operation": "upsert",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "dt",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.index.type": "BUCKET",
        "hoodie.index.bucket.engine": "SIMPLE",
        "hoodie.bucket.index.num.buckets": str(BUCKETS),
        "hoodie.metadata.enable": "false",
        "hoodie.upsert.shuffle.parallelism": "2",
        **SEVERAL,
        **NO_SERVICES,
        "hoodie.clean.failed.writes.policy": "LAZY",
        "hoodie.write.lock.provider": PROVIDER,
        "hoodie.write.lock.wait_time_ms": "50",
        "hoodie.write.lock.wait_time_ms_between_retry": "50",
        "hoodie.write.lock.max_wait_time_ms_between_retry": "50",
        "hoodie.write.lock.num_retries": retries,
        "hoodie.write.lock.client.wait_time_ms_between_retry": "50",
        "hoodie.write.lock.client.num_retries": retries,
    }


def values(table: pa.Table | Any) -> dict[str, int]:
    """Return the value of each key; a key that comes twice is an error."""
    read = table.read_all() if isinstance(table, pa.RecordBatchReader) else table
    rows = user_rows(read, ["id"])
    found = {row["id"]: row["v"] for row in rows}
    assert len(found) == len(rows)
    return found


def hold(path: pathlib.Path) -> contextlib.AbstractContextManager[Any]:
    """Hold the table's lock, as a write of ours does."""
    lock = table_lock(open_storage(str(path)), {"hoodie.write.lock.provider": PROVIDER})
    return lock.hold(SystemClock(), 60)


@contextlib.contextmanager
def kept_lock_file(path: pathlib.Path) -> Iterator[pathlib.Path]:
    """Return a second name for the lock file that another makes meanwhile, if it made one."""
    kept, over = path.parent / "kept", threading.Event()

    def watch() -> None:
        while not over.is_set():
            with contextlib.suppress(FileNotFoundError):
                os.link(path / ".hoodie" / "lock", kept)
                return

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield kept
    finally:
        over.set()
        watcher.join()


def test_hudi_gives_up_while_we_hold_the_lock_and_does_not_cost_us_it(
    hudi: Hudi, tmp_path: pathlib.Path
):
    path = tmp_path / "t"
    table = create(path)
    with hold(path) as held:
        with pytest.raises(PeerError, match="Unable to acquire"):
            hudi.write(path, rows_of(("hudi", 1, 1, "p")), hudi_options(path, HASTY))
        held.check()
        assert (path / ".hoodie" / "lock").exists()
        with pytest.raises(PeerError, match="Unable to acquire"):
            hudi.write(path, rows_of(("hudi", 2, 1, "p")), hudi_options(path, HASTY))
        held.check()
    assert values(table.read()) == {"first": 0}
    hudi.write(path, rows_of(("hudi", 3, 1, "p")), hudi_options(path, HASTY))
    table.upsert(rows_of(("ours", 4, 1, "p")))
    assert values(table.read()) == values(hudi.read(path)) == {"first": 0, "hudi": 3, "ours": 4}
    assert not (path / ".hoodie" / "lock").exists()


def test_hudi_waits_for_our_lock_and_then_writes(hudi: Hudi, tmp_path: pathlib.Path):
    path = tmp_path / "t"
    table = create(path)
    with ThreadPoolExecutor(1) as pool:
        with hold(path) as held:
            rows, options = rows_of(("hudi", 1, 1, "p")), hudi_options(path, PATIENT)
            writing = pool.submit(hudi.write, path, rows, options)
            with pytest.raises(TimeoutError):
                writing.result(timeout=8)
            held.check()
            assert values(table.read()) == {"first": 0}
        writing.result(timeout=120)
    assert values(table.read()) == {"first": 0, "hudi": 1}


def test_we_wait_for_the_lock_file_of_hudi(hudi: Hudi, tmp_path: pathlib.Path):
    path = tmp_path / "t"
    table = create(path)
    with kept_lock_file(path) as kept:
        hudi.write(path, rows_of(("hudi", 1, 1, "p")), hudi_options(path, HASTY))
    lock_file = path / ".hoodie" / "lock"
    assert not lock_file.exists()
    assert kept.read_bytes() == b"", "Hudi's own says nothing"
    # As if that writer had died with it.
    kept.rename(lock_file)
    lock = table_lock(open_storage(str(path)))
    with (
        pytest.raises(LockedError, match="of another engine, 0 bytes"),
        lock.hold(SystemClock(), 1),
    ):
        pytest.fail("both hold the lock")
    threading.Timer(2, lock_file.unlink).start()
    table.upsert(rows_of(("ours", 2, 1, "p")))
    assert values(table.read()) == {"first": 0, "hudi": 1, "ours": 2}


@MODES
def test_both_write_at_once_and_nothing_is_lost(
    hudi: Hudi, tmp_path: pathlib.Path, mode: dict[str, str]
):
    path = tmp_path / "t"
    table = create(path, mode)
    done = threading.Event()
    retries: list[str] = []

    def write_with_hudi() -> list[str]:
        try:
            return [write(number) for number in range(ROUNDS)]
        finally:
            done.set()

    def write(number: int) -> str:
        for _ in range(20):
            try:
                rows = rows_of((key := f"hudi{number}", number, 1, "hudi"))
                hudi.write(path, rows, hudi_options(path, PATIENT))
            except PeerError as error:
                retries.append(str(error))
            else:
                return key
        pytest.fail(f"Hudi never wrote {number}: {retries}")

    def write_with_ours() -> list[str]:
        mine, keys = lakebed.open_table(None, str(path)), []
        while not done.is_set() or len(keys) < ROUNDS:
            with contextlib.suppress(ConflictError):
                mine.upsert(rows_of((key := f"ours{len(keys)}", len(keys), 1, "ours")))
                keys.append(key)
            SystemClock().sleep(0.3)
        return keys

    with ThreadPoolExecutor(2) as pool:
        theirs, ours = pool.submit(write_with_hudi), pool.submit(write_with_ours)
        keys = theirs.result(timeout=250) + ours.result(timeout=30)
    found = values(table.read())
    assert sorted(found) == sorted(["first", *keys])
    assert values(hudi.read(path)) == found
    assert took_turns(table)
    assert not (path / ".hoodie" / "lock").exists()


def took_turns(table: lakebed.Table) -> bool:
    """Return whether each began a write after the other had completed one."""
    commits = {
        (row["_hoodie_partition_path"], row["_hoodie_commit_time"])
        for row in table.read(columns=["_hoodie_partition_path", "_hoodie_commit_time"])
        .read_all()
        .to_pylist()
    }
    order = [who for who, _ in sorted(commits, key=lambda commit: commit[1]) if who != "p"]
    return len([pair for pair in itertools.pairwise(order) if len(set(pair)) == 2]) >= 2
