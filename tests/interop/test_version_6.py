"""Tables of version 6 (timeline layout 1) that Apache Hudi 1.2.0 writes: read as Hudi reads them."""

import pathlib
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from interop.clients import Hudi
from interop.rows import exact
from lakebed.errors import InvalidError
from lakebed.format.names.meta_columns import META_COLUMNS

SCHEMA = pa.schema(
    [("id", pa.string()), ("v", pa.int64()), ("ts", pa.int64()), ("dt", pa.string())]
)
FORMATS = pytest.mark.parametrize("block_format", ["avro", "parquet"])
TYPES = pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])


def rows_of(*rows: tuple[str, int, int, str]) -> pa.Table:
    """Return rows of SCHEMA."""
    named = [dict(zip(SCHEMA.names, row, strict=True)) for row in rows]
    return pa.Table.from_pylist(named, schema=SCHEMA)


FIRST = rows_of(*((f"k{i}", i, 5, f"p{i % 2}") for i in range(8)))
SECOND = rows_of(("k1", 100, 6, "p1"), ("k2", -1, 1, "p0"), ("new", 7, 6, "p0"))
FOURTH = rows_of(("k3", 301, 9, "p1"), ("k0", 500, 9, "p0"), ("late", 1, 9, "p1"))


COMMITS = ("commit", "deltacommit", "replacecommit")
COLUMNS = [*META_COLUMNS, *SCHEMA.names]


class Peer:
    """A table of version 6 that Hudi writes, and what both engines see in it."""

    def __init__(self, hudi: Hudi, path: pathlib.Path, table_type: str, **more: str) -> None:
        self.hudi, self.path = hudi, path
        self.options = {
            "hoodie.table.name": path.name,
            "hoodie.write.table.version": "6",
            "hoodie.write.auto.upgrade": "false",
            "hoodie.datasource.write.table.type": table_type,
            "hoodie.datasource.write.recordkey.field": "id",
            "hoodie.datasource.write.partitionpath.field": "dt",
            "hoodie.datasource.write.precombine.field": "ts",
            "hoodie.index.type": "SIMPLE",
            "hoodie.metadata.enable": "false",
            "hoodie.compact.inline": "false",
            "hoodie.clean.automatic": "false",
            "hoodie.upsert.shuffle.parallelism": "2",
            "hoodie.insert.shuffle.parallelism": "2",
            "hoodie.simple.index.parallelism": "2",
            **more,
        }

    def write(self, rows: pa.Table, operation: str = "upsert", **more: str) -> None:
        told = {"hoodie.datasource.write.operation": operation}
        self.hudi.write(self.path, rows, self.options | told | more)

    @property
    def table(self) -> lakebed.Table:
        return lakebed.open_table(None, str(self.path))

    def instants(self, *words: str) -> list[str]:
        """Return the instants that have a file of one of these words."""
        folder = self.path / ".hoodie"
        return sorted(p.name[:17] for word in words for p in folder.glob(f"[0-9]*.{word}"))

    def logs(self, partition: str) -> list[pathlib.Path]:
        """Return the logs of a partition by version."""
        found = (self.path / partition).glob(".*.log.*")
        whole = (path for path in found if path.suffix != ".crc")
        return sorted(whole, key=lambda path: path.name.partition(".log.")[2])

    def ours(self, **options: Any) -> list[dict[str, Any]]:
        return _sorted(self.table.read(columns=COLUMNS, **options).read_all())

    def theirs(self, **options: str) -> list[dict[str, Any]]:
        return _sorted(self.hudi.read(self.path, **options))

    def agreed(self) -> list[dict[str, Any]]:
        """Check that both see the same rows, meta columns too; give them."""
        assert self.table.config.version == 6, "Hudi upgraded it under our hands"
        now = self.ours()
        assert now == self.theirs()
        return now

    def check_moments(self) -> None:
        """Check that both see the same as of every commit."""
        for instant in self.instants(*COMMITS):
            assert self.ours(as_of=instant) == self.theirs(**{"as.of.instant": instant}), instant


def _sorted(table: pa.Table) -> list[dict[str, Any]]:
    rows = [exact(row) for row in table.select(COLUMNS).to_pylist()]
    return sorted(rows, key=lambda row: (row["id"], row["dt"], row["v"]))


def values(rows: list[dict[str, Any]]) -> dict[str, int]:
    return {row["id"]: row["v"] for row in rows}


@TYPES
def test_upserts_deletes_and_overwritten_partitions_are_seen_now_and_as_of_each_commit(
    hudi: Hudi, tmp_path: pathlib.Path, table_type: str
):
    peer = Peer(hudi, tmp_path / "t", table_type)
    peer.write(FIRST)
    peer.write(SECOND)
    assert values(peer.agreed())["k2"] == 2, "the row with the smaller ordering value loses"
    peer.write(rows_of(("k5", 0, 9, "p1")), "delete")
    assert "k5" not in values(peer.agreed())
    peer.write(rows_of(("only", 1, 1, "p0")), "insert_overwrite")
    peer.write(rows_of(("after", 1, 1, "p0"), ("k1", 102, 9, "p1")))
    assert not {"k0", "k2", "k4"} & values(peer.agreed()).keys()
    peer.check_moments()


