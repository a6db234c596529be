"""Commands that only read: show, timeline, files, explain."""

from collections.abc import Sequence
from dataclasses import replace
from textwrap import wrap
from typing import Annotated

import pyarrow.compute as pc
import typer
from rich.console import Console

from lakebed.api.description import index_text
from lakebed.cli.answer import answering
from lakebed.cli.arguments import (
    AsOf,
    Debug,
    Json,
    Path,
    Settings,
    opened,
    opened_config,
    opened_storage,
)
from lakebed.cli.drawing import align, draw_groups
from lakebed.engine.engine import ArrowEngine
from lakebed.errors import LakebedError
from lakebed.model.clock import SystemClock
from lakebed.scan.scan import plan_scan
from lakebed.table.config.ddl import type_text
from lakebed.table.files.file_group import FileSlice
from lakebed.table.run_facts import age_of, read_groups
from lakebed.table.snapshot import Snapshot, load_snapshot
from lakebed.table.time_travel import History
from lakebed.terminal.text import age_text, plural, size_text
from lakebed.timeline.active import ActiveTimeline

_MAX_GROUPS = 20
_MAX_ROWS = 30
# The rows of a larger table are not counted, because that reads all of its keys.
_COUNTED_BYTES = 64 << 20
_TIMELINE_COLUMNS = ("instant", "action", "state", "operation", "files", "rows", "deleted", "size")
_NUMBERS = frozenset({"files", "rows", "deleted", "size"})

Where = Annotated[
    str | None, typer.Option("--where", help="A SQL predicate, such as \"city = 'Oslo'\".")
]
Columns = Annotated[
    str | None, typer.Option("--columns", help="The columns to read, separated by commas.")
]
All = Annotated[bool, typer.Option("--all", help="Show all of them.")]
Partition = Annotated[
    str | None, typer.Option("--partition", help="Only this partition, by its path.")
]


