"""Run every benchmark in one go and write the figures to docs/benchmarks.md.

    make bench
    .venv/bin/python bench/run.py --rows 200000 --runs 1 --docs /tmp/docs     a small try

Absolute seconds belong to the machine; the ratios within one run are what counts. Lakebed and
Hudi take turns, Lakebed first and last, so that neither has the quieter machine to itself. The
measured values are kept in one JSON file too (`--results`), from which `--report` writes the page
again. A value that misses its target is told, and ends the run with an error.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

from ledger import write_ledger, write_updates
from lookup import HUDI_KEYS, UPSERTS, random_keys
from report import check, write_report

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
HUDI_PYTHON = os.environ.get("LAKEBED_HUDI_PYTHON", str(ROOT / ".venv-hudi" / "bin" / "python"))
WARM_ROWS = 90_000  # enough for the compiled kernel to be used
SLOW_QUERIES = 1  # of Hudi as it comes, which takes up to a minute for one


def measure(python: str, script: str, *arguments: object) -> dict:
    """Run one script and give its JSON."""
    words = [str(argument) for argument in arguments]
    print(f"running {script} {' '.join(words)} ...", flush=True)
    environment = {**os.environ, "PYSPARK_PYTHON": python, "PYSPARK_DRIVER_PYTHON": python}
    start = time.perf_counter()
    done = subprocess.run(
        [python, str(HERE / script), *words],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(f"{script} failed:\n{done.stderr[-4000:]}")
    answer = json.loads(done.stdout.strip().splitlines()[-1])
    print(f"  {time.perf_counter() - start:.0f} s: {answer}", flush=True)
    return answer


def ours(script: str, *arguments: object) -> dict:
    """Run one of our scripts."""
    return measure(sys.executable, script, *arguments)


def against_hudi(scratch: pathlib.Path, rows: int, batch: int, runs: int) -> dict:
    """Write, upsert, scan and ask, in turns with Hudi."""
    ledger, larger, updates = scratch / "ledger", scratch / "larger", scratch / "updates"
    keys, kept, theirs = scratch / "keys.json", scratch / "kept", scratch / "theirs"
    write_ledger(ledger, rows, 8)
    write_ledger(larger, 2 * rows, 16)
    write_updates(updates, rows, UPSERTS, batch)
    keys.write_text(json.dumps(random_keys(rows, HUDI_KEYS)))
    peer = (HUDI_PYTHON, "hudi_peer.py", ledger, updates, keys, "--runs")
    tuned = ("--codec", "zstd", "--memory", "6g")
    return {
        "first": ours("lakebed_peer.py", ledger, updates, "--runs", runs),
        "hudi": measure(*peer, runs, "--queries", SLOW_QUERIES, "--keep", theirs),
        "migration": ours("migration.py", theirs),
        "tuned": measure(*peer, runs, *tuned),
        "parquet_logs": measure(*peer, 1, *tuned, "--logs", "parquet", "--queries", 0),
        "last": ours("lakebed_peer.py", ledger, updates, "--runs", runs, "--keep", kept),
        "compaction": ours("compaction.py", kept),
        "double": ours("lakebed_peer.py", larger, "--runs", 1),
        "storage": ours("storage.py", ledger),
    }


def lookups(scratch: pathlib.Path, rows: int, batch: int) -> dict:
    """Find keys in a table of `rows`, and in one ten times as large with upserts of the same size."""
    found = {}
    for name, size in (("small", rows), ("large", 10 * rows)):
        table = scratch / f"lookup-{name}"
        made = ours("lookup.py", table, "--rows", size, "--batch", batch, "--make")
        found[name] = ours("lookup.py", table, "--rows", size) | {"rows": size, "made": made}
        if name == "small":
            first = [ours("lookup.py", table, "--rows", size, "--once") for _ in range(3)]
            found["first"] = min(first, key=lambda taken: taken["first_ms"])
            found["variants"] = ours("lookup.py", table, "--rows", size, "--variants")
            found["pages"] = ours("page_index.py")
            indexed = scratch / "lookup-indexed"
            ours("lookups.py", indexed, "--rows", size, "--batch", batch, "--make")
            found["load"] = ours("lookups.py", indexed, "--rows", size, "--seconds", 10)
    return found


def merges(scratch: pathlib.Path, rows: int) -> list[dict]:
    """Measure the memory of a merge of `rows` in 9 runs, and of ten times as many."""
    warm = scratch / "merge-warm"
    ours("memory.py", warm, "--rows", WARM_ROWS, "--make")
    measured = []
    for size in (rows, 10 * rows):
        table = scratch / f"merge-{size}"
        ours("memory.py", table, "--rows", size, "--make")
        measured.append({"runs_rows": size} | ours("memory.py", table, "--warm", warm))
    return measured


def main() -> None:
    """Measure everything, keep the values, write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--results", type=pathlib.Path, help="keep the measured values here")
    parser.add_argument("--docs", type=pathlib.Path, default=ROOT / "docs", help="write here")
    parser.add_argument("--report", action="store_true", help="write the page from --results only")
    args = parser.parse_args()
    if args.report:
        results = json.loads(args.results.read_text())
    else:
        batch = args.rows // 16
        with tempfile.TemporaryDirectory(prefix="lakebed-bench-") as name:
            scratch = pathlib.Path(name)
            start = time.perf_counter()
            results = {
                "rows": args.rows,
                "batch": batch,
                "kernel": ours("kernel.py", "--rows", args.rows * 3 // 2),
                "avro": ours("avro.py"),
                "sorting": ours("sorting.py", "--rows", args.rows * 3 // 2),
                "peers": against_hudi(scratch, args.rows, batch, args.runs),
                "lookup": lookups(scratch, args.rows, batch),
                "memory": merges(scratch, args.rows // 2),
                "opened": ours("open_table.py"),
                "daily": ours("daily.py"),
            }
            results["minutes"] = round((time.perf_counter() - start) / 60, 1)
        if args.results:
            args.results.write_text(json.dumps(results, indent=1))
    write_report(results, args.docs)
    missed = check(results)
    if missed:
        sys.exit("\n".join(["missed:", *missed]))


if __name__ == "__main__":
    main()
