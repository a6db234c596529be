"""The main job on local Spark: load a keyed table, query it, change it, travel in time.

    make demo            about 300,000 rows
    python examples/demo.py --rows 2000000

Everything happens in a temporary folder, which is kept if you name one with --path.
"""

import argparse
import logging
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.panel import Panel
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table as Grid

import lakebed

console = Console(width=100)
STATUSES = "'posted', 'pending', 'settled', 'overdue'"


@contextmanager
def step(title: str) -> Iterator[list[str]]:
    """Show a spinner and the seconds while a step runs, and what came of it after."""
    notes: list[str] = []
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    start = time.perf_counter()
    with Progress(*columns, console=console, transient=True) as progress:
        progress.add_task(title)
        yield notes
    seconds = time.perf_counter() - start
    console.print(f"[green]✓[/] {title:<58} [bold]{seconds:6.2f} s[/]")
    for note in notes:
        console.print(f"    {note}")


def ledger(spark, first, rows):
    """Make a loan ledger: about 15 rows a user, in an order unlike the key's."""
    return spark.range(first, first + rows).selectExpr(
        f"(id * 7919) % {max(rows // 15, 1)} AS user_id",
        "id",
        "timestamp_seconds(1767225600 + (id * 31) % 31536000) AS ts",
        "CAST((id * 37) % 100000 / 100 AS DECIMAL(12, 2)) AS amount",
        f"element_at(array({STATUSES}), CAST(id % 4 AS INT) + 1) AS status",
        "concat('note ', id % 1000) AS note",
    )


def show_files(table):
    """Print the table's history as a grid."""
    grid = Grid(title="t.history()", title_justify="left")
    for name in ("instant", "action", "operation", "files", "rows", "new", "size"):
        grid.add_column(
            name, justify="right" if name in {"files", "rows", "new", "size"} else "left"
        )
    for row in table.history().to_pylist():
        grid.add_row(
            row["instant"],
            row["action"],
            row["operation"],
            str(row["files"]),
            f"{row['rows_written']:,}",
            f"{row['rows_inserted']:,}",
            f"{row['bytes_written'] / 2**20:.1f} MiB",
        )
    console.print(grid)


def run(path, rows):
    """Run the demo on a table at `path`."""
    with step("start Spark on this machine, no jar of ours or Hudi's"):
        spark = lakebed.local_session()
        spark.sparkContext.setLogLevel("ERROR")
    source = ledger(spark, 0, rows)
    with step("create a copy-on-write table, key user_id + id, 4 buckets"):
        table = lakebed.create_table(
            spark,
            path,
            source.schema,
            key=["user_id", "id"],
            ordering="ts",
            table_type="COPY_ON_WRITE",
            name="ledger",
        )
    with step(f"bulk_insert {rows:,} rows, sorted by key") as notes:
        loaded = table.bulk_insert(source)
        notes.append(
            f"{loaded.rows:,} rows in {len(loaded.write_stats)} base files, "
            f"{loaded.size_bytes / 2**20:.1f} MiB, instant {loaded.instant}"
        )
    with step("query: totals by status, by Spark's own Parquet reader") as notes:
        found = table.read(columns=["status", "amount"]).groupBy("status").sum("amount")
        notes += [f"{row[0]:<8} {row[1]:>16,}" for row in found.orderBy("status").collect()]
    with step("query: one user, by predicate") as notes:
        notes.append(f"{table.read(where='user_id = 7').count()} rows of user 7")
    more = max(rows // 20, 1)
    with step(f"insert {more:,} rows more: the file groups are rewritten, sorted") as notes:
        added = table.insert(ledger(spark, rows, more))
        notes.append(f"{added.inserted:,} new rows, instant {added.instant}")
    with step("travel in time: count now and as of the first commit") as notes:
        now, then = table.read().count(), table.read(as_of=loaded.instant).count()
        notes.append(f"now {now:,} rows, then {then:,} rows")
    with step("read a few rows without Spark, as Arrow") as notes:
        reader = lakebed.open_table(None, path).read(where="user_id = 7", columns=["id", "amount"])
        notes.append(f"{reader.read_all().num_rows} rows of user 7")
    show_files(table)
    console.print(Panel(str(table.layers()), title="t.layers(): each file group", expand=False))
    spark.stop()


def main():
    """Parse the arguments and run."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--rows", type=int, default=300_000)
    parser.add_argument("--path", help="where to make the table (kept afterwards)")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.ERROR)
    if arguments.path:
        run(arguments.path, arguments.rows)
        console.print(f"The table is in {arguments.path}: Apache Hudi can open it too.")
        return
    folder = tempfile.mkdtemp(prefix="lakebed-demo-")
    try:
        run(f"{folder}/ledger", arguments.rows)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
