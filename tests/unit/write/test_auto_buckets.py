"""Buckets that the first write settles: as many as its rows need, the same for all that follow."""

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from lakebed.api.saving import begin_saving
from lakebed.api.table import Table
from lakebed.engine.engine import open_stream, stage_stream
from lakebed.errors import ConflictError, InvalidError, UnavailableError
from lakebed.index.hash_locator import KeyHash
from lakebed.index.staged_buckets import STAGED_RUN_BYTES, StagedLocator
from lakebed.model.executor import TaskId
from lakebed.storage.objects import memory_storage
from lakebed.table.config.properties_file import load_config, update_properties
from lakebed.table.config.writer_index import AutoBuckets, BucketIndex
from lakebed.table.snapshot import Snapshot
from lakebed.write.auto_buckets import choose_buckets
from lakebed.write.pipeline import Source, execute_write
from lakebed.write.spec.operation import INSERT
from lakebed.write.spec.write_spec import WriteSpec
from lakebed.write.staging import Segment, Staged
from support.faulty import FaultyStorage
from support.machine import memory_of
from support.tables import batch, check_files, make, reopen, user_rows

MOR = "MERGE_ON_READ"
OPTIMISTIC = {"hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL"}
NON_BLOCKING = {"hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL"}
MB = 1 << 20


def auto(**changes: Any) -> Table:
    return make(**{"buckets": "auto", "table_type": MOR, "ordering": ("ts",), **changes})


def rows(count: int, partitions: int = 1, first: int = 0) -> pa.Table:
    numbers = range(first, first + count)
    return batch(*((f"k{n}", n, n, f"p{n % partitions}") for n in numbers))


def settled(table: Table) -> int:
    index = load_config(table._storage).index
    assert isinstance(index, BucketIndex)
    return index.buckets


def segment(size_bytes: int, partition: str = "", num_rows: int = 1000) -> Segment:
    return Segment("x", (0, 0), partition, None, 0, 1, num_rows, 0, size_bytes)


@pytest.mark.parametrize(
    ("partition_by", "wanted"), [((), 4), (("dt",), 1)], ids=["unpartitioned", "partitioned"]
)
def test_a_small_first_load_gets_few_buckets_and_its_commit_says_so(partition_by, wanted):
    table = auto(partition_by=partition_by)
    assert isinstance(table.config.index, AutoBuckets)
    assert "as many as fit the first write" in str(table.describe())
    first = table.insert(rows(100, 3))
    assert first.buckets == settled(table) == wanted
    each = "1 bucket per partition" if partition_by else "4 buckets"
    assert str(first).endswith(f"; the table has {each} from now on")
    assert f"the table has {wanted} bucket" in str(first)
    second = table.upsert(rows(100, 3, first=50))
    assert second.buckets is None
    assert settled(table) == wanted
    assert len(user_rows(table)) == 150
    check_files(table)


@pytest.mark.parametrize(
    ("partitioned", "sizes", "wanted"),
    [
        (False, [63 * MB], 4),
        (False, [65 * MB], 4),
        (False, [512 * MB + 1], 8),
        (False, [5000 * MB], 64),
        (True, [63 * MB], 1),
        (True, [100 * MB] * 36, 1),
        (True, [1000 * MB] * 3, 8),
        (True, [1 << 50], 1024),
    ],
)
def test_the_number_follows_from_the_size_of_a_partition(partitioned, sizes, wanted):
    table = auto(partition_by=("dt",) if partitioned else ())
    segments = [segment(size, f"p{n}" if partitioned else "") for n, size in enumerate(sizes)]
    assert choose_buckets(table.config, segments) == wanted


def test_expected_rows_stand_for_those_of_the_first_load():
    schema = rows(1).schema
    table = lakebed.create_table(
        None, "memory://auto/expected", schema, key="id", expected_rows=50_000_000
    )
    assert table.insert(rows(100)).buckets in (16, 32)  # two or three gigabytes
    assert table.count() == 100
    for wrong in (0, "many"):
        with pytest.raises(InvalidError, match="expected_rows="):
            lakebed.create_table(None, "memory://auto/no", schema, key="id", expected_rows=wrong)
    with pytest.raises(InvalidError, match="has no effect with buckets=4"):
        lakebed.create_table(None, "memory://auto/no", schema, key="id", buckets=4, expected_rows=9)


KEYS = [("id",), ("id", "dt")]


@pytest.mark.parametrize(
    ("staged", "wanted", "key"),
    # Every two of the three choices meet.
    [
        (staged, wanted, KEYS[(m + n) % 2])
        for m, staged in enumerate([1, 4, 16, 64])
        for n, wanted in enumerate([4, 16, 64, 6])
    ],
)
def test_runs_that_were_staged_by_another_number_reach_their_buckets(
    staged: int, wanted: int, key: tuple[str, ...]
):
    table = auto(partition_by=("dt",), key=key)
    first = rows(400, 2)

    def stage(spec: WriteSpec, _: Snapshot) -> Iterator[Staged]:
        """Split the rows by another number; meanwhile another write settles how many there are."""
        locator = spec.locator
        assert isinstance(locator, StagedLocator)
        yield from stage_stream(
            open_stream(first), replace(spec, locator=replace(locator, least=staged))
        )
        index = BucketIndex(wanted, spec.index.hash_fields)
        update_properties(table._storage, index.properties(spec.config.record_key_fields))

    execute_write(table._target(), INSERT, Source(first.schema, stage), None)
    table = reopen(table._storage)
    assert settled(table) == wanted
    table.upsert(rows(400, 2, first=300))
    assert len(user_rows(table)) == 700
    check_files(table)


