"""Which files a write makes, and from what."""

import pytest

from lakebed.errors import UnsupportedError
from lakebed.format.names.data_names import BaseFileName, InlineLogName
from lakebed.table.files.file_group import BaseFile, FileGroupId, FileSlice, LogFile
from lakebed.write.plan import plan_writes
from lakebed.write.staging import Segment
from support.specs import INSTANT, make_spec


def segment(run: int, partition: str, file_id: str, rows: int) -> Segment:
    return Segment(f".hoodie/.temp/x/{run}.arrow", (run, 0), partition, file_id, 0, 1, rows)


def existing(partition: str, file_id: str, logs: int = 0) -> dict[FileGroupId, FileSlice]:
    base = BaseFile(partition, BaseFileName(file_id, "0-0-0", INSTANT), 1)
    log_files = tuple(
        LogFile(partition, InlineLogName(file_id, INSTANT, n + 1, "0-0-0"), 1) for n in range(logs)
    )
    group = FileGroupId(partition, file_id)
    return {group: FileSlice(group, INSTANT, base, log_files)}


def test_one_file_for_each_group_largest_first():
    segments = [segment(10, "p", "a-0", 5), segment(9, "p", "a-0", 5), segment(0, "p", "b-0", 30)]
    writes = plan_writes(segments, {}, make_spec())
    assert [(w.group.file_id, w.new_rows, w.old) for w in writes] == [
        ("b-0", 30, None),
        ("a-0", 10, None),
    ]
    assert [s.arrival for s in writes[1].segments] == [(9, 0), (10, 0)]
    assert len({write.number for write in writes}) == 2


def test_an_existing_group_brings_its_base_file():
    slices = existing("p", "a-0")
    [write] = plan_writes([segment(0, "p", "a-0", 1)], slices, make_spec())
    assert write.old == slices[FileGroupId("p", "a-0")].base_file
    assert not write.as_log


def test_the_same_id_in_another_partition_is_another_group():
    [write] = plan_writes([segment(0, "q", "a-0", 1)], existing("p", "a-0"), make_spec())
    assert write.old is None


def test_an_existing_group_of_a_merge_on_read_table_gets_a_log():
    spec = make_spec(table_type="MERGE_ON_READ")
    segments = [segment(0, "p", "a-0", 1), segment(0, "p", "b-0", 1)]
    writes = plan_writes(segments, existing("p", "a-0", logs=2), spec)
    assert {write.group.file_id: write.as_log for write in writes} == {"a-0": True, "b-0": False}
    assert all(write.old is None for write in writes)


def test_logs_in_a_copy_on_write_table_are_refused_by_name():
    with pytest.raises(UnsupportedError, match=r"a-0 in partition 'p' .* has log files"):
        plan_writes([segment(0, "p", "a-0", 1)], existing("p", "a-0", logs=1), make_spec())


def test_nothing_staged_is_nothing_to_write():
    assert plan_writes([], existing("p", "a-0"), make_spec()) == []
