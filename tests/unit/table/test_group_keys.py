"""Which files a read opens for keys: from names alone, without storage."""

import pytest

from lakebed.format.names.data_names import BaseFileName, LogKind, NativeLogName
from lakebed.table.files.file_group import BaseFile, FileGroupId, FileSlice, LogFile
from lakebed.table.files.group_keys import further_keys, key_slices

ID, TOKEN = "00000000-aaaa-0", "0-1-0"
T = {n: f"2026010100000000{n}" for n in range(1, 10)}


def base(group: str, at: int, size: int = 100) -> BaseFile:
    return BaseFile("", BaseFileName(ID, TOKEN, T[at], column_group=group), size)


def log(group: str, at: int, kind: LogKind = LogKind.LOG, version: int = 1) -> LogFile:
    name = NativeLogName(ID, TOKEN, T[at], version, kind, column_group=group)
    return LogFile("", name, 10)


def part(
    group: str, base_at: int | None, *logs: LogFile, tombstones: tuple[LogFile, ...] = ()
) -> FileSlice:
    file = None if base_at is None else base(group, base_at)
    return FileSlice(FileGroupId("", ID, group), T[base_at or 1], file, logs, tombstones)


def completion_of(instant: str) -> str | None:
    return instant


def opened(parts: dict[str, FileSlice], *needed: str) -> dict[str, list[str]]:
    """Return the instants of the files that are opened, by group."""
    found = key_slices(parts, set(needed), completion_of)
    return {name: [file.name.instant[-1] for file in of.files] for name, of in found.items()}


def test_a_group_alone_answers_where_all_writes_were_of_whole_rows():
    parts = {"": part("", 1, log("", 2)), "risk": part("risk", 1, log("risk", 2))}
    assert opened(parts, "risk") == {"risk": ["1", "2"]}
    assert opened(parts, "") == {"": ["1", "2"]}


def test_logs_that_came_to_another_group_alone_are_opened():
    parts = {"": part("", 1), "risk": part("risk", 1, log("risk", 2), log("risk", 3))}
    assert opened(parts, "") == {"": ["1"], "risk": ["2", "3"]}


def test_logs_before_the_base_file_are_not_opened_wherever_they_are():
    parts = {"": part("", 4), "risk": part("risk", 1, log("risk", 2), log("risk", 5))}
    assert opened(parts, "") == {"": ["4"], "risk": ["5"]}


def test_a_log_whose_completion_is_unknown_is_opened():
    parts = {"": part("", 4), "risk": part("risk", 1, log("risk", 2))}
    found = key_slices(parts, {""}, lambda instant: None)
    assert [file.name.instant for file in found["risk"].files] == [T[2]]


def test_a_newer_base_file_of_another_group_is_opened_with_all_on_top():
    parts = {"": part("", 1, log("", 2)), "risk": part("risk", 3, log("risk", 4))}
    assert opened(parts, "") == {"": ["1", "2"], "risk": ["3", "4"]}
    assert opened(parts, "risk") == {"risk": ["3", "4"]}


def test_a_newer_base_file_with_old_keys_is_not_opened():
    parts = {"": part("", 1), "risk": part("risk", 3, log("risk", 4))}
    found = key_slices(parts, {""}, completion_of, lambda base: T[1])
    assert [file.name.instant for file in found["risk"].files] == [T[4]]


@pytest.mark.parametrize("tombstones", [False, True])
def test_after_a_delete_in_the_group_all_groups_are_opened(tombstones: bool):
    gone = log("", 2, LogKind.DELETES, version=0 if tombstones else 1)
    held = part("", 2, tombstones=(gone,)) if tombstones else part("", 1, gone)
    parts = {"": held, "risk": part("risk", 1), "web": part("web", 1)}
    assert opened(parts, "").keys() == {"", "risk", "web"}


def test_deletes_of_another_group_are_opened_with_its_further_logs_only():
    gone = log("risk", 2, LogKind.DELETES)
    alone = {"": part("", 3), "risk": part("risk", 1, gone)}
    assert opened(alone, "") == {"": ["3"]}
    more = {"": part("", 3), "risk": part("risk", 1, gone, log("risk", 4))}
    assert opened(more, "") == {"": ["3"], "risk": ["2", "4"]}


def test_without_a_column_the_group_is_read_that_leaves_least_to_open():
    parts = {
        "": part("", 1),
        "risk": part("risk", 1, log("risk", 2), log("risk", 3)),
    }
    assert opened(parts) == {"risk": ["1", "2", "3"]}


def test_a_group_without_files_of_the_columns_leaves_the_keys_to_the_others():
    parts = {"risk": part("risk", None, log("risk", 2))}
    assert opened(parts, "") == {"risk": ["2"]}
    assert further_keys(part("", None), parts["risk"], completion_of) is not None
