"""One write from rows to commit: what it counts, what it keeps, which files it makes."""

import pyarrow as pa
import pytest

from lakebed.errors import SchemaError
from lakebed.format.files.partition_metadata import PartitionMetadata
from lakebed.format.timeline.commit_metadata import CommitMetadata
from lakebed.merge.passes import MAX_FAN_IN
from lakebed.storage.objects import memory_storage
from support.machine import memory_of
from support.tables import (
    SCHEMA,
    batch,
    check_files,
    check_no_leftovers,
    contents,
    make,
    reopen,
    rows_of,
    user_rows,
)


def metadata_of(table, commit) -> CommitMetadata:
    path = f".hoodie/timeline/{commit.instant}_{commit.completion_time}.commit"
    return CommitMetadata.parse(table._storage.read(path), path)


def test_a_commit_counts_rows_and_names_its_files():
    table = make(buckets=1)
    commit = table.bulk_insert(batch(("a", 1, 1, "p"), ("a", 2, 1, "p"), ("b", 1, 1, "q")))
    assert (commit.rows, commit.inserted, commit.action) == (2, 2, "commit")
    assert commit.operation == "BULK_INSERT"
    stored = metadata_of(table, commit)
    assert tuple(stored.write_stats()) == tuple(
        sorted(commit.write_stats, key=lambda stat: stat.partition_path or "")
    )
    assert stored.operation_type == "BULK_INSERT"
    assert '"name":"id"' in stored.extra_metadata["schema"].replace(" ", "")
    for stat in commit.write_stats:
        assert stat.prev_commit == "null"
        assert stat.prev_base_file is None
        assert stat.file_size_in_bytes == len(table._storage.read(stat.path or ""))


def test_a_rewrite_says_which_file_it_follows():
    table = make(buckets=1)
    first = table.insert(batch(("a", 1, 1, "p"), ("b", 1, 1, "p")))
    second = table.insert(batch(("a", 2, 2, "p"), ("c", 2, 2, "p")))
    [old], [new] = first.write_stats, second.write_stats
    assert new.file_id == old.file_id
    assert new.prev_commit == first.instant
    assert f"p/{new.prev_base_file}" == old.path
    assert (new.num_writes, new.num_inserts, new.num_update_writes) == (3, 1, 1)
    rows = rows_of(table)
    assert {key: row["_hoodie_commit_time"] for key, row in rows.items()} == {
        ("p", "a"): second.instant,
        ("p", "b"): first.instant,
        ("p", "c"): second.instant,
    }
    seqnos = [row["_hoodie_commit_seqno"] for row in rows.values()]
    assert len(set(seqnos)) == 3
    check_files(table)


def test_groups_without_new_rows_are_not_rewritten():
    table = make(buckets=4)
    table.insert(batch(*((f"k{i}", 1, 1, "p") for i in range(40))))
    before = table.files().column("path").to_pylist()
    commit = table.insert(batch(("k1", 2, 2, "p")))
    after = table.files().column("path").to_pylist()
    assert len(before) == len(after) == 4
    assert len(commit.write_stats) == 1
    assert len(set(before) & set(after)) == 3


def test_a_partition_gets_its_metadata_once():
    table = make()
    first = table.insert(batch(("a", 1, 1, "p")))
    path = "p/.hoodie_partition_metadata"
    data = table._storage.read(path)
    assert PartitionMetadata.parse(data, path) == PartitionMetadata.of(first.instant, "p")
    table.insert(batch(("b", 1, 1, "p")))
    assert table._storage.read(path) == data


def test_an_empty_write_is_a_commit_without_files():
    table = make()
    commit = table.insert(SCHEMA.empty_table())
    assert (commit.rows, commit.write_stats) == (0, ())
    assert table.history().num_rows == 1
    assert user_rows(table) == {}


def test_merge_mode_decides_against_what_is_in_the_table():
    for ordering, wanted in (((), 2), (("ts",), 1)):
        table = make(ordering=ordering)
        table.insert(batch(("a", 1, 9, "p")))
        table.insert(batch(("a", 2, 5, "p")))
        assert user_rows(table)["p", "a"]["v"] == wanted
        table.insert(batch(("a", 3, 9, "p")))
        assert user_rows(table)["p", "a"]["v"] == 3, "on a tie the later one wins"


def test_new_columns_and_wider_types_apply_to_old_rows_when_they_are_read():
    schema = pa.schema([("id", pa.string()), ("n", pa.int32()), ("dt", pa.string())])
    table = make(schema=schema, buckets=1)
    table.insert(pa.table({"id": ["a"], "n": [1], "dt": ["p"]}, schema=schema))
    table.insert(pa.table({"id": ["b"], "n": [2**40], "dt": ["p"], "x": ["new"]}), evolve=True)
    with pytest.raises(SchemaError, match="column 'n' is missing"):
        table.insert(pa.table({"id": ["a"], "dt": ["p"]}))
    table.insert(pa.table({"id": ["c"], "n": pa.nulls(1), "dt": ["p"], "x": pa.nulls(1)}))
    assert table.schema.field("n").type == pa.int64()
    found = user_rows(table)
    assert {key[1]: (row["n"], row["x"]) for key, row in found.items()} == {
        "a": (1, None),
        "b": (2**40, "new"),
        "c": (None, None),
    }
    check_files(table)


@pytest.mark.parametrize("column", ["v", "ts"])
def test_a_column_without_any_value_fits_every_type(column):
    table = make()
    rows = batch(("a", 1, 1, "p"))
    at = rows.schema.get_field_index(column)
    table.insert(rows.set_column(at, column, pa.nulls(1)))
    assert user_rows(table)["p", "a"][column] is None
    assert table.schema.field(column).type == pa.int64()


