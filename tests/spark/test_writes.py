"""Writes on Spark: what is merged, what is refused, and that a failure leaves nothing."""

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import lakebed
from lakebed.errors import InvalidError, KeyValueError, SchemaError, UnsupportedError
from spark.frames import arrow_rows, files_below, rows, session_conf, strays

DDL = "id bigint, ts bigint, v string"


def create(spark, path, **how):
    settings = {"key": "id", "ordering": "ts", "table_type": "COPY_ON_WRITE", "buckets": 2} | how
    return lakebed.create_table(spark, path, DDL, **settings)


def frame(spark, *data):
    return spark.createDataFrame(list(data), DDL)


def test_an_insert_merges_into_existing_groups_by_ordering(spark: SparkSession, path):
    table = create(spark, path)
    first = table.bulk_insert(frame(spark, *[(n, 5, f"old {n}") for n in range(10)]))
    second = table.insert(
        frame(spark, (1, 6, "newer"), (2, 4, "older"), (3, 5, "tie"), (10, 1, "fresh"))
    )
    got = {row.id: row.v for row in table.read().collect()}
    assert got == {n: f"old {n}" for n in range(10)} | {1: "newer", 3: "tie", 10: "fresh"}
    assert (first.inserted, second.inserted) == (10, 1)

    before = {row.id: row.v for row in table.read(as_of=first.instant).collect()}
    assert before == {n: f"old {n}" for n in range(10)}
    with pytest.raises(InvalidError, match=f"first commit of table 'table' is {first.instant}"):
        table.read(as_of="2001-01-01")

    history = table.history()
    assert history.column("instant").to_pylist() == [second.instant, first.instant]
    assert history.column("operation").to_pylist() == ["INSERT", "BULK_INSERT"]
    assert history.column("rows_inserted").to_pylist() == [1, 10]
    now = table.files()
    assert set(now.column("instant").to_pylist()) == {second.instant}
    assert set(table.files(as_of=first.instant).column("instant").to_pylist()) == {first.instant}
    assert [group.file_id for group in table.layers()] == now.column("file_id").to_pylist()
    assert "L1 █" in str(table.layers())
    assert strays(table) == []

    times = table.read(["id", "_hoodie_commit_time"]).collect()
    assert {row.id for row in times if row[1] == second.instant} == {1, 3, 10}


def test_without_ordering_the_later_write_wins(spark: SparkSession, path):
    table = create(spark, path, ordering=None)
    table.bulk_insert(frame(spark, (1, 9, "a"), (2, 9, "b")))
    table.bulk_insert(frame(spark, (1, 1, "c")))
    assert {row.id: row.v for row in table.read().collect()} == {1: "c", 2: "b"}


def test_columns_that_must_not_be_null_survive_a_merge(spark: SparkSession, path):
    table = lakebed.create_table(
        spark,
        path,
        "id bigint not null, ts bigint not null, v string not null",
        key="id",
        ordering="ts",
        table_type="COPY_ON_WRITE",
        buckets=1,
    )
    table.bulk_insert(spark.range(3).selectExpr("id", "id as ts", "'a' as v"))
    table.insert(spark.range(2, 4).selectExpr("id", "id as ts", "'b' as v"))
    assert {row.id: row.v for row in table.read().collect()} == {0: "a", 1: "a", 2: "b", 3: "b"}
    with pytest.raises(SchemaError, match="'v'"):
        table.insert(frame(spark, (9, 9, None)))
    assert table.read().count() == 4


def test_merge_on_read_adds_a_log_to_a_group_that_exists(spark, path):
    table = create(spark, path, table_type="MERGE_ON_READ", buckets=1)
    table.bulk_insert(frame(spark, (1, 1, "a")))
    table.insert(frame(spark, (2, 1, "b")))
    assert sorted(table.files().column("level").to_pylist()) == ["L0", "L1"]
    assert table.read().count() == 2


def test_duplicates_are_resolved_across_partitions_of_the_dataframe(spark: SparkSession, path):
    data = [(n * 7919 % 100, n * 104729 % 997, f"v{n}") for n in range(1000)]
    want: dict[int, tuple[int, str]] = {}
    for key, ts, value in data:
        assert want.get(key, (-1,))[0] != ts, "a tie would make the outcome a matter of chance"
        want[key] = max(want.get(key, (-1, "")), (ts, value))
    table = create(spark, path)
    commit = table.bulk_insert(frame(spark, *data).repartition(7, F.col("ts")))
    assert commit.rows == 100
    assert {row.id: (row.ts, row.v) for row in table.read().collect()} == want


def test_an_empty_dataframe_commits_no_rows(spark: SparkSession, path):
    table = create(spark, path)
    assert table.bulk_insert(frame(spark)).rows == 0
    assert (table.read().count(), table.read().columns) == (0, ["id", "ts", "v"])
    table.bulk_insert(frame(spark, (1, 1, "a")))
    assert table.insert(frame(spark)).rows == 0
    assert rows(table.read()) == rows(frame(spark, (1, 1, "a")))
    assert table.history().num_rows == 3


def test_a_dataframe_of_mostly_empty_partitions_is_written_whole(spark: SparkSession, path):
    data = frame(spark, *[(n, n, "x") for n in range(5)]).repartition(16)
    table = create(spark, path)
    table.bulk_insert(data)
    assert rows(table.read()) == rows(data)


