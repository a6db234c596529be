"""The file index says what commits say, so that a few partitions are enough to read or write them."""

import io
import re
from collections.abc import Iterable
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakebed.api.table import Table
from lakebed.errors import CorruptError, DamageWarning, NotFoundError
from lakebed.format.names.instant_name import Action
from lakebed.format.timeline.commit_metadata import CommitMetadata, WriteStat
from lakebed.model.clock import ManualClock
from lakebed.model.executor import LocalExecutor
from lakebed.model.options.services import ArchiveOptions, CleanOptions
from lakebed.services.archive.execute import archive
from lakebed.services.clean.execute import clean
from lakebed.services.verify.findings import Code, Severity
from lakebed.services.verify.plan import plan_repair
from lakebed.services.verify.repair import repair
from lakebed.services.verify.verify import verify
from lakebed.storage.objects import memory_storage
from lakebed.storage.storage import Storage
from lakebed.table.files.archived_files import ARCHIVED_FILES_PATH
from lakebed.table.files.file_index import (
    FILES_FOLDER,
    FileRun,
    HeldRows,
    folder_of,
    run_path,
    write_run,
)
from lakebed.table.snapshot import Snapshot
from support.faulty import FaultyStorage
from support.tables import batch, contents, copy_of, make, reopen, user_rows

ALWAYS = {"lakebed.file.index.min.files": "1"}
ARCHIVE = ArchiveOptions(
    2, 3, clean=CleanOptions(commits_retained=1, min_age_seconds=0), delta_commits=1
)
ROWS = [(f"k{number}", number, 1, f"p{number}") for number in range(5)]


def filled(**changes) -> Table:
    """Make a table of five partitions whose commits all have runs."""
    table = make(ordering=("ts",), table_type="MERGE_ON_READ", properties=ALWAYS, **changes)
    table.bulk_insert(batch(*ROWS))
    return table


def wide(partitions: int, storage: Storage | None = None) -> Table:
    """Make a table of many partitions; its first commit is large, its second is not."""
    table = make(storage, ordering=("ts",), table_type="MERGE_ON_READ", buckets=1)
    table.bulk_insert(batch(*((f"k{n}", n, 1, f"p{n}") for n in range(partitions))))
    table.upsert(batch(("k7", 70, 2, "p7")))
    return table


def runs(storage: Storage) -> list[str]:
    return [f"{FILES_FOLDER}/{name}" for name in sorted(storage.names(FILES_FOLDER))]


def unindexed(storage: Storage) -> Snapshot:
    """Return the snapshot of a table that never had a file index."""
    kept = {p: data for p, data in contents(storage).items() if not p.startswith(FILES_FOLDER)}
    return reopen(copy_of(kept))._now()


def check_partitions(storage: Storage, partitions: Iterable[str]) -> None:
    """Assert that partitions alone are as they are in the whole table, read without the index."""
    whole, now = unindexed(storage), reopen(storage)._now()
    assert now.slices == whole.slices
    for partition in {*partitions, *(slice_.group.partition for slice_ in whole.slices)}:
        part = reopen(storage)._now().within([partition])
        assert part.slices == tuple(s for s in whole.slices if s.group.partition == partition)
        assert part.replaced.get(partition) == whole.replaced.get(partition)


def test_a_large_commit_gets_a_run_and_a_small_one_none():
    table = wide(130)
    first, second = table._now().timeline.commits
    assert runs(table._storage) == [run_path(first)]
    assert table._commits.is_indexed(first)
    assert not table._commits.is_indexed(second)


def test_a_run_holds_what_its_commit_lists():
    storage = memory_storage()
    metadata = CommitMetadata(
        partition_to_write_stats={
            "a": (WriteStat(path="a/f1", file_size_in_bytes=3, key_range=("k", "m")),),
            "a/b": (WriteStat(path="a/b/f2", cdc_stats={"a/b/c": 1, "a/b/d": 2}),),
            "a0": (WriteStat(path="a0/f3"),),
            "": (WriteStat(path="f4", file_size_in_bytes=0),),
        },
        extra_metadata={"schema": "é"},
        operation_type="CLUSTER",
        partition_to_replace_file_ids={"a": ("x", "y"), "z": ("w",)},
        compacted=True,
    )
    [instant] = wide(2)._now().timeline.commits[:1]
    write_run(storage, instant, metadata)
    run = FileRun(storage, run_path(instant))
    assert run.read(None).within(None).partition_to_replace_file_ids == {
        "a": ("x", "y"),
        "z": ("w",),
    }
    found = run.read(frozenset({"a"})).within(frozenset({"a"}))
    assert [stat.path for stat in found.write_stats()] == ["a/f1"]
    assert found.partition_to_replace_file_ids == {"a": ("x", "y")}
    assert (found.extra_metadata, found.operation_type) == ({"schema": "é"}, "CLUSTER")
    assert found.compacted
    [stat] = run.read(frozenset({"a/b"})).stats["a/b"]
    assert list(stat.cdc_stats) == ["a/b/c", "a/b/d"]
    assert [stat.path for stat in run.read(frozenset({""})).stats[""]] == ["f4"]
    assert run.read(frozenset({"b"})).stats == {}
    keys = pq.read_table(io.BytesIO(storage.read(run.path)), columns=["path", "min_key", "max_key"])
    assert {"path": "a/f1", "min_key": "k", "max_key": "m"} in keys.to_pylist()


