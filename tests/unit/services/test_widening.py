"""A compaction that widens: all column groups of a file group in one base file of all columns."""

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakebed.api.table import Table
from lakebed.errors import CorruptError, InvalidError, LakebedError, UnsupportedError
from support.tables import make, reopen

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("ts", pa.int64()),
        ("name", pa.string()),
        ("score", pa.int64()),
        ("scored_at", pa.int64()),
        ("clicks", pa.int64()),
    ]
)
RISK = ["id", "score", "scored_at"]
WEB = ["id", "ts", "clicks"]
CLEAN = {"hoodie.clean.commits.retained": "1", "lakebed.clean.min.age.seconds": "0"}


def table(properties: dict[str, str] | None = None, **more: Any) -> Table:
    return make(
        schema=SCHEMA,
        ordering=("ts",),
        partition_by=(),
        table_type="MERGE_ON_READ",
        table_version=None,
        column_groups={"risk": "score;scored_at", "web": ["clicks"]},
        properties={"hoodie.clean.automatic": "false", **(properties or {})},
        **{"buckets": 1, **more},
    )


def rows(*keys: int, at: int) -> pa.Table:
    return pa.Table.from_pylist(
        [
            {"id": k, "ts": at, "name": f"n{k}", "score": k * at, "scored_at": at, "clicks": at}
            for k in keys
        ],
        SCHEMA,
    )


def widened(**more: Any) -> Table:
    """Return a table whose groups hold different keys and ordering values, in one wide file."""
    t = table(**more)
    t.bulk_insert(rows(1, 2, 3, at=10))
    t.upsert(rows(2, 4, at=20).select(RISK))
    t.update_columns(rows(3, at=30).select(WEB))
    t.compact(widen=True)
    return t


def shown(t: Table, **how: Any) -> list[dict[str, Any]]:
    return sorted(t.read(**how).read_all().to_pylist(), key=lambda row: row["id"])


def groups(t: Table) -> list[str]:
    return [row["column_group"] for row in t.files().to_pylist()]


def test_the_rows_commit_times_and_counts_stay():
    t = table()
    t.bulk_insert(rows(1, 2, 3, at=10))
    t.upsert(rows(2, 4, at=20).select(RISK))
    before = shown(t), shown(t, columns=["id", "_hoodie_commit_time", "_hoodie_commit_seqno"])
    [done] = t.compact(widen=True)
    assert (done.wide, done.full, done.log) == (1, 0, 0)
    assert groups(t) == ["*"]
    after = shown(t), shown(t, columns=["id", "_hoodie_commit_time", "_hoodie_commit_seqno"])
    assert after == before
    assert t.count() == 4
    assert t.compact(widen=True) == ()
    assert not t.verify().findings


def test_late_rows_meet_the_ordering_values_of_their_own_group():
    t = widened()
    t.update_columns(rows(3, at=25).select(WEB))  # 10 < 25 < 30
    t.upsert(rows(2, at=15).select(RISK))  # 10 < 15 < 20
    t.update_columns(rows(1, at=15).select(WEB))  # above its own 10
    for _ in range(2):
        found = {row["id"]: row for row in shown(t)}
        assert [found[key]["clicks"] for key in (1, 2, 3, 4)] == [15, 10, 30, None]
        assert found[2]["score"] == 40
        assert found[1]["ts"] == 10
        t.compact()
    assert groups(t) == ["*", "risk", "web"]


def test_each_part_keeps_its_commit_time():
    t = widened()
    by_time = {row["id"]: row["_hoodie_commit_time"] for row in _times(t)}
    t.update_columns(  # a late delete that only wins in the group that was written last
        pa.table({"id": [2], "ts": [5], "scored_at": [25], "_hoodie_is_deleted": [True]})
    )
    again = {row["id"]: row["_hoodie_commit_time"] for row in _times(t)}
    assert again[2] == by_time[1] < by_time[2]


def _times(t: Table) -> list[dict[str, Any]]:
    return shown(t, columns=["id", "_hoodie_commit_time"])


def test_groups_without_logs_are_read_from_the_wide_file_in_one_stream():
    t = widened()
    t.update_columns(rows(1, at=40).select(WEB))
    told = str(t.explain(["name", "score"]))
    assert "(default) read for name (1 file group), from the base file of all columns" in told
    assert "web read for its keys only" in told
    t.compact()
    assert "base file of all columns" not in str(t.explain(["clicks"]))
    t.compact(widen=True)
    explained = t.explain(["name", "score", "clicks"])
    assert explained.row_groups.read == explained.row_groups.total == 1


