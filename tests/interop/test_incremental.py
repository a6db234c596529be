"""Ranges of time read by Lakebed and by Apache Hudi: the same rows, the same changes."""

import json
import pathlib
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from interop.clients import Hudi
from lakebed.api.table import Table

SCHEMA = pa.schema(
    [("id", pa.string()), ("name", pa.string()), ("ts", pa.int64()), ("dt", pa.string())]
)
TYPES = ["COPY_ON_WRITE", "MERGE_ON_READ"]
LOGGING = ["op_key_only", "data_before", "data_before_after"]
OPERATION = "hoodie.datasource.write.operation"
COLUMNS = ["_hoodie_commit_time", *SCHEMA.names]


def rows(*told: tuple[str, str, int, str]) -> pa.Table:
    """Return rows of SCHEMA."""
    return pa.Table.from_pylist(
        [dict(zip(SCHEMA.names, row, strict=True)) for row in told], schema=SCHEMA
    )


FIRST = rows(*((f"k{n}", f"n{n}", 100 + n, f"p{n % 2}") for n in range(6)))
SECOND = rows(("k1", "n1b", 200, "p1"), ("k2", "late", 1, "p0"), ("k7", "n7", 107, "p0"))
THIRD = rows(("k3", "n3c", 300, "p1"), ("k4", "late", 2, "p0"))
GONE = rows(("k0", "", 0, "p0"), ("k1", "", 0, "p1"))
INSTEAD = rows(("k9", "n9", 1, "p0"), ("k7", "n7", 1, "p0"))
LAST = rows(("k9", "n9b", 5, "p0"), ("k11", "n11", 5, "p1"))


def options(name: str, table_type: str, **more: str) -> dict[str, str]:
    """Return what Hudi writes such a table with."""
    return {
        "hoodie.table.name": name,
        "hoodie.datasource.write.table.type": table_type,
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.datasource.write.partitionpath.field": "dt",
        "hoodie.metadata.enable": "false",
        "hoodie.index.type": "BUCKET",
        "hoodie.bucket.index.num.buckets": "1",
        "hoodie.clean.automatic": "false",
        "hoodie.upsert.shuffle.parallelism": "1",
        OPERATION: "upsert",
        **more,
    }


def compact(hudi: Hudi, path: pathlib.Path) -> None:
    more = "options => 'hoodie.compact.inline.max.delta.commits=1'"
    hudi.sql(f"CALL run_compaction(op => 'schedule', path => '{path}', {more})")
    hudi.sql(f"CALL run_compaction(op => 'run', path => '{path}')")


def write_history(hudi: Hudi, path: pathlib.Path, table_type: str, **more: str) -> Table:
    """Let Hudi write, delete, compact, overwrite a partition and drop another."""
    own = options("t", table_type, **more)
    hudi.write(path, FIRST, own, "overwrite")
    hudi.write(path, SECOND, own)
    if table_type == "MERGE_ON_READ":
        compact(hudi, path)
    hudi.write(path, THIRD, own)
    hudi.write(path, GONE, {**own, OPERATION: "delete"})
    hudi.write(path, INSTEAD, {**own, OPERATION: "insert_overwrite"})
    hudi.write(path, rows(("k1", "", 0, "p1")), {**own, OPERATION: "delete_partition"})
    hudi.write(path, LAST, own)
    return lakebed.open_table(None, path)


def ends_of(table: Table) -> list[str]:
    """Return the beginning of time and when each commit was completed."""
    return ["000", *sorted(table.history()["completion_time"].to_pylist())]


def asked(since: str, until: str, **more: str) -> dict[str, str]:
    """Return the options by which Hudi reads a range."""
    return {
        "hoodie.datasource.query.type": "incremental",
        "hoodie.datasource.read.begin.instanttime": since,
        "hoodie.datasource.read.end.instanttime": until,
        **more,
    }


