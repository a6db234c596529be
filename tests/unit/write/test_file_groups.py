"""The second stage of a write: one file group's runs and its old base file become one file."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakebed.errors import ConflictError, UnavailableError
from lakebed.format.files.partition_metadata import PARTITION_METADATA_NAME
from lakebed.storage.objects import memory_storage
from lakebed.storage.storage import Storage
from support.faulty import FaultyStorage
from support.tables import batch, check_files, contents, make, reopen, rows_of, user_rows


class Deed(FaultyStorage):
    """Does something right before the first operation whose name fits."""

    def __init__(self, inner: Storage, before: str, deed) -> None:
        super().__init__(inner)
        self.before, self.deed = before, deed

    def run(self, op, act):
        if self.deed is not None and self.before in op:
            deed, self.deed = self.deed, None
            deed()
        return super().run(op, act)


def test_a_task_that_outlives_its_write_leaves_no_file():
    storage = memory_storage()
    make(storage)

    def forget() -> None:
        for entry in list(storage.list(".hoodie/.heartbeat")):
            storage.delete(entry.path)

    table = reopen(Deed(storage, "open_write p/", forget))
    with pytest.raises(ConflictError, match="over or was rolled back while this task was"):
        table.insert(batch(("a", 1, 1, "p")))
    assert not [path for path in contents(storage) if path.endswith(".parquet")]


def test_of_two_tasks_that_begin_a_partition_both_go_on():
    storage = memory_storage()
    make(storage)
    path = f"p/{PARTITION_METADATA_NAME}"
    table = reopen(Deed(storage, f"put_if_absent {path}", lambda: storage.put(path, b"theirs")))
    table.insert(batch(("a", 1, 1, "p")))
    assert storage.read(path) == b"theirs"


def test_an_outage_while_a_file_is_closed_leaves_nothing():
    storage = memory_storage()
    make(storage)
    before = contents(storage)

    def fail() -> None:
        raise UnavailableError("no answer")

    with pytest.raises(UnavailableError):
        reopen(Deed(storage, "close p/", fail)).insert(batch(("a", 1, 1, "p")))
    left = set(contents(storage)) - set(before)
    assert left == {f"p/{PARTITION_METADATA_NAME}"}


def unsorted_copy(storage: Storage, path: str) -> None:
    """Rewrite a base file as another writer might: any order, no mark."""
    table = pq.read_table(pa.BufferReader(storage.read(path)))
    rows = table.take(pa.array(list(reversed(range(table.num_rows)))))
    sink = pa.BufferOutputStream()
    pq.write_table(rows.replace_schema_metadata(None), sink)
    storage.put(path, sink.getvalue().to_pybytes())


def test_a_file_that_says_nothing_of_its_order_is_sorted_first():
    table = make(buckets=1)
    table.insert(batch(*((f"k{i:02d}", i, i, "p") for i in range(20))))
    path = table.files().column("path")[0].as_py()
    before = rows_of(table)
    unsorted_copy(table._storage, path)
    table = reopen(table._storage)
    commit = table.insert(batch(("k05", 99, 99, "p"), ("k99", 1, 1, "p")))
    after = rows_of(table)
    assert len(after) == 21
    assert after["p", "k05"]["v"] == 99
    for key in set(before) - {("p", "k05")}:
        assert after[key]["_hoodie_commit_time"] == before[key]["_hoodie_commit_time"]
        assert after[key]["v"] == before[key]["v"]
    assert after["p", "k05"]["_hoodie_commit_time"] == commit.instant
    check_files(table)


def test_rows_carried_over_keep_commit_time_and_sequence_number():
    table = make(buckets=1, ordering=("ts",))
    table.insert(batch(("a", 1, 5, "p"), ("b", 1, 5, "p")))
    before = rows_of(table)
    table.insert(batch(("a", 2, 4, "p"), ("c", 2, 4, "p")))
    after = rows_of(table)
    for key in before:
        for column in ("_hoodie_commit_time", "_hoodie_commit_seqno", "v"):
            assert after[key][column] == before[key][column], "a stale row changes nothing"
        assert after[key]["_hoodie_file_name"] != before[key]["_hoodie_file_name"]
    assert len(user_rows(table)) == 3
