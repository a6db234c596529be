"""Rows by key, and keys that are none: what a caller may give, and what must not be guessed."""

import datetime as dt
import decimal
import itertools

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakebed
from lakebed.errors import CorruptError, InvalidError, KeyValueError, SchemaError, UnsupportedError
from lakebed.table.config.schema import normalise
from support.tables import batch, make, reopen, user_rows

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.int64()), ("dt", pa.string())])


def numbered(*rows: tuple[int, int, str], **changes):
    table = make(schema=SCHEMA, **changes)
    table.upsert(given(*rows))
    return table


def given(*rows: tuple[int, int, str], **more: list) -> pa.Table:
    columns = dict(zip(SCHEMA.names, map(list, zip(*rows, strict=True)), strict=True))
    return pa.table({**columns, **more})


@pytest.mark.parametrize("key", [1.5, decimal.Decimal("1.7"), float("nan"), float("inf")])
def test_a_key_that_would_be_cut_to_another_is_refused(key):
    table = numbered((1, 1, "a"))
    for call in (table.lookup, lambda keys: table.delete([{"id": keys[0], "dt": "a"}])):
        with pytest.raises(KeyValueError, match="key column 'id': expected int64"):
            call([key])
    assert len(user_rows(table)) == 1


def test_a_date_may_be_given_as_iso_text():
    schema = pa.schema([("id", pa.date32()), ("dt", pa.date32())])
    days = [dt.date(2024, 1, 1), dt.date(2024, 1, 2)]
    table = make(schema=schema)
    table.upsert(pa.table([days, days], schema=schema))
    key = {"id": "2024-01-01", "dt": "2024-01-01"}
    assert table.lookup([key]).to_pylist() == [{"id": days[0], "dt": days[0]}]
    for other in ("20240101", "2024-02-30", "today", "２024-01-01"):
        with pytest.raises(KeyValueError, match="key column 'dt': expected a datetime"):
            table.delete_partitions([{"dt": other}])
    table.delete([key])
    table.delete_partitions([{"dt": "2024-01-02"}])
    assert user_rows(table) == {}


def test_a_moment_is_no_date():
    schema = pa.schema([("id", pa.date32()), ("dt", pa.string())])
    table = make(schema=schema)
    with pytest.raises(KeyValueError, match="expected date32"):
        table.lookup([dt.datetime(2024, 1, 1, 12)])


@pytest.mark.parametrize("keys", [b"\x01", bytearray(b"\x01"), "1", {"id": 1}, 1, None])
def test_keys_are_a_list(keys):
    with pytest.raises(InvalidError, match="keys: expected a list"):
        numbered((1, 1, "a")).lookup(keys)


@pytest.mark.parametrize("index", ["bucket", "simple", "global_simple"])
def test_a_partition_that_is_given_counts_for_its_key_alone(index):
    table = numbered((1, 1, "a"), (2, 3, "b"), index=index)
    if index != "global_simple":
        table.upsert(given((1, 2, "b")))
        assert table.lookup([1]).num_rows == 2
    found = table.lookup([{"id": 1, "dt": "a"}, {"id": 2}, {"id": 2, "dt": "a"}], columns=["v"])
    assert sorted(found.column("v").to_pylist()) == [1, 3]
    assert table.lookup([]).schema.names == SCHEMA.names
    assert table.lookup([{"id": 9, "dt": "a"}]).num_rows == 0


def test_a_row_is_found_by_its_columns_where_its_folder_is_another():
    stays = {"hoodie.simple.index.update.partition.path": "false"}
    table = numbered((1, 1, "a"), index="global_simple", properties=stays)
    table.upsert(given((1, 2, "b")))
    assert table.lookup([{"id": 1, "dt": "b"}]).column("v").to_pylist() == [2]
    assert table.lookup([{"id": 1, "dt": "a"}]).num_rows == 0


@pytest.mark.parametrize("logs", [False, True])
def test_a_search_in_a_file_that_only_claims_to_be_sorted_is_corrupt(logs):
    table = make(buckets=1, table_type="MERGE_ON_READ", partition_by=())
    table.bulk_insert(batch(*((f"k{i:04d}", i, 1, "p") for i in range(3000))))
    if logs:
        table.upsert(batch(("k0001", 5, 2, "p")))
    path = next(p for p in table.files().column("path").to_pylist() if p.endswith(".parquet"))
    file = pq.ParquetFile(pa.BufferReader(table._storage.read(path)))
    order = list(range(3000))
    order[10], order[2000] = order[2000], order[10]
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, file.schema_arrow, store_schema=False) as writer:
        writer.write_table(file.read().take(pa.array(order)))
        writer.add_key_value_metadata(file.metadata.metadata)
    # Not shorter than the commit says, or that would be found first.
    table._storage.put(path, sink.getvalue().to_pybytes())
    for read in (
        lambda t: t.lookup(["k0010"]),
        lambda t: t.read(where="id = 'k2000'").read_all(),
    ):
        with pytest.raises(CorruptError, match=r"but the run is marked as sorted|it was truncated"):
            read(reopen(table._storage))


