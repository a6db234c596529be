"""The writer's bucket index against the files of a table."""

import dataclasses

import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import CorruptError, InvalidError, OptionError
from lakebed.format.files.properties import parse_properties
from lakebed.format.names.bucket_hash import bucket_of_file_id
from lakebed.index.bucket import derived_file_id, slices_by_bucket
from lakebed.index.hash_locator import BucketId
from lakebed.index.kinds import strategy_of
from lakebed.index.requested import named_index
from lakebed.model.clock import ManualClock
from lakebed.table.config.table_config import TableConfig
from lakebed.table.config.writer_index import INDEXES, BucketIndex, parse_index
from lakebed.table.snapshot import load_snapshot
from support.fixtures import unpack
from support.tables import batch, check_files, make, reopen, rows_of, settle


def snapshot(table):
    return load_snapshot(table._storage, table.config)


@pytest.mark.parametrize(
    ("name", "index"),
    [
        ("mor9_bucket8", BucketIndex(8, ("id",))),
        ("mor9_bucket8_hash", BucketIndex(8, ("id",))),
        ("mor9_bucket_avro", BucketIndex(2, ("id",))),
        ("mor9_compact", BucketIndex(2, ("id",))),
        ("mor8_bucket_avro", BucketIndex(2, ("id",))),
    ],
)
def test_the_index_that_hudi_used_fits_and_no_other_count_does(name, index, tmp_path):
    table = lakebed.open_table(None, str(unpack(name, tmp_path)))
    found = snapshot(table)
    assert strategy_of(index).settle(found) == index
    for place in slices_by_bucket(found):
        assert 0 <= place.bucket < index.buckets
    for wrong in {1, index.buckets - 1, index.buckets + 1, 64} - {index.buckets, 0}:
        with pytest.raises(InvalidError):
            strategy_of(BucketIndex(wrong, index.hash_fields)).settle(found)


def test_a_new_group_in_a_table_of_hudi_is_in_the_bucket_that_hudi_would_choose(tmp_path):
    path = str(unpack("mor9_bucket8", tmp_path))
    table = lakebed.open_table(None, path)
    before = rows_of(table)
    row = {field.name: None for field in table.schema}
    new = [{**row, "id": f"n{i}", "ts": i, "dt": "new"} for i in range(20)]
    table.insert(pa.Table.from_pylist(new, schema=table.schema), index="bucket", buckets=8)
    again = lakebed.open_table(None, path)
    assert again.config.index == BucketIndex(8, ("id",))
    after = rows_of(again)
    assert {key: after[key] for key in before} == before
    assert len(after) == len(before) + 20
    for row in again.files().to_pylist():
        assert bucket_of_file_id(row["file_id"]) in range(8)
    strategy_of(again.config.index).settle(snapshot(again))


def test_a_file_id_that_is_no_buckets_is_named():
    table = make()
    table.insert(batch(("a", 1, 1, "p")))
    file = table.files().to_pylist()[0]
    data = table._storage.read(file["path"])
    table._storage.put("p/abc-0_0-0-0_20000101000000000.parquet", data)
    with pytest.raises(InvalidError, match="file id 'abc-0' in partition 'p' is no bucket's"):
        slices_by_bucket(snapshot(table))


def test_two_groups_for_one_bucket_are_named():
    table = make(buckets=1)
    table.insert(batch(("a", 1, 1, "p")))
    file = table.files().to_pylist()[0]
    data = table._storage.read(file["path"])
    table._storage.put("p/00000000-aaaa-0_0-0-0_20000101000000000.parquet", data)
    with pytest.raises(CorruptError, match="two file groups for bucket 0") as caught:
        slices_by_bucket(snapshot(table))
    assert file["file_id"] in str(caught.value)
    with pytest.raises(CorruptError, match="two file groups"):
        reopen(table._storage).insert(batch(("b", 1, 1, "p")))


def test_a_new_file_id_begins_with_the_bucket_and_comes_again_only_in_the_same_write():
    clock = ManualClock()
    seeds = [clock.new_uuid() for _ in range(100)]
    ids = [derived_file_id(BucketId("p", 37), seed) for seed in seeds]
    assert len(set(ids)) == 100
    assert {bucket_of_file_id(found) for found in ids} == {37}
    assert ids == [derived_file_id(BucketId("p", 37), seed) for seed in seeds]
    others = [BucketId("p", 36), BucketId("q", 37)]
    assert not set(ids) & {derived_file_id(place, seeds[0]) for place in others}


@pytest.mark.parametrize("word", INDEXES)
@pytest.mark.parametrize("buckets", [16, None])
def test_every_index_survives_its_properties_and_has_a_strategy(word, buckets):
    index = INDEXES[word](buckets, ("id",))
    if word == "consistent_hashing" and buckets is None:
        index = dataclasses.replace(index, buckets=4)  # as a table that is created has it
    assert parse_index(index.properties(("id",)), ("id",), "here") == index
    assert strategy_of(index).value is index


@pytest.mark.parametrize("buckets", [0, -1, 10**9, "4", 4.0, True, None])
def test_a_number_of_buckets_that_is_none_is_refused(buckets):
    config = TableConfig.parse(settle(), "here")
    with pytest.raises(InvalidError, match="buckets="):
        named_index(config, "bucket", buckets)


def test_hash_fields_are_key_fields():
    config = TableConfig.parse(settle(key=("id", "v")), "here")
    assert named_index(config, None, 4) == BucketIndex(4, ("id", "v"))
    by_one = {"hoodie.bucket.index.hash.field": "v"}
    assert make(key=("id", "v"), properties=by_one).config.index == BucketIndex(2, ("v",))
    with pytest.raises(OptionError, match=r"'ts' is not one of .* id, v"):
        make(key=("id", "v"), properties={"hoodie.bucket.index.hash.field": "ts"})


def test_keys_hashed_by_one_of_two_fields_lie_together():
    table = make(
        key=("id", "dt"),
        partition_by=(),
        buckets=5,
        properties={"hoodie.bucket.index.hash.field": "id"},
    )
    table.insert(batch(*((f"k{i}", i, i, f"d{j}") for i in range(6) for j in range(4))))
    found = rows_of(table)
    assert len(found) == 24
    files = {}
    for row in found.values():
        files.setdefault(row["id"], set()).add(row["_hoodie_file_name"])
    assert all(len(names) == 1 for names in files.values())
    check_files(table)
    stored = parse_properties(table._storage.read(".hoodie/hoodie.properties"))
    assert stored["hoodie.bucket.index.hash.field"] == "id"
