"""Measure the peak memory of a merge of 9 runs, streamed: a base file and 8 logs of one file group.

    .venv/bin/python bench/memory.py TABLE --rows 1000000 --make    make the table first
    .venv/bin/python bench/memory.py TABLE --warm SMALL_TABLE       read it, all columns
    .venv/bin/python bench/memory.py TABLE --warm SMALL_TABLE --rewrite    and write one new file

Prints one JSON object. `--rows` is the sum over the runs, which are equally long and hold nearly the
same keys. Reading is in process, from `read` on; a small table is read before, so that code and
kernels are loaded. The kernel's own record of the peak is set back then.

What an allocator keeps differs from process to process, so `--repeat` fresh processes read the
table one after the other. The answer is that of the middle one; `all_bytes` has every one of them.
`arrow_bytes` is what Arrow had in use at its peak, the rest is what allocators keep beside it.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import time
from dataclasses import replace

import numpy as np
import pyarrow as pa
from ledger import SCHEMA, ledger_rows, shuffled, update_rows

import lakebed
from lakebed.engine.engine import open_stream, stage_stream
from lakebed.format.names.meta_columns import RECORD_KEY
from lakebed.model.clock import SystemClock
from lakebed.model.executor import LocalExecutor
from lakebed.storage.local import LocalStorage
from lakebed.table.config.properties_file import load_config
from lakebed.table.snapshot import CommitCache
from lakebed.table.store.data_writer import DataFileWriter, NewDataFile
from lakebed.timeline.active import ActiveTimeline
from lakebed.write.pipeline import Source, WriteTarget, execute_write
from lakebed.write.spec.operation import UPSERT

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


def rewrite(path: str) -> int:
    """Read as `read` does, and write the rows as one base file; give the number of rows."""
    columns = [RECORD_KEY, *SCHEMA.names]
    with tempfile.TemporaryDirectory(prefix="lakebed-bench-") as scratch:
        stream = LocalStorage(scratch).open_write("rewritten.parquet")
        with DataFileWriter(
            stream, NewDataFile("rewritten.parquet", SCHEMA, "ledger", "20260101000000000")
        ) as writer:
            for batch in lakebed.open_table(None, path).read(columns=columns):
                writer.write(batch.select(SCHEMA.names), batch.column(RECORD_KEY))
            return writer.close().rows


def measure(table: str, warm: str | None, *, rewrites: bool) -> dict[str, object]:
    """Read `table` in this process, and give what that took."""
    work = rewrite if rewrites else read
    if warm:
        work(warm)
    pathlib.Path("/proc/self/clear_refs").write_text("5")  # VmHWM starts from here
    base = memory("VmRSS")
    start = time.perf_counter()
    rows = work(table)
    taken = time.perf_counter() - start
    peak = memory("VmHWM")
    files = lakebed.open_table(None, table).files().num_rows
    if files != RUNS:
        raise SystemExit(f"{table} has {files} files, want {RUNS}")
    return {
        "rows": rows,
        "seconds": round(taken, 2),
        "base_bytes": base,
        "peak_bytes": peak,
        "merge_bytes": peak - base,
        "arrow_bytes": pa.default_memory_pool().max_memory(),
    }


def middle_of(repeat: int, arguments: list[str]) -> dict[str, object]:
    """Measure in `repeat` fresh processes; give the one with the middle peak."""
    command = [sys.executable, __file__, *arguments, "--repeat", "1"]
    answers = [
        json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        for _ in range(repeat)
    ]
    answers.sort(key=lambda answer: answer["merge_bytes"])
    every = [answer["merge_bytes"] for answer in answers]
    return answers[len(answers) // 2] | {"all_bytes": every}


def main() -> None:
    """Make a table, or read one."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("table")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--make", action="store_true")
    parser.add_argument("--warm")
    parser.add_argument("--rewrite", action="store_true")
    parser.add_argument("--repeat", type=int, default=5, help="fresh processes; 1 is this one")
    args = parser.parse_args()
    if args.make:
        start = time.perf_counter()
        make(args.table, args.rows)
        print(json.dumps({"seconds": round(time.perf_counter() - start, 2)}))
        return
    if args.repeat > 1:
        print(json.dumps(middle_of(args.repeat, sys.argv[1:])))
        return
    print(json.dumps(measure(args.table, args.warm, rewrites=args.rewrite)))


if __name__ == "__main__":
    main()
