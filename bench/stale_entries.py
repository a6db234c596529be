"""Count the stale and the open entries of an index while the same keys are upserted 50 times.

    .venv/bin/python bench/stale_entries.py

Prints one JSON object: for each share of hot keys, the greatest and the last share of stale and open entries over
all upserts. Entries are compared with the rows one by one after every upsert. Every fifth upsert is a partial
update without the indexed column, which leaves open entries in tables of version 10.
"""

import argparse
import json
import tempfile

import pyarrow as pa

import lakebed
from lakebed.index.secondary.open_index import OpenIndex, open_indexes
from lakebed.model.executor import LocalExecutor
from lakebed.services.indexing.check import check_index
from lakebed.storage.local import LocalStorage
from lakebed.table.config.properties_file import load_config
from lakebed.table.snapshot import load_snapshot


def shares(path: str, rows: int, hot: int, upserts: int) -> dict[str, object]:
    """Return the shares in a table of so many rows, of which the same `hot` ones are upserted."""
    table = lakebed.create_table(
        None,
        path,
        "id STRING, ts BIGINT, city STRING",
        key="id",
        ordering="ts",
        buckets=2,
        table_version=10,
    )
    ids = [f"k{number}" for number in range(rows)]
    table.bulk_insert(
        pa.table({"id": ids, "ts": [1] * rows, "city": [f"v{n % 97}" for n in range(rows)]})
    )
    table.create_index("by_city", ["city"])
    stale, still_open = [], []
    for number in range(upserts):
        keys, times = ids[:hot], [number + 2] * hot
        if number % 5 == 4:
            table.update_columns(pa.table({"id": keys, "ts": times}))
        else:
            table.upsert(pa.table({"id": keys, "ts": times, "city": [f"w{number}"] * hot}))
        storage = LocalStorage(path)
        snapshot = load_snapshot(storage, load_config(storage))
        [index] = open_indexes(snapshot)
        assert isinstance(index, OpenIndex)
        current = check_index(snapshot, index, LocalExecutor(1)).current
        stale.append((index.num_entries - index.num_open - current) / index.num_entries)
        still_open.append(index.num_open / index.num_entries)
    told = {"stale": stale, "open": still_open}
    return {
        name: {"greatest": round(max(of), 4), "last": round(of[-1], 4)} for name, of in told.items()
    }


def main() -> None:
    """Do what the options say."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--upserts", type=int, default=50)
    args = parser.parse_args()
    found = {}
    with tempfile.TemporaryDirectory() as scratch:
        for share in (0.001, 0.01, 0.1):
            hot = int(args.rows * share)
            found[f"{share:.1%} hot"] = shares(f"{scratch}/{hot}", args.rows, hot, args.upserts)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
