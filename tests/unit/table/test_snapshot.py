"""Which files a snapshot reads, and what becomes of damaged ones."""

from dataclasses import replace

import pytest

from lakebed.errors import CorruptError, LakebedError, NotFoundError
from lakebed.format.names.data_names import parse_data_name
from lakebed.model.clock import ManualClock
from lakebed.table.listing import table_files
from lakebed.table.snapshot import load_snapshot
from support.faulty import FaultyStorage
from support.tables import batch, contents, copy_of, make, reopen, user_rows

FIRST = batch(("a", 1, 1, "p"), ("b", 1, 1, "p"), ("c", 1, 1, "q"))


def filled():
    table = make()
    table.bulk_insert(FIRST)
    return table


def completed_path(storage) -> str:
    return next(e.path for e in storage.list(".hoodie/timeline") if e.path.endswith(".commit"))


def test_a_file_that_its_commit_does_not_name_is_not_data():
    table = filled()
    before = user_rows(table)
    file = table.files().to_pylist()[0]
    name = parse_data_name(file["path"].rpartition("/")[2])
    data = table._storage.read(file["path"])
    stray = f"{file['partition']}/{name.file_id}_7-7-7_{name.instant}.parquet"
    table._storage.put(stray, data)
    assert user_rows(reopen(table._storage)) == before
    assert stray in {entry.path for entry in table_files(table._storage)}


def test_files_of_a_pending_instant_and_files_of_others_are_not_data():
    table = filled()
    before = user_rows(table)
    data = table._storage.read(table.files().column("path")[0].as_py())
    later = "20991231235959999"
    table._storage.put(f".hoodie/timeline/{later}.commit.requested", b"")
    table._storage.put(f"p/00000000-dead-0_0-0-0_{later}.parquet", data)
    table._storage.put("p/notes.txt", b"x")
    table._storage.put("p/_SUCCESS", b"")
    table._storage.put("p/part-00000-c0.snappy.parquet", data)
    assert user_rows(reopen(table._storage)) == before


def test_an_empty_table_has_no_slices_and_the_schema_that_it_was_made_with():
    table = make()
    assert load_snapshot(table._storage, table.config).slices == ()
    assert table.schema.names == ["id", "v", "ts", "dt"]


def test_a_completed_instant_cut_anywhere_is_corrupt_and_named():
    objects = contents(filled()._storage)
    path = completed_path(copy_of(objects))
    data = objects[path]
    for length in range(len(data)):
        storage = copy_of({**objects, path: data[:length]})
        with pytest.raises(CorruptError) as caught:
            reopen(storage).read()
        assert path.rpartition("/")[2] in str(caught.value)


def test_a_completed_instant_with_a_wrong_byte_gives_no_raw_error():
    objects = contents(filled()._storage)
    path = completed_path(copy_of(objects))
    data = objects[path]
    refused = 0
    for at in range(0, len(data), 3):
        wrong = bytearray(data)
        wrong[at] ^= 0x55
        storage = copy_of({**objects, path: bytes(wrong)})
        try:
            reopen(storage).read().read_all()
        except LakebedError:
            refused += 1
    assert refused > 10


