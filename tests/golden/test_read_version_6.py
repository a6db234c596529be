"""Tables of version 6 (timeline layout 1): read whole, never written, damage named.

What Hudi itself makes of such tables is in `test_read_hudi_rs_tables` and the interop tests.
"""

import json

import pyarrow as pa
import pytest

from lakebed.errors import ConflictError, CorruptError, InvalidError, UnsupportedError
from lakebed.format.files.properties import encode_properties
from lakebed.model.clock import ManualClock
from lakebed.model.options.services import CompactionOptions
from lakebed.services.compaction.schedule import schedule_compaction
from lakebed.storage.storage import Storage
from lakebed.table.config.properties_file import PROPERTIES_PATH
from lakebed.table.snapshot import load_snapshot
from support.tables import batch, contents, copy_of, make, reopen, rows_of, user_rows
from support.version_6 import as_version_6

ARCHIVE = ".hoodie/archived/.commits_.archive.1_1-0-1"


def history(table_type: str = "MERGE_ON_READ", **changes):
    """Make a table of ours with updates, late rows, deletes and a partition written over."""
    table = make(
        table_type=table_type, ordering=("ts",), clock=ManualClock(step_ms=1500), **changes
    )
    table.upsert(batch(*((f"k{n}", n, 5, f"p{n % 2}") for n in range(8))))
    table.upsert(batch(("k1", 100, 6, "p1"), ("k2", -1, 1, "p0"), ("new", 7, 6, "p0")))
    table.delete([{"id": "k3", "dt": "p1"}])
    table.insert_overwrite(batch(("only", 1, 1, "p0")))
    table.upsert(batch(("k5", 500, 9, "p1"), ("only", 2, 2, "p0")))
    return table


def commits(table) -> list[str]:
    return [
        commit.requested for commit in load_snapshot(table._storage, table.config).timeline.commits
    ]


def files_of(storage: Storage, ending: str) -> list[str]:
    return sorted(entry.path for entry in storage.list() if entry.path.endswith(ending))


def logs_of(storage: Storage) -> list[str]:
    return sorted(entry.path for entry in storage.list() if ".log." in entry.path)


def changed(storage: Storage, **properties: str) -> Storage:
    settled = {**reopen(storage).config.properties, **properties}
    return copy_of(contents(storage) | {PROPERTIES_PATH: encode_properties(settled, ())})


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_all_rows_are_read_now_and_as_of_every_commit(table_type: str):
    ours = history(table_type)
    table = reopen(as_version_6(ours._storage))
    assert table.config.version == 6
    assert rows_of(table) == rows_of(ours)
    moments = commits(ours)
    assert commits(table) == moments
    for instant in moments:
        assert rows_of(table, instant) == rows_of(ours, instant), instant


def test_every_other_look_at_it_works_too():
    ours = history()
    table = reopen(as_version_6(ours._storage))
    key = {"id": "k1", "dt": "p1"}
    assert table.lookup([key]).to_pylist() == ours.lookup([key]).to_pylist()
    optimized = table.read(mode="read_optimized").read_all()
    assert optimized.sort_by("id") == ours.read(mode="read_optimized").read_all().sort_by("id")
    assert str(table.layers()).count("L0") == str(ours.layers()).count("L0") > 0
    assert len(table.files()) == len(ours.files())
    shown, wanted = table.history().to_pylist(), ours.history().to_pylist()
    for column in ("instant", "action", "operation", "rows_written", "files"):
        assert [row[column] for row in shown] == [row[column] for row in wanted], column
    assert [row["completion_time"] for row in shown] == [row["instant"] for row in shown]


def test_instants_of_fourteen_digits_are_read():
    ours = history("COPY_ON_WRITE")
    table = reopen(as_version_6(ours._storage, digits=14))
    assert {len(instant) for instant in commits(table)} == {14}
    assert user_rows(table) == user_rows(ours)
    for instant in commits(ours):
        # The end of its second is what fourteen digits mean.
        assert user_rows(table, instant[:14]) == user_rows(ours, instant), instant


