"""Compaction of secondary indexes: when, by whom, and what it leaves."""

from dataclasses import replace

import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import NotFoundError
from lakebed.model.clock import ManualClock
from lakebed.model.executor import LocalExecutor
from lakebed.services.indexing.check import check_index
from lakebed.services.indexing.compact import compact_index
from lakebed.services.indexing.parts import EVERYTHING
from lakebed.storage.objects import memory_storage
from support.city_index import (
    BY_HAND,
    SHORT,
    Interrupted,
    Meanwhile,
    candidates,
    entries,
    found,
    make,
    opened,
    rows,
)
from support.indexes import check_indexes, unindexed
from support.tables import batch
from support.tables import make as make_plain


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
    assert left_open <= 2
    # A hundredth of the keys in each upsert; rows are looked up when a fifth of the entries is new.
    assert 0.05 < max(shares) < 0.18, shares
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


def test_an_unknown_index_is_not_compacted():
    with pytest.raises(NotFoundError, match="its indexes are: none"):
        make("unknown").compact_index("x")


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
