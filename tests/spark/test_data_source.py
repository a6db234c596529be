"""`format("lakebed")`: Hudi's option names, found by Spark without registration."""

import datetime as dt
import os
import pathlib
import re
import subprocess
import sys
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import lakebed
from spark.frames import every_type, files_below, rows, session_conf, strays

TRIPS = "id string, ts bigint, city string, fare double"
FIRST = [("a", 1, "oslo", 1.0), ("b", 1, "oslo", 2.0), ("c", 1, "kyiv", 3.0)]
SECOND = [("b", 2, "oslo", 20.0), ("d", 2, "kyiv", 4.0)]
OPTIONS = {
    "hoodie.table.name": "trips",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.partitionpath.field": "city",
}
OPERATION = "hoodie.datasource.write.operation"
META = [
    "_hoodie_commit_time",
    "_hoodie_commit_seqno",
    "_hoodie_record_key",
    "_hoodie_partition_path",
    "_hoodie_file_name",
]


def trips(spark: SparkSession, data: list[tuple[Any, ...]]) -> DataFrame:
    return spark.createDataFrame(data, TRIPS)


def put(frame: DataFrame, path: str, mode: str = "append", **more: str) -> None:
    given = {name.replace("__", "."): value for name, value in more.items()}
    frame.write.format("lakebed").options(**OPTIONS, **given).mode(mode).save(path)


def load(spark: SparkSession, path: str, **options: str) -> DataFrame:
    return spark.read.format("lakebed").options(**options).load(path)


def values(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in frame.select("id", "ts", "city", "fare").collect())


@pytest.fixture(scope="module")
def history(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, list[dict[str, Any]]]:
    """Return a merge-on-read table of three commits, and what its timeline says of them."""
    path = str(tmp_path_factory.mktemp("history") / "table")
    kind = {"hoodie.datasource.write.table.type": "MERGE_ON_READ"}
    put(trips(spark, FIRST), path, "overwrite", **kind)
    put(trips(spark, SECOND), path)
    put(trips(spark, FIRST[:1]), path, **{OPERATION: "delete"})
    return path, lakebed.open_table(None, path).history().to_pylist()[::-1]


def test_a_table_is_written_changed_and_read_with_hudis_options(spark, history):
    path, _ = history
    frame = load(spark, path)
    assert frame.columns == [*META, "id", "ts", "city", "fare"]
    assert values(frame) == sorted([FIRST[2], *SECOND])
    keys = {row["_hoodie_record_key"] for row in frame.collect()}
    assert keys == {"b", "c", "d"}
    assert strays(lakebed.open_table(None, path)) == []


def test_read_optimized_reads_base_files_alone(spark, history):
    path, _ = history
    frame = load(spark, path, **{"hoodie.datasource.query.type": "read_optimized"})
    assert ("b", 1, "oslo", 2.0) in values(frame)


def test_time_travel_and_incremental_reads_take_hudis_options(spark, history):
    path, commits = history
    assert values(load(spark, path, **{"as.of.instant": commits[0]["instant"]})) == sorted(FIRST)
    since = {
        "hoodie.datasource.query.type": "incremental",
        "hoodie.datasource.read.begin.instanttime": commits[0]["completion_time"],
    }
    assert values(load(spark, path, **since)) == sorted(SECOND)
    first = {**since, "hoodie.datasource.read.begin.instanttime": "0"}
    until = {"hoodie.datasource.read.end.instanttime": commits[0]["completion_time"]}
    assert values(load(spark, path, **first, **until)) == sorted(FIRST)


def test_changes_come_as_text_in_hudis_columns(spark, history):
    path, commits = history
    options = {
        "hoodie.datasource.query.type": "incremental",
        "hoodie.datasource.query.incremental.format": "cdc",
        "hoodie.datasource.read.begin.instanttime": commits[0]["completion_time"],
    }
    frame = load(spark, path, **options)
    assert frame.columns == ["op", "ts_ms", "before", "after"]
    found = {(row.op, row.ts_ms, row.before, row.after) for row in frame.collect()}
    second, third = commits[1]["instant"], commits[2]["instant"]
    before = '{"id":"b","ts":1,"city":"oslo","fare":2}'
    assert found == {
        ("u", second, before, '{"id":"b","ts":2,"city":"oslo","fare":20}'),
        ("i", second, None, '{"id":"d","ts":2,"city":"kyiv","fare":4}'),
        ("d", third, '{"id":"a","ts":1,"city":"oslo","fare":1}', None),
    }


@pytest.mark.parametrize("switch", ["true", "false"])
def test_filters_work_with_the_sessions_switch_on_and_off(spark, history, switch):
    path, _ = history
    with session_conf(spark, spark__sql__python__filterPushdown__enabled=switch):
        frame = load(spark, path)
        assert values(frame.where("id = 'b' and fare > 10")) == [SECOND[0]]
        # Spark keeps with a DataFrame what a reader made of the filters before.
        assert values(frame.where("id <=> 'zz' or upper(city) = 'OSLO'")) == [SECOND[0]]
        asked = load(spark, path, **{"lakebed.read.filter.pushdown": "true"})
        assert values(asked.where("id in ('c', 'd') and city like 'k%'")) == [FIRST[2], SECOND[1]]


