"""Reads that ask for little: no columns at all, or few row groups of files that Spark cannot open."""

import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import lakebed
from lakebed.errors import CorruptError

COUNT = 4_000


def numbered(start: int, stop: int) -> pa.Table:
    """Return rows whose values rise with their keys."""
    numbers = range(start, stop)
    return pa.table({"id": [f"{n:06d}" for n in numbers], "v": pa.array(numbers, pa.int64())})


@pytest.fixture(params=["table", "to spark: [no path]"])
def table(request: pytest.FixtureRequest, spark: SparkSession, tmp_path) -> lakebed.Table:
    """Return a table with logs on one of its file groups; of the second Spark opens no file."""
    made = lakebed.create_table(
        spark,
        str(tmp_path / request.param),
        "id string, v bigint",
        key="id",
        buckets=2,
        table_type="MERGE_ON_READ",
    )
    made.bulk_insert(numbered(0, COUNT))
    made.upsert(numbered(COUNT, COUNT + 1))
    assert sorted(len(group.layers) for group in made.layers()) == [1, 2]
    return made


def test_without_columns_the_rows_can_be_counted(table: lakebed.Table):
    read = table.read(columns=[])
    assert read.columns == []
    assert read.count() == COUNT + 1
    assert table.read(columns=[], where="abs(v) < 10").count() == 10


def test_statistics_leave_every_row_that_is_wanted(table: lakebed.Table):
    assert table.read(where="v < 2").toArrow().sort_by("v")["v"].to_pylist() == [0, 1]
    assert table.read(where="v < 0").count() == 0


def test_a_flipped_bit_in_a_page_is_an_error_and_never_another_row(spark: SparkSession, tmp_path):
    path = str(tmp_path / "t")
    made = lakebed.create_table(spark, path, "id string, v bigint", key="id", buckets=2)
    made.bulk_insert(numbered(0, COUNT))
    [file, _] = made.files()["path"].to_pylist()
    place = tmp_path / "t" / file
    whole = place.read_bytes()
    parquet = pq.ParquetFile(place)
    column = parquet.schema_arrow.get_field_index("v")
    chunk = parquet.metadata.row_group(0).column(column)
    begin = chunk.dictionary_page_offset or chunk.data_page_offset
    # Some bytes behind the header of its first page.
    at = begin + chunk.total_compressed_size // 2
    place.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
    with pytest.raises(Exception, match="CRC checksum verification failed"):
        lakebed.open_table(spark, path).read().selectExpr("sum(v)").collect()
    with pytest.raises(CorruptError, match=r"verify\(\)"):
        lakebed.open_table(spark, path).delete(where="abs(v) < 3")
    # Both engines leave out the same slice, whole.
    with pytest.warns(lakebed.DamageWarning, match=re.escape(file)):
        left = lakebed.open_table(spark, path).read(on_damage="skip").toArrow()
    with pytest.warns(lakebed.DamageWarning):
        same = lakebed.open_table(None, path).read(on_damage="skip").read_all()
    assert 0 < left.num_rows < COUNT
    assert sorted(left["v"].to_pylist()) == sorted(same["v"].to_pylist())