def test_a_new_column_without_any_value_has_no_type_and_is_refused():
    table = make()
    with pytest.raises(SchemaError, match="column 'x': a table cannot hold the type null"):
        table.insert(batch(("a", 1, 1, "p")).append_column("x", pa.nulls(1)))


def test_the_rows_of_a_table_can_be_written_into_itself_and_another():
    table = make()
    table.insert(batch(("a", 1, 1, "p"), ("b", 2, 2, "q")))
    before = user_rows(table)
    table.insert(table.read())
    assert user_rows(table) == before
    other = make()
    other.bulk_insert(table.read())
    assert user_rows(other) == before


@pytest.mark.parametrize("kind", ["table", "batch", "reader", "capsule"])
def test_rows_come_in_any_arrow_form(kind):
    rows = batch(("a", 1, 1, "p"), ("b", 2, 2, "p"))

    class Stream:
        def __arrow_c_stream__(self, requested_schema=None):
            return rows.__arrow_c_stream__(requested_schema)

    forms = {
        "table": rows,
        "batch": rows.combine_chunks().to_batches()[0],
        "reader": rows.to_reader(),
        "capsule": Stream(),
    }
    table = make()
    assert table.insert(forms[kind]).rows == 2


def test_a_table_without_partitions_lies_in_its_own_folder():
    table = make(partition_by=())
    table.insert(batch(("a", 1, 1, "p"), ("b", 1, 1, "q")))
    assert {path for path in contents(table._storage) if path.endswith(".parquet")} == set(
        table.files().column("path").to_pylist()
    )
    assert set(user_rows(table)) == {("", "a"), ("", "b")}
    assert ".hoodie_partition_metadata" in contents(table._storage)


@pytest.mark.parametrize("version", [8, 9, 10])
@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_every_version_and_type_is_written_and_read(version, kind):
    storage = memory_storage()
    make(storage, table_version=version, table_type=kind, ordering=("ts",))
    table = reopen(storage)
    commit = table.bulk_insert(batch(("a", 1, 1, "p"), ("b", 2, 2, "q")))
    assert commit.action == ("commit" if kind == "COPY_ON_WRITE" else "deltacommit")
    assert len(user_rows(reopen(storage))) == 2
    assert table.config.version == version


def test_many_rows_come_back_in_key_order_within_a_file():
    table = make(buckets=2, partition_by=())
    count = 40_000
    ids = [f"k{(i * 7919) % count:06d}" for i in range(count)]
    rows = pa.table(
        {"id": ids, "v": range(count), "ts": [1] * count, "dt": ["p"] * count}, schema=SCHEMA
    )
    table.bulk_insert(rows)
    table.insert(rows.slice(0, 1000).set_column(1, "v", pa.array([-1] * 1000, pa.int64())))
    found = table.read(columns=["id", "v"]).read_all()
    assert found.num_rows == count
    assert sum(value == -1 for value in found.column("v").to_pylist()) == 1000
    check_files(table)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (pa.int32(), pa.float64()),
        (pa.int32(), pa.decimal128(12, 2)),
        (pa.decimal128(10, 1), pa.decimal128(12, 2)),
    ],
)
@pytest.mark.parametrize("column", ["id", "dt"])
def test_a_key_or_partition_column_is_not_widened_to_another_spelling(before, after, column):
    schema = pa.schema([("id", pa.int32()), ("ts", pa.int64()), ("dt", pa.int32())])
    schema = schema.set(schema.get_field_index(column), pa.field(column, before))
    table = make(schema=schema)
    rows = [{"id": 1, "ts": 1, "dt": 7}]
    table.insert(pa.Table.from_pylist(rows, schema=schema))
    wider = schema.set(schema.get_field_index(column), pa.field(column, after))
    with pytest.raises(SchemaError, match=column):
        table.insert(pa.Table.from_pylist(rows, schema=wider), evolve=True)
    assert table.read().read_all().num_rows == 1


def test_a_key_column_may_grow_from_int_to_long():
    schema = pa.schema([("id", pa.int32()), ("v", pa.int64()), ("dt", pa.string())])
    table = make(schema=schema)
    table.insert(pa.Table.from_pylist([{"id": 1, "v": 1, "dt": "p"}], schema=schema))
    wider = schema.set(0, pa.field("id", pa.int64()))
    rows = [{"id": 1, "v": 2, "dt": "p"}, {"id": 2**40, "v": 3, "dt": "p"}]
    table.insert(pa.Table.from_pylist(rows, schema=wider), evolve=True)
    assert sorted(row["v"] for row in table.read().read_all().to_pylist()) == [2, 3]


def test_more_runs_than_can_be_open_at_once_are_merged_in_passes():
    table = make(ordering=("ts",), partition_by=(), buckets=1)
    many = 2 * MAX_FAN_IN
    parts = [batch((f"k{n % 17}", n, n % 5, "p")) for n in range(many)]
    want = {}
    for number in range(many):
        key, order = f"k{number % 17}", number % 5
        if order >= want.get(key, (-1, 0))[0]:
            want[key] = (order, number)
    stream = pa.RecordBatchReader.from_batches(parts[0].schema, [p.to_batches()[0] for p in parts])
    with memory_of(table, 1):
        table.insert(stream)
    got = {row["id"]: (row["ts"], row["v"]) for row in table.read().read_all().to_pylist()}
    assert got == want
    check_no_leftovers(table._storage)
