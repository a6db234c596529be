"""Time Lakebed's bulk_insert of the ledger on Spark, and watch its workers' memory.

    .venv/bin/python bench/lakebed_peer.py LEDGER --runs 3

Prints one JSON object, as bench/hudi_peer.py does: `local[2]`, warm (a small write and a read of
the input come first), the same MERGE_ON_READ table of 4 buckets, meta columns and commit included.
"""

import argparse
import json
import os
import shutil
import tempfile
import threading
import time

import psutil

import lakebed

WARM_UP_ROWS = 20_000
KEY = ["user_id", "id"]


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
    return time.perf_counter() - start, commit


def main() -> None:
    """Warm up, write the ledger `--runs` times, count what the last table holds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("ledger")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--buckets", type=int, default=4)
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
                seconds.append(round(taken, 3))
        held = lakebed.open_table(spark, table).read().count()
        spark.stop()
        if held != count:
            raise SystemExit(f"Lakebed's table holds {held} rows, the ledger {count}")
        answer = {
            "engine": "lakebed",
            "operation": "bulk_insert",
            "rows": count,
            "buckets": args.buckets,
            "seconds": seconds,
            "best": min(seconds),
            "files": len(commit.write_stats),
            "bytes": commit.size_bytes,
            "worker_peak_bytes": memory.peak_bytes,
        }
        print(json.dumps(answer), file=result, flush=True)


if __name__ == "__main__":
    main()
