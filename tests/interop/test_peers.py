"""The other engines answer as expected: without this, no interop test proves anything."""

import datetime as dt
import decimal
import pathlib

import pyarrow as pa
import pytest

from interop.clients import Hudi, HudiRs, PeerError, peer_python
from interop.rows import fixture_value, user_rows, user_types
from support.fixtures import expected_rows, unpack

TABLES = [
    "mini_cow_full",
    "mini_mor_logonly",
    "mini_mor_v8",
    "cow9_mdt",
    "mor9_bucket_parquet",
    "mor9_types",
]


def as_expected(table: pa.Table, name: str) -> list[dict[str, object]]:
    """Return the table's rows as the fixture `name` spells them, with its columns and in its order."""
    want = expected_rows(name)
    rows = table.select(list(want[0])).to_pylist()
    key = "_hoodie_record_key" if "_hoodie_record_key" in want[0] else "id"
    return sorted((fixture_value(row) for row in rows), key=lambda row: row[key])


# Hudi takes a partition column's value from the path, where an empty text and null are one; hudi-rs
# takes it from the file, and so gives other rows for cow9_urlenc.
@pytest.mark.parametrize("name", [*TABLES, "cow9_urlenc"])
def test_hudi_reads_a_fixture_as_expected(hudi: Hudi, tmp_path: pathlib.Path, name: str) -> None:
    assert as_expected(hudi.read(unpack(name, tmp_path)), name) == expected_rows(name)


@pytest.mark.parametrize("name", TABLES)
def test_hudi_rs_reads_a_fixture_as_expected(
    hudi_rs: HudiRs, tmp_path: pathlib.Path, name: str
) -> None:
    assert as_expected(hudi_rs.read(unpack(name, tmp_path)), name) == expected_rows(name)


def test_both_refuse_a_table_of_version_10_and_say_why(
    hudi: Hudi, hudi_rs: HudiRs, tmp_path: pathlib.Path
) -> None:
    table = unpack("syn10_lsm_mor", tmp_path)
    with pytest.raises(PeerError, match="Unsupported table version code: 10"):
        hudi.read(table)
    with pytest.raises(PeerError, match="version"):
        hudi_rs.read(table)


WRITE = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
    "hoodie.index.type": "BUCKET",  # Hudi's default starts a hundred tasks to look keys up
    "hoodie.bucket.index.num.buckets": "2",
    "hoodie.metadata.enable": "false",
}


def every_type() -> pa.Table:
    """Return one full row, one of nulls and one of extremes."""
    entry = pa.struct([("x", pa.int32()), ("y", pa.list_(pa.string()))])
    schema = pa.schema(
        [
            ("id", pa.string()),
            ("ts", pa.int64()),
            ("yes", pa.bool_()),
            ("small", pa.int32()),
            ("single", pa.float32()),
            ("double", pa.float64()),
            ("price", pa.decimal128(10, 2)),
            ("huge", pa.decimal128(38, 10)),
            ("bytes", pa.binary()),
            ("day", pa.date32()),
            ("at", pa.timestamp("us", "UTC")),
            ("local", pa.timestamp("us")),
            ("items", pa.list_(pa.int32())),
            ("counts", pa.map_(pa.string(), pa.int64())),
            ("entry", entry),
        ]
    )
    full = {
        "id": "full",
        "ts": 1,
        "yes": True,
        "small": 7,
        "single": 1.5,
        "double": 0.1,
        "price": decimal.Decimal("12.30"),
        "huge": decimal.Decimal("-123456789012345678.1234567891"),
        "bytes": b"\x00\xff",
        "day": dt.date(2024, 2, 29),
        "at": dt.datetime(2024, 1, 2, 3, 4, 5, 678901, tzinfo=dt.UTC),
        "local": dt.datetime(2024, 1, 2, 3, 4, 5, 678901),
        "items": [3, 1, 2],
        "counts": [("b", 2), ("a", None)],
        "entry": {"x": 1, "y": ["é", "中"]},
    }
    extreme = {
        "id": "extreme",
        "ts": 2**63 - 1,
        "yes": False,
        "small": -(2**31),
        "single": float("-inf"),
        "double": float("nan"),
        "price": decimal.Decimal("-99999999.99"),
        "bytes": b"",
        "items": [],
        "counts": [],
        "entry": {"x": None, "y": []},
    }
    return pa.Table.from_pylist([full, extreme, {"id": "null", "ts": 0}], schema)


