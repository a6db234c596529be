"""How whole rows become the files of several column groups."""

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakebed.api.table import Table
from lakebed.format.names.data_names import parse_data_name
from lakebed.storage.storage import Storage
from support.tables import make, reopen

NAMES = ("id", "ts", "name", "score", "scored_at", "a", "b")
SCHEMA = pa.schema([(name, pa.int64()) for name in NAMES])
GROUPS = {"risk": "score;scored_at", "ab": ["a", "b"]}


class Watched:
    """A storage that counts how often each file is opened."""

    def __init__(self, inner: Storage) -> None:
        self.inner = inner
        self.opened: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def open_read(self, path: str) -> pa.NativeFile:
        self.opened[path] += 1
        return self.inner.open_read(path)


def grouped(groups: dict[str, Any] = GROUPS, **options: Any) -> Table:
    return make(
        schema=SCHEMA,
        key=("id",),
        ordering=("ts",),
        partition_by=(),
        table_type="MERGE_ON_READ",
        table_version=10,
        buckets=1,
        column_groups=groups,
        **options,
    )


def rows(*ids: int, **columns: list[int]) -> pa.Table:
    return pa.table({name: columns.get(name, list(ids)) for name in NAMES}, SCHEMA)


def test_groups_with_the_same_order_share_one_merge_of_the_staged_rows():
    table = grouped()
    storage = Watched(table._storage)
    reopen(storage, table._clock).bulk_insert(rows(3, 1, 2))
    staged = {path: count for path, count in storage.opened.items() if ".temp/" in path}
    # The default group and `ab` are ordered by `ts`, and `risk` by its own column.
    assert list(staged.values()) == [2]
    assert len(table.files().to_pylist()) == 3


def test_each_group_keeps_the_row_that_wins_by_its_own_order():
    table = grouped()
    table.bulk_insert(rows(7, 7, ts=[2, 1], scored_at=[1, 2], name=[1, 2], a=[1, 2], score=[1, 2]))
    [found] = table.to_arrow().to_pylist()
    assert (found["name"], found["a"]) == (1, 1)
    assert (found["score"], found["scored_at"]) == (2, 2)


def test_a_read_of_one_group_does_not_open_the_logs_of_others():
    table = grouped()
    table.bulk_insert(rows(1, 2))
    table.upsert(rows(2, 3))
    storage = Watched(table._storage)
    found = reopen(storage, table._clock).to_arrow(["a"])
    assert sorted(found["a"].to_pylist()) == [1, 2, 3]
    names = [parse_data_name(path.rpartition("/")[2]) for path in storage.opened]
    assert {name.column_group for name in names if name is not None} == {"ab"}


@pytest.mark.parametrize(("groups", "most"), [(GROUPS, 24_576), ({}, 16_384)])
def test_numbers_that_repeat_get_a_dictionary_in_larger_row_groups_of_a_group(
    groups: dict[str, Any], most: int
):
    count = 30_000
    table = grouped(groups)
    table.bulk_insert(rows(*range(count), a=[n % 5_000 for n in range(count)]))
    own = "ab" if groups else ""
    [path] = [
        file["path"] for file in table.files().to_pylist() if file.get("column_group", "") == own
    ]
    with table._storage.open_read(path) as source:
        file = pq.ParquetFile(source).metadata
    assert [file.row_group(at).num_rows for at in range(2)] == [most, count - most]
    chunks = [file.row_group(0).column(at) for at in range(file.num_columns)]
    found = {chunk.path_in_schema: chunk.has_dictionary_page for chunk in chunks}
    assert (found["a"], found["b"]) == (True, False)


@pytest.mark.parametrize("indexed", [False, True])
def test_an_update_of_some_columns_opens_files_only_for_the_entries_of_an_index(indexed: bool):
    table = grouped()
    table.bulk_insert(rows(1, 2))
    if indexed:
        table.create_index("by_b", ["b"])
    storage = Watched(table._storage)
    again = reopen(storage, table._clock)
    again.update_columns(pa.table({"id": [2, 3], "ts": [9, 9], "a": [20, 30]}))
    names = [parse_data_name(path.rpartition("/")[2]) for path in storage.opened]
    assert any(name is not None for name in names) is indexed
    found = again.read(["id", "a", "b"]).read_all().to_pylist()
    assert sorted((row["id"], row["a"], row["b"]) for row in found) == [
        (1, 1, 1),
        (2, 20, 2),
        (3, 30, None),
    ]
    assert again.read(["id"], "b IS NULL").read_all().to_pylist() == [{"id": 3}]
    again.compact(mode="full")
    assert again.read(["id"], "b IS NULL").read_all().to_pylist() == [{"id": 3}]


def test_memory_of_a_read_of_all_groups_does_not_grow_with_the_rows():
    noise = np.random.default_rng(7)  # what does not compress makes large files
    peaks = []
    for count in (60_000, 240_000):
        table = grouped()
        ids = list(range(count))
        values = {name: noise.integers(0, 2**62, count) for name in ("name", "score", "a", "b")}
        table.bulk_insert(rows(*ids, **values))
        # A log in each group: nothing is read without a merge.
        table.upsert(rows(*ids[::2], scored_at=[2**62] * (count // 2)))
        base, peak, seen = pa.total_allocated_bytes(), 0, 0
        for batch in table.read():
            peak = max(peak, pa.total_allocated_bytes() - base)
            seen += batch.num_rows
        assert seen == count
        peaks.append(peak)
    assert peaks[1] < 1.5 * peaks[0]
