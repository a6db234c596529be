import dataclasses

import pytest

from lakebed.errors import CorruptError, InvalidError
from lakebed.format.timeline.avro_models import WRITE_STAT
from lakebed.format.timeline.commit_metadata import CommitMetadata, RuntimeStats, WriteStat
from lakebed.format.timeline.ocf import decode_record
from lakebed.format.timeline.plans import PlanKind, encode_plan

NAMESPACE = "org.apache.hudi.avro.model"
STAT = WriteStat(
    file_id="f-0", path="dt=1/f-0_0-0-0_20240101000000001.parquet", prev_commit="null",
    num_writes=3, log_version=1, log_files=("a", "b"), cdc_stats={"c": 9},
    runtime_stats=RuntimeStats(1, None, 3), num_updates=0,
)  # fmt: skip


def test_commit_comes_back_with_every_field():
    commit = CommitMetadata(
        partition_to_write_stats={"dt=1": (STAT, WriteStat()), "": ()},
        compacted=True,
        extra_metadata={"schema": "{}", "é": "ü"},
        operation_type="UPSERT",
        version=3,
    )
    data = commit.encode()
    assert CommitMetadata.parse(data, "f") == commit
    assert decode_record(data, "f")[0] == f"{NAMESPACE}.HoodieCommitMetadata"


def test_commit_that_replaces_file_groups_is_another_record():
    for replaced in ({}, {"dt=1": ("f-0", "g-0"), "dt=2": ()}):
        commit = CommitMetadata(partition_to_replace_file_ids=replaced)
        data = commit.encode()
        assert CommitMetadata.parse(data, "f") == commit
        assert decode_record(data, "f")[0] == f"{NAMESPACE}.HoodieReplaceCommitMetadata"


def test_empty_commit_is_written_as_hudi_writes_it():
    values = decode_record(CommitMetadata().encode(), "f")[1]
    assert values == {
        "partitionToWriteStats": {}, "compacted": False, "extraMetadata": {}, "version": None,
        "operationType": None,
    }  # fmt: skip


def test_write_stat_has_hudis_fields_in_hudis_order():
    theirs = [field["name"] for field in WRITE_STAT["fields"]]
    ours = [
        field.name
        for field in dataclasses.fields(WriteStat)
        if field.name not in ("key_range", "statistics")
    ]
    assert [name.lower() for name in theirs] == [name.replace("_", "") for name in ours]


def test_stats_of_all_partitions_are_given_one_by_one():
    commit = CommitMetadata(partition_to_write_stats={"a": (STAT,), "b": (WriteStat(), STAT)})
    assert list(commit.write_stats()) == [STAT, WriteStat(), STAT]


@pytest.mark.parametrize(
    "stat",
    [
        WriteStat(path=5),
        WriteStat(num_writes="x"),
        WriteStat(num_writes=1 << 70),
        WriteStat(log_files=(1,)),
        WriteStat(cdc_stats=3),
    ],
)
def test_stat_of_a_wrong_type_is_refused(stat):
    with pytest.raises(InvalidError, match="HoodieCommitMetadata"):
        CommitMetadata(partition_to_write_stats={"": (stat,)}).encode()


def test_plan_in_the_place_of_a_commit_is_corrupt():
    plan = encode_plan(PlanKind.RESTORE_PLAN, {})
    with pytest.raises(
        CorruptError, match=r"T_C\.commit: expected one of .*found .*HoodieRestorePlan"
    ):
        CommitMetadata.parse(plan, "T_C.commit")
