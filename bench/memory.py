"""Measure the peak memory of a merge of 9 runs, streamed: a base file and 8 logs of one file group.

    .venv/bin/python bench/memory.py TABLE --rows 1000000 --make    make the table first
    .venv/bin/python bench/memory.py TABLE --warm SMALL_TABLE       read it, all columns

Prints one JSON object. `--rows` is the sum over the runs, which are equally long and hold nearly the
same keys. Reading is in process, from `read` on; a small table is read before, so that code and
kernels are loaded. The kernel's own record of the peak is set back then.
"""

import argparse
import json
import pathlib
import time
from dataclasses import replace

import numpy as np
from ledger import SCHEMA, ledger_rows, shuffled, update_rows

import lakebed
from lakebed.engine.write import open_stream, stage_stream
from lakebed.model.clock import SystemClock
from lakebed.model.executor import LocalExecutor
from lakebed.storage.local import LocalStorage
from lakebed.table.properties_file import load_config
from lakebed.table.snapshot import CommitCache
from lakebed.timeline.active import ActiveTimeline
from lakebed.write.operation import UPSERT
from lakebed.write.pipeline import Source, WriteTarget, execute_write

RUNS = 9
ONE_FLUSH_BYTES = 1 << 40


def make(path: str, rows: int) -> None:
    """Make a table of one file group: a base file, then 8 upserts of as many rows, one log each."""
    table = lakebed.create_table(
        None, path, SCHEMA, key=("user_id", "id"), ordering="ts", buckets=1
    )
    each = rows // RUNS
    table.bulk_insert(ledger_rows(shuffled(np.arange(each), each, 0), each))
    for number in range(1, RUNS):
        upsert_as_one_log(path, number, each)


def upsert_as_one_log(path: str, number: int, rows: int) -> None:
    """Upsert with memory enough that all rows are one log, however many they are."""
    storage = LocalStorage(path)
    config = load_config(storage)
    stream = open_stream(update_rows(rows, number, rows))
    source = Source(
        SCHEMA, lambda spec, _: stage_stream(stream, replace(spec, memory_bytes=ONE_FLUSH_BYTES))
    )
    commits = CommitCache(ActiveTimeline(storage, config.timeline_path))
    target = WriteTarget(storage, config, SystemClock(), commits, LocalExecutor())
    execute_write(target, UPSERT, source, None)


def memory(name: str) -> int:
    """Give the bytes that the operating system has under `name` for this process."""
    for line in pathlib.Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return 1024 * int(line.split()[1])
    raise SystemExit(f"/proc/self/status has no {name}")


def read(path: str) -> int:
    """Read every column of every row, one batch at a time; give the number of rows."""
    return sum(batch.num_rows for batch in lakebed.open_table(None, path).read())


def main() -> None:
    """Make a table, or read one."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("table")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--make", action="store_true")
    parser.add_argument("--warm")
    args = parser.parse_args()
    start = time.perf_counter()
    if args.make:
        make(args.table, args.rows)
        print(json.dumps({"seconds": round(time.perf_counter() - start, 2)}))
        return
    if args.warm:
        read(args.warm)
    pathlib.Path("/proc/self/clear_refs").write_text("5")  # VmHWM starts from here
    base = memory("VmRSS")
    start = time.perf_counter()
    rows = read(args.table)
    taken = time.perf_counter() - start
    files = lakebed.open_table(None, args.table).files().num_rows
    if files != RUNS:
        raise SystemExit(f"{args.table} has {files} files, want {RUNS}")
    answer = {
        "rows": rows,
        "seconds": round(taken, 2),
        "base_bytes": base,
        "peak_bytes": memory("VmHWM"),
        "merge_bytes": memory("VmHWM") - base,
    }
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
