"""Tables of Apache Hudi 1.2.0 whose keys or folders are not spelled as we spell them, or not stored.

virtual_binary_key          MOR 8, no meta columns, key k0,k1,k2 of which one is binary
timestamp_key_bulk          key k, a timestamp, loaded by bulk_insert (row writer)
timestamp_part_of_key_bulk  the same with the key k,k2
binary_key_bulk             key b and partition part, binary, loaded by bulk_insert
timestamp_partition_sql     Spark SQL, PARTITIONED BY (p TIMESTAMP)
"""

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakebed
from lakebed.errors import NotFoundError, UnsupportedError
from support.fixtures import SPELLING, names, unpack_from

TABLES = {
    "virtual_binary_key": ["k0", "k1", "k2"],
    "timestamp_key_bulk": ["k"],
    "timestamp_part_of_key_bulk": ["k", "k2"],
    "binary_key_bulk": ["b"],
    "timestamp_partition_sql": ["id"],
}


@pytest.fixture
def table(request: pytest.FixtureRequest, tmp_path: Path) -> lakebed.Table:
    return lakebed.open_table(str(unpack_from(SPELLING, request.param, tmp_path)))


def rows_of(table: lakebed.Table, columns: list[str]) -> list[dict]:
    return table.read(columns=columns).read_all().to_pylist()


def test_every_table_is_looked_at():
    assert names(SPELLING) == sorted(TABLES)


@pytest.mark.parametrize(("table", "key"), TABLES.items(), indirect=["table"])
def test_every_row_is_found_by_its_key_with_and_without_its_partition(table, key):
    partition = list(table.config.partition_fields)
    rows = rows_of(table, [*key, *partition])
    assert rows
    for asked in (key, [*key, *partition]):
        alone = [table.lookup([{n: row[n] for n in asked}], columns=key) for row in rows]
        # A key is unique in its partition; some are in several.
        wanted = [sum(all(o[n] == row[n] for n in asked) for o in rows) for row in rows]
        assert [found.num_rows for found in alone] == wanted
        assert table.lookup(rows, columns=key).num_rows == len(rows)


@pytest.mark.parametrize(("table", "key"), TABLES.items(), indirect=["table"])
def test_a_key_that_is_not_there_is_not_found(table, key):
    [row] = rows_of(table, key)[:1]
    strange = {
        name: b"none" if isinstance(value, bytes)
        else dt.datetime(2000, 1, 1, tzinfo=dt.UTC) if isinstance(value, dt.datetime)
        else "none" if isinstance(value, str) else 987654321
        for name, value in row.items()
    }  # fmt: skip
    assert table.lookup([strange]).num_rows == 0


@pytest.mark.parametrize("table", [n for n in TABLES if n != "virtual_binary_key"], indirect=True)
def test_writes_that_would_spell_a_key_or_folder_anew_are_refused(table):
    rows = table.read().read_all()
    partition = table.config.partition_fields
    for write in (
        lambda: table.upsert(rows),
        lambda: table.delete(rows.select([*table.config.record_key_fields, *partition])),
        lambda: table.update_columns(rows),
    ):
        with pytest.raises(UnsupportedError, match=r"would write as|format differently"):
            write()
    assert table.read().read_all().num_rows == rows.num_rows


@pytest.mark.parametrize("table", ["timestamp_partition_sql"], indirect=True)
def test_a_partition_that_another_writer_spelled_is_deleted_by_its_folder(table):
    moment = dt.datetime(2024, 1, 2, tzinfo=dt.UTC)
    assert {"id": "b", "p": moment} in rows_of(table, ["id", "p"])
    with pytest.raises(NotFoundError, match="p=2024-01-02 00%3A00%3A00"):
        table.delete_partitions([{"p": moment}])
    table.delete_partitions(["p=2024-01-02 00%3A00%3A00"])
    assert sorted(row["id"] for row in rows_of(table, ["id"])) == ["a", "c"]


def test_a_stored_index_does_not_hide_keys_that_another_writer_loaded(tmp_path):
    schema = pa.schema([("k", pa.timestamp("us", "UTC")), ("v", pa.int64())])
    path = str(tmp_path / "t")
    table = lakebed.create_table(None, path, schema, key="k", buckets=1)
    moment = dt.datetime(2024, 1, 2, 3, 4, 5, tzinfo=dt.UTC)
    row = pa.table({"k": pa.array([moment], schema.field("k").type), "v": [1]})
    table.upsert(row)
    assert table.lookup([moment]).to_pylist() == row.to_pylist()
    respell(Path(path), "2024-01-02 03:04:05.0")
    again = lakebed.open_table(path)
    assert again.lookup([moment]).to_pylist() == row.to_pylist()
    with pytest.raises(
        UnsupportedError, match=r"'2024-01-02 03:04:05.0'.*would write as '1704164645000000'"
    ):
        again.upsert(row)


def respell(path: Path, key: str) -> None:
    """Store another key in the one row of a table, as Hudi's bulk_insert would."""
    [file] = path.glob("*.parquet")
    rows = pq.ParquetFile(file).read()
    at = rows.schema.get_field_index("_hoodie_record_key")
    size = file.stat().st_size
    changed = rows.set_column(at, rows.schema.field(at), pa.array([key]))
    pq.write_table(changed, file, compression="none")
    padding = size - file.stat().st_size
    assert padding <= 0, "a shorter file would be a damaged one"


@pytest.mark.parametrize("encode", ["true", "false"])
def test_a_value_of_which_there_is_no_folder_finds_nothing_and_fails_nothing(encode):
    schema = pa.schema([("id", pa.int64()), ("p", pa.string())])
    table = lakebed.create_table(
        None, f"memory://folders/{encode}", schema, key="id", partition_by="p", buckets=1,
        properties={"hoodie.datasource.write.partitionpath.urlencode": encode},
    )  # fmt: skip
    table.upsert(pa.table({"id": [1, 2], "p": ["a", "b"]}, schema=schema))
    asked = [{"id": 1, "p": "a"}, {"id": 1, "p": "../x"}, {"id": 2, "p": "x" * 300},
             {"id": 2, "p": "."}, {"id": 2, "p": "\n"}, {"id": 1, "p": None}]  # fmt: skip
    assert table.lookup(asked).to_pylist() == [{"id": 1, "p": "a"}]


def test_a_time_that_is_none_finds_nothing_and_fails_nothing():
    schema = pa.schema([("id", pa.int64()), ("at", pa.string())])
    named = "hoodie.keygen.timebased."
    table = lakebed.create_table(
        None, "memory://folders/times", schema, key="id", partition_by="at", buckets=1,
        properties={
            "hoodie.table.keygenerator.type": "TIMESTAMP",
            f"{named}timestamp.type": "DATE_STRING",
            f"{named}input.dateformat": "yyyy-MM-dd",
            f"{named}output.dateformat": "yyyyMMdd",
            f"{named}timezone": "UTC",
        },
    )  # fmt: skip
    table.upsert(pa.table({"id": [1], "at": ["2024-01-02"]}, schema=schema))
    asked = [{"id": 1, "at": "2024-01-02"}, {"id": 1, "at": "never"}, {"id": 1, "at": None}]
    assert table.lookup(asked).to_pylist() == [{"id": 1, "at": "2024-01-02"}]
