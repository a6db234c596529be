"""kill -9 at random moments: what was acknowledged stays, and the next writer goes on at once."""

import os
import pathlib
import time
from collections.abc import Callable
from random import Random

import pyarrow as pa
import pytest

from lakebed.api.opening import open_table
from soak.child import rows_of
from support.figures import FIGURE
from support.processes import (
    SCHEMA,
    Child,
    finish,
    make_table,
    no_orphans,
    rows_by_key,
    settle,
    start,
)

KILLS = 100 if os.environ.get("LAKEBED_SOAK") == "1" else 10
ENOUGH = 1_000_000  # commits: more than any process lives to make
AT_ONCE_SECONDS = 20.0  # a heartbeat runs out after 120


@pytest.mark.timeout(3600)
def test_what_was_acknowledged_outlives_kills(
    tmp_path: pathlib.Path, record_property: Callable[[str, object], None]
):
    random = Random(int(os.environ.get("LAKEBED_SEED", "20261115")))
    path = tmp_path / "table"
    make_table(path, "OPTIMISTIC_CONCURRENCY_CONTROL")
    table = open_table(None, str(path))
    everybody: list[Child] = []

    def born(role: str) -> Child:
        # A number of its own: what a killed writer did not hear of may be there all the same.
        child = start(role, path, len(everybody), ENOUGH)
        everybody.append(child)
        return child

    slowest = 0.0
    mine = []
    with no_orphans(everybody):
        alive = [born("writer"), born("writer"), born("keeper")]
        for kill in range(KILLS):
            victim = random.choice(alive)
            victim.wait_for(2)
            time.sleep(random.random() * 0.3)
            victim.process.kill()
            victim.process.wait()
            alive.remove(victim)
            began = time.monotonic()
            row = {"id": f"next-{kill}", "v": kill, "dt": "next"}
            table.upsert(pa.Table.from_pylist([row], schema=SCHEMA))
            slowest = max(slowest, time.monotonic() - began)
            mine.append(("next", f"next-{kill}"))
            alive.append(born(victim.role))
        for child in alive:
            if child.role == "keeper":
                finish(child, 120)
            child.process.kill()
            child.process.wait()
    rows = rows_by_key(settle(path))
    commits = check_acknowledged(rows, everybody, mine)
    assert slowest < AT_ONCE_SECONDS
    record_property(
        FIGURE,
        f"{KILLS} kills; {commits} acknowledged commits, all there; the next writer took at most "
        f"{slowest:.2f} s",
    )


def check_acknowledged(
    rows: dict[tuple[str, str], int], everybody: list[Child], mine: list[tuple[str, str]]
) -> int:
    """Find every acknowledged commit; one that was not acknowledged exists whole or not at all."""
    assert set(mine) <= rows.keys()
    commits = 0
    for child in everybody:
        if child.role != "writer":
            continue
        said = child.commits
        commits += len(said)
        for number in range(len(said) + 1):
            keys = [
                (row["dt"], row["id"])
                for row in rows_of(child.number, number).to_pylist()
                if row["id"] != "all"
            ]
            there = [key in rows for key in keys]
            assert all(there) or (number not in said and not any(there)), (child.number, number)
    return commits