def test_time_travel_rollback_and_restore_across_it():
    t = table()
    t.bulk_insert(rows(1, 2, at=10))
    point, before = t.history().column("instant")[0].as_py(), shown(t)
    t.savepoint(point)
    t.upsert(rows(2, at=20).select(RISK))
    newest = shown(t)
    [done] = t.compact(widen=True)
    t.update_columns(rows(1, at=30).select(WEB))
    assert shown(t, as_of=point) == before
    assert shown(t, as_of=done.instant) == newest
    with pytest.raises(LakebedError):
        t.rollback(done.instant)  # a commit came after it
    t.rollback(t.history().column("instant")[0].as_py())
    assert shown(t) == newest
    t.rollback(done.instant)
    assert shown(t) == newest
    assert "*" not in groups(t)
    t.compact(widen=True)
    t.restore(point)
    assert shown(t) == before
    assert "*" not in groups(t)
    assert not t.verify().findings


def test_a_dead_plan_is_executed_by_the_next_compaction_or_dropped():
    t = table()
    t.bulk_insert(rows(1, 2, at=10))
    planned = t.schedule_compaction(widen=True)
    t.upsert(rows(2, at=20).select(RISK))
    t.upsert(rows(7, at=20).select(RISK))
    before = shown(t)
    t.rollback(planned.instant.requested, delete_plan=True)
    assert shown(t) == before
    planned = t.schedule_compaction(widen=True)
    t.update_columns(rows(1, at=30).select(WEB))
    before = shown(t)
    [done] = t.compact()
    assert (done.instant, done.wide) == (planned.instant.requested, 1)
    assert shown(t) == before
    assert groups(t) == ["*", "web"]


def test_cleaning_keeps_the_wide_file_until_no_group_needs_it():
    t = widened()
    [wide] = [row["path"] for row in t.files().to_pylist()]
    for at in (40, 50, 60):
        t.update_columns(rows(1, at=at).select(WEB))
        t.compact()
        t.upsert(rows(2, at=at).select(RISK))
        t.compact()
    before = shown(t)
    t.clean(options=CLEAN)
    assert shown(t) == before
    paths = {row["path"] for row in t.files().to_pylist()}
    assert wide in paths
    assert len([e for e in t._storage.list("") if e.path.endswith(".parquet")]) < 14
    for at in (70, 80, 90):
        t.upsert(rows(1, 9, at=at))
        t.compact()
    t.clean(options=CLEAN)
    assert not any(entry.path == wide for entry in t._storage.list(""))
    assert not t.verify().findings


def test_groups_are_dropped_and_added_on_top_of_it():
    t = widened()
    t.drop_column_group("risk")
    assert [row["id"] for row in shown(t)] == [1, 2, 3, 4]
    assert "score" not in t.schema.names
    t.add_column_group("geo", "city STRING, score BIGINT")
    assert {row["score"] for row in shown(t)} == {None}
    t.upsert(pa.table({"id": [4], "ts": [50], "city": ["Oslo"], "score": [7]}))
    t.upsert(pa.table({"id": [1], "ts": [5], "city": ["Bergen"], "score": [8]}))
    found = {row["id"]: (row["city"], row["score"]) for row in shown(t)}
    assert found == {1: ("Bergen", 8), 2: (None, None), 3: (None, None), 4: ("Oslo", 7)}
    t.compact(widen=True)
    assert {row["id"]: (row["city"], row["score"]) for row in shown(t)} == found
    assert not t.verify().findings


def test_keys_that_tombstones_hide_survive_their_last_group():
    t = table()
    t.upsert(rows(1, at=1).select(RISK))
    t.update_columns(
        pa.table({"id": [1], "ts": [6], "scored_at": [0], "_hoodie_is_deleted": [True]})
    )
    t.compact(widen=True)
    t.drop_column_group("risk")
    t.upsert(rows(2, at=9).select(WEB))
    assert [row["id"] for row in shown(t)] == [1, 2]


def test_incremental_reads_and_changes_do_not_see_it():
    t = table()
    t.bulk_insert(rows(1, 2, at=10))
    t.upsert(rows(2, at=20).select(RISK))
    since = str(int(t.history().column("completion_time")[0].as_py()) + 1)
    t.compact(widen=True)
    assert t.read(since=since).read_all().num_rows == 0
    t.update_columns(rows(1, at=30).select(WEB))
    t.compact(widen=True)
    assert [row["id"] for row in t.read(since=since).read_all().to_pylist()] == [1]
    changes = t.read(mode="cdc", since=since).read_all().to_pylist()
    assert [(c["before"]["clicks"], c["after"]["clicks"]) for c in changes] == [(10, 30)]


def test_an_index_finds_rows_in_it():
    t = table()
    t.create_index("by_score", ["score"])
    t.bulk_insert(rows(*range(1, 40), at=10))
    t.upsert(rows(5, at=20).select(RISK))
    t.compact(widen=True)
    assert [row["id"] for row in shown(t, where="score = 100")] == [5, 10]
    t.upsert(rows(7, at=30).select(RISK))
    assert [row["id"] for row in shown(t, where="score = 210")] == [7, 21]


