"""Where the rows of an index over all partitions go, and what they leave behind."""

import pyarrow as pa
import pytest

from lakebed.errors import CorruptError, UnsupportedError
from lakebed.format.names.meta_columns import RECORD_KEY
from lakebed.index.holders import HOLDERS
from lakebed.merge.run import COMMIT_TIME_DELETE, DELETED, FLAGS
from lakebed.table.files.file_group import FileGroupId, FileSlice
from lakebed.write.partition_moves import route_globally
from support.specs import INSTANT, make_spec
from support.tables import SCHEMA

STAY = {"hoodie.simple.index.update.partition.path": "false"}
# The numbers of these slices are the places of keys.
SLICES = [FileSlice(FileGroupId(partition, f"{partition}-0"), INSTANT, None) for partition in "pqr"]


def spec_of(table_type="COPY_ON_WRITE", **changes):
    return make_spec(index="global_simple", table_type=table_type, **changes)


def rows(*given):
    """Make staged rows of (key, partition, places, flags)."""
    columns = [
        pa.array([key for key, *_ in given], pa.string()),
        pa.array([flags for *_, flags in given], pa.uint8()),
        pa.array([key for key, *_ in given], pa.string()),
        pa.array(range(len(given)), pa.int64()),
        pa.array([1] * len(given), pa.int64()),
        pa.array([partition for _, partition, *_ in given], pa.string()),
        pa.array([places for _, _, places, _ in given], pa.string()),
    ]
    fields = [(RECORD_KEY, pa.string()), (FLAGS, pa.uint8()), *SCHEMA, (HOLDERS, pa.string())]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


def routed(spec, *given):
    """Return (key, partition, file group, flags, waits) of every row that is written."""
    found = route_globally(rows(*given), spec, SLICES)
    columns = [
        found.rows.column(RECORD_KEY),
        found.partitions,
        found.slots,
        found.rows.column(FLAGS),
        found.wait if found.wait is not None else pa.repeat(pa.scalar(False), found.rows.num_rows),
    ]
    return sorted(zip(*(column.to_pylist() for column in columns), strict=True), key=repr)


def test_a_new_key_goes_to_its_own_partition_and_a_known_one_to_its_file_group():
    assert routed(spec_of(), ("new", "p", None, 0), ("old", "q", "1", 0)) == [
        ("new", "p", None, 0, False),
        ("old", "q", "q-0", 0, False),
    ]


def test_a_row_that_moves_is_deleted_where_it_was_and_new_where_it_belongs():
    assert routed(spec_of(), ("k", "p", "1", 0)) == [
        ("k", "p", None, 0, False),
        ("k", "q", "q-0", COMMIT_TIME_DELETE, False),
    ]


def test_a_row_that_is_at_home_too_is_updated_there_and_deleted_elsewhere():
    assert routed(spec_of(), ("k", "p", "0,2", 0)) == [
        ("k", "p", "p-0", 0, False),
        ("k", "r", "r-0", COMMIT_TIME_DELETE, False),
    ]


def test_rows_stay_where_they_are_if_the_table_says_so():
    assert routed(spec_of(properties=STAY), ("k", "p", "1", 0), ("new", "p", None, 0)) == [
        ("k", "q", "q-0", 0, False),
        ("new", "p", None, 0, False),
    ]


def test_a_delete_goes_to_every_place_of_its_key_and_nowhere_without_one():
    assert routed(spec_of(), ("k", None, "0,2", DELETED), ("gone", None, None, DELETED)) == [
        ("k", "p", "p-0", DELETED, False),
        ("k", "r", "r-0", DELETED, False),
    ]


def test_a_row_with_an_ordering_value_waits_for_the_one_that_it_would_replace():
    spec = spec_of(ordering=("ts",))
    assert routed(spec, ("k", "p", "1", 0), ("home", "p", "0", 0)) == [
        ("home", "p", "p-0", 0, False),
        ("k", "q", "q-0", 0, True),
    ]


def test_on_a_merge_on_read_table_rows_of_several_places_wait_together():
    assert routed(spec_of("MERGE_ON_READ"), ("k", "p", "1,2", 0)) == [("k", "", None, 0, True)]


def test_a_rule_that_fills_columns_cannot_follow_a_key_to_another_partition():
    fills = {"hoodie.table.partial.update.mode": "IGNORE_DEFAULTS"}
    spec = spec_of(properties=fills, ordering=("ts",))
    assert routed(spec, ("k", "p", "0", 0)) == [("k", "p", "p-0", 0, False)]
    with pytest.raises(UnsupportedError, match="key 'k' changes its partition"):
        routed(spec, ("k", "p", "1", 0))


def test_places_that_are_no_numbers_are_corrupt():
    with pytest.raises(CorruptError, match="numbers of file slices"):
        routed(spec_of(), ("k", "p", "1,x", 0))
