"""Which base files a write makes, and from what."""

import pytest

from lakebed.errors import UnsupportedError
from lakebed.format.names import BaseFileName, InlineLogName
from lakebed.index.bucket import BucketPlace
from lakebed.model.clock import ManualClock
from lakebed.storage.objects import memory_storage
from lakebed.table.config import BucketIndex, TableConfig
from lakebed.table.file_group import BaseFile, FileGroupId, FileSlice, LogFile
from lakebed.write.plan import plan_base_files
from lakebed.write.spec import WriteSpec
from lakebed.write.staging import Segment
from support.tables import SCHEMA, settle

INSTANT = "20240101000000000"


def make_spec(**changes) -> WriteSpec:
    config = TableConfig.parse(settle(**changes), "here")
    index = BucketIndex(4, ("id",))
    return WriteSpec(memory_storage(), config, index, SCHEMA, "", INSTANT, "commit")


def segment(run: int, partition: str, bucket: int, rows: int) -> Segment:
    return Segment(f".hoodie/.temp/x/{run}.arrow", (run, 0), partition, bucket, 0, 1, rows)


def existing(place: BucketPlace, logs: int = 0) -> dict[BucketPlace, FileSlice]:
    file_id = f"{place.bucket:08d}-old-0"
    base = BaseFile(place.partition, BaseFileName(file_id, "0-0-0", INSTANT), 1)
    log_files = tuple(
        LogFile(place.partition, InlineLogName(file_id, INSTANT, n + 1, "0-0-0"), 1)
        for n in range(logs)
    )
    group = FileGroupId(place.partition, file_id)
    return {place: FileSlice(group, INSTANT, base, log_files)}


def test_one_base_file_for_each_bucket_largest_first():
    segments = [segment(10, "p", 0, 5), segment(9, "p", 0, 5), segment(0, "p", 1, 30)]
    writes = plan_base_files(segments, {}, make_spec(), ManualClock())
    assert [(w.place.bucket, w.new_rows, w.old) for w in writes] == [(1, 30, None), (0, 10, None)]
    assert [s.arrival for s in writes[1].segments] == [(9, 0), (10, 0)]
    assert len({write.file_id for write in writes}) == 2


def test_an_existing_group_keeps_its_id_and_brings_its_base_file():
    place = BucketPlace("p", 2)
    slices = existing(place)
    [write] = plan_base_files([segment(0, "p", 2, 1)], slices, make_spec(), ManualClock())
    assert write.file_id == "00000002-old-0"
    assert write.old == slices[place].base_file


def test_the_same_bucket_of_another_partition_is_another_group():
    slices = existing(BucketPlace("p", 2))
    [write] = plan_base_files([segment(0, "q", 2, 1)], slices, make_spec(), ManualClock())
    assert write.old is None
    assert write.file_id.startswith("00000002-")
    assert write.file_id != "00000002-old-0"


def test_an_existing_group_of_a_merge_on_read_table_is_refused_by_name():
    spec = make_spec(table_type="MERGE_ON_READ")
    with pytest.raises(UnsupportedError, match=r"00000002-old-0 \(partition 'p', bucket 2\)"):
        plan_base_files([segment(0, "p", 2, 1)], existing(BucketPlace("p", 2)), spec, ManualClock())


def test_an_existing_group_with_logs_is_refused_by_name():
    with pytest.raises(UnsupportedError, match="00000002-old-0 has log files"):
        plan_base_files(
            [segment(0, "p", 2, 1)],
            existing(BucketPlace("p", 2), logs=1),
            make_spec(),
            ManualClock(),
        )


def test_nothing_staged_is_nothing_to_write():
    assert plan_base_files([], existing(BucketPlace("p", 2)), make_spec(), ManualClock()) == []