def test_logs_of_a_planned_compaction_are_read_on_top_of_the_old_slice():
    ours = history()
    scheduled = schedule_compaction(ours._target(), CompactionOptions(), "full", force=True)
    assert scheduled is not None
    planned = scheduled.instant.requested
    ours.upsert(batch(("k5", 501, 10, "p1"), ("k7", 70, 10, "p1")))
    storage = as_version_6(ours._storage)
    assert any(f"_{planned}.log." in path for path in logs_of(storage))
    table = reopen(storage)
    assert rows_of(table) == rows_of(ours)
    assert rows_of(table, planned) == rows_of(ours, planned)
    ours.compact(instant=planned)
    table = reopen(as_version_6(ours._storage))
    assert rows_of(table) == rows_of(ours)
    moments = commits(ours)
    assert rows_of(table, moments[-1]) == rows_of(ours, moments[-1])


def test_logs_of_a_compacted_slice_stay_history_when_their_commits_are_archived():
    ours = make(table_type="MERGE_ON_READ", ordering=("ts",), buckets=1)
    ours.bulk_insert(batch(("a", 1, 1, "p"), ("b", 1, 1, "p")))
    ours.delete([{"id": "a", "dt": "p"}])
    ours.upsert(batch(("a", 3, 3, "p")))
    (compaction,) = ours.compact()
    ours.upsert(batch(("b", 4, 4, "p")))
    storage = as_version_6(ours._storage)
    for path in [entry.path for entry in storage.list(".hoodie")]:
        if path.rpartition("/")[2][:17] < compaction.instant:
            storage.delete(path)
    assert len(commits(reopen(storage))) == 2
    assert len(logs_of(storage)) == 3
    assert rows_of(reopen(storage)) == rows_of(ours)
    (log,) = [f["path"] for f in reopen(storage).files().to_pylist() if f["level"] == "L0"]
    assert f"_{compaction.instant}.log.1" in log


def test_a_log_that_no_commit_names_counts_by_its_blocks_alone():
    ours = history()
    storage = as_version_6(ours._storage)
    before = rows_of(reopen(storage))
    last = commits(reopen(storage))[-1]
    # The last write, as if it had died before its commit: its logs stay, and nobody reads them.
    storage.delete(f".hoodie/{last}.deltacommit")
    died = rows_of(reopen(storage))
    assert {key for key, row in before.items() if died.get(key) != row} == {
        ("p1", "k5"),
        ("p0", "only"),
    }
    assert died == {**rows_of(ours, commits(ours)[-2])}


def test_a_write_is_found_again_in_a_file_that_another_one_appended_to():
    ours = make(table_type="MERGE_ON_READ", ordering=("ts",), buckets=1)
    for ts in range(1, 4):
        ours.upsert(batch(("a", ts, ts, "p"), (f"k{ts}", ts, ts, "p")))
    storage = as_version_6(ours._storage)
    one, two = logs_of(storage)[-2:]
    objects = contents(storage)
    objects[one] += objects.pop(two)
    names = (two.rpartition("/")[2].encode(), one.rpartition("/")[2].encode())
    for path in files_of(storage, ".deltacommit"):
        objects[path] = objects[path].replace(*names)
    table = reopen(copy_of(objects))
    assert user_rows(table) == user_rows(ours)
    for instant in commits(ours):
        assert user_rows(table, instant) == user_rows(ours, instant), instant


def test_a_moment_before_the_active_timeline_is_refused_where_something_was_archived():
    storage = as_version_6(history("COPY_ON_WRITE")._storage)
    first = commits(reopen(storage))[0]
    for path in files_of(storage, ".commit.requested") + files_of(storage, "inflight"):
        storage.delete(path)
    storage.delete(f".hoodie/{first}.commit")
    # Nothing was archived, so it is before the first commit; its files count in a snapshot.
    with pytest.raises(InvalidError, match=f"as_of {first}: the first commit"):
        user_rows(reopen(storage), first)
    storage.put(ARCHIVE, b"#HUDI#")
    with pytest.raises(InvalidError, match=f"as of {first}: that instant is archived"):
        user_rows(reopen(storage), first)
    assert user_rows(reopen(storage)), "a snapshot asks no archive"


