"""New keys fill small base files, in key order, and never one that has logs."""

import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lakebed.api.table import Table
from lakebed.errors import InvalidError
from lakebed.format.names.meta_columns import RECORD_KEY
from lakebed.table.config.properties_file import update_properties
from lakebed.table.files.file_group import FileSlice
from lakebed.table.read.base_file import read_base_file, read_footer
from support.tables import SCHEMA, batch, check_no_leftovers, make, user_rows

TYPES = pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
NO_FILL = {"hoodie.parquet.small.file.limit": "0"}


def rows(first: int, count: int, step: int = 1) -> pa.Table:
    """Return rows that do not compress, so that sizes follow from their number."""
    noise = np.random.default_rng(first).integers(-(2**62), 2**62, (2, count))
    columns = {
        "id": [f"k{first + n * step:06}" for n in range(count)],
        "v": noise[0],
        "ts": noise[1],
        "dt": ["p"] * count,
    }
    return pa.table(columns, schema=SCHEMA)


def slices(table: Table) -> list[FileSlice]:
    return list(table._snapshot(None).slices)


def keys_of(table: Table, slice_: FileSlice) -> list[str]:
    assert slice_.base_file is not None
    path = slice_.base_file.path
    assert read_footer(table._storage, path).is_ordered
    read = read_base_file(table._storage, path, SCHEMA, [RECORD_KEY])
    return [key for found in read for key in found.column(0).to_pylist()]


def simple(**how: Any) -> Table:
    return make(index="simple", **how)


@TYPES
def test_inserts_fill_a_small_file_by_a_sorted_rewrite(table_type: str):
    table = simple(table_type=table_type)
    first = table.insert(batch(("b", 1, 1, "p"), ("d", 1, 1, "p")))
    second = table.insert(batch(("c", 2, 1, "p"), ("a", 2, 1, "p")))
    [old], [new] = first.write_stats, second.write_stats
    assert new.file_id == old.file_id
    assert new.prev_commit == first.instant
    assert (new.num_inserts, new.num_writes) == (2, 4)
    [slice_] = slices(table)
    assert not slice_.needs_merge
    assert keys_of(table, slice_) == ["a", "b", "c", "d"]
    check_no_leftovers(table._storage)


def test_a_file_group_with_logs_is_not_rewritten():
    table = simple(table_type="MERGE_ON_READ")
    table.insert(batch(("a", 1, 1, "p")))
    [before] = slices(table)
    table.upsert(batch(("a", 2, 1, "p")))
    table.insert(batch(("b", 3, 1, "p")))
    after = {slice_.group.file_id: slice_ for slice_ in slices(table)}
    assert len(after) == 2
    assert after[before.group.file_id].base_file == before.base_file
    assert after[before.group.file_id].needs_merge


def test_updates_of_a_file_that_is_filled_go_into_its_base_file_too():
    table = simple(table_type="MERGE_ON_READ", ordering=("ts",))
    table.insert(batch(("a", 1, 5, "p"), ("b", 1, 5, "p")))
    table.upsert(batch(("a", 2, 6, "p"), ("b", 2, 4, "p"), ("c", 2, 1, "p")))
    [slice_] = slices(table)
    assert not slice_.needs_merge
    assert keys_of(table, slice_) == ["a", "b", "c"]
    assert {key[1]: row["v"] for key, row in user_rows(table).items()} == {"a": 2, "b": 1, "c": 2}


def test_the_file_with_the_largest_room_is_filled_first():
    table = simple()
    table.bulk_insert(rows(0, 600))
    table.bulk_insert(rows(1000, 50))
    smallest = min(slices(table), key=lambda slice_: slice_.base_file.size_bytes).group.file_id
    commit = table.insert(batch(("new", 1, 1, "p")))
    assert [stat.file_id for stat in commit.write_stats] == [smallest]


