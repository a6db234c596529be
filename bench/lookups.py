"""Drive a table with lookups at fixed rates, by key and by the value of an indexed column.

    .venv/bin/python bench/lookups.py TABLE --rows 2000000 --make            make the table first
    .venv/bin/python bench/lookups.py TABLE --rows 2000000                   1, 10, 30 a second, and as many as it holds
    .venv/bin/python bench/lookups.py TABLE --rows 2000000 --sparse          tables with other sparse indexes

Prints one JSON object. The table is that of `lookup.py` (the ledger, then 8 uncompacted upserts, 4 file
groups) with an index on `id`, which is unique and only a part of the key. A query counts from the moment
at which it was due, not from the moment at which a thread was free for it: a driver that waits for slow
answers would hide them. Bytes are those that an object store would be asked for.
"""

import argparse
import json
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import lookup
import numpy as np
import pyarrow as pa
from counting import open_counted
from ledger import SCHEMA, ledger_rows, shuffled, update_rows

import lakebed

RATES = (1, 10, 30)
INDEX = "by_id"
THREADS = 4
SPARSE_ROWS = (1_024, 4_096, 16_384)
WARM = 50

Query = dict[str, int]


def make(path: str, rows: int, batch: int, sparse_rows: int | None = None) -> None:
    """Make the table, with the index from the start, so that every write keeps it."""

    def chunks():
        for start in range(0, rows, lookup.CHUNK_ROWS):
            numbers = np.arange(start, min(rows, start + lookup.CHUNK_ROWS))
            yield from ledger_rows(shuffled(numbers, rows, 0), rows).to_batches()

    properties = {} if sparse_rows is None else {"lakebed.sparse.index.rows": str(sparse_rows)}
    table = lakebed.create_table(
        None, path, SCHEMA, key=lookup.KEY, ordering="ts", buckets=4, properties=properties
    )
    table.create_index(INDEX, ["id"])
    table.bulk_insert(pa.RecordBatchReader.from_batches(SCHEMA, chunks()))
    for number in range(1, lookup.UPSERTS + 1):
        table.upsert(update_rows(rows, number, batch))


def queries(rows: int, count: int) -> dict[str, list[Query]]:
    """Return random rows of the ledger, by key and by the indexed column."""
    keys = lookup.random_keys(rows, count)
    return {"key": keys, "value": [{"id": key["id"]} for key in keys]}


def at_rate(ask: Callable[[Query], None], asked: Sequence[Query], rate: float) -> list[float]:
    """Start queries at a fixed rate, whether or not earlier ones have ended; return milliseconds."""
    taken: list[float] = []
    begin = time.perf_counter() + 0.1

    def one(number: int, query: Query) -> None:
        due = begin + number / rate
        time.sleep(max(0.0, due - time.perf_counter()))
        ask(query)
        taken.append(1000 * (time.perf_counter() - due))

    with ThreadPoolExecutor(THREADS) as pool:
        for done in [pool.submit(one, number, query) for number, query in enumerate(asked)]:
            done.result()
    return taken


def at_most(
    ask: Callable[[Query], None], asked: Sequence[Query], threads: int
) -> dict[str, object]:
    """Ask from each thread, one query after the other; return the rate that this reaches."""
    taken: list[float] = []
    left = iter(list(asked))
    lock = threading.Lock()

    def work() -> None:
        while True:
            with lock:
                query = next(left, None)
            if query is None:
                return
            start = time.perf_counter()
            ask(query)
            taken.append(1000 * (time.perf_counter() - start))

    start = time.perf_counter()
    with ThreadPoolExecutor(threads) as pool:
        for done in [pool.submit(work) for _ in range(threads)]:
            done.result()
    rate = len(asked) / (time.perf_counter() - start)
    return {"rate": round(rate, 1), "threads": threads, "ms": lookup.percentiles(taken)}


def checked(table: lakebed.Table) -> Callable[[Query], None]:
    """Return a function that looks one row up and stops the run if it is not found."""

    def ask(query: Query) -> None:
        found = table.lookup([query])
        if found.num_rows != 1:
            raise SystemExit(f"{query}: expected 1 row, found {found.num_rows}")

    return ask


def load(path: str, rows: int, seconds: float) -> dict[str, object]:
    """Look rows up at each rate, and at the most that one and two threads reach."""
    answer: dict[str, object] = {}
    for by, asked in queries(rows, int(max(RATES) * seconds) + 1_000).items():
        table = lakebed.open_table(None, path)
        ask = checked(table)
        for query in asked[-WARM:]:
            ask(query)
        figures: dict[str, object] = {}
        for rate in RATES:
            count = max(5, int(rate * seconds))
            figures[str(rate)] = lookup.percentiles(at_rate(ask, asked[:count], rate))
        figures["most"] = [at_most(ask, asked[:500], threads) for threads in (1, 2)]
        counted, storage = open_counted(path)
        counted.lookup(asked[:20])
        figures["asked"] = lookup.asked(lambda: (counted, storage), asked[20:60])  # noqa: B023
        answer[by] = figures
    return answer


def sparse(path: str, rows: int, batch: int) -> dict[str, object]:
    """Compare sparse indexes of several densities: time and size of the files, lookups by key."""
    answer: dict[str, object] = {}
    keys = queries(rows, 300)["key"]
    for each in SPARSE_ROWS:
        at = f"{path}-{each}"
        start = time.perf_counter()
        make(at, rows, batch, each)
        made = time.perf_counter() - start
        table = lakebed.open_table(None, at)
        lookup.timed(table, keys[:WARM])
        taken, _ = lookup.timed(table, keys)
        start = time.process_time()
        count = sum(batch.num_rows for batch in table.read())
        answer[str(each)] = {
            "make_seconds": round(made, 2),
            "bytes": sum(table.files()["size_bytes"].to_pylist()),
            "ms": lookup.percentiles(taken),
            "scan_cpu_seconds": round(time.process_time() - start, 2),
            "rows": count,
        }
    return answer


def main() -> None:
    """Do what the options say."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("table")
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--batch", type=int, default=125_000)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--make", action="store_true")
    parser.add_argument("--sparse", action="store_true")
    args = parser.parse_args()
    if args.make:
        start = time.perf_counter()
        make(args.table, args.rows, args.batch)
        print(json.dumps({"seconds": round(time.perf_counter() - start, 1)}))
    elif args.sparse:
        print(json.dumps(sparse(args.table, args.rows, args.batch)))
    else:
        print(json.dumps(load(args.table, args.rows, args.seconds)))


if __name__ == "__main__":
    main()
