"""Entries after an index is compacted: those of rows that stand, and of rows that may win again."""

import pyarrow as pa
import pytest

from lakebed.model.clock import ManualClock
from lakebed.storage.objects import memory_storage
from support.city_index import BY_HAND, Meanwhile, candidates, entries, found, make, rows
from support.indexes import check_indexes, unindexed
from support.tables import batch, reopen, user_rows
from support.tables import make as make_plain


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
