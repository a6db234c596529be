"""Commands that print a table's description, its rows, and the rows that commits changed."""

import json
from collections.abc import Iterator, Sequence
from typing import Annotated

import pyarrow as pa
import typer
from rich.console import Console

from lakebed.api.table import Table
from lakebed.cli.answer import answering
from lakebed.cli.arguments import AsOf, Debug, Json, Path, Settings, opened
from lakebed.cli.drawing import align, cut
from lakebed.cli.look import Columns, Where
from lakebed.errors import InvalidError
from lakebed.terminal.text import plural
from lakebed.terminal.values import shown_rows

Count = Annotated[int, typer.Option("-n", "--rows", min=0, help="How many rows to print.")]
_CELL = 32
# Instants and counts of seconds have at least this many digits; fewer are a version.
_INSTANT_DIGITS = 10
_OPS = {"i": "inserted", "u": "updated", "d": "deleted"}


def describe(
    path: Path, options: Settings = None, as_json: Json = False, debug: Debug = False
) -> None:
    """Print the settings, the columns and the size of the table."""
    with answering(as_json=as_json, debug=debug) as answer:
        found = opened(path, options).describe()

        def draw(console: Console) -> None:
            for line in str(found).splitlines():
                console.print(cut(line, console.width))

        answer.give(found, draw)


def head(
    path: Path,
    count: Count = 10,
    columns: Columns = None,
    where: Where = None,
    as_of: AsOf = None,
    options: Settings = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Print some rows of the table, in no particular order."""
    with answering(as_json=as_json, debug=debug) as answer:
        names = None if columns is None else [name.strip() for name in columns.split(",")]
        with opened(path, options).read(names, where, as_of) as stream:
            found, _ = _first(stream, count)

        def draw(console: Console) -> None:
            for line in draw_rows(found, console.width):
                console.print(line)
            if not found.num_rows:
                console.print("(no rows)")

        answer.give(found, draw)


def diff(
    path: Path,
    old: Annotated[str, typer.Argument(help="A version, an instant, a timestamp or a tag.")],
    new: Annotated[str | None, typer.Argument(help="The same; by default, the latest.")] = None,
    count: Count = 30,
    columns: Columns = None,
    options: Settings = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Print the rows that commits after OLD, up to NEW, inserted, updated and deleted."""
    with answering(as_json=as_json, debug=debug) as answer:
        table = opened(path, options)
        names = None if columns is None else [name.strip() for name in columns.split(",")]
        since, until = _completed(table, old), None if new is None else _completed(table, new)
        counts = dict.fromkeys(_OPS, 0)
        with table.read(names, since=since, until=until, mode="cdc") as stream:
            found, rest = _first(stream, count)
            for op in found["op"].to_pylist():
                counts[op] += 1
            for batch in (batch for part in (rest, stream) for batch in part):
                for held in batch.column("op").value_counts().to_pylist():
                    counts[held["values"]] += held["counts"]
        document = {**{name: counts[op] for op, name in _OPS.items()}, "changes": found}

        def draw(console: Console) -> None:
            for line in _draw_changes(found, console.width):
                console.print(line)
            left = sum(counts.values()) - found.num_rows
            if left:
                console.print(f"... and {plural(left, 'change')} more; --rows N shows N")
            console.print(", ".join(f"{counts[op]:,} {name}" for op, name in _OPS.items()))

        answer.give(document, draw)


def draw_rows(rows: pa.Table, width: int) -> list[str]:
    """Return rows as aligned columns, as lines of at most `width` terminal cells."""
    if not rows.num_columns:
        return []
    texts = [[_text(value) for value in row.values()] for row in shown_rows(rows)]
    right = {
        field.name
        for field in rows.schema
        if pa.types.is_integer(field.type) or pa.types.is_floating(field.type)
    }
    return [cut(line, width) for line in align(rows.column_names, texts, right=right)]


def _draw_changes(found: pa.Table, width: int) -> Iterator[str]:
    for row in shown_rows(found):
        before, after = (_record(row[side]) for side in ("before", "after"))
        shown = {"i": f"+ {after}", "d": f"- {before}", "u": f"~ {before} -> {after}"}[row["op"]]
        yield cut(shown, width)


def _record(value: object) -> str:
    if not isinstance(value, dict):
        return _text(value)
    return ", ".join(f"{name}={_text(held)}" for name, held in value.items())


def _text(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, (dict, list, tuple)):
        return cut(json.dumps(value, ensure_ascii=False, default=str), _CELL)
    return cut(str(value), _CELL)


def _first(stream: pa.RecordBatchReader, count: int) -> tuple[pa.Table, Sequence[pa.RecordBatch]]:
    """Return the first rows of a stream, and the rest of the batch that held the last of them."""
    held: list[pa.RecordBatch] = []
    left = count
    while left:
        try:
            batch = stream.read_next_batch()
        except StopIteration:
            break
        held.append(batch.slice(0, left))
        if batch.num_rows > left:
            return pa.Table.from_batches(held, stream.schema), [batch.slice(left)]
        left -= batch.num_rows
    return pa.Table.from_batches(held, stream.schema), []


def _completed(table: Table, point: str) -> str | int:
    """Return a point in time; for the instant of a commit, the commit's completion time."""
    if not point.strip():
        raise InvalidError("diff: expected a version, an instant, a timestamp or a tag")
    if point.isdecimal() and len(point) < _INSTANT_DIGITS:
        return int(point)
    history = table.history()
    ends = dict(
        zip(*(history[name].to_pylist() for name in ("instant", "completion_time")), strict=True)
    )
    return str(ends.get(point) or point)
