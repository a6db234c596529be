"""Repair ends damaged file slices in a commit of its own; what is whole is never touched."""

import pyarrow as pa
import pytest

from lakebed.errors import CorruptError, DamageWarning, InvalidError, UnsupportedError
from lakebed.format.names.data_names import BaseFileName, parse_data_name
from lakebed.model.clock import ManualClock
from lakebed.services.verify.findings import Mend, Severity
from lakebed.storage.objects import memory_storage
from support.tables import batch, contents, make, reopen, user_rows

A = batch(*((f"a{n}", n, 1, "A") for n in range(20)))
B = batch(*((f"b{n}", n, 1, "B") for n in range(20)))
BY_HAND = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}
KINDS = [
    {},
    {"table_type": "COPY_ON_WRITE"},
    {"index": "simple"},
    {"table_version": 10},
    {"layout": "default"},
    {"index": "consistent_hashing"},
]


def loaded(**changes):
    """Return a table of two partitions; in each a load, and an upsert of every key."""
    settings = {"table_type": "MERGE_ON_READ", "ordering": ("ts",), "buckets": 2, **changes}
    if settings.get("index") in ("simple", "global_simple"):
        del settings["buckets"]
    table = make(memory_storage(), ManualClock(step_ms=1), properties=BY_HAND, **settings)
    for rows in (A, B):
        table.bulk_insert(rows)
    for rows in (A, B):
        table.upsert(batch(*((row["id"], 100, 2, row["dt"]) for row in rows.to_pylist())))
    return table


def newest(table, partition, level):
    files = table.files().to_pylist()
    return next(f for f in files if f["partition"] == partition and f["level"] == level)


def keys_of(table, file_id):
    """Return the keys of the slice of a file group, as they were before the damage."""
    columns = ["id", "_hoodie_file_name"]
    rows = table.read(columns=columns, where="dt = 'A'").read_all().to_pylist()
    return {row["id"] for row in rows if row["_hoodie_file_name"].startswith(file_id)}


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("way", ["missing", "cut", "zeros"])
def test_a_damaged_slice_is_ended_and_the_table_is_whole(kind, way):
    table = loaded(**kind)
    storage, rows = table._storage, user_rows(table)
    file = newest(table, "A", "L1")
    gone = keys_of(table, file["file_id"])
    data = storage.read(file["path"])
    storage.delete(file["path"])
    if way != "missing":
        storage.put(file["path"], data[:-12] if way == "cut" else bytes(len(data)))
    hurt = reopen(storage, table._clock)
    before = set(contents(storage))
    plan = hurt.repair(dry_run=True, drop_lost=True).plan
    assert [step.mend for step in plan.steps] == [Mend.DROP_LOST]
    assert plan.left == ()
    assert set(contents(storage)) == before
    done = hurt.repair(drop_lost=True).done
    [dropped] = done.dropped
    assert file["path"] in str(done)
    assert "all its rows are lost" in str(done)
    left = {key: row for key, row in rows.items() if key[1] not in gone}
    assert user_rows(hurt) == left
    assert hurt.history().to_pylist()[0]["instant"] == dropped.instant
    # Nothing that was there is deleted, and the keys can be written again.
    assert before <= set(contents(storage))
    hurt.upsert(A)
    assert len(user_rows(hurt)) == 40
    fast = {"hoodie.clean.commits.retained": "1", "lakebed.clean.min.age.seconds": "0"}
    hurt.compact() if table.config.table_type == "MERGE_ON_READ" else None
    hurt.clean(options=fast)
    assert [str(finding) for finding in hurt.verify()] == []


@pytest.mark.parametrize("kind", [{}, {"table_version": 10}, {"index": "simple"}], ids=str)
def test_what_can_be_read_stays_and_the_report_says_that_it_may_be_stale(kind):
    table = loaded(**kind)
    storage = table._storage
    # Without the log the base file alone is left, with the values from before the upsert.
    for number, level in enumerate(("L0", "L1")):
        file = newest(table, "A", level)
        keys = keys_of(table, file["file_id"])
        storage.delete(file["path"])
        hurt = reopen(storage, table._clock)
        [dropped] = hurt.repair(drop_lost=True, keep_readable=True).done.dropped
        assert dropped.rows_kept == len(keys) > 0
        assert "may be stale" in str(dropped)
        found = hurt.read(where="dt = 'A'").read_all().to_pylist()
        assert len(found) == 20
        values = {row["id"]: row["v"] for row in found}
        stale = {key for key in keys if values[key] != 100}
        assert bool(stale) is (number == 0)
        assert hurt.verify(quick=True).is_sound
        table = loaded(**kind)
        storage = table._storage


