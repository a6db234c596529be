"""Whether the column groups of a table can be removed: its file groups have been widened."""

import json

from lakebed.errors import InvalidError, UnsupportedError
from lakebed.groups.definition import INSTANTS_PROPERTY, encode_groups
from lakebed.model.options.services import TOMBSTONE_RETENTION
from lakebed.services.compaction.schedule import hides_values
from lakebed.services.savepoint.execute import savepoints
from lakebed.table.config.table_config import DROPPED_COLUMNS
from lakebed.table.files.damage import check_whole
from lakebed.table.files.file_group import FileSlice, data_file
from lakebed.table.listing import table_files
from lakebed.table.snapshot import Snapshot


def check_widened(snapshot: Snapshot) -> None:
    """Raise an error unless each file group is a base file of all columns, without logs.

    A table without column groups cannot store the deletes that one group keeps for late rows.
    """
    check_whole(snapshot.slices)
    name = snapshot.config.name
    groups = snapshot.column_groups.names
    for slice_ in snapshot.slices:
        parts = slice_.by_group
        where = f"file group {slice_.group.file_id} of partition {slice_.group.partition!r}"
        if not all(group in parts and _is_compacted(snapshot, parts[group]) for group in groups):
            how = "compact(widen=True)" if snapshot.column_groups else "compact()"
            raise UnsupportedError(
                f"table {name!r} has column groups, and {where} is not one base file of all columns; "
                f"call {how} first, while no writer is active"
            )
        if any(hides_values(snapshot, part) for part in parts.values()):
            raise UnsupportedError(
                f"table {name!r} has columns with names of columns of dropped column groups, whose "
                f"values are still in {where}, and would reappear; call compact(widen=True) first"
            )
        kept = next((log for part in parts.values() for log in part.tombstones), None)
        if kept is not None:
            raise UnsupportedError(
                f"table {name!r} has column groups, and {where} keeps deletes for late rows in "
                f"{kept.path}; wait until they expire, or set {TOMBSTONE_RETENTION.name}=0s, and call "
                "compact(widen=True) again"
            )
    current = {file.path for slice_ in snapshot.slices for file in slice_.files}
    for savepoint in savepoints(snapshot):
        if not current.issuperset(savepoint.paths):
            raise InvalidError(
                f"savepoint {savepoint.instant} keeps files of column groups, which a table without "
                "column groups does not have; delete the savepoint first"
            )


def _is_compacted(snapshot: Snapshot, part: FileSlice) -> bool:
    if part.base_file is None or part.log_files:
        return False
    return part.base_file.name.is_wide or not snapshot.column_groups


def without_groups(snapshot: Snapshot) -> dict[str, str | None]:
    """Return the changes of properties that remove all definitions of column groups.

    Columns of dropped groups stay in files, so no other column may take their names.
    """
    config = snapshot.config
    changes: dict[str, str | None] = {
        INSTANTS_PROPERTY: None,
        **dict.fromkeys(encode_groups(config.column_groups)),
    }
    gone = (c for group in config.column_groups if group.until for c in group.columns)
    noted = dict.fromkeys((*config.dropped_columns, *gone))
    if left := [name for name in noted if name not in snapshot.schema.names]:
        changes[DROPPED_COLUMNS] = json.dumps(left)
    return changes


def other_files(snapshot: Snapshot) -> list[str]:
    """Return the paths of the data files that are not the newest base file of a file group."""
    current = {file.path for slice_ in snapshot.slices for file in slice_.files}
    files = (data_file(entry.path, entry.size) for entry in table_files(snapshot.storage))
    return sorted(file.path for file in files if file is not None and file.path not in current)
