"""Partitioned tables on Spark: folders of any name are written and found again."""

import pytest
from pyspark.sql import SparkSession

import lakebed
from lakebed.errors import KeyValueError
from spark.frames import arrow_rows, files_below, rows

NULL = "__HIVE_DEFAULT_PARTITION__"
PLAIN = ["eu", "a b", "x=1", "[1]", "{a,b}", "100%", "%41", "a*b?", "b\\s", "亚洲 🏞", "_h", "a:b"]


def style(hive: bool, encode: bool) -> dict[str, str]:
    prefix = "hoodie.datasource.write."
    return {
        f"{prefix}hive_style_partitioning": str(hive).lower(),
        f"{prefix}partitionpath.urlencode": str(encode).lower(),
    }


@pytest.mark.parametrize("encode", [False, True], ids=["literal", "encoded"])
@pytest.mark.parametrize("hive", [False, True], ids=["plain", "hive"])
def test_folders_of_any_name_are_written_and_read(spark: SparkSession, path, hive, encode):
    values = [*PLAIN, None] if encode else [*PLAIN[:-1], None]
    if encode:
        values.append("a/b")
    frame = spark.createDataFrame(
        [(number, value) for number, value in enumerate(values * 2)], "id int, p string"
    )
    table = lakebed.create_table(
        spark, path, "id int, p string", key="id", partition_by="p", properties=style(hive, encode)
    )
    table.bulk_insert(frame)
    assert rows(table.read()) == rows(frame)
    assert rows(table.read(where="p = '[1]'")) == rows(frame.where("p = '[1]'"))
    assert rows(table.read(where="p is null")) == rows(frame.where("p is null"))
    folders = set(table.files().column("partition").to_pylist())
    prefix = "p=" if hive else ""
    assert {f"{prefix}{NULL}", f"{prefix}亚洲 🏞"} <= folders
    assert (f"{prefix}%5B1%5D" if encode else f"{prefix}[1]") in folders
    assert len(folders) == len(values)
    assert arrow_rows(lakebed.open_table(None, path).read()) == arrow_rows(table.read().toArrow())


@pytest.mark.parametrize("hive", [False, True], ids=["plain", "hive"])
def test_several_fields_make_several_levels(spark: SparkSession, path, hive):
    frame = spark.sql(
        "select id, if(id % 2 = 0, 'eu', 'us') as region, date'2024-01-01' + cast(id % 3 as int) "
        "as day, if(id = 5, null, id % 2) as n from range(12)"
    )
    table = lakebed.create_table(
        spark,
        path,
        frame.schema,
        key=["id", "region"],
        partition_by=["region", "day", "n"],
        properties=style(hive, False),
    )
    table.bulk_insert(frame)
    assert rows(table.read()) == rows(frame)
    folders = table.files().column("partition").to_pylist()
    assert ("region=us/day=2024-01-03/n=" if hive else "us/2024-01-03/") + NULL in folders
    assert rows(table.read(where="region = 'us' and n is null")) == rows(frame.where("id = 5"))


def test_the_rows_of_many_partitions_go_to_many_files(spark: SparkSession, path):
    frame = spark.range(0, 600, 1, 3).selectExpr("id", "id % 200 as p")
    table = lakebed.create_table(
        spark, path, frame.schema, key="id", partition_by="p", buckets=1, table_type="COPY_ON_WRITE"
    )
    commit = table.bulk_insert(frame)
    assert (len(commit.write_stats), commit.rows) == (200, 600)
    assert rows(table.read()) == rows(frame)
    # A second write touches one of the two hundred.
    commit = table.insert(spark.sql("select 1000L as id, 7L as p"))
    assert (len(commit.write_stats), commit.rows) == (1, 4)
    assert table.read().count() == 601


@pytest.mark.parametrize("value", ["a/b", "..", "\n", "c:d", ".hoodie", "x" * 256])
def test_a_value_of_which_no_folder_can_be_made_is_refused(spark: SparkSession, path, value):
    table = lakebed.create_table(spark, path, "id int, p string", key="id", partition_by="p")
    before = files_below(path)
    with pytest.raises(KeyValueError, match="'p'"):
        table.bulk_insert(spark.createDataFrame([(1, "ok"), (2, value)], "id int, p string"))
    assert files_below(path) == before


def test_a_table_may_lie_in_a_folder_whose_name_looks_like_a_pattern(spark, tmp_path):
    frame = spark.createDataFrame([(1, "a:b"), (2, "c"), (3, "[d]")], "id int, p string")
    for number, name in enumerate(["t[ab] {c,d}*", "t[a:b]", "t:b", "ta"]):
        path = str(tmp_path / name)
        table = lakebed.create_table(
            spark, path, frame.schema, key="id", partition_by=["id", "p"], name=f"t{number}"
        )
        table.bulk_insert(frame)
        assert rows(table.read()) == rows(frame), name
