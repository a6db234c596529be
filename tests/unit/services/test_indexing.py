"""Compaction of secondary indexes, and what archiving, rolling back and restoring leave of them."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lakebed
from lakebed.errors import CorruptError, DamageWarning, InvalidError, NotFoundError
from lakebed.expr.constraints import constraints_of
from lakebed.expr.predicate import Predicate
from lakebed.format.names.meta_columns import RECORD_KEY
from lakebed.index.secondary.definition import IndexDefinition, parse_definitions
from lakebed.index.secondary.entries import (
    ENTRY_KEY,
    find_entries,
    make_entries,
    sort_entries,
    write_entries,
)
from lakebed.index.secondary.manifest import CommitRuns, put_manifest
from lakebed.index.secondary.open_index import OpenIndex, index_folder, open_indexes
from lakebed.index.secondary.ranges import key_ranges
from lakebed.model.clock import ManualClock
from lakebed.model.executor import LocalExecutor
from lakebed.services.indexing.build import create_index
from lakebed.services.indexing.check import check_index
from lakebed.services.indexing.compact import compact_index
from lakebed.services.indexing.parts import EVERYTHING, merge_parts
from lakebed.services.verify.findings import Code
from lakebed.services.verify.plan import plan_repair
from lakebed.storage.objects import memory_storage
from lakebed.table.config.properties_file import update_properties
from lakebed.table.config.table_config import DROPPED_COLUMNS
from support.faulty import FaultyStorage
from support.indexes import check_indexes, unindexed
from support.tables import batch, reopen, user_rows
from support.tables import make as make_plain

SCHEMA = pa.schema([("uuid", pa.string()), ("ts", pa.int64()), ("city", pa.string())])
BY_HAND = {"lakebed.index.compact.inline": "false"}
SHORT = {
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
    "hoodie.clean.commits.retained": "1",
    "hoodie.compact.inline.max.delta.commits": "1",
    "lakebed.clean.min.age.seconds": "0",
}


def rows(given: dict[str, str | None], ts: int = 1) -> pa.Table:
    return pa.table(
        {"uuid": list(given), "ts": [ts] * len(given), "city": list(given.values())}, SCHEMA
    )


def make(path: str, properties: dict[str, str] | None = None, **how):
    settled = {"key": "uuid", "ordering": "ts", "buckets": 2} | how
    return lakebed.create_table(
        None,
        f"memory://indexing/{path}",
        "uuid STRING, ts BIGINT, city STRING",
        properties=properties or {},
        **settled,
    )


def opened(table) -> OpenIndex:
    (index,) = open_indexes(table._snapshot(None))
    assert isinstance(index, OpenIndex), index
    return index


def entries(table) -> list[tuple[str, str]]:
    """Return what all runs of the index hold, as value and key."""
    index = opened(table)
    found = [
        (row[ENTRY_KEY][1:].partition(b"\0\0")[0].decode(), row[RECORD_KEY])
        for run in index.runs
        for batch in find_entries(index.storage, run.path, [EVERYTHING])
        for row in batch.to_pylist()
    ]
    return sorted(found)


def candidates(table, city: str) -> set[str]:
    index = opened(table)
    predicate = Predicate.parse(f"city = '{city}'", SCHEMA)
    ranges = key_ranges(["city"], index.kinds, constraints_of(predicate, SCHEMA, exact=True))
    return set(index.find(ranges.ranges, 1000).keys.column(RECORD_KEY).to_pylist())


def found(table, where: str) -> set[str]:
    """Return the keys of the rows that a read through the index returns."""
    assert any(note.used for note in table.explain(where=where).indexes)
    return set(table.read(where=where).read_all().column("uuid").to_pylist())


@pytest.mark.parametrize("table_type", ["MERGE_ON_READ", "COPY_ON_WRITE"])
def test_the_example_of_the_rfc_of_secondary_indexes(table_type):
    table = make(f"example-{table_type}", table_type=table_type)
    table.bulk_insert(
        rows({"c8": "chennai", "99": "los-angeles", "98": "los-angeles", "30": "sfo", "29": "sfo"})
    )
    table.create_index("by_city", ["city"])
    table.delete([{"uuid": "29"}])
    table.upsert(rows({"e3": "chennai", "98": "austin"}, 2))
    assert candidates(table, "los-angeles") == {"98", "99"}
    table.compact_index("by_city")
    assert entries(table) == [
        ("austin", "98"),
        ("chennai", "c8"),
        ("chennai", "e3"),
        ("los-angeles", "99"),
        ("sfo", "30"),
    ]


def test_a_row_that_returns_to_its_first_value_keeps_an_entry():
    table = make("returns")
    table.bulk_insert(rows({"k": "rome", "l": "lima"}))
    table.create_index("by_city", ["city"])
    table.upsert(rows({"k": "oslo"}, 2))
    table.compact()
    table.compact_index("by_city")
    assert entries(table) == [("lima", "l"), ("oslo", "k")]
    table.upsert(rows({"k": "rome"}, 3))
    table.compact()
    check_indexes(table, covered=True)
    table.compact_index("by_city")
    assert entries(table) == [("lima", "l"), ("rome", "k")]


def test_a_late_row_that_loses_leaves_the_value_that_stands():
    table = make("late")
    table.bulk_insert(rows({"k": "rome"}, 5))
    table.create_index("by_city", ["city"])
    table.upsert(rows({"k": "oslo"}, 3))
    table.compact_index("by_city")
    check_indexes(table, covered=True)
    assert entries(table) == [("rome", "k")]


def test_a_base_row_that_wins_again_keeps_its_entry():
    # Hudi merges the logs with each other first: after a delete without an ordering value and a
    # row with a low one, the row of the base file stands again.
    table = make("again", BY_HAND, layout="default")
    table.bulk_insert(rows({"k": "rome"}, 10))
    table.create_index("by_city", ["city"])
    table.delete([{"uuid": "k"}])
    table.compact_index("by_city")
    table.upsert(rows({"k": "oslo"}, 5))
    check_indexes(table, covered=True)


@pytest.mark.parametrize("version", [8, 9, 10])
@pytest.mark.parametrize("settle", ["compact", "build"])
def test_a_row_that_wins_only_once_a_pending_compaction_has_run_has_an_entry(settle, version):
    # The delete and the base file become a new base file, without the key: only then does the late
    # row stand, which loses to the old base file until the plan is executed.
    table = make(f"pending-{settle}-{version}", BY_HAND, layout="default", table_version=version)
    table.bulk_insert(rows({"k": "rome", "other": "lima"}, 5))
    table.create_index("by_city", ["city"])
    table.create_index("by_both", ["city", "ts"])
    table.delete([{"uuid": "k"}])
    assert table.schedule_compaction(options={"hoodie.compact.inline.max.delta.commits": "1"})
    table.upsert(rows({"k": "oslo"}, 2))
    for index in table.indexes():
        if settle == "compact":
            table.compact_index(index.name)
        else:
            table.drop_index(index.name)
            table.create_index(index.name, index.columns)
    assert found(table, "city = 'rome'") == {"k"}
    table.compact()
    check_indexes(table, covered=True)
    assert found(table, "city = 'oslo'") == {"k"}
    assert all(index.open_entries == 0 for index in table.indexes())


@pytest.mark.parametrize("settle", ["compact", "build"])
def test_a_late_row_that_gives_a_column_to_a_partial_update_leaves_a_candidate(settle):
    # In Hudi's layout a row that loses supplies the columns that the winner lacks.
    table = make(f"gives-{settle}", BY_HAND, layout="default", table_version=10, buckets=1)
    table.bulk_insert(rows({"k": "rome", "other": "lima"}))
    table.create_index("by_both", ["city", "ts"])
    table.update_columns(pa.table({"uuid": ["k"], "ts": [5]}))
    if settle == "compact":
        table.compact_index("by_both")
    else:
        table.drop_index("by_both")
        table.create_index("by_both", ["city", "ts"])
    assert table.indexes()[0].open_entries == 1
    table.upsert(rows({"k": "oslo"}, 3))
    check_indexes(table, covered=True)
    assert found(table, "city = 'oslo' AND ts = 5") == {"k"}
    # The row of a new base file has all columns.
    table.compact()
    table.compact_index("by_both")
    check_indexes(table, covered=True)
    assert table.indexes()[0].open_entries == 0


@pytest.mark.parametrize("operation", ["insert", "bulk_insert"])
def test_a_key_in_two_file_groups_keeps_both_entries_if_one_group_is_read_whole(operation):
    small = {"hoodie.parquet.small.file.limit": "0"}
    table = make(f"twice-{operation}", BY_HAND | small, index="simple", buckets=None)
    for key in ("k", "l", "m", "n"):
        table.bulk_insert(rows({key: "rome"}))
    table.create_index("by_city", ["city"])
    with unindexed(table):
        getattr(table, operation)(rows({"k": "oslo"}))
    assert table.compact_index("by_city").changed == 1
    check_indexes(table, covered=True)
    assert found(table, "city = 'rome'") == {"k", "l", "m", "n"}
    assert found(table, "city = 'oslo'") == {"k"}
    # What another engine replaced is still recognized as stale.
    with unindexed(table):
        table.upsert(rows({"l": "kyiv"}, 2))
    table.compact_index("by_city")
    check_indexes(table, covered=True)
    assert candidates(table, "rome") == {"k", "m", "n"}


def test_hot_keys_leave_few_stale_and_no_open_entries():
    table = make("hot", table_version=10)
    table.bulk_insert(rows({f"k{n}": f"v{n % 7}" for n in range(2000)}))
    table.create_index("by_city", ["city"])
    shares, left_open = [], 0
    for n in range(50):
        table.upsert(rows({f"k{m}": f"w{n}" for m in range(20)}, n + 2))
        if n % 10 == 0:
            table.update_columns(pa.table({"uuid": ["k1"], "ts": [n + 2]}))
        [info] = table.indexes()
        counted = check_index(table._snapshot(None), opened(table), LocalExecutor(1))
        stale = info.entries - info.open_entries - counted.current
        # What is shown is an upper bound, for which no row is read.
        assert stale <= info.changed_keys
        left_open = max(left_open, info.open_entries)
        shares.append(stale / info.entries)
        assert info.runs <= 12
    check_indexes(table, covered=True)
    assert left_open == 1
    # A hundredth of the keys in each upsert, and at most 9 upserts since the last compaction.
    assert 0.05 < max(shares) < 0.1, shares
    table.compact_index("by_city")
    assert table.indexes()[0].open_entries == 0
    assert len(entries(table)) <= 2020


def test_the_delta_is_merged_into_the_base_runs_when_it_has_grown():
    table = make("grown", BY_HAND)
    table.bulk_insert(rows({f"k{n}": "rome" for n in range(100)}))
    table.create_index("by_city", ["city"])
    table.upsert(rows({f"k{n}": "oslo" for n in range(5)}, 2))
    assert table.compact_index("by_city").changed == 5
    assert (len(opened(table).manifest.base), opened(table).manifest.delta.deleted[0].entries) == (
        1,
        5,
    )
    assert len(entries(table)) == 105
    table.upsert(rows({f"k{n}": "kyiv" for n in range(4, 20)}, 3))
    table.compact_index("by_city")
    assert opened(table).manifest.delta.files == ()
    assert len(entries(table)) == 100
    check_indexes(table, covered=True)


def test_a_compaction_covers_what_another_engine_wrote():
    table = make("caught-up", BY_HAND)
    table.bulk_insert(rows({f"k{n}": "rome" for n in range(20)}))
    table.create_index("by_city", ["city"])
    with unindexed(table):
        table.upsert(rows({"k1": "oslo", "new": "oslo"}, 2))
    assert table.indexes()[0].uncovered > 0
    table.compact_index("by_city")
    check_indexes(table, covered=True)
    assert candidates(table, "oslo") == {"k1", "new"}


def test_replaced_partitions_leave_no_entries():
    table = make("replaced", BY_HAND)
    table.bulk_insert(rows({f"k{n}": "rome" for n in range(20)}))
    table.create_index("by_city", ["city"])
    table.insert_overwrite(rows({"x": "oslo"}))
    check_indexes(table, covered=True)
    table.compact_index("by_city")
    assert entries(table) == [("oslo", "x")]


def test_archiving_keeps_the_runs_of_archived_commits():
    table = make("archived", BY_HAND)
    table.bulk_insert(rows({"a": "rome"}))
    table.create_index("by_city", ["city"])
    with unindexed(table):
        table.upsert(rows({"b": "lima"}))
    for n in range(6):
        table.upsert(rows({f"k{n}": "oslo"}))
    assert table.archive(options=SHORT) is not None
    check_indexes(table)
    assert candidates(table, "oslo") == {f"k{n}" for n in range(6)}
    assert opened(table).manifest.whole
    table.compact_index("by_city")
    check_indexes(table, covered=True)
    assert len(entries(table)) == 8


def test_a_commit_that_is_rolled_back_takes_its_entries_along():
    table = make("rolled", BY_HAND)
    table.bulk_insert(rows({"a": "rome", "b": "lima"}))
    table.create_index("by_city", ["city"])
    commit = table.upsert(rows({"a": "oslo"}, 2))
    table.rollback(commit.instant)
    check_indexes(table, covered=True)
    assert candidates(table, "oslo") == set()
    commit = table.upsert(rows({"a": "oslo"}, 2))
    table.compact_index("by_city")
    table.rollback(commit.instant)
    assert "rolled back" in table.indexes()[0].state
    table.create_index("other", ["ts"])
    assert [one.state == "ready" for one in table.indexes()] == [False, True]


def test_a_restored_table_does_not_use_entries_of_the_future():
    table = make("restored", BY_HAND)
    table.bulk_insert(rows({"a": "rome"}))
    table.savepoint()
    saved = table.savepoints()[0].instant
    table.upsert(rows({"a": "oslo"}, 2))
    table.create_index("by_city", ["city"])
    table.restore(saved)
    assert "restored" in table.indexes()[0].state
    for n in range(6):
        table.upsert(rows({f"k{n}": "oslo"}))
    table.delete_savepoint(saved)
    table.archive(options=SHORT)
    assert "missing" in table.indexes()[0].state


def test_an_unknown_index_is_not_compacted():
    with pytest.raises(NotFoundError, match="its indexes are: none"):
        make("unknown").compact_index("x")


def test_verify_compares_the_index_with_the_rows_and_repair_builds_it_again():
    table = make("verified", BY_HAND)
    table.bulk_insert(rows({"a": "rome", "b": "lima"}))
    table.create_index("by_city", ["city"])
    assert table.verify().is_sound
    table.upsert(rows({"a": "oslo"}, 2))
    (note,) = table.verify().findings
    assert (note.code, note.severity) == (Code.INDEX_STALE, "note")
    # A run that lacks an entry, as no crash leaves it.
    (run,) = opened(table).manifest.commits.popitem()[1].entries
    write_entries(table._storage, run.path, [])
    (found,) = table.verify(quick=True).findings
    assert found.code is Code.INDEX_UNUSABLE
    assert "expected 1 entries, found 0" in found.message
    manifest = opened(table).manifest
    commits = {at: CommitRuns() for at in manifest.commits}
    put_manifest(table._storage, folder_of(table), replace(manifest, commits=commits))
    found, _ = table.verify().findings
    assert (found.code, found.key) == (Code.INDEX_INCOMPLETE, ":a")
    assert table.repair(plan_repair(table.verify())).done is not None
    assert table.verify().is_sound
    check_indexes(table, covered=True)


def rewrite_base(table, change) -> None:
    """Replace the entries of the only base run, as no write does."""
    manifest = opened(table).manifest
    (run,) = manifest.base
    held = sort_entries(find_entries(table._storage, run.path, [EVERYTHING]))
    changed = write_entries(table._storage, run.path, [sort_entries(change(held))])
    put_manifest(table._storage, folder_of(table), replace(manifest, base=(changed,)))


def entry(city: str, key: str) -> pa.RecordBatch:
    [batch] = rows({key: city}).rename_columns([RECORD_KEY, "ts", "city"]).to_batches()
    return make_entries(batch, ["city"], "")


@pytest.mark.parametrize("table_type", ["MERGE_ON_READ", "COPY_ON_WRITE"])
def test_verify_compares_entries_one_by_one_in_both_directions(table_type):
    table = make(f"both-ways-{table_type}", BY_HAND, table_type=table_type)
    more = {f"x{n}": "riga" for n in range(60)}
    table.bulk_insert(rows({"a": "rome", "b": "lima", "c": "oslo", "d": "rome", **more}))
    table.create_index("by_city", ["city"])
    table.upsert(rows({"a": "bern"}, 2))
    table.compact_index("by_city")
    assert opened(table).manifest.delta.deleted
    table.upsert(rows({"c": "bern"}, 3))
    # The entries of rome for a, and of oslo for c, are explained by later writes.
    [note] = table.verify().findings
    assert (note.code, note.severity) == (Code.INDEX_STALE, "note")
    assert "2 of 66 entries (3.0%) are stale" in note.message
    rewrite_base(table, lambda held: [held, entry("nowhere", "b")])
    spare, note = table.verify().findings
    assert (spare.code, spare.severity, spare.key) == (Code.INDEX_SUPERFLUOUS, "warning", ":b")
    assert note.code is Code.INDEX_STALE
    # As many entries as rows do not mean that they are the right ones.
    d = entry("rome", "d").column(ENTRY_KEY)[0]
    lose = lambda held: [held.filter(pc.not_equal(held.column(ENTRY_KEY), d))]  # noqa: E731
    rewrite_base(table, lose)
    lost, spare, note = table.verify().findings
    assert (lost.code, lost.severity, lost.key) == (Code.INDEX_INCOMPLETE, "error", ":d")
    assert (spare.code, note.code) == (Code.INDEX_SUPERFLUOUS, Code.INDEX_STALE)
    table.repair(plan_repair(table.verify()))
    assert list(table.verify().findings) == []
    check_indexes(table, covered=True)


@pytest.mark.parametrize("gone", ["manifest.json", "base-"])
def test_a_lost_file_of_an_index_is_a_warning_until_repair(gone):
    table = make(f"lost-{gone[:4]}", BY_HAND)
    table.bulk_insert(rows({"a": "rome", "b": "lima"}))
    table.create_index("by_city", ["city"])
    (path,) = (e.path for e in table._storage.list(folder_of(table)) if f"/{gone}" in e.path)
    table._storage.delete(path)
    (found,) = table.verify(quick=True).findings
    assert (found.code, found.severity) == (Code.INDEX_UNUSABLE, "warning")
    table.upsert(rows({"c": "oslo"}))
    assert len(table.repair().done.done) == 1
    check_indexes(table, covered=True)
    assert table.verify(quick=True).is_sound


def test_a_damaged_manifest_is_a_warning_until_repair():
    table = make("damaged-manifest", BY_HAND)
    table.bulk_insert(rows({"a": "rome", "b": "lima"}))
    table.create_index("by_city", ["city"])
    path = f"{folder_of(table)}/manifest.json"
    table._storage.put(path, table._storage.read(path).replace(b'"mark": "2', b'"mark": "3'))
    (found,) = table.verify(quick=True).findings
    assert (found.code, found.severity) == (Code.INDEX_UNUSABLE, "warning")
    assert len(table.repair().done.done) == 1
    check_indexes(table, covered=True)
    assert table.verify(quick=True).is_sound


def test_a_rollback_that_another_engine_has_archived_is_noticed():
    table = make("rolled_back_and_archived", BY_HAND)
    table.bulk_insert(rows({"a": "rome", "b": "lima"}))
    table.create_index("by_city", ["city"])
    undone = table.upsert(rows({"a": "oslo"}, 2))
    table.compact_index("by_city")
    path = f"{folder_of(table)}/manifest.json"
    manifest = table._storage.read(path)
    table.rollback(undone.instant)
    for number in range(6):
        table.upsert(rows({"b": f"lima{number}"}, 3 + number))
    table.compact(mode="full")
    table.clean(options=SHORT)
    assert table.archive(options=SHORT) is not None
    assert undone.instant < table._snapshot(None).timeline.first_active
    # Another engine that archives leaves the manifest as it was.
    table._storage.put(path, manifest)
    table = lakebed.open_table(None, "memory://indexing/rolled_back_and_archived")
    assert table.read(where="city = 'rome'").read_all().column("uuid").to_pylist() == ["a"]
    assert "was rolled back" in table.indexes()[0].state


def test_a_column_of_another_type_makes_the_index_unusable_until_repair():
    table = lakebed.create_table(
        None, "memory://indexing/widened", "id STRING, n INT", key="id", properties=BY_HAND
    )
    table.bulk_insert(pa.table({"id": ["a", "b"], "n": pa.array([1, None], pa.int32())}))
    table.create_index("by_n", ["n"])
    wide = pa.table({"id": ["b"], "n": pa.array([2.5], pa.float64())})
    table.upsert(wide, evolve=True)
    assert "type of a column changed" in table.indexes()[0].state
    table.repair()
    check_indexes(table, covered=True)


def test_a_float_that_becomes_a_double_is_found_by_the_value_that_it_has_then():
    table = lakebed.create_table(
        None, "memory://indexing/doubled", "id STRING, x FLOAT", key="id", properties=BY_HAND
    )
    table.bulk_insert(pa.table({"id": ["a"], "x": pa.array([0.1], pa.float32())}))
    table.create_index("by_x", ["x"])
    table.upsert(pa.table({"id": ["b"], "x": pa.array([0.1], pa.float64())}), evolve=True)
    for _ in range(2):
        # An older float is read as the double of its decimal string, as in Hudi.
        found = table.read(where="x = 0.1D").read_all()
        assert sorted(found.column("id").to_pylist()) == ["a", "b"]
        table.repair()
    check_indexes(table, covered=True)


class Interrupted(LocalExecutor):
    """An executor that lets others work once, before the first tasks of a stage."""

    def __init__(self, stage: str, deed) -> None:
        super().__init__(1)
        self.stage, self.deed = stage, deed

    def run(self, task, items, label, report=None):
        if self.deed is not None and label.startswith(self.stage):
            deed, self.deed = self.deed, None
            deed()
        return super().run(task, items, label, report)


@pytest.mark.parametrize("archives", [False, True])
@pytest.mark.parametrize("stage", ["compact", "merge"])
def test_a_compaction_is_discarded_if_a_commit_that_it_read_was_rolled_back(stage, archives):
    table = make(f"race-{stage}-{archives}", BY_HAND, buckets=1)
    table.bulk_insert(rows({"k": "rome", "l": "lima"}))
    table.create_index("by_city", ["city"])
    undone = table.upsert(rows({"k": "oslo"}, 2))

    def deed() -> None:
        table.rollback(undone.instant)
        if archives:
            for number in range(6):
                table.upsert(rows({"l": "lima"}, 3 + number))
            table.compact(mode="full")
            table.upsert(rows({"l": "lima"}, 20))
            assert table.archive(options=SHORT) is not None
            assert undone.instant < table._snapshot(None).timeline.first_active

    target = replace(table._target(), executor=Interrupted(stage, deed))
    assert compact_index(target, "by_city", force=True) is None
    assert found(table, "city = 'rome'") == {"k"}
    check_indexes(table, covered=True)


@pytest.mark.parametrize("stage", ["compact", "merge"])
def test_of_two_compactions_at_once_one_has_no_result(stage):
    table = make(f"two-{stage}", BY_HAND)
    table.bulk_insert(rows({"k": "rome", "l": "lima"}))
    table.create_index("by_city", ["city"])
    table.upsert(rows({"k": "oslo"}, 2))
    done = []
    others = Interrupted(stage, lambda: done.append(table.compact_index("by_city")))
    assert compact_index(replace(table._target(), executor=others), "by_city", force=True) is None
    assert done[0].changed == 1
    check_indexes(table, covered=True)


@pytest.mark.parametrize("stage", ["build", "merge"])
def test_of_two_builds_at_once_both_succeed(stage):
    table = make(f"builds-{stage}", BY_HAND)
    table.bulk_insert(rows({"k": "rome", "l": "lima"}))

    def others() -> None:
        table.create_index("by_city", ["city"], if_not_exists=True)
        table.upsert(rows({"k": "oslo"}, 2))

    target = replace(table._target(), executor=Interrupted(stage, others))
    assert create_index(target, "by_city", ["city"])[0].entries == 3
    check_indexes(table, covered=True)


MEANWHILE = {
    "upsert": lambda t, _: t.upsert(rows({"k": "oslo", "new": "oslo"}, 9)),
    "delete": lambda t, _: t.delete([{"uuid": "l"}]),
    "table compaction": lambda t, _: t.compact(mode="full"),
    "replacement": lambda t, _: t.insert_overwrite(rows({"k": "bern"}, 9)),
    "rollback": lambda t, commit: t.rollback(commit.instant),
}


@pytest.mark.parametrize("deed", MEANWHILE)
@pytest.mark.parametrize("stage", ["build", "merge"])
def test_a_build_while_writers_go_on_misses_nothing(stage, deed):
    table = make(f"meanwhile-{stage}-{deed}", BY_HAND | {"hoodie.compact.inline": "false"})
    table.bulk_insert(rows({"k": "rome", "l": "lima", "m": "lima"}))
    commit = table.upsert(rows({"m": "rome"}, 2))
    others = Interrupted(stage, lambda: MEANWHILE[deed](table, commit))
    create_index(replace(table._target(), executor=others), "by_city", ["city"])
    check_indexes(table, covered=True)
    everything = table.to_arrow()
    for city in ("rome", "lima", "oslo", "bern"):
        wanted = everything.filter(pc.equal(everything["city"], city))["uuid"].to_pylist()
        assert found(table, f"city = '{city}'") == set(wanted)


def test_losing_every_file_of_the_indexes_loses_no_definition():
    table = make("all-lost", BY_HAND)
    table.bulk_insert(rows({"k": "rome", "l": "lima"}))
    table.create_index("by_city", ["city"])
    for entry_ in list(table._storage.list(".hoodie/lakebed/index")):
        table._storage.delete(entry_.path)
    again = lakebed.open_table(None, table.path)
    [info] = again.indexes()
    assert (info.name, info.columns) == ("by_city", ("city",))
    assert "its manifest is missing; run repair()" in info.state
    assert again.to_arrow(where="city = 'rome'")["uuid"].to_pylist() == ["k"]
    again.repair()
    assert found(again, "city = 'rome'") == {"k"}
    check_indexes(again, covered=True)


def test_all_entries_of_a_value_are_in_one_base_run():
    # As many entries as several base runs hold, of few values.
    count = 2_200_000
    numbers = np.arange(count)
    cities = pa.array(["a", "b", "c", "d", "e"]).take(pa.array(numbers * 5 // count))
    keys = pc.utf8_lpad(pc.cast(pa.array(numbers), pa.string()), 7, "0")
    batch_ = pa.RecordBatch.from_arrays([keys, cities], names=[RECORD_KEY, "city"])
    storage = memory_storage()
    part = write_entries(storage, "part", [make_entries(batch_, ["city"], "")], compress=False)
    definition = IndexDefinition("by_city", ("city",), ("string",), "1")
    runs = merge_parts(storage, definition, [pa.string()], [part], "base", LocalExecutor(1))
    values = [
        {key[1:2] for b in find_entries(storage, run.path, [EVERYTHING]) for key in ends(b)}
        for run in runs
    ]
    assert len(runs) > 1
    assert sum(run.entries for run in runs) == count
    assert sum(map(len, values)) == 5


def ends(entries_: pa.RecordBatch) -> list[bytes]:
    keys = entries_.column(ENTRY_KEY)
    return [keys[0].as_py(), keys[len(keys) - 1].as_py()]


def test_a_rebuilt_index_keeps_no_runs_of_older_commits():
    table = make("rebuilt", BY_HAND)
    table.bulk_insert(rows({"k": "rome"}))
    saved = table.savepoint().instant
    table.create_index("by_city", ["city"])
    table.upsert(rows({"k": "oslo"}, 2))
    table.restore(saved)
    table.upsert(rows({"k": "kyiv"}, 3))
    table.repair()
    names = [e.path.rpartition("/")[2] for e in table._storage.list(folder_of(table))]
    assert [name.partition("-")[0] for name in sorted(names)] == ["base", "manifest.json"]
    table.upsert(rows({"k": "lima"}, 4))
    check_indexes(table, covered=True)


def test_a_handle_goes_on_with_an_index_that_others_compacted_twice(recwarn):
    table = make("held", BY_HAND)
    table.bulk_insert(rows({"k": "rome", "l": "lima"}))
    table.create_index("by_city", ["city"])
    table.upsert(rows({"k": "oslo"}, 2))
    assert found(table, "city = 'oslo'") == {"k"}
    index = opened(table)
    for _ in range(3):
        lakebed.open_table(None, table.path).compact_index("by_city")
    assert found(table, "city = 'oslo'") == {"k"}
    assert index.estimate([EVERYTHING]) == 2
    table.upsert(rows({"k": "kyiv"}, 3))
    for _ in range(2):
        table.compact_index("by_city")
    # It lacks the rows of the older snapshot now.
    assert index.find([EVERYTHING], 10) is None
    assert not recwarn.list


def test_a_damaged_definition_stops_nothing_and_is_dropped_by_its_name():
    table = make("bad-definition", BY_HAND)
    table.bulk_insert(rows({"k": "rome", "l": "lima"}))
    table.create_index("by_city", ["city"])
    table.create_index("by_ts", ["ts"])
    whole = table.config.properties["lakebed.secondary.index.by_city"]
    update_properties(table._storage, {"lakebed.secondary.index.by_city": whole[:-1]})
    with pytest.warns(DamageWarning, match="drop_index.'by_city'."):
        assert "create the index again" in table.indexes()[0].state
    with pytest.warns(DamageWarning, match="drop_index"):
        assert found(table, "ts = 1") == {"k", "l"}
    table.upsert(rows({"k": "oslo"}, 2))
    assert table.compact_index("by_city") is None
    (problem,) = [f for f in table.verify().findings if f.code is Code.INDEX_UNUSABLE]
    assert problem.mend is None
    assert table.repair().done is None
    # If the property is restored, the index knows which rows it lacks.
    update_properties(table._storage, {"lakebed.secondary.index.by_city": whole})
    assert found(table, "city = 'oslo'") == {"k"}
    update_properties(table._storage, {"lakebed.secondary.index.by_city": "[]"})
    table.drop_index("by_city")
    assert [index.name for index in table.indexes()] == ["by_ts"]
    check_indexes(table, covered=True)


def test_an_index_on_a_column_that_was_rolled_back_has_to_be_dropped():
    table = make("gone-column", BY_HAND)
    table.bulk_insert(rows({"k": "rome", "l": "lima"}))
    wide = rows({"k": "oslo"}, 2).append_column("extra", pa.array([7]))
    added = table.upsert(wide, evolve=True)
    table.create_index("by_extra", ["extra"])
    table.rollback(added.instant)
    assert table.indexes()[0].state.endswith(
        "no longer has column 'extra'; call drop_index('by_extra')"
    )
    (problem,) = table.verify().findings
    assert (problem.code, problem.mend) == (Code.INDEX_UNUSABLE, None)
    table.repair()
    table.upsert(rows({"k": "kyiv"}, 3))
    table.drop_index("by_extra")
    assert table.verify().is_sound


def test_an_index_that_cannot_be_used_is_not_compacted(caplog):
    table = lakebed.create_table(None, "memory://indexing/quiet", "id STRING, x FLOAT", key="id")
    table.bulk_insert(pa.table({"id": ["a"], "x": pa.array([0.1], pa.float32())}))
    table.create_index("by_x", ["x"])
    for number in range(10):
        rows = pa.table({"id": ["b"], "x": pa.array([number], pa.float64())})
        table.upsert(rows, evolve=True)
    assert not caplog.messages
    assert table.compact_index("by_x") is None
    assert "type of a column changed" in caplog.messages[0]
    assert "Manifest" not in caplog.messages[0]


def test_nothing_is_left_of_an_index_whose_build_failed():
    table = make("failed", BY_HAND)
    table.bulk_insert(rows({"k": "rome"}))
    (path,) = table.files().column("path").to_pylist()
    table._storage.delete(path)
    with pytest.raises(CorruptError):
        table.create_index("by_city", ["city"])
    assert table.indexes() == ()
    assert list(table._storage.list(".hoodie/lakebed/index")) == []


def test_a_column_is_not_dropped_if_an_index_on_it_appears_meanwhile():
    storage, clock = Meanwhile(memory_storage()), ManualClock(step_ms=1)
    mode = {"hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL"}
    table = make_plain(storage, clock, properties=BY_HAND | mode)
    table.upsert(batch(("k", 1, 1, "p")))
    storage.place = "names .hoodie/lakebed/files"
    storage.deed = lambda: reopen(storage, clock).create_index("by_v", ["v"])
    with pytest.raises(InvalidError, match="drop_index"):
        table.drop_column("v")
    assert storage.deed is None
    assert "v" in reopen(storage, clock).schema.names
    check_indexes(reopen(storage, clock), covered=True)


def test_a_column_that_is_being_dropped_takes_no_index():
    table = make("dropping")
    update_properties(table._storage, {DROPPED_COLUMNS: '["city"]'})
    with pytest.raises(InvalidError, match=r"call drop_column.'city'. again"):
        table.create_index("by_city", ["city"])


def test_an_interrupted_build_is_resumed_and_is_not_used_before():
    table = make("resumed", BY_HAND)
    table.bulk_insert(rows({f"k{n}": "rome" for n in range(10)}))
    target = table._target()
    with pytest.raises(KeyboardInterrupt):
        create_index(replace(target, executor=Stops(1)), "by_city", ["city"])
    assert "being built" in table.indexes()[0].state
    parts = [e.path for e in table._storage.list(folder_of(table)) if "/parts/" in e.path]
    assert parts
    table.upsert(rows({"new": "oslo"}))
    assert table.create_index("by_city", ["city"], if_not_exists=True).entries == 11
    check_indexes(table, covered=True)
    assert not [e for e in table._storage.list(folder_of(table)) if "/parts/" in e.path]


class Stops(LocalExecutor):
    """An executor that dies after some tasks."""

    def __init__(self, tasks: int) -> None:
        super().__init__(1)
        self.tasks = tasks

    def run(self, task, items, label, report=None):
        for result in super().run(task, items, label, report):
            if not self.tasks:
                raise KeyboardInterrupt
            self.tasks -= 1
            yield result


def folder_of(table) -> str:
    (definition,) = parse_definitions(table._snapshot(None).config.properties)
    return index_folder(table.config, definition)


class Meanwhile(FaultyStorage):
    """Lets others work, once, before an operation: when the first data file of a write appears."""

    deed = None
    place = "close p/"

    def run(self, op, act):
        if self.place in op and self.deed is not None:
            deed, self.deed = self.deed, None
            deed()
        return super().run(op, act)


def test_a_late_delete_brings_back_a_row_that_had_lost():
    mode = {"hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL"}
    storage, clock = memory_storage(), ManualClock(step_ms=1)
    kind = {"table_type": "MERGE_ON_READ", "ordering": ("ts",), "buckets": 1}
    first = make_plain(storage, clock, **kind, properties=BY_HAND | mode)
    first.upsert(batch(("k", 1, 12, "p"), ("l", 3, 1, "p")))
    first.create_index("by_v", ["v"])
    slow = Meanwhile(storage)

    def others() -> None:
        table = reopen(storage, clock)
        table.upsert(batch(("k", 2, 10, "p")))
        table.compact_index("by_v")

    slow.deed = others
    reopen(slow, clock).delete([{"id": "k", "dt": "p"}])
    table = reopen(storage, clock)
    # The delete is replayed before the row with the lower ordering value, which stands again.
    assert user_rows(table)["p", "k"]["v"] == 2
    check_indexes(table, covered=True)
    assert table.indexes()[0].open_entries == 1


def test_threads_that_share_a_table_do_not_take_the_indexes_of_an_older_snapshot():
    storage, clock = Meanwhile(memory_storage()), ManualClock(step_ms=1)
    storage.place = "manifest.json"
    table = make_plain(storage, clock, buckets=1, properties=BY_HAND)
    table.upsert(batch(*((f"k{n}", n, 1, "p") for n in range(20))))
    table.create_index("by_v", ["v"])

    def others() -> None:
        table.upsert(batch(("k1", 777, 2, "p")))
        assert table.schema is not None  # another thread begins a read

    storage.deed = others
    assert table.read(where="v = 7").read_all().num_rows == 1
    assert storage.deed is None
    assert table.read(where="v = 777").read_all().column("id").to_pylist() == ["k1"]
