"""Create, load, insert, read, travel back, compact and clean on any Spark, and print what was seen.

Usage: smoke.py <master url or sc:// url> <table path>.
"""

import json
import os
import sys
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

import lakebed
from lakebed.errors import KeyValueError
from lakebed.model.options.writers import DRIVER_MAX_BYTES

url, path = sys.argv[1:]
report: dict[str, Any] = {}

if url.startswith("sc://"):
    os.environ["SPARK_REMOTE"] = url
    spark = lakebed.local_session()
    again = lakebed.local_session()
    report["same session"] = again is spark
else:
    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.executor.memory": "512m",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "4",
    }
    spark = SparkSession.builder.master(url).config(map=settings).getOrCreate()

report["kind"] = type(spark).__module__
ddl = "id bigint, ts bigint, region string, v string"
table = lakebed.create_table(
    spark,
    path,
    ddl,
    key="id",
    ordering="ts",
    partition_by="region",
    table_type="COPY_ON_WRITE",
    buckets=2,
)
first = table.bulk_insert(
    spark.range(0, 1000, 1, 4).selectExpr(
        "id", "5L as ts", "if(id % 2 = 0, '欧洲', 'us') as region", "concat('v', id) as v"
    )
)
report["loaded"] = [first.rows, len(first.write_stats)]
second = table.insert(
    spark.range(990, 1010, 1, 2).selectExpr(
        "id", "if(id < 995, 4L, 6L) as ts", "if(id % 2 = 0, '欧洲', 'us') as region", "'new' as v"
    )
)
report["inserted"] = second.inserted
report["count"] = table.read().count()
report["new"] = sorted(row["id"] for row in table.read(["id"], where="v = 'new'").collect())
report["before"] = table.read(as_of=first.instant).count()
report["new before"] = table.read(where="v = 'new'", as_of=first.instant).count()
report["alone"] = lakebed.open_table(None, path).read().read_all().num_rows
try:
    table.insert(spark.sql("select cast(null as bigint) id, 1L ts, 'us' region, 'x' v"))
except KeyValueError as error:
    report["refused"] = str(error)
report["commits"] = table.history().num_rows

# However little there is to compact, Spark does it.
spark.conf.set(DRIVER_MAX_BYTES.name, "0")
logged = lakebed.create_table(
    spark, f"{path}-logs", ddl, key="id", ordering="ts", partition_by="region", buckets=2
)
for ts in (1, 2, 3):
    logged.upsert(
        pa.table(
            {"id": range(40), "ts": [ts] * 40, "region": ["us"] * 40, "v": [f"v{ts}"] * 40},
            logged.schema,
        )
    )
(joined,) = logged.compact("log", options={"hoodie.log.compaction.blocks.threshold": "2"})
(merged,) = logged.compact("full")
report["compacted"] = [joined.log, merged.full, merged.rows]
report["files"] = logged.files().column("path").to_pylist()
report["after compaction"] = sorted({row["v"] for row in logged.read().collect()})
report["findings"] = [str(finding) for finding in logged.verify()]
options = {"lakebed.clean.min.age.seconds": "0", "hoodie.clean.commits.retained": "1"}
logged.upsert(pa.table({"id": [0], "ts": [4], "region": ["us"], "v": ["v4"]}, logged.schema))
cleaned = logged.clean(options=options)
report["cleaned"] = cleaned is not None and cleaned.deleted_files


def copy(name: str) -> Any:
    """Stream a table into another one; return that table."""
    target = lakebed.create_table(
        spark, f"{path}-{name}", ddl, key="id", ordering="ts", partition_by="region", buckets=2
    )
    rows = spark.readStream.format("lakebed").load(path).select("id", "ts", "region", "v")
    writer = rows.writeStream.option("checkpointLocation", f"{path}-{name}-checkpoint")
    if name == "format":
        writer = writer.format("lakebed").option("path", f"{path}-{name}")
    else:
        writer = writer.foreachBatch(lakebed.foreach_batch(f"{path}-{name}", stream=name))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    return target


for name in ("format", "function"):
    report[f"streamed by {name}"] = copy(name).read().count()
spark.stop()
print(json.dumps(report))