def test_arrow_data_may_be_given_with_a_session(spark: SparkSession, path):
    table = create(spark, path)
    data = pa.table({"id": [1, 2], "ts": [1, 1], "v": ["a", "b"]})
    table.bulk_insert(data)
    assert rows(table.read()) == rows(frame(spark, (1, 1, "a"), (2, 1, "b")))
    table.insert(data.slice(1).set_column(2, "v", pa.array(["c"])))
    assert rows(table.read()) == rows(frame(spark, (1, 1, "a"), (2, 1, "c")))


def test_with_and_without_spark_a_table_is_the_same_table(spark: SparkSession, path):
    on_spark = create(spark, path)
    on_spark.bulk_insert(frame(spark, *[(n, 1, "spark") for n in range(20)]))
    alone = lakebed.open_table(None, path)
    assert arrow_rows(alone.read()) == arrow_rows(on_spark.read().toArrow())
    alone.insert(pa.table({"id": [3, 99], "ts": [2, 1], "v": ["arrow", "arrow"]}))
    assert arrow_rows(alone.read()) == arrow_rows(on_spark.read().toArrow())
    on_spark.insert(frame(spark, (3, 3, "spark again")))
    got = {row["id"]: row["v"] for row in alone.read().read_all().to_pylist()}
    assert got == dict.fromkeys(range(20), "spark") | {3: "spark again", 99: "arrow"}


def test_a_table_may_be_written_with_its_own_rows(spark: SparkSession, path):
    table = create(spark, path)
    table.bulk_insert(frame(spark, *[(n, 1, "a") for n in range(6)]))
    table.insert(table.read(where="id < 3").withColumn("v", F.lit("b")))
    assert {row.id: row.v for row in table.read().collect()} == dict(enumerate("bbbaaa"))


def test_columns_and_where_choose_what_is_read(spark: SparkSession, path):
    table = create(spark, path)
    table.bulk_insert(frame(spark, *[(n, n * n, f"v{n}") for n in range(10)]))
    got = table.read(["v", "_hoodie_record_key"], where="ts > 49 and _hoodie_record_key <> '9'")
    assert rows(got) == ["{'v': 'v8', '_hoodie_record_key': '8'}"]
    assert table.read([]).columns == []
    with pytest.raises(SchemaError, match="'nope'"):
        table.read(["nope"])
    for wrong in ("nope = 1", "ts >", "ts + 1", "sum(ts) > 1"):
        with pytest.raises((InvalidError, UnsupportedError), match=r"^predicate "):
            table.read(where=wrong)


@pytest.mark.parametrize(
    ("bad", "column"), [((None, 1, "x"), "id"), ((7, None, "x"), "ts")], ids=["key", "ordering"]
)
@pytest.mark.parametrize("existing", [False, True], ids=["first", "later"])
def test_a_null_where_a_value_must_be_arrives_as_our_error(
    spark: SparkSession, path, bad, column, existing
):
    table = create(spark, path)
    if existing:
        table.bulk_insert(frame(spark, (1, 1, "a")))
    before, old = files_below(path), table.read().count()
    data = frame(spark, *[(n, 1, "ok") for n in range(20)], bad).repartition(3)
    with pytest.raises(KeyValueError, match=f"'{column}'"):
        table.bulk_insert(data)
    assert files_below(path) == before
    assert table.read().count() == old
    table.bulk_insert(frame(spark, (2, 1, "b")))
    assert table.read().count() == old + 1


def test_an_error_of_the_users_own_plan_stays_theirs_and_leaves_nothing(spark, path):
    @F.udf("string")
    def broken(value):
        raise RuntimeError("the user's own bug")

    table = create(spark, path)
    before = files_below(path)
    with pytest.raises(PySparkException, match="the user's own bug"):
        table.bulk_insert(frame(spark, (1, 1, "a")).withColumn("v", broken("v")))
    assert files_below(path) == before


def test_a_stream_is_refused(spark: SparkSession, path):
    table = create(spark, path)
    stream = spark.readStream.format("rate").load()
    with pytest.raises(InvalidError, match="foreachBatch"):
        table.insert(stream)


def test_memory_that_the_workers_cannot_see_is_refused(spark: SparkSession):
    table = create(spark, "memory://spark/table")
    with pytest.raises(InvalidError, match="memory"):
        table.bulk_insert(frame(spark, (1, 1, "a")))
    alone = lakebed.open_table("memory://spark/table")
    alone.bulk_insert(pa.table({"id": [1], "ts": [1], "v": ["a"]}))
    with pytest.raises(InvalidError, match="memory"):
        table.read()
    with pytest.raises(InvalidError, match="memory"):
        table.insert(pa.table({"id": [1], "ts": [1], "v": ["a"]}))


def test_a_codec_with_which_spark_hardly_moves_is_refused(spark: SparkSession, path):
    table = create(spark, path)
    before = files_below(path)
    with (
        session_conf(spark, spark__sql__execution__arrow__compression__codec="lz4"),
        pytest.raises(InvalidError, match="set it to none"),
    ):
        table.bulk_insert(frame(spark, (1, 1, "a")))
    assert files_below(path) == before


def test_a_file_that_was_cut_off_does_not_go_unnoticed(spark: SparkSession, path):
    table = create(spark, path)
    table.bulk_insert(frame(spark, *[(n, 1, "a") for n in range(20)]))
    with session_conf(
        spark,
        spark__sql__files__ignoreMissingFiles="true",
        spark__sql__files__ignoreCorruptFiles="true",
    ):
        held = table.read()
        name = table.files().column("path")[0].as_py()
        with open(f"{path}/{name}", "r+b") as file:
            file.truncate(100)
        # Spark has no class of its own for it.
        with pytest.raises(Exception, match="FAILED_READ_FILE"):
            held.collect()
