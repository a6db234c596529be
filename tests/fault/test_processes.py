"""Writers, a compactor and a cleaner as real processes on a local disk."""

import os
import pathlib
import time
from collections.abc import Callable

import pytest

from soak.child import PARTITIONS, rows_of
from support.figures import FIGURE
from support.processes import (
    Child,
    finish,
    make_table,
    no_orphans,
    rows_by_key,
    settle,
    start,
)

LONG = os.environ.get("LAKEBED_SOAK") == "1"
WRITERS, COMMITS = (8, 50) if LONG else (4, 10)


@pytest.mark.parametrize(
    "mode", ["OPTIMISTIC_CONCURRENCY_CONTROL", "NON_BLOCKING_CONCURRENCY_CONTROL"]
)
@pytest.mark.timeout(1800)
def test_what_many_processes_committed_is_all_there_once(
    tmp_path: pathlib.Path, mode: str, record_property: Callable[[str, object], None]
):
    path = tmp_path / "table"
    make_table(path, mode, **{"hoodie.write.num.retries.on.conflict.failures": "5"})
    began = time.monotonic()
    children = [start("writer", path, number, COMMITS) for number in range(WRITERS)]
    children.append(start("keeper", path))
    with no_orphans(children):
        for child in children:
            finish(child, 1500)
    took = time.monotonic() - began
    *writers, keeper = children
    assert all(len(writer.commits) == COMMITS for writer in writers)
    rows = rows_by_key(settle(path))
    check_rows(rows, writers)
    record_property(
        FIGURE,
        f"{mode.partition('_')[0].lower()}: {WRITERS} writers x {COMMITS} commits in {took:.1f} s, "
        f"{sum(w.said[-1]['conflicts'] for w in writers)} conflicts left to the caller, "
        f"{keeper.said[-1].get('round', 0)} rounds of compaction, cleaning and archiving beside them",
    )


def check_rows(rows: dict[tuple[str, str], int], writers: list[Child]) -> None:
    """Every row of every commit, no other, and of the shared keys the newest."""
    wanted: dict[tuple[str, str], int] = {}
    newest = dict.fromkeys((f"p{n}" for n in range(PARTITIONS)), "")
    for writer in writers:
        for number, instant in writer.commits.items():
            for row in rows_of(writer.number, number).to_pylist():
                if row["id"] != "all":
                    wanted[row["dt"], row["id"]] = row["v"]
                elif instant > newest[row["dt"]]:
                    newest[row["dt"]] = instant
                    wanted[row["dt"], "all"] = row["v"]
    assert rows == wanted