def show(
    path: Path,
    as_of: AsOf = None,
    partition: Partition = None,
    everything: All = False,
    options: Settings = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Draw the layers of each file group: sizes, keys and ages of its runs."""
    with answering(as_json=as_json, debug=debug) as answer:
        storage = opened_storage(path, options)
        config = opened_config(storage, options)
        active = ActiveTimeline(storage, config.timeline_path)
        instant = None if as_of is None else History(storage, config, active).instant_of(as_of)
        snapshot = load_snapshot(storage, config, instant)
        slices = [
            slice_
            for slice_ in snapshot.slices
            if partition is None or slice_.group.partition == partition.strip("/")
        ]
        shown = slices if everything else slices[:_MAX_GROUPS]
        now_ms = SystemClock().now_ms()
        groups = read_groups(snapshot, shown, now_ms)
        rows = _count_rows(snapshot, slices)
        size_bytes = sum(file.size_bytes for slice_ in slices for file in slice_.files)
        document = {
            "table": _facts(snapshot),
            "columns": {f.name: type_text(f.type) for f in snapshot.schema},
            "rows": rows,
            "file_groups": len(slices),
            "size_bytes": size_bytes,
            "groups": groups,
        }

        def draw(console: Console) -> None:
            for line in (*_headline(snapshot, now_ms).splitlines(), *_facts_lines(snapshot)):
                for part in wrap(line, console.width, subsequent_indent="  "):
                    console.print(part)
            size = size_text(size_bytes)
            console.print(f"{size}" if rows is None else f"{plural(rows, 'row')}, {size}")
            for line in draw_groups(groups, console.width):
                console.print(line)
            if not slices:
                console.print("(no files)")
            if len(shown) < len(slices):
                left = plural(len(slices) - len(shown), "file group")
                console.print(f"... and {left} more; --all shows them")

        answer.give(document, draw)


def timeline(
    path: Path,
    everything: All = False,
    options: Settings = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """List the instants of the table, newest first, with what they wrote."""
    with answering(as_json=as_json, debug=debug) as answer:
        history = opened(path, options).history()
        shown = history if everything or as_json else history.slice(0, _MAX_ROWS)

        def draw(console: Console) -> None:
            rows = [
                (
                    row["instant"],
                    row["action"],
                    "archived" if row["archived"] else row["state"],
                    (row["operation"] or "").lower(),
                    _number(row["files"]),
                    _number(row["rows_written"]),
                    _number(row["rows_deleted"]),
                    "" if row["bytes_written"] is None else size_text(row["bytes_written"]),
                )
                for row in shown.to_pylist()
            ]
            for line in align(_TIMELINE_COLUMNS, rows, right=_NUMBERS):
                console.print(line)
            _say_rest(console, len(history) - len(shown), "instant")

        answer.give(shown, draw)


def files(
    path: Path,
    as_of: AsOf = None,
    partition: Partition = None,
    everything: All = False,
    options: Settings = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """List the data files that a read uses."""
    with answering(as_json=as_json, debug=debug) as answer:
        found = opened(path, options).files(as_of)
        if partition is not None:
            found = found.filter(pc.equal(found.column("partition"), partition.strip("/")))
        shown = found if everything or as_json else found.slice(0, _MAX_ROWS)

        def draw(console: Console) -> None:
            names = ["level", "instant", "size", "path"]
            if "column_group" in shown.column_names:
                names.insert(1, "column_group")
            rows = [
                [
                    size_text(row["size_bytes"]) if name == "size" else row[name] or "(default)"
                    for name in names
                ]
                for row in shown.to_pylist()
            ]
            for line in align(names, rows, right=_NUMBERS):
                console.print(line)
            _say_rest(console, len(found) - len(shown), "file")
            total = size_text(sum(found.column("size_bytes").to_pylist()))
            console.print(f"{plural(len(found), 'file')}, {total}")

        answer.give(shown, draw)


def explain(
    path: Path,
    where: Where = None,
    columns: Columns = None,
    as_of: AsOf = None,
    options: Settings = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Show what a read would read: files, row groups and bytes, and why."""
    with answering(as_json=as_json, debug=debug) as answer:
        names = None if columns is None else [name.strip() for name in columns.split(",")]
        answer.give(opened(path, options).explain(names, where, as_of))


def _facts(snapshot: Snapshot) -> dict[str, object]:
    config = snapshot.config
    commits = snapshot.timeline.commits
    facts: dict[str, object] = {
        "name": config.name,
        "url": snapshot.storage.url,
        "type": config.table_type,
        "layout": config.layout,
        "version": config.version,
        "index": index_text(config.index),
        "merge_mode": config.merge_mode,
        "record_key": config.record_key_fields,
        "ordering": config.ordering_fields,
        "partition_by": config.partition_fields,
        "commits": len(commits),
        "last_instant": commits[-1].requested if commits else None,
        "pending": [f"{i.action} {i.requested}" for i in snapshot.timeline.pending()],
    }
    if snapshot.column_groups:
        facts["column_groups"] = snapshot.column_groups.names
    return facts


def _headline(snapshot: Snapshot, now_ms: int) -> str:
    facts, config = _facts(snapshot), snapshot.config
    kind = config.table_type.replace("_", " ").lower()
    parts = [
        f"{config.name}: {kind}, {config.layout}, version {config.version}, {index_text(config.index)}"
    ]
    last = facts["last_instant"]
    if last is None:
        parts.append("no commit yet")
    else:
        age = age_text(age_of(str(last), config.zone, now_ms))
        parts.append(f"{plural(len(snapshot.timeline.commits), 'commit')}, the last {age} ago")
    if snapshot.column_groups:
        names = [name or "(default)" for name in snapshot.column_groups.names]
        parts.append(f"column groups: {', '.join(names)}")
    pending = snapshot.timeline.pending()
    parts += [f"{i.action} {i.requested} is {i.state.lower()}" for i in pending]
    return "\n".join(parts)


def _facts_lines(snapshot: Snapshot) -> list[str]:
    """Return the key and the columns of a table."""
    config = snapshot.config
    parts = [f"key {', '.join(config.record_key_fields) or 'generated by the table'}"]
    if config.ordering_fields:
        parts.append(f"ordering {', '.join(config.ordering_fields)}")
    if config.partition_fields:
        parts.append(f"partitioned by {', '.join(config.partition_fields)}")
    columns = [f"{field.name} {type_text(field.type)}" for field in snapshot.schema]
    return ["; ".join(parts), f"columns {', '.join(columns) or 'none yet'}"]


def _count_rows(snapshot: Snapshot, slices: Sequence[FileSlice]) -> int | None:
    """Return the number of rows; None if counting takes long, or a file cannot be read."""
    if sum(file.size_bytes for slice_ in slices for file in slice_.files) > _COUNTED_BYTES:
        return None
    try:
        scan = plan_scan(snapshot, snapshot.schema.names[:1], None, indexes=())
        scan = replace(scan, slices=tuple(slices))
        return ArrowEngine().count(ArrowEngine().read(scan))
    except LakebedError:
        return None


def _number(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


def _say_rest(console: Console, left: int, noun: str) -> None:
    if left > 0:
        console.print(f"... and {plural(left, noun)} more; --all shows them")
