"""Time opening a table of many instants against listing and parsing them.

    .venv/bin/python bench/open_table.py --instants 1000

Prints one JSON object. Opening is `open_table(...)` and its schema: properties, timeline and the
newest commit. The floor is one listing of the timeline folder with every name parsed.
"""

import argparse
import json
import os
import statistics
import tempfile
import time

import pyarrow as pa

import lakebed
from lakebed.format.commit_metadata import CommitMetadata
from lakebed.format.instant_name import Action, InstantName
from lakebed.storage.local import LocalStorage
from lakebed.timeline.active import ActiveTimeline

SCHEMA = pa.schema([("id", pa.int64()), ("text", pa.string())])
FIRST = 20260101000000000


def make_table(path: str, instants: int) -> None:
    """Make a table whose timeline holds `instants` completed commits."""
    table = lakebed.create_table(None, path, SCHEMA, key="id", table_type="COPY_ON_WRITE")
    commit = CommitMetadata(
        extra_metadata={"schema": table.config.create_schema or ""}, operation_type="INSERT"
    ).encode()
    active = ActiveTimeline(LocalStorage(path), table.config.timeline_path)
    folder = os.path.join(path, table.config.timeline_path)
    os.makedirs(folder, exist_ok=True)
    for number in range(instants):
        requested, completion = str(FIRST + 2 * number), str(FIRST + 2 * number + 1)
        for name, data in (
            (f"{requested}.commit.requested", b""),
            (f"{requested}.inflight", b""),
            (f"{requested}_{completion}.commit", commit),
        ):
            with open(os.path.join(folder, name), "wb") as file:
                file.write(data)
    assert len(active.load().commits) == instants
    assert InstantName.parse(f"{FIRST}.inflight").action is Action.COMMIT


def best(work, runs: int) -> float:
    """Give the median seconds of `work` over `runs`."""
    seconds = []
    for _ in range(runs):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


def main() -> None:
    """Make the table, time the floor and the opening in turns."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--instants", type=int, default=1000)
    parser.add_argument("--runs", type=int, default=15)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="lakebed-bench-") as scratch:
        path = os.path.join(scratch, "table")
        make_table(path, args.instants)
        folder = os.path.join(path, ".hoodie", "timeline")

        def floor() -> None:
            for name in os.listdir(folder):
                InstantName.parse(name)

        def opened() -> None:
            assert lakebed.open_table(None, path).schema.names == SCHEMA.names

        opened()
        floor_s, open_s = best(floor, args.runs), best(opened, args.runs)
        print(
            json.dumps(
                {
                    "instants": args.instants,
                    "floor_ms": round(floor_s * 1000, 2),
                    "open_ms": round(open_s * 1000, 2),
                    "ratio": round(open_s / floor_s, 2),
                }
            )
        )


if __name__ == "__main__":
    main()