@FORMATS
def test_a_compaction_is_seen_alike_while_it_is_planned_and_after(
    hudi: Hudi, tmp_path: pathlib.Path, block_format: str
):
    more = {"hoodie.logfile.data.block.format": block_format}
    peer = Peer(hudi, tmp_path / "t", "MERGE_ON_READ", **more)
    due = {"hoodie.compact.inline.max.delta.commits": "1"}
    peer.write(FIRST)
    peer.write(SECOND, **due, **{"hoodie.compact.schedule.inline": "true"})
    (planned,) = peer.instants("compaction.requested")
    peer.write(FOURTH)
    assert any(planned in log.name for log in peer.logs("p1")), "these belong to the new slice"
    during = peer.agreed()
    assert values(during)["k3"] == 301
    optimized = {"hoodie.datasource.query.type": "read_optimized"}
    assert peer.ours(mode="read_optimized") == peer.theirs(**optimized)
    peer.write(rows_of(("k6", 0, 9, "p0")), "delete", **due, **{"hoodie.compact.inline": "true"})
    assert planned in peer.instants("commit"), "the plan is carried out"
    after = values(peer.agreed())
    assert after == {key: v for key, v in values(during).items() if key != "k6"}
    assert peer.ours(mode="read_optimized") == peer.theirs(**optimized)
    peer.write(rows_of(("k1", 102, 20, "p1")))
    assert values(peer.agreed())["k1"] == 102
    peer.check_moments()


def test_buckets_and_a_metadata_table_of_hudi_change_nothing_for_a_reader(
    hudi: Hudi, tmp_path: pathlib.Path
):
    more = {
        "hoodie.index.type": "BUCKET",
        "hoodie.bucket.index.num.buckets": "2",
        "hoodie.metadata.enable": "true",
    }
    peer = Peer(hudi, tmp_path / "t", "MERGE_ON_READ", **more)
    for rows in (FIRST, SECOND, FOURTH):
        peer.write(rows)
    assert (peer.path / ".hoodie/metadata/.hoodie").is_dir()
    peer.agreed()
    assert values(peer.table.lookup([{"id": "k3", "dt": "p1"}]).to_pylist()) == {"k3": 301}


def test_a_write_that_died_is_seen_neither_before_nor_after_hudi_takes_it_back(
    hudi: Hudi, tmp_path: pathlib.Path
):
    peer = Peer(hudi, tmp_path / "t", "MERGE_ON_READ")
    peer.write(FIRST)
    before = peer.agreed()
    peer.write(SECOND)
    died = peer.instants("deltacommit")[-1]
    for name in (f"{died}.deltacommit", f".{died}.deltacommit.crc"):
        (peer.path / ".hoodie" / name).unlink()
    assert peer.agreed() == before
    peer.write(FOURTH)
    assert peer.instants("rollback")
    assert values(peer.agreed()) == values(before) | {"k3": 301, "k0": 500, "late": 1}


def test_clustered_file_groups_replace_those_that_they_were_made_of(
    hudi: Hudi, tmp_path: pathlib.Path
):
    peer = Peer(hudi, tmp_path / "t", "MERGE_ON_READ")
    peer.write(FIRST)
    inline = {"hoodie.clustering.inline": "true", "hoodie.clustering.inline.max.commits": "1"}
    peer.write(SECOND, **inline)
    assert len(peer.instants("replacecommit")) == 1
    assert len(peer.agreed()) == 9
    peer.write(FOURTH)
    peer.agreed()
    peer.check_moments()


def test_archived_commits_are_read_but_not_as_of_then(hudi: Hudi, tmp_path: pathlib.Path):
    more = {
        "hoodie.keep.min.commits": "3",
        "hoodie.keep.max.commits": "4",
        "hoodie.clean.automatic": "true",
        "hoodie.clean.commits.retained": "1",
    }
    peer = Peer(hudi, tmp_path / "t", "COPY_ON_WRITE", **more)
    peer.write(FIRST)
    (first,) = peer.instants("commit")
    for number in range(6):
        peer.write(rows_of(("k1", 1000 + number, 10 + number, "p1")))
    active = peer.instants("commit")
    assert first < active[0], "it is archived"
    assert len(peer.agreed()) == 8, "rows of archived commits count"
    with pytest.raises(InvalidError, match=f"as of {first}: .*(archived|cleaned)"):
        peer.ours(as_of=first)
    assert values(peer.ours(as_of=active[-1]))["k1"] == 1005
    shown = peer.table.history().to_pylist()
    assert [row["instant"] for row in shown if row["action"] == "commit"] == active[::-1]
    assert all(row["completion_time"] == row["instant"] for row in shown if row["completion_time"])


def test_blocks_of_several_writes_in_one_file_count_each_by_its_own_instant(
    hudi: Hudi, tmp_path: pathlib.Path
):
    peer = Peer(hudi, tmp_path / "t", "MERGE_ON_READ")
    for rows in (FIRST, rows_of(("k1", 100, 6, "p1")), rows_of(("k1", 101, 7, "p1"))):
        peer.write(rows)
    wanted = peer.agreed()
    one, two = peer.logs("p1")
    # As a writer on a file system with appends leaves them: one file, and both commits name it.
    one.write_bytes(one.read_bytes() + two.read_bytes())
    two.unlink()
    for commit in (peer.path / ".hoodie").glob("[0-9]*.deltacommit"):
        commit.write_text(commit.read_text().replace(two.name, one.name))
    for checksum in peer.path.rglob(".*.crc"):
        checksum.unlink()
    assert peer.agreed() == wanted
    peer.check_moments()
    assert [values(peer.ours(as_of=at))["k1"] for at in peer.instants("deltacommit")] == [
        1,
        100,
        101,
    ]