def test_the_old_key_of_a_merge_strategy_is_not_believed():
    storage = as_version_6(history("COPY_ON_WRITE")._storage)
    strategy = "ce9acb64-bde0-424c-9b91-f6ebba25356d"
    told = changed(storage, **{"hoodie.compaction.record.merger.strategy": strategy})
    assert user_rows(reopen(told)) == user_rows(reopen(storage))


@pytest.mark.parametrize(
    "attempt",
    [
        lambda table: table.upsert(batch(("a", 1, 1, "p"))),
        lambda table: table.bulk_insert(batch(("a", 1, 1, "p"))),
        lambda table: table.delete([{"id": "k1", "dt": "p1"}]),
        lambda table: table.insert_overwrite(batch(("a", 1, 1, "p"))),
        lambda table: table.delete_partitions(["p0"]),
        lambda table: table.schedule_compaction(),
        lambda table: table.compact(),
        lambda table: table.cluster(),
        lambda table: table.clean(),
        lambda table: table.archive(),
        lambda table: table.savepoint(),
        lambda table: table.rollback(commits(table)[-1]),
        lambda table: table.restore(commits(table)[0]),
        lambda table: table.run_services(),
        lambda table: table.upgrade(9),
        lambda table: table.upgrade(9, dry_run=True),
        lambda table: table.downgrade(8),
        lambda table: table.set_properties({"hoodie.clean.automatic": "false"}),
    ],
)
def test_it_is_never_written(attempt):
    storage = as_version_6(history(index="simple")._storage)
    held = contents(storage)
    with pytest.raises((UnsupportedError, InvalidError)) as caught:
        attempt(reopen(storage))
    assert "version 6 is read only here; upgrade it with Apache Hudi" in str(caught.value) or (
        "to version 8: the table has 6" in str(caught.value)
    )
    assert contents(storage) == held


@pytest.mark.parametrize(
    ("properties", "complaint"),
    [
        (
            {"hoodie.timeline.layout.version": "2"},
            "timeline layout 2; expected 1 in table version 6",
        ),
        ({"hoodie.timeline.layout.version": ""}, "timeline layout missing; expected 1"),
        ({"hoodie.table.version": "9"}, "timeline layout 1; expected 2 in table version 9"),
        ({"hoodie.table.version": "7"}, "table version 7; this release reads 6, 8, 9, 10"),
        ({"hoodie.table.version": "5"}, "table version 5"),
    ],
)
def test_a_version_that_does_not_fit_its_layout_is_refused_by_name(properties, complaint):
    storage = as_version_6(history("COPY_ON_WRITE")._storage)
    with pytest.raises(UnsupportedError, match=complaint):
        reopen(changed(storage, **properties))


@pytest.mark.parametrize("path", ["", "/", "deep/.hoodie"])
def test_a_timeline_of_layout_2_in_the_place_of_layout_1_is_refused(path: str):
    with pytest.raises(UnsupportedError, match=r"hoodie\.timeline\.path=.*expected a folder below"):
        reopen(changed(history()._storage, **{"hoodie.timeline.path": path}))


def test_a_commit_cut_anywhere_is_corrupt_and_named():
    storage = as_version_6(history("COPY_ON_WRITE")._storage)
    path = files_of(storage, ".commit")[0]
    objects = contents(storage)
    for length in [0, 1, *range(2, len(objects[path]), 97)]:
        with pytest.raises(CorruptError, match=path.rpartition("/")[2]):
            rows_of(reopen(copy_of(objects | {path: objects[path][:length]})))


def test_a_file_that_a_commit_names_and_that_is_gone_or_shorter_is_named():
    storage = as_version_6(history()._storage)
    for path in (entry["path"] for entry in reopen(storage).files().to_pylist()):
        lost = copy_of(contents(storage))
        lost.delete(path)
        with pytest.raises(CorruptError, match="it is missing, and rows are missing"):
            rows_of(reopen(lost))
        cut = copy_of(contents(storage) | {path: storage.read(path)[:-40]})
        with pytest.raises(CorruptError, match="it was truncated, and rows are missing"):
            rows_of(reopen(cut))