def test_an_older_version_that_is_still_there_is_kept_with_the_logs_on_top():
    table = loaded()
    storage = table._storage
    table.compact()
    table.upsert(batch(("a1", 7, 7, "A"), ("a2", 7, 7, "A"), ("a3", 7, 7, "A")))
    file = newest(table, "A", "L1")
    keys = keys_of(table, file["file_id"])
    storage.delete(file["path"])
    hurt = reopen(storage, table._clock)
    [dropped] = hurt.repair(drop_lost=True, keep_readable=True).done.dropped
    assert dropped.rows_kept == len(keys)
    values = {r["id"]: r["v"] for r in hurt.read(where="dt = 'A'").read_all().to_pylist()}
    assert len(values) == 20
    assert all(values[key] == (7 if key in ("a1", "a2", "a3") else 100) for key in keys)


@pytest.mark.parametrize("keep", [True, False])
def test_deletes_that_can_be_read_stay_with_the_rows(keep):
    table = loaded(buckets=1)
    marked = batch(("a1", 0, 10, "A")).append_column("_hoodie_is_deleted", pa.array([True]))
    table.upsert(marked)
    table.compact()
    table.upsert(batch(("a2", 7, 7, "A")))
    logs = [
        f["path"] for f in table.files().to_pylist() if f["partition"] == "A" and f["level"] == "L0"
    ]
    table._storage.delete(next(path for path in logs if ".log.1_" in path))
    hurt = reopen(table._storage, table._clock)
    assert hurt.repair(drop_lost=True, keep_readable=keep).done.dropped
    hurt.upsert(batch(("a1", 5, 9, "A")))
    found = hurt.read(where="dt = 'A'").read_all().to_pylist()
    assert len(found) == (19 if keep else 1)
    assert ("a1" in {row["id"] for row in found}) is not keep
    assert hurt.verify().is_sound


def test_nothing_whole_is_dropped_and_a_plan_that_is_out_of_date_does_nothing():
    table = loaded()
    rows = user_rows(table)
    assert table.repair(drop_lost=True).done is None
    path = newest(table, "A", "L1")["path"]
    data = table._storage.read(path)
    table._storage.delete(path)
    plan = reopen(table._storage, table._clock).repair(dry_run=True, drop_lost=True).plan
    table._storage.put(path, data)
    instants = table.history().num_rows
    done = reopen(table._storage, table._clock).repair(plan).done
    assert (len(done.done), len(done.skipped)) == (0, 1)
    assert "intact by now" in str(done.skipped[0])
    assert user_rows(reopen(table._storage)) == rows
    assert table.history().num_rows == instants
    with pytest.raises(InvalidError, match="drop_lost"):
        table.repair(keep_readable=True)


def test_a_slice_that_a_pending_plan_reads_waits_for_it():
    table = loaded()
    planned = table.schedule_compaction()
    table._storage.delete(newest(table, "A", "L0")["path"])
    hurt = reopen(table._storage, table._clock)
    told = str(hurt.repair(drop_lost=True))
    plan = planned.instant.requested
    assert "0 steps done, 1 step left alone" in told
    assert f"compaction {plan} is pending and reads it" in told
    assert f"t.compact(), or drop it with t.rollback('{plan}', delete_plan=True)" in told
    hurt.compact()
    assert len(hurt.repair(drop_lost=True).done.dropped) == 1
    assert hurt.verify(quick=True).is_sound


@pytest.mark.parametrize("level", ["L0", "L1"])
@pytest.mark.parametrize("mode", ["full", "hybrid"])
def test_compaction_names_the_file_groups_that_it_leaves_out_as_damaged(mode, level, caplog):
    table = loaded(buckets=1)
    path = newest(table, "A", level)["path"]
    table._storage.delete(path)
    hurt = reopen(table._storage, table._clock)
    [done] = hurt.compact(mode)
    assert done.full == 1
    [problem] = done.damaged
    assert path in problem
    assert f"left out as damaged: {problem}" in str(done)
    assert [path in text for text in caplog.messages].count(True) == 1
    # With nothing left to plan, the warning alone says why.
    caplog.clear()
    assert hurt.compact(mode) == ()
    assert path in caplog.text


