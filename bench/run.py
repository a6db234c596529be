"""Run every benchmark in one go and write the figures to docs/benchmarks.md.

    make bench
    .venv/bin/python bench/run.py --rows 2000000 --runs 3

Absolute seconds belong to the machine; the ratios within one run are what counts. Lakebed and
Hudi take turns, Lakebed first and last, so that neither has the quieter machine to itself.
"""

import argparse
import json
import os
import pathlib
import platform
import subprocess
import sys
import tempfile

import pyarrow as pa
from ledger import write_ledger

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
REPORT = ROOT / "docs" / "benchmarks.md"
HUDI_PYTHON = os.environ.get("LAKEBED_HUDI_PYTHON", str(ROOT / ".venv-hudi" / "bin" / "python"))
WANTED_RATIO = 2.5
GOAL_RATIO = 3.0
WORKER_LIMIT_BYTES = 600_000_000
OPEN_LIMIT = 3.0


def measure(python: str, script: str, *arguments: str) -> dict:
    """Run one peer and give its JSON."""
    print(f"running {script} {' '.join(arguments)} ...", flush=True)
    environment = {key: value for key, value in os.environ.items() if key != "PYSPARK_PYTHON"}
    environment["PYSPARK_PYTHON"] = environment["PYSPARK_DRIVER_PYTHON"] = python
    done = subprocess.run(
        [python, str(HERE / script), *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(f"{script} failed:\n{done.stderr[-4000:]}")
    answer = json.loads(done.stdout.strip().splitlines()[-1])
    print(f"  {answer}", flush=True)
    return answer


def bars(rows: list[tuple[str, float]]) -> str:
    """Draw seconds as bars."""
    longest = max(seconds for _, seconds in rows)
    return "\n".join(
        f"{name:<28} {'█' * max(1, round(40 * seconds / longest)):<40} {seconds:6.2f} s"
        for name, seconds in rows
    )


def report(rows: int, ours: list[dict], hudi: dict, tuned: dict, double: dict, opened: dict) -> str:
    """Spell the figures."""
    best = min(run["best"] for run in ours)
    peak, peak_double = (
        max(run["worker_peak_bytes"] for run in ours) / 2**20,
        double["worker_peak_bytes"] / 2**20,
    )
    ratio = hudi["best"] / best
    return f"""# Benchmarks

`make bench` makes the data, runs everything below in one go, and writes this page. Seconds belong to the machine they were
measured on; the ratios are what counts. Machine: {os.cpu_count()} cores, {platform.system()} {platform.machine()}, Python
{platform.python_version()}, pyarrow {pa.__version__}.

## bulk_insert

The loan ledger: {rows:,} rows × 12 columns, key `user_id, id`, in random order, from Parquet into a new MERGE_ON_READ table of 4
buckets, meta columns and commit included; `local[2]`, warm, best of several runs. Hudi 1.2.0 runs with the same bucket index, once
as it comes and once tuned for speed (no metadata table, the smallest bloom filter, zstd as ours). Our files are sorted by key;
Hudi's are not.

```
{bars([("Lakebed", best), ("Hudi 1.2.0 as it comes", hudi["best"]), ("Hudi 1.2.0 tuned", tuned["best"])])}
```

| | best | all runs | files | size |
|---|---|---|---|---|
| Lakebed | {best:.2f} s | {", ".join(str(s) for run in ours for s in run["seconds"])} | {ours[0]["files"]} | {ours[0]["bytes"] / 1e6:.1f} MB |
| Hudi as it comes | {hudi["best"]:.2f} s | {", ".join(map(str, hudi["seconds"]))} | {hudi["files"]} | {hudi["bytes"] / 1e6:.1f} MB |
| Hudi tuned | {tuned["best"]:.2f} s | {", ".join(map(str, tuned["seconds"]))} | {tuned["files"]} | {tuned["bytes"] / 1e6:.1f} MB |

**{ratio:.2f} times as fast as Hudi as it comes** (wanted: {WANTED_RATIO}, goal: {GOAL_RATIO}), {tuned["best"] / best:.2f} times as fast as
Hudi tuned. About half of our time is Spark handing the rows to Python.

## Memory of a Python worker

Peak resident memory of any worker during those writes, shared pages included (limit: {WORKER_LIMIT_BYTES / 1e6:.0f} MB):

| rows | peak |
|---|---|
| {rows:,} | {peak:.0f} MiB |
| {2 * rows:,} | {peak_double:.0f} MiB ({100 * (peak_double / peak - 1):+.0f} %) |

## Opening a table of {opened["instants"]:,} instants

Properties, timeline and schema: {opened["open_ms"]} ms, against {opened["floor_ms"]} ms for listing the timeline and parsing every name:
**{opened["ratio"]} times** (limit: {OPEN_LIMIT:.0f}).
"""


def main() -> None:
    """Make the data, run the peers in turns, write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--runs", type=int, default=3)
    args = parser.parse_args()
    runs = str(args.runs)
    with tempfile.TemporaryDirectory(prefix="lakebed-bench-") as scratch:
        ledger, larger = os.path.join(scratch, "ledger"), os.path.join(scratch, "larger")
        write_ledger(pathlib.Path(ledger), args.rows, 8)
        write_ledger(pathlib.Path(larger), 2 * args.rows, 16)
        first = measure(sys.executable, "lakebed_peer.py", ledger, "--runs", runs)
        hudi = measure(HUDI_PYTHON, "hudi_peer.py", ledger, "--runs", runs)
        tuned = measure(HUDI_PYTHON, "hudi_peer.py", ledger, "--runs", runs, "--codec", "zstd")
        last = measure(sys.executable, "lakebed_peer.py", ledger, "--runs", runs)
        double = measure(sys.executable, "lakebed_peer.py", larger, "--runs", "1")
        opened = measure(sys.executable, "open_table.py")
    text = report(args.rows, [first, last], hudi, tuned, double, opened)
    REPORT.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
