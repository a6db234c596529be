"""Secondary indexes after rollbacks, restores, changed types and damage, until they are rebuilt."""

from dataclasses import replace

import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import DamageWarning
from lakebed.index.secondary.entries import write_entries
from lakebed.index.secondary.manifest import CommitRuns, put_manifest
from lakebed.services.verify.findings import Code
from lakebed.services.verify.plan import plan_repair
from lakebed.table.config.properties_file import update_properties
from support.city_index import (
    BY_HAND,
    SHORT,
    candidates,
    folder_of,
    found,
    make,
    opened,
    rows,
)
from support.indexes import check_indexes


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
