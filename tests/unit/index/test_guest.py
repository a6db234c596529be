"""The index of a table that another engine created, if none is named."""

from typing import Any

import pyarrow as pa
import pytest

from lakebed.errors import InvalidError, UnsupportedError
from lakebed.format.index.bloom import FOOTER_BLOOM, parse_bloom
from lakebed.format.names.meta_columns import PARTITION_PATH
from lakebed.index.default_index import check_base_files, check_spelling, default_index
from lakebed.index.rings import HASHING_FOLDER
from lakebed.model.options.table import UPDATE_PARTITION
from lakebed.storage.storage import Storage
from lakebed.table.config.properties_file import load_config, update_properties
from lakebed.table.config.writer_index import SimpleIndex
from lakebed.table.read.parquet_source import open_parquet
from lakebed.table.snapshot import Snapshot, load_snapshot
from support.fixtures import files
from support.tables import SCHEMA, batch, contents, copy_of, make, reopen


def snapshot_of(storage: Storage) -> Snapshot:
    return load_snapshot(storage, load_config(storage))


def fixture(name: str) -> Storage:
    return copy_of(files(name))


def unnamed(*, rows: bool = True, **changes: Any) -> Storage:
    """Return a table, with or without rows, that does not say which index its writer uses."""
    storage = make(index="simple", **changes)._storage
    if rows:
        reopen(storage).insert(batch(("a", 1, 1, "p"), ("b", 1, 1, "q")))
    path = ".hoodie/hoodie.properties"
    lines = storage.read(path).splitlines(keepends=True)
    storage.put(path, b"".join(line for line in lines if b"hoodie.index.type" not in line))
    assert load_config(storage).index is None
    return storage


def folders(storage: Storage) -> list[tuple[str, str]]:
    found = reopen(storage).to_arrow(columns=["id", PARTITION_PATH]).to_pylist()
    return sorted((row["id"], row[PARTITION_PATH]) for row in found)


def found_in(storage: Storage, partition: str) -> list[str]:
    return sorted(reopen(storage).to_arrow(where=f"dt = '{partition}'")["id"].to_pylist())


@pytest.mark.parametrize("name", ["cow9_nomdt", "cow9_singlecomplex", "cow9_urlenc", "cow9_mdt"])
def test_where_keys_lie_in_base_files_the_simple_index_is_right(name: str):
    assert default_index(snapshot_of(fixture(name))) == SimpleIndex()


def test_it_is_not_stored_for_hudis_writers_refuse_options_that_contradict_it():
    storage = unnamed()
    reopen(storage).upsert(batch(("a", 2, 2, "p")))
    reopen(storage).delete([{"id": "b", "dt": "q"}])
    assert load_config(storage).index is None
    assert reopen(storage).read().read_all().to_pylist() == [
        {"id": "a", "v": 2, "ts": 2, "dt": "p"}
    ]


def test_one_that_is_named_is_stored():
    storage = unnamed()
    reopen(storage).upsert(batch(("a", 2, 2, "p")), index="simple")
    assert load_config(storage).index == SimpleIndex()


def test_rows_stay_in_their_folder_if_a_global_record_index_is_named_first_and_reads_know_it():
    storage = unnamed(properties={"hoodie.parquet.small.file.limit": "0"})
    reopen(storage).upsert(batch(("a", 2, 2, "q")), index="global_record")
    assert load_config(storage).properties[UPDATE_PARTITION.name] == "false"
    for version in (3, 4):
        assert folders(storage) == [("a", "p"), ("b", "q")]
        assert found_in(storage, "q") == ["a", "b"]
        assert reopen(storage).lookup([{"id": "a", "dt": "q"}]).num_rows == 1
        reopen(storage).upsert(batch(("a", version, version, "q")))


@pytest.mark.parametrize("moves", ["true", "false"])
def test_a_stored_property_decides_whether_the_rows_of_an_index_that_is_named_first_move(
    moves: str,
):
    storage = unnamed(properties={"hoodie.parquet.small.file.limit": "0"})
    update_properties(storage, {UPDATE_PARTITION.name: moves})
    reopen(storage).upsert(batch(("a", 2, 2, "q")), index="global_record")
    assert load_config(storage).properties[UPDATE_PARTITION.name] == moves
    assert folders(storage) == [("a", "q" if moves == "true" else "p"), ("b", "q")]
    assert found_in(storage, "q") == ["a", "b"]


def test_rows_move_if_a_global_record_index_is_named_for_an_empty_table():
    storage = unnamed(rows=False)
    reopen(storage).upsert(batch(("a", 1, 1, "p")), index="global_record")
    assert load_config(storage).properties[UPDATE_PARTITION.name] == "true"
    reopen(storage).upsert(batch(("a", 2, 2, "q")))
    assert folders(storage) == [("a", "q")]


def test_rows_of_hudis_record_index_stay_and_reads_by_partition_find_them():
    storage = make(index="global_simple")._storage
    update_properties(storage, {"hoodie.index.type": "RECORD_INDEX"})
    reopen(storage).upsert(batch(("a", 1, 1, "p"), ("b", 1, 1, "q")))
    reopen(storage).upsert(batch(("a", 2, 2, "q")))
    assert folders(storage) == [("a", "p"), ("b", "q")]
    assert found_in(storage, "q") == ["a", "b"]
    assert reopen(storage).lookup([{"id": "a", "dt": "q"}]).num_rows == 1


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "mor9_bucket_parquet",
            'file ids like a bucket.*name it at the first write: index="bucket"',
        ),
        ("mini_mor_logonly", "file ids like a bucket"),
    ],
)
def test_a_bucket_index_has_to_be_named(name: str, message: str):
    with pytest.raises(InvalidError, match=message):
        default_index(snapshot_of(fixture(name)))


