"""Change data of whole tables: which writes log what, and what becomes of the logs."""

from typing import Any

import pyarrow as pa
import pytest

from lakebed.api.table import Table
from lakebed.errors import SchemaError
from lakebed.model.clock import ManualClock
from lakebed.table.config.properties_file import load_config
from lakebed.write.pipeline import Commit
from support.cdc import cdc_paths, changes_of
from support.faulty import FaultyStorage
from support.tables import batch, check_no_leftovers, make, reopen, user_rows

ON = {"hoodie.table.cdc.enabled": "true"}
MODE = "hoodie.table.cdc.supplemental.logging.mode"
BY_HAND = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}
FIRST = batch(("a", 1, 5, "p"), ("b", 1, 5, "p"), ("c", 1, 5, "p"))


def table_of(mode: str = "data_before_after", **changes: Any) -> Table:
    properties = {**ON, **BY_HAND, MODE: mode, **changes.pop("properties", {})}
    return make(buckets=1, ordering=("ts",), properties=properties, **changes)


def filled(mode: str = "data_before_after", **changes: Any) -> Table:
    table = table_of(mode, **changes)
    table.upsert(FIRST)
    return table


def row(key: str, v: int, ts: int) -> dict[str, Any]:
    return {"id": key, "v": v, "ts": ts, "dt": "p"}


def told(table: Table, commit: Commit) -> list[tuple[str, Any, Any]]:
    """Return op, value before and value after of each change of a commit."""
    records = changes_of(table, commit.instant)
    assert {record["ts_ms"] for record in records} <= {commit.instant}
    return [
        (record["op"], *(image and (image["id"], image["v"]) for image in images))
        for record in records
        for images in [(record["before"], record["after"])]
    ]


def stats(commit: Commit) -> dict[str, int]:
    return {p: size for stat in commit.write_stats for p, size in (stat.cdc_stats or {}).items()}


def check_named(table: Table, commit: Commit) -> None:
    """Assert that a commit names its change data, with the sizes that it has, and nothing else."""
    mine = [path for path in cdc_paths(table._storage) if f"_{commit.instant}" in path]
    assert stats(commit) == {path: table._storage.head(path).size for path in mine}


def test_the_mode_is_stored_as_hudi_spells_it():
    config = load_config(table_of("op_key_only")._storage)
    assert config.properties[MODE] == "OP_KEY_ONLY"
    assert config.properties["hoodie.table.cdc.enabled"] == "true"


def test_a_new_file_group_has_no_change_data():
    table = filled()
    assert cdc_paths(table._storage) == []


@pytest.mark.parametrize("version", [8, 9, 10])
def test_an_upsert_logs_what_it_did_to_each_row(version: int):
    table = filled(table_version=version)
    commit = table.upsert(batch(("a", 2, 6, "p"), ("b", 2, 4, "p"), ("d", 2, 6, "p")))
    assert told(table, commit) == [("u", ("a", 1), ("a", 2)), ("i", None, ("d", 2))]
    check_named(table, commit)
    assert user_rows(reopen(table._storage))["p", "d"] == row("d", 2, 6)


def test_an_update_that_changes_nothing_is_logged_and_one_that_loses_is_not():
    table = filled()
    assert told(table, table.upsert(batch(("a", 1, 5, "p")))) == [("u", ("a", 1), ("a", 1))]
    lost = table.upsert(batch(("a", 9, 1, "p")))
    assert told(table, lost) == []
    assert len(stats(lost)) == 1, "Hudi's readers expected a log of every rewritten base file"


def test_deletes_by_key_by_marker_and_of_keys_that_are_not_there():
    table = filled()
    keys = [{"id": "a", "dt": "p"}, {"id": "zz", "dt": "p"}]
    assert told(table, table.delete(keys)) == [("d", ("a", 1), None)]
    rows = batch(("b", 0, 9, "p"), ("c", 0, 1, "p"), ("x", 0, 9, "p"))
    marked = rows.append_column("_hoodie_is_deleted", pa.array([True] * 3))
    assert told(table, table.upsert(marked)) == [("d", ("b", 1), None)]


def test_all_rows_of_a_file_can_go():
    table = filled()
    commit = table.delete(where="ts = 5")
    assert [change[0] for change in told(table, commit)] == ["d", "d", "d"]
    check_named(table, commit)


def test_partial_updates_log_whole_rows():
    table = filled()
    some = batch(("a", 0, 7, "p")).select(["id", "dt", "ts"])
    commit = table.update_columns(some)
    [record] = changes_of(table, commit.instant)
    assert (record["before"], record["after"]) == (row("a", 1, 5), row("a", 1, 7))