def test_partitions_are_the_same_alone_after_every_operation():
    table = filled()
    storage = table._storage
    steps = [
        lambda: table.upsert(batch(("k1", 9, 2, "p1"), ("new", 1, 1, "p9"))),
        lambda: table.delete([{"id": "k2", "dt": "p2"}]),
        table.compact,
        lambda: table.upsert(batch(("k1", 10, 3, "p1"))),
        lambda: table.insert_overwrite(batch(("o", 1, 1, "p3"))),
        lambda: table.delete_partitions(["p4"]),
        lambda: table.upsert(batch(("k4", 1, 1, "p4"))),
        table.clean,
        table.savepoint,
        lambda: table.rollback(table.upsert(batch(("k0", 5, 5, "p0"))).instant),
        lambda: archive(table._target(), ARCHIVE),
        lambda: table.upsert(batch(("k0", 6, 6, "p0"))),
        lambda: table.restore(table._now().timeline.select(Action.SAVEPOINT)[0].requested),
    ]
    for step in steps:
        step()
        check_partitions(storage, ["p0", "nowhere"])


def test_the_runs_of_archived_and_rolled_back_commits_are_deleted():
    table = filled()
    for number in range(6):
        table.upsert(batch(("k1", number, 2 + number, "p1")))
    gone = table.upsert(batch(("k1", 99, 99, "p1")))
    assert any(gone.instant in path for path in runs(table._storage))
    table.rollback(gone.instant)
    assert not any(gone.instant in path for path in runs(table._storage))
    assert archive(table._target(), ARCHIVE)
    assert runs(table._storage) == [run_path(c) for c in table._now().timeline.commits]


def test_a_commit_without_a_run_is_read_itself_and_gets_one_at_the_next_write():
    table = filled()
    storage = table._storage
    [path] = runs(storage)
    storage.delete(path)
    again = reopen(storage)
    assert again.lookup([{"id": "k3", "dt": "p3"}]).num_rows == 1
    again.upsert(batch(("k1", 9, 2, "p1")))
    assert path in runs(storage)
    check_partitions(storage, [])


@pytest.mark.parametrize("damage", ["torn", "flipped", "empty", "foreign"])
def test_a_damaged_run_is_a_warning_and_repaired(damage):
    table = filled()
    objects = contents(table._storage)
    [path] = runs(table._storage)
    data = objects[path]
    other = io.BytesIO()
    pq.write_table(pq.read_table(io.BytesIO(data)).select(["rows"]), other)
    bad = {"torn": data[:-9], "flipped": data[:50] + b"\xff" + data[51:], "empty": b""}
    bad["foreign"] = other.getvalue()
    storage = copy_of({**objects, path: bad[damage]})
    with pytest.warns(DamageWarning, match=re.escape(path)):
        assert reopen(storage).lookup([{"id": "k3", "dt": "p3"}])["v"].to_pylist() == [3]
    with pytest.warns(DamageWarning, match=re.escape(path)):
        reopen(storage).upsert(batch(("k3", 4, 2, "p3")))
    # The writer had read the commit, so it wrote the run again.
    assert storage.read(path) != bad[damage]
    storage.put(path, bad[damage])
    clock = ManualClock(1_700_000_100_000)
    report = verify(storage, clock, LocalExecutor(1))
    [finding] = [f for f in report if f.code is Code.FILE_INDEX]
    assert (finding.severity, finding.path) == (Severity.WARNING, path)
    repaired = repair(storage, clock, plan_repair(report))
    assert [step.path for step in repaired.done] == [path]
    check_partitions(storage, [])
    assert not [f for f in verify(storage, clock, LocalExecutor(1)) if f.code is Code.FILE_INDEX]


def test_repair_takes_key_ranges_from_the_files():
    table = filled()
    [path] = runs(table._storage)
    before = FileRun(table._storage, path).key_ranges()
    assert before["min_key"].null_count == 0
    table._storage.put(path, b"")
    with pytest.warns(DamageWarning, match="the commit itself was read"):
        table.repair()
    assert FileRun(table._storage, path).key_ranges() == before
    assert reopen(table._storage)._now().partitions_with(["k3"]) == {"p3"}


