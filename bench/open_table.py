"""Time opening a table of many instants against listing and parsing them.

    .venv/bin/python bench/open_table.py --instants 1000

Prints one JSON object. Opening is `open_table(...)` and its schema: properties, timeline and the
newest commit; its floor is one listing of the timeline folder with every name parsed. Planning is
opening and the file slices of a snapshot with ten files to an instant, which checks every file
against the commit that names it; its floor is a listing of both folders, every name parsed, and
every commit read and decoded by fastavro.
"""

import argparse
import io
import json
import os
import statistics
import tempfile
import time
import uuid

import fastavro
import pyarrow as pa

import lakebed
from lakebed.format.names.data_names import BaseFileName, parse_data_name
from lakebed.format.names.instant_name import Action, InstantName
from lakebed.format.timeline.commit_metadata import CommitMetadata, WriteStat
from lakebed.storage.local import LocalStorage
from lakebed.timeline.active import ActiveTimeline

SCHEMA = pa.schema([("id", pa.int64()), ("text", pa.string())])
FIRST = 20260101000000000


def make_table(path: str, instants: int, files: int) -> None:
    """Make a table whose timeline holds `instants` completed commits of `files` new files each."""
    table = lakebed.create_table(
        None, path, SCHEMA, key="id", table_type="COPY_ON_WRITE", index="simple"
    )
    schema = {"schema": table.config.create_schema or ""}
    active = ActiveTimeline(LocalStorage(path), table.config.timeline_path)
    folder = os.path.join(path, table.config.timeline_path)
    os.makedirs(folder, exist_ok=True)
    for number in range(instants):
        requested, completion = str(FIRST + 2 * number), str(FIRST + 2 * number + 1)
        names = [
            BaseFileName(str(uuid.UUID(int=number * files + n)) + "-0", "0-0-0", requested).encode()
            for n in range(files)
        ]
        for name in names:
            with open(os.path.join(path, name), "wb") as file:
                file.write(b"x")
        stats = tuple(
            WriteStat(file_id=name[:38], path=name, file_size_in_bytes=1, partition_path="")
            for name in names
        )
        commit = CommitMetadata(
            partition_to_write_stats={"": stats}, extra_metadata=schema, operation_type="INSERT"
        ).encode()
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
    parser.add_argument("--files", type=int, default=10, help="files of each instant")
    parser.add_argument("--runs", type=int, default=9)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="lakebed-bench-") as scratch:
        path = os.path.join(scratch, "table")
        make_table(path, args.instants, args.files)
        folder = os.path.join(path, ".hoodie", "timeline")

        def floor() -> None:
            for name in os.listdir(folder):
                InstantName.parse(name)

        def opened() -> None:
            assert lakebed.open_table(None, path).schema.names == SCHEMA.names

        def plan_floor() -> None:
            floor()
            for name in os.listdir(path):
                parse_data_name(name)
            for name in os.listdir(folder):
                if name.endswith(".commit"):
                    with open(os.path.join(folder, name), "rb") as file:
                        list(fastavro.reader(io.BytesIO(file.read())))

        def planned() -> None:
            assert lakebed.open_table(None, path).files().num_rows == args.instants * args.files

        opened()
        floor_s, open_s = best(floor, args.runs), best(opened, args.runs)
        plan_floor_s, plan_s = best(plan_floor, args.runs), best(planned, args.runs)
        print(
            json.dumps(
                {
                    "instants": args.instants,
                    "floor_ms": round(floor_s * 1000, 2),
                    "open_ms": round(open_s * 1000, 2),
                    "ratio": round(open_s / floor_s, 2),
                    "files": args.instants * args.files,
                    "plan_floor_ms": round(plan_floor_s * 1000, 2),
                    "plan_ms": round(plan_s * 1000, 2),
                    "plan_ratio": round(plan_s / plan_floor_s, 2),
                }
            )
        )


if __name__ == "__main__":
    main()