def test_a_large_flush_is_split_finely_unless_it_is_the_only_one():
    table = auto(partition_by=())
    assert table.config.index is not None
    locator = StagedLocator(KeyHash.of(table.config, table.config.index), least=4)
    large = 16 * STAGED_RUN_BYTES
    assert locator.staged_buckets(large, 1, alone=False) == 16
    assert locator.staged_buckets(large, 2, alone=False) == 8
    assert locator.staged_buckets(large, 1, alone=True) == 4


def test_the_rows_of_many_flushes_reach_more_buckets_than_they_were_split_by():
    batches = rows(5000).to_batches(max_chunksize=100)
    table = lakebed.create_table(
        None, "memory://auto/flushes", batches[0].schema, key="id", expected_rows=50_000_000
    )
    with memory_of(table, 8_000):
        commit = table.bulk_insert(pa.RecordBatchReader.from_batches(batches[0].schema, batches))
    assert commit.buckets is not None
    assert commit.buckets > 4
    assert len(user_rows(table)) == 5000
    check_files(table)


def test_nothing_written_settles_nothing():
    table = auto()
    table.insert(rows(0))
    table.delete([{"id": "k1"}, {"id": "k1", "dt": "p0"}])
    assert isinstance(load_config(table._storage).index, AutoBuckets)
    assert table.insert(rows(3)).buckets == 1


def test_a_number_that_the_first_write_names_is_taken():
    table = auto()
    table.insert(rows(10), buckets=3)
    assert settled(table) == 3
    check_files(table)


def test_writers_that_do_not_block_each_other_have_hudis_number():
    assert settled(auto(properties=NON_BLOCKING)) == 4
    later = auto()
    later.set_properties(NON_BLOCKING)
    later.insert(rows(10))
    assert settled(later) == 4
    check_files(later)


def test_of_two_first_writes_the_lock_decides_and_the_other_follows():
    table = auto(properties=OPTIMISTIC, partition_by=())
    storage = table._storage
    small, large = rows(10), rows(10, first=100)
    entered = threading.Event()

    class Waits(FaultyStorage):
        """Lets the other write go first once the rows of this one are staged."""

        def run(self, op: str, act: Any) -> Any:
            done = super().run(op, act)
            if op.startswith("close .hoodie/.temp") and not entered.is_set():
                entered.set()
                reopen(storage).insert(small, buckets=2)
            return done

    with pytest.raises(ConflictError):
        reopen(Waits(storage)).insert(large)
    assert entered.is_set()
    assert settled(table) == 2
    reopen(storage).insert(large)
    assert len(user_rows(table)) == 20
    check_files(table)


def test_a_first_write_gives_way_to_one_that_stored_another_index():
    table = auto(properties=OPTIMISTIC, partition_by=())
    storage = table._storage
    entered = threading.Event()

    class Waits(FaultyStorage):
        """Lets a write with a simple index go first once the rows of this one are staged."""

        def run(self, op: str, act: Any) -> Any:
            done = super().run(op, act)
            if op.startswith("close .hoodie/.temp") and not entered.is_set():
                entered.set()
                reopen(storage).insert(rows(10), index="simple")
            return done

    with pytest.raises(ConflictError, match="another write settled the index as SimpleIndex"):
        reopen(Waits(storage)).insert(rows(10, first=100))
    reopen(storage).insert(rows(10, first=100))
    assert len(user_rows(reopen(storage))) == 20


def test_a_first_write_that_fails_leaves_a_table_to_write_to():
    storage = memory_storage()
    auto(storage=storage)

    class Fails(FaultyStorage):
        """Cannot write data files."""

        def run(self, op: str, act: Any) -> Any:
            if op.startswith("close p0/"):
                raise UnavailableError("the store is down")
            return super().run(op, act)

    with pytest.raises(UnavailableError):
        reopen(Fails(storage)).insert(rows(10))
    table = reopen(storage)
    table.insert(rows(20))
    assert len(user_rows(table)) == 20
    check_files(table)


def test_rows_that_spark_stages_before_the_write_begins_follow_what_was_settled_meanwhile(
    tmp_path: Path,
):
    path = str(tmp_path / "t")
    table = lakebed.create_table(None, path, rows(1).schema, key="id", partition_by="dt")
    saving = begin_saving({"path": path}, rows(1).schema, overwrite=False)
    parts = [saving.stage(rows(10, first=n).to_batches(), TaskId(n, 0, 0)) for n in (0, 10)]
    table.insert(rows(10, first=100), buckets=3)
    saving.finish(parts)
    assert settled(table) == 3
    assert table.count() == 30
    check_files(table)


def test_a_table_that_another_engine_wrote_first_is_not_settled_by_guessing(tmp_path: Path):
    table = auto(partition_by=())
    reopen(table._storage).insert(rows(10), buckets=2)
    # As if an engine had written it that stores no number.
    path = ".hoodie/hoodie.properties"
    text = table._storage.read(path).decode()
    lines = [line for line in text.splitlines() if "num.buckets" not in line]
    table._storage.put(path, ("\n".join(lines) + "\n").encode())
    again = reopen(table._storage)
    assert isinstance(again.config.index, AutoBuckets)
    with pytest.raises(InvalidError, match="name it at the first write"):
        again.upsert(rows(10))
    again.upsert(rows(10), index="bucket", buckets=2)
    assert settled(again) == 2