def test_consistent_hashing_has_to_be_named():
    storage = unnamed()
    storage.put(f"{HASHING_FOLDER}/p/00000000000000.hashing_meta", b"{}")
    with pytest.raises(
        InvalidError, match='name it at the first write: index="consistent_hashing"'
    ):
        default_index(snapshot_of(storage))


def with_file_id(storage: Storage, new: str) -> Storage:
    """Return the table as if every file had this file id, in its names and in its commits."""
    old = snapshot_of(storage).slices[0].group.file_id
    assert len(old) == len(new)
    # Of equal length, so that the lengths in the commits' Avro stay right.
    return copy_of(
        {
            p.replace(old, new): d.replace(old.encode(), new.encode())
            for p, d in contents(storage).items()
        }
    )


@pytest.mark.parametrize(
    ("file_id", "is_bucket"),
    [
        ("00000007-ddab-4ae2-99e3-d6143d5759e1-0", True),
        ("83729104-ddab-4ae2-99e3-d6143d5759e1-0", False),
    ],
)
def test_a_random_file_id_of_eight_digits_is_not_taken_for_a_buckets(file_id: str, is_bucket: bool):
    storage = make(index="simple", partition_by=())._storage
    reopen(storage).insert(batch(("a", 1, 1, "p")))
    snapshot = snapshot_of(with_file_id(storage, file_id))
    assert [s.group.file_id for s in snapshot.slices] == [file_id]
    if is_bucket:
        with pytest.raises(InvalidError, match="file ids like a bucket's"):
            default_index(snapshot)
    else:
        assert default_index(snapshot) == SimpleIndex()


def test_one_file_id_among_others_that_looks_like_a_buckets_is_an_accident():
    storage = make(index="simple", properties={"hoodie.parquet.small.file.limit": "0"})._storage
    reopen(storage).insert(batch(("a", 1, 1, "p")))
    reopen(storage).insert(batch(("b", 1, 1, "q")))
    snapshot = snapshot_of(with_file_id(storage, "00975706-ddab-4ae2-99e3-d6143d5759e1-0"))
    assert len({s.group.file_id for s in snapshot.slices}) == 2
    assert default_index(snapshot) == SimpleIndex()


def test_a_file_group_of_logs_only_is_no_place_for_a_simple_index():
    storage = with_file_id(fixture("mini_mor_logonly"), "abcdefab-ddab-4ae2-99e3-d6143d5759e1-0")
    rows = reopen(storage).read().read_all()
    assert rows.num_rows
    with pytest.raises(InvalidError, match="has logs only"):
        check_base_files(snapshot_of(storage))
    for index in (None, "simple"):
        with pytest.raises(InvalidError, match="has logs only"):
            reopen(storage).upsert(rows, index=index)


def test_a_base_file_carries_a_bloom_filter_that_may_hold_any_key():
    storage = unnamed(table_type="MERGE_ON_READ")
    reopen(storage).upsert(batch(("a", 2, 2, "p")))
    (file, _) = [slice_.base_file for slice_ in snapshot_of(storage).slices]
    assert file is not None
    with open_parquet(storage, file.path, "base file") as parquet:
        bloom = parse_bloom(parquet.key_values[FOOTER_BLOOM], "", file.path)
    assert bloom.missing(pa.array(["a", "", "é", "x" * 1000])).true_count == 0


def test_keys_that_we_would_spell_otherwise_are_refused():
    storage = unnamed()
    update_properties(storage, {"hoodie.table.keygenerator.type": "COMPLEX"})
    with pytest.raises(
        UnsupportedError, match="holds the record key 'a', which Lakebed would write as 'id:a'"
    ):
        reopen(storage).upsert(batch(("a", 2, 2, "p")))


@pytest.mark.parametrize("index", [None, "simple"])
def test_partitions_that_we_would_spell_otherwise_are_refused(index: str | None):
    storage = unnamed()
    update_properties(storage, {"hoodie.datasource.write.hive_style_partitioning": "true"})
    before = contents(storage)
    with pytest.raises(
        UnsupportedError, match=r"holds the partition '\w', which Lakebed would write as 'dt="
    ):
        reopen(storage).upsert(batch(("a", 2, 2, "p")), index=index)
    assert {p for p in contents(storage) if not p.startswith(".hoodie/.")} == {
        p for p in before if not p.startswith(".hoodie/.")
    }


def test_a_partition_that_we_would_not_write_is_refused():
    with pytest.raises(UnsupportedError, match="holds a key that we would not write"):
        check_spelling(snapshot_of(fixture("cow9_composite")))


def test_an_empty_table_of_another_engines_takes_the_simple_index():
    storage = unnamed()
    reopen(storage).delete_partitions(["p", "q"])
    assert default_index(snapshot_of(storage)) == SimpleIndex()
    reopen(storage).insert(pa.table({n: [] for n in SCHEMA.names}, schema=SCHEMA))
