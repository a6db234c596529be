"""Streams from and to tables: what arrives, once, in which batch, and after which restart."""

import pathlib
import shutil
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import lakebed
from lakebed.api.table import Table
from lakebed.commit.stream_batches import last_batch
from lakebed.spark.data_source.stream_reader import LIMITS_WORK
from spark.frames import session_conf
from support.s3 import S3Server

with_limits = pytest.mark.skipif(
    not LIMITS_WORK, reason="a source cannot limit its micro-batches before PySpark 4.2"
)

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.string()), ("ts", pa.int64())])
OPTIONS = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "ts",
}
CHANGES = {
    "hoodie.datasource.query.type": "incremental",
    "hoodie.datasource.query.incremental.format": "cdc",
}
ARCHIVES = {
    "hoodie.clean.commits.retained": "1",
    "lakebed.clean.min.age.seconds": "0",
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
}


def table_at(path: str, **more: Any) -> Table:
    arguments = {"key": "id", "ordering": "ts", "buckets": 2, **more}
    return lakebed.create_table(None, path, SCHEMA, **arguments)


def put(table: Table, ts: int, *ids: int) -> str:
    """Upsert a row per id; return the completion time of the commit."""
    return str(table.upsert(of(ts, *ids)).completion_time)


def of(ts: int, *ids: int) -> pa.Table:
    columns = [list(ids), [f"v{ts}" for _ in ids], [ts] * len(ids)]
    return pa.table(dict(zip(SCHEMA.names, columns, strict=True)), schema=SCHEMA)


def stream(spark: SparkSession, path: str, **options: str) -> DataFrame:
    return spark.readStream.format("lakebed").options(**options).load(path)


def drain(
    frame: DataFrame, checkpoint: pathlib.Path, fails_at: int | None = None
) -> list[list[Any]]:
    """Run a query until nothing is left; return the rows of each batch, sorted."""
    batches: list[list[Any]] = []

    def keep(rows: DataFrame, batch: int) -> None:
        found = sorted((tuple(row) for row in rows.collect()), key=_nulls_first)
        if batch == fails_at:
            raise ValueError("as the test wants it")
        if found:  # Spark also runs a first batch without rows
            batches.append(found)

    query = frame.writeStream.foreachBatch(keep).option("checkpointLocation", str(checkpoint))
    query.trigger(availableNow=True).start().awaitTermination()
    return batches


def _nulls_first(row: tuple[Any, ...]) -> list[Any]:
    return [(value is not None, value) for value in row]


def load(frame: DataFrame, path: str, checkpoint: pathlib.Path, **options: str) -> None:
    """Write all that a stream has into a table."""
    writer = frame.writeStream.format("lakebed").options(path=path, **{**OPTIONS, **options})
    writer = writer.option("checkpointLocation", str(checkpoint))
    writer.trigger(availableNow=True).start().awaitTermination()


def forget_last_batch(checkpoint: pathlib.Path) -> int:
    """Make Spark believe that the last batch of a query was never finished; return its number."""
    number = max(int(p.name) for p in (checkpoint / "commits").iterdir() if p.name.isdigit())
    for name in (f"{number}", f".{number}.crc"):
        (checkpoint / "commits" / name).unlink(missing_ok=True)
    return number


def files(spark: SparkSession, folder: pathlib.Path) -> DataFrame:
    """Return the Parquet files of a folder as a stream, one file in each batch."""
    reader = spark.readStream.schema("id bigint, v string, ts bigint")
    return reader.option("maxFilesPerTrigger", 1).parquet(str(folder))


def add_file(spark: SparkSession, folder: pathlib.Path, ts: int, *ids: int) -> None:
    spark.createDataFrame(of(ts, *ids)).coalesce(1).write.mode("append").parquet(str(folder))


def rows_of(path: str) -> list[tuple[Any, ...]]:
    found = lakebed.open_table(None, path).to_arrow().to_pylist()
    return sorted((row["id"], row["v"], row["ts"]) for row in found)


def last(table: Table) -> list[dict[str, Any]]:
    return [row for row in table.history().to_pylist() if row["action"] != "clean"]


# From a table.


