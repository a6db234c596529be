"""Take over a table that Hudi made: scan it, compact it for the first time, scan it again.

    .venv/bin/python bench/migration.py TABLE --buckets 4 --runs 4

TABLE has Avro logs (made by bench/hudi_peer.py --keep). Prints one JSON object: the seconds of the
scans before and after, of the compaction, and the bytes that a reader needs before and after.
"""

import argparse
import json
import os
import pathlib
import shutil
import tempfile
import time

from lakebed_peer import timed_scan, timed_stream

import lakebed


def needed_bytes(place: str) -> int:
    """Give the size of the files that a snapshot reads."""
    return sum(lakebed.open_table(None, place).files().column("size_bytes").to_pylist())


def measured(spark, place: str, runs: int) -> dict[str, object]:
    """Scan the table through Spark and without it."""
    scans = [timed_scan(spark, place) for _ in range(runs)]
    streams = [timed_stream(place) for _ in range(runs)]
    if scans[0][1] != streams[0][1]:
        raise SystemExit(f"Spark scanned {scans[0][1]}, the process alone {streams[0][1]}")
    return {
        "scans": [taken for taken, _ in scans],
        "streams": [taken for taken, _ in streams],
        "scanned": scans[0][1],
        "bytes": needed_bytes(place),
    }


def main() -> None:
    """Measure a copy of the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("table", type=pathlib.Path)
    parser.add_argument("--buckets", type=int, default=4)
    parser.add_argument("--runs", type=int, default=4)
    args = parser.parse_args()
    result = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    with tempfile.TemporaryDirectory(prefix="lakebed-bench-") as scratch:
        place = os.path.join(scratch, "table")
        shutil.copytree(args.table, place)
        spark = lakebed.local_session(2, conf={"spark.driver.memory": "4g"})
        spark.range(1000).count()
        before = measured(spark, place, args.runs)
        start = time.perf_counter()
        lakebed.open_table(spark, place).compact(mode="full")
        compacted = round(time.perf_counter() - start, 3)
        after = measured(spark, place, args.runs)
        spark.stop()
        if before["scanned"] != after["scanned"]:
            raise SystemExit(f"before {before['scanned']}, after {after['scanned']}")
        answer = {"before": before, "compaction": compacted, "after": after}
        print(json.dumps(answer), file=result, flush=True)


if __name__ == "__main__":
    main()
