"""Compaction of secondary indexes, and what archiving, rolling back and restoring leave of them."""

from dataclasses import replace

import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import NotFoundError
from lakebed.expr.constraints import constraints_of
from lakebed.expr.predicate import Predicate
from lakebed.format.names.meta_columns import RECORD_KEY
from lakebed.index.secondary.definition import parse_definitions
from lakebed.index.secondary.entries import ENTRY_KEY, find_entries, write_entries
from lakebed.index.secondary.manifest import CommitRuns, put_manifest
from lakebed.index.secondary.open_index import OpenIndex, index_folder, open_indexes
from lakebed.index.secondary.ranges import key_ranges
from lakebed.model.clock import ManualClock
from lakebed.model.executor import LocalExecutor
from lakebed.services.indexing.build import create_index
from lakebed.services.indexing.parts import EVERYTHING
from lakebed.services.verify.findings import Code
from lakebed.services.verify.plan import plan_repair
from lakebed.storage.objects import memory_storage
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


def test_hot_keys_leave_few_stale_and_no_open_entries():
    table = make("hot")
    table.bulk_insert(rows({f"k{n}": f"v{n % 7}" for n in range(2000)}))
    table.create_index("by_city", ["city"])
    shares = []
    for n in range(50):
        table.upsert(rows({f"k{m}": f"w{n}" for m in range(20)}, n + 2))
        if n % 10 == 0:
            table.update_columns(pa.table({"uuid": ["k1"], "ts": [n + 2]}))
        info = table.indexes()[0]
        shares.append((info.entries - 2000) / info.entries)
        assert info.runs <= 12
    check_indexes(table, covered=True)
    assert max(shares) < 0.12, shares
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
    """Lets others work, once, when the first data file of a write is about to appear."""

    deed = None

    def run(self, op, act):
        if op.startswith("close p/") and self.deed is not None:
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
