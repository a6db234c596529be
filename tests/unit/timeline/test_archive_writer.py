"""The archived timeline as we write it: read back, merged, and whole after any crash."""

import json

import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st

from lakebed.storage.local import LocalStorage
from lakebed.storage.objects import memory_storage
from lakebed.timeline.archive_writer import append_archived, clean_archive, merge_levels
from lakebed.timeline.archived import (
    HISTORY_FOLDER,
    ArchivedInstant,
    find_archived,
    read_archived,
    read_manifest,
    read_version,
)
from support.crash_points import Work
from support.fixtures import unpack
from support.tables import contents

ROWS = st.lists(
    st.tuples(
        st.integers(0, 10**6),
        st.integers(1, 999),
        st.sampled_from(["commit", "deltacommit", "clean", "rollback"]),
        st.none() | st.binary(max_size=40),
        st.none() | st.binary(max_size=40),
    ),
    min_size=1,
    unique_by=lambda row: row[0],
)


def at(number: int) -> str:
    return f"2024010100{number:07d}"


def instant(number: int, took: int = 1, action="commit", metadata=b"m", plan=None):
    return ArchivedInstant(at(number), at(number + took), action, metadata, plan)


def append(storage, *numbers: int) -> str:
    return append_archived(storage, at(numbers[0]), at(numbers[-1]), map(instant, numbers))


def requested(storage) -> list[str]:
    return [row.requested for row in read_archived(storage)]


def names(storage) -> set[str]:
    return {entry.path.rpartition("/")[2] for entry in storage.list(HISTORY_FOLDER)}


@given(ROWS)
def test_what_is_archived_is_read_back(rows):
    storage = memory_storage()
    given_rows = [instant(*row) for row in sorted(rows)]
    append_archived(storage, given_rows[0].requested, given_rows[-1].requested, given_rows)
    assert list(read_archived(storage, columns=("metadata", "plan"))) == given_rows


def test_a_file_has_the_columns_and_the_schema_that_hudi_writes(tmp_path):
    theirs = LocalStorage(str(unpack("cow9_archive", tmp_path)))
    their_file = read_manifest(theirs)[0]
    ours = LocalStorage(str(tmp_path / "ours"))
    append(ours, 1, 2)
    found = []
    for storage, path in ((theirs, their_file.path), (ours, read_manifest(ours)[0].path)):
        with storage.open_read(path) as source, pq.ParquetFile(source) as parquet:
            schema = [str(parquet.schema.column(n)) for n in range(6)]
            marks = parquet.metadata.metadata
            found.append(
                (schema, json.loads(marks[b"parquet.avro.schema"]), marks[b"writer.model.name"])
            )
            assert b"ARROW:schema" not in marks
    assert found[0] == found[1]
    manifest = json.loads(ours.read(f"{HISTORY_FOLDER}/manifest_1"))
    size = ours.head(read_manifest(ours)[0].path).size
    assert manifest == {"files": [{"fileName": f"{at(1)}_{at(2)}_0.parquet", "fileLen": size}]}
    assert ours.read(f"{HISTORY_FOLDER}/_version_") == b"1"


def test_we_add_to_an_archive_of_hudi(tmp_path):
    storage = LocalStorage(str(unpack("cow9_archive", tmp_path)))
    before = requested(storage)
    number = read_version(storage)
    later = "20300101000000000"
    append_archived(
        storage, later, later, [ArchivedInstant(later, f"{later[:-1]}1", "commit", b"")]
    )
    assert requested(storage) == [*before, later]
    assert read_version(storage) == number + 1


def test_one_instant_is_found_by_time_and_action():
    storage = memory_storage()
    assert find_archived(storage, at(1), "commit") is None
    rows = [instant(1), instant(2, action="clean", metadata=b"c"), instant(2), instant(3)]
    append_archived(storage, at(1), at(3), rows)
    append(storage, 4, 5)
    assert find_archived(storage, at(2), "clean").metadata == b"c"
    assert find_archived(storage, at(5), "commit") == instant(5)
    assert find_archived(storage, at(2), "rollback") is None
    assert find_archived(storage, at(6), "commit") is None