def test_hudi_gives_back_every_type_that_it_was_given(hudi: Hudi, tmp_path: pathlib.Path) -> None:
    rows = every_type()
    hudi.write(tmp_path / "t", rows, WRITE, mode="overwrite")
    got = hudi.read(tmp_path / "t")
    assert user_rows(got, ["id"]) == user_rows(rows, ["id"])
    assert user_types(got) == user_types(rows)
    assert hudi.properties(tmp_path / "t")["hoodie.table.version"] == "9"


def test_hudi_updates_a_table_that_it_wrote(hudi: Hudi, tmp_path: pathlib.Path) -> None:
    hudi.write(tmp_path / "t", pa.table({"id": ["a", "b"], "ts": [1, 1]}), WRITE)
    hudi.write(tmp_path / "t", pa.table({"id": ["b", "c"], "ts": [2, 2]}), WRITE)
    got = hudi.read(tmp_path / "t").select(["id", "ts"]).to_pylist()
    assert {row["id"]: row["ts"] for row in got} == {"a": 1, "b": 2, "c": 2}


def test_hudi_reads_base_files_in_batches_whatever_it_read_before(
    hudi: Hudi, tmp_path: pathlib.Path
) -> None:
    hudi.write(tmp_path / "t", pa.table({"id": ["a"], "ts": [1]}), WRITE)
    hudi.sql(f"CREATE TABLE in_batches USING hudi LOCATION '{tmp_path}/t'")
    merged = {"hoodie.datasource.write.table.type": "MERGE_ON_READ"}
    hudi.write(tmp_path / "m", pa.table({"id": ["a"], "ts": [1]}), WRITE | merged)
    since = {
        "hoodie.datasource.query.type": "incremental",
        "hoodie.datasource.read.begin.instanttime": "000",
    }
    assert hudi.read(tmp_path / "m", **since).num_rows == 1
    [[plan]] = hudi.sql("EXPLAIN SELECT * FROM in_batches")["rows"]
    assert "Batched: true" in plan


def test_typed_rows_tell_like_values_of_different_types_apart(hudi: Hudi) -> None:
    answer = hudi.sql(
        "select 1 i, 1.0 dec, double(1) d, float('nan') f, x'00ff' b, date'2024-01-02' day,"
        " timestamp'2024-01-02 03:04:05.000006' at, timestamp_ntz'2024-01-02 03:04:05' local,"
        " array(1, null) l, map('k', double('-inf')) m, struct(null n) s"
    )
    assert dict(zip(answer["columns"], answer["rows"][0], strict=True)) == {
        "i": 1,
        "dec": {"decimal": "1.0"},
        "d": {"double": "1.0"},
        "f": {"float": "nan"},
        "b": {"binary": "00ff"},
        "day": {"date": "2024-01-02"},
        "at": {"timestamp": "2024-01-02T03:04:05.000006Z"},
        "local": {"timestamp_ntz": "2024-01-02T03:04:05.000000"},
        "l": {"list": [1, None]},
        "m": {"map": [["k", {"double": "-inf"}]]},
        "s": {"struct": [["n", None]]},
    }


def test_without_the_peer_environment_the_error_says_what_to_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    monkeypatch.setenv("LAKEBED_HUDI_PYTHON", str(tmp_path / "python"))
    with pytest.raises(PeerError, match="run make interop"):
        peer_python()


def test_a_server_that_dies_shows_the_end_of_its_standard_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    script = tmp_path / "python"
    script.write_text("#!/bin/sh\necho no java here >&2\nexit 3\n")
    script.chmod(0o755)
    monkeypatch.setenv("LAKEBED_HUDI_PYTHON", str(script))
    peer = Hudi(tmp_path, timeout_s=20)
    try:
        with pytest.raises(PeerError, match="no java here"):
            peer.sql("select 1")
    finally:
        peer.close()


def test_a_hudi_rs_that_died_is_started_again(tmp_path: pathlib.Path) -> None:
    table = unpack("mini_cow_full", tmp_path)
    peer = HudiRs(tmp_path)
    try:
        before = peer.read(table)
        peer._server._process.kill()
        with pytest.raises(PeerError, match="hudi-rs peer: the server"):
            peer._server.ask({"do": "read", "path": str(table), "into": str(tmp_path / "rows")})
        assert peer.read(table).equals(before)
    finally:
        peer.close()
