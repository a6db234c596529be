"""Time Apache Hudi's bulk_insert of the ledger; run by the peer environment's Python.

    .venv-hudi/bin/python bench/hudi_peer.py LEDGER --runs 3

Prints one JSON object: the seconds of each run, the best, and what was written. The session is
`local[2]` and warm: a small write and a read of the input come first and are not counted. The table
has a bucket index of as many buckets as ours. Without --codec all else is Hudi's default; with it
Hudi is tuned for speed: no sort, no metadata table, the smallest bloom filter, that codec.
"""

import argparse
import json
import os
import pathlib
import shutil
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "interop" / "peer"))

from hudi_session import start_session
from pyspark.sql import DataFrame

WARM_UP_ROWS = 20_000


TUNED = {
    "hoodie.bulkinsert.sort.mode": "NONE",
    "hoodie.bloom.index.filter.type": "SIMPLE",
    "hoodie.index.bloom.num_entries": "100",
    "hoodie.metadata.enable": "false",
}


def options(buckets: int, codec: str | None) -> dict[str, str]:
    """Give Hudi's write options for the ledger: tuned with a codec, else as Hudi comes."""
    tuned = {} if codec is None else TUNED | {"hoodie.parquet.compression.codec": codec}
    return tuned | {
        "hoodie.table.name": "ledger",
        "hoodie.datasource.write.table.type": "MERGE_ON_READ",
        "hoodie.datasource.write.operation": "bulk_insert",
        "hoodie.datasource.write.row.writer.enable": "true",
        "hoodie.datasource.write.recordkey.field": "user_id,id",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
        "hoodie.index.type": "BUCKET",
        "hoodie.index.bucket.engine": "SIMPLE",
        "hoodie.bucket.index.num.buckets": str(buckets),
    }


def timed_write(rows: DataFrame, path: str, write: dict[str, str]) -> float:
    """Write `rows` as a new table at `path`; give the seconds."""
    start = time.perf_counter()
    rows.write.format("hudi").options(**write).mode("overwrite").save(path)
    return time.perf_counter() - start


def main() -> None:
    """Warm up, write the ledger `--runs` times, count what the last table holds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("ledger")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--buckets", type=int, default=4)
    parser.add_argument("--codec", help="tune Hudi, with this codec; without it Hudi's defaults")
    parser.add_argument("--memory", default="4g")
    args = parser.parse_args()
    result = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # Spark and its JVM print to standard output; the JSON keeps it for itself

    write = options(args.buckets, args.codec)
    with tempfile.TemporaryDirectory(prefix="lakebed-bench-") as scratch:
        spark = start_session(os.path.join(scratch, "warehouse"), memory=args.memory)
        rows = spark.read.parquet(args.ledger)
        count = rows.count()
        timed_write(rows.limit(WARM_UP_ROWS), os.path.join(scratch, "warm"), write)
        seconds = []
        table = os.path.join(scratch, "ledger")
        for _ in range(args.runs):
            shutil.rmtree(table, ignore_errors=True)
            seconds.append(round(timed_write(rows, table, write), 3))
        held = spark.read.format("hudi").load(table).count()
        bases = list(pathlib.Path(table).glob("*.parquet"))
        spark.stop()
        if held != count:
            raise SystemExit(f"Hudi's table holds {held} rows, the ledger {count}")
        answer = {
            "engine": "hudi 1.2.0",
            "operation": "bulk_insert",
            "rows": count,
            "buckets": args.buckets,
            "codec": args.codec,
            "seconds": seconds,
            "best": min(seconds),
            "files": len(bases),
            "bytes": sum(base.stat().st_size for base in bases),
        }
        print(json.dumps(answer), file=result, flush=True)


if __name__ == "__main__":
    main()
