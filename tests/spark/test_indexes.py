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
