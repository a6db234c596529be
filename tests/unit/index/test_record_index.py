"""The record index knows the file group of each key, and says where it does not."""

import json
from collections import Counter
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from lakebed.api.table import Table
from lakebed.errors import ConflictError, DamageWarning, InvalidError
from lakebed.format.names.meta_columns import PARTITION_PATH, RECORD_KEY
from lakebed.index.holders import HOLDERS
from lakebed.index.kinds import strategy_of
from lakebed.index.record.entries import (
    ENTRIES_SCHEMA,
    PLACES,
    drop_places,
    join_entries,
    make_entries,
    place_of,
    read_entries,
    to_holders,
    unique_places,
    write_entries,
)
from lakebed.index.record.state import RECORD_INDEX_FOLDER, RecordIndexState, open_record_index
from lakebed.index.record.strategy import RecordLocator
from lakebed.index.secondary.manifest import Manifest, put_manifest
from lakebed.index.strategy import NewWrite
from lakebed.model.options.table import UPDATE_PARTITION
from lakebed.scan.lookup import plan_lookup
from lakebed.scan.scan import plan_scan
from lakebed.services.record_index import MAX_RUNS
from lakebed.services.verify.findings import Code, Mend
from lakebed.services.verify.plan import plan_repair
from lakebed.storage.objects import memory_storage
from lakebed.table.config.properties_file import update_properties
from lakebed.table.files.file_group import FileGroupId
from lakebed.table.read.source_cache import SourceCache
from lakebed.write.spec.operation import BULK_INSERT, DELETE, INSERT, INSERT_OVERWRITE, UPSERT
from support.faulty import FaultyStorage
from support.machine_services import ARCHIVES, BY_HAND
from support.tables import batch, check_files, check_no_leftovers, contents, copy_of, make, reopen

NO_FILL = {"hoodie.parquet.small.file.limit": "0"}
TYPES = pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
INDEXES = pytest.mark.parametrize("index", ["record", "global_record"])
OPTIMISTIC = {"hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL"}
MANIFEST = f"{RECORD_INDEX_FOLDER}/manifest.json"


def state_of(table: Table) -> RecordIndexState:
    return open_record_index(table._snapshot(None))


def index_files(table: Table) -> set[str]:
    return {entry.path for entry in table._storage.list(RECORD_INDEX_FOLDER)}


def rows(table: Table) -> list[tuple[str, str, int]]:
    """Return every row, so that a key that comes twice shows."""
    found = reopen(table._storage).read().read_all().to_pylist()
    return sorted((row["dt"], row["id"], row["v"]) for row in found)


def as_another_writer(table: Table, *new: tuple[str, int, int, str]) -> None:
    """Write as a writer does that knows nothing of the record index."""
    stored = table.config.properties["hoodie.index.type"]
    update_properties(table._storage, {"hoodie.index.type": "SIMPLE"})
    reopen(table._storage).upsert(batch(*new))
    update_properties(table._storage, {"hoodie.index.type": stored})


@INDEXES
@TYPES
def test_keys_are_found_without_a_look_at_base_files(index: str, table_type: str):
    table = make(index=index, table_type=table_type, properties=NO_FILL)
    table.upsert(batch(("a", 1, 1, "p"), ("b", 1, 1, "p"), ("c", 1, 1, "q")))
    table.upsert(batch(("a", 2, 2, "p"), ("d", 2, 2, "p")))
    state = state_of(table)
    assert state.whole == frozenset()
    assert [run.entries for run in state.runs] == [3, 1]
    slices = list(table._snapshot(None).slices)
    view = table._snapshot(None).view()
    sources = RecordLocator(state.whole, state.runs).key_sources(view, slices, pa.array(["a", "x"]))
    # No source is a base file.
    assert len(sources) == len(state.runs)
    (found,) = [rows for source in sources for rows in source.open(view).batches if rows.num_rows]
    assert found.column(RECORD_KEY).to_pylist() == ["a"]
    assert slices[int(found.column(HOLDERS)[0].as_py())].group.partition == "p"
    assert rows(table) == [("p", "a", 2), ("p", "b", 1), ("p", "d", 2), ("q", "c", 1)]
    check_files(table)
    check_no_leftovers(table._storage)


