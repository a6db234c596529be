"""The rows that procedures return about a table."""

import fnmatch
import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.api.table import Table
from lakebed.format.logs.log_block import CorruptSpan
from lakebed.format.logs.log_scan import BlockSpan
from lakebed.table.log_headers import log_headers

_LOGS = pa.schema(
    [
        ("instant_time", pa.string()),
        ("block_type", pa.string()),
        ("header_metadata", pa.string()),
        ("size_bytes", pa.int64()),
        ("path", pa.string()),
    ]
)
_SIZES = pa.schema(
    [
        ("commit_time", pa.string()),
        *((name, pa.int64()) for name in ("min", "10th", "50th")),
        ("avg", pa.float64()),
        *((name, pa.int64()) for name in ("95th", "max", "num_files")),
        ("stddev", pa.float64()),
    ]
)
_COMMITS = {
    "instant": "commit_time",
    "completion_time": "state_transition_time",
    "action": "action",
    "operation": "operation",
    "bytes_written": "total_bytes_written",
    "files": "total_files_written",
    "rows_written": "total_records_written",
    "rows_inserted": "total_insert_records_written",
    "rows_updated": "total_update_records_written",
    "rows_deleted": "total_deletes",
    "archived": "archived",
}
# How the instants of each service are called on the timeline, and as operations of commits.
_SERVICES = {
    "compaction": (("compaction", "logcompaction"), ("COMPACT", "LOG_COMPACT")),
    "clustering": (("clustering",), ("CLUSTER",)),
    "clean": (("clean",), ()),
    "rollback": (("rollback", "restore"), ()),
}


def commits(table: Table, limit: int | None) -> pa.Table:
    """Return the completed commits, newest first."""
    held = table.history()
    is_commit = pc.and_(
        pc.equal(held.column("state"), "completed"), pc.is_valid(held.column("operation"))
    )
    found = held.filter(is_commit).select(list(_COMMITS))
    return _first(found.rename_columns(list(_COMMITS.values())), limit)


def timeline(table: Table, limit: int | None) -> pa.Table:
    """Return all instants, newest first."""
    return _first(table.history(), limit)


def services(table: Table, service: str, limit: int | None) -> pa.Table:
    """Return the instants of one service, newest first."""
    actions, operations = _SERVICES[service]
    held = table.history()
    rows = [
        at
        for at, row in enumerate(held.to_pylist())
        if row["action"] in actions
        or any((row["operation"] or "").upper().startswith(one) for one in operations)
    ]
    columns = ["instant", "completion_time", "action", "state", "operation", "files"]
    return _first(held.take(pa.array(rows, pa.int64())).select(columns), limit)


def pending(table: Table, service: str) -> pa.Table:
    """Return the pending instants of a service, oldest first."""
    found = services(table, service, None)
    waiting = found.filter(pc.not_equal(found.column("state"), "completed"))
    return waiting.sort_by("instant")


def savepoints(table: Table) -> pa.Table:
    """Return the savepoints, oldest first."""
    held = table.savepoints()
    return pa.table(
        {
            "savepoint_time": pa.array([one.instant for one in held], pa.string()),
            "user": pa.array([one.user for one in held], pa.string()),
            "comments": pa.array([one.comment for one in held], pa.string()),
            "files": pa.array([len(one.paths) for one in held], pa.int64()),
        }
    )


def files(table: Table, limit: int | None) -> pa.Table:
    """Return the files that a read uses."""
    return _first(table.files(), limit)


def properties(table: Table, limit: int | None) -> pa.Table:
    """Return the table's properties, sorted by name."""
    held = dict(sorted(table.config.properties.items()))
    found = {"key": pa.array(list(held), pa.string()), "value": pa.array(list(held.values()))}
    return _first(pa.table(found), limit)


def file_sizes(table: Table, partition: object, limit: int | None) -> pa.Table:
    """Return the distribution of file sizes for each commit, and for all of them."""
    held = table.files()
    if partition:
        wanted = str(partition).strip("/")
        held = held.filter(pc.equal(held.column("partition"), wanted))
    rows = []
    for instant in sorted(set(held.column("instant").to_pylist()), reverse=True):
        sizes = held.filter(pc.equal(held.column("instant"), instant)).column("size_bytes")
        rows.append(_sizes(instant, sizes))
    rows = rows if limit is None else rows[:limit]
    if held.num_rows:
        rows.append(_sizes("ALL", held.column("size_bytes")))
    return pa.Table.from_pylist(rows, schema=_SIZES)


def _sizes(instant: str, sizes: pa.ChunkedArray) -> dict[str, Any]:
    marks = pc.quantile(sizes, [0.0, 0.1, 0.5, 0.95, 1.0], interpolation="lower").to_pylist()
    return {
        "commit_time": instant,
        **dict(zip(("min", "10th", "50th", "95th", "max"), marks, strict=True)),
        "avg": pc.mean(sizes).as_py(),
        "num_files": len(sizes),
        "stddev": pc.stddev(sizes).as_py(),
    }


def log_blocks(table: Table, pattern: object, limit: int | None) -> pa.Table:
    """Return the blocks of the log files whose path ends with `pattern`, in their order."""
    rows: list[dict[str, Any]] = []
    for row in _logs(table, pattern):
        if limit is not None and len(rows) >= limit:
            break
        rows.append(row)
    return pa.Table.from_pylist(rows, schema=_LOGS)


def _logs(table: Table, pattern: object) -> Iterator[dict[str, Any]]:
    for file in table.files().to_pylist():
        path = file["path"]
        named = pattern is None or fnmatch.fnmatch(path, f"*{str(pattern).lstrip('/')}")
        if file["level"] != "L0" or not named:
            continue
        for block in log_headers(table.storage, path):
            yield {**_described(block, file["instant"]), "path": path}


def _described(block: BlockSpan | CorruptSpan, instant: str) -> dict[str, Any]:
    if isinstance(block, CorruptSpan):
        return {"instant_time": instant, "block_type": "CORRUPT", "size_bytes": block.size_bytes}
    headers = {key.name: text for key, text in block.headers.items()}
    return {
        "instant_time": headers.get("INSTANT_TIME") or instant,
        "block_type": block.type.name,
        "header_metadata": json.dumps(headers),
        "size_bytes": block.end - block.offset,
    }


def _first(table: pa.Table, limit: int | None) -> pa.Table:
    return table if limit is None else table.slice(0, limit)