@pytest.mark.parametrize("keep", [False, True])
def test_a_lost_wide_file_is_damage_of_every_group(keep: bool):
    t = widened()
    t.update_columns(rows(1, at=40).select(WEB))
    [wide] = [row["path"] for row in t.files().to_pylist() if row["column_group"] == "*"]
    t._storage.delete(wide)
    t = reopen(t._storage)
    for columns in (["name"], ["score"], ["clicks"]):
        with pytest.raises(LakebedError, match="missing"):
            t.read(columns=columns).read_all()
    assert [f.code.name for f in t.verify().findings if f.severity.name == "ERROR"]
    t.repair(drop_lost=True, keep_readable=keep)
    found = shown(t)
    assert (found == []) == (not keep)
    assert not [f for f in t.verify().findings if f.severity.name == "ERROR"]


def test_it_is_refused_where_it_has_no_meaning():
    t = widened()
    for how in ({"mode": "hybrid"}, {"groups": ["risk"]}):
        with pytest.raises(InvalidError, match="widen"):
            t.compact(widen=True, **how)
    plain = make(schema=SCHEMA, partition_by=(), table_type="MERGE_ON_READ")
    plain.bulk_insert(rows(1, at=1))
    with pytest.raises(InvalidError, match="no column groups"):
        plain.compact(widen=True)


def test_only_a_widened_table_is_downgraded_and_loses_its_groups():
    t = table()
    t.bulk_insert(rows(1, 2, 3, at=10))
    t.upsert(rows(2, 4, at=20).select(RISK))
    with pytest.raises(UnsupportedError, match=r"compact\(widen=True\)"):
        t.downgrade(9)
    t.compact(widen=True)
    t.update_columns(rows(3, at=30).select(WEB))
    with pytest.raises(UnsupportedError, match=r"compact\(widen=True\)"):
        t.downgrade(9)
    t.compact(widen=True)
    before = shown(t)
    assert "would be" in str(t.downgrade(9, dry_run=True))
    t.downgrade(9)
    t = reopen(t._storage)
    assert (t.config.version, t.config.column_groups) == (9, ())
    assert shown(t) == before
    assert not [e.path for e in t._storage.list("") if "_risk" in e.path or "_web" in e.path]
    t.upsert(rows(4, 5, at=40))
    t.compact()
    assert [row["name"] for row in shown(t)] == ["n1", "n2", "n3", "n4", "n5"]
    assert not [f for f in t.verify().findings if f.severity.name == "ERROR"]
    with pytest.raises(LakebedError):
        t.add_column_group("risk", "x BIGINT")


@pytest.mark.parametrize("dropped", [["web"], ["web", "risk"]], ids=["one", "all"])
def test_values_of_a_dropped_group_do_not_return_after_a_downgrade(dropped: list[str]):
    t = widened()
    for name in dropped:
        t.drop_column_group(name)
    t.add_columns("clicks BIGINT")
    assert {row["clicks"] for row in t.to_arrow().to_pylist()} == {None}
    with pytest.raises(UnsupportedError, match="would reappear; call compact"):
        t.downgrade(9)
    t.compact(widen=True)
    assert t.compact(widen=True) == ()
    before = shown(t)
    t.downgrade(9)
    assert shown(t) == before
    assert {row["clicks"] for row in t.to_arrow().to_pylist()} == {None}


def test_deletes_that_are_kept_for_late_rows_prevent_a_downgrade():
    t = widened()
    t.update_columns(
        pa.table({"id": [1], "ts": [11], "scored_at": [0], "_hoodie_is_deleted": [True]})
    )
    t.compact(widen=True)
    with pytest.raises(UnsupportedError, match=r"lakebed\.tombstone\.retention"):
        t.downgrade(9)
    t.set_properties({"lakebed.tombstone.retention": "0s"})
    t.compact(widen=True)
    before = shown(t)
    t.downgrade(9)
    assert shown(t) == before


def test_a_savepoint_of_group_files_prevents_a_downgrade():
    t = table()
    t.bulk_insert(rows(1, at=10))
    point = t.history().column("instant")[0].as_py()
    t.savepoint(point)
    t.compact(widen=True)
    with pytest.raises(InvalidError, match="savepoint"):
        t.downgrade(9)
    t.delete_savepoint(point)
    t.downgrade(9)
    assert t.count() == 1


def test_a_file_whose_footer_does_not_list_its_columns_is_reported():
    t = widened()
    [path] = [row["path"] for row in t.files().to_pylist()]
    data = t._storage.read(path)
    found = pq.read_table(pa.BufferReader(data))
    sink = pa.BufferOutputStream()
    kept = {k: v for k, v in found.schema.metadata.items() if k != b"lakebed.column_groups"}
    pq.write_table(found.replace_schema_metadata(kept), sink)
    filler = sink.getvalue().to_pybytes()
    t._storage.delete(path)
    t._storage.put(path, filler)
    with pytest.raises(CorruptError, match="by its name it holds the columns of all column groups"):
        reopen(t._storage).read(columns=["score"]).read_all()
