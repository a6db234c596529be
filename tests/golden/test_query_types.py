"""Incremental and change data reads of tables that Hudi wrote, against what it answers."""

import json
from pathlib import Path
from typing import Any

import pytest

import lakebed
from lakebed.format.names.meta_columns import META_COLUMNS
from support.fixtures import FOLDER, unpack

ANSWERS = json.loads((FOLDER / "query_types.expected.json").read_text("utf-8"))
INCREMENTAL = [
    (name, since)
    for name, of in ANSWERS["time_travel_and_incremental"].items()
    for since in of["incremental"]
]


def in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows in the order of their keys."""
    return sorted(rows, key=lambda row: str(row["_hoodie_record_key"]))


@pytest.mark.parametrize(("name", "since"), INCREMENTAL)
def test_an_incremental_read_gives_what_hudi_gave(name: str, since: str, tmp_path: Path):
    table = lakebed.open_table(None, unpack(name, tmp_path))
    wanted = ANSWERS["time_travel_and_incremental"][name]["incremental"][since]
    columns = [*META_COLUMNS, *table.schema.names]
    found = table.read(columns, since=since.removeprefix("from_completion>")).read_all()
    assert in_order(found.to_pylist()) == in_order(wanted)


@pytest.mark.parametrize("name", ANSWERS["time_travel_and_incremental"])
def test_from_the_beginning_on_an_incremental_read_is_the_snapshot(name: str, tmp_path: Path):
    table = lakebed.open_table(None, unpack(name, tmp_path))
    columns = [*META_COLUMNS, *table.schema.names]
    snapshot = in_order(table.read(columns).read_all().to_pylist())
    for since in ("earliest", "000", "2000-01-01"):
        assert in_order(table.read(columns, since=since).read_all().to_pylist()) == snapshot


R1 = [("k0", "n0", 100), ("k1", "n1", 101), ("k2", "n2", 102), ("k3", "n3", 103)]
R1 += [("k4", "n4", 104), ("k5", "n5", 105)]


# What Hudi 1.2.0's CDC query answers for both: the stale update of k2 gives no row.
@pytest.mark.parametrize("name", ["cow9_cdc", "mor9_cdc"])
def test_change_data_is_what_hudi_answers(name: str, tmp_path: Path):
    table = lakebed.open_table(None, unpack(name, tmp_path))
    history = table.history().sort_by("instant")
    first, second, third = history["instant"].to_pylist()
    ends = history["completion_time"].to_pylist()

    def seen(**ends: str) -> list[tuple[Any, ...]]:
        rows = table.read(["id", "name", "ts"], mode="cdc", **ends).read_all().to_pylist()
        sides = [(row["op"], row["ts_ms"], row["before"], row["after"]) for row in rows]
        spelled = [
            (op, at, *(side and tuple(side.values()) for side in images))
            for op, at, *images in sides
        ]
        return sorted(spelled, key=lambda row: (row[1], str(row[2:])))

    inserts = [("i", first, None, row) for row in R1]
    updates = [
        ("u", second, ("k1", "n1", 101), ("k1", "n1b", 200)),
        ("i", second, None, ("k7", "n7", 107)),
    ]
    deletes = [("d", third, ("k0", "n0", 100), None)]
    assert seen() == [*inserts, *updates, *deletes]
    assert seen(since=ends[0]) == [*updates, *deletes]
    assert seen(since=ends[0], until=ends[1]) == updates
    assert seen(since=ends[1]) == deletes
    assert seen(since=ends[2]) == []
