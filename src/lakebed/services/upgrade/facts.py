"""Collects the facts about a table's files that a conversion needs."""

from collections.abc import Sequence
from functools import partial

from lakebed.format.names.data_names import NativeLogName, parse_data_name
from lakebed.model.executor import LocalExecutor, TaskId
from lakebed.services.upgrade.plan import SliceFacts
from lakebed.storage.storage import Storage
from lakebed.table.files.damage import check_whole
from lakebed.table.files.file_group import FileSlice
from lakebed.table.listing import table_files
from lakebed.table.read.log_reader import slice_sources
from lakebed.table.snapshot import Snapshot
from lakebed.table.view import TableView

# Reading footers is mostly waiting for storage.
_LOOKERS = 16


def read_facts(snapshot: Snapshot, *, order: bool) -> Sequence[SliceFacts]:
    """Return the facts of every slice, none of which may be damaged; `order` opens files."""
    check_whole(snapshot.slices)
    look_at = partial(_look_at, snapshot.view(), order)
    return list(LocalExecutor(_LOOKERS).run(look_at, snapshot.slices, "look at files"))


def native_logs(storage: Storage) -> list[str]:
    """Return the paths of all native logs, including old slices and change data."""
    return [
        entry.path
        for entry in table_files(storage)
        if isinstance(parse_data_name(entry.path.rpartition("/")[2]), NativeLogName)
    ]


def _look_at(view: TableView, order: bool, slice_: FileSlice, task: TaskId) -> SliceFacts:
    del task
    logs = (*slice_.tombstones, *slice_.log_files)
    native = {log.path for log in logs if isinstance(log.name, NativeLogName)}
    unsorted: tuple[str, ...] = ()
    if order:
        unsorted = tuple(
            source.path
            for source in slice_sources(view, slice_)
            if not source.ordered and (source.is_base or source.path in native)
        )
    return SliceFacts(slice_.group, len(slice_.log_files), len(native), unsorted)
