"""The edges, read back by Apache Hudi: failed tasks, empty tables, odd partitions, every key type."""

import datetime as dt
import decimal
import pathlib
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from interop.clients import Hudi, HudiRs
from interop.rows import user_rows
from support import spark_faults

SCHEMA = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("dt", pa.string())])
ROWS = pa.table({"id": ["a", "b", "中😀"], "ts": [1, 2, 3], "dt": ["x", "y", "x"]}, schema=SCHEMA)


SCENARIOS = ["retried", "killed", "twice", "refused", "outage"]


@pytest.fixture(scope="module")
def faulted(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Make a table for each way in which a task of Spark can go wrong, in one session."""
    folder = tmp_path_factory.mktemp("faulted")
    assert set(spark_faults.all_scenarios(str(folder))) >= set(SCENARIOS)
    return folder


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_hudi_sees_no_trace_of_a_task_that_failed_or_ran_twice(
    hudi: Hudi, hudi_rs: HudiRs, faulted: pathlib.Path, scenario: str
) -> None:
    path = str(faulted / scenario)
    ours = lakebed.open_table(None, path).read().read_all()
    assert ours.num_rows
    if scenario in {"retried", "killed", "twice"}:
        assert sorted(tuple(row.values()) for row in ours.to_pylist()) == spark_faults.wanted_rows()
    want = user_rows(ours, ["id"])
    assert user_rows(hudi.read(path), ["id"]) == want
    assert user_rows(hudi_rs.read(path), ["id"]) == want


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_hudi_opens_a_table_that_holds_nothing_yet(
    hudi: Hudi, tmp_path: pathlib.Path, table_type: str
) -> None:
    path = str(tmp_path / "empty")
    table = lakebed.create_table(None, path, SCHEMA, key="id", ordering="ts", table_type=table_type)
    assert hudi.read(path).num_rows == 0
    table.insert(ROWS.slice(0, 0))
    assert hudi.read(path).num_rows == 0
    table.insert(ROWS)
    assert user_rows(hudi.read(path), ["id"]) == user_rows(ROWS, ["id"])


@pytest.mark.parametrize("hive", ["true", "false"])
@pytest.mark.parametrize("encode", ["true", "false"])
def test_partition_paths_are_hudis_in_every_style(
    hudi: Hudi, hudi_rs: HudiRs, tmp_path: pathlib.Path, hive: str, encode: str
) -> None:
    style = {
        "hoodie.datasource.write.hive_style_partitioning": hive,
        "hoodie.datasource.write.partitionpath.urlencode": encode,
    }
    values = ["plain", "p q", "é", "a+b", None] + (["a/b=c%d", "[1]:x"] if encode == "true" else [])
    rows = pa.table(
        {"id": [f"k{n}" for n in range(len(values))], "ts": [1] * len(values), "dt": values},
        schema=SCHEMA,
    )
    ours, theirs = str(tmp_path / "ours"), str(tmp_path / "theirs")
    table = lakebed.create_table(
        None,
        ours,
        SCHEMA,
        key="id",
        ordering="ts",
        partition_by="dt",
        table_type="COPY_ON_WRITE",
        buckets=2,
        properties=style,
    )
    table.bulk_insert(rows)
    hudi.write(
        theirs,
        rows,
        {
            "hoodie.table.name": "theirs",
            "hoodie.datasource.write.operation": "upsert",
            "hoodie.datasource.write.recordkey.field": "id",
            "hoodie.datasource.write.precombine.field": "ts",
            "hoodie.datasource.write.partitionpath.field": "dt",
            "hoodie.index.type": "BUCKET",
            "hoodie.bucket.index.num.buckets": "2",
            "hoodie.metadata.enable": "false",
        }
        | style,
    )
    written = lakebed.open_table(None, theirs)
    assert places(lakebed.open_table(None, ours)) == places(written)
    assert keys_and_paths(table.read(columns=PLACED)) == keys_and_paths(
        written.read(columns=PLACED)
    )
    assert user_rows(hudi.read(ours), ["id"]) == user_rows(hudi.read(theirs), ["id"])
    assert hudi_rs.read(ours).num_rows == rows.num_rows


PLACED = ["_hoodie_record_key", "_hoodie_partition_path"]
KEYS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "string": (pa.string(), ["a", "é", "中😀", "x,y:z"]),
    "bigint": (pa.int64(), [7, -7, 2**62]),
    "int": (pa.int32(), [7, -7]),
    "double": (pa.float64(), [1.5, 1e10, 2e-5, 100.0]),
    "float": (pa.float32(), [1.5, 3.25e-7]),
    "decimal": (pa.decimal128(10, 2), [decimal.Decimal("12.30"), decimal.Decimal("-0.01")]),
    "boolean": (pa.bool_(), [True, False]),
    "date": (pa.date32(), [dt.date(2024, 1, 2), dt.date(1969, 12, 31)]),
    "timestamp": (
        pa.timestamp("us", "UTC"),
        [dt.datetime(2024, 1, 2, 3, 4, 5, 678901, tzinfo=dt.UTC)],
    ),
    "binary": (pa.binary(), [b"x", b"\x00\xff"]),
}


@pytest.mark.parametrize("kind", KEYS)
def test_hudi_finds_keys_of_every_type_where_lakebed_put_them(
    hudi: Hudi, tmp_path: pathlib.Path, kind: str
) -> None:
    key_type, values = KEYS[kind]
    schema = pa.schema([("id", key_type), ("ts", pa.int64()), ("v", pa.string())])
    path = str(tmp_path / "keys")
    table = lakebed.create_table(
        None, path, schema, key="id", ordering="ts", table_type="COPY_ON_WRITE", buckets=8
    )
    count = len(values)
    table.bulk_insert(
        pa.table({"id": values, "ts": [1] * count, "v": ["ours"] * count}, schema=schema)
    )
    newer = pa.table({"id": values, "ts": [2] * count, "v": ["hudi's"] * count}, schema=schema)
    hudi.write(
        path,
        newer,
        {
            "hoodie.table.name": "keys",
            "hoodie.datasource.write.operation": "upsert",
            "hoodie.datasource.write.recordkey.field": "id",
            "hoodie.datasource.write.precombine.field": "ts",
            "hoodie.datasource.write.keygenerator.class": (
                "org.apache.hudi.keygen.NonpartitionedKeyGenerator"
            ),
            "hoodie.metadata.enable": "false",
        },
    )
    # Had Hudi spelled or hashed one key otherwise, the old row would still be there.
    read = lakebed.open_table(None, path).read().read_all()
    assert read.num_rows == count
    assert set(read.column("v").to_pylist()) == {"hudi's"}


def test_hudi_reads_a_timestamp_partitioned_table(hudi: Hudi, tmp_path: pathlib.Path) -> None:
    schema = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("at", pa.int64())])
    path = str(tmp_path / "timed")
    table = lakebed.create_table(
        None,
        path,
        schema,
        key="id",
        ordering="ts",
        partition_by="at",
        table_type="COPY_ON_WRITE",
        properties={
            "hoodie.table.keygenerator.type": "TIMESTAMP",
            "hoodie.keygen.timebased.timestamp.type": "UNIX_TIMESTAMP",
            "hoodie.keygen.timebased.output.dateformat": "yyyy/MM/dd",
            "hoodie.keygen.timebased.timezone": "UTC",
        },
    )
    table.insert(pa.table({"id": ["a", "b"], "ts": [1, 2], "at": [1704164645, 0]}, schema=schema))
    assert {group.partition for group in table.layers()} == {"2024/01/02", "1970/01/01"}
    read = hudi.read(path)
    assert sorted(read.column("id").to_pylist()) == ["a", "b"]
    assert sorted(read.column("_hoodie_partition_path").to_pylist()) == ["1970/01/01", "2024/01/02"]


def places(table: lakebed.Table) -> list[tuple[str, str]]:
    """Return partition and bucket of every file group."""
    return sorted((group.partition, group.file_id[:8]) for group in table.layers())


def keys_and_paths(read: pa.RecordBatchReader) -> list[tuple[str, ...]]:
    """Return the spelled keys and partition paths."""
    return sorted(tuple(row.values()) for row in read.read_all().to_pylist())


WIDENINGS: dict[str, tuple[pa.DataType, Any, pa.DataType, Any]] = {
    "int to long": (pa.int32(), 7, pa.int64(), 2**40),
    "short to int": (pa.int16(), 7, pa.int32(), 2**20),
    "int to double": (pa.int32(), 7, pa.float64(), 0.5),
    "float to double": (pa.float32(), 0.5, pa.float64(), 0.1),
    "decimal to a wider one": (
        pa.decimal128(10, 2),
        decimal.Decimal("1.25"),
        pa.decimal128(14, 4),
        decimal.Decimal("9.1234"),
    ),
    "int to decimal": (pa.int32(), 7, pa.decimal128(12, 2), decimal.Decimal("0.25")),
    "long to decimal": (pa.int64(), 7, pa.decimal128(22, 2), decimal.Decimal("0.25")),
}


@pytest.mark.parametrize("kind", WIDENINGS)
def test_hudi_reads_old_and_new_files_of_a_widened_column(
    hudi: Hudi, tmp_path: pathlib.Path, kind: str
) -> None:
    narrow, first, wide, second = WIDENINGS[kind]
    path = str(tmp_path / "wide")
    before = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("v", narrow)])
    after = pa.schema([*before.set(2, pa.field("v", wide)), pa.field("more", pa.string())])
    table = lakebed.create_table(
        None, path, before, key="id", ordering="ts", table_type="COPY_ON_WRITE", buckets=8
    )
    table.insert(pa.table({"id": ["user_0"], "ts": [1], "v": [first]}, schema=before))
    table.insert(
        pa.table({"id": ["user_1"], "ts": [1], "v": [second], "more": ["m"]}, schema=after),
        evolve=True,
    )
    ours = lakebed.open_table(None, path).read().read_all()
    assert ours.num_rows == 2
    assert user_rows(hudi.read(path), ["id"]) == user_rows(ours, ["id"])
