"""The consistent-hashing bucket index between Lakebed and Apache Hudi: no key is ever there twice."""

import json
import pathlib
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from interop.clients import Hudi, PeerError
from interop.rows import user_rows
from lakebed.errors import ConflictError, InvalidError, UnsupportedError
from lakebed.format.names.consistent_hashing import HashingMetadata

SCHEMA = pa.schema(
    [("id", pa.string()), ("n", pa.string()), ("ts", pa.int64()), ("dt", pa.string())]
)
IDS = [*(f"user_{n}" for n in range(20)), "中文", "😀é", "a,b", "x:y", "k,l:m", "z" * 40]
RINGS = ".hoodie/.bucket_index/consistent_hashing_metadata"
OPTIONS = {
    "hoodie.table.name": "ring",
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.datasource.write.operation": "upsert",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "dt",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.index.type": "BUCKET",
    "hoodie.index.bucket.engine": "CONSISTENT_HASHING",
    "hoodie.bucket.index.num.buckets": "4",
    "hoodie.logfile.data.block.format": "parquet",
    "hoodie.metadata.enable": "false",
    "hoodie.compact.inline": "false",
    "hoodie.clean.automatic": "false",
}
STRATEGY = "org.apache.hudi.client.clustering"
RESIZE = {
    "hoodie.bucket.index.max.num.buckets": "8",
    "hoodie.bucket.index.min.num.buckets": "2",
    "hoodie.clustering.plan.strategy.class": (
        f"{STRATEGY}.plan.strategy.SparkConsistentBucketClusteringPlanStrategy"
    ),
    "hoodie.clustering.execution.strategy.class": (
        f"{STRATEGY}.run.strategy.SparkConsistentBucketClusteringExecutionStrategy"
    ),
    "hoodie.clustering.updates.strategy": (
        f"{STRATEGY}.update.strategy.SparkConsistentBucketDuplicateUpdateStrategy"
    ),
}
# A plan is only made by a write; what is larger than twice this is split, below a fifth joined.
SPLIT = {**RESIZE, "hoodie.parquet.max.file.size": "100"}
JOIN = {**RESIZE, "hoodie.parquet.max.file.size": "1000000000"}
PLAN = {
    "hoodie.clustering.schedule.inline": "true",
    "hoodie.clustering.inline.max.commits": "1",
    "hoodie.clustering.async.max.commits": "1",
}


def rows(ids: list[str], ts: int, dt: str = "p") -> pa.Table:
    """Return a row for each key."""
    made = [{"id": key, "n": f"n{ts}", "ts": ts, "dt": dt} for key in ids]
    return pa.Table.from_pylist(made, schema=SCHEMA)


def seen_by_both(hudi: Hudi, path: pathlib.Path) -> list[dict[str, Any]]:
    """Read the table with both engines, which must see the same, each key once."""
    ours = user_rows(lakebed.open_table(None, str(path)).read().read_all(), ["dt", "id", "n"])
    assert user_rows(hudi.read(path), ["dt", "id", "n"]) == ours
    keys = hudi.read(path).select(["_hoodie_record_key", "_hoodie_partition_path"]).to_pylist()
    assert set(Counter(tuple(key.values()) for key in keys).values()) == {1}
    return ours


def latest(found: list[dict[str, Any]], dt: str = "p") -> dict[str, int]:
    """Return the ordering value of each key in a partition."""
    return {row["id"]: row["ts"] for row in found if row["dt"] == dt}


def rings(path: pathlib.Path, partition: str = "p") -> dict[str, int]:
    """Return the number of nodes of each ring of a partition, by instant."""
    files = (path / RINGS / partition).glob("*.hashing_meta")
    return {f.stem: len(json.loads(f.read_text("utf-8"))["nodes"]) for f in sorted(files)}


