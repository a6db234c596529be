"""The simple and the global simple index: where rows go, by what the base files hold."""

import numpy as np
import pyarrow as pa
import pytest

from lakebed.api.table import Table
from lakebed.errors import CorruptError, InvalidError, UnsupportedError
from lakebed.index.holders import explode_holders, new_file_id
from lakebed.merge.passes import MAX_FAN_IN
from support.machine_services import ARCHIVES, BY_HAND
from support.tables import SCHEMA, batch, check_no_leftovers, make, reopen, rows_of, user_rows

NO_FILL = {"hoodie.parquet.small.file.limit": "0"}
STAYS = {"hoodie.simple.index.update.partition.path": "false"}
TYPES = pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
INDEXES = pytest.mark.parametrize(
    "index", ["simple", "global_simple", "bloom", "global_bloom", "record", "global_record"]
)


def values(table: Table) -> dict[tuple[str, str], int]:
    return {key: row["v"] for key, row in user_rows(table).items()}


def all_values(table: Table) -> list[tuple[str, str, int]]:
    """Return every row, a key that comes twice too."""
    found = table.read().read_all().to_pylist()
    return sorted((row["dt"], row["id"], row["v"]) for row in found)


def groups(table: Table) -> dict[tuple[str, str], tuple[bool, int]]:
    """Return for each file group whether it has a base file, and the number of its logs."""
    found = {}
    for slice_ in table._snapshot(None).slices:
        place = (slice_.group.partition, slice_.group.file_id)
        found[place] = (slice_.base_file is not None, len(slice_.log_files))
    return found


@INDEXES
@TYPES
def test_an_upsert_finds_its_keys_and_adds_the_others(index: str, table_type: str):
    table = make(index=index, table_type=table_type)
    table.upsert(batch(("a", 1, 1, "p"), ("b", 1, 1, "p"), ("c", 1, 1, "q")))
    table.upsert(batch(("a", 2, 1, "p"), ("d", 2, 1, "p"), ("c", 2, 1, "q")))
    assert values(table) == {("p", "a"): 2, ("p", "b"): 1, ("p", "d"): 2, ("q", "c"): 2}
    check_no_leftovers(table._storage)


@INDEXES
def test_updates_become_logs_and_new_keys_base_files(index: str):
    table = make(index=index, table_type="MERGE_ON_READ", properties=NO_FILL)
    table.upsert(batch(("a", 1, 1, "p")))
    commit = table.upsert(batch(("a", 2, 1, "p"), ("b", 2, 1, "p")))
    assert sorted(groups(table).values()) == [(True, 0), (True, 1)]
    assert {(stat.num_inserts, stat.num_writes) for stat in commit.write_stats} == {(1, 1), (0, 1)}
    # A key that is only in a log would never be found, so there must be none.
    table.upsert(batch(("b", 3, 1, "p")))
    assert values(table) == {("p", "a"): 2, ("p", "b"): 3}


def test_the_same_key_in_two_partitions_is_two_rows_without_a_global_index():
    table = make(index="simple")
    table.upsert(batch(("a", 1, 1, "p"), ("a", 2, 1, "q")))
    table.upsert(batch(("a", 3, 1, "q")))
    assert values(table) == {("p", "a"): 1, ("q", "a"): 3}


@TYPES
def test_insert_looks_nothing_up_and_what_then_comes_twice_is_updated_twice(table_type: str):
    table = make(index="simple", table_type=table_type, properties=NO_FILL)
    table.insert(batch(("a", 1, 1, "p"), ("b", 1, 1, "p")))
    table.insert(batch(("a", 2, 1, "p")))
    assert all_values(table) == [("p", "a", 1), ("p", "a", 2), ("p", "b", 1)]
    table.upsert(batch(("a", 3, 1, "p")))
    assert all_values(table) == [("p", "a", 3), ("p", "a", 3), ("p", "b", 1)]
    table.delete([{"id": "a", "dt": "p"}])
    assert all_values(table) == [("p", "b", 1)]


