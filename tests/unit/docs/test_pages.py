"""Every block of the pages that need no Spark session runs as it is written, and prints what is shown."""

import tempfile
from collections.abc import Callable, Iterator
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakebed
from support.fixtures import unpack
from support.pages import Run, run_pages
from support.s3 import S3Server

Given = Callable[[Path], dict[str, Any]]


def upserted(table: lakebed.Table, ids: range, ts: int, cities: tuple[str, ...]) -> None:
    """Upsert a row for each id; its city follows from it."""
    rows = {
        "id": [f"trip-{i:06d}" for i in ids],
        "city": [cities[i % len(cities)] for i in ids],
        "amount": [i / 2 for i in ids],
        "ts": [ts] * len(ids),
    }
    table.upsert(pa.table(rows)) if ts else table.bulk_insert(pa.table(rows))


def tables_of_the_command(folder: Path) -> dict[str, Any]:
    """Make the tables and files that the page on the command works on."""
    columns = "id STRING, city STRING, amount DOUBLE, ts BIGINT"
    made = {"key": "id", "ordering": "ts", "partition_by": "city", "buckets": 2}
    trips = lakebed.create_table(None, str(folder / "trips"), columns, **made)
    upserted(trips, range(40_000), 0, ("berlin", "lima"))
    upserted(trips, range(0, 9_000, 3), 1, ("berlin", "lima"))
    upserted(trips, range(0, 3_000, 7), 2, ("berlin", "lima"))
    trips.delete([{"city": "berlin", "id": "trip-000010"}])
    orders = lakebed.create_table(None, str(folder / "orders"), columns, **made)
    for ts in range(6):
        upserted(orders, range(400), ts, ("lima",))
    (folder / "rides.csv").write_text("id,city,amount,ts\n1,oslo,1.5,10\n2,lima,2.5,10\n")
    (folder / "more.jsonl").write_text(
        '{"id": 2, "city": "lima", "amount": 9.5, "ts": 11}\n{"id": 3, "amount": 3.5, "ts": 11}\n'
    )
    (folder / "late.csv").write_text("id,city,amount,ts\ntrip-000010,berlin,5.5,3\n")
    return {}


def parquet_to_convert(folder: Path) -> dict[str, Any]:
    """Make a folder of Parquet files."""
    (folder / "raw" / "trips").mkdir(parents=True)
    for part in range(2):
        rows = {"trip_id": [part, part + 1], "fare": [1.5, 2.5], "updated_at": [part, part]}
        pq.write_table(pa.table(rows), folder / "raw" / "trips" / f"part-{part}.parquet")
    return {}


def warehouse_to_show(folder: Path) -> dict[str, Any]:
    """Make a folder with a table."""
    lakebed.create_table(None, str(folder / "warehouse" / "trips"), "id BIGINT", key="id")
    return {}


def trips_with_riders(folder: Path) -> dict[str, Any]:
    """Make the table in which riders and cities are looked for."""
    columns = "id BIGINT, rider STRING, city STRING, fare DOUBLE, ts BIGINT"
    trips = lakebed.create_table(
        None, str(folder / "trips"), columns, key="id", ordering="ts", buckets=8
    )
    ids = np.arange(60_000)
    spread = ids * 7919 % 20_011
    trips.bulk_insert(
        pa.table(
            {
                "id": ids,
                "rider": np.char.add("r", np.char.zfill(spread.astype(str), 6)),
                "city": np.char.add("city", (spread % 10).astype(str)),
                "fare": ids * 31 % 5_003 / 100,
                "ts": np.zeros(60_000, int),
            }
        )
    )
    return {"t": trips}


def table_to_watch(folder: Path) -> dict[str, Any]:
    """Make a table with an index, a savepoint and logs."""
    found = trips_with_riders(folder)
    t = found["t"]
    t.create_index("by_rider", ["rider"])
    t.savepoint()
    for part in range(3):
        t.upsert(t.to_arrow().slice(part, 20_000))
    return found


def table_of_hudi(folder: Path) -> dict[str, Any]:
    """Unpack a table that Hudi wrote, with a metadata table."""
    unpack("cow9_mdt", folder).rename(folder / "trips")
    return {}


def table_with_logs(folder: Path) -> dict[str, Any]:
    """Make a table for every service: logs to compact, a secondary index, files to cluster."""
    t = lakebed.create_table(
        None, str(folder / "t"), "id BIGINT, city STRING", key="id", index="simple"
    )
    rows = pa.table({"id": [1, 2, 3], "city": ["Oslo", "Lima", "Pune"]})
    t.insert(rows)
    t.create_index("by_city", ["city"])
    t.upsert(rows)
    return {"t": t, "rows": rows}


def predicates(text: str, names: dict[str, Any]) -> None:
    """Evaluate each line of a block on a row."""
    row = {
        "amount": pa.array([Decimal(12)], pa.decimal128(12, 2)),
        "city": ["oslo"],
        "price": [Decimal("80.00")],
        "quantity": pa.array([1], pa.int32()),
        "dt": [date(2026, 11, 2)],
        "is_test": [False],
    }
    t = lakebed.create_table(None, "memory://docs/where", pa.table(row).schema, key="city")
    t.insert(pa.table(row))
    for line in text.splitlines():
        assert t.count(where=line) == 1, line


SQL = {"docs/where.md": predicates}
GIVEN: dict[str, Given] = {
    "docs/indexes.md": trips_with_riders,
    "docs/quickstart-hudi.md": table_of_hudi,
    "docs/operations.md": table_to_watch,
    "docs/services.md": table_with_logs,
    "docs/cli.md": tables_of_the_command,
    "docs/convert.md": parquet_to_convert,
    "docs/page.md": warehouse_to_show,
}


def on_s3(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let s3:// mean the server of the tests, as the environment does for other stores than AWS."""
    server.client().create_bucket(Bucket="lake")
    for name, value in server.options().items():
        monkeypatch.setenv(f"AWS_{name.upper()}", value)
    t = lakebed.create_table(None, "s3://lake/trips", "id BIGINT, city STRING", key="id")
    t.insert(pa.table({"id": [1], "city": ["Oslo"]}))


@pytest.fixture
def folder() -> Iterator[Path]:
    """Return a folder with a short name: the command cuts long ones in tables."""
    with tempfile.TemporaryDirectory(prefix="lakebed-") as name:
        yield Path(name)


@pytest.mark.parametrize("page", run_pages(spark=False))
def test_a_page_runs_as_it_is_written(
    page: str, folder: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
):
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "110")
    names = GIVEN[page](folder) if page in GIVEN else {}
    if page == "docs/storage.md":
        on_s3(request.getfixturevalue("s3_server"), monkeypatch)
    Run(page, folder, names, SQL.get(page)).all()
