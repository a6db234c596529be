"""The plan of one read of changes: the file groups, and the effect of each commit on them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from lakebed.merge.rule import Merger
from lakebed.table.changes.column_types import check_column_types
from lakebed.table.changes.commit_range import RangeCommit
from lakebed.table.changes.plan import GroupChanges, plan_group_changes
from lakebed.table.changes.reader import ChangeReader
from lakebed.table.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class ChangeScan:
    """The file groups to read, and their reader; pickled to workers."""

    reader: ChangeReader
    groups: tuple[GroupChanges, ...]

    @property
    def schema(self) -> pa.Schema:
        """Return the columns: op, ts_ms, before and after."""
        return self.reader.change_schema

    @property
    def cost_bytes(self) -> int:
        """Return the estimated cost of the scan."""
        return sum(group.cost_bytes for group in self.groups)

    def read(self, group: GroupChanges) -> Iterator[pa.RecordBatch]:
        """Yield the changes of one file group."""
        return self.reader.read(group)


def plan_changes(
    snapshot: Snapshot,
    commits: Sequence[RangeCommit],
    columns: Sequence[str],
    merger: Merger | None = None,
) -> ChangeScan:
    """Plan a read of the changes of `commits`.

    `columns` are the columns of the rows before and after. Raises InvalidError if needed files no
    longer exist, UnsupportedError if values of an older type do not fit a column.
    """
    groups = plan_group_changes(snapshot, commits)
    written_by = {instant for group in groups for instant in group.written_by}
    check_column_types(snapshot, commits, written_by, columns)
    view = snapshot.view(merger)
    if any(group.needs_merge for group in groups):
        _ = view.rule  # checked here rather than in a task
    return ChangeScan(ChangeReader(view, tuple(columns)), groups)
