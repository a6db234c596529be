"""Ranges of time read by Spark: the same rows and changes as without it, and as the docs say."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import lakebed


def rows(*told: tuple[str, int, int, str]) -> pa.Table:
    names = ["id", "v", "ts", "dt"]
    return pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in told])


def collected(read: Any) -> list[dict[str, Any]]:
    """Return the rows of either engine in order."""
    found = read.toArrow() if isinstance(read, DataFrame) else read.read_all()
    return sorted(found.to_pylist(), key=str)


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_spark_reads_ranges_as_arrow_does(table_type: str, spark: SparkSession, tmp_path: Path):
    table = lakebed.create_table(
        spark,
        tmp_path,
        "id string, v bigint, ts bigint, dt string",
        key="id",
        ordering="ts",
        partition_by="dt",
        buckets=1,
        table_type=table_type,
    )
    table.upsert(rows(("a", 1, 1, "p"), ("b", 1, 5, "p"), ("c", 1, 1, "q")))
    table.upsert(rows(("a", 2, 2, "p"), ("b", 2, 4, "p"), ("d", 2, 1, "r")))
    table.delete([{"id": "c", "dt": "q"}])
    table.insert_overwrite(rows(("e", 3, 1, "r")))
    plain = lakebed.open_table(None, tmp_path)
    columns = ["_hoodie_commit_time", "id", "v"]
    ends = sorted(table.history()["completion_time"].to_pylist())
    for since, until in ((ends[0], None), (ends[-1], None)):
        moments = {"since": since, "until": until}
        wanted = collected(plain.read(columns, **moments))
        assert collected(table.read(columns, **moments)) == wanted
        some = [row for row in wanted if row["v"] > 1]
        assert collected(table.read(columns, where="v > 1", **moments)) == some
        changes = collected(plain.read(["id", "v"], mode="cdc", **moments))
        assert collected(table.read(["id", "v"], mode="cdc", **moments)) == changes
    ops = [row["op"] for row in collected(table.read(mode="cdc"))]
    assert sorted(ops) == [*"dd", *"iiiii", "u"]
    assert table.read(mode="cdc").where("op = 'u'").select("after.v").collect()[0][0] == 2