def test_bulk_insert_never_rewrites():
    table = simple()
    table.bulk_insert(batch(("a", 1, 1, "p")))
    table.bulk_insert(batch(("b", 1, 1, "p")))
    assert sorted(keys_of(table, slice_) for slice_ in slices(table)) == [["a"], ["b"]]


def test_a_file_at_the_limit_is_not_small():
    table = simple(properties=NO_FILL)
    table.insert(batch(("a", 1, 1, "p")))
    table.insert(batch(("b", 1, 1, "p")))
    assert len(slices(table)) == 2


@TYPES
def test_what_does_not_fit_is_cut_in_key_order_into_files_of_about_one_size(table_type: str):
    properties = {"hoodie.parquet.max.file.size": "40000", **NO_FILL}
    table = simple(table_type=table_type, properties=properties)
    table.insert(rows(0, 5000))
    files = sorted((keys_of(table, slice_) for slice_ in slices(table)), key=lambda keys: keys[0])
    assert len(files) > 3
    assert [key for keys in files for key in keys] == [f"k{n:06}" for n in range(5000)]
    sizes = [len(keys) for keys in files]
    assert max(sizes) <= 2 * min(sizes)
    ids = {slice_.group.file_id for slice_ in slices(table)}
    assert len(ids) == len(files)


@TYPES
def test_small_files_are_filled_up_to_the_size_before_new_ones_are_made(table_type: str):
    properties = {
        "hoodie.parquet.max.file.size": "60000",
        "hoodie.parquet.small.file.limit": "30000",
    }
    table = simple(table_type=table_type, properties=properties)
    table.bulk_insert(rows(0, 300, step=10))
    [old] = slices(table)
    assert old.base_file is not None
    assert old.base_file.size_bytes < 30000
    table.insert(rows(5, 4000, step=10))
    by_id = {slice_.group.file_id: keys_of(table, slice_) for slice_ in slices(table)}
    assert len(by_id) > 1
    assert len(by_id[old.group.file_id]) > 300
    keys = [key for held in by_id.values() for key in held]
    assert len(keys) == len(set(keys)) == 4300
    for held in by_id.values():
        assert all(low < high for low, high in itertools.pairwise(held))
    grown = next(s for s in slices(table) if s.group.file_id == old.group.file_id)
    assert grown.base_file is not None
    assert grown.base_file.size_bytes < 2 * 60000


def test_an_inserted_key_that_the_filled_file_holds_is_merged():
    table = simple(ordering=("ts",))
    table.insert(batch(("a", 1, 5, "p")))
    table.insert(batch(("a", 2, 9, "p"), ("b", 2, 1, "p")))
    table.insert(batch(("a", 3, 7, "p")))
    assert {key[1]: row["v"] for key, row in user_rows(table).items()} == {"a": 2, "b": 2}


def test_deletes_among_new_rows_make_no_file():
    table = simple(table_type="MERGE_ON_READ", ordering=("ts",))
    gone = batch(("a", 1, 1, "p"), ("a", 1, 2, "p")).append_column(
        "_hoodie_is_deleted", pa.array([False, True])
    )
    assert table.upsert(gone).write_stats == ()
    assert table.insert(gone).write_stats == ()
    assert slices(table) == []


def test_overwriting_a_partition_makes_new_groups_only():
    table = simple()
    table.insert(batch(("a", 1, 1, "p"), ("b", 1, 1, "q")))
    before = {slice_.group.file_id for slice_ in slices(table)}
    table.insert_overwrite(batch(("c", 1, 1, "p")))
    after = {slice_.group.file_id for slice_ in slices(table)}
    assert len(after - before) == 1
    assert set(user_rows(table)) == {("p", "c"), ("q", "b")}


@pytest.mark.parametrize("text", ["many", "-1", "1e9"])
def test_a_size_that_is_no_number_is_refused_by_name(text: str):
    table = simple()
    update_properties(table._storage, {"hoodie.parquet.max.file.size": text})
    with pytest.raises(InvalidError, match=r"hoodie\.parquet\.max\.file\.size"):
        table.insert(batch(("a", 1, 1, "p")))