@TYPES
def test_an_index_per_partition_keeps_the_keys_of_partitions_apart(table_type: str):
    table = make(index="record", table_type=table_type)
    table.upsert(batch(("a", 1, 1, "p"), ("a", 1, 1, "q")))
    table.upsert(batch(("a", 2, 2, "q")))
    assert rows(table) == [("p", "a", 1), ("q", "a", 2)]


@TYPES
def test_a_row_moves_to_its_new_partition_and_back_with_a_global_index(table_type: str):
    table = make(index="global_record", table_type=table_type, properties=NO_FILL)
    for value, partition in enumerate("pqprq"):
        table.upsert(batch(("a", value, value, partition), ("b", value, value, "p")))
        assert rows(table) == sorted([(partition, "a", value), ("p", "b", value)])
    table.delete([{"id": "a"}])
    table.upsert(batch(("a", 9, 9, "s")))
    assert rows(table) == [("p", "b", 4), ("s", "a", 9)]


@INDEXES
@TYPES
def test_a_key_that_was_deleted_and_forgotten_comes_back_once(index: str, table_type: str):
    table = make(index=index, table_type=table_type, properties=NO_FILL)
    table.upsert(batch(("a", 1, 1, "p"), ("b", 1, 1, "p")))
    for version in range(2, 5):
        table.delete([{"id": "a", "dt": "p"}] if index == "record" else [{"id": "a"}])
        if table_type == "MERGE_ON_READ":
            table.compact(mode="full")
        assert rows(table) == [("p", "b", 1)]
        table.upsert(batch(("a", version, version, "p")))
        assert rows(table) == [("p", "a", version), ("p", "b", 1)]
    check_files(table)


@pytest.mark.parametrize("index", ["record", "global_record", "simple", "bloom"])
@TYPES
def test_a_deleted_key_that_is_inserted_elsewhere_is_updated_only_there(
    index: str, table_type: str
):
    table = make(index=index, table_type=table_type, properties=NO_FILL)
    table.upsert(batch(("a", 1, 1, "p"), ("b", 1, 1, "p")))
    table.delete([{"id": "a"}] if index == "global_record" else [{"id": "a", "dt": "p"}])
    # An insert does not look keys up, so the key gets another file group.
    table.insert(batch(("a", 2, 2, "p")))
    table.upsert(batch(("a", 3, 3, "p"), ("b", 3, 3, "p")))
    assert rows(table) == [("p", "a", 3), ("p", "b", 3)]
    check_files(table)


@TYPES
def test_a_deleted_key_that_another_writer_inserted_is_updated_only_there(table_type: str):
    table = make(index="record", table_type=table_type, properties=NO_FILL)
    table.upsert(batch(("a", 1, 1, "p"), ("b", 1, 1, "p")))
    table.delete([{"id": "a", "dt": "p"}])
    if table_type == "MERGE_ON_READ":
        table.compact(mode="full")
    as_another_writer(table, ("a", 2, 2, "p"))
    table.upsert(batch(("a", 3, 3, "p"), ("b", 3, 3, "p")))
    assert rows(table) == [("p", "a", 3), ("p", "b", 3)]


def test_a_forgotten_key_of_a_row_that_must_stay_goes_to_the_partition_that_it_names():
    stays = {**NO_FILL, "hoodie.simple.index.update.partition.path": "false"}
    table = make(index="global_record", table_type="COPY_ON_WRITE", properties=stays)
    table.upsert(batch(("a", 1, 1, "p"), ("b", 1, 1, "p")))
    table.upsert(batch(("b", 2, 2, "q")))
    table.delete([{"id": "a"}])
    table.upsert(batch(("a", 2, 2, "q")))
    found = table.read(columns=["id", "v", PARTITION_PATH]).read_all().to_pylist()
    places = sorted((row["id"], row["v"], row[PARTITION_PATH]) for row in found)
    assert places == [("a", 2, "q"), ("b", 2, "p")]


