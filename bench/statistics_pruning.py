"""Time a selective read of a table of many partitions, with and without column statistics.

    .venv/bin/python bench/statistics_pruning.py --partitions 2000            in process
    .venv/bin/python bench/statistics_pruning.py --partitions 2000 --spark    through Spark too

Prints one JSON object. One bulk_insert writes the table, with two buckets for each partition and 40 rows in
each; the amounts rise with the days, so that the predicate matches one row in a hundred. Every read opens
the table anew. Reads with and without the statistics take turns; for those without, the folder is renamed.
"""

import argparse
import json
import os
import pathlib
import statistics
import tempfile
import time

import numpy as np
import pyarrow as pa
from counting import open_counted

import lakebed
from lakebed.table.files.column_statistics import STATISTICS_FOLDER

ROWS = 80
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("day", pa.string()),
        ("amount", pa.float64()),
        ("name", pa.string()),
        ("qty", pa.int32()),
        *((f"c{n}", pa.int64()) for n in range(7)),
    ]
)


def make(path: str, partitions: int) -> float:
    """Write the table; return the seconds that it took."""
    count = partitions * ROWS
    ids = np.arange(count)
    columns = {
        "id": ids,
        "day": [f"d{one // ROWS:05d}" for one in ids.tolist()],
        "amount": ids * 0.25,
        "name": [f"name of {one}" for one in ids.tolist()],
        "qty": (ids % 100).astype(np.int32),
        **{f"c{n}": ids * n for n in range(7)},
    }
    table = lakebed.create_table(None, path, SCHEMA, key="id", partition_by="day", buckets=2)
    start = time.perf_counter()
    table.bulk_insert(pa.table(columns, SCHEMA))
    return time.perf_counter() - start


def in_process(path: str, where: str) -> dict[str, float]:
    """Read in process; then once more, counting requests of data."""
    start = time.perf_counter()
    rows = lakebed.open_table(None, path).read(where=where).read_all().num_rows
    took = time.perf_counter() - start
    table, storage = open_counted(path)
    assert table.read(where=where).read_all().num_rows == rows
    count = storage.count
    return {"ms": took * 1e3, "requests": count.requests, "kib": count.size_bytes / 1024}


def through_spark(session: object, path: str, where: str) -> dict[str, float]:
    """Read through Spark."""
    start = time.perf_counter()
    lakebed.open_table(session, path).read(where=where).toArrow()
    return {"ms": (time.perf_counter() - start) * 1e3}


def main() -> None:
    """Do what the options say."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--partitions", type=int, default=2_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--spark", action="store_true")
    args = parser.parse_args()
    session = lakebed.local_session(cores=2) if args.spark else None
    with tempfile.TemporaryDirectory() as scratch:
        path = os.path.join(scratch, "t")
        written = make(path, args.partitions)
        folder = pathlib.Path(path, STATISTICS_FOLDER)
        size = sum(file.stat().st_size for file in folder.iterdir())
        where = f"amount > {args.partitions * ROWS * 0.25 * 0.99}"
        found: dict[str, list[dict[str, float]]] = {}
        for number in range(args.rounds + 1):
            for name in ("with", "without"):
                if name == "without":
                    folder.rename(folder.with_suffix(".away"))
                reads = {"in_process": in_process(path, where)}
                if session is not None:
                    reads["spark"] = through_spark(session, path, where)
                if name == "without":
                    folder.with_suffix(".away").rename(folder)
                if number:  # the first round warms up
                    for engine, told in reads.items():
                        found.setdefault(f"{engine} {name}", []).append(told)
        medians = {
            name: {key: round(statistics.median(one[key] for one in of), 1) for key in of[0]}
            for name, of in found.items()
        }
        print(
            json.dumps(
                {"partitions": args.partitions, "write_s": written, "run_bytes": size, **medians}
            )
        )


if __name__ == "__main__":
    main()
