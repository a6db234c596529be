"""What properties settle about a table."""

import pytest

from lakebed.errors import CorruptError, UnsupportedError
from lakebed.format.files.properties import parse_properties
from lakebed.format.names.record_key import KeyGenerator
from lakebed.table.config.merge_mode import MergeMode
from lakebed.table.config.table_config import Layout, TableConfig, TableType
from lakebed.table.config.writable import check_writable
from lakebed.table.config.writer_index import BloomIndex, BucketIndex, ConsistentHashingIndex
from support.fixtures import files, names
from support.tables import settle

LEAST = {
    "hoodie.table.name": "t",
    "hoodie.table.version": "9",
    "hoodie.timeline.layout.version": "2",
}


def parse(**changes: str) -> TableConfig:
    renamed = {key.replace("__", "."): value for key, value in changes.items()}
    return TableConfig.parse({**LEAST, **renamed}, "here")


def test_the_least_that_a_table_says_gives_hudis_defaults():
    config = parse()
    assert config.table_type is TableType.COPY_ON_WRITE
    assert config.merge_mode is MergeMode.COMMIT_TIME_ORDERING
    assert config.layout is Layout.DEFAULT
    assert config.key_generator is KeyGenerator.NON_PARTITION
    assert (config.timeline_path, config.history_path) == (
        ".hoodie/timeline",
        ".hoodie/timeline/history",
    )
    assert config.zone == "LOCAL"
    assert config.index is None


@pytest.mark.parametrize("name", names())
def test_the_properties_of_every_table_of_hudi_are_understood(name):
    config = TableConfig.parse(parse_properties(files(name)[".hoodie/hoodie.properties"]), name)
    kind = "MERGE_ON_READ" if "mor" in name else "COPY_ON_WRITE"
    if not name.startswith(("mini_", "syn10")):
        assert config.table_type == kind
        assert config.version == (8 if "mor8" in name else 9)
        assert config.index is None, "Hudi keeps the writer's index out of the table"
    if name == "mor9_commit_time":
        assert config.merge_mode is MergeMode.COMMIT_TIME_ORDERING
    if name == "mor9_multiorder":
        assert config.ordering_fields == ("ts", "price")
    if name == "cow9_singlecomplex":
        assert config.composite_key
    if name == "cow9_urlenc":
        assert config.partition_style.hive_style
        assert config.partition_style.url_encode


@pytest.mark.parametrize("missing", ["hoodie.table.name"])
def test_a_missing_name_is_corrupt(missing):
    with pytest.raises(CorruptError, match=f"here: the property {missing} is missing"):
        TableConfig.parse({k: v for k, v in LEAST.items() if k != missing}, "here")


@pytest.mark.parametrize(
    ("properties", "mode"),
    [
        ({"hoodie__record__merge__mode": "COMMIT_TIME_ORDERING"}, "COMMIT_TIME_ORDERING"),
        ({"hoodie__table__ordering__fields": "ts"}, "EVENT_TIME_ORDERING"),
        ({"hoodie__table__precombine__field": "ts"}, "EVENT_TIME_ORDERING"),
        ({"hoodie__record__merge__mode": "EVENT_TIME_ORDERING"}, "COMMIT_TIME_ORDERING"),
        ({"hoodie__record__merge__mode": "CUSTOM"}, "CUSTOM"),
        ({"hoodie__compaction__payload__class": "com.example.Mine"}, "CUSTOM"),
        ({"hoodie__table__partial__update__mode": "IGNORE_DEFAULTS"}, "COMMIT_TIME_ORDERING"),
        (
            {
                "hoodie__compaction__payload__class": (
                    "org.apache.hudi.common.model.OverwriteWithLatestAvroPayload"
                ),
                "hoodie__table__ordering__fields": "ts",
            },
            "COMMIT_TIME_ORDERING",
        ),
    ],
)
def test_the_merge_mode_follows_from_mode_payload_and_ordering(properties, mode):
    assert parse(**properties).merge_mode == mode


@pytest.mark.parametrize(
    ("properties", "index"),
    [
        ({}, None),
        ({"hoodie__index__type": "INMEMORY", "hoodie__bucket__index__num__buckets": "4"}, None),
        ({"hoodie__index__type": "global_bloom"}, BloomIndex(is_global=True)),
        ({"hoodie__index__type": "BUCKET"}, None),
        (
            {
                "hoodie__index__type": "BUCKET",
                "hoodie__bucket__index__num__buckets": "4",
                "hoodie__index__bucket__engine": "CONSISTENT_HASHING",
                "hoodie__table__recordkey__fields": "a",
            },
            ConsistentHashingIndex(4, ("a",)),
        ),
        (
            {
                "hoodie__index__type": "BUCKET",
                "hoodie__bucket__index__num__buckets": "4",
                "hoodie__index__bucket__engine": "ROUND_ROBIN",
            },
            None,
        ),
        (
            {
                "hoodie__index__type": "bucket",
                "hoodie__bucket__index__num__buckets": "4",
                "hoodie__table__recordkey__fields": "a, b",
            },
            BucketIndex(4, ("a", "b")),
        ),
        (
            {
                "hoodie__index__type": "BUCKET",
                "hoodie__bucket__index__num__buckets": "4",
                "hoodie__bucket__index__hash__field": "b",
                "hoodie__table__recordkey__fields": "a,b",
            },
            BucketIndex(4, ("b",)),
        ),
    ],
)
def test_the_index_is_what_a_simple_bucket_index_says(properties, index):
    assert parse(**properties).index == index


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("hoodie.table.metadata.partitions", "files,record_index", "an index \\(record_index\\)"),
        ("hoodie.table.secondary.indexes.metadata", "x", "indexes of an older Hudi"),
        ("hoodie.table.metadata.partitions.inflight", "files", "being built \\(files\\)"),
        ("hoodie.populate.meta.fields", "false", "no meta columns"),
        ("hoodie.meta.fields.mode", "COMMIT_TIME_ONLY", "only some meta columns"),
        ("hoodie.table.keygenerator.type", "CUSTOM", "key generator CUSTOM"),
        ("hoodie.table.recordkey.fields", "", "no record key fields"),
        (
            "hoodie.write.concurrency.mode",
            "non_blocking_concurrency_control",
            "non-blocking writers",
        ),
        (
            "hoodie.datasource.write.slash.separated.date.partitioning",
            "true",
            "slash-separated partitions",
        ),
    ],
)
def test_what_our_commits_would_leave_wrong_is_read_but_not_written(key, value, reason):
    check_writable(TableConfig.parse(settle(), "here"))
    config = TableConfig.parse({**settle(), key: value}, "here")
    with pytest.raises(UnsupportedError, match=f"can be read but not written: .*{reason}"):
        check_writable(config)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("hoodie.table.multiple.base.file.formats.enable", "true"),
        ("hoodie.bootstrap.base.path", "/old"),
        ("hoodie.datasource.write.drop.partition.columns", "true"),
        ("hoodie.table.format", "iceberg"),
    ],
)
def test_what_changes_the_rows_and_is_not_understood_is_refused(key, value):
    with pytest.raises(UnsupportedError):
        TableConfig.parse({**LEAST, key: value}, "here")
