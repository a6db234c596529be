"""Time Apache Hudi on the ledger: bulk_insert, upserts, a scan, a key; run by the peer environment's Python.

    .venv-hudi/bin/python bench/hudi_peer.py LEDGER UPDATES KEYS --runs 3

Prints one JSON object: the seconds of each run and what was written. The session is `local[2]` and
warm: a small write and a read of the input come first and are not counted. The table has a bucket
index of as many buckets as ours, and nothing is compacted. Without --codec all else is Hudi's
default; with it Hudi is tuned for speed: no sort, no metadata table, the smallest bloom filter,
that codec; memory enough to merge without spilling, and readers are told of the bucket index. UPDATES holds one folder per upsert; KEYS is a JSON list of keys to ask for.
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
from pyspark.sql import DataFrame, SparkSession

WARM_UP_ROWS = 20_000
SCAN = ("sum(amount)", "max(ts)", "max(balance)", "count(*)")


TUNED = {
    "hoodie.bulkinsert.sort.mode": "NONE",
    "hoodie.bloom.index.filter.type": "SIMPLE",
    "hoodie.index.bloom.num_entries": "100",
    "hoodie.metadata.enable": "false",
}


def options(operation: str, buckets: int, codec: str | None, logs: str | None) -> dict[str, str]:
    """Give Hudi's write options for the ledger: tuned with a codec, else as Hudi comes."""
    tuned = {} if codec is None else TUNED | {"hoodie.parquet.compression.codec": codec}
    blocks = {} if logs is None else {"hoodie.logfile.data.block.format": logs}
    return (
        tuned
        | blocks
        | {
            "hoodie.table.name": "ledger",
            "hoodie.datasource.write.table.type": "MERGE_ON_READ",
            "hoodie.datasource.write.operation": operation,
            "hoodie.datasource.write.row.writer.enable": "true",
            "hoodie.datasource.write.recordkey.field": "user_id,id",
            "hoodie.datasource.write.precombine.field": "ts",
            "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
            "hoodie.index.type": "BUCKET",
            "hoodie.index.bucket.engine": "SIMPLE",
            "hoodie.bucket.index.num.buckets": str(buckets),
            "hoodie.compact.inline": "false",
            "hoodie.compact.schedule.inline": "false",
        }
    )


def read_options(buckets: int, codec: str | None) -> dict[str, str]:
    """Give Hudi's read options: none as it comes; tuned, what it needs to be at its best.

    By default it merges in a few hundred MB and spills the rest to disk, and a reader does not
    know the bucket index that the writer used.
    """
    if codec is None:
        return {}
    index = {k: v for k, v in options("upsert", buckets, None, None).items() if "index" in k}
    return index | {
        "hoodie.datasource.write.recordkey.field": "user_id,id",
        "hoodie.bucket.index.hash.field": "user_id,id",
        "hoodie.memory.compaction.max.size": str(2 << 30),
    }


def timed_write(rows: DataFrame, path: str, write: dict[str, str], mode: str) -> float:
    """Write `rows` to the table at `path`; give the seconds."""
    start = time.perf_counter()
    rows.write.format("hudi").options(**write).mode(mode).save(path)
    return round(time.perf_counter() - start, 3)


def timed_scan(spark: SparkSession, path: str, read: dict[str, str]) -> tuple[float, list[str]]:
    """Let three columns of every row cross; give the seconds and what came out."""
    start = time.perf_counter()
    row = spark.read.format("hudi").options(**read).load(path).selectExpr(*SCAN).collect()[0]
    return round(time.perf_counter() - start, 3), [str(value) for value in row]


def timed_query(
    spark: SparkSession, path: str, read: dict[str, str], key: dict[str, int]
) -> tuple[float, str]:
    """Ask for one key; give the seconds and the amount of its row."""
    where = " and ".join(f"{name} = {value}" for name, value in key.items())
    start = time.perf_counter()
    rows = spark.read.format("hudi").options(**read).load(path).where(where).collect()
    return round(time.perf_counter() - start, 4), str(rows[0]["amount"]) if rows else ""


def upserts(spark: SparkSession, table: str, updates: str, write: dict[str, str]) -> list[float]:
    """Upsert every folder of `updates`, in order."""
    seconds = []
    for number in sorted(os.listdir(updates), key=int):
        rows = spark.read.parquet(os.path.join(updates, number))
        seconds.append(timed_write(rows, table, write, "append"))
    return seconds


