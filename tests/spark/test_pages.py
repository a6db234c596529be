"""Every block of the pages that use Spark runs as it is written, and prints what is shown."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyspark.sql import SparkSession

import lakebed
from lakebed.sql.statements import split_script
from support.debezium import FIRST, SECOND
from support.fixtures import unpack
from support.pages import Run, blocks_of, run_pages

TRIPS = "uuid STRING, ts BIGINT, city STRING, fare DOUBLE"


def days(spark: SparkSession, folder: Path) -> dict[str, Any]:
    """Make a table, two DataFrames, and what takes the changes."""
    schema = "id string, amount bigint"
    taken: list[int] = []
    return {
        "t": lakebed.create_table(spark, folder / "t", schema, key="id", buckets=1),
        "day_one": spark.createDataFrame([("a", 5), ("b", 50)], schema),
        "day_two": spark.createDataFrame([("b", 51), ("c", 7)], schema),
        "rounds": 2,
        "taken": taken,
        "take": lambda frame: taken.append(frame.count()),
    }


def days_read(run: Run) -> None:
    assert [tuple(row) for row in run.names["rows"].collect()] == [("b", 51)]
    ops = sorted(row["op"] for row in run.names["changes"].collect())
    assert ops == ["d", "i", "i", "i", "u"]
    assert run.names["taken"] == [5, 0]


def trips(spark: SparkSession, folder: Path) -> dict[str, Any]:
    """Make a DataFrame, and an empty table for the statements."""
    lakebed.create_table(None, folder / "trips", TRIPS, key="uuid", buckets=1)
    frame = spark.createDataFrame([("u0", 1, "oslo", 2.5)], TRIPS)
    return {"spark": spark, "df": frame, "path": str(folder / "frame")}


def trips_in_sql(run: Run) -> None:
    spark = run.names["spark"]
    try:
        assert [row["uuid"] for row in spark.table("newest").collect()] == ["u1"]
    finally:
        spark.sql("DROP VIEW newest")
        spark.sql("DROP TABLE trips")
    assert "oslo" in run.outputs


def change_records(spark: SparkSession, folder: Path) -> dict[str, Any]:
    """Make two batches of change records."""
    return {
        "spark": spark,
        "first": spark.createDataFrame(FIRST, "value STRING"),
        "second": spark.createDataFrame(SECOND, "value STRING"),
    }


def rows(table: Any, *columns: str) -> dict[int, tuple[Any, ...]]:
    return {row["id"]: tuple(row[name] for name in columns) for row in table.read().collect()}


def changes_applied(run: Run) -> None:
    table = run.names["t"]
    first = {row["id"]: (row["name"], row["_position"]) for row in table.read(as_of=0).collect()}
    assert first == {1: ("a3", 13), 3: ("c", 11)}
    wanted = {1: ("a3", None, 13), 3: ("c", "blue", 16), 4: ("d", "red", 15)}
    assert rows(table, "name", "colour", "_position") == wanted
    assert "red" in run.outputs
    (code,) = (block.body for block in blocks_of(run.page) if block.is_run)
    exec(code.split("# The source has a new column from here on.\n")[1], run.names)  # once more
    assert rows(table, "name", "colour", "_position") == wanted
    table.compact()
    assert rows(table, "name", "colour", "_position") == wanted


def a_table_of_hudi(spark: SparkSession, folder: Path) -> dict[str, Any]:
    """Unpack a table that Hudi wrote, and read some rows to write again."""
    unpack(HUDI_TABLE, folder).rename(folder / "trips")
    return {"spark": spark, "rows": lakebed.open_table(spark, folder / "trips").read()}


def written_to_hudi(run: Run) -> None:
    assert run.names["t"].count() == run.names["rows"].count()
    assert len(run.names["t"].history().to_pylist()) > 1


def a_table_of_delta(spark: SparkSession, folder: Path) -> dict[str, Any]:
    """Make a Delta table beside the session."""
    rows = pa.table({"id": [1, 2, 2], "city": ["Oslo", "Lima", "Pune"], "ts": [1, 1, 2]})
    (folder / "delta").mkdir()
    write_deltalake(str(folder / "delta" / "orders"), rows)
    return {"spark": spark, "path": str(folder / "t")}


def delta_users(run: Run) -> None:
    assert sorted(row["id"] for row in run.names["table"].read().collect()) == [*range(20)]
    assert sorted(row["id"] for row in run.names["df"].collect()) == [*range(5)]


def a_warehouse(spark: SparkSession, folder: Path) -> dict[str, Any]:
    return {"catalog": lakebed.catalog(spark, str(folder / "warehouse")), "found": {}}


def by_the_catalog(script: str, names: dict[str, Any]) -> None:
    """Execute a script by `lakebed.sql`."""
    for statement in split_script(script):
        names["found"][statement] = names["catalog"].sql(statement)


def by_spark(script: str, names: dict[str, Any]) -> None:
    """Execute a script by Spark's own SQL."""
    for statement in split_script(script):
        names["spark"].sql(statement).collect()


