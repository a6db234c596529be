"""The history and the files of a table as Arrow tables, for display."""

from collections.abc import Iterable

import pyarrow as pa

from lakebed.format.timeline.commit_metadata import CommitMetadata, is_reserved
from lakebed.table.files.file_group import BaseFile, shown_group
from lakebed.table.snapshot import Snapshot
from lakebed.table.time_travel import History
from lakebed.timeline.archived import read_archived
from lakebed.timeline.timeline import COMMIT_ACTIONS, TimelineInstant

HISTORY_SCHEMA = pa.schema(
    [
        ("instant", pa.string()),
        ("completion_time", pa.string()),
        ("action", pa.string()),
        ("state", pa.string()),
        ("operation", pa.string()),
        ("files", pa.int64()),
        ("rows_written", pa.int64()),
        ("rows_inserted", pa.int64()),
        ("rows_updated", pa.int64()),
        ("rows_deleted", pa.int64()),
        ("bytes_written", pa.int64()),
        ("archived", pa.bool_()),
        ("version", pa.int64()),
        ("commit_metadata", pa.map_(pa.string(), pa.string())),
    ]
)

FILES_SCHEMA = pa.schema(
    [
        ("partition", pa.string()),
        ("file_id", pa.string()),
        ("level", pa.string()),
        ("instant", pa.string()),
        ("size_bytes", pa.int64()),
        ("path", pa.string()),
    ]
)


def active_rows(snapshot: Snapshot, instants: Iterable[TimelineInstant]) -> list[dict[str, object]]:
    """Return instants of the active timeline, and what they wrote, as rows of the history."""
    rows = []
    for instant in instants:
        row: dict[str, object] = {
            "instant": instant.requested,
            "completion_time": instant.completion,
            "action": str(instant.action),
            "state": instant.state.name.lower(),
            "archived": False,
        }
        if instant.is_completed and instant.action in COMMIT_ACTIONS:
            row |= _counts(snapshot.commits.read(instant))
        rows.append(row)
    return rows


def history_table(snapshot: Snapshot) -> pa.Table:
    """Return every instant, newest first, archived ones included."""
    rows = active_rows(snapshot, snapshot.timeline.instants)
    active = {str(row["instant"]) for row in rows}
    for archived in read_archived(snapshot.storage, snapshot.config.history_path):
        if archived.requested in active:
            continue  # archived and not yet deleted from the active timeline
        row = {
            "instant": archived.requested,
            "completion_time": archived.completion,
            "action": str(archived.action),
            "state": "completed",
            "archived": True,
        }
        if archived.action in COMMIT_ACTIONS and archived.metadata:
            what = f"archived {archived.action} {archived.requested}"
            row |= _counts(CommitMetadata.parse(archived.metadata, what))
        rows.append(row)
    history = History(snapshot.storage, snapshot.config, snapshot.commits.active)
    numbers = {version.requested: version.number for version in history.versions()}
    for row in rows:
        if row["action"] in COMMIT_ACTIONS and row["state"] == "completed":
            row["version"] = numbers.get(str(row["instant"]))
    rows.sort(key=lambda row: str(row["instant"]), reverse=True)
    return pa.Table.from_pylist(rows, schema=HISTORY_SCHEMA)


def files_table(snapshot: Snapshot) -> pa.Table:
    """Return every file that a snapshot reads: base files as L1, logs as L0.

    A table with column groups has a further column, `column_group`, empty for the default group and
    `*` for a base file with the columns of all groups.
    """
    rows = [
        {
            "partition": slice_.group.partition,
            "file_id": slice_.group.file_id,
            "column_group": shown_group(file, file.name.column_group),
            "level": "L1" if isinstance(file, BaseFile) else "L0",
            "instant": file.name.instant,
            "size_bytes": file.size_bytes,
            "path": file.path,
        }
        for slice_ in snapshot.slices
        for file in slice_.files
    ]
    schema = FILES_SCHEMA
    if snapshot.config.column_groups:
        schema = schema.insert(2, pa.field("column_group", pa.string()))
    return pa.Table.from_pylist(rows, schema=schema)


def _counts(metadata: CommitMetadata) -> dict[str, object]:
    stats = [stat for held in metadata.partition_to_write_stats.values() for stat in held]
    return {
        "operation": metadata.operation_type,
        "commit_metadata": {
            key: value for key, value in metadata.extra_metadata.items() if not is_reserved(key)
        },
        "files": len(stats),
        "rows_written": sum(stat.num_writes or 0 for stat in stats),
        "rows_inserted": sum(stat.num_inserts or 0 for stat in stats),
        "rows_updated": sum(stat.num_update_writes or 0 for stat in stats),
        "rows_deleted": sum(stat.num_deletes or 0 for stat in stats),
        "bytes_written": sum(stat.total_write_bytes or 0 for stat in stats),
    }