@pytest.mark.parametrize("logs", ["parquet", "avro"])
def test_hudi_and_we_write_one_table_in_turn(hudi: Hudi, tmp_path: pathlib.Path, logs: str) -> None:
    path = tmp_path / "t"
    options = {**OPTIONS, "hoodie.logfile.data.block.format": logs}
    hudi.write(path, rows(IDS, 1), options)
    table = lakebed.open_table(None, str(path))
    with pytest.raises(InvalidError, match="consistent"):
        table.upsert(rows(IDS[:2], 2), index="simple")
    with pytest.raises(InvalidError, match="4 buckets, found buckets=5"):
        table.upsert(rows(IDS[:2], 2), index="consistent_hashing", buckets=5)
    table.upsert(rows([*IDS[::2], "new"], 2), index="consistent_hashing")
    table.upsert(rows(IDS, 2, "q é"))
    assert rings(path, "q é") == {"00000000000000": 4}
    found = seen_by_both(hudi, path)
    assert latest(found) == dict.fromkeys(IDS, 1) | dict.fromkeys((*IDS[::2], "new"), 2)
    hudi.write(path, rows([*IDS[1::2], "newer"], 3), options)
    hudi.write(path, rows([*IDS[1::2], "newer"], 3, "q é"), options)
    found = seen_by_both(hudi, path)
    assert latest(found) == dict.fromkeys((*IDS, "new"), 2) | dict.fromkeys(
        (*IDS[1::2], "newer"), 3
    )
    assert latest(found, "q é") == dict.fromkeys(IDS, 2) | dict.fromkeys((*IDS[1::2], "newer"), 3)
    table = lakebed.open_table(None, str(path))
    assert table.compact()
    assert seen_by_both(hudi, path) == found
    table.delete([{"id": "中文", "dt": "p"}])
    hudi.write(path, rows(["a,b"], 4), options)
    assert latest(seen_by_both(hudi, path)) == {
        key: ts for key, ts in latest(found).items() if key != "中文"
    } | {"a,b": 4}


COMPOSITE = [(f"k{a}", b) for a in range(12) for b in ("1", "中😀", None, "", "y,z", "v:w")]
GENERATORS = "org.apache.hudi.keygen"


@pytest.mark.parametrize("hashed", ["id,n", "n", "id"])
def test_composite_keys_are_found_where_hudi_hashed_them(
    hudi: Hudi, tmp_path: pathlib.Path, hashed: str
) -> None:
    path = tmp_path / "t"
    # Hudi never returns from a key with a colon in a last value that is not hashed.
    parts = [(a, b) for a, b in COMPOSITE if hashed != "id" or b != "v:w"]
    first, second = (
        pa.Table.from_pylist([{"id": a, "n": b, "ts": ts, "dt": "p"} for a, b in parts], SCHEMA)
        for ts in (1, 2)
    )
    options = {
        **OPTIONS,
        "hoodie.datasource.write.recordkey.field": "id,n",
        "hoodie.datasource.write.keygenerator.class": f"{GENERATORS}.ComplexKeyGenerator",
        "hoodie.bucket.index.hash.field": hashed,
        "hoodie.bucket.index.num.buckets": "32",
    }
    hudi.write(path, first, options)
    properties = path / ".hoodie" / "hoodie.properties"
    with properties.open("a", encoding="utf-8") as file:
        # The hash fields are no keyword of a write: who knows them stores them.
        file.write("hoodie.index.type=BUCKET\nhoodie.index.bucket.engine=CONSISTENT_HASHING\n")
        file.write("hoodie.bucket.index.num.buckets=32\n")
        file.write(f"hoodie.bucket.index.hash.field={hashed}\n")
    (path / ".hoodie" / ".hoodie.properties.crc").unlink()
    lakebed.open_table(None, str(path)).upsert(second)
    assert [row["ts"] for row in seen_by_both(hudi, path)] == [2] * len(parts)


def test_a_table_without_partitions_keeps_one_ring(hudi: Hudi, tmp_path: pathlib.Path) -> None:
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    options = {
        **OPTIONS,
        "hoodie.datasource.write.partitionpath.field": "",
        "hoodie.datasource.write.keygenerator.class": f"{GENERATORS}.NonpartitionedKeyGenerator",
    }
    hudi.write(theirs, rows(IDS, 1), options)
    lakebed.open_table(None, str(theirs)).upsert(rows(IDS, 2), index="consistent_hashing")
    table = lakebed.create_table(
        None,
        str(ours),
        SCHEMA,
        key="id",
        ordering="ts",
        table_type="MERGE_ON_READ",
        name="ring",
        index="consistent_hashing",
        buckets=4,
    )
    table.upsert(rows(IDS, 1))
    first = [path / RINGS / "00000000000000.hashing_meta" for path in (theirs, ours)]
    read = [HashingMetadata.parse(file.read_bytes(), str(file)) for file in first]
    assert read[0] == read[1]
    hudi.write(ours, rows(IDS, 2), options)
    for path in (theirs, ours):
        assert set(latest(seen_by_both(hudi, path)).values()) == {2}


def clustering(hudi: Hudi, path: pathlib.Path, options: dict[str, str]) -> None:
    """Carry out what is planned."""
    text = ",".join(f"{name}={value}" for name, value in {**OPTIONS, **options}.items())
    done = hudi.sql(f"CALL run_clustering(path => '{path}', op => 'execute', options => '{text}')")
    assert done["rows"]


