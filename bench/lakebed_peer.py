"""Time Lakebed on the ledger: bulk_insert, upserts, a scan; and watch its workers' memory.

    .venv/bin/python bench/lakebed_peer.py LEDGER UPDATES --runs 3

Prints one JSON object, as bench/hudi_peer.py does: `local[2]`, warm (a small write and a read of
the input come first), the same MERGE_ON_READ table of 4 buckets, meta columns and commit included.
The first upsert is counted, too: it is for the reader to leave it out.
"""

import argparse
import json
import os
import pathlib
import shutil
import tempfile
import threading
import time

import psutil
import pyarrow.compute as pc

import lakebed

WARM_UP_ROWS = 20_000
KEY = ["user_id", "id"]
COLUMNS = ["amount", "ts", "balance"]
SCAN = ("sum(amount)", "max(ts)", "max(balance)", "count(*)")


class WorkerMemory:
    """Samples the resident memory of every Python process below this one."""

    def __init__(self) -> None:
        self.peak_bytes = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "WorkerMemory":
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        own = psutil.Process()
        while not self._stop.wait(0.05):
            for process in own.children(recursive=True):
                try:
                    if "python" in process.name():
                        self.peak_bytes = max(self.peak_bytes, process.memory_info().rss)
                except psutil.Error:
                    continue  # it ended while we looked


def timed_write(spark, rows, path: str, buckets: int) -> tuple[float, lakebed.Commit]:
    """Write `rows` as a new table at `path`; give the seconds and the commit."""
    shutil.rmtree(path, ignore_errors=True)
    start = time.perf_counter()
    table = lakebed.create_table(spark, path, rows.schema, key=KEY, ordering="ts", buckets=buckets)
    commit = table.bulk_insert(rows)
    return round(time.perf_counter() - start, 3), commit


def timed_upsert(spark, rows, path: str) -> float:
    """Upsert `rows`; give the seconds, opening the table included."""
    start = time.perf_counter()
    lakebed.open_table(spark, path).upsert(rows)
    return round(time.perf_counter() - start, 3)


def timed_scan(spark, path: str) -> tuple[float, list[str]]:
    """Let three columns of every row cross; give the seconds and what came out."""
    start = time.perf_counter()
    row = lakebed.open_table(spark, path).read(columns=COLUMNS).selectExpr(*SCAN).collect()[0]
    return round(time.perf_counter() - start, 3), [str(value) for value in row]


def timed_stream(path: str) -> tuple[float, list[str]]:
    """Do the same without Spark, batch by batch."""
    start = time.perf_counter()
    amount, ts, balance, count = 0, 0, 0.0, 0
    for batch in lakebed.open_table(None, path).read(columns=COLUMNS):
        amount += pc.sum(batch["amount"]).as_py()
        ts = max(ts, pc.max(batch["ts"]).as_py())
        balance = max(balance, pc.max(batch["balance"]).as_py())
        count += batch.num_rows
    return round(time.perf_counter() - start, 3), [str(v) for v in (amount, ts, balance, count)]


def after_upserts(spark, table: str, updates: str) -> dict[str, object]:
    """Upsert every folder of `updates`, in order, then scan."""
    upserts = []
    for number in sorted(os.listdir(updates), key=int):
        rows = spark.read.parquet(os.path.join(updates, number))
        upserts.append(timed_upsert(spark, rows, table))
    logs = list(pathlib.Path(table).glob(".*.log.*"))
    scans = [timed_scan(spark, table) for _ in range(4)]
    streams = [timed_stream(table) for _ in range(4)]
    if scans[0][1] != streams[0][1]:
        raise SystemExit(f"Spark scanned {scans[0][1]}, the process alone {streams[0][1]}")
    return {
        "upserts": upserts,
        "log_files": len(logs),
        "log_bytes": sum(log.stat().st_size for log in logs),
        "scans": [taken for taken, _ in scans],
        "streams": [taken for taken, _ in streams],
        "scanned": scans[0][1],
    }


def main() -> None:
    """Warm up, write the ledger `--runs` times, count what the last table holds, upsert and scan."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("ledger")
    parser.add_argument("updates", nargs="?")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--buckets", type=int, default=4)
    parser.add_argument("--keep", help="leave the table with its upserts here")
    args = parser.parse_args()
    result = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    with tempfile.TemporaryDirectory(prefix="lakebed-bench-") as scratch:
        spark = lakebed.local_session(2, conf={"spark.driver.memory": "4g"})
        rows = spark.read.parquet(args.ledger)
        count = rows.count()
        warm = os.path.join(scratch, "warm")
        timed_write(spark, rows.limit(WARM_UP_ROWS), warm, args.buckets)
        timed_write(spark, rows.where("id % 8 = 0"), warm, args.buckets)
        table = os.path.join(scratch, "ledger")
        seconds = []
        with WorkerMemory() as memory:
            for _ in range(args.runs):
                taken, commit = timed_write(spark, rows, table, args.buckets)
                seconds.append(taken)
        held = lakebed.open_table(spark, table).read().count()
        if held != count:
            raise SystemExit(f"Lakebed's table holds {held} rows, the ledger {count}")
        more = after_upserts(spark, table, args.updates) if args.updates else {}
        spark.stop()
        if args.keep:
            shutil.copytree(table, args.keep)
        answer = {
            "engine": "lakebed",
            "rows": count,
            "buckets": args.buckets,
            "seconds": seconds,
            "best": min(seconds),
            "files": len(commit.write_stats),
            "bytes": commit.size_bytes,
            "worker_peak_bytes": memory.peak_bytes,
            **more,
        }
        print(json.dumps(answer), file=result, flush=True)


if __name__ == "__main__":
    main()
