"""Every write leaves a candidate of each row in every index; bad definitions leave nothing."""

from dataclasses import replace

import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import ExistsError, InvalidError, NotFoundError, SchemaError
from lakebed.format.names.meta_columns import RECORD_KEY
from lakebed.index.secondary.definition import IndexDefinition
from lakebed.index.secondary.entries import find_entries, make_keys
from lakebed.index.secondary.new_entries import EntryKind, IndexWriters, NewEntries
from lakebed.index.secondary.open_index import OpenIndex, index_folder, open_indexes
from lakebed.table.files.file_group import FileGroupId
from lakebed.write.index_runs import IndexParticipant, split_batches
from lakebed.write.spec.status import WriteStatus
from support.indexes import check_indexes, unindexed
from support.specs import make_spec

SCHEMA = pa.schema(
    [("id", pa.int64()), ("city", pa.string()), ("n", pa.float64()), ("dt", pa.string())]
)


def rows(*given: tuple) -> pa.Table:
    return pa.Table.from_pylist(
        [dict(zip(SCHEMA.names, row, strict=True)) for row in given], SCHEMA
    )


def make(path: str, **how):
    settled = {"key": "id", "partition_by": "dt", "index": "bucket", "buckets": 2} | how
    return lakebed.create_table(
        None, f"memory://secondary/{path}", "id BIGINT, city STRING, n DOUBLE, dt STRING", **settled
    )


