"""What an index knows at a snapshot, with definitions, runs and manifests written by hand."""

import itertools
from dataclasses import replace

import pyarrow as pa
import pytest

import lakebed
from lakebed.commit.rollback import side_path
from lakebed.errors import CorruptError, DamageWarning
from lakebed.expr.constraints import constraints_of
from lakebed.expr.predicate import Predicate
from lakebed.format.names.meta_columns import PARTITION_PATH, RECORD_KEY
from lakebed.index.secondary.definition import IndexDefinition
from lakebed.index.secondary.entries import make_entries, sort_entries, write_entries
from lakebed.index.secondary.manifest import CommitRuns, Manifest, put_manifest
from lakebed.index.secondary.open_index import (
    OpenIndex,
    UnusableIndex,
    index_folder,
    open_indexes,
)
from lakebed.index.secondary.ranges import key_ranges
from lakebed.table.config.properties_file import load_config, update_properties
from lakebed.table.files.file_group import FileGroupId
from lakebed.table.snapshot import Snapshot, load_snapshot
from support.indexes import unindexed

SCHEMA = pa.schema([("id", pa.int64()), ("city", pa.string())])
SHORT = {
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
    "hoodie.clean.commits.retained": "1",
    "hoodie.compact.inline.max.delta.commits": "1",
    "lakebed.clean.min.age.seconds": "0",
}


class HandMade:
    """A table whose index is written by the test."""

    def __init__(self, path: str, **how: object) -> None:
        self.table = lakebed.create_table(None, path, "id BIGINT, city STRING", key="id", **how)
        self.upsert({1: "rome", 2: "oslo"})
        self.storage = self.table._storage
        self.definition = IndexDefinition.create("by_city", ["city"], SCHEMA, "0a1b2c3d")
        update_properties(self.storage, {self.definition.property_name: self.definition.encode()})
        self.folder = index_folder(self.snapshot.config, self.definition)
        manifest = replace(
            Manifest.at(self.snapshot.timeline),
            is_complete=True,
            base=(self.run({1: "rome", 2: "oslo"}, "base"),),
        )
        self.manifest = manifest
        put_manifest(self.storage, self.folder, manifest)

    @property
    def snapshot(self) -> Snapshot:
        return load_snapshot(self.storage, load_config(self.storage))

    def upsert(self, rows: dict[int, str]) -> str:
        given = pa.table({"id": list(rows), "city": list(rows.values())})
        with unindexed(self.table):
            return self.table.upsert(given).instant

    def run(self, rows: dict[int, str], name: str, instant: str = "0", columns=("city",)):
        batch = pa.RecordBatch.from_pydict(
            {RECORD_KEY: list(map(str, rows)), "city": list(rows.values())}
        )
        path = side_path(f"index/{self.definition.folder}", instant, f"{name}.parquet")
        return write_entries(self.storage, path, [sort_entries([make_entries(batch, columns, "")])])

    def open(self) -> OpenIndex | UnusableIndex:
        (found,) = open_indexes(self.snapshot)
        return found

    def find(self, where: str, limit: int = 100) -> tuple[set[str], int]:
        index = self.open()
        assert isinstance(index, OpenIndex), index
        predicate = Predicate.parse(where, SCHEMA)
        ranges = key_ranges(["city"], index.kinds, constraints_of(predicate, SCHEMA, exact=True))
        assert ranges is not None
        candidates = index.find(ranges.ranges, limit)
        assert candidates is not None
        return set(candidates.keys.column(RECORD_KEY).to_pylist()), len(candidates.whole)


@pytest.fixture
def made(request):
    return HandMade(f"memory://index/{request.node.name}", buckets=2)


def test_a_table_without_indexes_opens_none():
    table = lakebed.create_table(None, "memory://index/none", "id BIGINT", key="id")
    assert open_indexes(table._snapshot(None)) == []


def test_an_index_finds_the_keys_of_its_base_run(made):
    assert made.find("city = 'rome'") == ({"1"}, 0)
    assert made.find("city IN ('rome', 'oslo')") == ({"1", "2"}, 0)
    index = made.open()
    assert index.num_entries == 2
    assert index.estimate([(b"", None)]) == 2


def test_a_commit_without_runs_leaves_its_file_groups_to_be_read_whole(made):
    made.upsert({1: "lima"})
    assert made.find("city = 'oslo'") == ({"2"}, 1)
    made.upsert({2: "lima", 3: "lima", 4: "bonn"})
    assert made.find("city = 'lima'") == (set(), 2)


def test_runs_of_commits_and_open_keys_are_candidates(made):
    instant = made.upsert({1: "lima"})
    runs = CommitRuns(
        entries=(made.run({1: "lima"}, "e", instant),),
        open=(made.run({9: ""}, "o", instant, columns=()),),
    )
    manifest = replace(
        made.manifest, commits={instant: runs}, covered=made.manifest.covered | {instant}
    )
    put_manifest(made.storage, made.folder, manifest)
    assert made.find("city = 'lima'") == ({"1", "9"}, 0)
    assert made.find("city = 'oslo'") == ({"2", "9"}, 0)
    assert made.open().num_open == 1