@TYPES
def test_keys_that_another_writer_added_are_found_in_its_files_and_then_indexed(table_type: str):
    table = make(index="record", table_type=table_type, properties=NO_FILL)
    table.upsert(batch(("a", 1, 1, "p"), ("b", 1, 1, "p")))
    as_another_writer(table, ("a", 2, 2, "p"), ("c", 2, 2, "p"))
    table = reopen(table._storage)
    state = state_of(table)
    assert state.whole == {slice_.group for slice_ in table._snapshot(None).slices}
    table.upsert(batch(("a", 3, 3, "p"), ("c", 3, 3, "p"), ("d", 3, 3, "p")))
    assert rows(table) == [("p", "a", 3), ("p", "b", 1), ("p", "c", 3), ("p", "d", 3)]
    # The services after the write have caught up.
    assert state_of(table).whole == frozenset()
    check_files(table)


@TYPES
def test_clustered_rows_are_found_in_their_new_file_groups(table_type: str):
    table = make(index="record", table_type=table_type, properties={**NO_FILL, **BY_HAND})
    for key in "abcd":
        table.upsert(batch((key, 1, 1, "p")))
    assert table.cluster() is not None
    assert len(state_of(table).whole or ()) == 1
    table.upsert(batch(*((key, 2, 2, "p") for key in "abcde")))
    assert rows(table) == [("p", key, 2) for key in "abcde"]
    assert state_of(table).whole == frozenset()
    check_files(table)


@TYPES
def test_replaced_file_groups_hold_no_keys(table_type: str):
    table = make(index="record", table_type=table_type, properties=NO_FILL)
    table.upsert(batch(("a", 1, 1, "p"), ("b", 1, 1, "p"), ("a", 1, 1, "q")))
    table.insert_overwrite(batch(("a", 2, 2, "p")))
    table.upsert(batch(("a", 3, 3, "p"), ("b", 3, 3, "p")))
    table.delete_partitions(["q"])
    table.upsert(batch(("a", 4, 4, "q")))
    assert rows(table) == [("p", "a", 3), ("p", "b", 3), ("q", "a", 4)]
    check_files(table)