def test_names_of_our_own_cannot_steer_a_write():
    table = numbered((1, 1, "a"))
    for name in ("_lakebed_file_id", "_lakebed_came", "_LAKEBED_flags"):
        with pytest.raises(SchemaError, match="are Lakebed's own"):
            table.upsert(given((1, 2, "a"), **{name: ["x"]}))
    with pytest.raises(SchemaError, match="are Lakebed's own"):
        normalise(SCHEMA.append(pa.field("_lakebed_x", pa.string())))
    assert len(user_rows(table)) == 1


@pytest.mark.parametrize("index", ["bucket", "simple", "global_simple"])
def test_a_partition_that_is_overwritten_by_deletes_alone_is_empty(index):
    table = numbered((1, 1, "a"), (2, 2, "b"), (3, 3, "b"), index=index)
    table.insert_overwrite(given((9, 1, "a"), (2, 1, "b"), _hoodie_is_deleted=[False, True]))
    assert [row["id"] for row in user_rows(table).values()] == [9]


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_either_mark_of_a_delete_will_do(table_type):
    marks = {"hoodie.payload.delete.field": "op", "hoodie.payload.delete.marker": "D"}
    schema = SCHEMA.append(pa.field("op", pa.string()))
    table = make(schema=schema, table_type=table_type, properties=marks)
    rows = [(n, n, "a") for n in range(4)]
    table.upsert(given(*rows, op=["I"] * 4))
    pairs = list(itertools.product(["I", "D"], [False, True]))
    ops, gone = map(list, zip(*pairs, strict=True))
    table.upsert(given(*rows, op=ops, _hoodie_is_deleted=gone))
    assert [row["id"] for row in user_rows(table).values()] == [0]
    assert table.schema.names == schema.names


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_a_column_that_must_have_a_value_need_not_come_with_an_update(table_type):
    schema = SCHEMA.append(pa.field("n", pa.int64(), nullable=False))
    table = make(schema=schema, table_type=table_type)
    table.upsert(given((1, 1, "a"), n=[7]).cast(schema))
    table.update_columns(given((1, 2, "a")))
    assert [(row["v"], row["n"]) for row in user_rows(table).values()] == [(2, 7)]


def test_update_columns_does_not_go_through_a_merger():
    table = make(schema=SCHEMA)
    table._merger = lambda older, newer: newer
    with pytest.raises(UnsupportedError, match="merges whole rows"):
        table.update_columns(given((1, 1, "a")))


def test_an_error_of_a_merger_names_it(tmp_path):
    def fails(older, newer):
        raise ZeroDivisionError("no")

    table = lakebed.create_table(None, str(tmp_path / "t"), SCHEMA, key="id", merger=fails)
    table.upsert(given((1, 1, "a")))
    table.upsert(given((1, 2, "a")))
    with pytest.raises(InvalidError, match="merger: ZeroDivisionError: no"):
        table.read().read_all()


@pytest.mark.parametrize("partition", [{}, ""])
def test_a_table_without_partitions_is_one(partition):
    table = make(schema=SCHEMA, partition_by=())
    table.upsert(given((1, 1, "a"), (2, 2, "b")))
    table.delete_partitions([partition])
    assert user_rows(table) == {}


def test_a_key_column_that_the_table_lacks_is_named(tmp_path):
    table = lakebed.create_table(None, str(tmp_path), SCHEMA, key="id")
    path = tmp_path / ".hoodie" / "hoodie.properties"
    text = path.read_text().replace("recordkey.fields=id", "recordkey.fields=ie")
    path.write_text(text)
    table = lakebed.open_table(None, str(tmp_path))
    with pytest.raises(
        SchemaError, match=r"key column 'ie'.*expected one of the table's.*found id, "
    ):
        table.lookup([{"ie": "a"}])
    with pytest.raises(SchemaError, match="key column 'ie'"):
        table.delete([{"ie": "a"}])
