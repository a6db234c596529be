"""The rings of a table on storage: which one counts, and what is refused."""

import dataclasses

import numpy as np
import pyarrow as pa
import pytest

from lakebed.errors import ConflictError, CorruptError, InvalidError, UnsupportedError
from lakebed.format.names.consistent_hashing import HashingMetadata, HashingNode, key_hashes
from lakebed.format.names.instant_name import Action
from lakebed.format.timeline.commit_metadata import CommitMetadata
from lakebed.format.timeline.plans import PlanKind, encode_plan
from lakebed.index.consistent_hashing import node_numbers
from lakebed.index.hash_locator import BucketId
from lakebed.index.kinds import strategy_of
from lakebed.index.requested import named_index
from lakebed.index.rings import ensure_ring, first_ring, load_rings
from lakebed.table.config.writer_index import ConsistentHashingIndex
from lakebed.table.snapshot import load_snapshot
from support.tables import batch, make, reopen, rows_of

FOLDER = ".hoodie/.bucket_index/consistent_hashing_metadata"
INDEX = ConsistentHashingIndex(16, ("id",))
CHILD = "12345678-1234-1234-1234-123456789012"


def table_of(*rows, **changes):
    """Return a table of 16 buckets in a partition."""
    settings = {"table_type": "MERGE_ON_READ", "index": "consistent_hashing", "buckets": 16}
    table = make(**{**settings, **changes})
    table.upsert(batch(*rows or [("a", 1, 1, "p"), ("b", 1, 1, "p"), ("中", 1, 1, "p")]))
    return table


def snapshot(table):
    return load_snapshot(table._storage, table.config)


def stored(table, partition="p"):
    path = f"{FOLDER}/{partition}/00000000000000.hashing_meta"
    return HashingMetadata.parse(table._storage.read(path), path)


def names(table):
    return sorted(entry.path.rpartition("/")[2] for entry in table._storage.list(f"{FOLDER}/p"))


