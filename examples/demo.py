"""What Lakebed is, in a minute: keyed rows, sorted layers, lookups, the past, changes, compaction.

    make demo                                    in process, then one query on local Spark
    python examples/demo.py --rows 1000000 --no-spark

Everything happens in a temporary folder; name one with --path to keep the table.
"""

import argparse
import logging
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.panel import Panel

import lakebed

console = Console(width=100, highlight=False)
STATUSES = np.array(["posted", "pending", "settled", "overdue"])


@contextmanager
def step(title: str) -> Iterator[list[str]]:
    """Print a step with the time that it took, and what came of it below."""
    notes: list[str] = []
    start = time.perf_counter()
    yield notes
    took = time.perf_counter() - start
    shown = f"{took * 1000:6.0f} ms" if took < 1 else f"{took:6.2f} s"
    console.print(f"[green]✓[/] {title:<76} [bold]{shown:>10}[/]")
    for note in notes:
        console.print(f"    {note}", style="dim")


def ledger(first: int, rows: int, ts: int) -> pa.Table:
    """Make a loan ledger: 15 rows a user, in an order unlike the key's."""
    ids = np.random.default_rng(first).permutation(np.arange(first, first + rows))
    return pa.table(
        {
            "user_id": ids // 15,
            "id": ids,
            "ts": np.full(rows, ts),
            "amount": (ids * 37 % 100_000) / 100,
            "status": STATUSES[ids % 4],
        }
    )


def one(user_id: int, id_: int, ts: int, amount: float, status: str) -> pa.Table:
    """Make one row of the ledger."""
    row = {"user_id": user_id, "id": id_, "ts": ts, "amount": amount, "status": status}
    return pa.Table.from_pylist([row], schema=ledger(0, 1, 0).schema)


def show_layers(table: lakebed.Table, title: str) -> None:
    """Draw the first two file groups."""
    groups = table.layers().groups
    drawn = str(lakebed.Layers(groups[:2]))
    left = f"\n  ... and {len(groups) - 2} more like these" if len(groups) > 2 else ""
    console.print(Panel(drawn + left, title=title, expand=False))


def run(path: str, rows: int) -> None:
    """Run the part of the demo that needs no Spark."""
    with step("create_table: MERGE_ON_READ, key user_id + id, the greater ts wins"):
        table = lakebed.create_table(
            None, path, ledger(0, 1, 0), key=["user_id", "id"], ordering="ts", name="ledger"
        )
    with step(f"bulk_insert {rows:,} rows: base files sorted by key, L1") as notes:
        loaded = table.bulk_insert(ledger(0, rows, ts=100))
        notes.append(str(loaded))
    with step(f"upsert {rows // 20:,} rows: a sorted log for each file group, L0") as notes:
        upserted = table.upsert(ledger(rows - rows // 40, rows // 20, ts=200))
        notes.append(str(upserted))
    key = {"user_id": 0, "id": 7}
    with step("upsert a late row, ts 50 after ts 100: the newer one stands") as notes:
        table.upsert(one(0, 7, ts=50, amount=-1.0, status="late"))
        notes.append(f"lookup gives {table.lookup([key]).to_pylist()[0]}")
    with step("delete one key") as notes:
        notes.append(str(table.delete([{"user_id": 0, "id": 8}])))
    show_layers(table, "print(t.layers()): L1 below, the logs L0 on top")
    with step("lookup by key: no Spark job, two row groups read") as notes:
        notes.append(f"{table.lookup([key, {'user_id': 0, 'id': 8}]).num_rows} row of two keys")
    with step("travel in time: count now, and as of the load") as notes:
        now, then = table.count(), table.count(as_of=loaded.instant)
        notes.append(f"now {now:,} rows, then {then:,}")
    with step("read what was written since the load, and what changed since the upsert") as notes:
        recent = table.to_arrow(since=loaded.completion_time)
        notes.append(f"{recent.num_rows:,} rows were written, the late one is not among them")
        changes = table.to_arrow(
            columns=["id", "status"], since=upserted.completion_time, mode="cdc"
        )
        notes += [f"{row['op']} {row['before']} → {row['after']}" for row in changes.to_pylist()]
    with step("compact: logs and base files become new base files") as notes:
        notes += [str(done) for done in table.compact()]
    show_layers(table, "print(t.layers()) again")


def query(spark: object, path: str) -> None:
    """Query the same table with Spark."""
    with step("the same table on Spark, by its own Parquet reader: totals by status") as notes:
        frame = lakebed.open_table(spark, path).read(columns=["status", "amount"])
        totals = frame.groupBy("status").sum("amount").orderBy("status").collect()
        notes += [f"{row[0]:<8} {row[1]:>16,.2f}" for row in totals]


class Starting:
    """A Spark session that starts while the demo runs without it."""

    def __init__(self) -> None:
        self._session: object = None
        self._thread = threading.Thread(target=self._start, daemon=True)
        self._thread.start()

    def _start(self) -> None:
        # For one query Java's quick compiler is enough, and Spark reads the table without Python.
        conf = {
            "spark.log.level": "ERROR",
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
        }
        self._session = lakebed.local_session(conf=conf, warm_up=False)

    def session(self) -> object:
        """Wait for the session."""
        self._thread.join()
        return self._session


def main() -> None:
    """Parse the arguments and run."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--path", help="where to make the table (kept afterwards)")
    parser.add_argument("--no-spark", action="store_true", help="leave out the query on Spark")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.ERROR)
    folder = arguments.path or tempfile.mkdtemp(prefix="lakebed-demo-") + "/ledger"
    starting = None if arguments.no_spark else Starting()
    try:
        run(folder, arguments.rows)
        if starting is not None:
            with step("wait for Spark, which started meanwhile"):
                spark = starting.session()
            query(spark, folder)
            spark.stop()
    finally:
        if not arguments.path:
            shutil.rmtree(folder.rpartition("/")[0], ignore_errors=True)
    if arguments.path:
        console.print(f"The table is in {folder}: Apache Hudi can open it too.")


if __name__ == "__main__":
    main()
