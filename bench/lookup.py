"""Time finding one key in a table with 8 uncompacted upserts, and count the bytes that it reads.

    .venv/bin/python bench/lookup.py TABLE --rows 2000000 --make      make the table first
    .venv/bin/python bench/lookup.py TABLE --rows 2000000             random keys, a warm table object
    .venv/bin/python bench/lookup.py TABLE --rows 2000000 --once      the first key of a new process
    .venv/bin/python bench/lookup.py TABLE --rows 2000000 --variants  other ways to find it

Prints one JSON object. The table is made in process: the ledger, then 8 upserts of `--batch` rows,
each one log in each of 4 file groups. Files are in the page cache, as they are after any first read.
"""

import argparse
import dataclasses
import json
import time
from bisect import bisect_right
from collections.abc import Callable

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from counting import CountedFile, CountingStorage, open_counted
from ledger import SCHEMA, keys_of, ledger_rows, shuffled, update_rows

import lakebed
from lakebed.format.files.footer import FOOTER_ROW_GROUP_KEYS
from lakebed.format.names.bucket_hash import bucket_of_file_id, key_buckets
from lakebed.format.names.meta_columns import RECORD_KEY
from lakebed.table.read.log_reader import slice_sources
from lakebed.table.snapshot import load_snapshot

KEY = ("user_id", "id")
UPSERTS = 8
CHUNK_ROWS = 250_000
KEY_SEED = 5
HUDI_KEYS = 5


def make(path: str, rows: int, batch: int) -> None:
    """Make the table: the ledger in order of arrival, then the upserts."""

    def chunks():
        for start in range(0, rows, CHUNK_ROWS):
            numbers = np.arange(start, min(rows, start + CHUNK_ROWS))
            yield from ledger_rows(shuffled(numbers, rows, 0), rows).to_batches()

    table = lakebed.create_table(None, path, SCHEMA, key=KEY, ordering="ts", buckets=4)
    table.bulk_insert(pa.RecordBatchReader.from_batches(SCHEMA, chunks()))
    for number in range(1, UPSERTS + 1):
        table.upsert(update_rows(rows, number, batch))


def random_keys(rows: int, count: int) -> list[dict[str, int]]:
    """Give distinct keys of the ledger before its upserts."""
    return keys_of(shuffled(np.arange(count), rows, KEY_SEED), rows)


def percentiles(values: list[float]) -> dict[str, float]:
    """Give the middle and the 99th of a hundred."""
    p50, p99 = np.percentile(values, [50, 99])
    return {"p50": round(float(p50), 3), "p99": round(float(p99), 3)}


def timed(table: lakebed.Table, keys: list[dict[str, int]]) -> tuple[list[float], list[str]]:
    """Look up each key by itself; give the milliseconds and the amounts found."""
    taken, amounts = [], []
    for key in keys:
        start = time.perf_counter()
        found = table.lookup([key])
        taken.append(1000 * (time.perf_counter() - start))
        amounts.append(str(found["amount"][0].as_py()) if found.num_rows else "")
    return taken, amounts


def warm(path: str, keys: list[dict[str, int]]) -> dict[str, object]:
    """Look up `keys` one by one with a table object that has been used, then all at once."""
    table = lakebed.open_table(None, path)
    timed(table, keys[:20])
    begun = time.process_time()
    taken, amounts = timed(table, keys)
    cpu_ms = 1000 * (time.process_time() - begun) / len(keys)
    start = time.perf_counter()
    together = table.lookup(keys).num_rows
    all_ms = 1000 * (time.perf_counter() - start)
    if together != len(keys) or "" in amounts:
        raise SystemExit(f"{len(keys)} keys are there, {together} were found")
    counted, storage = open_counted(path)
    counted.lookup(keys[:20])
    return {
        "ms": percentiles(taken),
        "cpu_ms": round(cpu_ms, 2),
        "all_ms": round(all_ms, 2),
        "keys": len(keys),
        "warm": asked(lambda: (counted, storage), keys[20:]),
        "cold": asked(lambda: open_counted(path), keys[:20]),
        "files": table.files().num_rows,
        "amounts": amounts[:HUDI_KEYS],
    }


def asked(
    opened: Callable[[], tuple[lakebed.Table, CountingStorage]], keys: list[dict[str, int]]
) -> dict[str, object]:
    """Count what looking up each key by itself asks of storage."""
    sizes, requests = [], []
    for key in keys:
        table, storage = opened()
        before = storage.count.copy()
        table.lookup([key])
        sizes.append(storage.count.size_bytes - before.size_bytes)
        requests.append(storage.count.requests - before.requests)
    return {"bytes": percentiles(sizes), "requests": percentiles(requests)}


def once(path: str, key: dict[str, int]) -> dict[str, object]:
    """Open the table and look up one key, as the first thing of this process."""
    start = time.perf_counter()
    found = lakebed.open_table(None, path).lookup([key])
    taken = time.perf_counter() - start
    lived = time.time() - psutil.Process().create_time()
    assert found.num_rows == 1
    return {"first_ms": round(1000 * taken, 1), "process_ms": round(1000 * lived)}


