"""Measure lookups and secondary indexes, beside Hudi's CREATE INDEX; write docs/index-benchmarks.md.

    .venv/bin/python bench/indexes.py
    .venv/bin/python bench/indexes.py --rows 100000 --large 200000 --seconds 2 --docs /tmp     a small try

Absolute times belong to the machine; the ratios within one run are what counts.
"""

import argparse
import json
import pathlib
import sys
import tempfile

from ledger import write_ledger, write_updates
from lookup_tables import LOAD_HEADER, SEED, both, load_rows
from report import kib, table
from run import HUDI_PYTHON, ROOT, measure, ours


def measured(scratch: pathlib.Path, args: argparse.Namespace) -> dict:
    """Run the benchmarks."""
    batch = args.rows // 16
    found: dict = {"rows": args.rows, "large": args.large, "load": {}}
    for name, rows in (("small", args.rows), ("large", args.large)):
        place = scratch / name
        ours("lookups.py", place, "--rows", rows, "--batch", batch, "--make")
        found["load"][name] = ours("lookups.py", place, "--rows", rows, "--seconds", args.seconds)
    found["sparse"] = ours(
        "lookups.py",
        scratch / "sparse",
        "--rows",
        args.rows // 8,
        "--batch",
        batch // 8,
        "--sparse",
    )
    ledger, updates, fewer = scratch / "ledger", scratch / "updates", scratch / "fewer"
    write_ledger(ledger, args.rows, 8)
    write_updates(updates, args.rows, 8, batch)
    found["indexing"] = ours("indexing.py", ledger, updates)
    found["partitions"] = ours("partitions.py", "--partitions", *args.partitions)
    write_ledger(fewer, args.rows // 4, 4)
    write_updates(scratch / "fewer-updates", args.rows // 4, 1, 1_000)
    found["fewer"] = {
        "ours": ours("indexing.py", fewer, scratch / "fewer-updates"),
        "hudi": measure(HUDI_PYTHON, "hudi_index.py", fewer),
    }
    return found


def page(found: dict) -> str:
    """Return the page."""
    parts = [
        "# Lookups and secondary indexes, measured\n",
        "Written by `bench/indexes.py`; two cores, files in the page cache.\n",
        "## Lookups at a fixed rate\n",
        f"One row each, all 12 columns, in process, in a table with 8 uncompacted upserts of {found['rows'] // 16:,} rows: by key, and by "
        "the value of an indexed column (1 match). Milliseconds count from the moment at which a query was due.\n",
        table(
            LOAD_HEADER,
            load_rows(
                {
                    f"{found['rows' if name == 'small' else 'large']:,}": loads
                    for name, loads in found["load"].items()
                }
            ),
        ),
        "\nEach cell: p50 / p99 in milliseconds. The design that the sparse index comes from reports for its own engine, on 2 TB of base "
        "files on a cluster (p99; base files indexed, and logs too):\n",
        table(
            ["queries a second", "base files", "and logs"],
            [[rate, *seconds] for rate, seconds in SEED.items()],
        ),
        "\n## How dense the sparse index is\n",
        f"`lakebed.sparse.index.rows`, {found['rows'] // 8:,} rows and 8 upserts:\n",
        table(
            [
                "rows for each entry",
                "lookup p50 / p99, ms",
                "files",
                "load and upserts",
                "scan of all columns, CPU",
            ],
            [
                [
                    f"{int(rows):,}",
                    both(of["ms"]),
                    f"{of['bytes'] / 1e6:.1f} MB",
                    f"{of['make_seconds']:.1f} s",
                    f"{of['scan_cpu_seconds']:.2f} s",
                ]
                for rows, of in found["sparse"].items()
            ],
        ),
        "\n## Writing with indexes\n",
        f"Upserts of {found['rows'] // 16:,} rows into {found['rows']:,}, in process, seconds:\n",
        table(
            ["indexes", "upserts", "ratio of the medians"],
            [
                [
                    count,
                    ", ".join(f"{s:.2f}" for s in taken),
                    str(found["indexing"]["upserts_ratio"].get(count, "1")),
                ]
                for count, taken in found["indexing"]["upserts"].items()
            ],
        ),
        "\n## A query for one value through Spark\n",
        "All columns of the rows with one value of `loan_id`, after the upserts; the first call is left out:\n",
        table(
            ["", "seconds", "bytes to read"],
            [
                [
                    name,
                    ", ".join(f"{s:.2f}" for s in of["seconds"]),
                    kib(of["bytes"]),
                ]
                for name, of in (
                    ("without an index", found["indexing"]["queries"]["0"]),
                    ("with an index", found["indexing"]["queries"]["3"]),
                )
            ],
        ),
        "\n## Very many partitions\n",
        "Two buckets and 40 rows in each partition, two uncompacted upserts, p50 / p99 in milliseconds; "
        "lookups by key and partition or by an indexed value, and upserts of 10 rows that open the table anew:\n",
        table(
            ["file groups", "by key", "by value", "upsert of 10 rows"],
            [
                [
                    f"{of['file_groups']:,}",
                    *(both(of[work]["ms"]) for work in ("key", "value", "upsert")),
                ]
                for of in found["partitions"].values()
            ],
        ),
        "\n## Building an index\n",
        table(
            ["rows", "in process", "on Spark", "Hudi 1.2.0, CREATE INDEX"],
            [
                [
                    f"{found['rows']:,}",
                    f"{min(found['indexing']['build_in_process']):.2f} s",
                    f"{min(found['indexing']['build_on_spark']):.2f} s",
                    "",
                ],
                [
                    f"{found['rows'] // 4:,}",
                    f"{min(found['fewer']['ours']['build_in_process']):.2f} s",
                    f"{min(found['fewer']['ours']['build_on_spark']):.2f} s",
                    f"{found['fewer']['hudi']['build_seconds']:.1f} s",
                ],
            ],
        ),
        "\nHudi's index needs its record index, whose build is not counted. A query for one value of the indexed column through Hudi took "
        + ", ".join(f"{s:.1f}" for s in found["fewer"]["hudi"]["query_seconds"])
        + " s.\n",
    ]
    return "\n".join(parts)


def main() -> None:
    """Measure, keep the values, write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--large", type=int, default=20_000_000)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--partitions", type=int, nargs=2, default=[100, 5_000])
    parser.add_argument("--results", type=pathlib.Path)
    parser.add_argument("--docs", type=pathlib.Path, default=ROOT / "docs")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="lakebed-bench-") as name:
        found = measured(pathlib.Path(name), args)
    if args.results:
        args.results.write_text(json.dumps(found, indent=1))
    (args.docs / "index-benchmarks.md").write_text(page(found))


if __name__ == "__main__":
    sys.exit(main())