def test_an_insert_into_a_small_file_logs_inserts():
    table = filled(index="simple")
    commit = table.insert(batch(("d", 4, 1, "p")))
    assert told(table, commit) == [("i", None, ("d", 4))]


def test_a_row_that_moves_is_deleted_there_and_inserted_here():
    table = table_of(index="global_simple")
    table.upsert(batch(("a", 1, 5, "p"), ("b", 1, 5, "q")))
    commit = table.upsert(batch(("a", 2, 6, "q")))
    assert sorted(told(table, commit), key=str) == [("d", ("a", 1), None), ("i", None, ("a", 2))]


def test_a_column_that_came_since_is_null_before():
    table = filled()
    wide = FIRST.slice(0, 1).append_column("w", pa.array([7], pa.int64()))
    [record] = changes_of(table, table.upsert(wide, evolve=True).instant)
    assert (record["before"]["w"], record["after"]["w"]) == (None, 7)


@pytest.mark.parametrize(
    ("mode", "fields"),
    [("OP_KEY_ONLY", {"op", "record_key"}), ("DATA_BEFORE", {"op", "record_key", "before"})],
)
def test_the_other_modes_say_less(mode: str, fields: set[str]):
    table = filled(mode)
    commit = table.upsert(batch(("a", 2, 6, "p"), ("d", 2, 6, "p")))
    records = changes_of(table, commit.instant)
    assert [(r["op"], r["record_key"]) for r in records] == [("u", "a"), ("i", "d")]
    assert [set(record) for record in records] == [fields, fields]


def on_read(mode: str = "data_before_after", **changes: Any) -> Table:
    return filled(mode, table_type="MERGE_ON_READ", **changes)


def test_a_log_has_no_change_data_but_says_on_what_it_lies():
    """Hudi 1.2.0 finds the rows before in these fields, and fails where they are empty."""
    table = on_read()
    [base] = [name for name in table._storage.names("p") if name.endswith(".parquet")]
    logs: list[str] = []
    for value in (2, 3):
        commit = table.upsert(batch(("a", value, 5 + value, "p")))
        [stat] = commit.write_stats
        assert stat.path is not None
        logs.append(stat.path.rpartition("/")[2])
        assert (stat.base_file, stat.log_files, stat.cdc_stats) == (base, tuple(logs), None)


def test_without_change_data_a_log_says_nothing_of_what_it_lies_on():
    table = make(table_type="MERGE_ON_READ", buckets=1)
    table.upsert(FIRST)
    [stat] = table.upsert(FIRST).write_stats
    assert (stat.base_file, stat.log_files) == ("", ((stat.path or "").rpartition("/")[2],))


def test_a_small_file_that_is_filled_on_a_merge_on_read_table_has_change_data():
    table = on_read(index="simple")
    commit = table.upsert(batch(("a", 2, 6, "p"), ("d", 2, 6, "p")))
    assert told(table, commit) == [("u", ("a", 1), ("a", 2)), ("i", None, ("d", 2))]
    check_named(table, commit)


def test_deletes_that_stay_as_a_log_lie_on_the_new_base_file():
    """So that no reader finds the row before them twice."""
    table = on_read(index="simple")
    rows = batch(("a", 0, 6, "p"), ("d", 2, 6, "p"))
    marked = rows.append_column("_hoodie_is_deleted", pa.array([True, False]))
    commit = table.upsert(marked)
    assert told(table, commit) == [("d", ("a", 1), None), ("i", None, ("d", 2))]
    log, base = commit.write_stats
    assert log.base_file == (base.path or "").rpartition("/")[2]
    assert base.cdc_stats


@pytest.mark.parametrize("version", [9, 10])
def test_a_compaction_logs_the_net_change_of_its_slice(version: int):
    table = on_read(table_version=version)
    table.upsert(batch(("a", 2, 6, "p"), ("b", 9, 1, "p"), ("n", 1, 1, "p"), ("m", 1, 1, "p")))
    table.upsert(batch(("a", 3, 7, "p")))
    table.delete([{"id": "c", "dt": "p"}, {"id": "n", "dt": "p"}])
    [done] = table.compact(mode="full")
    records = changes_of(table, done.instant)
    assert [(r["op"], (r["after"] or r["before"])["id"]) for r in records] == [
        ("u", "a"),
        ("d", "c"),
        ("i", "m"),
    ]
    assert records[0]["before"]["v"] == 1
    assert records[0]["after"]["v"] == 3
    check_no_leftovers(table._storage)


def test_joined_logs_and_clustered_files_have_no_change_data():
    table = on_read()
    table.upsert(batch(("a", 2, 6, "p")))
    table.upsert(batch(("a", 3, 7, "p")))
    table.compact(mode="log")
    assert cdc_paths(table._storage) == []
    apart = filled(index="simple", properties={"hoodie.parquet.small.file.limit": "0"})
    apart.upsert(batch(("x", 1, 1, "p")))
    before = cdc_paths(apart._storage)
    assert apart.cluster() is not None
    assert cdc_paths(apart._storage) == before