@with_limits
def test_a_stream_passes_on_each_commit_once_across_restarts(spark, path, tmp_path):
    table = table_at(path)
    for ts in range(3):
        put(table, ts, ts, 100)
    frame = stream(spark, path, maxCommitsPerTrigger="1").select("id", "ts")
    checkpoint = tmp_path / "checkpoint"
    assert drain(frame, checkpoint) == [[(n, n), (100, n)] for n in range(3)]
    assert drain(frame, checkpoint) == []
    # A writer that started before the others and completes last.
    [first, second] = spark.read.format("lakebed").load(path).limit(2).collect()
    assert first != second
    late = pathlib.Path(path, ".hoodie/timeline")
    put(table, 3, 7)
    put(table, 4, 8)
    newest = sorted(p for p in late.iterdir() if p.name.endswith(".deltacommit"))[-2:]
    requested, completion = newest[0].name.split(".")[0].split("_")
    assert requested < completion
    hidden = tmp_path / newest[0].name
    shutil.move(newest[0], hidden)
    assert drain(frame, checkpoint) == [[(8, 4)]]
    after = f"{int(newest[1].name.split('.')[0].split('_')[1]) + 5}"
    shutil.move(hidden, late / f"{requested}_{after}.deltacommit")
    assert drain(frame, checkpoint) == [[(7, 3)]]
    # A batch that failed is read again as it was, whatever was committed since.
    put(table, 5, 9)
    with pytest.raises(StreamingQueryException, match="as the test wants it"):
        drain(frame, checkpoint, fails_at=5)
    put(table, 6, 10)
    assert drain(frame, checkpoint) == [[(9, 5)], [(10, 6)]]


def test_services_produce_no_batch(spark, path, tmp_path):
    table = table_at(path, index="simple", buckets=None)
    for ts in range(3):
        put(table, ts, ts)
    table.compact()
    frame = stream(spark, path).select("id")
    assert drain(frame, tmp_path / "c") == [[(0,), (1,), (2,)]]
    table.cluster()
    table.compact()
    assert drain(frame, tmp_path / "c") == []
    put(table, 3, 3)
    assert drain(frame, tmp_path / "c") == [[(3,)]]


@with_limits
def test_a_stream_starts_where_it_is_told_and_stays_there_if_its_first_batch_fails(
    spark, path, tmp_path
):
    table = table_at(path)
    put(table, 0, 0)
    second = put(table, 1, 1)
    put(table, 2, 2)
    put(table, 3, 3)
    with pytest.raises(StreamingQueryException):
        fails = stream(spark, path, startOffset=second).select("id")
        drain(fails, tmp_path / "fails", fails_at=0)
    put(table, 4, 4)
    # `latest` would now be another position; the failed batch is the same as before.
    again = stream(spark, path, startOffset="latest").select("id")
    assert drain(again, tmp_path / "fails") == [[(2,), (3,)], [(4,)]]
    name = {"hoodie.datasource.streaming.startOffset": "latest"}
    assert drain(stream(spark, path, **name).select("id"), tmp_path / "latest") == []
    # A single batch, as Spark defines `once`, whatever the limits.
    query = stream(spark, path, maxCommitsPerTrigger="1").writeStream.format("noop")
    query = query.option("checkpointLocation", str(tmp_path / "once")).trigger(once=True).start()
    query.awaitTermination()
    assert [p.numInputRows for p in query.recentProgress] == [5]


def test_a_stream_reads_its_columns_and_rows_only_and_survives_new_columns(spark, path, tmp_path):
    table = table_at(path)
    put(table, 0, 1, 2)
    reader = spark.readStream.format("lakebed").schema("v string, id bigint")
    frame = reader.option("lakebed.read.where", "id > 1").load(path)
    assert drain(frame, tmp_path / "c") == [[("v0", 2)]]
    wider = of(1, 3).append_column("extra", pa.array([1.5]))
    table.upsert(wider, evolve=True)
    assert drain(frame, tmp_path / "c") == [[("v1", 3)]]
    with pytest.raises(Exception, match="no column 'nope'"):
        drain(spark.readStream.format("lakebed").schema("nope int").load(path), tmp_path / "d")
    running = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "e"))
    query = running.start()
    query.processAllAvailable()
    table.upsert(of(2, 4).append_column("more", pa.array(["x"])), fill_missing=True, evolve=True)
    query.processAllAvailable()
    query.stop()
    assert [p.numInputRows for p in query.recentProgress if p.numInputRows] == [2, 1]


