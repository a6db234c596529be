"""The command `sql`: statements from the command line, a file, standard input, or a prompt."""

import os
import sys
from collections.abc import Iterator
from typing import Annotated, Any

import pyarrow as pa
import typer
from rich.console import Console

import lakebed
from lakebed.cli.answer import PROBLEM, RETRY, USAGE, Answer, answering
from lakebed.cli.arguments import Debug, Json, Settings, Spark, pairs
from lakebed.cli.drawing import align, cut
from lakebed.cli.prompt import prompted
from lakebed.errors import ConflictError, InvalidError, NotFoundError, UnavailableError
from lakebed.sql.catalog import Catalog
from lakebed.sql.front import WAREHOUSE
from lakebed.sql.statements import split_script
from lakebed.terminal.text import plural
from lakebed.terminal.values import shown_values

_MAX_ROWS = 1_000
_MAX_WIDTH = 60

File = Annotated[
    str | None, typer.Argument(help="A file of statements; without one, - or a prompt is read.")
]
Execute = Annotated[
    list[str] | None,
    typer.Option("--execute", "-e", help="Statements to execute; may be repeated."),
]
Warehouse = Annotated[
    str | None,
    typer.Option(
        "--warehouse",
        "-w",
        help=f"The folder or URL of the tables; by default ${WAREHOUSE}, or this folder.",
    ),
]


def sql(
    file: File = None,
    execute: Execute = None,
    warehouse: Warehouse = None,
    spark: Spark = False,
    options: Settings = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Execute SQL statements, or read them at a prompt."""
    with answering(as_json=as_json, debug=debug) as answer:
        statements = _statements(file, execute)
        session = lakebed.local_session() if spark else None
        place = warehouse or os.environ.get(WAREHOUSE) or os.curdir
        catalog = Catalog(session, place, pairs(options))
        if statements is None:
            _converse(catalog, answer)
            return
        if as_json:
            found = [_collected(catalog.sql(one)) for one in statements]
            answer.give(found[0] if len(found) == 1 else found)
            return
        for one in statements:
            _draw(answer.out, catalog.sql(one))


def _statements(file: str | None, execute: list[str] | None) -> list[str] | None:
    """Return the statements to execute; None for a prompt."""
    if execute:
        if file is not None:
            raise InvalidError(f"sql: expected a file or --execute, found both ({file})")
        return [one for text in execute for one in split_script(text)]
    if file is None and sys.stdin.isatty():
        return None
    if file in (None, "-"):
        return split_script(sys.stdin.read())
    try:
        with open(str(file), encoding="utf-8") as opened:
            return split_script(opened.read())
    except OSError as error:
        raise NotFoundError(f"sql: cannot read {file}: {error.strerror}") from error


def _converse(catalog: Catalog, answer: Answer) -> None:
    """Execute statements from the prompt until its end; an error does not end it."""
    for text in prompted(catalog):
        try:
            for one in split_script(text):
                rows = catalog.sql(one)
                if answer.as_json:
                    answer.give(_collected(rows))
                else:
                    _draw(answer.out, rows)
        except KeyboardInterrupt:
            answer.err.print("interrupted")
        except Exception as error:  # noqa: BLE001 - the prompt goes on after any error
            answer.fail(error, _code(error))


def _code(error: Exception) -> int:
    if isinstance(error, (ConflictError, UnavailableError)):
        return RETRY
    return USAGE if isinstance(error, InvalidError) else PROBLEM


def _collected(rows: Any) -> pa.Table:
    return rows.read_all() if isinstance(rows, pa.RecordBatchReader) else rows.toArrow()


def _draw(console: Console, rows: Any) -> None:
    names, shown, has_more = _first_rows(rows)
    if names == ["result"]:
        for (text,) in shown:
            console.print(text)
        return
    for line in align(names, shown):
        console.print(line)
    more = f"; only the first {_MAX_ROWS:,} are shown" if has_more else ""
    console.print(f"({plural(len(shown), 'row')}{more})")


def _first_rows(rows: Any) -> tuple[list[str], list[list[str]], bool]:
    if not isinstance(rows, pa.RecordBatchReader):
        rows = rows.limit(_MAX_ROWS + 1).toArrow().to_reader()
    names = list(rows.schema.names)
    found: list[list[str]] = []
    for row in _rows(rows):
        if len(found) == _MAX_ROWS:
            return names, found, True
        found.append([_text(value) for value in row])
    return names, found, False


def _rows(reader: pa.RecordBatchReader) -> Iterator[list[Any]]:
    for batch in reader:
        columns = [shown_values(column) for column in batch.slice(0, _MAX_ROWS + 1).columns]
        yield from map(list, zip(*columns, strict=True))


def _text(value: object) -> str:
    text = "NULL" if value is None else value.hex() if isinstance(value, bytes) else str(value)
    return cut(text, _MAX_WIDTH)