@TYPES
@pytest.mark.parametrize("operation", ["insert", "bulk_insert"])
def test_an_insert_drops_rows_that_are_marked_as_deleted(table_type: str, operation: str):
    table = make(index="simple", table_type=table_type, ordering=("ts",))
    table.upsert(batch(("a", 1, 1, "p")))
    rows = batch(("a", 2, 2, "p"), ("c", 2, 2, "p"), ("d", 2, 2, "p"))
    marked = rows.append_column("_hoodie_is_deleted", pa.array([True, True, False]))
    getattr(table, operation)(marked)
    assert all_values(table) == [("p", "a", 1), ("p", "d", 2)]
    table.upsert(batch(("c", 3, 1, "p")))
    assert values(table)["p", "c"] == 3, "no delete of it is kept"


@INDEXES
@TYPES
def test_of_rows_with_one_key_the_greatest_ordering_value_wins(index: str, table_type: str):
    table = make(index=index, table_type=table_type, ordering=("ts",))
    table.upsert(batch(("a", 1, 5, "p"), ("a", 2, 9, "p"), ("a", 3, 7, "p")))
    assert values(table) == {("p", "a"): 2}
    table.upsert(batch(("a", 4, 8, "p"), ("b", 4, 1, "p")))
    assert values(table) == {("p", "a"): 2, ("p", "b"): 4}
    table.upsert(batch(("a", 5, 9, "p"), ("a", 6, 9, "p")))
    assert values(table) == {("p", "a"): 6, ("p", "b"): 4}


@INDEXES
@TYPES
def test_deletes_of_keys_that_are_not_there_leave_no_file(index: str, table_type: str):
    table = make(index=index, table_type=table_type)
    assert table.delete([{"id": "x", "dt": "p"}]).write_stats == ()
    table.upsert(batch(("a", 1, 1, "p"), ("b", 1, 1, "p")))
    before = groups(table)
    commit = table.delete([{"id": "x", "dt": "p"}, {"id": "a", "dt": "nowhere"}])
    if index == "simple":
        assert commit.write_stats == ()
        assert groups(table) == before
    assert ("p", "b") in values(table)


@INDEXES
@TYPES
def test_update_columns_keeps_the_rest_and_makes_rows_of_unknown_keys(index: str, table_type: str):
    table = make(index=index, table_type=table_type, ordering=("ts",))
    table.upsert(batch(("a", 1, 5, "p")))
    schema = pa.schema([SCHEMA.field(name) for name in ("id", "ts", "dt")])
    rows = [{"id": "a", "ts": 6, "dt": "p"}, {"id": "b", "ts": 6, "dt": "p"}]
    table.update_columns(pa.Table.from_pylist(rows, schema=schema))
    assert user_rows(table) == {
        ("p", "a"): {"id": "a", "v": 1, "ts": 6, "dt": "p"},
        ("p", "b"): {"id": "b", "v": None, "ts": 6, "dt": "p"},
    }


@TYPES
@pytest.mark.parametrize("ordering", [(), ("ts",)], ids=["commit time", "event time"])
def test_a_row_moves_to_its_new_partition(table_type: str, ordering: tuple[str, ...]):
    table = make(index="global_simple", table_type=table_type, ordering=ordering)
    table.upsert(batch(("a", 1, 1, "p"), ("b", 1, 1, "p")))
    table.upsert(batch(("a", 2, 2, "q")))
    assert values(table) == {("q", "a"): 2, ("p", "b"): 1}
    # Back and forth: on a merge-on-read table the base file of p still holds the key.
    table.upsert(batch(("a", 3, 3, "p")))
    assert values(table) == {("p", "a"): 3, ("p", "b"): 1}
    table.upsert(batch(("a", 4, 4, "r")))
    table.upsert(batch(("a", 5, 5, "r")))
    assert values(table) == {("r", "a"): 5, ("p", "b"): 1}
    check_no_leftovers(table._storage)


