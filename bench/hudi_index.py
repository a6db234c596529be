"""Time Apache Hudi's CREATE INDEX on the ledger; run by the peer environment's Python.

    .venv-hudi/bin/python bench/hudi_index.py LEDGER --column loan_id

Prints one JSON object. Hudi's secondary index needs its record index, which the first write builds and
which is not counted. The session is `local[2]` and warm: it has written the table.
"""

import argparse
import json
import pathlib
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "interop" / "peer"))

from hudi_session import start_session


def main() -> None:
    """Write the table, create the index, look a value up."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("ledger")
    parser.add_argument("--column", default="loan_id")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        spark = start_session(folder, memory="6g")
        # Without these Hudi builds no index.
        spark.sql("SET hoodie.write.concurrency.mode = optimistic_concurrency_control")
        lock = "org.apache.hudi.client.transaction.lock.InProcessLockProvider"
        spark.sql(f"SET hoodie.write.lock.provider = {lock}")
        rows = spark.read.parquet(args.ledger)
        names = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in rows.schema)
        spark.sql(
            f"CREATE TABLE ledger ({names}) USING hudi LOCATION '{folder}/ledger' TBLPROPERTIES "
            "(type = 'mor', primaryKey = 'user_id,id', preCombineField = 'ts', "
            "hoodie.metadata.enable = 'true', hoodie.metadata.record.index.enable = 'true', "
            "hoodie.index.type = 'RECORD_INDEX')"
        )
        rows.createOrReplaceTempView("given")
        start = time.perf_counter()
        spark.sql("INSERT INTO ledger SELECT * FROM given")
        write = time.perf_counter() - start
        start = time.perf_counter()
        spark.sql(f"CREATE INDEX by_value ON ledger ({args.column})")
        built = time.perf_counter() - start
        known = spark.sql("SHOW INDEXES FROM ledger").collect()
        value = rows.select(args.column).first()[0]
        asked = []
        for _ in range(3):
            start = time.perf_counter()
            found = spark.sql(f"SELECT * FROM ledger WHERE {args.column} = {value}").collect()
            asked.append(round(time.perf_counter() - start, 3))
        print(
            json.dumps(
                {
                    "write_seconds": round(write, 2),
                    "build_seconds": round(built, 2),
                    "query_seconds": asked,
                    "rows": len(found),
                    "indexes": [str(row[0]) for row in known],
                }
            )
        )
        spark.stop()


if __name__ == "__main__":
    main()
