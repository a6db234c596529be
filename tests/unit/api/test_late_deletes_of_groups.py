"""Deletes in a table whose column groups order versions by different columns."""

from typing import Any

import pyarrow as pa
import pytest

from lakebed.api.table import Table
from support.tables import make

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("ts", pa.int64()),
        ("name", pa.string()),
        ("score", pa.int64()),
        ("scored_at", pa.int64()),
    ]
)
ROW = {"id": 1, "ts": 5, "name": "x", "score": 2, "scored_at": 3}
DEFAULT, RISK = ("ts", "name"), ("score", "scored_at")


def table() -> Table:
    return make(
        schema=SCHEMA,
        ordering=("ts",),
        partition_by=(),
        table_type="MERGE_ON_READ",
        table_version=None,
        column_groups={"risk": "score;scored_at"},
    )


def rows(*given: dict[str, Any]) -> pa.Table:
    return pa.Table.from_pylist(list(given))


@pytest.mark.parametrize("compacts", [False, True])
@pytest.mark.parametrize(
    ("ts", "scored_at", "lost"),
    [(4, 9, RISK), (9, 1, DEFAULT), (4, 1, ()), (9, 9, None)],
)
def test_a_late_delete_takes_the_columns_of_the_groups_in_which_it_wins(
    ts: int, scored_at: int, lost: tuple[str, ...] | None, compacts: bool
):
    t = table()
    t.upsert(rows(ROW))
    t.upsert(rows({**ROW, "ts": ts, "scored_at": scored_at, "_hoodie_is_deleted": True}))
    if compacts:
        t.compact()
    wanted = [] if lost is None else [{**ROW, **dict.fromkeys(lost)}]
    assert t.read().read_all().to_pylist() == wanted
    for name in SCHEMA.names:
        assert t.read(columns=[name]).read_all().to_pylist() == [{name: r[name]} for r in wanted]
    assert t.count() == len(wanted)


def test_a_row_that_comes_after_the_delete_lives_in_the_groups_in_which_it_is_newer():
    t = table()
    t.upsert(rows({**ROW, "ts": 7, "scored_at": 7, "_hoodie_is_deleted": True}))
    t.compact()
    t.upsert(rows({**ROW, "ts": 6, "scored_at": 8}))
    assert t.read().read_all().to_pylist() == [
        {"id": 1, "ts": None, "name": None, "score": 2, "scored_at": 8}
    ]
    assert t.read(columns=["name"]).read_all().to_pylist() == [{"name": None}]


def test_a_delete_by_key_removes_the_row_from_every_group():
    t = table()
    t.upsert(rows(ROW))
    t.update_columns(rows({"id": 1, "score": 3, "scored_at": 99}))
    t.delete([{"id": 1}])
    assert t.count() == 0
    t.upsert(rows({"id": 1, "score": 4, "scored_at": 1}))
    assert t.read().read_all().to_pylist() == [
        {"id": 1, "ts": None, "name": None, "score": 4, "scored_at": 1}
    ]


def test_the_copy_of_the_ordering_column_in_a_group_is_never_shown():
    t = make(
        schema=SCHEMA,
        ordering=("ts",),
        partition_by=(),
        table_type="MERGE_ON_READ",
        table_version=None,
        column_groups={"risk": ["score", "scored_at"]},
    )
    t.upsert(rows({"id": 1, "ts": 5, "score": 2, "scored_at": 3}))
    assert t.read(columns=["ts"]).read_all().to_pylist() == [{"ts": None}]
    assert t.read(where="ts = 5").read_all().num_rows == 0
    assert t.read(columns=["id", "ts", "score"]).read_all().to_pylist() == [
        {"id": 1, "ts": None, "score": 2}
    ]


@pytest.mark.parametrize("way", ["not compacted", "compacted", "widened"])
def test_an_incremental_read_shows_a_row_that_lost_columns(way: str):
    t = table()
    t.upsert(rows(ROW, {**ROW, "id": 2}, {**ROW, "id": 3}))
    since = str(int(t.history().column("completion_time")[0].as_py()) + 1)
    gone = {**ROW, "ts": 4, "scored_at": 9, "_hoodie_is_deleted": True}
    t.upsert(rows(gone, {**gone, "id": 2, "ts": 9}, {**gone, "id": 3, "scored_at": 1}))
    if way != "not compacted":
        t.compact(widen=way == "widened")
    found = t.read(since=since).read_all().to_pylist()
    assert found == [{**ROW, **dict.fromkeys(RISK)}]  # 2 is gone, and of 3 nothing is lost
    assert t.read(columns=["score"], since=since).read_all().to_pylist() == [{"score": None}]


@pytest.mark.parametrize("compacts", [False, True])
def test_only_the_keys_of_deletes_are_looked_up_in_other_groups(compacts: bool):
    t = table()
    t.upsert(rows(*({**ROW, "id": key} for key in range(40))))
    late = {**ROW, "ts": 9, "scored_at": 1, "_hoodie_is_deleted": True}
    t.upsert(rows({**late, "id": 3}, {**late, "id": 30, "scored_at": 9}))
    if compacts:
        t.compact()
    names = {
        row["id"]: row["name"] for row in t.read(columns=["id", "name"]).read_all().to_pylist()
    }
    assert names == {**{key: "x" for key in range(40) if key not in (3, 30)}, 3: None}
    notes = {note.name: note for note in t.explain(["name"]).groups}
    assert notes["risk"].looked_in == notes["risk"].keys_in > 0
    assert "read for the keys of deletes only" in str(notes["risk"])
    found = t.read(columns=["name"], where="id >= 3 AND id <= 5").read_all().num_rows
    assert found == 3
