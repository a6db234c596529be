"""The command that converts other folders into tables."""

from typing import Annotated

import typer

from lakebed.api.convert.convert import convert as convert_folder
from lakebed.cli.answer import answering
from lakebed.cli.arguments import Debug, Json, Settings, pairs


def convert(
    source: Annotated[
        str, typer.Argument(help="A folder of Parquet files, or a Delta table: a folder or a URL.")
    ],
    path: Annotated[str, typer.Argument(help="Where to create the table.")],
    key: Annotated[str, typer.Option(help="The record key columns, separated by commas.")],
    ordering: Annotated[
        str | None, typer.Option(help="The columns whose greatest value wins for a key.")
    ] = None,
    partition_by: Annotated[
        str | None, typer.Option(help="The partition columns; by default those of the folders.")
    ] = None,
    changes: Annotated[
        list[str] | None, typer.Option("--set", help="An option KEY=VALUE to store with the table.")
    ] = None,
    options: Settings = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Convert a folder of Parquet files, or a Delta table, into a new table; resume if interrupted."""
    with answering(as_json=as_json, debug=debug) as answer:
        done = convert_folder(
            source,
            path,
            key.split(","),
            None if ordering is None else ordering.split(","),
            None if partition_by is None else partition_by.split(","),
            storage_options=pairs(options),
            properties=pairs(changes),
        )
        facts = {
            "kind": done.kind,
            "table": done.table.path,
            "files": done.files,
            "resumed": done.resumed,
            "rows": done.rows,
            "size_bytes": done.size_bytes,
        }
        answer.give(facts, lambda console: console.print(str(done)))