def test_no_flipped_byte_of_a_run_changes_what_it_says():
    table = filled()
    [path] = runs(table._storage)
    whole = table._storage.read(path)
    storage = memory_storage()
    run = FileRun(storage, path)

    def told() -> tuple[object, ...]:
        parts = [run.read(frozenset({f"p{number}"})) for number in range(len(ROWS))]
        return parts, run.read(None), run.key_ranges().to_pylist(), run.superseding()

    storage.put(path, whole)
    wanted = told()
    refused = 0
    for at in range(0, len(whole), 5):
        storage.put(path, whole[:at] + bytes([whole[at] ^ 0x41]) + whole[at + 1 :])
        try:
            assert told() == wanted, at
        except CorruptError:
            refused += 1
    assert refused > len(whole) // 20


def test_partitions_of_one_row_group_are_read_at_once():
    table = filled()
    storage = table._storage
    [path] = runs(storage)
    run, held = FileRun(storage, path), HeldRows()
    partitions = [frozenset({f"p{number}"}) for number in range(len(ROWS))]
    wanted = [run.read(partition) for partition in partitions]
    assert run.read(partitions[0], held) == wanted[0]
    storage.delete(path)
    assert [run.read(partition, held) for partition in partitions] == wanted
    with pytest.raises(NotFoundError):
        run.read(partitions[0], HeldRows())


def test_few_row_groups_are_held():
    held = HeldRows()
    head = None
    for number in range(40):
        held.keep(head, {number: pa.table({"path": [f"p/{number}"]})})
    assert [*held.groups] == [*range(8, 40)]
    held.keep(head, {number: pa.table({"path": ["p"]}) for number in range(100, 200)})
    assert [*held.groups] == [*range(8, 40)]


def test_a_run_that_differs_from_its_commit_is_an_error_and_repaired():
    table = filled()
    storage = table._storage
    [commit] = table._now().timeline.commits
    write_run(storage, commit, CommitMetadata())
    clock = ManualClock(1_700_000_100_000)
    report = verify(storage, clock, LocalExecutor(1))
    [finding] = [f for f in report if f.code is Code.FILE_INDEX]
    assert (finding.severity, finding.path) == (Severity.ERROR, run_path(commit))
    repair(storage, clock, plan_repair(report))
    assert len(user_rows(reopen(storage))) == len(ROWS)
    check_partitions(storage, [])


def test_a_run_of_no_commit_is_noted_and_deleted():
    table = filled()
    [path] = runs(table._storage)
    stray = f"{FILES_FOLDER}/20200101000000000_20200101000000001.parquet"
    table._storage.put(stray, table._storage.read(path))
    clock = ManualClock(1_700_000_100_000)
    report = verify(table._storage, clock, LocalExecutor(1), quick=True)
    [finding] = [f for f in report if f.code is Code.FILE_INDEX]
    assert (finding.severity, finding.path) == (Severity.NOTE, stray)
    repair(table._storage, clock, plan_repair(report))
    assert runs(table._storage) == [path]


def test_lookups_and_small_writes_touch_as_much_in_a_table_of_many_partitions():
    counts = []
    for partitions in (150, 400):
        storage = FaultyStorage(wide(partitions)._storage)
        table = reopen(storage, ManualClock(1_700_000_100_000, step_ms=1))
        assert table.lookup([{"id": "k7", "dt": "p7"}])["v"].to_pylist() == [70]
        looked = [op.split()[0] for op in storage.ops]
        storage.ops.clear()
        table = reopen(storage, ManualClock(1_700_000_200_000, step_ms=1))
        table.upsert(batch(("k7", 71, 3, "p7"), ("k9", 91, 3, "p9")))
        wrote = [op.split()[0] for op in storage.ops]
        counts.append((looked, wrote))
        listed = [op.split()[1] for op in storage.ops if op.startswith("list") and " p" in op]
        assert set(listed) <= {"p7", "p9"}
        assert "list " not in storage.ops
    assert counts[0] == counts[1]
    assert len(counts[0][0]) < 20
    assert len(counts[0][1]) < 60


def test_folders_of_paths():
    assert [folder_of(path) for path in ("a/b/c", "c", "a/c")] == ["a/b", "", "a"]


