"""The first stage of a write: sorted runs, one range of batches for each file group."""

import pyarrow as pa
import pytest

from lakebed.commit.rollback import TEMP_FOLDER
from lakebed.errors import KeyValueError
from lakebed.format.names.meta_columns import RECORD_KEY
from lakebed.model.executor import TaskId
from lakebed.table.config.merge_rule import merge_rule
from lakebed.table.config.table_config import TableConfig
from lakebed.write.plan import plan_writes
from lakebed.write.rows import route_rows
from lakebed.write.staging import RUN_BATCH_BYTES, LogPolicy, read_segment, stage_runs
from support.specs import make_spec
from support.tables import SCHEMA, batch, settle


def keys_of(spec, segment) -> list[str]:
    return [
        key for b in read_segment(spec.storage, segment) for key in b.column(RECORD_KEY).to_pylist()
    ]


def stage(spec, *batches, task=None):
    return list(stage_runs(list(batches), spec, task or TaskId(0, 0, 0), LogPolicy(direct=False)))


def one(*rows) -> pa.RecordBatch:
    return batch(*rows).combine_chunks().to_batches()[0]


def test_every_file_group_is_a_sorted_range_of_one_run():
    spec = make_spec()
    rows = [(f"k{i % 40:02d}", i, i, "pq"[i % 2]) for i in range(100)]
    segments = stage(spec, one(*rows[:50]), one(*rows[50:]))
    assert len({segment.path for segment in segments}) == 1
    assert len({(s.partition, s.file_id) for s in segments}) == len(segments) == 4
    for segment in segments:
        keys = keys_of(spec, segment)
        assert keys == sorted(set(keys))
        assert len(keys) == segment.num_rows
    assert sum(segment.num_rows for segment in segments) == 40


def test_a_repeated_key_is_resolved_within_a_run_by_the_merge_mode():
    rows = [("a", 1, 9, "p"), ("a", 2, 1, "p"), ("a", 3, 9, "p"), ("a", 4, 2, "p")]
    for ordering, wanted in (((), 4), (("ts",), 3)):
        spec = make_spec(ordering=ordering)
        [segment] = stage(spec, one(*rows))
        [found] = read_segment(spec.storage, segment)
        assert found.column("v").to_pylist() == [wanted]


def test_a_full_budget_begins_a_new_run():
    spec = make_spec(memory_bytes=1, buckets=1)
    segments = stage(spec, *(one((f"k{i}", i, i, "p")) for i in range(12)))
    assert len({segment.path for segment in segments}) == 12
    assert {segment.path.rpartition("/")[0] for segment in segments} == {TEMP_FOLDER}


@pytest.mark.parametrize("ordering", [(), ("ts",)])
def test_runs_are_merged_in_the_order_in_which_they_were_written(ordering):
    spec = make_spec(memory_bytes=1, buckets=1, ordering=ordering)
    segments = stage(spec, *(one(("a", i, 1, "p")) for i in range(12)))
    [planned] = plan_writes(reversed(segments), {}, spec)
    last = list(read_segment(spec.storage, planned.segments[-1]))
    assert last[0].column("v").to_pylist() == [11], "flush 10 comes after flush 9"
    assert list(planned.segments) == segments


def test_runs_of_later_tasks_come_later():
    spec = make_spec(buckets=1)
    segments = [
        segment
        for number in range(12)
        for segment in stage(spec, one(("a", number, 1, "p")), task=TaskId(number, 0, 0))
    ]
    [planned] = plan_writes(reversed(segments), {}, spec)
    assert list(planned.segments) == segments


def test_no_rows_make_no_run():
    spec = make_spec()
    assert stage(spec) == []
    assert stage(spec, pa.RecordBatch.from_pylist([], schema=SCHEMA)) == []
    assert list(spec.storage.list()) == []


def test_large_groups_are_cut_into_small_batches():
    spec = make_spec(buckets=1)
    long = "k" * (RUN_BATCH_BYTES // 200)
    [segment] = stage(spec, one(*((f"{long}{i:04d}", i, i, "p") for i in range(1000))))
    sizes = [b.num_rows for b in read_segment(spec.storage, segment)]
    assert sizes == [256, 256, 256, 232]
    assert segment.num_batches == 4


def test_many_partitions_and_buckets_are_told_apart():
    spec = make_spec(buckets=100_000)
    rows = [(f"a longer key {i}", i, i, f"p{i % 7}") for i in range(500)]
    segments = stage(spec, one(*rows))
    found = {(s.partition, key) for s in segments for key in keys_of(spec, s)}
    assert found == {(row[3], row[0]) for row in rows}
    assert max(int(segment.file_id[:8]) for segment in segments) > 1 << 16


def test_placed_rows_know_key_partition_and_bucket():
    spec = make_spec(key=("id", "v"), partition_by=("dt", "ts"), buckets=3)
    placed = route_rows(one(("a", 1, 7, "p"), ("b", 2, 8, "q")), spec)
    assert placed.rows.column(RECORD_KEY).to_pylist() == ["id:a,v:1", "id:b,v:2"]
    assert placed.partitions.to_pylist() == ["p/7", "q/8"]
    assert set(placed.slots.to_pylist()) <= {0, 1, 2}
    assert placed.rows.schema.names == [RECORD_KEY, *SCHEMA.names]


def test_a_null_ordering_value_is_named_with_its_key():
    spec = make_spec(ordering=("ts",))
    rows = one(("a", 1, 1, "p"), ("b", 1, 1, "p")).set_column(
        2, "ts", pa.array([1, None], pa.int64())
    )
    with pytest.raises(KeyValueError, match="ordering column 'ts' is null for key 'b'"):
        route_rows(rows, spec)


def test_the_merge_rule_follows_the_mode_and_not_the_fields():
    config = TableConfig.parse(
        settle(ordering=("ts",), properties={"hoodie.record.merge.mode": "COMMIT_TIME_ORDERING"}),
        "here",
    )
    assert config.ordering_fields == ("ts",)
    assert merge_rule(config).ordering_fields == ()
