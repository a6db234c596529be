"""Runs of small commits are merged without a lookup; queries, rollbacks and compactions stay right."""

from dataclasses import replace

import pytest

from lakebed.services.indexing.compact import compact_index
from support.city_index import BY_HAND, Interrupted, candidates, found, make, opened, rows
from support.indexes import check_indexes

INLINE = {"lakebed.index.compact.inline": "true"}


def upserts(table, count: int, ts: int = 2):
    """Upsert one row at a time, each to a city of its own; return the commits."""
    return [table.upsert(rows({f"k{n}": f"new{n}"}, ts)) for n in range(count)]


def filled(path: str, properties: dict[str, str] | None = None):
    table = make(path, properties)
    table.bulk_insert(rows({f"k{n}": f"old{n % 5}" for n in range(500)}))
    table.create_index("by_city", ["city"])
    return table


def test_nine_small_commits_become_one_run():
    table = filled("merged")
    upserts(table, 8)
    assert not opened(table).manifest.merged
    table.upsert(rows({"k8": "new8"}, 2))
    held = opened(table).manifest
    assert [run.entries for one in held.merged for run in one.runs.entries] == [9]
    assert not held.commits
    assert held.delta.files == ()
    check_indexes(table, covered=True)
    for n in range(9):
        assert found(table, f"city = 'new{n}'") == {f"k{n}"}
    assert "k0" in candidates(table, "old0"), "a merge looks no row up"


def test_deletes_and_open_keys_are_merged_by_kind():
    table = filled("kinds")
    upserts(table, 3)
    table.delete([{"uuid": "k0"}])
    table.delete([{"uuid": "k1"}])
    for n in range(3):
        table.update_columns(rows({f"k{n + 10}": "x"}, 3).select(["uuid", "ts"]))
    upserts(table, 6, 4)
    (merged,) = opened(table).manifest.merged
    assert sum(run.entries for run in merged.runs.deleted) == 2
    table.compact_index("by_city")
    held = opened(table).manifest
    assert not held.merged
    assert not held.commits
    check_indexes(table, covered=True)


def test_a_merged_commit_that_is_rolled_back_leaves_only_candidates():
    table = filled("undone")
    done = upserts(table, 9)
    assert opened(table).manifest.merged
    table.rollback(done[-1].instant)
    check_indexes(table, covered=True)
    assert found(table, "city = 'old3'") >= {"k8"}
    assert "k8" in candidates(table, "new8")
    table.compact_index("by_city")
    assert candidates(table, "new8") == set()
    check_indexes(table, covered=True)


@pytest.mark.parametrize("stage", ["compact", "merge"])
def test_a_merge_during_a_compaction_loses_no_entry(stage):
    table = filled(f"during-{stage}", BY_HAND)
    upserts(table, 3)

    def others() -> None:
        table.set_properties(INLINE)
        upserts(table, 9, 5)

    target = replace(table._target(), executor=Interrupted(stage, others))
    assert compact_index(target, "by_city", force=True) is not None
    held = opened(table).manifest
    assert [len(one.commits) for one in held.merged] == [9]
    check_indexes(table, covered=True)
    for n in range(9):
        assert found(table, f"city = 'new{n}'") == {f"k{n}"}


def test_services_beside_the_writers_look_rows_up_before_a_writer_has_to():
    table = make("served")
    table.bulk_insert(rows({f"k{n}": f"old{n % 5}" for n in range(20_000)}))
    table.create_index("by_city", ["city"])
    table.upsert(rows({f"k{n}": "new" for n in range(10_100)}, 2))
    assert opened(table).manifest.commits
    table.run_services()
    assert not opened(table).manifest.commits
    check_indexes(table, covered=True)
