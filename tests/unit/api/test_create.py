"""From the arguments of `create_table` to properties that Hudi reads."""

import pyarrow as pa
import pytest

import lakebed
from lakebed.api.create import default_name
from lakebed.errors import OptionError
from lakebed.format.avro.avro_schema import avro_to_arrow
from lakebed.format.files.properties import parse_properties, table_checksum
from lakebed.table.config.merge_mode import MergeMode
from lakebed.table.config.table_config import TableConfig
from lakebed.table.config.writable import check_writable
from support.tables import SCHEMA, batch, make, settle, user_rows


def config_of(**changes) -> TableConfig:
    return TableConfig.parse(settle(**changes), "here")


def test_what_was_asked_for_is_what_the_table_says():
    config = config_of(key=("id", "v"), ordering=("ts",), table_type="merge_on_read", buckets=7)
    assert config.record_key_fields == ("id", "v")
    assert config.ordering_fields == ("ts",)
    assert config.merge_mode is MergeMode.EVENT_TIME_ORDERING
    assert config.table_type == "MERGE_ON_READ"
    assert config.index is not None
    assert (config.index.buckets, config.index.hash_fields) == (7, ("id", "v"))
    assert config.zone == "UTC"
    assert avro_to_arrow(config.create_schema or "") == SCHEMA
    check_writable(config)


@pytest.mark.parametrize(
    ("key", "partition_by", "generator"),
    [
        (("id",), (), "NON_PARTITION"),
        (("id", "v"), (), "NON_PARTITION"),
        (("id",), ("dt",), "SIMPLE"),
        (("id", "v"), ("dt",), "COMPLEX"),
        (("id",), ("dt", "ts"), "COMPLEX"),
    ],
)
def test_the_key_generator_is_the_one_that_hudi_would_infer(key, partition_by, generator):
    settled = settle(key=key, partition_by=partition_by)
    assert settled["hoodie.table.keygenerator.type"] == generator


def test_version_8_also_names_payload_and_strategy_of_its_mode():
    by_time = settle(table_version=8, ordering=("ts",))
    assert by_time["hoodie.compaction.payload.class"].endswith("DefaultHoodieRecordPayload")
    mode = {"hoodie.record.merge.mode": "commit_time_ordering"}
    by_commit = settle(table_version=8, ordering=("ts",), properties=mode)
    assert by_commit["hoodie.record.merge.mode"] == "COMMIT_TIME_ORDERING"
    assert by_commit["hoodie.compaction.payload.class"].endswith("OverwriteWithLatestAvroPayload")
    assert by_commit["hoodie.record.merge.strategy.id"].startswith("ce9acb64")
    assert "hoodie.compaction.payload.class" not in settle(table_version=9)


def test_version_10_says_which_meta_columns_it_keeps():
    assert settle(table_version=10)["hoodie.meta.fields.mode"] == "ALL"
    assert "hoodie.meta.fields.mode" not in settle(table_version=9)


def test_words_are_stored_as_hudi_spells_them():
    settled = settle(
        properties={
            "hoodie.table.timeline.timezone": "local",
            "hoodie.datasource.write.hive_style_partitioning": "TRUE",
        }
    )
    assert settled["hoodie.table.timeline.timezone"] == "LOCAL"
    assert settled["hoodie.datasource.write.hive_style_partitioning"] == "true"


def test_an_option_that_repeats_a_keyword_is_fine_and_one_that_contradicts_is_not():
    same = {"hoodie.table.recordkey.fields": "id", "hoodie.bucket.index.num.buckets": "2"}
    assert settle(properties=same)["hoodie.table.recordkey.fields"] == "id"
    for name, value in (
        ("hoodie.table.precombine.field", "v"),
        ("hoodie.table.ordering.fields", "v"),
        ("hoodie.bucket.index.num.buckets", "3"),
        ("hoodie.table.type", "MERGE_ON_READ"),
        ("hoodie.table.storage.layout", "default"),
    ):
        with pytest.raises(OptionError, match=f"option {name}={value} contradicts the keyword"):
            settle(properties={name: value})


def test_the_checksum_covers_database_and_name():
    settled = settle(name="orders", properties={"hoodie.database.name": "shop"})
    assert settled["hoodie.table.checksum"] == table_checksum("shop", "orders")


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("memory://lake/orders", "orders"),
        ("file:///data/my table/", "my_table"),
        ("s3://bucket", "bucket"),
        ("file:///é-1", "__1"),
    ],
)
def test_a_table_without_a_name_is_named_after_its_folder(url, name):
    assert default_name(url) == name


@pytest.mark.parametrize("name", ["a b", "é-x", "line\nbreak", "#=:!\\", "日本"])
def test_any_name_survives_and_can_be_written(name):
    table = make(name=name)
    table.insert(batch(("a", 1, 1, "p")))
    stored = parse_properties(table._storage.read(".hoodie/hoodie.properties"))
    assert stored["hoodie.table.name"] == name
    assert len(user_rows(table)) == 1


def test_a_timestamp_generator_makes_folders_of_its_format():
    schema = pa.schema([("id", pa.string()), ("at", pa.int64())])
    table = lakebed.create_table(
        None,
        "memory://unit/create/timestamp",
        schema,
        key="id",
        partition_by="at",
        table_type="COPY_ON_WRITE",
        properties={
            "hoodie.table.keygenerator.type": "TIMESTAMP",
            "hoodie.keygen.timebased.timestamp.type": "EPOCHMILLISECONDS",
            "hoodie.keygen.timebased.output.dateformat": "yyyy-MM-dd",
            "hoodie.keygen.timebased.timezone": "UTC",
        },
    )
    table.insert(pa.table({"id": ["a"], "at": [1_704_164_645_006]}, schema=schema))
    assert table.files().column("partition").to_pylist() == ["2024-01-02"]
    assert table.read().read_all().to_pylist() == [{"id": "a", "at": 1_704_164_645_006}]