def test_files_that_no_row_of_the_predicate_can_be_in_are_not_read(spark, path):
    put(trips(spark, FIRST), path, "overwrite")
    for name in files_below(path):
        if name.startswith("kyiv/") and name.endswith(".parquet"):
            file = pathlib.Path(path) / name
            file.write_bytes(b"x" * file.stat().st_size)
    predicate = {"lakebed.read.where": "city = 'oslo' AND fare > 1"}
    with session_conf(spark, spark__sql__python__filterPushdown__enabled="false"):
        assert values(load(spark, path, **predicate)) == FIRST[1:2]
    pushed = load(spark, path, **{"lakebed.read.filter.pushdown": "true"})
    assert values(pushed.where("city = 'oslo'")) == sorted(FIRST[:2])
    with pytest.raises(PySparkException):
        load(spark, path).where("city = 'oslo'").collect()
    with pytest.raises(PySparkException, match="is not supported in `where`"):
        load(spark, path, **{"lakebed.read.where": "soundex(city) = 'OSLO'"}).collect()


def test_a_schema_of_the_user_reads_only_its_columns(spark, history):
    path, _ = history
    frame = spark.read.format("lakebed").schema("fare double, id string").load(path)
    assert sorted(map(tuple, frame.collect())) == [(3.0, "c"), (4.0, "d"), (20.0, "b")]
    with pytest.raises(PySparkException, match="'fare': the table has double"):
        spark.read.format("lakebed").schema("fare string").load(path).collect()
    with pytest.raises(PySparkException, match="no column 'fair'"):
        spark.read.format("lakebed").schema("fair double").load(path).collect()


def test_every_type_comes_back_as_it_went_in(spark, path):
    frame = every_type(spark)
    options = {
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.precombine.field": "ts",
    }
    with session_conf(spark, spark__sql__session__timeZone="America/Caracas"):
        frame.write.format("lakebed").options(**options).mode("append").save(path)
        back = load(spark, path).drop(*META)
        assert back.schema == frame.schema
        assert rows(back) == rows(frame)


def test_overwrite_gives_new_rows_and_columns_and_keeps_the_past(spark, path):
    put(trips(spark, FIRST), path, "overwrite")
    first = lakebed.open_table(None, path).history().column("instant")[0].as_py()
    other = trips(spark, SECOND).withColumn("fare", F.lit("free"))
    put(other, path, "overwrite")
    assert values(load(spark, path)) == [("b", 2, "oslo", "free"), ("d", 2, "kyiv", "free")]
    assert values(load(spark, path, **{"as.of.instant": first})) == sorted(FIRST)


def test_a_table_may_be_read_and_overwritten_by_one_statement(spark, path):
    put(trips(spark, FIRST), path, "overwrite")
    put(load(spark, path).withColumn("fare", F.col("fare") * 2), path, "overwrite")
    assert values(load(spark, path)) == sorted((i, t, c, f * 2) for i, t, c, f in FIRST)


def test_a_row_that_does_not_fit_fails_the_write_and_leaves_nothing(spark, path):
    put(trips(spark, FIRST), path, "overwrite")
    bad = trips(spark, [*SECOND, (None, 3, "oslo", 0.0)]).repartition(2)
    with pytest.raises(PySparkException, match="record key"):
        put(bad, path)
    table = lakebed.open_table(None, path)
    assert table.history().num_rows == 1
    assert strays(table) == []


def test_a_task_that_dies_fails_the_write_and_leaves_nothing(spark, path):
    put(trips(spark, FIRST), path, "overwrite")
    broken = trips(spark, SECOND).repartition(2).withColumn("ts", F.expr("ts / (ts - 2)"))
    with pytest.raises(PySparkException, match="DIVIDE_BY_ZERO"):
        put(broken.withColumn("ts", F.col("ts").cast("bigint")), path)
    table = lakebed.open_table(None, path)
    assert table.history().num_rows == 1
    assert strays(table) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"hoodie.datasource.write.recordkey.fields": "id"}, "did you mean hoodie"),
        ({"hoodie.datasource.hive_sync.enable": "true"}, "hive_sync.enable=true: expected false"),
        ({"hoodie.table.name": "other"}, "contradicts the table 'trips'"),
        ({OPERATION: "bootstrap"}, "expected upsert or insert"),
    ],
)
def test_what_cannot_be_honoured_is_refused_by_name(spark, history, options, message):
    path, commits = history
    writer = trips(spark, SECOND).write.format("lakebed").options(**options).mode("append")
    with pytest.raises(PySparkException, match=message):
        writer.save(path)
    assert lakebed.open_table(None, path).history().num_rows == len(commits)


@pytest.mark.parametrize(
    ("below", "message"),
    [
        ("/nope", "not a partition of the table that contains it; use load"),
        ("/*/*", "a table is read by its folder, without a glob; use load"),
        ("x", "no table here .*did you mean"),
        ("/../nothing", "no table here"),
    ],
)
def test_the_first_line_of_an_error_is_ours(spark, history, below, message):
    path, _ = history
    with pytest.raises(PySparkException) as caught:
        load(spark, path + below)
    first = str(caught.value).splitlines()[0]
    assert re.search(rf"lakebed\.errors\.\w+: .*{message}", first)
    assert "Traceback" not in str(caught.value)