def test_more_candidates_than_the_limit_are_none(made):
    assert made.open().find([(b"", None)], 1) is None
    assert made.open().find([(b"", None)], 2) is not None


def test_file_groups_to_be_read_whole_are_followed_through_clustering():
    made = HandMade(
        "memory://index/clustered",
        index="simple",
        table_type="COPY_ON_WRITE",
        properties={"hoodie.parquet.small.file.limit": "0"},
    )
    made.upsert({1: "lima"})
    made.upsert({3: "lima"})
    before = made.open().manifest.whole
    assert made.table.cluster() is not None
    held = {slice_.group for slice_ in made.snapshot.slices}
    assert held
    assert held & before == set()
    assert held <= made.open().manifest.whole


def test_an_index_whose_commit_was_rolled_back_is_not_used(made):
    last = made.snapshot.timeline.commits[-1].requested
    made.table.rollback(last)
    index = made.open()
    assert isinstance(index, UnusableIndex)
    assert "rolled back" in index.reason


def test_archived_commits_are_not_forgotten(made):
    for n in range(8):
        made.upsert({n: "lima"})
    assert made.table.archive(options=SHORT) is not None
    # Another writer that archives leaves the manifest as it was.
    put_manifest(made.storage, made.folder, made.manifest)
    assert made.snapshot.timeline.first_active > made.manifest.mark
    assert made.find("city = 'rome'") == ({"1"}, 2)


def test_a_damaged_manifest_is_a_warning_and_a_reason(made):
    made.storage.put(f"{made.folder}/manifest.json", b"{")
    with pytest.warns(DamageWarning, match="not the manifest of an index"):
        index = made.open()
    assert isinstance(index, UnusableIndex)
    assert "repair()" in index.reason
    made.storage.delete(f"{made.folder}/manifest.json")
    assert "missing" in made.open().reason


def test_an_archived_commit_of_a_writer_whose_clock_was_behind_is_not_forgotten(made):
    behind = made.upsert({1: "lima"})
    for n in range(8):
        made.upsert({n: "lima"})
    # As if the first of these commits had completed after the manifest was written.
    manifest = Manifest.at(made.snapshot.timeline)
    seen = manifest.covered - {behind}
    manifest = replace(made.manifest, mark=manifest.mark, covered=seen, settled=seen)
    assert made.table.archive(options=SHORT) is not None
    # The other writer archives its commit too, and leaves the manifest as it was.
    put_manifest(made.storage, made.folder, manifest)
    assert behind < made.snapshot.timeline.first_active < manifest.mark
    assert made.open().manifest.whole


def test_no_flipped_bit_of_a_manifest_changes_what_it_says(made):
    group = FileGroupId("p", "f-0")
    runs = CommitRuns(open=made.manifest.base)
    commits = {made.manifest.mark: runs}
    manifest = replace(
        made.manifest, commits=commits, whole=frozenset({group}), emptied=frozenset("p")
    )
    data = manifest.encode()
    assert Manifest.parse(data, "m") == manifest
    changed = 0
    for at, bit in itertools.product(range(len(data)), range(8)):
        damaged = data[:at] + bytes([data[at] ^ (1 << bit)]) + data[at + 1 :]
        try:
            # White space may differ.
            assert Manifest.parse(damaged, "m") == manifest
        except CorruptError:
            changed += 1
    assert changed > 7 * len(data)


def test_a_manifest_with_another_mark_is_a_warning_and_a_reason(made):
    path = f"{made.folder}/manifest.json"
    mark = made.manifest.mark.encode()
    later = mark[:-1] + (b"8" if mark.endswith(b"9") else b"9")
    made.storage.put(path, made.storage.read(path).replace(mark, later, 1))
    with pytest.warns(DamageWarning, match="the checksum does not match"):
        assert isinstance(made.open(), UnusableIndex)


def test_a_missing_run_is_a_warning_and_no_answer(made):
    made.storage.delete(made.manifest.base[0].path)
    index = made.open()
    with pytest.warns(DamageWarning, match="run repair"):
        assert index.find([(b"", None)], 100) is None
    with pytest.warns(DamageWarning, match="run repair"):
        assert index.estimate([(b"", None)]) == 2


def test_an_index_knows_the_latest_state_only(made):
    snapshot = made.table._snapshot(made.snapshot.timeline.commits[-1].requested)
    (index,) = open_indexes(snapshot)
    assert isinstance(index, UnusableIndex)


def test_a_manifest_survives_its_encoding(made):
    made.upsert({1: "lima"})
    manifest = made.open().manifest
    assert Manifest.parse(manifest.encode(), "it") == manifest
    assert PARTITION_PATH in made.open().find([(b"", None)], 9).keys.column_names
