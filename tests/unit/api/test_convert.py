"""Folders of Parquet files and Delta tables become tables, also after an interruption."""

import json

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import lakebed
from lakebed.cli.main import app
from lakebed.errors import (
    CorruptError,
    InvalidError,
    NotFoundError,
    SchemaError,
    UnsupportedError,
)


def write(folder, name, table):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path)
    return path


def rows(*ids, v="x", ts=1):
    return pa.table({"id": list(ids), "v": [v] * len(ids), "ts": [ts] * len(ids)})


def contents(table, *columns):
    found = table.to_arrow(list(columns) or None).to_pylist()
    return sorted(found, key=lambda row: str(row["id"]))


def test_folders_become_partition_columns_and_hidden_files_are_left_out(tmp_path):
    source = tmp_path / "in"
    write(source, "dt=2026-11-01/n=7/a.parquet", rows(1, 2))
    write(source, "dt=a%2Fb/n=__HIVE_DEFAULT_PARTITION__/b.parquet", rows(3))
    write(source, "_temporary/c.parquet", rows(9))
    done = lakebed.convert(str(source), str(tmp_path / "t"), "id", "ts", partition_by=["dt"])
    assert (done.files, done.rows, done.resumed) == (2, 3, 0)
    assert contents(done.table, "id", "dt", "n") == [
        {"id": 1, "dt": "2026-11-01", "n": 7},
        {"id": 2, "dt": "2026-11-01", "n": 7},
        {"id": 3, "dt": "a/b", "n": None},
    ]


def test_of_a_column_in_files_and_folders_the_folder_counts_as_in_spark(tmp_path):
    write(tmp_path / "in", "n=7/a.parquet", rows(1).append_column("n", pa.array([5])))
    done = lakebed.convert(str(tmp_path / "in"), str(tmp_path / "t"), "id")
    assert contents(done.table, "id", "n") == [{"id": 1, "n": 7}]


def test_a_value_that_the_common_type_does_not_hold_is_refused(tmp_path):
    write(tmp_path / "in", "a.parquet", pa.table({"id": [1], "x": [2**53 + 1]}))
    write(tmp_path / "in", "b.parquet", pa.table({"id": [2], "x": [0.5]}))
    with pytest.raises(SchemaError, match=r"a\.parquet: column 'x' does not fit double"):
        lakebed.convert(str(tmp_path / "in"), str(tmp_path / "t"), "id")


def test_a_conversion_goes_on_only_with_the_columns_that_it_began_with(tmp_path):
    source, target = str(tmp_path / "in"), str(tmp_path / "t")
    write(tmp_path / "in", "a.parquet", rows(1))
    lakebed.convert(source, target, "id", "ts")
    for other in (
        {"key": "v", "ordering": "ts"},
        {"key": "id"},
        {"key": "id", "ordering": "ts", "partition_by": "v"},
    ):
        with pytest.raises(InvalidError, match="the conversion began with"):
            lakebed.convert(source, target, **other)
    assert lakebed.convert(source, target, ["id"], ["ts"]).resumed == 1


def test_a_table_is_not_made_inside_its_source(tmp_path):
    write(tmp_path / "in", "a.parquet", rows(1))
    with pytest.raises(InvalidError, match="outside the source"):
        lakebed.convert(str(tmp_path / "in"), str(tmp_path / "in" / "t"), "id")
    assert not (tmp_path / "in" / "t").exists()


def test_files_of_older_schemas_get_nulls_and_wider_types(tmp_path):
    source = tmp_path / "in"
    old = pa.table({"id": pa.array([1, 2], pa.int32()), "v": ["a", "b"]})
    write(source, "1.parquet", old)
    write(source, "2.parquet", pa.table({"id": [2**40], "v": ["c"], "later": [1.5]}))
    table = lakebed.convert(str(source), str(tmp_path / "t"), "id").table
    assert contents(table) == [
        {"id": 1, "v": "a", "later": None},
        {"id": 2**40, "v": "c", "later": 1.5},
        {"id": 2, "v": "b", "later": None},
    ]


def test_the_greatest_ordering_value_of_a_key_wins_over_all_files(tmp_path):
    source = tmp_path / "in"
    write(source, "1.parquet", rows(1, v="new", ts=5))
    write(source, "2.parquet", rows(1, v="late", ts=3))
    table = lakebed.convert(str(source), str(tmp_path / "t"), "id", "ts", step_bytes=1).table
    assert contents(table, "id", "v") == [{"id": 1, "v": "new"}]
    assert {row["level"] for row in table.files().to_pylist()} == {"L1"}


