"""Reads through a secondary index on Spark: the rows of a scan, by any way to the rows."""

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import lakebed
from lakebed.expr.predicate import Predicate
from lakebed.model.options.writers import DRIVER_MAX_BYTES
from lakebed.scan.scan import plan_scan
from spark.frames import session_conf
from support.indexed import DDL, SCHEMA, Draw, history
from support.indexes import check_indexes

ROWS = 3_000


@pytest.fixture(scope="module")
def table(spark: SparkSession, tmp_path_factory) -> lakebed.Table:
    """Return a table with logs on one of its file groups, and an index on `city`."""
    path = str(tmp_path_factory.mktemp("indexed") / "t")
    ddl = "id string, city string, n bigint, at timestamp"
    made = lakebed.create_table(spark, path, ddl, key="id", buckets=4)
    numbers = range(ROWS)
    rows = pa.table(
        {
            "id": [f"{n:06d}" for n in numbers],
            "city": [None if n % 1000 == 7 else f"c{n % 500}" for n in numbers],
            "n": list(numbers),
            "at": pa.array([n * 3_600_000_000 for n in numbers], pa.timestamp("us", "UTC")),
        }
    )
    made.bulk_insert(rows)
    with session_conf(spark, **{DRIVER_MAX_BYTES.name: "0"}):
        # Built, written and compacted by Spark's workers.
        assert made.create_index("by_city", ["city"]).entries == ROWS
        made.create_index("by_at", ["at"])
        made.upsert(made.read(where="n < 20"))
        made.compact_index("by_at")
        made.upsert(made.read(where="n = 0"))
        made.delete([{"id": f"{ROWS:06d}"}])
        frame = made.read(where="n = 5")
        frame.write.format("lakebed").mode("append").save(path)
    return made


def test_what_workers_write_to_an_index_is_every_row(table):
    check_indexes(lakebed.open_table(None, table.path), covered=True)
    assert {one.name: one.entries for one in table.indexes()} == {
        "by_at": ROWS + 22,
        "by_city": ROWS + 22,
    }


QUERIES = {
    "city = 'c3'": [3 + 500 * i for i in range(6)],
    "city IN ('c3', 'nowhere') AND n < 1000": [3, 503],
    "city IS NULL": [7, 1007, 2007],
    "city LIKE 'c49_' AND n < 495": [490, 491, 492, 493, 494],
    "city = 'c3' OR at = TIMESTAMP '1970-01-01 05:00:00'": [3, 5, 503, 1003, 1503, 2003, 2503],
}


@pytest.mark.parametrize("near", ["0", "64MB"])
def test_an_index_finds_the_rows_of_a_scan(spark, table, near):
    with session_conf(spark, **{DRIVER_MAX_BYTES.name: near}):
        for where, wanted in QUERIES.items():
            assert any(note.used for note in table.explain(where=where).indexes), where
            found = table.read(["n"], where).toArrow().column("n").to_pylist()
            assert sorted(found) == wanted, where


def test_the_data_source_uses_it_for_its_predicate(spark, table):
    for where, wanted in QUERIES.items():
        frame = spark.read.format("lakebed").option("lakebed.read.where", where).load(table.path)
        assert sorted(row.n for row in frame.select("n").collect()) == wanted, where


def test_in_another_time_zone_a_timestamp_means_another_instant(spark, table):
    where = "at = TIMESTAMP '1970-01-01 05:00:00'"
    with session_conf(spark, spark__sql__session__timeZone="Asia/Shanghai"):
        notes = {note.name: note.used for note in table.explain(where=where).indexes}
        assert notes == {"by_at": False, "by_city": False}
        assert table.read(["n"], where).count() == 0
        assert any(note.used for note in table.explain(where="city = 'c3'").indexes)
        assert table.read(["n"], "city = 'c3' AND n > 3").count() == 5


def test_random_queries_after_random_histories_agree_with_a_scan_in_process(spark, tmp_path):
    draw = Draw(7)
    path = str(tmp_path / "random")
    here = lakebed.create_table(
        None, path, DDL, key="id", ordering="ts", partition_by="dt", buckets=2
    )
    for _ in history(here, draw, steps=10):
        pass
    there = lakebed.open_table(spark, path)
    snapshot = here._snapshot(None)
    rows = here._engines.read(plan_scan(snapshot, SCHEMA.names, None, indexes=())).read_all()
    [batch] = rows.combine_chunks().to_batches()
    asked = used = 0
    for _ in range(24):
        where = draw.query()
        wanted = Predicate.parse(where, SCHEMA).filter(batch)
        asked, used = (
            asked + 1,
            used + any(note.used for note in there.explain(None, where).indexes),
        )
        found = there.read(["id", "dt"], where).toArrow()
        assert pairs(found) == pairs(wanted), where
    assert used / asked > 0.5


def pairs(rows) -> list[tuple[str, str]]:
    """Return the keys of rows with their partitions, in order."""
    return sorted(zip(rows["id"].to_pylist(), rows["dt"].to_pylist(), strict=True))


def test_column_statistics_leave_out_files_before_spark_reads_them(spark, tmp_path):
    path = str(tmp_path / "t")
    ddl = "id bigint, dt string, amount double, qty bigint, at timestamp, name string"
    made = lakebed.create_table(
        spark,
        path,
        ddl,
        key="id",
        partition_by="dt",
        buckets=1,
        properties={"lakebed.file.index.min.files": "1"},
    )
    numbers = range(200)
    rows = pa.table(
        {
            "id": list(numbers),
            "dt": [f"d{n // 10:02}" for n in numbers],
            "amount": [float("nan") if n == 55 else n / 4 for n in numbers],
            "qty": list(numbers),
            "at": pa.array([n * 3_600_000_000 for n in numbers], pa.timestamp("us", "UTC")),
            "name": [None if n < 10 else "雪" * 8 + str(n) for n in numbers],
        }
    )
    with session_conf(spark, **{DRIVER_MAX_BYTES.name: "0"}):
        # The tasks on Spark's workers return the statistics.
        made.bulk_insert(spark.createDataFrame(rows))
        made.upsert(rows.slice(30, 1).set_column(2, "amount", pa.array([99.0])))
        wanted = {
            "amount > 48": ([30, 55, 193, 194, 195, 196, 197, 198, 199], 3),
            "amount = 99": ([30], 1),
            "qty BETWEEN 18 AND 21": ([18, 19, 20, 21], 3),
            "name IS NULL": (list(range(10)), 2),
            "at < TIMESTAMP '1970-01-01 02:00:00'": ([0, 1], 2),
            f"name LIKE '{'雪' * 8}19%'": ([19, *range(190, 200)], 3),
        }
        for where, (ids, groups) in wanted.items():
            assert sorted(made.read(["id"], where).toArrow()["id"].to_pylist()) == ids, where
            # The file group with a log is always read.
            assert made.explain(where=where).file_groups.read <= groups + 1, where
            assert any(s.by == "column statistics" for s in made.explain(where=where).pruned_by)
            frame = spark.read.format("lakebed").option("lakebed.read.where", where).load(path)
            assert sorted(row.id for row in frame.select("id").collect()) == ids, where
        with session_conf(spark, spark__sql__session__timeZone="Asia/Shanghai"):
            where = "at < TIMESTAMP '1970-01-01 10:00:00'"
            assert sorted(made.read(["id"], where).toArrow()["id"].to_pylist()) == [0, 1]
            assert made.explain(where=where).file_groups.read == 20
            assert made.explain(where="qty > 195").file_groups.read == 2