def check_incremental(hudi: Hudi, path: pathlib.Path, table: Table) -> None:
    """Compare the rows of some ranges: all, from the second, the middle, the end."""
    ends = ends_of(table)
    for since, until in (
        (ends[0], ends[-1]),
        (ends[1], ends[3]),
        (ends[2], ends[-3]),
        (ends[3], ends[-1]),
    ):
        theirs = hudi.read(path, **asked(since, until)).select(COLUMNS).to_pylist()
        ours = table.read(COLUMNS, since=since, until=until).read_all().to_pylist()
        if table.config.is_lsm_tree:
            # Hudi merges the logs of a range among themselves: a late row that lost is shown too.
            theirs = [row for row in theirs if row["name"] != "late"]
        assert sorted(ours, key=str) == sorted(theirs, key=str), f"{since} to {until}"


def check_changes(hudi: Hudi, path: pathlib.Path, table: Table) -> None:
    """Compare all changes, each of which says when it was, and those of a range."""
    ends = ends_of(table)
    for since, until in ((ends[0], ends[-1]), (ends[2], ends[-3])):
        form = {"hoodie.datasource.query.incremental.format": "cdc"}
        theirs = hudi.read(path, **asked(since, until, **form)).to_pylist()
        theirs = [
            {**row, "before": side(row["before"]), "after": side(row["after"])} for row in theirs
        ]
        ours = table.read(since=since, until=until, mode="cdc").read_all().to_pylist()
        assert sorted(ours, key=str) == sorted(theirs, key=str), f"{since} to {until}"


def side(text: str | None) -> dict[str, Any] | None:
    """Parse a row of Hudi's; the text null stands for a row that was not there."""
    row = json.loads(text or "null")
    return row and {name: row[name] for name in SCHEMA.names}


@pytest.mark.parametrize("table_type", TYPES)
@pytest.mark.parametrize("mode", LOGGING)
def test_we_read_the_ranges_and_changes_of_a_table_of_hudis(
    mode: str, table_type: str, tmp_path: pathlib.Path, hudi: Hudi
):
    logging = {
        "hoodie.table.cdc.enabled": "true",
        "hoodie.table.cdc.supplemental.logging.mode": mode,
    }
    table = write_history(hudi, tmp_path / "t", table_type, **logging)
    check_changes(hudi, tmp_path / "t", table)
    if mode == "op_key_only":
        check_incremental(hudi, tmp_path / "t", table)


def test_rows_before_that_are_gone_come_from_change_data_that_holds_them(
    tmp_path: pathlib.Path, hudi: Hudi
):
    for mode in LOGGING:
        path = tmp_path / mode
        own = options("t", "COPY_ON_WRITE")
        own |= {"hoodie.table.cdc.enabled": "true"}
        own |= {"hoodie.table.cdc.supplemental.logging.mode": mode}
        hudi.write(path, FIRST, own, "overwrite")
        hudi.write(path, SECOND, own)
        hudi.write(path, GONE, {**own, OPERATION: "delete"})
        table = lakebed.open_table(None, path)
        first, second, third = sorted(table.history()["instant"].to_pylist())
        since = min(table.history()["completion_time"].to_pylist())
        wanted = table.read(since=since, mode="cdc").read_all().to_pylist()
        assert {row["ts_ms"] for row in wanted} == {second, third}
        for file in path.rglob(f"*_{first}.parquet"):
            file.unlink()
        table = lakebed.open_table(None, path)
        if mode == "op_key_only":
            with pytest.raises(lakebed.errors.InvalidError, match="no longer exists"):
                table.read(since=since, mode="cdc").read_all()
            continue
        found = table.read(since=since, mode="cdc").read_all().to_pylist()
        assert sorted(found, key=str) == sorted(wanted, key=str)


@pytest.mark.parametrize("layout", ["lsm_tree", "default"])
@pytest.mark.parametrize("table_type", TYPES)
def test_hudi_reads_the_ranges_of_our_tables(
    table_type: str, layout: str, tmp_path: pathlib.Path, hudi: Hudi
):
    path = tmp_path / "t"
    table = lakebed.create_table(
        None,
        path,
        SCHEMA,
        key="id",
        ordering="ts",
        partition_by="dt",
        name="t",
        buckets=1,
        table_type=table_type,
        layout=layout,
    )
    table.upsert(FIRST)
    table.upsert(SECOND)
    if table_type == "MERGE_ON_READ":
        table.compact("full")
    table.upsert(THIRD)
    table.delete(GONE)
    table.insert_overwrite(INSTEAD)
    table.upsert(LAST)
    check_incremental(hudi, path, table)