def test_clustering_names_the_file_groups_that_it_leaves_out_as_damaged(caplog):
    table = loaded(index="simple", table_type="COPY_ON_WRITE")
    for rows in (A, B):
        table.bulk_insert(batch(*((f"{row['id']}x", 1, 1, row["dt"]) for row in rows.to_pylist())))
    path = newest(table, "A", "L1")["path"]
    table._storage.delete(path)
    done = reopen(table._storage, table._clock).cluster()
    [problem] = done.damaged
    assert path in problem
    assert f"left out as damaged: {problem}" in str(done)
    assert path in caplog.text


def test_a_plan_of_which_all_is_damaged_ends_without_a_change():
    table = loaded(partition_by=(), buckets=1)
    planned = table.schedule_compaction()
    table.upsert(batch(("a1", 7, 7, "A")))
    file = next(f for f in table.files().to_pylist() if f["level"] == "L0")
    table._storage.put(file["path"], bytes(file["size_bytes"]))
    hurt = reopen(table._storage, table._clock)
    [done] = hurt.compact(instant=planned.instant.requested)
    assert (done.full, len(done.damaged)) == (0, 1)
    assert len(hurt.repair(drop_lost=True).done.dropped) == 1
    hurt.upsert(A)
    assert len(user_rows(hurt)) == 20


def test_two_base_files_of_which_nobody_knows_which_counts_are_ended():
    table = loaded()
    storage = table._storage
    path = newest(table, "A", "L1")["path"]
    data, name = storage.read(path), parse_data_name(path.rpartition("/")[2])
    storage.delete(path)
    for log in [e.path for e in storage.list("A") if name.file_id in e.path]:
        storage.delete(log)
    for token in ("1-0-0", "2-0-0"):
        old = BaseFileName(name.file_id, token, "20000101000000000").encode()
        storage.put(f"A/{old}", data)
    hurt = reopen(storage, table._clock)
    with pytest.raises(CorruptError, match="two base files of one file group"):
        hurt.read(where="dt = 'A'")
    assert hurt.read(where="dt = 'B'").read_all().num_rows == 20
    assert len(hurt.repair(drop_lost=True).done.dropped) == 1
    hurt.upsert(A)
    assert len(user_rows(hurt)) == 40


FLIPS = {16: 32, 17: 32, 18: 32, 21: 32, 27: 32, 54: 32}  # version, block type, header keys


@pytest.mark.parametrize("at", FLIPS)
def test_a_log_of_a_newer_release_or_damaged_has_a_way_out(at):
    table = loaded(buckets=1)
    storage = table._storage
    path = newest(table, "A", "L0")["path"]
    data = bytearray(storage.read(path))
    data[at] ^= FLIPS[at]
    storage.put(path, bytes(data))
    hurt = reopen(storage, table._clock)
    with pytest.raises(UnsupportedError, match="a newer release wrote it, or it is damaged"):
        hurt.read().read_all()
    with pytest.warns(DamageWarning, match="leaves out 1 damaged file slice"):
        rows = hurt.read(on_damage="skip").read_all()
    assert set(rows.column("dt").to_pylist()) == {"B"}
    [finding] = [f for f in hurt.verify() if f.severity is Severity.ERROR]
    assert finding.path == path
    assert "a newer release wrote it, or it is damaged" in finding.message
    assert "newer release" in finding.advice
    assert "repair --drop-lost" in finding.advice
    assert hurt.repair(dry_run=True).plan.steps == ()
    [done] = hurt.compact("full")
    assert (done.full, len(done.damaged)) == (1, 1)
    assert hurt.compact("log") == ()
    [dropped] = hurt.repair(drop_lost=True, keep_readable=at == 21).done.dropped
    assert dropped.rows_kept == (20 if at == 21 else 0)
    assert {row["dt"] for row in user_rows(hurt).values()} == ({"A", "B"} if at == 21 else {"B"})
    assert hurt.verify().errors == 0