def test_a_clean_after_a_write_lists_only_partitions_with_superseded_files():
    properties = {**ALWAYS, "hoodie.clean.commits.retained": "1"}
    properties["lakebed.clean.min.age.seconds"] = "0"
    storage = FaultyStorage(memory_storage())
    clock = ManualClock(1_700_000_000_000, step_ms=1_000)
    table = make(storage, clock, ordering=("ts",), properties=properties, buckets=1)
    table.bulk_insert(batch(*ROWS))
    for number in range(3):
        table.upsert(batch(("k1", number, 2 + number, "p1")))
    storage.ops.clear()
    done = clean(table._target(), incremental=True)
    assert {op.split()[1] for op in storage.ops if re.fullmatch(r"list_names p\d", op)} == {"p1"}
    assert "list " not in storage.ops
    assert done.deleted_files == 2
    assert clean(table._target()) is None
    table.upsert(batch(("k2", 7, 7, "p2")))
    table.upsert(batch(("k2", 8, 8, "p2")))
    storage.ops.clear()
    assert clean(table._target(), incremental=True).deleted_files == 2
    # The version that the last commit of the first clean superseded is deleted only now.
    listed = {op.split()[1] for op in storage.ops if re.fullmatch(r"list_names p\d", op)}
    assert listed == {"p1", "p2"}
    assert clean(table._target()) is None


def test_a_clean_with_nothing_superseded_lists_no_partition():
    table = filled()
    for number in range(12):
        table.upsert(batch(("k1", number, 2 + number, "p1")))
    storage = FaultyStorage(table._storage)
    assert clean(reopen(storage)._target(), incremental=True) is None
    assert not [op for op in storage.ops if op.startswith("list_names p") or op == "list "]


def test_keys_without_their_partition_are_searched_where_key_ranges_allow_it():
    table = make(ordering=("ts",), table_type="MERGE_ON_READ", buckets=1)
    table.bulk_insert(batch(*((f"k{n:03}", n, 1, f"p{n}") for n in range(150))))
    table.upsert(batch(("k007", 70, 2, "p7"), ("other", 1, 1, "p8")))
    for _ in range(2):
        storage = FaultyStorage(table._storage)
        found = reopen(storage).lookup([{"id": "k100"}, {"id": "k007"}, {"id": "none"}])
        assert sorted(found["v"].to_pylist()) == [70, 100]
        # The small commit tells no key ranges, so its partitions are searched.
        listed = {op.split()[1] for op in storage.ops if re.fullmatch(r"list_names p\d+", op)}
        assert listed == {"p7", "p8", "p100"}
        assert "list " not in storage.ops
        assert reopen(storage).to_arrow(where="id = 'k050'")["v"].to_pylist() == [50]
        assert reopen(storage).to_arrow(where="dt IN ('p3', 'p4')").num_rows == 2
        assert "list " not in storage.ops
        # Once more, with the large commit in the archive.
        for number in range(3):
            table.upsert(batch(("k007", 70, 3 + number, "p7"), ("other", 1, 1, "p8")))
        assert archive(table._target(), ARCHIVE)
    assert runs(table._storage) == []


def test_a_partition_that_only_another_engine_archived_is_found_by_listing():
    table = wide(300)
    for number in range(4):
        table.upsert(batch(("k7", 70, 3 + number, "p7")))
    assert archive(table._target(), ARCHIVE)
    storage = table._storage
    assert reopen(storage)._now().partitions_with(["k200"]) is not None
    storage.delete(ARCHIVED_FILES_PATH)
    assert reopen(storage)._now().partitions_with(["k200"]) is None
    assert reopen(storage).lookup([{"id": "k200"}]).num_rows == 1


def test_a_lost_archive_is_not_taken_for_an_empty_one():
    table = wide(300)
    assert reopen(table._storage)._now().partitions_with(["k200"]) == {"p200", "p7"}
    for number in range(4):
        table.upsert(batch(("k7", 70, 3 + number, "p7")))
    table.upsert(batch(*((f"n{n}", n, 1, f"p{n}") for n in range(130))))
    assert archive(table._target(), ARCHIVE)
    kept = {p: d for p, d in contents(table._storage).items() if "/history/" not in p}
    del kept[ARCHIVED_FILES_PATH]
    storage = copy_of(kept)
    assert runs(storage), "the file index would be used"
    assert reopen(storage).lookup([{"id": "k200"}]).num_rows == 1
    assert reopen(storage).to_arrow(where="dt = 'p200'").num_rows == 1


def test_a_table_whose_first_commit_is_unknown_is_listed():
    """Only our own writes state that no commit precedes them."""
    table = wide(300)
    first = table._now().timeline.commits[0]
    path = f"{table._now().commits.active.folder}/{first.file_name}"
    metadata = CommitMetadata.parse(table._storage.read(path), path)
    extra = {name: of for name, of in metadata.extra_metadata.items() if name == "schema"}
    assert extra != metadata.extra_metadata
    metadata = replace(metadata, extra_metadata=extra)
    table._storage.put(path, metadata.encode())
    write_run(table._storage, first, metadata)
    assert reopen(table._storage)._now().partitions_with(["k200"]) is None
    assert reopen(table._storage).lookup([{"id": "k200"}]).num_rows == 1
