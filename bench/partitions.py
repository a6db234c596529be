"""Time lookups and small upserts in a table of few and in one of very many partitions.

    .venv/bin/python bench/partitions.py --partitions 100 5000

Prints one JSON object. Both tables have two buckets for each partition, 20 rows in each, a secondary
index, and two uncompacted upserts. A lookup names the key and its partition, or the value of the indexed
column alone. The tables take turns, so that neither has the quieter machine to itself. Each lookup is
timed with a table object that has been used; each upsert opens the table anew.
"""

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import pyarrow as pa

import lakebed

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("day", pa.string()),
        ("ts", pa.int64()),
        ("email", pa.string()),
        ("amount", pa.float64()),
    ]
)
ROWS = 40
BUCKETS = 2
WARM = 20


def rows_of(ids: np.ndarray, partitions: int, ts: int) -> pa.Table:
    """Make the rows of some ids; an id tells its partition."""
    return pa.table(
        {
            "id": ids,
            "day": [f"d{one % partitions:05d}" for one in ids.tolist()],
            "ts": np.full(len(ids), ts),
            "email": [f"user{one}@example.com" for one in ids.tolist()],
            "amount": ids * 0.5,
        },
        SCHEMA,
    )


def make(path: str, partitions: int) -> None:
    """Make the table."""
    table = lakebed.create_table(
        None, path, SCHEMA, key="id", ordering="ts", partition_by="day", buckets=BUCKETS
    )
    table.bulk_insert(rows_of(np.arange(partitions * ROWS), partitions, 1))
    table.create_index("by_email", ["email"])
    for ts in (2, 3):
        table.upsert(rows_of(np.arange(10) * 37 % (partitions * ROWS), partitions, ts))


def upsert(path: str, rows: pa.Table) -> None:
    """Open the table and upsert the rows."""
    lakebed.open_table(None, path).upsert(rows)


def timed(work: Callable[[], object]) -> dict[str, float]:
    """Return the milliseconds that one call takes, and those of the processor."""
    clocks = {"ms": time.perf_counter, "cpu": time.process_time}
    start = {kind: clock() for kind, clock in clocks.items()}
    work()
    return {kind: (clock() - start[kind]) * 1e3 for kind, clock in clocks.items()}


def main() -> None:
    """Do what the options say."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--partitions", type=int, nargs="+", default=[100, 5_000])
    parser.add_argument("--lookups", type=int, default=200)
    parser.add_argument("--upserts", type=int, default=10)
    args = parser.parse_args()
    rng = np.random.default_rng(1)
    with tempfile.TemporaryDirectory() as folder:
        paths = {count: os.path.join(folder, str(count)) for count in args.partitions}
        for count, path in paths.items():
            make(path, count)
        tables = {count: lakebed.open_table(None, path) for count, path in paths.items()}
        found: dict[int, dict[str, list[dict[str, float]]]] = {
            count: {"key": [], "value": [], "upsert": []} for count in paths
        }
        for number in range(args.lookups):
            for count, table in tables.items():
                # Two rows, or the second lookup would find the partition of the first in memory.
                one, other = rng.integers(0, count * ROWS, 2).tolist()
                key = {"id": one, "day": f"d{one % count:05d}"}
                value = {"email": f"user{other}@example.com"}
                for work, wanted in (("key", key), ("value", value)):
                    taken = timed(partial(table.lookup, [wanted]))
                    if number >= WARM:
                        found[count][work].append(taken)
        for number in range(args.upserts + 1):
            for count, path in paths.items():
                ids = rng.choice(count * ROWS, 10, replace=False)
                rows = rows_of(ids, count, 10 + number)
                taken = timed(partial(upsert, path, rows))
                if number:
                    found[count]["upsert"].append(taken)
        answer = {
            str(count): {
                work: {
                    kind: {
                        "p50": round(statistics.median(one[kind] for one in taken), 2),
                        "p99": round(float(np.quantile([one[kind] for one in taken], 0.99)), 2),
                    }
                    for kind in ("ms", "cpu")
                }
                for work, taken in of.items()
            }
            | {"file_groups": count * BUCKETS}
            for count, of in found.items()
        }
        print(json.dumps(answer))


if __name__ == "__main__":
    main()
