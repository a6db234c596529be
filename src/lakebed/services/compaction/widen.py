"""The task of a compaction that widens: all column groups of a file group into one base file.

Each group is merged as a stream, as in its own compaction, and the streams are joined by key. The
file holds every key that any group held, and for each group the values against which its later
versions are resolved (`groups/wide.py`). Each group keeps its own tombstones beside it.
"""

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.commit.fence import Fence
from lakebed.format.files.footer import FOOTER_COLUMN_GROUPS
from lakebed.format.names.data_names import replay_key, wide_token
from lakebed.format.names.meta_columns import COMMIT_TIME, RECORD_KEY, STAMPS
from lakebed.format.timeline.commit_metadata import NO_PREVIOUS_COMMIT, WriteStat
from lakebed.groups.definition import ColumnGroups
from lakebed.groups.stitch import newest_stamps, numbered_stamp, numbered_stamps, stitch
from lakebed.groups.wide import WideColumns
from lakebed.model.executor import TaskId
from lakebed.model.packing import WRITE_FACTOR, file_cost
from lakebed.services.compaction.merge import CompactionTask
from lakebed.services.rewrite import Rewrite, RewrittenFile, TakeDeletes
from lakebed.table.files.file_group import FileGroupId, FileSlice
from lakebed.table.read.base_file import read_footer
from lakebed.table.read.projection import project
from lakebed.table.store.data_writer import DataFileStats
from lakebed.table.view import TableView
from lakebed.write.spec.status import WriteStatus, file_stat


@dataclass(frozen=True, slots=True)
class WidenTask:
    """The operations of one file group, one for each column group; pickled to workers.

    `view` is that of the whole table.
    """

    view: TableView
    parts: tuple[CompactionTask, ...]

    @property
    def group(self) -> FileGroupId:
        """Return the file group, without a column group."""
        return self.parts[0].operation.group.whole

    @property
    def fence(self) -> Fence:
        """Return the fence of the attempt."""
        return self.parts[0].rewrite.fence

    @property
    def cost_bytes(self) -> int:
        """Estimate the work, in bytes, as for `CompactionTask`."""
        files = sum(len(part.operation.slice_.files) for part in self.parts)
        return file_cost(sum(part.cost_bytes for part in self.parts), WRITE_FACTOR * files)


def widen_file_group(work: WidenTask, task: TaskId) -> WriteStatus:
    """Merge the planned files of all column groups into one base file."""
    groups = work.view.column_groups
    wide = WideColumns.of(groups, work.view.schema.names)
    first = work.parts[0].rewrite
    rewrite = replace(first, view=_wide_view(work.view, wide))
    claim = zlib.crc32(work.fence.owner.encode()) & 0x7FFF_FFFF
    token = TaskId(task.partition, claim, task.attempt).write_token
    with RewrittenFile(
        rewrite, work.group, token, work.parts[0].number, base_token=wide_token(token)
    ) as file:
        file.annotate({FOOTER_COLUMN_GROUPS: wide.encode()})
        keep = [file.deletes_of(part.rewrite, part.operation.group) for part in work.parts]
        for batch in _rows(work, rewrite, wide, keep):
            file.put(batch)
        written = file.close()
    return WriteStatus(work.group, (_base_stat(work, written.base), *written.tombstones))


def _wide_view(view: TableView, wide: WideColumns) -> TableView:
    """Return the view with the columns of the file: the table's, and those of single groups."""
    fields = [
        field.with_name(wide.own[name][field.name])
        for name in wide.own
        for field in project(view.schema, list(wide.own[name]))
    ]
    schema = pa.schema([*view.schema, *(field.with_nullable(True) for field in fields)])
    return replace(view, schema=schema, schema_text=None, column_groups=ColumnGroups())


def _rows(
    work: WidenTask, rewrite: Rewrite, wide: WideColumns, keep: list[TakeDeletes]
) -> Iterator[pa.RecordBatch]:
    """Yield whole rows in key order, with the columns of single groups."""
    streams: list[tuple[str, Iterator[pa.RecordBatch]]] = []
    numbers: dict[str, int] = {}
    for part, deletes in zip(work.parts, keep, strict=True):
        slice_ = _in_replay_order(part.operation.slice_)
        if not slice_.files:
            continue
        group = slice_.group.column_group
        number = numbers[group] = len(streams)
        rows = _stored(part.rewrite.read(slice_, deletes=deletes), wide.own[group])
        streams.append((f"column group {group or 'default'!r}", numbered_stamps(rows, number)))
    times = {own[COMMIT_TIME]: numbers.get(name) for name, own in wide.own.items()}
    text = pa.string()
    stamps = [pa.field(name, text) for name in (*STAMPS, RECORD_KEY)]
    target = pa.schema([*stamps, *(f for f in rewrite.view.schema if f.name not in times)])
    for batch in stitch(streams, target):
        whole = newest_stamps(batch, len(streams), target)
        newest = whole.column(COMMIT_TIME)
        for name, held in times.items():
            # A group that does not hold the key gets it now, with the time of the row.
            own = None if held is None else batch.column(numbered_stamp(COMMIT_TIME, held))
            whole = whole.append_column(name, newest if own is None else pc.coalesce(own, newest))
        yield whole


def _stored(batches: Iterator[pa.RecordBatch], own: Mapping[str, str]) -> Iterator[pa.RecordBatch]:
    """Rename a group's copies of ordering columns as the file stores them."""
    names = {name: stored for name, stored in own.items() if name != COMMIT_TIME}
    for batch in batches:
        yield batch.rename_columns([names.get(name, name) for name in batch.schema.names])


def _in_replay_order(slice_: FileSlice) -> FileSlice:
    logs = sorted(slice_.log_files, key=lambda log: replay_key(log.name))
    return replace(slice_, log_files=tuple(logs))


def _base_stat(work: WidenTask, stats: DataFileStats) -> WriteStat:
    """Return the stat of the new base file, with the counts of all logs that it merged."""
    operations = [part.operation for part in work.parts]
    bases = {
        base.path: base
        for operation in operations
        if (base := operation.slice_.base_file) is not None
    }
    storage = work.view.storage
    before = max((read_footer(storage, path).num_rows for path in bases), default=0)
    newest = max(bases.values(), key=lambda base: base.name.instant, default=None)
    records = sum(part.counts.rows + part.counts.deletes for part in work.parts)
    logs = sum(len(operation.logs) for operation in operations)
    inserts = max(0, stats.rows - before)
    updates = max((part.counts.rows for part in work.parts), default=0)
    return replace(
        file_stat(work.group, stats),
        prev_commit=NO_PREVIOUS_COMMIT if newest is None else newest.name.instant,
        prev_base_file=None if newest is None else newest.name.encode(),
        num_deletes=max(0, before - stats.rows),
        num_inserts=inserts,
        num_update_writes=max(0, min(updates, stats.rows) - inserts),
        total_log_records=records,
        total_updated_records_compacted=records,
        total_log_blocks=logs,
        total_log_files_compacted=logs,
        total_log_size_compacted=sum(operation.log_bytes for operation in operations),
        total_log_read_time_ms=0,
    )
