"""CDC ingestion: a small database changes, its change records are streamed into a table, the two stay equal.

    python examples/cdc_ingestion.py
    python examples/cdc_ingestion.py --changes 20000

The records have Debezium's form and arrive as badly as they may: in several files, out of order, some of them
twice. Everything happens in a temporary folder, on a local Spark session.
"""

import argparse
import json
import logging
import tempfile
import time
from pathlib import Path

import numpy as np
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import lakebed

ROW = "id: BIGINT, city: STRING, amount: BIGINT"
CITIES = ["Oslo", "Lima", "Pune", "Kyiv"]


class Database:
    """A table of orders in a dict, and the log of its changes."""

    def __init__(self) -> None:
        self.rows: dict[int, dict[str, object]] = {}
        self.position = 0
        self._random = np.random.default_rng(7)

    def changes(self, count: int) -> list[str]:
        """Insert, update and delete at random; return the records of it."""
        return [self._change() for _ in range(count)]

    def _change(self) -> str:
        self.position += 1
        id_ = int(self._random.integers(0, 400))
        before = self.rows.get(id_)
        if before and self._random.random() < 0.2:
            after = None
            del self.rows[id_]
        else:
            city, amount = (int(n) for n in self._random.integers(0, [4, 1000]))
            after = self.rows[id_] = {"id": id_, "city": CITIES[city], "amount": amount}
        op = "d" if after is None else "u" if before else "c"
        source = {"lsn": self.position}
        return json.dumps({"op": op, "before": before, "after": after, "source": source})


def land(folder: Path, name: str, records: list[str], rng: np.random.Generator) -> None:
    """Write records to a file as a poor transport delivers them: shuffled, a tenth of them twice."""
    again = [record for record in records if rng.random() < 0.1]
    mixed = [str(record) for record in rng.permutation(records + again)]
    (folder / name).write_text("\n".join(mixed))


def flatten(records: DataFrame) -> DataFrame:
    """Return one row per record: the columns, the position in the log, whether it deletes."""
    envelope = f"op STRING, before STRUCT<{ROW}>, after STRUCT<{ROW}>, source STRUCT<lsn: BIGINT>"
    record = records.where("value IS NOT NULL").select(F.from_json("value", envelope).alias("r"))
    return record.select(
        F.coalesce("r.after", "r.before").alias("row"),
        F.col("r.source.lsn").alias("position"),
        (F.col("r.op") == "d").alias("_hoodie_is_deleted"),
    ).select("row.*", "position", "_hoodie_is_deleted")


def ingest(spark: SparkSession, home: Path) -> None:
    """Write every record that has arrived since the last time."""
    query = (
        flatten(spark.readStream.text(str(home / "landing")))
        .writeStream.foreachBatch(lakebed.foreach_batch(str(home / "orders")))
        .option("checkpointLocation", str(home / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def state(table: lakebed.Table) -> list[tuple[object, ...]]:
    """Return the rows of the table in order."""
    found = table.to_arrow(columns=["id", "city", "amount"]).sort_by("id")
    return list(zip(*found.to_pydict().values(), strict=True))


def run(spark: SparkSession, home: Path, changes: int, rounds: int) -> None:
    """Let the database change, follow it, and compare."""
    (home / "landing").mkdir()
    database, rng = Database(), np.random.default_rng(1)
    orders = lakebed.create_table(
        spark,
        str(home / "orders"),
        "id BIGINT, city STRING, amount BIGINT, position BIGINT",
        key="id",
        ordering="position",
        buckets=2,
    )
    late: list[str] = []
    for number in range(rounds):
        records = late + database.changes(changes)
        # The tail of each round arrives with the next one, after newer changes.
        late = records[:0] if number == rounds - 1 else records[-changes // 10 :]
        land(home / "landing", f"{number}.json", records[: len(records) - len(late)], rng)
        start = time.perf_counter()
        ingest(spark, home)
        newest = orders.history().to_pylist()[0]
        print(
            f"round {number + 1}: {changes:,} changes, {len(late)} of them late;"
            f" {newest['rows_written'] or 0:,} rows and {newest['rows_deleted'] or 0:,} deletes"
            f" in commit {newest['instant']}, {time.perf_counter() - start:.1f} s"
        )
    wanted = sorted(tuple(row.values()) for row in database.rows.values())
    if state(orders) != wanted:
        raise SystemExit("the table and the database differ")
    print(f"the table has the {len(wanted)} rows of the database, each with its last values\n")
    print(orders.layers(), "\n")
    print(*orders.compact(), sep="\n")
    if state(orders) != wanted:
        raise SystemExit("the compaction changed a row")
    first, last = orders.history().to_pylist()[-1], orders.history().to_pylist()[0]
    counts: dict[str, int] = {}
    seen = orders.read(mode="cdc", since=first["completion_time"], until=last["completion_time"])
    for row in seen.groupBy("op").count().collect():
        counts[row["op"]] = row["count"]
    print(
        f"changes of rows after the first commit, as a reader gets them: {dict(sorted(counts.items()))}"
    )


def main() -> None:
    """Parse the arguments and run."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--changes", type=int, default=2_000, help="of each round")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.ERROR)
    spark = lakebed.local_session(2, conf={"spark.log.level": "ERROR"})
    try:
        with tempfile.TemporaryDirectory(prefix="lakebed-cdc-") as folder:
            run(spark, Path(folder), arguments.changes, arguments.rounds)
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