DAMAGE = {
    "a manifest that is lost": (MANIFEST, None),
    "a damaged manifest": (MANIFEST, b"{"),
    "a manifest without a checksum": (MANIFEST, lambda data: data.replace(b"crc32", b"crc23")),
    "a run that is lost": ("keys.parquet", None),
    "a damaged run": ("keys.parquet", b"PAR1"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_index_is_not_used_and_is_built_again(
    damage: str, caplog: pytest.LogCaptureFixture
):
    name, data = DAMAGE[damage]
    table = make(index="record", properties=NO_FILL)
    table.upsert(batch(("a", 1, 1, "p"), ("b", 1, 1, "p")))
    for path in index_files(table):
        if path.endswith(name):
            if data is None:
                table._storage.delete(path)
            elif callable(data):
                table._storage.put(path, data(table._storage.read(path)))
            else:
                table._storage.put(path, data)
    assert state_of(table).whole is None
    table.upsert(batch(("a", 2, 2, "p"), ("c", 2, 2, "p")))
    assert rows(table) == [("p", "a", 2), ("p", "b", 1), ("p", "c", 2)]
    assert state_of(table).whole == frozenset()
    assert damage == "a manifest that is lost" or "looked up in the files instead" in caplog.text
    check_files(table)


def flipped(data: bytes, at: int, bit: int = 1) -> bytes:
    return data[:at] + bytes([data[at] ^ bit]) + data[at + 1 :]


def with_damaged_page(index: str, **changes: Any) -> Table:
    """Return a table with keys a and b whose run has an intact footer and a damaged page."""
    table = make(index=index, properties={**NO_FILL, **changes})
    table.upsert(batch(("a", 1, 1, "p"), ("b", 1, 1, "p")))
    (run,) = (path for path in index_files(table) if path.endswith(".parquet"))
    table._storage.put(run, flipped(table._storage.read(run), 60))
    assert state_of(table).whole == frozenset()
    return table


@INDEXES
@pytest.mark.parametrize("moves", ["true", "false"])
def test_a_damaged_page_of_a_run_does_not_stop_writes_and_the_index_is_built_again(
    index: str, moves: str
):
    table = with_damaged_page(index, **{UPDATE_PARTITION.name: moves})
    with pytest.warns(DamageWarning, match="keys are looked up in the files instead"):
        assert reopen(table._storage).lookup([{"id": "a"}]).num_rows == 1
    with pytest.warns(DamageWarning, match="the index is rebuilt"):
        table.upsert(batch(("a", 2, 2, "p"), ("c", 2, 2, "p")))
    assert state_of(table).whole == frozenset()
    table.delete([{"id": "b", "dt": "p"}])
    assert rows(table) == [("p", "a", 2), ("p", "c", 2)]
    assert not table.verify().findings
    check_files(table)


def test_verify_and_repair_find_a_damaged_page_of_a_run():
    table = with_damaged_page("record")
    (finding,) = table.verify().findings
    assert (finding.code, finding.mend) == (Code.INDEX_UNUSABLE, Mend.BUILD_INDEX)
    table.repair()
    assert not table.verify().findings
    state = state_of(table)
    assert state.whole == frozenset()
    assert state.manifest is not None
    # What is retired is deleted by the next compaction.
    assert all(path.endswith(".parquet") for path in state.manifest.retired)
    check_files(table)


def test_a_damaged_page_that_a_compaction_of_the_index_meets_makes_it_build_the_index_again():
    table = with_damaged_page("record")
    for number in range(MAX_RUNS + 1):
        table.insert(batch((f"k{number}", 1, 1, "p")))
    assert state_of(table).whole == frozenset()
    assert len(state_of(table).runs) < MAX_RUNS
    assert not table.verify().findings
    check_files(table)


def test_no_flipped_byte_of_a_run_hides_a_key(recwarn: pytest.WarningsRecorder):
    table = make(index="record", properties={**NO_FILL, **BY_HAND})
    table.upsert(batch(*((f"k{n}", 1, 1, "p") for n in range(4))))
    (run,) = (path for path in index_files(table) if path.endswith(".parquet"))
    before = contents(table._storage)
    for at in range(0, len(before[run]), 5):
        storage = copy_of({**before, run: flipped(before[run], at, 1 << at % 8)})
        reopen(storage).upsert(batch(("k0", 2, 2, "p"), ("k3", 2, 2, "p")))
        found = reopen(storage).to_arrow(columns=["id"])["id"].to_pylist()
        assert sorted(found) == ["k0", "k1", "k2", "k3"], at


def test_the_index_of_a_table_that_has_rows_is_built_after_the_first_write():
    table = make(index="simple", properties=NO_FILL)
    table.upsert(batch(("a", 1, 1, "p"), ("b", 1, 1, "q")))
    update_properties(table._storage, {"hoodie.index.type": "RECORD_LEVEL_INDEX"})
    table = reopen(table._storage)
    assert state_of(table).whole is None
    table.upsert(batch(("a", 2, 2, "p"), ("c", 2, 2, "p")))
    assert rows(table) == [("p", "a", 2), ("p", "c", 2), ("q", "b", 1)]
    assert sum(run.entries for run in state_of(table).runs) == 3
    check_files(table)


@TYPES
def test_entries_of_a_commit_that_is_rolled_back_do_not_count(table_type: str):
    table = make(index="record", table_type=table_type, properties={**NO_FILL, **BY_HAND})
    table.upsert(batch(("a", 1, 1, "p")))
    for _ in range(2):
        table.upsert(batch(("a", 2, 2, "p"), ("b", 2, 2, "p")))
        table.rollback(table._snapshot(None).timeline.commits[-1].requested)
        assert [run.entries for run in state_of(table).runs] == [1]
        assert len(index_files(table)) == 2
    table.upsert(batch(("b", 3, 3, "p")))
    assert rows(table) == [("p", "a", 1), ("p", "b", 3)]
    check_files(table)


def test_a_rollback_past_a_compaction_of_the_index_builds_it_again():
    table = make(index="record", properties={**NO_FILL, **BY_HAND})
    table.upsert(batch(("a", 1, 1, "p"), ("x", 1, 1, "q")))
    table.insert_overwrite(batch(("b", 1, 1, "p")))
    # The compaction leaves out the entries of file groups that were replaced.
    as_another_writer(table, ("x", 2, 2, "q"))
    table = reopen(table._storage)
    table.upsert(batch(("c", 1, 1, "r")))
    places = Counter(run.entries for run in state_of(table).runs)
    assert places
    for _ in range(3):
        table.rollback(table._snapshot(None).timeline.commits[-1].requested)
    assert state_of(table).whole is None
    table.upsert(batch(("a", 2, 2, "p"), ("x", 2, 2, "q")))
    assert rows(table) == [("p", "a", 2), ("q", "x", 2)]
    check_files(table)


def test_a_restored_table_is_indexed_again():
    table = make(index="record", properties=NO_FILL)
    table.upsert(batch(("a", 1, 1, "p"), ("b", 1, 1, "p")))
    savepoint = table.savepoint()
    table.upsert(batch(("c", 1, 1, "p")))
    table.cluster()
    table.upsert(batch(("d", 1, 1, "p")))
    table.restore(savepoint.instant)
    table.upsert(batch(("a", 2, 2, "p"), ("c", 2, 2, "p")))
    assert rows(table) == [("p", "a", 2), ("p", "b", 1), ("p", "c", 2)]
    check_files(table)


@INDEXES
def test_runs_are_merged_before_there_are_many_and_files_do_not_pile_up(index: str):
    table = make(index=index, properties=NO_FILL)
    for number in range(3 * MAX_RUNS):
        table.upsert(batch((f"k{number}", 1, 1, "p"), ("k0", number, number, "p")))
        assert len(state_of(table).runs) <= MAX_RUNS
        assert len(index_files(table)) <= 3 * MAX_RUNS
    assert len(rows(table)) == 3 * MAX_RUNS
    check_files(table)


def test_commits_may_be_archived():
    table = make(index="record", properties={**NO_FILL, **BY_HAND})
    keys = [f"k{number}" for number in range(8)]
    for key in keys:
        table.upsert(batch((key, 1, 1, "p")))
    as_another_writer(table, ("other", 1, 1, "p"))
    table = reopen(table._storage)
    table.clean(options=ARCHIVES)
    before = table._storage.read(MANIFEST)
    assert table.archive(options=ARCHIVES) is not None
    assert not state_of(table).is_stale
    assert len(state_of(table).whole or ()) == 1
    # Another engine that archives leaves the manifest as it was.
    table._storage.put(MANIFEST, before)
    assert state_of(table).is_stale
    assert len(state_of(table).whole or ()) == 1
    table.upsert(batch(*((key, 2, 2, "p") for key in (*keys, "other"))))
    assert rows(table) == [("p", key, 2) for key in (*keys, "other")]
    assert not state_of(table).is_stale
    check_files(table)


def test_keys_of_an_archived_commit_are_found_although_its_writers_clock_was_behind():
    table = make(index="record", properties={**NO_FILL, **BY_HAND})
    table.upsert(batch(("a", 1, 1, "p")))
    manifest = Manifest.parse(table._storage.read(MANIFEST), MANIFEST)
    as_another_writer(table, ("z", 1, 1, "p"))
    behind = table._snapshot(None).timeline.commits[-1].requested
    for number in range(6):
        as_another_writer(table, ("y", number, number, "q"))
    # As if that commit had completed after an index was complete that has all other commits.
    seen = Manifest.at(table._snapshot(None).timeline)
    manifest = replace(manifest, mark=seen.mark, covered=seen.covered - {behind})
    table.clean(options=ARCHIVES)
    assert table.archive(options=ARCHIVES) is not None
    put_manifest(table._storage, RECORD_INDEX_FOLDER, manifest)
    assert behind < table._snapshot(None).timeline.first_active < manifest.mark
    uncovered = {group.partition for group in state_of(table).whole or ()}
    assert uncovered == {"p"}
    assert reopen(table._storage).lookup([{"id": "z", "dt": "p"}]).num_rows == 1


@INDEXES
def test_opening_an_index_after_archiving_does_not_read_the_archive(index: str):
    table = make(index=index, properties={**NO_FILL, **BY_HAND})
    for number in range(8):
        table.upsert(batch((f"k{number}", 1, 1, "p")))
    assert table.archive(options=ARCHIVES) is not None
    storage = FaultyStorage(table._storage)
    assert reopen(storage).lookup([{"id": "k3", "dt": "p"}]).num_rows == 1
    assert [op for op in storage.ops if "record_index" in op]
    assert not [op for op in storage.ops if "history" in op]


@INDEXES
def test_two_writers_do_not_both_add_a_key(index: str):
    storage = memory_storage()
    make(storage, index=index, properties={**NO_FILL, **OPTIMISTIC}).upsert(batch(("a", 1, 1, "p")))
    first, second = reopen(storage), reopen(storage)

    def while_the_first_reads() -> pa.RecordBatchReader:
        def batches():
            yield from batch(("b", 1, 1, "p")).to_batches()
            second.upsert(batch(("b", 2, 2, "p")))

        return pa.RecordBatchReader.from_batches(batch().schema, batches())

    with pytest.raises(ConflictError):
        first.upsert(while_the_first_reads())
    assert rows(first) == [("p", "a", 1), ("p", "b", 2)]
    first.upsert(batch(("b", 3, 3, "p")))
    assert rows(first) == [("p", "a", 1), ("p", "b", 3)]
    check_files(first)


def test_verify_finds_keys_that_the_index_lacks_and_repair_builds_it_again():
    table = make(index="record", table_type="MERGE_ON_READ", properties=NO_FILL)
    table.upsert(batch(*((f"k{n}", 1, 1, "p") for n in range(5)), ("k1", 1, 1, "q")))
    table.upsert(batch(("k0", 2, 2, "p"), ("x", 2, 2, "q")))
    assert not table.verify().findings
    forgotten = {"k0": "k00", "k3": "k33"}
    # As if a writer had forgotten two keys in one partition, and one in another.
    state = state_of(table)
    entries = [
        {
            RECORD_KEY: forgotten.get(row[RECORD_KEY], row[RECORD_KEY]),
            PLACES: row[PLACES].split("\x1e")[0],
        }
        for rows in read_entries(table._storage, state.runs[0].path, None)
        for row in rows.to_pylist()
    ]
    rows = pa.RecordBatch.from_pylist(entries, ENTRIES_SCHEMA)
    write_entries(table._storage, state.runs[0].path, [rows])
    assert not table.verify(quick=True).findings
    (finding,) = table.verify().findings
    assert finding.code is Code.INDEX_INCOMPLETE
    assert "does not find 3 keys, one of them 'k" in finding.message
    table.repair(plan_repair(table.verify()))
    assert not table.verify().findings
    check_files(table)
    table._storage.delete(MANIFEST)
    (finding,) = table.verify(quick=True).findings
    assert finding.code is Code.INDEX_UNUSABLE
    table.repair()
    assert not table.verify().findings
    assert state_of(table).whole == frozenset()


def test_a_lookup_reads_the_file_groups_of_its_keys_alone():
    """Even if it does not name their partitions, and after another writer has written."""
    table = make(index="record", properties=NO_FILL)
    for number in range(8):
        table.insert(batch(*((f"{number}{key}", 1, 1, f"p{number}") for key in "ab")))
    table.insert(batch(*(("0a", 2, 2, f"p{number}") for number in (3, 5))))
    snapshot = table._snapshot(None)

    def found(key: str) -> tuple[list[str], int]:
        keys = pa.record_batch([pa.array([key])], ["id"])
        scan = plan_lookup(
            snapshot, keys, lambda part: plan_scan(part, ["id"], None, None), SourceCache()
        )
        return sorted(s.group.partition for s in scan.slices), table.lookup([{"id": key}]).num_rows

    assert found("4b") == (["p4"], 1)
    assert found("0a") == (["p0", "p3", "p5"], 3)
    assert found("none") == ([], 0)
    as_another_writer(table, ("new", 1, 1, "p7"))
    table = reopen(table._storage)
    snapshot = table._snapshot(None)
    assert found("new") == (["p7"], 1)
    assert found("4b") == (["p4", "p7"], 1)
    # The past is searched in the files.
    first = snapshot.timeline.commits[0].requested
    assert table.lookup([{"id": "0a"}], as_of=first).num_rows == 1


def test_the_keys_of_a_large_write_are_written_by_its_tasks():
    table = make(index="record", properties=NO_FILL)
    many = [f"{n:040}" for n in range(30_000)]
    table.bulk_insert(batch(*((key, 1, 1, "p") for key in many)))
    (run,) = state_of(table).runs
    assert run.entries == len(many)
    assert not run.path.endswith("keys.parquet")
    table.upsert(batch(*((key, 2, 2, "p") for key in [*many[::2], "x"])))
    assert Counter(value for _, _, value in rows(table)) == {1: 15_000, 2: 15_001}
    check_files(table)


def test_the_places_of_a_key_are_joined_and_those_that_do_not_count_are_left_out():
    one, two, gone = (FileGroupId("p", name) for name in ("f1", "f2", "f3"))
    entries = join_entries(
        [make_entries(pa.array(["a", "b", "c"]), group) for group in (two, gone, one)]
        + [make_entries(pa.array(["a", "z"]), two), make_entries(pa.array(["y"]), gone)]
    )
    assert entries.column(RECORD_KEY).to_pylist() == ["a", "b", "c", "y", "z"]
    (rows,) = entries.to_batches()
    holders = to_holders(rows, [one, two])
    assert dict(zip(*(column.to_pylist() for column in holders.columns), strict=True)) == {
        "a": "1,0,1",
        "b": "1,0",
        "c": "1,0",
        "z": "1",
    }
    once = unique_places(rows).column(PLACES).to_pylist()
    assert once[0] == "\x1e".join(map(place_of, (two, gone, one)))
    kept = drop_places(rows, [two, gone])
    assert kept.column(PLACES).to_pylist() == [place_of(one)] * 3
    assert drop_places(rows, []) is rows
    assert drop_places(rows.slice(0, 0), [one]).num_rows == 0
    assert kept.schema == ENTRIES_SCHEMA


def test_hudis_words_name_the_index():
    for word, name in (
        ("RECORD_INDEX", "global record index"),
        ("GLOBAL_RECORD_LEVEL_INDEX", "global record index"),
        ("RECORD_LEVEL_INDEX", "record index"),
    ):
        table = make(index="simple")
        update_properties(table._storage, {"hoodie.index.type": word})
        assert str(reopen(table._storage).config.index) == name
    table = make(index="record")
    assert table.config.properties["hoodie.index.type"] == "RECORD_LEVEL_INDEX"
    with pytest.raises(InvalidError, match=r"is written with .* found SimpleIndex"):
        table.upsert(batch(("a", 1, 1, "p")), index="simple")


def test_only_a_write_that_looks_keys_up_opens_the_index():
    table = make(index="record")
    table.upsert(batch(("a", 1, 1, "p")))
    snapshot = table._snapshot(None)
    assert snapshot.config.index is not None
    opened = {}
    for operation in (BULK_INSERT, INSERT, INSERT_OVERWRITE, UPSERT, DELETE):
        write = NewWrite(snapshot, "1", "seed", operation.name, operation.replaces)
        locator = strategy_of(snapshot.config.index).locator(write)
        opened[operation.name] = locator != RecordLocator(None)
    assert {name for name, is_opened in opened.items() if is_opened} == {"UPSERT", "DELETE"}


def test_a_commit_says_which_runs_it_wrote():
    table = make(index="record")
    table.upsert(batch(("a", 1, 1, "p")))
    table.upsert(batch(("a", 2, 2, "p")))
    listed = []
    for commit in table._snapshot(None).timeline.commits:
        extra = table._snapshot(None).commits.read(commit).extra_metadata or {}
        listed.append(json.loads(extra["lakebed.record_index"])["record_index"]["entries"])
    # An update adds no key.
    assert [len(runs) for runs in listed] == [1, 0]