class Slices:
    """The slices of a table by bucket, whose runs are found anew for each key, as `lookup` does."""

    def __init__(self, path: str) -> None:
        self.table, self.storage = open_counted(path)
        self._path = path
        self._snapshot = load_snapshot(self.storage, self.table.config)
        self._by_bucket = {
            bucket_of_file_id(slice_.group.file_id): slice_ for slice_ in self._snapshot.slices
        }

    def files(self, text: str) -> list[pq.ParquetFile]:
        """Open each run that can hold the key."""
        buckets = len(self._by_bucket)
        bucket = int(key_buckets(pa.array([text]), KEY, KEY, buckets, composite=True)[0])
        # The storage counts what is read.
        view = dataclasses.replace(self._snapshot.view(), storage=self.storage)
        sources = slice_sources(view, self._by_bucket[bucket])
        count = self.storage.count
        return [
            pq.ParquetFile(
                CountedFile(f"{self._path}/{run.path}", count, run.offset, run.length),
                pre_buffer=True,
            )
            for run in sources
        ]


def all_groups(file: pq.ParquetFile, text: str) -> list[int]:  # noqa: ARG001
    """Give every row group."""
    return list(range(file.num_row_groups))


def by_key_column(file: pq.ParquetFile, text: str) -> list[int]:
    """Give the row groups that hold the key, from the key column of all of them."""
    return holding(file, text, all_groups(file, text))


def by_statistics(file: pq.ParquetFile, text: str) -> list[int]:
    """Give the row groups whose statistics of the key column enclose the key."""
    column = file.schema_arrow.names.index(RECORD_KEY)
    held = []
    for group in range(file.num_row_groups):
        statistics = file.metadata.row_group(group).column(column).statistics
        if statistics is None or statistics.min <= text <= statistics.max:
            held.append(group)
    return held


def by_sparse_index(file: pq.ParquetFile, text: str) -> list[int]:
    """Give the row group in which the footer's first keys place the key."""
    firsts = json.loads(file.metadata.metadata[FOOTER_ROW_GROUP_KEYS.encode()])
    return [max(0, bisect_right(firsts, text) - 1)]


def by_sparse_index_and_key(file: pq.ParquetFile, text: str) -> list[int]:
    """Give that row group only if its key column, read alone, holds the key."""
    return holding(file, text, by_sparse_index(file, text))


def holding(file: pq.ParquetFile, text: str, groups: list[int]) -> list[int]:
    """Give those of `groups` that hold the key, of which the key column alone is read."""
    return [
        group
        for group in groups
        if pc.any(pc.equal(file.read_row_group(group, [RECORD_KEY])[RECORD_KEY], text)).as_py()
    ]


VARIANTS = {
    "the runs as a whole": all_groups,
    "the key column, then the row group": by_key_column,
    "the row group by its statistics": by_statistics,
    "the row group by the sparse index": by_sparse_index,
    "sparse index, key column, then the rest": by_sparse_index_and_key,
}


def variants(path: str, keys: list[dict[str, int]]) -> dict[str, object]:
    """Find each key by each variant, all through the same counted reads."""
    slices = Slices(path)
    answer = {}
    for name, choose in VARIANTS.items():
        taken, sizes, requests = [], [], []
        for key in keys:
            text = f"user_id:{key['user_id']},id:{key['id']}"
            before, start = slices.storage.count.copy(), time.perf_counter()
            found = 0
            for file in slices.files(text):
                groups = choose(file, text)
                if groups:
                    rows = file.read_row_groups(groups)
                    found += pc.sum(pc.equal(rows[RECORD_KEY], text)).as_py()
            taken.append(1000 * (time.perf_counter() - start))
            if not found:
                raise SystemExit(f"{name}: {text} was not found")
            sizes.append(slices.storage.count.size_bytes - before.size_bytes)
            requests.append(slices.storage.count.requests - before.requests)
        answer[name] = {
            "ms": percentiles(taken),
            "bytes": percentiles(sizes),
            "requests": percentiles(requests),
        }
    return answer


def main() -> None:
    """Do what the options say."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("table")
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--batch", type=int, default=125_000)
    parser.add_argument("--keys", type=int, default=300)
    parser.add_argument("--make", action="store_true")
    parser.add_argument("--once", action="store_true")
    parser.add_argument("--variants", action="store_true")
    args = parser.parse_args()
    if args.make:
        start = time.perf_counter()
        make(args.table, args.rows, args.batch)
        print(json.dumps({"seconds": round(time.perf_counter() - start, 1)}))
        return
    keys = random_keys(args.rows, args.keys)
    if args.once:
        print(json.dumps(once(args.table, keys[0])))
    elif args.variants:
        print(json.dumps(variants(args.table, keys[:20])))
    else:
        print(json.dumps(warm(args.table, keys)))


if __name__ == "__main__":
    main()