@TYPES
def test_a_late_row_does_not_move_whatever_old_places_there_are(table_type: str):
    table = make(index="global_simple", table_type=table_type, ordering=("ts",), properties=NO_FILL)
    table.upsert(batch(("a", 1, 1, "p")))
    table.upsert(batch(("a", 2, 2, "q")))
    table.upsert(batch(("a", 3, 9, "r")))
    for partition in ("p", "q", "s"):
        table.upsert(batch(("a", 0, 5, partition)))
        assert values(table) == {("r", "a"): 3}


@TYPES
def test_a_late_row_is_late_by_the_logs_too(table_type: str):
    table = make(index="global_simple", table_type=table_type, ordering=("ts",))
    table.upsert(batch(("a", 1, 1, "p")))
    table.upsert(batch(("a", 2, 9, "p")))
    table.upsert(batch(("a", 3, 5, "q")))
    assert values(table) == {("p", "a"): 2}


@TYPES
def test_two_partitions_for_one_key_in_one_input_are_two_versions(table_type: str):
    table = make(index="global_simple", table_type=table_type)
    table.upsert(batch(("a", 1, 1, "p"), ("b", 1, 1, "q"), ("a", 2, 1, "q"), ("b", 2, 1, "p")))
    assert values(table) == {("q", "a"): 2, ("p", "b"): 2}


@TYPES
def test_a_partial_update_takes_the_whole_row_along_when_it_moves(table_type: str):
    table = make(index="global_simple", table_type=table_type)
    table.upsert(batch(("a", 7, 1, "p")))
    schema = pa.schema([SCHEMA.field(name) for name in ("id", "dt")])
    for partition in ("q", "p", "r"):
        table.update_columns(pa.Table.from_pylist([{"id": "a", "dt": partition}], schema=schema))
        assert user_rows(table) == {(partition, "a"): {"id": "a", "v": 7, "ts": 1, "dt": partition}}


@TYPES
def test_rows_stay_in_their_partition_where_the_table_says_so(table_type: str):
    table = make(index="global_simple", table_type=table_type, properties=STAYS)
    table.upsert(batch(("a", 1, 1, "p")))
    table.upsert(batch(("a", 2, 1, "q"), ("b", 2, 1, "q")))
    assert user_rows(table) == {
        ("p", "a"): {"id": "a", "v": 2, "ts": 1, "dt": "q"},
        ("q", "b"): {"id": "b", "v": 2, "ts": 1, "dt": "q"},
    }
    assert table.read(where="dt = 'q'").read_all().num_rows == 2


@TYPES
def test_a_global_delete_needs_the_key_alone(table_type: str):
    table = make(index="global_simple", table_type=table_type)
    table.upsert(batch(("a", 1, 1, "p"), ("b", 1, 1, "q"), ("c", 1, 1, "q")))
    table.delete(["a", "b"])
    table.delete(pa.table({"id": ["nobody"]}))
    assert values(table) == {("q", "c"): 1}


def test_a_marked_delete_goes_to_the_partition_that_has_the_key():
    table = make(index="global_simple", table_type="MERGE_ON_READ")
    table.upsert(batch(("a", 1, 1, "p"), ("b", 1, 1, "p")))
    marked = batch(("a", 0, 2, "elsewhere")).append_column("_hoodie_is_deleted", pa.array([True]))
    table.upsert(marked)
    assert values(table) == {("p", "b"): 1}


def test_a_merger_of_ones_own_cannot_follow_a_row_to_another_partition():
    table = make(index="global_simple", custom_merger=True)
    table = Table(table._storage, table.config, table._engines, table._clock, lambda old, new: new)
    table.upsert(batch(("a", 1, 1, "p")))
    table.upsert(batch(("a", 2, 1, "p")))
    with pytest.raises(UnsupportedError, match="key 'a' changes its partition"):
        table.upsert(batch(("a", 3, 1, "q")))
    assert values(table) == {("p", "a"): 2}