@with_limits
def test_changes_replicate_a_table_exactly(spark, path, tmp_path):
    table, replica = table_at(path), str(tmp_path / "replica")
    put(table, 1, *range(20))
    put(table, 2, 3, 4, 50)
    table.delete(of(0, 0, 50).select(["id"]))
    row = "struct<id: bigint, v: string, ts: bigint>"
    schema = f"op string, ts_ms string, before {row}, after {row}"
    reader = spark.readStream.format("lakebed").schema(schema).options(**CHANGES)
    changes = reader.option("maxCommitsPerTrigger", 1).load(path)
    target = changes.selectExpr("coalesce(after, before) row", "op = 'd' _hoodie_is_deleted")
    target = target.select("row.*", "_hoodie_is_deleted")
    load(target, replica, tmp_path / "c")
    assert rows_of(replica) == rows_of(path)
    put(table, 3, 0, 4, 60)
    table.delete(of(0, 1, 2).select(["id"]))
    table.compact()
    put(table, 4, 2)
    load(target, replica, tmp_path / "c")
    assert rows_of(replica) == rows_of(path)
    # As JSON, as Hudi shows them.
    found = drain(stream(spark, path, **CHANGES).select("op", "after"), tmp_path / "json")
    assert ("i", '{"id":60,"v":"v3","ts":3}') in found[0]
    assert [op for op, _ in found[0]].count("d") == 4


@with_limits
def test_lost_commits_are_an_error_or_passed_over(spark, path, tmp_path):
    table = table_at(path, properties=ARCHIVES)
    frame = stream(spark, path, maxCommitsPerTrigger="2").select("id")
    put(table, 0, 0)
    assert drain(frame, tmp_path / "c") == [[(0,)]]
    for ts in range(1, 12):
        put(table, ts, ts)
        if ts % 4 == 3:
            table.compact()
    table.clean()
    table.archive()
    assert any(row["archived"] for row in table.history().to_pylist())
    with pytest.raises(StreamingQueryException, match="failOnDataLoss=false"):
        drain(frame, tmp_path / "c")
    # Nothing of what can still be read is left out.
    lenient = stream(spark, path, failOnDataLoss="false", maxCommitsPerTrigger="1").select("id")
    found = [row for batch in drain(lenient, tmp_path / "c") for row in batch]
    assert found[-1] == (11,)
    assert len(found) < 11
    # A new stream without a limit needs the current files only.
    frame = stream(spark, path).select("id")
    assert drain(frame, tmp_path / "new") == [[(n,) for n in range(12)]]


def test_a_restore_behind_the_stream_is_noticed(spark, path, tmp_path):
    table = table_at(path)
    put(table, 0, 0)
    saved = table.savepoint()
    put(table, 1, 1)
    frame = stream(spark, path).select("id")
    assert drain(frame, tmp_path / "c") == [[(0,), (1,)]]
    table.restore(saved.instant)
    put(table, 2, 2)
    with pytest.raises(StreamingQueryException, match="was rolled back, the table was restored"):
        drain(frame, tmp_path / "c")
    lenient = stream(spark, path, failOnDataLoss="false").select("id")
    assert drain(lenient, tmp_path / "c") == [[(2,)]]


@with_limits
def test_a_stream_of_a_table_with_column_groups_and_partitions(spark, path, tmp_path):
    table = table_at(path, column_groups={"late": "v"}, partition_by="ts")
    put(table, 1, 1, 2)
    put(table, 2, 3)
    table.update_columns(pa.table({"id": [2], "ts": pa.array([1]), "v": ["new"]}))
    frame = stream(spark, path, maxCommitsPerTrigger="2").select("id", "v")
    assert drain(frame, tmp_path / "c") == [[(1, "v1"), (2, "v1"), (3, "v2")], [(2, "new")]]


# Into a table.


def test_a_stream_creates_a_table_and_merges_into_it(spark, path, tmp_path):
    folder = tmp_path / "in"
    for ts, ids in enumerate([(1, 2), (2, 3), (4,)]):
        add_file(spark, folder, ts, *ids)
    load(files(spark, folder), path, tmp_path / "c", **{"hoodie.compact.inline": "true"})
    assert [row[0] for row in rows_of(path)] == [1, 2, 3, 4]
    table = lakebed.open_table(None, path)
    assert len(last(table)) == 3
    number = forget_last_batch(tmp_path / "c")
    load(files(spark, folder), path, tmp_path / "c")
    assert len(last(table)) == 3
    query = (tmp_path / "c" / "metadata").read_text().split('"')[3]
    assert last_batch(table._snapshot(None), query) == number == 2
    # An empty batch is no commit; a deletion is.
    gone = files(spark, folder).where("false").withColumn("_hoodie_is_deleted", F.lit(True))
    load(gone, path, tmp_path / "d")
    assert len(last(table)) == 3
    gone = files(spark, folder).where("id = 4").withColumn("_hoodie_is_deleted", F.lit(True))
    load(gone, path, tmp_path / "e")
    assert [row[0] for row in rows_of(path)] == [1, 2, 3]


