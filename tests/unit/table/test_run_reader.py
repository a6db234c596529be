"""What a run gives to a merge: key, ordering values, flags and columns, in order."""

from dataclasses import replace

import pyarrow as pa
import pytest

from lakebed.errors import CorruptError, UnsupportedError
from lakebed.format.names.data_names import LogKind
from lakebed.format.names.meta_columns import COMMIT_TIME, RECORD_KEY
from lakebed.merge.run import COMMIT_TIME_DELETE, DELETED, FLAGS
from lakebed.storage.objects import memory_storage
from lakebed.table.read.key_filter import KeyFilter
from lakebed.table.read.log_reader import slice_sources
from lakebed.table.read.run_reader import (
    MAX_DELETE_BYTES,
    Needs,
    VirtualKey,
    open_runs,
    read_run,
)
from lakebed.table.read.run_source import RunKind, RunSource
from support.runs import (
    SCHEMA,
    Slice,
    config,
    data_block,
    delete_block,
    deletes_table,
    instant,
    marked,
    parquet,
    with_meta,
)

TS = SCHEMA.field("ts")
NEEDS = Needs((SCHEMA.field("v"),), (TS,))


def row(key, v, ts=0, **more):
    return {"id": key, "v": v, "ts": ts, **more}


def put(table, ordered=True, path="x.parquet", **how):
    """Put a data file into memory; return its storage and source."""
    storage = memory_storage()
    storage.put(path, parquet(table, marked(ordered)))
    return storage, RunSource(path, RunKind.DATA, instant(1), ordered=ordered, **how)


def rows_of(storage, source, needs=NEEDS):
    return [
        tuple(r.values()) for batch in read_run(storage, source, needs) for r in batch.to_pylist()
    ]


def test_a_data_run_has_key_ordering_and_the_columns_asked_for_each_once():
    storage, source = put(with_meta([row("a", 1, 5), row("b", 2, 6)]))
    assert [f.name for f in Needs((TS, SCHEMA.field("v")), (TS,)).all_fields] == [
        RECORD_KEY,
        "ts",
        "v",
    ]
    assert rows_of(storage, source) == [("a", 5, 1), ("b", 6, 2)]


def test_a_row_of_a_log_may_say_that_it_is_deleted_and_one_of_a_base_file_may_not():
    table = with_meta([row("a", 1), row("b", 2)]).append_column(
        "_hoodie_is_deleted", pa.array([True, None])
    )
    storage, source = put(table)
    assert [flags for *_, flags in rows_of(storage, source)] == [DELETED, 0]
    storage, source = put(table, is_base=True)
    assert rows_of(storage, source) == [("a", 0, 1), ("b", 0, 2)]


@pytest.mark.parametrize(
    ("column", "needs"),
    [
        ("_hoodie_operation", NEEDS),
        ("op", Needs((SCHEMA.field("v"),), (TS,), delete_marker=("op", "D"))),
    ],
)
def test_a_row_is_deleted_by_its_operation_or_by_the_tables_own_marker(column, needs):
    table = with_meta([row("a", 1), row("b", 2)]).append_column(column, pa.array(["D", "I"]))
    storage, source = put(table)
    assert [flags for *_, flags in rows_of(storage, source, needs)] == [DELETED, 0]


def test_a_partial_run_gives_the_columns_that_it_has():
    storage, source = put(with_meta([row("a", 1, 5)]).drop_columns(["v"]), partial=True)
    [batch] = read_run(storage, source, NEEDS)
    assert batch.schema.names == [RECORD_KEY, "ts"]
    storage, whole = put(with_meta([row("a", 1, 5)]).drop_columns(["v"]))
    assert rows_of(storage, whole) == [("a", 5, None)]


def test_keys_follow_from_columns_where_files_do_not_hold_them():
    storage, source = put(with_meta([row("a", 1, 5)]).select(["id", "v", "ts"]))
    needs = Needs((SCHEMA.field("v"),), (TS,), virtual_key=VirtualKey(("id",), composite=False))
    assert rows_of(storage, source, needs) == [("a", 5, 1)]
    with pytest.raises(UnsupportedError, match="rows without a record key"):
        rows_of(storage, source)


def test_only_the_keys_of_a_filter_come_and_a_false_order_is_corrupt():
    needs = Needs((SCHEMA.field("v"),), (TS,), key_filter=KeyFilter.of(keys=["b"]))
    table = with_meta([row("a", 1), row("b", 2), row("c", 3)])
    storage, source = put(table)
    assert rows_of(storage, source, needs) == [("b", 0, 2)]
    storage, source = put(table.take([1, 0, 2]))
    with pytest.raises(CorruptError, match="'a' comes after 'b', but the run is marked as sorted"):
        rows_of(storage, source, needs)


class TestDeletes:
    def test_a_block_and_a_file_give_the_same(self):
        slice_ = Slice(memory_storage())
        slice_.native(1, LogKind.DELETES, deletes_table([("a", 5), ("b", None)]))
        [source] = slice_sources(slice_.view(config(10)), slice_.value)
        assert rows_of(slice_.storage, source) == [
            ("a", 5, DELETED),
            ("b", None, COMMIT_TIME_DELETE),
        ]
        # Without an ordering column of the table every delete beats what is older.
        found = rows_of(slice_.storage, source, Needs(()))
        assert found == [("a", COMMIT_TIME_DELETE), ("b", COMMIT_TIME_DELETE)]

    def test_deletes_have_the_commit_time_of_their_run_if_it_is_asked_for(self):
        slice_ = Slice(memory_storage())
        slice_.inline(3, delete_block(3, ["a"]))
        [source] = slice_sources(slice_.view(config()), slice_.value)
        needs = Needs((pa.field(COMMIT_TIME, pa.string()),))
        [batch] = read_run(slice_.storage, source, needs)
        assert batch.column(COMMIT_TIME).to_pylist() == [instant(3)]

    def test_a_block_that_is_too_long_or_cut_is_refused(self):
        storage = memory_storage()
        storage.put("x", b"\0" * 8)
        source = RunSource("x", RunKind.DELETES, instant(1), ordered=False, length=9)
        with pytest.raises(CorruptError, match="9 bytes, found 8"):
            list(read_run(storage, source, NEEDS))
        long = replace(source, length=MAX_DELETE_BYTES + 1)
        with pytest.raises(UnsupportedError, match=f"a delete block of {long.length} bytes"):
            list(read_run(storage, long, NEEDS))


def test_logs_without_order_that_follow_one_another_are_one_sorted_run():
    slice_ = Slice(memory_storage())
    slice_.base(1, parquet(with_meta([row("a", 0)]), marked(True)))
    slice_.inline(2, data_block(2, [row("b", 1), row("a", 1)]))
    slice_.inline(3, data_block(3, [row("a", 2)]))
    view = slice_.view(config())
    found = open_runs(slice_.storage, slice_sources(view, slice_.value), NEEDS)
    assert [run.repeats for _, run in found] == [True, False]
    _, logs = found[1]
    assert [r["v"] for batch in logs.batches for r in batch.to_pylist()] == [1, 2, 1]
    assert "and 1 more unsorted runs" in logs.name
    assert all(FLAGS not in batch.schema.names for _, run in found[:1] for batch in run.batches)