def test_a_base_file_that_only_later_logs_name_is_missed_too():
    ours = make(table_type="MERGE_ON_READ", ordering=("ts",), buckets=1)
    ours.bulk_insert(batch(("a", 1, 1, "p"), ("b", 1, 1, "p")))
    ours.upsert(batch(("a", 2, 2, "p")))
    storage = as_version_6(ours._storage)
    first, second = files_of(storage, "commit")
    base = files_of(storage, ".parquet")[0]
    told = json.loads(storage.read(second))
    told["partitionToWriteStats"]["p"][0]["baseFile"] = base.rpartition("/")[2]
    storage.put(second, json.dumps(told).encode())
    # The commit of the base file is archived: only that of the log still says that there is one.
    for path in files_of(storage, "requested") + files_of(storage, "inflight"):
        storage.delete(path)
    storage.delete(first)
    assert user_rows(reopen(storage)) == user_rows(ours)
    storage.delete(base)
    with pytest.raises(CorruptError, match=base):
        rows_of(reopen(storage))


@pytest.mark.parametrize(
    ("name", "error", "complaint"),
    [
        ("20300101000000000.merge", UnsupportedError, "unknown action 'merge'"),
        ("20300101000000000.merge.requested", UnsupportedError, "unknown action 'merge'"),
        ("20300101000000000.compaction", CorruptError, "expected the word commit"),
        ("20300101000000000_20300101000000001.commit", UnsupportedError, "it is of layout 2"),
    ],
)
def test_an_instant_that_is_not_understood_is_refused_by_name(name, error, complaint):
    storage = as_version_6(history("COPY_ON_WRITE")._storage)
    storage.put(f".hoodie/{name}", b"{}")
    with pytest.raises(error, match=complaint) as caught:
        rows_of(reopen(storage))
    assert name in str(caught.value)


def test_a_commit_that_goes_while_it_is_read_asks_to_read_again():
    storage = as_version_6(history("COPY_ON_WRITE")._storage)
    snapshot = load_snapshot(storage, reopen(storage).config)
    storage.delete(files_of(storage, ".commit")[0])
    with pytest.raises(ConflictError, match="archived or rolled back while the table was read"):
        _ = snapshot.slices


def test_a_file_of_another_writer_in_the_metadata_folder_is_no_instant():
    storage = as_version_6(history("COPY_ON_WRITE")._storage)
    before = rows_of(reopen(storage))
    for name in ("hoodie.properties.backup", ".20300101000000000.commit.crc", "notes.txt"):
        storage.put(f".hoodie/{name}", storage.read(PROPERTIES_PATH))
    storage.put(".hoodie/metadata/.hoodie/20300101000000000.deltacommit", b"{")
    assert rows_of(reopen(storage)) == before


def test_an_empty_table_has_the_schema_that_it_was_made_with():
    table = reopen(as_version_6(make()._storage))
    assert table.read().read_all() == pa.table(table.schema.empty_table())
    assert table.schema.names == ["id", "v", "ts", "dt"]


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_verify_finds_nothing_wrong_in_a_whole_table_and_the_file_that_is_gone(table_type: str):
    storage = as_version_6(history(table_type)._storage)
    report = reopen(storage).verify()
    assert not report.findings
    path = reopen(storage).files().to_pylist()[0]["path"]
    storage.delete(path)
    assert path in {finding.path for finding in reopen(storage).verify().findings}


def test_the_torn_log_of_a_writer_that_died_is_passed_over_unless_it_may_have_been_committed(
    caplog,
):
    storage = as_version_6(history()._storage)
    before = rows_of(reopen(storage))
    slice_ = next(s for s in load_snapshot(storage, reopen(storage).config).slices if s.log_files)
    log = slice_.log_files[-1]
    torn = log.path.replace(f".log.{log.name.version}_", ".log.77_")
    storage.put(torn, storage.read(log.path)[:-20])
    assert rows_of(reopen(storage)) == before
    assert "its writer never completed" in caplog.text
    storage.delete(f".hoodie/{slice_.instant}.replacecommit")
    for path in [entry.path for entry in storage.list(".hoodie")]:
        if path.rpartition("/")[2][:17] <= slice_.instant:
            storage.delete(path)
    with pytest.raises(CorruptError, match="no commit on the timeline records its content"):
        rows_of(reopen(storage))