def test_a_cut_base_file_is_corrupt_and_named():
    table = filled()
    objects = contents(table._storage)
    path = table.files().column("path")[0].as_py()
    data = objects[path]
    for length in [0, 1, 4, 8, len(data) // 2, len(data) - 8, len(data) - 1]:
        storage = copy_of({**objects, path: data[:length]})
        with pytest.raises(CorruptError) as caught:
            reopen(storage).read().read_all()
        assert path in str(caught.value)


def test_a_page_with_a_wrong_byte_is_corrupt():
    table = filled()
    objects = contents(table._storage)
    path = table.files().column("path")[0].as_py()
    found = 0
    for at in range(4, 400, 40):
        wrong = bytearray(objects[path])
        wrong[at] ^= 0xFF
        storage = copy_of({**objects, path: bytes(wrong)})
        try:
            rows = user_rows(reopen(storage))
        except CorruptError:
            found += 1
        else:
            assert rows == user_rows(table)
    assert found >= 3


def test_a_write_over_a_damaged_file_is_refused_and_takes_itself_back():
    table = filled()
    objects = contents(table._storage)
    path = next(p for p in objects if p.startswith("p/0") and p.endswith(".parquet"))
    storage = copy_of({**objects, path: objects[path][:-20] + bytes(20)})
    before = contents(storage)
    with pytest.raises(CorruptError, match="base file"):
        reopen(storage).insert(batch(("a", 2, 2, "p"), ("b", 2, 2, "p")))
    assert contents(storage) == before


def test_a_file_shorter_than_its_commit_says_is_corrupt_and_named():
    table = filled()
    objects = contents(table._storage)
    path = next(p for p in objects if p.startswith("p/0") and p.endswith(".parquet"))
    storage = copy_of({**objects, path: objects[path][:-20]})
    with pytest.raises(
        CorruptError, match=r"its commit wrote \d+ bytes, found \d+; it was truncated"
    ):
        reopen(storage).read()


def test_two_base_files_of_one_group_and_instant_are_corrupt_unless_a_newer_one_is_there():
    table = filled()
    rows = user_rows(table)
    file = table.files().to_pylist()[0]
    # An archived instant is known by its name alone, so both files count.
    name = parse_data_name(file["path"].rpartition("/")[2])
    data = table._storage.read(file["path"])
    for file_id in (name.file_id, f"9{name.file_id[1:]}"):
        assert user_rows(reopen(table._storage)) == rows
        for token in ("1-0-0", "2-0-0"):
            old = f"{file['partition']}/{file_id}_{token}_20000101000000000.parquet"
            table._storage.put(old, data)
    with pytest.raises(CorruptError, match="two base files of one file group"):
        reopen(table._storage).read()


def test_the_schema_is_that_of_the_newest_commit_that_counts():
    table = filled()
    first = table.history().column("instant")[0].as_py()
    table.insert(batch(("d", 1, 1, "p")).append_column("extra", [["x"]]), evolve=True)
    assert table.schema.names[-1] == "extra"
    assert load_snapshot(table._storage, table.config, first).schema.names == [
        "id",
        "v",
        "ts",
        "dt",
    ]


@pytest.mark.parametrize("fate", ["dropped", "completed and archived"])
def test_a_reader_does_not_need_a_plan_that_goes_while_it_reads(fate):
    table = make(None, ManualClock(step_ms=1), table_type="MERGE_ON_READ")
    table.upsert(batch(("a", 1, 1, "p")))
    table.upsert(batch(("a", 2, 2, "p"), ("b", 2, 2, "p")))
    plan = table.schedule_compaction("full").instant
    expected = user_rows(table)

    def go():
        folder = table.config.timeline_path
        if fate == "dropped":
            reopen(inner).rollback(plan.requested, delete_plan=True)
            return
        reopen(inner).compact(mode="full")
        for name in inner.names(folder):
            if name.startswith(plan.requested) and name.endswith("requested"):
                inner.delete(f"{folder}/{name}")

    class Listed(FaultyStorage):
        """Lets the plan go when the timeline has just been listed, twice as it is."""

        listings = 0

        def names(self, prefix=""):
            found = super().names(prefix)
            if prefix == table.config.timeline_path:
                self.listings += 1
                if self.listings == 2:
                    go()
            return found

    inner = table._storage
    held = table._snapshot(None)
    assert user_rows(reopen(Listed(inner))) == expected
    # Nor does one that had read the plan before it went.
    assert len(held.slices) == 2


def test_a_plan_that_is_missing_for_good_is_named():
    table = make(None, ManualClock(step_ms=1), table_type="MERGE_ON_READ")
    table.upsert(batch(("a", 1, 1, "p")))
    table.upsert(batch(("a", 2, 2, "p")))
    plan = table.schedule_compaction("full").instant.requested
    folder = table.config.timeline_path
    table._storage.delete(f"{folder}/{plan}.compaction.requested")
    table._storage.put(f"{folder}/{plan}.compaction.inflight", b"")
    with pytest.raises(NotFoundError, match=f"{plan}.compaction.requested"):
        reopen(table._storage).read()


def test_slices_are_handed_out_by_file_group_and_column_group():
    table = make()
    table.insert(batch(("a", 1, 1, "p"), ("b", 1, 1, "q")))
    snapshot = load_snapshot(table._storage, table.config)
    assert len(snapshot.logical_slices) == len(snapshot.slices) == 2
    for group, by_column_group in snapshot.logical_slices.items():
        assert [(name, s.group) for name, s in by_column_group.items()] == [("", group)]
    risk = replace(group, column_group="risk")
    assert risk.whole == group