def test_an_error_of_a_task_or_a_commit_is_shown_without_a_stack(spark, history):
    path, _ = history
    with pytest.raises(PySparkException) as caught:
        put(trips(spark, [("", 1, "oslo", 1.0)]), path)
    assert "KeyValueError: record key field 'id'" in str(caught.value).splitlines()[0]


def test_the_path_of_a_partition_reads_its_rows(spark, history):
    path, _ = history
    assert values(load(spark, f"{path}/kyiv")) == [("c", 1, "kyiv", 3.0), ("d", 2, "kyiv", 4.0)]
    assert values(load(spark, f"{path}/kyiv").where("fare > 3")) == [("d", 2, "kyiv", 4.0)]


def test_a_moment_is_taken_in_hudis_forms(spark, history):
    path, commits = history
    one = dt.datetime.strptime(commits[1]["instant"], "%Y%m%d%H%M%S%f").replace(tzinfo=dt.UTC)
    millis = int(one.timestamp() * 1000)
    for moment in (str(millis), one.strftime("%Y-%m-%dT%H:%M:%S.%f")[:23], commits[1]["instant"]):
        found = values(load(spark, path, **{"as.of.instant": moment}))
        assert found == sorted([FIRST[0], FIRST[2], *SECOND])
    with pytest.raises(PySparkException, match="expected an instant of 14 or 17 digits"):
        load(spark, path, **{"as.of.instant": "2024/01/02"})
    with pytest.raises(PySparkException, match="cannot be given with a write"):
        put(trips(spark, SECOND), path, **{"as.of.instant": commits[1]["instant"]})


def test_what_spark_cannot_do_says_what_to_call_instead(spark, path):
    with pytest.raises(PySparkException, match="expected the path of a table"):
        spark.read.format("lakebed").load()
    with pytest.raises(PySparkException, match="SAVE_MODE"):
        trips(spark, FIRST).write.format("lakebed").options(**OPTIONS).save(path)
    by_city = trips(spark, FIRST).write.format("lakebed").options(**OPTIONS).partitionBy("city")
    with pytest.raises((PySparkException, Py4JJavaError)):
        by_city.mode("append").save(path)
    assert not os.path.exists(path)


def test_a_temporary_view_reads_and_refuses_inserts_that_it_would_not_show(spark, path):
    put(trips(spark, FIRST), path, "overwrite")
    create = f"CREATE OR REPLACE TEMPORARY VIEW trips USING lakebed OPTIONS (path '{path}')"
    spark.sql(create)
    total = "SELECT sum(fare) AS total FROM {} WHERE city = 'oslo'"
    assert spark.sql(total.format("trips")).collect()[0].total == 3.0
    with pytest.raises(PySparkException, match="cannot insert into a view"):
        spark.sql("INSERT INTO trips (id, ts, city, fare) VALUES ('z', 9, 'oslo', 1.0)")
    load(spark, path).createOrReplaceTempView("loaded")
    with pytest.raises(PySparkException, match="cannot insert into a view"):
        rows = spark.sql("SELECT null, null, null, null, null, 'z', 9L, 'oslo', 1.0D")
        rows.write.insertInto("loaded")
    assert load(spark, path).count() == len(FIRST)


def test_a_table_of_the_session_shows_what_was_inserted(spark, path):
    put(trips(spark, FIRST), path, "overwrite")
    spark.sql("DROP TABLE IF EXISTS session_trips")
    spark.sql(
        "CREATE TABLE session_trips (id STRING, ts BIGINT, city STRING, fare DOUBLE) USING lakebed"
    )
    at = f"WITH (path='{path}')"
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW newest AS SELECT * FROM session_trips {at}")
    total = "SELECT sum(fare) AS total FROM {} WHERE city = 'oslo'"
    assert spark.sql(total.format("newest")).collect()[0].total == 3.0
    trips(spark, SECOND).createOrReplaceTempView("more")
    spark.sql(f"INSERT INTO session_trips {at} SELECT * FROM more")
    assert spark.sql(total.format(f"session_trips {at}")).collect()[0].total == 21.0
    # The text of the view is resolved anew in each query, once for both sides of a join.
    assert spark.sql(total.format("newest")).collect()[0].total == 21.0
    pairs = spark.sql("SELECT * FROM newest AS a JOIN newest AS b USING (id, fare)")
    assert pairs.count() == load(spark, path).count()
    spark.sql("DROP TABLE session_trips")


def test_the_module_that_spark_imports_is_light():
    code = (
        "import sys, pyspark_lakebed; "
        "sys.exit(any(name in sys.modules for name in ('lakebed', 'pyarrow', 'numba')))"
    )
    source = pathlib.Path(__file__).parents[2] / "src"
    env = {**os.environ, "PYTHONPATH": str(source)}
    assert subprocess.run([sys.executable, "-c", code], env=env, check=False).returncode == 0
