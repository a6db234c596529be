"""A process of its own at work on a table: what the tests start, and kill.

child.py writer <path> <number> <commits>     writes, and says each commit once its call returned
child.py keeper <path>                        compacts, cleans and archives until it is told to end
"""

import contextlib
import json
import pathlib
import sys
import threading

import pyarrow as pa

from lakebed.api.opening import open_table
from lakebed.api.table import Table
from lakebed.errors import ConflictError

SCHEMA = pa.schema([("id", pa.string()), ("v", pa.int64()), ("dt", pa.string())])
PARTITIONS = 4


def rows_of(writer: int, number: int) -> pa.Table:
    """Return what a commit writes: its number to a key that all share, and to two of its own."""
    dt, value = f"p{writer % PARTITIONS}", writer * 1_000_000 + number
    other = f"p{(writer + 1) % PARTITIONS}" if number % 5 == 0 else dt
    own = f"w{writer}-{number}"
    rows = [("all", dt), (own, dt), (f"{own}-too", other)]
    return pa.Table.from_pylist(
        [{"id": key, "v": value, "dt": partition} for key, partition in rows], schema=SCHEMA
    )


def write(table: Table, writer: int, commits: int) -> None:
    conflicts = 0
    for number in range(commits):
        while True:
            try:
                commit = table.upsert(rows_of(writer, number))
                break
            except ConflictError:
                conflicts += 1
        said = {"number": number, "instant": commit.instant, "conflicts": conflicts}
        print(json.dumps(said), flush=True)


def keep(table: Table) -> None:
    over = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()
    rounds = 0
    while not over.is_set():
        # Overtaken by a writer: the next round does it.
        with contextlib.suppress(ConflictError):
            table.compact("hybrid")
            table.clean()
            table.archive()
        rounds += 1
        print(json.dumps({"round": rounds}), flush=True)
        over.wait(0.05)


def main(role: str, path: str, *numbers: str) -> None:
    table = open_table(None, str(pathlib.Path(path)))
    print(json.dumps({"ready": role}), flush=True)
    if role == "writer":
        write(table, *map(int, numbers))
    else:
        keep(table)


if __name__ == "__main__":
    main(*sys.argv[1:])