def timed_compaction(spark: SparkSession, table: str, codec: str | None) -> float:
    """Compact a copy of the table; give the seconds, planning included."""
    place = f"{table}-full"
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(table, place)
    more = "" if codec is None else f",hoodie.memory.compaction.max.size={2 << 30}"
    given = f"options => 'hoodie.compact.inline.max.delta.commits=1{more}'"
    start = time.perf_counter()
    call = f"call run_compaction(op => 'scheduleAndExecute', path => '{place}', {given})"
    done = spark.sql(call).collect()
    taken = round(time.perf_counter() - start, 3)
    if not done or not any(name.endswith(".commit") for name in os.listdir(timeline(place))):
        raise SystemExit(f"Hudi compacted nothing: {done}")
    return taken


def timed_log_compaction(table: str, row: DataFrame, write: dict) -> float:
    """Time a log compaction, which Hudi only runs with a write: what it adds to one of one row."""
    place = f"{table}-log"
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(table, place)
    plain = min(timed_write(row, place, write, "append") for _ in range(2))
    inline = {
        "hoodie.log.compaction.enable": "true",
        "hoodie.log.compaction.inline": "true",
        "hoodie.log.compaction.blocks.threshold": "2",
    }
    with_it = timed_write(row, place, write | inline, "append")
    if not any("logcompaction" in name for name in os.listdir(timeline(place))):
        raise SystemExit("Hudi joined no logs")
    return round(with_it - plain, 3)


def timeline(table: str) -> str:
    """Give the folder of a table's instants."""
    return os.path.join(table, ".hoodie", "timeline")


def main() -> None:
    """Warm up, write the ledger `--runs` times; upsert, scan and ask the last table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("ledger")
    parser.add_argument("updates")
    parser.add_argument("keys")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--buckets", type=int, default=4)
    parser.add_argument("--codec", help="tune Hudi, with this codec; without it Hudi's defaults")
    parser.add_argument("--logs", help="format of log blocks: avro or parquet")
    parser.add_argument("--scans", type=int, default=4)
    parser.add_argument("--queries", type=int, default=5)
    parser.add_argument("--memory", default="4g")
    parser.add_argument("--keep", help="leave the table with its upserts here")
    args = parser.parse_args()
    result = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # Spark and its JVM print to standard output; the JSON keeps it for itself

    def write(operation: str) -> dict[str, str]:
        return options(operation, args.buckets, args.codec, args.logs)

    keys = json.loads(pathlib.Path(args.keys).read_text())
    with tempfile.TemporaryDirectory(prefix="lakebed-bench-") as scratch:
        spark = start_session(os.path.join(scratch, "warehouse"), memory=args.memory)
        rows = spark.read.parquet(args.ledger)
        count = rows.count()
        warm = os.path.join(scratch, "warm")
        timed_write(rows.limit(WARM_UP_ROWS), warm, write("bulk_insert"), "overwrite")
        seconds = []
        table = os.path.join(scratch, "ledger")
        for _ in range(args.runs):
            shutil.rmtree(table, ignore_errors=True)
            seconds.append(timed_write(rows, table, write("bulk_insert"), "overwrite"))
        held = spark.read.format("hudi").load(table).count()
        if held != count:
            raise SystemExit(f"Hudi's table holds {held} rows, the ledger {count}")
        bases = list(pathlib.Path(table).glob("*.parquet"))
        upserted = upserts(spark, table, args.updates, write("upsert"))
        logs = [path for path in pathlib.Path(table).glob(".*.log.*") if path.suffix != ".crc"]
        read = read_options(args.buckets, args.codec)
        if args.keep:
            shutil.copytree(table, args.keep)
        scans = [timed_scan(spark, table, read) for _ in range(args.scans)]
        queries = [timed_query(spark, table, read, key) for key in keys[: args.queries]]
        row = spark.read.parquet(os.path.join(args.updates, "1")).limit(1).cache()
        joined = timed_log_compaction(table, row, write("upsert"))
        compacted = [timed_compaction(spark, table, args.codec) for _ in range(args.runs)]
        spark.stop()
        answer = {
            "engine": "hudi 1.2.0",
            "rows": count,
            "buckets": args.buckets,
            "codec": args.codec,
            "seconds": seconds,
            "best": min(seconds),
            "files": len(bases),
            "bytes": sum(base.stat().st_size for base in bases),
            "upserts": upserted,
            "log_files": len(logs),
            "log_bytes": sum(log.stat().st_size for log in logs),
            "scans": [taken for taken, _ in scans],
            "scanned": scans[0][1],
            "compactions": compacted,
            "log_compaction": joined,
            "queries": [taken for taken, _ in queries],
            "amounts": [amount for _, amount in queries],
        }
        print(json.dumps(answer), file=result, flush=True)


if __name__ == "__main__":
    main()
