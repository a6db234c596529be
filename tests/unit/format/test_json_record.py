"""Commits as JSON, as timeline layout 1 keeps them: Hudi's values, or a refusal by name."""

import json

import pytest

from lakebed.errors import CorruptError
from lakebed.format.names.instant_name import LAYOUT_1
from lakebed.format.timeline.commit_metadata import CommitMetadata, RuntimeStats, WriteStat

# As Hudi 0.15 writes it, shortened; `recordsStats` is a key that no later version has.
COMMIT = """{
  "partitionToWriteStats" : {
    "city=ü" : [ {
      "fileId" : "f-0",
      "path" : "city=ü/.f-0_20250126040823628.log.3_0-13-9",
      "cdcStats" : null,
      "prevCommit" : "20250126040823628",
      "numWrites" : 1,
      "fileSizeInBytes" : 9223372036854775807,
      "runtimeStats" : { "totalScanTime" : 0, "totalUpsertTime" : 462, "totalCreateTime" : 0 },
      "logVersion" : 3,
      "baseFile" : "f-0_0-13-23_20250126040823628.parquet",
      "logFiles" : [ ".f-0_20250126040823628.log.3_0-13-9" ],
      "recordsStats" : { "val" : null }
    } ]
  },
  "compacted" : false,
  "extraMetadata" : { "schema" : "{\\"type\\":\\"record\\"}", "nothing" : null },
  "operationType" : "UPSERT"
}"""


def parsed(text: str) -> CommitMetadata:
    return CommitMetadata.parse(text.encode("utf-8", "surrogatepass"), "instant T.commit", LAYOUT_1)


def test_a_commit_of_hudi_reads_as_its_avro_record_would():
    assert parsed(COMMIT) == CommitMetadata(
        partition_to_write_stats={
            "city=ü": (
                WriteStat(
                    file_id="f-0",
                    path="city=ü/.f-0_20250126040823628.log.3_0-13-9",
                    prev_commit="20250126040823628",
                    num_writes=1,
                    file_size_in_bytes=(1 << 63) - 1,
                    runtime_stats=RuntimeStats(0, 0, 462),
                    log_version=3,
                    base_file="f-0_0-13-23_20250126040823628.parquet",
                    log_files=(".f-0_20250126040823628.log.3_0-13-9",),
                ),
            )
        },
        compacted=False,
        extra_metadata={"schema": '{"type":"record"}'},
        operation_type="UPSERT",
    )


def test_a_commit_that_replaces_file_groups_names_them():
    text = '{"partitionToReplaceFileIds": {"p": ["a-0", "b-0"], "": []}}'
    assert parsed(text).partition_to_replace_file_ids == {"p": ("a-0", "b-0"), "": ()}


def test_every_key_may_be_missing():
    assert parsed("{}") == CommitMetadata(compacted=None)


def test_the_newer_form_is_read_in_layout_1_too():
    metadata = CommitMetadata(operation_type="UPSERT", extra_metadata={"schema": "{}"})
    assert CommitMetadata.parse(metadata.encode(), "x", LAYOUT_1) == metadata


def test_json_in_layout_2_is_refused():
    with pytest.raises(CorruptError, match="found JSON, which timeline layout 2 does not have"):
        CommitMetadata.parse(COMMIT.encode(), "instant T_C.commit")


def test_a_commit_cut_anywhere_is_corrupt_and_named():
    data = COMMIT.encode()
    for length in range(len(data)):
        with pytest.raises(CorruptError, match=r"instant T\.commit"):
            CommitMetadata.parse(data[:length], "instant T.commit", LAYOUT_1)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("partitionToWriteStats", []),
        ("partitionToWriteStats", {"p": {}}),
        ("partitionToWriteStats", {"p": [None]}),
        ("partitionToWriteStats", {"p": [{"path": 7}]}),
        ("partitionToWriteStats", {"p": [{"numWrites": "7"}]}),
        ("partitionToWriteStats", {"p": [{"numWrites": 7.0}]}),
        ("partitionToWriteStats", {"p": [{"numWrites": True}]}),
        ("partitionToWriteStats", {"p": [{"numWrites": 1 << 63}]}),
        ("partitionToWriteStats", {"p": [{"logVersion": 1 << 31}]}),
        ("partitionToWriteStats", {"p": [{"logFiles": ["x", None]}]}),
        ("partitionToWriteStats", {"p": [{"runtimeStats": []}]}),
        ("partitionToWriteStats", {"p": [{"path": "half of a pair \ud800"}]}),
        ("partitionToWriteStats", {"\udfff": []}),
        ("compacted", "no"),
        ("extraMetadata", {"schema": {}}),
        ("operationType", 1),
        ("partitionToReplaceFileIds", {"p": "f"}),
    ],
)
def test_a_value_of_another_type_is_corrupt_and_named(key: str, value: object):
    with pytest.raises(CorruptError, match=f"instant T.commit: {key}"):
        parsed(json.dumps({key: value}))


@pytest.mark.parametrize(
    "data",
    [
        b'{"a": ' + b"[" * 100_000,
        b'{"partitionToWriteStats": {"p": [{"numWrites": ' + b"9" * 5000 + b"}]}}",
        b"{}{}",
        b'{"\xff": 1}',
        b"{'a': 1}",
    ],
)
def test_bytes_that_are_no_json_give_no_raw_error(data: bytes):
    with pytest.raises(CorruptError, match=r"instant T\.commit: expected JSON"):
        CommitMetadata.parse(data, "instant T.commit", LAYOUT_1)
