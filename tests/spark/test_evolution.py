"""Columns that came later and types that grew: Spark's own reader on the old files."""

import pytest
from pyspark.sql import DataFrame, SparkSession

import lakebed
from lakebed.errors import SchemaError
from spark.frames import arrow_rows, files_below, rows, session_conf

OLD = (
    "select 'old' as id, 1L as part, 2147483647 as n, cast(-7 as smallint) as small, 5 as whole, "
    "-3 as cents, cast(0.1 as float) as f, cast(-123.45 as decimal(5,2)) as d, "
    "named_struct('a', -1) as s, array(1, null, -2) as l, map('k', cast(1.5 as float)) as m"
)
NEW = (
    "select 'new' as id, 2L as part, 9223372036854775807 as n, -70000L as small, 0.25D as whole, "
    "cast(1.25 as decimal(14,2)) as cents, 0.1D as f, cast(12345678.1234 as decimal(12,4)) as d, "
    "named_struct('a', 9999999999L, 'b', 'x') as s, array(9999999999L) as l, "
    "map('k', 0.1D) as m, '湖' as added"
)


@pytest.fixture(scope="module")
def evolved(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> lakebed.Table:
    """Return a table with an old file and a newer, wider one in another partition."""
    path = str(tmp_path_factory.mktemp("evolved") / "table")
    old = spark.sql(OLD)
    table = lakebed.create_table(spark, path, old.schema, key="id", partition_by="part", buckets=1)
    table.bulk_insert(old)
    table.bulk_insert(spark.sql(NEW), evolve=True)
    return table


def wanted(spark: SparkSession) -> DataFrame:
    old = spark.sql(
        f"select id, part, cast(n as bigint) n, cast(small as bigint) small, "
        f"cast(whole as double) whole, cast(cents as decimal(14,2)) cents, "
        f"cast(cast(f as string) as double) f, "
        f"cast(d as decimal(12,4)) d, named_struct('a', cast(s.a as bigint), 'b', "
        f"cast(null as string)) s, cast(l as array<bigint>) l, "
        f"transform_values(m, (k, v) -> cast(cast(v as string) as double)) m, "
        f"cast(null as string) added from ({OLD})"
    )
    return old.unionAll(spark.sql(NEW))


def test_old_files_read_in_the_wider_types_with_the_same_values(spark, evolved):
    assert rows(evolved.read()) == rows(wanted(spark))


@pytest.mark.parametrize("vectorized", ["true", "false"])
def test_what_spark_widens_alike_its_own_reader_reads(spark, evolved, vectorized):
    names = [name for name in evolved.schema.names if name not in ("f", "m")]
    with session_conf(spark, spark__sql__parquet__enableVectorizedReader=vectorized):
        read = evolved.read(columns=names)
        assert "MapInArrow" not in read._jdf.queryExecution().toString()
        assert rows(read) == rows(wanted(spark).select(names))


def test_without_spark_old_files_give_the_same(spark, evolved):
    reader = lakebed.open_table(None, evolved.path).read()
    assert arrow_rows(reader) == arrow_rows(evolved.read().toArrow())


@pytest.mark.parametrize(
    ("where", "found"),
    [
        ("n = 2147483647L", ["old"]),
        ("whole = 5.0D", ["old"]),
        ("cents < 0", ["old"]),
        ("d = -123.45", ["old"]),
        ("f = 0.1D", ["new", "old"]),
        ("s.a < 0", ["old"]),
        ("s.b is null", ["old"]),
        ("added is null", ["old"]),
        ("added is not null", ["new"]),
        ("small < 0", ["new", "old"]),
    ],
)
def test_a_predicate_sees_the_wider_values_of_old_files(evolved, where, found):
    got = evolved.read(["id"], where=where).collect()
    assert sorted(row["id"] for row in got) == found


def test_the_table_as_of_the_first_commit_has_the_types_of_then(spark, evolved):
    first = min(evolved.history().column("instant").to_pylist())
    then = evolved.read(as_of=first)
    assert "added" not in then.columns
    assert dict(then.dtypes)["n"] == "int"
    assert rows(then) == rows(spark.sql(OLD))


def test_a_rewritten_file_holds_the_wider_types(spark, path):
    old = spark.sql(OLD)
    table = lakebed.create_table(
        spark, path, old.schema, key="id", buckets=1, table_type="COPY_ON_WRITE"
    )
    table.bulk_insert(old)
    table.insert(spark.sql(NEW), evolve=True)
    assert rows(table.read()) == rows(wanted(spark))


@pytest.mark.parametrize("kind", ["string", "boolean", "date", "decimal(4,2)"])
def test_a_type_that_does_not_fit_is_refused_by_column(spark, path, kind):
    table = lakebed.create_table(spark, path, "id string, n int", key="id")
    before = files_below(path)
    with pytest.raises(SchemaError, match="'n'"):
        table.bulk_insert(spark.sql(f"select 'a' as id, cast(null as {kind}) as n"))
    assert files_below(path) == before


def test_a_missing_column_is_refused_and_one_of_nulls_is_not(spark, path):
    table = lakebed.create_table(spark, path, "id string, n int", key="id")
    with pytest.raises(SchemaError, match="'n'"):
        table.bulk_insert(spark.sql("select 'a' as id"))
    table.bulk_insert(spark.sql("select 'a' as id, cast(null as int) as n"))
    assert rows(table.read()) == ["{'id': 'a', 'n': None}"]
    with pytest.raises(SchemaError, match="'id'"):
        table.bulk_insert(spark.sql("select 1 as n"))


def test_a_date_does_not_become_a_timestamp(spark, path):
    table = lakebed.create_table(spark, path, "id string, d date", key="id")
    with pytest.raises(SchemaError, match="'d'"):
        table.bulk_insert(spark.sql("select 'a' as id, timestamp_ntz'2024-01-01' as d"))