def test_the_same_instants_are_archived_once():
    storage = memory_storage()
    append(storage, 1, 2)
    before = contents(storage)
    append(storage, 1, 2)
    assert contents(storage) == before


def test_ten_files_of_a_level_become_one_of_the_next():
    storage = memory_storage()
    for number in range(9):
        append(storage, number)
    assert merge_levels(storage) == 0
    append(storage, 9)
    append(storage, 10)
    assert merge_levels(storage) == 1
    assert [file.name for file in read_manifest(storage)] == [
        f"{at(10)}_{at(10)}_0.parquet",
        f"{at(0)}_{at(9)}_1.parquet",
    ]
    assert requested(storage) == [at(n) for n in range(11)]


def test_a_merge_goes_up_as_far_as_levels_are_full():
    storage = memory_storage()
    merges = []
    for number in range(27):
        append(storage, number)
        merges.append(merge_levels(storage, merge_files=3))
    assert max(merges) == 3
    assert [file.level for file in read_manifest(storage)] == [3]
    assert requested(storage) == [at(n) for n in range(27)]


def test_a_merge_keeps_an_instant_that_came_twice_once():
    storage = memory_storage()
    append(storage, 1, 2, 3)
    append(storage, 2, 3, 4)
    assert merge_levels(storage, merge_files=2) == 1
    assert requested(storage) == [at(n) for n in (1, 2, 3, 4)]


def test_old_manifests_and_files_that_no_kept_one_names_go():
    storage = memory_storage()
    storage.put(f"{HISTORY_FOLDER}/{at(500)}_{at(501)}_0.parquet", b"of one who died")
    storage.put(f"{HISTORY_FOLDER}/notes.txt", b"mine")
    for number in range(4):
        append(storage, number)
    assert merge_levels(storage, merge_files=4) == 1
    assert clean_archive(storage, keep=5) == 0
    assert clean_archive(storage, keep=2) == 4
    kept = {f"{at(n)}_{at(n)}_0.parquet" for n in range(4)}
    assert names(storage) == {
        *kept,
        f"{at(0)}_{at(3)}_1.parquet",
        "manifest_4",
        "manifest_5",
        "_version_",
        "notes.txt",
    }
    assert clean_archive(storage, keep=1) == 5
    assert requested(storage) == [at(n) for n in range(4)]


def test_a_manifest_of_one_who_died_is_replaced():
    storage = memory_storage()
    append(storage, 1)
    storage.put(f"{HISTORY_FOLDER}/manifest_2", b"half of a manif")
    assert clean_archive(storage, keep=1) == 0
    append(storage, 2)
    assert requested(storage) == [at(1), at(2)]


def test_rows_of_any_size_are_read_back():
    storage = memory_storage()
    rows = [instant(n, metadata=bytes([n % 256]) * (5 << 20)) for n in range(8)]
    rows += [instant(n) for n in range(10, 700)]
    append_archived(storage, rows[0].requested, rows[-1].requested, rows)
    assert list(read_archived(storage, columns=("metadata", "plan"))) == rows


def test_after_a_crash_at_any_operation_the_archive_is_whole_and_work_goes_on():
    start = memory_storage()
    for number in range(3):
        append(start, number)

    def act(storage):
        append(storage, 3, 4)
        merge_levels(storage, merge_files=2)
        clean_archive(storage, keep=1)

    work = Work.of(contents(start), act)
    for storage, what in work.crashes(work.ends()):
        found = requested(storage)
        assert found in ([at(i) for i in range(3)], [at(i) for i in range(5)]), what
        act(storage)
        assert requested(storage) == [at(i) for i in range(5)], what
        listed = {file.name for file in read_manifest(storage)}
        assert names(storage) == {*listed, "_version_", f"manifest_{read_version(storage)}"}, what
