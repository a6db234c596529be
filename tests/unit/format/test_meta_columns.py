"""The five meta columns."""

import pyarrow as pa

from lakebed.format.meta_columns import META_COLUMNS, META_FIELDS, constant, meta_arrays


def test_columns_have_hudis_names_and_order():
    assert META_COLUMNS == (
        "_hoodie_commit_time",
        "_hoodie_commit_seqno",
        "_hoodie_record_key",
        "_hoodie_partition_path",
        "_hoodie_file_name",
    )
    assert [(f.name, f.type, f.nullable) for f in META_FIELDS] == [
        (name, pa.string(), True) for name in META_COLUMNS
    ]


def test_a_batch_gets_one_value_per_row_and_counts_on_from_the_start_number():
    arrays = meta_arrays(
        pa.array(["a", "b", "c"]),
        instant="20240101000000000",
        task=7,
        start=9,
        partition_path="dt=1",
        file_name="f.parquet",
    )
    rows = pa.table(arrays, names=list(META_COLUMNS)).to_pylist()
    assert rows[0] == {
        "_hoodie_commit_time": "20240101000000000",
        "_hoodie_commit_seqno": "20240101000000000_7_9",
        "_hoodie_record_key": "a",
        "_hoodie_partition_path": "dt=1",
        "_hoodie_file_name": "f.parquet",
    }
    assert [row["_hoodie_commit_seqno"].rpartition("_")[2] for row in rows] == ["9", "10", "11"]


def test_an_empty_batch_gets_empty_columns():
    arrays = meta_arrays(
        pa.array([], pa.string()), instant="1", task=0, start=0, partition_path="", file_name="f"
    )
    assert [len(array) for array in arrays] == [0] * 5


def test_a_constant_column_does_not_repeat_its_text():
    column = constant("x" * 100, 1000)
    assert column.nbytes < 5000
    assert column.to_pylist() == ["x" * 100] * 1000
