"""Measure a wide table with column groups beside the same table without, and a table of a few columns.

    .venv/bin/python bench/column_groups.py
    .venv/bin/python bench/column_groups.py --rows 50000 --runs 2          a small try
    .venv/bin/python bench/column_groups.py --rows 100000 --input FOLDER   rows for partial_updates_peer.py

Prints one JSON object. All tables are of version 10, in process, in 4 buckets: 200 columns in 5 groups of
40, the same 200 columns without groups, and 3 of them alone. Each step is done to each table in turn, so
that none has the quieter machine to itself; the rows are made before the clock starts. Each ratio is of
medians, of the time and of the CPU time of all threads, which other work on the machine disturbs less.
"""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import lakebed

COLUMNS = 200
GROUPS = 5
FEW = 3
CHUNK = 20_000
SCANS = 5
T = TypeVar("T")
NAMES = [f"c{number:03d}" for number in range(COLUMNS)]


def field(number: int) -> pa.Field:
    """Return a column: numbers, with a short string in every fourth."""
    return pa.field(NAMES[number], pa.string() if number % 4 == 3 else pa.float64())


FIELDS = [field(number) for number in range(COLUMNS)]
SCHEMA = pa.schema([("id", pa.int64()), ("ts", pa.int64()), *FIELDS])
BY_GROUP = {f"g{g}": NAMES[g * 40 : (g + 1) * 40] for g in range(1, GROUPS)}
CHANGED = NAMES[40 : 40 + FEW]


def batch(ids: np.ndarray, ts: int, names: list[str]) -> pa.RecordBatch:
    """Return rows with these ids and columns."""
    rng = np.random.default_rng([ts, int(ids[0])])
    arrays = [pa.array(ids), pa.array(np.full(len(ids), ts))]
    for name in names:
        values = rng.integers(0, 5_000, len(ids))
        texts = SCHEMA.field(name).type == pa.string()
        arrays.append(pa.array(values).cast(pa.string()) if texts else pa.array(values / 8))
    return pa.RecordBatch.from_arrays(arrays, names=["id", "ts", *names])


def given(rows: int, ts: int, names: list[str], every: int = 1) -> pa.Table:
    """Return rows in no order of keys; with `every`, only every so many-th key."""
    order = np.random.default_rng(0).permutation(rows)[::every]
    starts = range(0, len(order), CHUNK)
    return pa.Table.from_batches([batch(order[at : at + CHUNK], ts, names) for at in starts])


def create(path: str, names: list[str], groups: dict[str, list[str]]) -> lakebed.Table:
    """Create a table with some of the columns."""
    shutil.rmtree(path, ignore_errors=True)
    schema = pa.schema([SCHEMA.field(name) for name in ("id", "ts", *names)])
    properties = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}
    return lakebed.create_table(
        None,
        path,
        schema,
        key="id",
        ordering="ts",
        buckets=4,
        table_version=10,
        column_groups=groups,
        properties=properties,
    )


def scan(table: lakebed.Table, columns: list[str] | None) -> int:
    """Read and count rows."""
    return sum(batch.num_rows for batch in table.read(columns=columns))


def write_input(folder: pathlib.Path, rows: int, runs: int) -> None:
    """Write the rows, and updates of a few and of all columns, as Parquet for other engines."""

    def put(place: pathlib.Path, table: pa.Table) -> None:
        place.mkdir(parents=True)
        pq.write_table(table, place / "rows.parquet")

    put(folder / "whole", given(rows, 1, NAMES))
    for run in range(1, runs + 1):
        changed = given(rows, 1 + run, NAMES, every=10)
        put(folder / "all" / str(run), changed)
        put(folder / "few" / str(run), changed.select(["id", "ts", *CHANGED]))


def main() -> None:
    """Do what the options say."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--results", type=pathlib.Path)
    parser.add_argument("--input", type=pathlib.Path, help="only write rows for other engines")
    args = parser.parse_args()
    rows = args.rows
    if args.input:
        write_input(args.input, rows, args.runs)
        return
    found: dict[str, dict[str, list[float]]] = {}

    def note(step: str, table: str, value: float) -> None:
        found.setdefault(step, {}).setdefault(table, []).append(value)

    def measure(step: str, table: str, work: Callable[[], T]) -> T:
        start, cpu = time.perf_counter(), time.process_time()
        result = work()
        note(step, table, round(time.perf_counter() - start, 4))
        note(f"{step}, CPU", table, round(time.process_time() - cpu, 4))
        return result

    few = [*CHANGED]
    kinds = {"grouped": (NAMES, BY_GROUP), "plain": (NAMES, {}), "few": (few, {})}
    with tempfile.TemporaryDirectory(prefix="lakebed-groups-") as folder:
        tables: dict[str, lakebed.Table] = {}
        wide = given(rows, 1, NAMES)
        for _ in range(args.runs):
            for kind, (names, groups) in kinds.items():
                table = tables[kind] = create(os.path.join(folder, kind), names, groups)
                chosen = wide.select(["id", "ts", *names])
                commit = measure("write", kind, partial(table.bulk_insert, chosen))
                note("write bytes", kind, commit.size_bytes)
        del wide, chosen
        for run in range(args.runs):
            changed = given(rows, 2 + run, NAMES, every=10)
            for kind in ("grouped", "plain"):
                table = tables[kind]
                names = CHANGED if kind == "grouped" else NAMES
                update = table.update_columns if kind == "grouped" else table.upsert
                chosen = changed.select(["id", "ts", *names])
                commit = measure("update", kind, partial(update, chosen))
                note("update bytes", kind, commit.size_bytes)
            for kind in ("grouped", "plain"):
                measure("compaction", kind, tables[kind].compact)
            for _ in range(SCANS):
                for kind in ("grouped", "few"):
                    count = measure("read few", kind, partial(scan, tables[kind], few))
                    assert count == rows, (kind, count)
            for kind in ("grouped", "plain"):
                count = measure("read all", kind, partial(scan, tables[kind], None))
                assert count == rows, (kind, count)
    middle = {step: {k: statistics.median(v) for k, v in of.items()} for step, of in found.items()}

    def ratio(step: str, one: str, other: str) -> float:
        return round(middle[step][one] / middle[step][other], 2)

    ratios = {}
    for suffix in ("", ", CPU"):
        ratios |= {
            f"write full rows{suffix}": ratio(f"write{suffix}", "grouped", "plain"),
            f"update 3 columns of a tenth, times as fast{suffix}": ratio(
                f"update{suffix}", "plain", "grouped"
            ),
            f"compaction after it, times as fast{suffix}": ratio(
                f"compaction{suffix}", "plain", "grouped"
            ),
            f"read 3 columns of a group, against a table of these{suffix}": ratio(
                f"read few{suffix}", "grouped", "few"
            ),
            f"read all columns, against no groups{suffix}": ratio(
                f"read all{suffix}", "grouped", "plain"
            ),
        }
    ratios["write full rows, bytes"] = ratio("write bytes", "grouped", "plain")
    ratios["update, times fewer bytes"] = ratio("update bytes", "plain", "grouped")
    answer = {"rows": rows, "ratios": ratios, "medians": middle, "all": found}
    if args.results:
        args.results.write_text(json.dumps(answer, indent=1))
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