@pytest.mark.parametrize("logs", ["parquet", "avro"])
def test_buckets_that_hudi_splits_and_joins_stay_ours(
    hudi: Hudi, tmp_path: pathlib.Path, logs: str
) -> None:
    path = tmp_path / "t"
    options = {**OPTIONS, "hoodie.logfile.data.block.format": logs}
    table = lakebed.create_table(
        None,
        str(path),
        SCHEMA,
        key="id",
        ordering="ts",
        partition_by="dt",
        table_type="MERGE_ON_READ",
        table_version=9,
        name="ring",
        index="consistent_hashing",
        buckets=4,
    )
    table.upsert(rows([*IDS, "gone"], 1))
    table.upsert(rows(["gone"], 9).append_column("_hoodie_is_deleted", pa.array([True])))
    table.compact("full")
    # The late row lies on top of a tombstone, which Hudi reads as the first log of its slice.
    table.upsert(rows(["gone"], 5))
    assert "gone" not in latest(seen_by_both(hudi, path))
    # Hudi takes the index from the table's properties, and plans to split every bucket.
    hudi.write(path, rows(IDS[:1], 2), {**options, **SPLIT, **PLAN})
    table = lakebed.open_table(None, str(path))
    with pytest.raises(ConflictError, match=r"resized by the pending clustering"):
        table.upsert(rows(IDS, 3))
    table.upsert(rows(IDS[:3], 3, "elsewhere"))
    assert seen_by_both(hudi, path)
    # Hudi writes to old and new file groups, the new ones named after the pending clustering.
    hudi.write(path, rows([*IDS[5:10], "late"], 4), {**options, **SPLIT})
    before = seen_by_both(hudi, path)
    assert latest(before)["late"] == 4
    clustering(hudi, path, {**options, **SPLIT})
    assert seen_by_both(hudi, path) == before
    assert list(rings(path).values()) == [4, 8]
    split = list(rings(path))[1]
    markers = path / RINGS / "p"
    assert not (markers / f"{split}.commit").exists()
    table = lakebed.open_table(None, str(path))
    table.upsert(rows([*IDS, "latest"], 5))
    assert sorted(f.stem for f in markers.glob("*.commit")) == ["00000000000000", split]
    found = seen_by_both(hudi, path)
    assert latest(found) == dict.fromkeys((*IDS, "latest"), 5) | {"late": 4}
    hudi.write(path, rows([*IDS, "late"], 6), {**options, **JOIN, **PLAN})
    clustering(hudi, path, {**options, **JOIN})
    assert list(rings(path).values())[-1] < 8
    found = seen_by_both(hudi, path)
    lakebed.open_table(None, str(path)).upsert(rows([*IDS, "late", "latest"], 7))
    after = seen_by_both(hudi, path)
    assert latest(after) == dict.fromkeys(latest(found), 7)
    hudi.write(path, rows(IDS, 8), options)
    assert Counter(latest(seen_by_both(hudi, path)).values()) == {8: len(IDS), 7: 2}


def test_copy_on_write_is_refused_by_hudi_and_by_us(hudi: Hudi, tmp_path: pathlib.Path) -> None:
    cow = {**OPTIONS, "hoodie.datasource.write.table.type": "COPY_ON_WRITE"}
    with pytest.raises(PeerError, match="Consistent hashing bucket index does not work with COW"):
        hudi.write(tmp_path / "theirs", rows(IDS, 1), cow)
    with pytest.raises(UnsupportedError, match="consistent hashing needs a MERGE_ON_READ table"):
        lakebed.create_table(
            None,
            str(tmp_path / "ours"),
            SCHEMA,
            key="id",
            table_type="COPY_ON_WRITE",
            index="consistent_hashing",
        )


def test_what_hudi_loses_we_refuse(hudi: Hudi, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "t"
    hudi.write(path, rows(IDS, 1), OPTIONS)
    gone = {
        "hoodie.datasource.write.operation": "delete_partition",
        "hoodie.datasource.write.partitions.to.delete": "p",
    }
    hudi.write(path, rows(IDS[:1], 1), {**OPTIONS, **gone})
    hudi.write(path, rows(IDS[:4], 2), OPTIONS)
    # The file ids of the ring were replaced: Hudi 1.2.0 writes there, and then hides what it wrote.
    assert hudi.read(path).num_rows == 0
    table = lakebed.open_table(None, str(path))
    assert table.read().read_all().num_rows == 0
    with pytest.raises(InvalidError, match="readers would hide"):
        table.upsert(rows(IDS[:4], 3), index="consistent_hashing")
    with pytest.raises(UnsupportedError, match="new rows would be hidden"):
        table.delete_partitions(["q"])