def test_keys_are_found_in_more_files_than_may_be_open_at_once():
    one_row_each = {"hoodie.parquet.max.file.size": "1", **NO_FILL}
    table = make(index="simple", properties=one_row_each)
    keys = [f"k{number:03}" for number in range(MAX_FAN_IN // 2 + 3)]
    for value in (0, 1):
        table.insert(batch(*((key, value, 0, "p") for key in keys)))
    assert len(groups(table)) == 2 * len(keys) > MAX_FAN_IN
    table.upsert(batch(*((key, 2, 0, "p") for key in keys[1:])))
    changed = [("p", key, 2) for key in keys[1:] for _ in range(2)]
    assert all_values(table) == [("p", keys[0], 0), ("p", keys[0], 1), *changed]


def test_a_table_of_buckets_is_not_written_with_a_simple_index():
    table = make(buckets=2)
    table.upsert(batch(("a", 1, 1, "p")))
    with pytest.raises(InvalidError, match="is written with"):
        table.upsert(batch(("a", 1, 1, "p")), index="simple")


def test_a_reopened_table_goes_on_with_its_index():
    table = make(index="global_simple")
    table.upsert(batch(("a", 1, 1, "p")))
    again = reopen(table._storage, table._clock)
    again.upsert(batch(("a", 2, 1, "q")))
    assert values(again) == {("q", "a"): 2}


def test_rows_that_an_upsert_did_not_touch_keep_their_commit_time():
    table = make(index="simple")
    first = table.upsert(batch(("a", 1, 1, "p"), ("b", 1, 1, "p")))
    second = table.upsert(batch(("a", 2, 1, "p")))
    times = {key[1]: row["_hoodie_commit_time"] for key, row in rows_of(table).items()}
    assert times == {"a": second.instant, "b": first.instant}


def test_places_are_taken_apart_row_by_row():
    rows, numbers = explode_holders(pa.array(["3", None, "1,0,1", None, "12"]))
    assert list(zip(rows.tolist(), numbers.tolist(), strict=True)) == [
        (0, 3),
        (1, -1),
        (2, 0),
        (2, 1),
        (3, -1),
        (4, 12),
    ]
    none, nothing = explode_holders(pa.array([], pa.string()))
    assert none.size == nothing.size == 0
    assert none.dtype == np.int64
    for wrong in ("1,x", ""):
        with pytest.raises(CorruptError, match="expected numbers"):
            explode_holders(pa.array([wrong]))


def test_new_file_ids_follow_from_the_seed():
    seed = "00000000-0000-0001-8000-000000000000"
    first, second = new_file_id("p", 0, seed), new_file_id("p", 1, seed)
    assert first == new_file_id("p", 0, seed)
    assert len({first, second, new_file_id("q", 0, seed)}) == 3
    assert first.endswith("-0")
    assert len(first) == 38


@pytest.mark.parametrize("joins", [False, True])
@pytest.mark.parametrize("layout", ["default", "lsm_tree"])
@INDEXES
def test_a_key_that_lies_in_a_log_alone_is_found(index: str, layout: str, joins: bool):
    table = make(
        index=index, table_type="MERGE_ON_READ", layout=layout, properties={**NO_FILL, **BY_HAND}
    )
    table.bulk_insert(batch(("a", 1, 1, "p"), ("b", 1, 1, "p")))
    table.delete([{"id": "a", "dt": "p"}])
    table.schedule_compaction()
    # Its key is in the old base file, so it goes there, and the new base file will not have it.
    table.upsert(batch(("a", 2, 2, "p")))
    table.compact()
    table.upsert(batch(("b", 3, 3, "p")))
    assert set(groups(table).values()) == {(True, 2)}
    if joins:
        table.compact("log")
    table.upsert(batch(("a", 4, 4, "p")))
    assert all_values(table) == [("p", "a", 4), ("p", "b", 3)]
    assert len(groups(table)) == 1
    assert table.archive(options=ARCHIVES) is not None
    table.upsert(batch(("a", 5, 5, "p")))
    assert all_values(table) == [("p", "a", 5), ("p", "b", 3)]
