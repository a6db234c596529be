"""The short calls of a table on a session: they answer as they do without one."""

import polars as pl
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

import lakebed
from lakebed.spark.schema import spark_to_arrow
from lakebed.table.config.ddl import parse_ddl
from spark.frames import every_type, session_conf

DDL = (
    "a BOOLEAN, b TINYINT, c short, d INT NOT NULL, e BIGINT, f REAL, g DOUBLE COMMENT 'it''s',"
    "h DECIMAL(12,2), i DEC, j STRING, k BINARY, l DATE, m TIMESTAMP, n TIMESTAMP_NTZ, "
    "`o p`: VARCHAR(5), q ARRAY<STRUCT<x: INT NOT NULL, `y z` STRING>>, r MAP<STRING, NUMERIC(5)>"
)


def test_a_ddl_string_means_the_same_with_and_without_a_session(spark: SparkSession):
    assert parse_ddl(DDL) == spark_to_arrow(StructType.fromDDL(DDL))


def test_rows_are_counted_and_collected_with_the_types_of_the_table(spark: SparkSession, path: str):
    frame = every_type(spark)
    table = lakebed.create_table(spark, path, frame, key="id")
    table.insert(frame)
    local = lakebed.open_table(path)
    assert table.schema == local.schema
    assert table.count() == local.count() == frame.count()
    with session_conf(spark, spark__sql__session__timeZone="Asia/Shanghai"):
        found = table.to_arrow(columns=["_hoodie_record_key", *table.schema.names])
    assert found.select(table.schema.names).schema.equals(table.schema)
    assert texts(found) == texts(local.to_arrow(found.column_names))
    assert len(table.to_pandas(columns=["id"])) == table.count()


def texts(rows: pa.Table) -> list[str]:
    """Spell each row: a value that is not a number differs from itself."""
    return sorted(map(str, rows.to_pylist()))


def test_a_scan_reads_in_process_also_with_a_session(spark: SparkSession, path: str):
    table = lakebed.create_table(spark, path, "id BIGINT, at TIMESTAMP", key="id")
    with session_conf(spark, spark__sql__session__timeZone="Asia/Tokyo"):
        table.insert(spark.sql("SELECT id, TIMESTAMP '2026-11-15 09:00:00' AS at FROM range(3)"))
        scan = table.scan(where="at = TIMESTAMP '2026-11-15 00:00:00'")
        found = scan.to_polars().filter(pl.col("id") > 0).collect()
        assert sorted(found.get_column("id")) == [1, 2]
        assert table.to_duckdb().aggregate("count(*)").fetchall() == [(3,)]