def test_snapshots_do_not_read_change_data():
    table = filled()
    table.upsert(batch(("a", 2, 6, "p")))
    for path in cdc_paths(table._storage):
        table._storage.put(path, b"not change data")
    assert user_rows(reopen(table._storage))["p", "a"] == row("a", 2, 6)


def test_a_write_that_fails_takes_its_change_data_back():
    table = filled()
    before = sorted(entry.path for entry in table._storage.list("p"))
    bad = pa.table({"id": ["a"], "v": ["text"], "ts": [6], "dt": ["p"]})
    with pytest.raises(SchemaError):
        table.upsert(bad)
    assert sorted(entry.path for entry in table._storage.list("p")) == before


def test_change_data_of_an_attempt_that_does_not_count_is_deleted_before_the_commit():
    table = filled()

    class Twice(FaultyStorage):
        def open_write(self, path: str, *, durable: bool = True) -> Any:
            if path.endswith(".cdc"):
                other = path.replace("_0-", "_7-")
                assert other != path
                self.inner.put(other, b"of another attempt")
            return super().open_write(path, durable=durable)

    reopen(Twice(table._storage), ManualClock()).upsert(batch(("a", 2, 6, "p")))
    assert len(cdc_paths(table._storage)) == 1
    check_no_leftovers(table._storage)


def test_a_rollback_takes_change_data_along():
    table = filled()
    commit = table.upsert(batch(("a", 2, 6, "p")))
    assert cdc_paths(table._storage)
    table.rollback(commit.instant)
    assert cdc_paths(table._storage) == []


def test_a_restore_takes_later_change_data_along_and_keeps_what_the_savepoint_has():
    table = filled()
    kept = table.upsert(batch(("a", 2, 6, "p")))
    point = table.savepoint()
    table.upsert(batch(("a", 3, 7, "p")))
    table.restore(point.instant)
    assert cdc_paths(table._storage) == list(stats(kept))


CLEAN = {"hoodie.clean.commits.retained": "1", "lakebed.clean.min.age.seconds": "0"}


def base_name(commit: Commit) -> str:
    [stat] = commit.write_stats
    return (stat.path or "").rpartition("/")[2]


def test_cleaning_takes_change_data_with_the_base_file_that_it_lies_beside():
    table = filled()
    commits = [table.upsert(batch(("a", n, 5 + n, "p"))) for n in range(5)]
    assert table.clean(options=CLEAN) is not None
    there = set(table._storage.names("p"))
    left = [commit for commit in commits if base_name(commit) in there]
    assert 0 < len(left) < len(commits)
    assert cdc_paths(table._storage) == [path for commit in left for path in stats(commit)]
    assert table.clean(options=CLEAN) is None, "all that could go went at once"


def test_cleaning_keeps_the_change_data_of_a_savepoint():
    table = filled()
    kept = table.upsert(batch(("a", 0, 6, "p")))
    table.savepoint()
    for n in range(5):
        table.upsert(batch(("a", n, 7 + n, "p")))
    assert table.clean(options=CLEAN) is not None
    assert stats(kept).keys() <= set(cdc_paths(table._storage))
    assert len(cdc_paths(table._storage)) < 6


def test_old_change_data_whose_base_file_is_gone_is_cleaned():
    table = filled()
    old = table.upsert(batch(("a", 0, 6, "p")))
    for n in range(4):
        table.upsert(batch(("a", n, 7 + n, "p")))
    [log] = stats(old)
    held = table._storage.read(log)
    table.clean(options=CLEAN)
    assert log not in cdc_paths(table._storage)
    table._storage.put(log, held)
    table.upsert(batch(("b", 1, 9, "p")))
    table.clean(options=CLEAN)
    assert log not in cdc_paths(table._storage)


def test_verify_finds_change_data_that_is_lost_cut_or_of_nobody():
    table = filled()
    first, second = (table.upsert(batch(("a", n, 6 + n, "p"))) for n in range(2))
    assert table.verify().findings == ()
    [lost], [cut] = stats(first), stats(second)
    table._storage.put(cut, table._storage.read(cut)[:-1])
    table._storage.put(cut.replace("_0-", "_7-"), b"of another attempt")
    table._storage.delete(lost)
    found = {(finding.code.value, finding.path) for finding in table.verify().findings}
    assert found == {
        ("file-missing", lost),
        ("file-size", cut),
        ("file-leftover", cut.replace("_0-", "_7-")),
    }
    table.repair()
    assert set(cdc_paths(table._storage)) == {cut}
