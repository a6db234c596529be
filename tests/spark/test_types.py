"""Every Spark type that a table holds comes back as it went in; the others are refused by name."""

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    DataType,
    LongType,
    StringType,
    StructField,
    StructType,
    UserDefinedType,
    VariantType,
)

import lakebed
from lakebed.errors import SchemaError
from spark.frames import EVERY_TYPE, arrow_rows, every_type, files_below, rows, session_conf


def types(frame):
    return [(field.name, field.dataType.simpleString()) for field in frame.schema.fields]


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_every_type_comes_back_with_equal_rows_and_types(
    spark: SparkSession, path: str, table_type: str
):
    frame = every_type(spark)
    table = lakebed.create_table(
        spark, path, frame.schema, key="id", ordering="ts", table_type=table_type
    )
    table.bulk_insert(frame)
    assert types(table.read()) == types(frame)
    assert rows(table.read()) == rows(frame)


def test_every_type_survives_the_rewrite_of_its_base_file(spark: SparkSession, path: str):
    frame = every_type(spark)
    table = lakebed.create_table(
        spark, path, EVERY_TYPE, key="id", ordering="ts", table_type="COPY_ON_WRITE", buckets=1
    )
    table.bulk_insert(frame)
    newer = frame.where("id = 'usual'").withColumn("ts", F.lit(9).cast("bigint"))
    table.insert(newer)
    assert rows(table.read()) == rows(frame.where("id <> 'usual'").unionAll(newer))
    # Two ways to read, one answer.
    assert arrow_rows(lakebed.open_table(None, path).read()) == arrow_rows(table.read().toArrow())


def test_rows_do_not_depend_on_what_a_session_has_set(spark: SparkSession, path: str):
    frame = every_type(spark)
    table = lakebed.create_table(spark, path, frame.schema, key="id", buckets=1)
    with session_conf(
        spark,
        spark__sql__session__timeZone="Asia/Shanghai",
        spark__sql__execution__arrow__useLargeVarTypes="true",
        spark__sql__execution__arrow__maxRecordsPerBatch="1",
        spark__sql__parquet__binaryAsString="true",
    ):
        table.bulk_insert(frame)
        assert rows(table.read()) == rows(frame)
    with session_conf(
        spark,
        spark__sql__parquet__enableVectorizedReader="false",
        spark__sql__parquet__datetimeRebaseModeInRead="LEGACY",
        spark__sql__caseSensitive="true",
    ):
        assert rows(table.read()) == rows(frame)


@pytest.mark.parametrize(
    "kind",
    [
        "variant",
        "interval",
        "interval day to second",
        "interval year to month",
        "void",
        "time",
        "map<int,string>",
        "geometry(4326)",
    ],
)
def test_a_type_that_no_table_holds_is_refused_by_column_before_anything_is_made(
    spark: SparkSession, path: str, kind: str
):
    for place, ddl in {"col": "col {}", "col.in.element": "col struct<in:array<{}>>"}.items():
        with pytest.raises(SchemaError, match=f"column '{place}'"):
            lakebed.create_table(spark, path, f"id string, {ddl.format(kind)}", key="id")
    assert files_below(path) == []


class PointType(UserDefinedType):
    """A user's own type, made of an array."""

    @classmethod
    def sqlType(cls) -> DataType:
        return ArrayType(LongType())


@pytest.mark.parametrize("kind", [VariantType(), PointType()])
def test_a_struct_type_with_a_strange_type_is_refused_by_column(spark, path, kind):
    schema = StructType([StructField("id", StringType()), StructField("odd", kind)])
    with pytest.raises(SchemaError, match="column 'odd': a table cannot hold the Spark type"):
        lakebed.create_table(spark, path, schema, key="id")


def test_a_dataframe_with_a_column_of_no_type_is_refused_by_column(spark, path):
    table = lakebed.create_table(spark, path, "id string, v int", key="id")
    before = files_below(path)
    with pytest.raises(SchemaError, match="'v'"):
        table.bulk_insert(spark.sql("select 'a' as id, null as v"))
    assert files_below(path) == before


def test_char_and_varchar_are_strings(spark: SparkSession, path: str):
    table = lakebed.create_table(spark, path, "id varchar(9), code char(3)", key="id")
    table.bulk_insert(spark.sql("select 'k' as id, 'ab' as code"))
    assert types(table.read()) == [("id", "string"), ("code", "string")]
    assert rows(table.read()) == ["{'id': 'k', 'code': 'ab'}"]


def test_columns_may_be_named_like_sql_words_and_in_mixed_case(spark: SparkSession, path: str):
    frame = spark.sql("select 1L as `select`, 'x' as a_b, 2 as MixedCase, 3 as `from`")
    table = lakebed.create_table(spark, path, frame.schema, key="select", partition_by="from")
    table.bulk_insert(frame.selectExpr("`FROM`", "mixedcase", "A_B", "`Select`"))
    got = table.read()
    assert got.columns == ["select", "a_b", "MixedCase", "from"]
    assert rows(got) == rows(frame)
    assert rows(table.read(["MixedCase"], where="`select` = 1")) == ["{'MixedCase': 2}"]


def test_a_table_takes_a_struct_type_a_ddl_text_and_an_arrow_schema_alike(spark, tmp_path):
    ddl = "id string not null, n int, at timestamp"
    arrow = pa.schema(
        [
            pa.field("id", pa.string(), nullable=False),
            ("n", pa.int32()),
            ("at", pa.timestamp("us", "UTC")),
        ]
    )
    tables = [
        lakebed.create_table(spark, str(tmp_path / str(i)), schema, key="id", name="same")
        for i, schema in enumerate([ddl, StructType.fromDDL(ddl), arrow])
    ]
    assert [table.schema for table in tables] == [arrow, arrow, arrow]
    assert len({table.config.create_schema for table in tables}) == 1
    assert tables[0].read().collect() == []


@pytest.mark.parametrize("schema", ["id no_type", "", 7, ["id"]])
def test_what_is_no_schema_is_refused(spark: SparkSession, path: str, schema: object):
    with pytest.raises(SchemaError):
        lakebed.create_table(spark, path, schema, key="id")
    assert files_below(path) == []
