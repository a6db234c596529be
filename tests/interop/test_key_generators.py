"""Key generators between Lakebed and Apache Hudi: the same rows, the same keys, the same folders."""

import datetime as dt
import pathlib
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from interop.clients import Hudi
from interop.rows import user_rows
from lakebed.errors import UnsupportedError
from lakebed.format.names.record_key import KeyGenerator
from support.fixtures import unpack

TIMED = "hoodie.keygen.timebased."
HIVE = {"hoodie.datasource.write.hive_style_partitioning": "true"}
ENCODED = {"hoodie.datasource.write.partitionpath.urlencode": "true"}
OPTIONS = {
    "hoodie.table.name": "timed",
    "hoodie.datasource.write.operation": "upsert",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.partitionpath.field": "at",
    "hoodie.datasource.write.keygenerator.class": (
        "org.apache.hudi.keygen.TimestampBasedKeyGenerator"
    ),
    "hoodie.index.type": "SIMPLE",
    "hoodie.metadata.enable": "false",
    "hoodie.simple.index.parallelism": "2",
    "hoodie.upsert.shuffle.parallelism": "2",
}


def timed(kind: str, output: str, **more: str) -> dict[str, str]:
    """Return the settings of a timestamp key generator; `_` stands for `.`."""
    named = {name.replace("_", "."): value for name, value in more.items()}
    settings = {"timestamp.type": kind, "output.dateformat": output, **named}
    return {TIMED + name: value for name, value in settings.items()}


ISO = "yyyy-MM-dd'T'HH:mm:ss.SSSZ,yyyy-MM-dd'T'HH:mm:ssZ"
OFFSETS = [
    "2024-01-02T23:30:00.123-0500",
    "2024-01-02T23:30:00+0900",
    "2023-04-02T12:01:00.123Z",
    "1969-12-31T23:59:59Z",
    None,
]
CASES: dict[str, tuple[pa.DataType, list[Any], dict[str, str]]] = {
    "seconds": (
        pa.int64(),
        [1704164645, 0, -1, -86401, None],
        timed("UNIX_TIMESTAMP", "yyyy/MM/dd", timezone="UTC"),
    ),
    "milliseconds, hive style": (
        pa.int64(),
        [1704164645678, 0, -1, None],
        timed("EPOCHMILLISECONDS", "yyyy-MM-dd HH", timezone="GMT+8:00") | HIVE,
    ),
    "milliseconds, encoded": (
        pa.int64(),
        [1704164645678, -1, None],
        timed("EPOCHMILLISECONDS", "yyyy/MM/dd HH:mm:ss.SSS", timezone="UTC") | ENCODED,
    ),
    "microseconds": (
        pa.int64(),
        [1704164645678901, -1, -1001, 1710054000000000, None],
        timed("EPOCHMICROSECONDS", "yyyyMMddHH", output_timezone="America/New_York"),
    ),
    "texts to one zone": (
        pa.string(),
        OFFSETS,
        timed("DATE_STRING", "yyyy/MM/dd/HH", input_dateformat=ISO, output_timezone="UTC"),
    ),
    "texts in their own zones": (
        pa.string(),
        OFFSETS,
        timed("DATE_STRING", "yyyy-MM-dd-HH", input_dateformat=ISO),
    ),
    "texts of a zone": (
        pa.string(),
        ["2024-01-02 03:30", "2024-07-02 23:30", None],
        timed(
            "DATE_STRING",
            "yyyyMMddHH",
            input_dateformat="yyyy-MM-dd HH:mm",
            input_timezone="Asia/Tokyo",
            output_timezone="Europe/Berlin",
        )
        | HIVE,
    ),
    "mixed": (
        pa.string(),
        ["2024-01-02", "1969-12-31", None],
        timed("MIXED", "yyyyMM", input_dateformat="yyyy-MM-dd", timezone="UTC"),
    ),
    "days": (
        pa.int32(),
        [19724, 0, -1, None],
        timed("SCALAR", "yyyy-MM-dd", timestamp_scalar_time_unit="days", timezone="UTC"),
    ),
    "dates": (
        pa.date32(),
        [dt.date(2024, 1, 2), dt.date(1969, 12, 31), None],
        timed("SCALAR", "yyyy-MM-dd", timestamp_scalar_time_unit="DAYS", timezone="UTC"),
    ),
    "doubles": (
        pa.float64(),
        [1704164645.9, -1.5, None],
        timed("UNIX_TIMESTAMP", "yyyy-MM-dd HH-mm-ss", timezone="UTC"),
    ),
}


def table_of(values: list[Any], kind: pa.DataType, ts: int, name: str) -> pa.Table:
    """Return a row for each value."""
    count = len(values)
    return pa.table(
        {
            "id": [f"{name}{number}" for number in range(count)],
            "ts": pa.array([ts] * count, pa.int64()),
            "at": pa.array(values, kind),
            "dt": ["d", "é", None, "", "x"][:count],
        }
    )


def paths(read: pa.Table) -> dict[str, str]:
    """Return the folder of each key, which must be there once."""
    told = read.select(["_hoodie_record_key", "_hoodie_partition_path"]).to_pylist()
    assert set(Counter(row["_hoodie_record_key"] for row in told).values()) == {1}
    return {row["_hoodie_record_key"]: row["_hoodie_partition_path"] for row in told}