KINDS = {
    "mor": {},
    "cow": {"table_type": "COPY_ON_WRITE"},
    "ordered": {"ordering": "n"},
    "native": {"table_version": 10, "ordering": "n"},
    "default-layout": {"layout": "default", "ordering": "n"},
    "avro": {"properties": {"hoodie.logfile.data.block.format": "avro"}},
    "simple": {"index": "simple", "buckets": None},
    "global": {"index": "global_simple", "buckets": None},
    "non-blocking": {
        "ordering": "n",
        "properties": {"hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL"},
    },
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_write_leaves_candidates(kind):
    table = make(kind, **KINDS[kind])
    table.bulk_insert(rows((1, "rome", 1.0, "a"), (2, "oslo", 1.0, "a"), (3, None, 1.0, "b")))
    assert table.create_index("by_city", ["city"]).entries == 3
    table.create_index("by_both", ["n", "city"])
    check_indexes(table, covered=True)
    table.upsert(rows((1, "oslo", 2.0, "a"), (4, "lima", float("nan"), "c")))
    check_indexes(table, covered=True)
    table.insert(rows((5, "bonn", -0.0, "b")))
    table.update_columns(pa.table({"id": [2], "dt": ["a"], "city": ["kyiv"], "n": [3.0]}))
    check_indexes(table, covered=True)
    table.delete([{"id": 1, "dt": "a"}])
    check_indexes(table, covered=True)
    if KINDS[kind].get("table_type") is None:
        table.compact()
        check_indexes(table, covered=True)
    table.upsert(rows((1, "rome", 9.0, "a"), (3, "rome", 9.0, "b")))
    table.insert_overwrite(rows((9, "rome", 1.0, "a")))
    check_indexes(table, covered=True)
    table.delete_partitions(["c"])
    check_indexes(table, covered=True)
    assert all(index.state == "ready" for index in table.indexes())


def test_a_partial_update_without_the_column_is_open():
    table = make("partial", table_version=10, ordering="n")
    table.bulk_insert(rows((1, "rome", 1.0, "a"), (2, "oslo", 1.0, "a")))
    table.create_index("by_city", ["city"])
    table.create_index("by_n", ["n"])
    table.create_index("by_both", ["n", "city"])
    table.update_columns(pa.table({"id": [1], "dt": ["a"], "n": [5.0]}))
    check_indexes(table, covered=True)
    assert {one.name: one.open_entries for one in table.indexes()} == {
        "by_both": 1,
        "by_city": 1,
        "by_n": 0,
    }


def test_nothing_is_left_of_a_bad_definition():
    table = make("bad")
    before = dict(table.config.properties)
    for name, columns, error, message in [
        ("a/b", ["city"], InvalidError, "letters"),
        ("x", ["nope"], SchemaError, "the columns there are"),
        ("x", [], InvalidError, "expected a list of columns"),
        ("x", "city", InvalidError, "list of columns"),
        ("x", ["city", "city"], InvalidError, "each once"),
        ("x", ["city", "CITY"], InvalidError, "each once"),
        ("x", ["city.zip"], SchemaError, "'city' is of type string and has no fields"),
    ]:
        with pytest.raises(error, match=message):
            table.create_index(name, columns)
    assert list(table._storage.list(".hoodie/lakebed")) == []
    assert table.indexes() == ()
    assert str(table.indexes()) == "(no secondary indexes)"
    with pytest.raises(NotFoundError, match="its indexes are: none"):
        table.drop_index("x")
    table.drop_index("x", if_exists=True)
    assert dict(table.config.properties) == before


def test_an_index_is_created_once_and_dropped_with_its_files():
    table = make("once")
    table.bulk_insert(rows((1, "rome", 1.0, "a")))
    table.create_index("by_city", ["CITY"])
    with pytest.raises(ExistsError, match="if_not_exists=True"):
        table.create_index("by_city", ["city"])
    assert table.create_index("by_city", ["city"], if_not_exists=True) is None
    with pytest.raises(InvalidError, match="exists, on city instead of n"):
        table.create_index("by_city", ["n"], if_not_exists=True)
    (info,) = table.indexes()
    assert (info.name, info.columns, info.state, info.entries) == ("by_city", ("city",), "ready", 1)
    assert str(table.indexes()).startswith("by_city (city): ready, 1 entries in 1 runs")
    with pytest.raises(InvalidError, match="drop_index"):
        table.drop_column("city")
    with pytest.raises(NotFoundError, match="its indexes are: by_city"):
        table.drop_index("by_citty")
    # Hudi would look for a partition of its metadata table.
    told = [entry.path for entry in table._storage.list(".hoodie")]
    assert not [path for path in told if "index_defs" in path or "/metadata/" in path]
    assert not [name for name in table.config.properties if name.startswith("hoodie.table.index")]
    table.upsert(rows((1, "oslo", 1.0, "a")))
    table.drop_index("by_city")
    assert list(table._storage.list(".hoodie/lakebed/index")) == []
    assert table.indexes() == ()
    table.drop_column("city")


def test_a_custom_merger_takes_no_index():
    table = make("merger", merger=lambda older, newer: newer)
    with pytest.raises(InvalidError, match="custom merger"):
        table.create_index("by_city", ["city"])
    assert list(table._storage.list(".hoodie/lakebed")) == []


def test_an_index_on_an_empty_table_follows_its_first_writes():
    table = make("empty")
    assert table.create_index("by_city", ["city"]).entries == 0
    table.upsert(rows((1, "rome", 1.0, "a")))
    table.upsert(rows((2, "rome", 1.0, "a")))
    check_indexes(table, covered=True)
    assert table.indexes()[0].entries == 2


def test_the_folder_of_indexes_can_be_chosen():
    table = make("folder", properties={"lakebed.index.path": "by/value"})
    table.bulk_insert(rows((1, "rome", 1.0, "a")))
    table.create_index("by_city", ["city"])
    table.upsert(rows((2, "rome", 1.0, "a")))
    assert len(list(table._storage.list(".hoodie/lakebed/by/value"))) == 3
    check_indexes(table, covered=True)


def test_rows_that_another_engine_wrote_are_read_whole():
    table = make("foreign")
    table.bulk_insert(rows((1, "rome", 1.0, "a"), (2, "oslo", 1.0, "b")))
    table.create_index("by_city", ["city"])
    with unindexed(table):
        table.upsert(rows((1, "lima", 1.0, "a")))
    check_indexes(table)
    (index,) = open_indexes(table._snapshot(None))
    assert isinstance(index, OpenIndex)
    assert {group.partition for group in index.manifest.whole} == {"a"}
    assert table.indexes()[0].uncovered == 1


def test_many_entries_of_one_commit_are_sorted_in_parts():
    batches = [pa.record_batch({"n": list(range(count))}) for count in (4, 4, 1, 20, 4)]
    parts = list(split_batches(batches, 64))
    assert [[batch.num_rows for batch in part] for part in parts] == [[4, 4], [1], [20], [4]]


def test_the_driver_writes_the_entries_of_many_tasks_before_they_fill_its_memory():
    index = IndexDefinition("by_v", ("v",), ("int64",), "1")
    spec = replace(make_spec(), indexes=IndexWriters((index,)))
    participant = IndexParticipant(spec, max_bytes=3000)
    for number in range(100):
        keys = pa.record_batch({RECORD_KEY: [f"k{number}-{n}" for n in range(10)]})
        made = NewEntries(index.folder, EntryKind.VALUES, make_keys(keys, "p"))
        status = WriteStatus(FileGroupId("p", f"f{number}"), (), entries=(made,))
        assert participant.take(status).entries == ()
        assert participant.held_bytes <= 3000
    folder = index_folder(spec.config, index)
    written = [entry.path for entry in spec.storage.list(folder)]
    assert 5 < len(written) < 50
    entries = [
        key
        for path in written
        for found in find_entries(spec.storage, path, [(b"", None)])
        for key in found.column(RECORD_KEY).to_pylist()
    ]
    assert len(set(entries)) == len(entries) > 900