def hudis_sql_quickstart(run: Run) -> None:
    found, catalog = run.names["found"], run.names["catalog"]

    def of(start: str) -> list[tuple[Any, ...]]:
        frame = next(frame for text, frame in found.items() if text.startswith(start))
        return sorted((tuple(row) for row in frame.collect()), key=repr)

    assert len(of("SELECT ts, fare")) == 6
    assert of("UPDATE hudi_table")[0][1] == 1
    assert of("MERGE INTO")[0][:3] == (2, 2, 0)
    assert of("DELETE FROM")[0][2] == 1
    fares = {
        row["rider"]: row["fare"]
        for row in catalog.sql("SELECT rider, fare FROM hudi_table").collect()
    }
    assert fares == {
        "rider-A": 19.1, "rider-C": 25.0, "rider-D": 25.0, "rider-E": 93.5, "rider-F": 34.15, "rider-G": 43.4,
        "rider-H": 66.6, "rider-I": 41.06, "rider-J": pytest.approx(19.7),
    }  # fmt: skip
    assert len(of("SELECT * FROM hudi_table TIMESTAMP")) == 1
    assert len(of("SELECT * FROM hudi_table_changes('hudi_table'")) == 9
    assert of("SHOW INDEXES")[0][:3] == ("rider_idx", "rider", "ready")
    assert len(of("SELECT * FROM indexed_table")) == 1
    assert len(of("SELECT * FROM hudi_table_changes('indexed_table'")) == 9
    assert of("CREATE TABLE ctas_table")[0][0] == 9
    assert len(of("CALL show_commits")) == 3
    assert catalog.tables() == ["fare_adjustment", "hudi_table", "indexed_table"]


def streams_ended(run: Run) -> None:
    totals = run.names["totals"]
    assert totals.read().count() == 2
    assert len([row for row in totals.history().to_pylist() if row["rows_written"]]) == 3


def readme_ran(run: Run) -> None:
    assert "L1" in run.outputs
    assert sorted(run.names["t"].to_pandas()["id"]) == [2, 3]
    since = run.names["first"].completion_time
    assert run.names["t"].read(mode="cdc", since=since).count() == 3


HUDI_TABLE = "cow9_nomdt"
GIVEN: dict[str, Callable[[SparkSession, Path], dict[str, Any]]] = {
    "docs/changes.md": days,
    "docs/datasource.md": trips,
    "docs/debezium.md": change_records,
    "docs/guest.md": a_table_of_hudi,
    "docs/quickstart-delta.md": a_table_of_delta,
    "docs/sql.md": a_warehouse,
}
SQL = {"docs/datasource.md": by_spark, "docs/sql.md": by_the_catalog}
CHECKS: dict[str, Callable[[Run], None]] = {
    "README.md": readme_ran,
    "docs/changes.md": days_read,
    "docs/datasource.md": trips_in_sql,
    "docs/debezium.md": changes_applied,
    "docs/guest.md": written_to_hudi,
    "docs/quickstart-delta.md": delta_users,
    "docs/sql.md": hudis_sql_quickstart,
    "docs/streaming.md": streams_ended,
}


@pytest.mark.parametrize("page", run_pages(spark=True))
def test_a_page_runs_as_it_is_written(page: str, spark: SparkSession, tmp_path: Path):
    names = GIVEN[page](spark, tmp_path) if page in GIVEN else {}
    run = Run(page, tmp_path, names, SQL.get(page)).all()
    if page in CHECKS:
        CHECKS[page](run)
