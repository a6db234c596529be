"""A driver with two streams into one table: what the test starts, and kills.

stream_child.py <folder> <rows>     prints a line per micro-batch; ends when its input does

One stream is written by `writeStream.format("lakebed")`, the other by `foreach_batch`. Each row has
a new random key in each attempt, so a batch that is written twice leaves its rows twice.
"""

import json
import sys
import threading
import time

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import lakebed

STREAMS = ("sink", "function")


def rows_of(spark: SparkSession, name: str, rows: int) -> DataFrame:
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", rows)
    values = source.option("numPartitions", 2).option("startTimestamp", 0).load()
    return values.selectExpr("uuid() id", f"'{name}' stream", "value")


def begin(spark: SparkSession, folder: str, name: str, rows: int) -> StreamingQuery:
    writer = rows_of(spark, name, rows).writeStream.option("checkpointLocation", f"{folder}/{name}")
    if name == "sink":
        return writer.format("lakebed").option("path", f"{folder}/table").start()
    return writer.foreachBatch(lakebed.foreach_batch(f"{folder}/table")).start()


def main(folder: str, rows: str) -> None:
    over = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()
    spark = lakebed.local_session(2, warm_up=False)
    queries = {name: begin(spark, folder, name, int(rows)) for name in STREAMS}
    seen = dict.fromkeys(STREAMS, -1)
    while not over.is_set():
        for name, query in queries.items():
            error = query.exception()
            if error is not None:
                raise error
            progress = query.lastProgress
            if progress is not None and progress.batchId > seen[name]:
                seen[name] = progress.batchId
                print(json.dumps({"stream": name, "batch": seen[name]}), flush=True)
        time.sleep(0.02)
    for query in queries.values():
        query.stop()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
