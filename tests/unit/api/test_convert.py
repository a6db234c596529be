"""Folders of Parquet files and Delta tables become tables, also after an interruption."""

import base64
import json
import string
import struct
from decimal import Decimal
from pathlib import Path

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import lakebed
from lakebed.api.convert.source import find_source
from lakebed.cli.main import app
from lakebed.errors import (
    CorruptError,
    InvalidError,
    NotFoundError,
    SchemaError,
    UnsupportedError,
)
from lakebed.storage.open import open_storage


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
    with pytest.raises(
        SchemaError, match=r"a\.parquet: column 'x' is int64 here and double over all files"
    ):
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


_B85 = string.digits + string.ascii_uppercase + string.ascii_lowercase + "!#$%&()*+-;<=>?@^_`{|}~"
_Z85 = string.digits + string.ascii_lowercase + string.ascii_uppercase + ".-:+=^!/*?&<>()[]{}@%$#"


def deletion_vector(*places):
    """Return an inline deletion vector of Delta's protocol: a roaring bitmap of one container, in Z85."""
    header = (1681511377, 1, 0, 12346, 1, 0, len(places) - 1, 16)
    data = struct.pack("<iqiIIHHI", *header) + struct.pack(f"<{len(places)}H", *places)
    text = base64.b85encode(data + bytes(-len(data) % 4)).decode()
    return {
        "storageType": "i",
        "pathOrInlineDv": text.translate(str.maketrans(_B85, _Z85)),
        "sizeInBytes": len(data),
        "cardinality": len(places),
    }


def with_deletion_vectors(source, vectors):
    """Give the files of a Delta table's first version deletion vectors, by partition value."""
    log = Path(source) / "_delta_log" / "00000000000000000000.json"
    features = ["deletionVectors"]
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7}
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    for action in actions:
        if "protocol" in action:
            action["protocol"] = protocol | {"readerFeatures": features, "writerFeatures": features}
        if "add" in action and (found := vectors.get(action["add"]["partitionValues"]["p"])):
            action["add"]["deletionVector"] = found
    log.write_text("\n".join(map(json.dumps, actions)))


def test_rows_that_deletion_vectors_delete_are_left_out(tmp_path):
    source = str(tmp_path / "delta é")
    table = pa.table({"id": range(60), "p": ["a b/c%é"] * 20 + ["y"] * 20 + ["z"] * 20})
    deltalake.write_deltalake(source, table, partition_by=["p"])
    vectors = {"a b/c%é": deletion_vector(0, 3, 19), "z": deletion_vector(5)}
    with_deletion_vectors(source, vectors)
    done = lakebed.convert(source, str(tmp_path / "t"), "id")
    assert done.rows == 56
    found = [row["id"] for row in contents(done.table, "id")]
    assert sorted(found) == sorted(set(range(60)) - {0, 3, 19, 45})


def test_rows_deleted_since_an_interruption_are_a_changed_source(tmp_path):
    source = str(tmp_path / "delta")
    table = pa.table({"id": range(40), "p": ["x"] * 20 + ["y"] * 20})
    deltalake.write_deltalake(source, table, partition_by=["p"])
    with_deletion_vectors(source, {"x": deletion_vector(1)})
    before = find_source(open_storage(source)).fingerprint
    with_deletion_vectors(source, {"x": deletion_vector(2)})
    after = find_source(open_storage(source))
    assert before != after.fingerprint
    assert after.rows == 39


def test_mapped_columns_of_delta_are_refused(tmp_path):
    source = tmp_path / "delta"
    settings = {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "1"}
    names = {"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": "c1"}
    key = {"name": "id", "type": "long", "nullable": True, "metadata": names}
    deltalake.DeltaTable.create(str(source), schema=rows(1).schema)
    log = source / "_delta_log" / "00000000000000000000.json"
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    for action in actions:
        if "metaData" in action:
            action["metaData"]["configuration"] = settings
            action["metaData"]["schemaString"] = json.dumps({"type": "struct", "fields": [key]})
        if "protocol" in action:
            action["protocol"] = {"minReaderVersion": 2, "minWriterVersion": 5}
    log.write_text("\n".join(map(json.dumps, actions)))
    with pytest.raises(UnsupportedError, match="maps column names"):
        lakebed.convert(str(source), str(tmp_path / "t"), "id")


def test_categories_and_strings_are_one_column(tmp_path):
    source = tmp_path / "in"
    coded = pa.array(["a", "b"]).dictionary_encode()
    write(source, "1.parquet", pa.table({"id": [1, 2], "v": coded}))
    write(source, "2.parquet", pa.table({"id": [3], "v": ["c"]}))
    table = lakebed.convert(str(source), str(tmp_path / "t"), "id").table
    assert [row["v"] for row in contents(table)] == ["a", "b", "c"]


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
def test_decimals_are_not_rounded_to_floats(tmp_path, kind):
    source = tmp_path / "in"
    exact = pa.array([Decimal("0.10")], pa.decimal128(5, 2))
    for number, values in enumerate((pa.array([0.5], kind), exact)):
        structs = pa.StructArray.from_arrays([values], ["v"])
        write(
            source, f"{number}.parquet", pa.table({"id": [number], "s": pa.array([[structs[0]]])})
        )
    with pytest.raises(SchemaError, match=r"1\.parquet: column 's' holds decimals"):
        lakebed.convert(str(source), str(tmp_path / "t"), "id")
    assert not (tmp_path / "t").exists()


def test_an_integer_that_no_double_holds_names_its_file_and_column(tmp_path):
    source = tmp_path / "in"
    write(source, "1.parquet", pa.table({"id": [1], "v": [2**53 + 1]}))
    write(source, "2.parquet", pa.table({"id": [2], "v": [1.5]}))
    with pytest.raises(SchemaError, match=r"1\.parquet: column 'v' is int64 here and double"):
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
