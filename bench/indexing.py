"""Time secondary indexes of Lakebed: building one, and upserts with none, one and three.

    .venv/bin/python bench/indexing.py LEDGER UPDATES --runs 3

Prints one JSON object. The table is the ledger in 4 buckets. An index is built on the rows of the first
load, in this process and by a Spark session, and dropped again. Upserts take turns between three copies of
the table, without and with indexes, so that none has the quieter machine to itself; so do queries for one
value through Spark.
"""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import tempfile
import time

import pyarrow.dataset as ds
import pyarrow.parquet as pq
from ledger import SCHEMA

import lakebed

KEY = ("user_id", "id")
INDEXES = {"by_id": ["id"], "by_loan": ["loan_id"], "by_due": ["due", "status"]}


def load(path: str, ledger: str) -> lakebed.Table:
    """Make the table and load the ledger."""
    table = lakebed.create_table(None, path, SCHEMA, key=KEY, ordering="ts", buckets=4)
    table.bulk_insert(ds.dataset(ledger).scanner().to_reader())
    return table


def timed_build(table: lakebed.Table, name: str) -> float:
    """Build an index and drop it again; return the seconds of the build."""
    start = time.perf_counter()
    table.create_index(name, INDEXES[name])
    taken = time.perf_counter() - start
    table.drop_index(name)
    return round(taken, 3)


def queries(spark: object, folder: str, runs: int) -> dict[str, dict[str, object]]:
    """Time a query for one value through Spark, on the tables without and with the index."""
    found: dict[str, dict[str, object]] = {}
    tables = {n: lakebed.open_table(spark, os.path.join(folder, str(n))) for n in (0, 3)}
    values = tables[0].read(columns=["loan_id"]).limit(runs + 1).collect()
    seconds: dict[int, list[float]] = {n: [] for n in tables}
    answers: dict[int, list[object]] = {n: [] for n in tables}
    for number, row in enumerate(values):
        where = f"loan_id = {row[0]}"
        for count, table in tables.items():
            start = time.perf_counter()
            answers[count].append(sorted(map(tuple, table.read(where=where).collect())))
            if number:  # the first call warms up
                seconds[count].append(round(time.perf_counter() - start, 3))
    assert answers[0] == answers[3]
    for count, table in tables.items():
        read = table.explain(where=f"loan_id = {values[0][0]}").size_bytes.read
        found[str(count)] = {"seconds": seconds[count], "bytes": read}
    return found


def main() -> None:
    """Do what the options say."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("ledger")
    parser.add_argument("updates")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--no-spark", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        first = load(os.path.join(folder, "0"), args.ledger)
        answer: dict[str, object] = {
            "build_in_process": [timed_build(first, "by_loan") for _ in range(args.runs)]
        }
        for count in (1, 3):
            shutil.copytree(os.path.join(folder, "0"), os.path.join(folder, str(count)))
            table = lakebed.open_table(None, os.path.join(folder, str(count)))
            for name in list(INDEXES)[:count]:
                table.create_index(name, INDEXES[name])
        tables = {n: lakebed.open_table(None, os.path.join(folder, str(n))) for n in (0, 1, 3)}
        clocks = {"upserts": time.perf_counter, "upserts_cpu": time.process_time}
        seconds = {kind: {n: list[float]() for n in tables} for kind in clocks}
        for number in sorted(os.listdir(args.updates), key=int):
            rows = pq.read_table(pathlib.Path(args.updates) / number)
            for count, table in tables.items():
                start = {kind: clock() for kind, clock in clocks.items()}
                table.upsert(rows)
                for kind, clock in clocks.items():
                    seconds[kind][count].append(round(clock() - start[kind], 3))
        for kind, of in seconds.items():
            answer[kind] = {str(n): taken for n, taken in of.items()}
            middle = {n: statistics.median(taken) for n, taken in of.items()}
            answer[f"{kind}_ratio"] = {str(n): round(middle[n] / middle[0], 2) for n in (1, 3)}
        answer["shares"] = [
            {"index": found.name, "entries": found.entries, "bytes": found.size_bytes}
            for found in tables[3].indexes()
        ]
        if not args.no_spark:
            spark = lakebed.local_session()
            on_spark = lakebed.open_table(spark, os.path.join(folder, "0"))
            answer["build_on_spark"] = [timed_build(on_spark, "by_loan") for _ in range(args.runs)]
            answer["queries"] = queries(spark, folder, args.runs)
        print(json.dumps(answer))


if __name__ == "__main__":
    main()
