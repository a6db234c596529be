"""Time an ordinary daily-partitioned table on Spark against one process.

    .venv/bin/python bench/daily.py --rows 300000 --days 36

Prints one JSON object. The table has `--buckets` file groups a day, all with logs of three upserts.
Every call opens the table anew; of each the first and the best of the others are told. Both ways
are measured in one run, in turns, since the seconds themselves belong to the machine.
"""

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import lakebed

WHERE = "id = 5"


def rows_of(rng: np.random.Generator, rows: int, days: int, count: int | None, ts: int) -> pa.Table:
    """Make all rows, or `count` random ones."""
    ids = np.arange(rows) if count is None else rng.integers(0, rows, count)
    return pa.table(
        {
            "id": ids,
            "day": [f"day-{number % days:02d}" for number in ids],
            "ts": np.full(len(ids), ts),
            "v": rng.random(len(ids)),
        }
    )


def timed(calls: int, *works: Callable[[], object]) -> list[list[float]]:
    """Run each of `works` in turns; give the seconds of each."""
    seconds: list[list[float]] = [[] for _ in works]
    for _ in range(calls):
        for work, taken in zip(works, seconds, strict=True):
            start = time.perf_counter()
            work()
            taken.append(round(time.perf_counter() - start, 3))
    return seconds


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=300_000)
    parser.add_argument("--days", type=int, default=36)
    parser.add_argument("--buckets", type=int, default=4)
    parser.add_argument("--calls", type=int, default=4)
    given = parser.parse_args()
    rng = np.random.default_rng(1)
    with tempfile.TemporaryDirectory() as folder:
        path, changes = os.path.join(folder, "t"), os.path.join(folder, "changes.parquet")
        first = rows_of(rng, given.rows, given.days, None, 1)
        pq.write_table(rows_of(rng, given.rows, given.days, 3000, 9), changes)
        alone = lakebed.create_table(
            None, path, first.schema, "id", "ts", partition_by="day", buckets=given.buckets
        )
        alone.bulk_insert(first)
        for ts in (2, 3, 4):
            alone.upsert(rows_of(rng, given.rows, given.days, 3000, ts))
        start = time.perf_counter()
        spark = lakebed.local_session()
        session = round(time.perf_counter() - start, 3)
        ids = iter(range(10, 1000))

        def here() -> lakebed.Table:
            return lakebed.open_table(None, path)

        def there() -> lakebed.Table:
            return lakebed.open_table(spark, path)

        writes = timed(3, lambda: there().upsert(spark.read.parquet(changes)))[0]
        found = {
            "count": timed(
                given.calls, lambda: here().read().read_all(), lambda: there().read().count()
            ),
            "point": timed(
                given.calls,
                lambda: here().read(where=WHERE).read_all(),
                lambda: there().read(where=WHERE).collect(),
            ),
            "verify": timed(given.calls, lambda: here().verify(), lambda: there().verify()),
            "delete": timed(
                given.calls,
                lambda: here().delete(where=f"id = {next(ids)}"),
                lambda: there().delete(where=f"id = {next(ids)}"),
            ),
        }
        source = timed(given.calls, lambda: spark.read.format("lakebed").load(path).count())[0]
        files = alone.files()
        report = {
            "files": files.num_rows,
            "bytes": sum(files.column("size_bytes").to_pylist()),
            "session": session,
            "writes": writes,
            **{name: {"in process": a, "spark": b} for name, (a, b) in found.items()},
            "data source": source,
        }
        spark.stop()
    print(json.dumps(report))


if __name__ == "__main__":
    main()
