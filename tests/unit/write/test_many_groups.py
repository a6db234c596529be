"""Planning a write over many file groups looks at each of them once, not once for each other."""

import numpy as np

from lakebed.format.names.data_names import BaseFileName
from lakebed.table.files.file_group import BaseFile, FileGroupId, FileSlice
from lakebed.write.partition_moves import groups_at, settle_moves
from lakebed.write.small_files import fill_small_files
from lakebed.write.staging import Segment
from support.specs import INSTANT, make_spec

GROUPS = 50


class Counted(dict):
    """Counts how often all of its values are looked at."""

    looks = 0

    def values(self):
        self.looks += 1
        return super().values()


class Tasks:
    """Keeps the tasks that are planned, and runs none."""

    def __init__(self):
        self.items = []

    def run(self, task, items, label, report=None):
        self.items += items
        return iter(())


def slice_of(number, size_bytes=1000):
    name = BaseFileName(f"{number:08}-0000-0000-0000-000000000000-0", "0-0-0", INSTANT)
    base = BaseFile(f"p{number}", name, size_bytes)
    return FileSlice(FileGroupId(f"p{number}", name.file_id), INSTANT, base)


def segment(number, file_id=None, **more):
    return Segment("x.arrow", (0, number), f"p{number}", file_id, 0, 1, 10, **more)


SLICES = [slice_of(number, 1000 + number) for number in range(GROUPS)]


def test_new_rows_of_many_partitions_find_the_small_file_of_theirs():
    slices = Counted({s.group: s for s in SLICES})
    found, filled = fill_small_files(map(segment, range(GROUPS)), slices, make_spec(), Tasks())
    assert {s.partition: s.file_id for s in found} == {g.partition: g.file_id for g in slices}
    assert filled == slices.keys()
    assert slices.looks == 1


def test_rows_that_wait_cost_what_their_own_file_group_does_and_share_the_slices():
    waiting = [segment(n, SLICES[n].group.file_id, wait=True) for n in range(GROUPS)]
    several = Segment("y.arrow", (0, 0), "", None, 0, 1, 10, wait=True)
    tasks = Tasks()
    settled = settle_moves([*waiting, several, segment(1)], SLICES, make_spec(), tasks)
    assert settled == [segment(1)]
    assert len({id(move.slices) for move in tasks.items}) == 1
    own, joint = tasks.items[:-1], tasks.items[-1]
    assert [move.read_bytes for move in own] == [slice_.cost_bytes for slice_ in SLICES]
    # Rows of several file groups wait together: any of the slices may be read.
    assert joint.read_bytes == sum(slice_.cost_bytes for slice_ in SLICES)


def test_groups_are_named_by_number_and_none_is_null():
    partitions, ids = groups_at(SLICES, np.array([3, -1, 0, 3]))
    assert partitions.to_pylist() == ["p3", None, "p0", "p3"]
    assert ids.to_pylist() == [
        slice_.group.file_id if slice_ else None
        for slice_ in (SLICES[3], None, SLICES[0], SLICES[3])
    ]
    assert [len(column) for column in groups_at(SLICES, np.array([], np.int64))] == [0, 0]
