"""The short calls of a table on a session: they answer as they do without one."""

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