def split(table, *, used):
    """Store the ring of a clustering that splits a node with, or without, a file group."""
    old = stored(table)
    there = {slice_.group.file_id for slice_ in snapshot(table).slices}
    at = next(n for n, node in enumerate(old.nodes) if (node.file_id in there) is used)
    node = old.nodes[at]
    below = old.nodes[at - 1].value if at else 0
    child = HashingNode((below + node.value) // 2, CHILD)
    rest = dataclasses.replace(node, file_id_prefix=CHILD.replace("1", "9"))
    nodes = (*old.nodes[:at], child, rest, *old.nodes[at + 1 :])
    return node, dataclasses.replace(old, nodes=nodes, seq_no=1)


def request(table, node):
    """Plan to resize a node; give the instant."""
    active = snapshot(table).commits.active
    instant = f"{int(active.load().last_instant) + 1}"
    slices = [{"partitionPath": "p", "fileId": node.file_id}]
    plan = {"clusteringPlan": {"inputGroups": [{"slices": slices}]}}
    active.create_requested(
        Action.CLUSTERING, instant, encode_plan(PlanKind.REQUESTED_REPLACE, plan)
    )
    return active, instant


def put(table, ring, instant):
    ring = dataclasses.replace(ring, instant=instant)
    table._storage.put(f"{FOLDER}/p/{instant}.hashing_meta", ring.encode())


def complete(active, instant, node):
    active.transition_to_inflight(Action.CLUSTERING, instant, b"")
    gone = CommitMetadata(
        operation_type="CLUSTER", partition_to_replace_file_ids={"p": (node.file_id,)}
    )
    active.complete(Action.CLUSTERING, instant, f"{int(instant) + 1}", gone.encode())


def test_a_first_write_stores_the_ring_that_every_writer_makes():
    table = table_of()
    assert stored(table) == HashingMetadata.first("p", 16)
    assert names(table) == ["00000000000000.hashing_meta"]
    ids = {node.file_id for node in stored(table).nodes}
    assert {row["file_id"] for row in table.files().to_pylist()} <= ids
    assert reopen(table._storage).config.index == INDEX


def test_a_key_is_updated_and_deleted_where_it_lies():
    table = table_of()
    table.upsert(batch(("a", 2, 2, "p"), ("中", 2, 2, "p"), ("a", 2, 2, "q")))
    table.delete([{"id": "b", "dt": "p"}])
    assert {key: row["v"] for key, row in rows_of(table).items()} == {
        ("p", "a"): 2,
        ("p", "中"): 2,
        ("q", "a"): 2,
    }
    table.compact()
    assert len(rows_of(table)) == 3


def test_rows_of_many_partitions_each_have_the_ring_of_their_own():
    parts = pa.array([f"p{n % 7}" for n in range(500)])
    keys = pa.array([f"k{n}" for n in range(500)])
    hashes = key_hashes(keys, ["id"], ["id"], composite=False)
    found = node_numbers(parts, hashes, lambda part: first_ring(part, 1 + int(part[1:])))
    for part, hash_, number in zip(parts.to_pylist(), hashes, found, strict=True):
        values = [node.value for node in first_ring(part, 1 + int(part[1:])).nodes]
        assert values[number] >= hash_
        assert number == 0 or values[number - 1] < hash_
    none = node_numbers(parts.slice(0, 0), hashes[:0], lambda part: first_ring(part, 1))
    assert none.tolist() == []


def test_hashes_beyond_the_last_node_are_the_first_ones():
    short = dataclasses.replace(first_ring("p", 4), nodes=first_ring("p", 4).nodes[:2])
    hashes = np.array([0, 2**30, 2**30 + 1, 2**31 - 1], np.int32)
    parts = pa.array(["q", "p", "p", "p"])
    found = node_numbers(parts, hashes, lambda part: short if part == "p" else first_ring(part, 4))
    assert found.tolist() == [0, 1, 0, 0]


def test_the_ring_of_a_pending_clustering_does_not_count_yet():
    table = table_of()
    node, ring = split(table, used=False)
    _, instant = request(table, node)
    put(table, ring, instant)
    loaded = load_rings(snapshot(table))
    assert loaded.rings["p"] == stored(table)
    assert loaded.markers == ()
    there = {slice_.group.file_id for slice_ in snapshot(table).slices}
    without = [number for number, of in enumerate(stored(table).nodes) if of.file_id not in there]
    assert loaded.resizing == {BucketId("p", number): instant for number in without}
    table.upsert(batch(("a", 2, 2, "p")))
    assert len(names(table)) == 2


def test_rows_of_a_bucket_that_is_being_resized_are_refused_and_others_are_not():
    table = table_of()
    node, ring = split(table, used=True)
    _, instant = request(table, node)
    put(table, ring, instant)
    resized = {
        row["id"]
        for row in table.read(columns=["id", "_hoodie_file_name"]).read_all().to_pylist()
        if row["_hoodie_file_name"].startswith(node.file_id_prefix)
    }
    others = {"a", "b", "中"} - resized
    assert resized
    assert others
    before = rows_of(table)
    with pytest.raises(ConflictError, match=f"pending clustering {instant};"):
        table.upsert(batch(*((key, 2, 2, "p") for key in resized)))
    assert rows_of(table) == before
    table.upsert(batch(*((key, 2, 2, "p") for key in others), ("a", 2, 2, "q")))


def test_the_ring_of_a_completed_clustering_counts_and_the_next_writer_marks_it():
    table = table_of()
    node, ring = split(table, used=False)
    active, instant = request(table, node)
    put(table, ring, instant)
    complete(active, instant, node)
    loaded = load_rings(snapshot(table))
    assert loaded.rings["p"].nodes == ring.nodes
    table.upsert(batch(("a", 2, 2, "p")))
    marked = ["00000000000000.commit", f"{instant}.commit"]
    assert [name for name in names(table) if name.endswith(".commit")] == marked
    assert load_rings(snapshot(table)).markers == ()


def test_a_marked_ring_counts_whatever_the_timeline_has_forgotten():
    table = table_of()
    _, ring = split(table, used=False)
    put(table, ring, "20000101000000000")
    table._storage.put(f"{FOLDER}/p/20000101000000000.commit", b"")
    assert load_rings(snapshot(table)).rings["p"].nodes == ring.nodes


def test_a_ring_of_which_nobody_knows_whether_it_counts_is_refused():
    table = table_of()
    _, ring = split(table, used=True)
    put(table, ring, "20000101000000000")
    with pytest.raises(UnsupportedError, match=r"20000101000000000.*delete this file"):
        table.upsert(batch(("a", 2, 2, "p")))


def test_files_that_are_no_rings_are_left_alone():
    table = table_of()
    for name in (".00000000000000.hashing_meta.crc", "9.hashing_meta.tmp.123", "notes"):
        table._storage.put(f"{FOLDER}/p/{name}", b"?")
    assert load_rings(snapshot(table)).rings["p"] == stored(table)


def test_a_ring_that_is_cut_or_of_another_partition_is_corrupt():
    table = table_of()
    path = f"{FOLDER}/p/00000000000000.hashing_meta"
    data = table._storage.read(path)
    table._storage.put(path, data[:-5])
    with pytest.raises(CorruptError, match="hashing_meta"):
        table.upsert(batch(("a", 2, 2, "p")))
    table._storage.put(path, HashingMetadata.first("q", 16).encode())
    with pytest.raises(CorruptError, match="expected the ring of partition 'p', found 'q'"):
        table.upsert(batch(("a", 2, 2, "p")))


def test_a_partition_with_a_file_group_beside_its_ring_is_not_written_but_others_are():
    table = table_of()
    file = table.files().to_pylist()[0]
    data = table._storage.read(file["path"])
    table._storage.put("p/abc-0_0-0-0_20000101000000000.parquet", data)
    with pytest.raises(UnsupportedError, match="abc-0 has no node"):
        table.upsert(batch(("a", 2, 2, "p")))
    table.upsert(batch(("a", 2, 2, "q")))


def test_another_writer_who_began_with_more_buckets_is_a_conflict():
    table = table_of()
    ensure_ring(table._storage, first_ring("p", 16))
    with pytest.raises(ConflictError, match="with 16 buckets, we with 4"):
        ensure_ring(table._storage, first_ring("p", 4))


def test_what_ends_file_groups_is_refused():
    table = table_of()
    with pytest.raises(UnsupportedError, match="OVERWRITE new rows would be hidden"):
        table.insert_overwrite(batch(("a", 2, 2, "p")))
    with pytest.raises(UnsupportedError, match="DELETE_PARTITION new rows would be hidden"):
        table.delete_partitions(["p"])
    assert len(rows_of(table)) == 3


def test_an_empty_key_is_refused_as_with_every_index():
    table = table_of()
    with pytest.raises(InvalidError, match="neither null nor empty"):
        table.upsert(batch(("", 2, 2, "p")))


def test_the_number_of_buckets_is_that_of_the_rings():
    table = table_of()
    found = snapshot(table)
    any_number = dataclasses.replace(INDEX, buckets=None)
    assert strategy_of(any_number).settle(found) == INDEX
    with pytest.raises(InvalidError, match="have 16 buckets, found buckets=4"):
        strategy_of(dataclasses.replace(INDEX, buckets=4)).settle(found)
    empty = make(table_type="MERGE_ON_READ", index="consistent_hashing")
    with pytest.raises(InvalidError, match=r"needs buckets=<number>.*none yet"):
        strategy_of(any_number).settle(snapshot(empty))
    table._storage.put(
        f"{FOLDER}/q/00000000000000.hashing_meta", HashingMetadata.first("q", 4).encode()
    )
    with pytest.raises(InvalidError, match="its partitions have 4, 16"):
        strategy_of(any_number).settle(snapshot(table))
    assert strategy_of(INDEX).settle(snapshot(table)) == INDEX


def test_rings_that_do_not_fit_the_keys_are_refused():
    table = table_of(("a", 1, 1, "p"))
    ring = stored(table)
    turned = (ring.nodes[-1].file_id_prefix, *(node.file_id_prefix for node in ring.nodes[:-1]))
    nodes = tuple(
        dataclasses.replace(node, file_id_prefix=prefix)
        for node, prefix in zip(ring.nodes, turned, strict=True)
    )
    path = f"{FOLDER}/p/00000000000000.hashing_meta"
    table._storage.put(path, dataclasses.replace(ring, nodes=nodes).encode())
    with pytest.raises(InvalidError, match="key 'a' is in bucket"):
        strategy_of(INDEX).settle(snapshot(table))


def test_a_named_index_may_leave_the_number_of_buckets_to_the_rings():
    table = table_of()
    assert named_index(table.config, "consistent_hashing", None).buckets is None
    assert named_index(table.config, "CONSISTENT_HASHING", 16) == INDEX
    with pytest.raises(InvalidError, match="expected a number from 1"):
        named_index(table.config, "consistent_hashing", 0)
    table.upsert(batch(("a", 3, 3, "p")), index="consistent_hashing")
    with pytest.raises(InvalidError, match="is written with"):
        table.upsert(batch(("a", 3, 3, "p")), index="bucket", buckets=16)


def test_copy_on_write_is_refused_and_so_is_another_engine():
    with pytest.raises(UnsupportedError, match="needs a MERGE_ON_READ table"):
        make(index="consistent_hashing", table_type="COPY_ON_WRITE")
    with pytest.raises(UnsupportedError, match="needs a MERGE_ON_READ table"):
        named_index(make().config, "consistent_hashing", 4)
    with pytest.raises(InvalidError, match="contradicts the keyword index"):
        table_of(properties={"hoodie.index.bucket.engine": "SIMPLE"})
    engine = {"hoodie.index.bucket.engine": "consistent_hashing"}
    assert table_of(index="bucket", properties=engine).config.index == INDEX
