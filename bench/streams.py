"""Micro-batches of 10,000 rows against `t.upsert` of the same rows, in turns, in one session.

    python bench/streams.py [batches]

Prints the median of a micro-batch of `writeStream.format("lakebed")`, of one of `foreach_batch`, and of
an upsert: what the sink takes (`addBatch`), and the whole trigger with Spark's own logs.
"""

import pathlib
import statistics
import sys
import tempfile
import time

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

import lakebed

ROWS, BATCHES, IN_TURN = 10_000, 100, 10
SCHEMA = "id bigint, v string, ts bigint"
KINDS = ("format", "foreach_batch")


def put_files(folder: pathlib.Path, first: int, count: int) -> list[str]:
    """Write one file for each batch; half of the keys of a batch are those of the one before."""
    folder.mkdir(exist_ok=True)
    paths = []
    for number in range(first, first + count):
        ids = pa.array(range(number * ROWS // 2, number * ROWS // 2 + ROWS), pa.int64())
        texts = pa.array([f"value {key}" for key in ids.to_pylist()])
        stamps = pa.array([number] * ROWS, pa.int64())
        paths.append(f"{folder}/{number:06}.parquet")
        pq.write_table(pa.table({"id": ids, "v": texts, "ts": stamps}), paths[-1])
    return paths


def run(frame: DataFrame, kind: str, base: str) -> list[dict[str, int]]:
    """Run a query until its files are read; return the milliseconds of each batch."""
    writer = frame.writeStream.option("checkpointLocation", f"{base}/checkpoint-{kind}")
    if kind == "format":
        writer = writer.format("lakebed").option("path", f"{base}/{kind}")
    else:
        writer = writer.foreachBatch(lakebed.foreach_batch(f"{base}/{kind}"))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    return [p.durationMs for p in query.recentProgress if p.numInputRows]


def main(batches: int) -> None:
    spark: SparkSession = lakebed.local_session(2)
    base = tempfile.mkdtemp(prefix="lakebed-streams-")
    tables = {
        name: lakebed.create_table(
            spark, f"{base}/{name}", SCHEMA, key="id", ordering="ts", buckets=4
        )
        for name in (*KINDS, "upsert")
    }
    files = pathlib.Path(base, "files")
    upserts: list[float] = []
    taken: dict[str, list[dict[str, int]]] = {kind: [] for kind in KINDS}
    for first in range(0, batches, IN_TURN):
        paths = put_files(files, first, min(IN_TURN, batches - first))
        for path in paths:
            began = time.perf_counter()
            tables["upsert"].upsert(spark.read.schema(SCHEMA).parquet(path))
            upserts.append(time.perf_counter() - began)
        for kind in KINDS:
            frame = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
            # The first batch of a query also plans it.
            taken[kind] += run(frame.parquet(str(files)), kind, base)[1:]
    upsert = statistics.median(upserts[1:])
    print(f"t.upsert              {upsert:6.3f} s")
    for kind, progress in taken.items():
        for part in ("addBatch", "triggerExecution"):
            median = statistics.median(one[part] for one in progress) / 1000
            print(f"{kind:13} {part:16} {median:6.3f} s   ratio {median / upsert:.2f}")
    counts = {name: table.count() for name, table in tables.items()}
    assert len(set(counts.values())) == 1, counts
    spark.stop()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else BATCHES)
