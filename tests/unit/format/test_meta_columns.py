"""The five meta columns."""

import pyarrow as pa

from lakebed.format.names.meta_columns import META_COLUMNS, META_FIELDS, constant, seqnos


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


def test_sequence_numbers_count_on_from_the_start_number():
    assert seqnos("20240101000000000", 7, 9, 3).to_pylist() == [
        "20240101000000000_7_9",
        "20240101000000000_7_10",
        "20240101000000000_7_11",
    ]
    assert len(seqnos("20240101000000000", 0, 0, 0)) == 0


def test_a_constant_column_does_not_repeat_its_text():
    column = constant("x" * 100, 1000)
    assert column.nbytes < 5000
    assert column.to_pylist() == ["x" * 100] * 1000
