"""File slices from names and completion times, by Hudi's rules."""

import pytest

from lakebed.errors import CorruptError
from lakebed.format.names.data_names import (
    BaseFileName,
    InlineLogName,
    NativeLogName,
    parse_data_name,
)
from lakebed.table.files.file_group import (
    BaseFile,
    Boundary,
    FileGroupId,
    LogFile,
    PendingCompaction,
    build_slices,
    group_files,
    join_path,
    latest_slice,
)

GROUP = FileGroupId("p", "f-0")


def at(n: int) -> str:
    return f"2024010100000{n:04d}"


def base(n: int, file_id: str = "f-0", token: str = "0-0-0") -> BaseFile:
    return BaseFile("p", BaseFileName(file_id, token, at(n)), 10)


def log(n: int, version: int = 1, token: str = "0-0-0") -> LogFile:
    return LogFile("p", InlineLogName("f-0", at(n), version, token), 5)


def native(n: int, kind: str, version: int = 1) -> LogFile:
    name = parse_data_name(f"f-0_0-0-0_{at(n)}_{version}.{kind}.parquet")
    assert isinstance(name, NativeLogName)
    return LogFile("p", name, 5)


def slices(files, completions=None, pending=(), *, tombstones=False):
    held = completions or {}
    planned = [PendingCompaction(instant, "cutoff") for instant in pending]
    return build_slices(
        GROUP, files, lambda instant: held.get(instant, instant), planned, tombstones=tombstones
    )


def shape(found):
    return [
        (s.instant, s.base_file is not None, [file.name.instant for file in s.log_files])
        for s in found
    ]


def test_each_base_file_begins_a_slice():
    found = slices([base(3), base(1)])
    assert shape(found) == [(at(1), True, []), (at(3), True, [])]
    assert latest_slice(found) == found[-1]
    assert not found[-1].needs_merge


def test_a_log_belongs_to_the_last_slice_that_began_before_it_completed():
    files = [base(1), base(5), log(2), log(6)]
    assert shape(slices(files)) == [(at(1), True, [at(2)]), (at(5), True, [at(6)])]
    late = slices(files, {at(2): at(9)})
    assert shape(late) == [(at(1), True, []), (at(5), True, [at(2), at(6)])]


def test_logs_without_a_base_file_form_one_slice():
    found = slices([log(3), log(2)])
    assert shape(found) == [(at(2), False, [at(2), at(3)])]
    latest = latest_slice(found)
    assert latest is not None
    assert [file.name.instant for file in latest.files] == [at(2), at(3)]


def test_a_log_before_the_first_base_file_has_a_slice_of_its_own():
    assert shape(slices([base(5), log(2)])) == [(at(2), False, [at(2)]), (at(5), True, [])]


def test_a_pending_compaction_splits_the_logs_and_a_read_joins_them_again():
    found = slices([base(1), log(2), log(6)], pending=[at(4)])
    assert shape(found) == [(at(1), True, [at(2)]), (at(4), False, [at(6)])]
    latest = latest_slice(found)
    assert latest is not None
    assert latest.base_file == base(1)
    assert [file.name.instant for file in latest.log_files] == [at(2), at(6)]
    assert latest.boundary == Boundary(1, "cutoff")


def test_a_log_that_began_before_a_plan_and_completed_after_it_lies_on_top_of_the_plan():
    files = [base(1), log(2), log(3)]
    late = {at(2): at(9)}
    latest = latest_slice(slices(files, late, pending=[at(4)]))
    assert latest is not None
    assert [file.name.instant for file in latest.log_files] == [at(3), at(2)]
    assert latest.boundary == Boundary(1, "cutoff")
    done = latest_slice(slices([*files, base(4)], late))
    assert done is not None
    assert [file.name.instant for file in done.log_files] == [at(2)]


def test_a_plan_on_top_of_which_nothing_lies_divides_nothing():
    latest = latest_slice(slices([base(1), log(2)], pending=[at(4)]))
    assert latest is not None
    assert latest.boundary is None


def test_a_log_of_version_0_holds_tombstones_under_the_lsm_layout():
    # While buckets are resized, Hudi names logs of rows after the base file to come.
    files = [base(5), log(5, 0), log(5, 1), log(2), log(6)]
    found = latest_slice(slices(files, {at(2): at(9)}, tombstones=True))
    assert found is not None
    assert found.tombstones == (log(5, 0),)
    assert [file.name.instant for file in found.log_files] == [at(2), at(5), at(6)]
    assert [file.name.version for file in found.files[1:]] == [0, 1, 1, 1]
    alone = latest_slice(slices(files[:2], tombstones=True))
    assert alone is not None
    assert not alone.needs_merge
    other = latest_slice(slices(files[:2]))
    assert other is not None
    assert other.needs_merge


def test_logs_replay_by_instant_version_token_and_kind():
    files = [log(3), log(2, 10), log(2, 9), native(2, "deletes", 11), native(2, "log", 11)]
    replayed = [file.name.encode() for file in slices([base(1), *files])[0].log_files]
    wanted = [log(2, 9), log(2, 10), native(2, "log", 11), native(2, "deletes", 11), log(3)]
    assert replayed == [file.name.encode() for file in wanted]


def test_change_data_is_no_part_of_a_slice():
    cdc = LogFile("p", InlineLogName("f-0", at(2), 1, "0-0-0", cdc=True), 5)
    assert cdc.is_cdc
    assert native(2, "cdc").is_cdc
    assert shape(slices([base(1), cdc, native(2, "cdc")])) == [(at(1), True, [])]


def test_two_base_files_of_one_instant_are_corrupt():
    with pytest.raises(CorruptError, match="two base files") as caught:
        slices([base(1), base(1, token="1-0-0")])
    assert base(1).path in str(caught.value)


def test_nothing_gives_no_slice():
    assert slices([]) == ()
    assert latest_slice(()) is None
    assert latest_slice(slices([], pending=[at(1)])) is None


def test_files_are_grouped_by_partition_and_id():
    other = BaseFile("q", BaseFileName("f-0", "0-0-0", at(1)), 1)
    found = group_files([base(1), log(2), other, base(1, "g-0")])
    assert {key: len(held) for key, held in found.items()} == {
        FileGroupId("p", "f-0"): 2,
        FileGroupId("q", "f-0"): 1,
        FileGroupId("p", "g-0"): 1,
    }


def test_paths_are_below_the_partition():
    assert join_path("", "x") == "x"
    assert join_path("a/b", "x") == "a/b/x"
    assert base(1).path == f"p/f-0_0-0-0_{at(1)}.parquet"