def test_foreach_batch_writes_a_repeated_batch_once(spark, path, tmp_path):
    table_at(path)
    for ts in range(2):
        add_file(spark, tmp_path / "in", ts, ts, 10 + ts)
    keyed = files(spark, tmp_path / "in").selectExpr("hash(uuid()) * 1000L + id id", "v", "ts")

    def run() -> int:
        writer = keyed.writeStream.foreachBatch(lakebed.foreach_batch(path, mode="insert"))
        writer = writer.option("checkpointLocation", str(tmp_path / "c"))
        writer.trigger(availableNow=True).start().awaitTermination()
        return len(rows_of(path))

    assert run() == 4
    forget_last_batch(tmp_path / "c")
    # Its keys are random: rows of a second attempt would be further rows.
    assert run() == 4
    add_file(spark, tmp_path / "in", 2, 7)
    assert run() == 5


def test_a_batch_is_not_skipped_because_an_earlier_write_took_its_number(spark, path):
    table_at(path)
    rows = spark.createDataFrame(of(1, 1, 2))
    upsert = lakebed.foreach_batch(path, stream="rows")
    delete = lakebed.foreach_batch(path, mode="delete", stream="deletes")
    upsert(rows, 0)
    delete(rows.where("id = 1").select("id"), 0)
    assert rows_of(path) == [(2, "v1", 1)]
    with pytest.raises(lakebed.InvalidError, match="a second write of batch 0 of stream 'rows'"):
        lakebed.foreach_batch(path, stream="rows")(rows, 0)
    with pytest.raises(lakebed.InvalidError, match="pass a name"):
        lakebed.foreach_batch(path)(rows, 1)


def test_a_failed_batch_leaves_nothing_and_is_written_after_a_restart(spark, path, tmp_path):
    folder = tmp_path / "in"
    add_file(spark, folder, 0, 1, 2)
    load(files(spark, folder), path, tmp_path / "c")
    add_file(spark, folder, 1, 3, 4)
    broken = files(spark, folder).selectExpr(
        "id", "if(id = 4, raise_error('broken row'), v) v", "ts"
    )
    with pytest.raises(StreamingQueryException, match="broken row"):
        load(broken, path, tmp_path / "c")
    assert [row[0] for row in rows_of(path)] == [1, 2]
    null_key = files(spark, folder).selectExpr("nullif(id, 4) id", "v", "ts")
    with pytest.raises(StreamingQueryException, match="id"):
        load(null_key, path, tmp_path / "c")
    load(files(spark, folder), path, tmp_path / "c")
    assert [row[0] for row in rows_of(path)] == [1, 2, 3, 4]
    assert list(pathlib.Path(path).glob(".hoodie/.temp/**/*.arrow")) == []


def test_streams_that_cannot_be_written_once_are_refused(spark, path, tmp_path):
    add_file(spark, tmp_path / "in", 0, 1)
    frame = files(spark, tmp_path / "in")

    def start(frame: DataFrame, mode: str = "append", **options: str) -> None:
        writer = frame.writeStream.format("lakebed").options(path=path, **OPTIONS, **options)
        writer.outputMode(mode).trigger(availableNow=True).start().awaitTermination()

    with (
        session_conf(spark, spark__sql__streaming__checkpointLocation=str(tmp_path / "all")),
        pytest.raises(StreamingQueryException, match="needs option checkpointLocation"),
    ):
        start(frame)
    with pytest.raises(StreamingQueryException, match="does not support Update"):
        start(frame, "update", checkpointLocation=str(tmp_path / "u"))
    with pytest.raises(StreamingQueryException, match="insert_overwrite"):
        start(frame.groupBy("id").count(), "complete", checkpointLocation=str(tmp_path / "c"))


def test_streams_work_on_an_object_store(
    spark: SparkSession, s3_server: S3Server, tmp_path: pathlib.Path
):
    storage = s3_server.options()
    options = {f"lakebed.storage.{name}": value for name, value in storage.items()}
    source, target = (f"s3://{s3_server.bucket}/streams/{name}" for name in ("from", "to"))
    table = table_at(source, storage_options=storage)
    put(table, 0, 1, 2)
    frame = stream(spark, source, **options).select("id", "v", "ts")
    load(frame, target, tmp_path / "c", **options)
    put(table, 1, 2, 3)
    load(frame, target, tmp_path / "c", **options)
    found = lakebed.open_table(None, target, storage).to_arrow().sort_by("id").to_pylist()
    assert [(row["id"], row["ts"]) for row in found] == [(1, 0), (2, 1), (3, 1)]