def ours(path: pathlib.Path) -> pa.Table:
    table = lakebed.open_table(None, str(path))
    columns = ["_hoodie_record_key", "_hoodie_partition_path", *table.schema.names]
    return table.read(columns=columns).read_all()


@pytest.mark.parametrize("case", CASES)
def test_times_become_the_folders_that_hudi_makes_of_them(
    hudi: Hudi, tmp_path: pathlib.Path, case: str
) -> None:
    kind, values, settings = CASES[case]
    path = tmp_path / "t"
    first = table_of(values, kind, 1, "k")
    hudi.write(path, first, {**OPTIONS, **settings})
    theirs = paths(hudi.read(path))
    assert paths(ours(path)) == theirs
    # The column keeps its value, of which the folder cannot tell.
    assert user_rows(ours(path), ["id"]) == user_rows(first, ["id"])
    table = lakebed.open_table(None, str(path))
    table.upsert(table_of(values, kind, 2, "k"), index="simple")
    table.upsert(table_of(values, kind, 2, "n"))
    written = theirs | {key.replace("k", "n"): folder for key, folder in theirs.items()}
    assert paths(hudi.read(path)) == written
    hudi.write(path, table_of(values, kind, 3, "n"), {**OPTIONS, **settings})
    found = ours(path)
    assert paths(found) == written
    assert Counter(found.column("ts").to_pylist()) == {2: len(values), 3: len(values)}
    pruned(path, found)


def pruned(path: pathlib.Path, found: pa.Table) -> None:
    """Ask for each value: its rows are found, whether folders are skipped or not."""
    for value in set(found.column("at").to_pylist()):
        if isinstance(value, float):
            continue
        where = "at IS NULL" if value is None else f"at = {value!r}"
        where = f"at = '{value}'" if isinstance(value, dt.date) else where
        table = lakebed.open_table(None, str(path))
        want = [row for row in user_rows(found, ["id"]) if row["at"] == value]
        assert user_rows(table.read(where=where).read_all(), ["id"]) == want


def test_a_custom_generator_joins_values_and_times(hudi: Hudi, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "t"
    settings = timed("UNIX_TIMESTAMP", "yyyy/MM/dd", timezone="UTC")
    options = {
        **OPTIONS,
        **settings,
        **HIVE,
        "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.CustomKeyGenerator",
        "hoodie.datasource.write.partitionpath.field": "dt:simple,at:timestamp",
    }
    values = [1704164645, 0, -1, -86401, None]
    hudi.write(path, table_of(values, pa.int64(), 1, "k"), options)
    # With this generator Hudi 1.2.0 stores no settings of times: the table can be read only.
    table = lakebed.open_table(None, str(path))
    with pytest.raises(UnsupportedError, match="key generator CUSTOM"):
        table.upsert(table_of(values, pa.int64(), 2, "k"), index="simple")
    with (path / ".hoodie" / "hoodie.properties").open("a", encoding="utf-8") as file:
        file.writelines(f"{name}={value}\n" for name, value in settings.items())
    (path / ".hoodie" / ".hoodie.properties.crc").unlink()
    table = lakebed.open_table(None, str(path))
    assert table.config.key_generator is KeyGenerator.CUSTOM
    theirs = {row["_hoodie_record_key"]: row["_hoodie_partition_path"] for row in rows(path)}
    assert theirs["k0"] == "dt=d/at=2024/01/02"
    table.upsert(table_of(values, pa.int64(), 2, "k"), index="simple")
    table.upsert(table_of(values, pa.int64(), 2, "n"))
    hudi.write(path, table_of(values, pa.int64(), 3, "n"), options)
    written = theirs | {key.replace("k", "n"): folder for key, folder in theirs.items()}
    assert paths(ours(path)) == written
    assert Counter(row["ts"] for row in rows(path)) == {2: 5, 3: 5}


def rows(path: pathlib.Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = ours(path).to_pylist()
    return found


def test_a_custom_generator_of_values_is_read_by_hudi_too(
    hudi: Hudi, tmp_path: pathlib.Path
) -> None:
    path = tmp_path / "t"
    options = {
        **OPTIONS,
        "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.CustomKeyGenerator",
        "hoodie.datasource.write.recordkey.field": "id,ts",
        "hoodie.datasource.write.partitionpath.field": "dt:simple,at:simple",
    }
    hudi.write(path, table_of([1, 2, None], pa.int64(), 1, "k"), options)
    theirs = paths(hudi.read(path))
    assert "id:k0,ts:1" in theirs
    table = lakebed.open_table(None, str(path))
    table.upsert(table_of([1, 2, None], pa.int64(), 1, "k"), index="simple")
    assert paths(hudi.read(path)) == theirs
    assert user_rows(table.read(where="dt = 'é'").read_all(), ["id"]) == [
        row for row in user_rows(ours(path), ["id"]) if row["dt"] == "é"
    ]


def test_a_complex_key_of_one_field_keeps_its_name(hudi: Hudi, tmp_path: pathlib.Path) -> None:
    path = unpack("cow9_singlecomplex", tmp_path)
    table = lakebed.open_table(None, str(path))
    before = table.read().read_all()
    assert all(key.startswith("id:") for key in paths(ours(path)))
    table.upsert(before, index="simple")
    again = ours(path)
    assert again.num_rows == before.num_rows
    assert paths(hudi.read(path)) == paths(again)