def test_an_interrupted_conversion_goes_on_where_it_was(tmp_path):
    source, path = tmp_path / "in", str(tmp_path / "t")
    for number in range(4):
        write(source, f"{number}.parquet", rows(number))
    broken = source / "2.parquet"
    whole = broken.read_bytes()
    # The footer is intact, so the damage shows only when the rows are read.
    broken.write_bytes(b"\0" * 60 + whole[60:])
    with pytest.raises(CorruptError, match=r"2\.parquet"):
        lakebed.convert(str(source), path, "id", step_bytes=1)
    assert lakebed.open_table(path).count() == 2
    broken.write_bytes(whole)
    done = lakebed.convert(str(source), path, "id", step_bytes=1)
    assert (done.resumed, done.files, done.rows) == (2, 4, 4)
    assert lakebed.convert(str(source), path, "id").resumed == 4
    write(source, "4.parquet", rows(4))
    with pytest.raises(InvalidError, match="files have changed"):
        lakebed.convert(str(source), path, "id")


def test_a_table_of_someone_else_is_not_overwritten(tmp_path):
    source, path = tmp_path / "in", str(tmp_path / "t")
    write(source, "1.parquet", rows(1))
    lakebed.create_table(None, path, rows(1), key="id").upsert(rows(5))
    with pytest.raises(InvalidError, match="already exists"):
        lakebed.convert(str(source), path, "id")
    with pytest.raises(InvalidError, match="already a table"):
        lakebed.convert(path, str(tmp_path / "u"), "id")
    with pytest.raises(InvalidError, match=r"t/\S+ belongs to a table of Hudi or Lakebed"):
        lakebed.convert(str(tmp_path), str(tmp_path / "u"), "id")


def test_sources_that_cannot_be_converted_are_named(tmp_path):
    source = tmp_path / "in"
    source.mkdir()
    with pytest.raises(NotFoundError, match="no Parquet files"):
        lakebed.convert(str(source), str(tmp_path / "t"), "id")
    write(source, "1.parquet", rows(1))
    other = write(source, "2.parquet", pa.table({"id": [{"a": 1}]}))
    with pytest.raises(SchemaError, match=r"2\.parquet"):
        lakebed.convert(str(source), str(tmp_path / "t"), "id")
    other.unlink()
    write(source, "dt=1/3.parquet", rows(2))
    with pytest.raises(InvalidError, match="different partition columns"):
        lakebed.convert(str(source), str(tmp_path / "t"), "id")
    (source / "dt=1" / "3.parquet").write_bytes(b"no file")
    with pytest.raises(InvalidError, match="different partition columns"):
        lakebed.convert(str(source), str(tmp_path / "t"), "id")
    with pytest.raises(SchemaError):
        (source / "dt=1" / "3.parquet").unlink()
        lakebed.convert(str(source), str(tmp_path / "t"), "nowhere")
    assert not (tmp_path / "t" / ".hoodie" / "hoodie.properties").exists()


def test_a_delta_table_is_converted_at_its_latest_version(tmp_path):
    source = str(tmp_path / "delta")
    first = pa.table({"id": [1, 2, 3], "select": ["a", "ü b", None], "v": [1.5, None, 2.5]})
    deltalake.write_deltalake(source, first, partition_by=["select"])
    deltalake.DeltaTable(source).delete("id = 1")
    more = pa.table({"id": [4], "select": ["x/y=z %"], "v": [0.5]})
    deltalake.write_deltalake(source, more, mode="append")
    done = lakebed.convert(source, str(tmp_path / "t"), "id")
    assert done.kind == "Delta table"
    assert done.table.config.partition_fields == ("select",)
    assert contents(done.table) == [
        {"id": 2, "v": None, "select": "ü b"},
        {"id": 3, "v": 2.5, "select": None},
        {"id": 4, "v": 0.5, "select": "x/y=z %"},
    ]


def test_deletion_vectors_of_delta_are_refused(tmp_path):
    source = tmp_path / "delta"
    settings = {"delta.enableDeletionVectors": "true"}
    deltalake.DeltaTable.create(str(source), schema=rows(1).schema, configuration=settings)
    with pytest.raises(UnsupportedError, match="deletionVectors"):
        lakebed.convert(str(source), str(tmp_path / "t"), "id")


def test_the_command_converts_and_prints_what_it_did(tmp_path):
    source = tmp_path / "in"
    write(source, "dt=1/a.parquet", rows(1, 2))
    arguments = [
        "convert",
        str(source),
        str(tmp_path / "t"),
        "--key",
        "id",
        "--ordering",
        "ts",
        "--json",
    ]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["rows"] == 2
