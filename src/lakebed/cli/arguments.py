"""Arguments that commands share, and functions that open a table from them."""

from collections.abc import Mapping, Sequence
from typing import Annotated

import typer

import lakebed
from lakebed.api.engines import Engines
from lakebed.api.opening import open_table
from lakebed.api.table import Table
from lakebed.errors import NotFoundError, OptionError
from lakebed.model.executor import Executor
from lakebed.storage.open import open_storage
from lakebed.storage.storage import Storage
from lakebed.table.config.properties_file import load_config
from lakebed.table.config.table_config import TableConfig
from lakebed.table.location import similar_tables

Path = Annotated[str, typer.Argument(help="The table: a folder, or a URL such as s3://bucket/t.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document, and nothing else.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the trace of an error, and all logs.")]
Spark = Annotated[
    bool, typer.Option("--spark", help="Work on a local Spark session, not in this process.")
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--option", "-o", help="A storage option KEY=VALUE, such as region=eu-west-1."),
]
Changes = Annotated[
    list[str] | None,
    typer.Option("--set", help="An option KEY=VALUE of the table, for this call; see below."),
]
AsOf = Annotated[
    str | None,
    typer.Option("--as-of", help="Show the table as of an instant, a date or a timestamp."),
]


def opened(path: str, settings: Sequence[str] | None, *, spark: bool = False) -> Table:
    """Open the table at `path`."""
    session = lakebed.local_session() if spark else None
    return open_table(session, path, pairs(settings))


def opened_storage(path: str, settings: Sequence[str] | None) -> Storage:
    """Open the storage at `path`, without opening its table."""
    return open_storage(path, pairs(settings))


def opened_config(storage: Storage, settings: Sequence[str] | None) -> TableConfig:
    """Return the configuration of the table at a path; the error offers similar paths."""
    try:
        return load_config(storage)
    except NotFoundError as error:
        raise NotFoundError(f"{error}{similar_tables(storage, pairs(settings))}") from None


def executor(*, spark: bool) -> Executor:
    """Return the executor that runs the tasks of a command."""
    return Engines(lakebed.local_session() if spark else None).main.executor


def pairs(settings: Sequence[str] | None) -> Mapping[str, str] | None:
    """Split `KEY=VALUE` strings into a mapping; return None if there are none."""
    found = {}
    for text in settings or ():
        key, equals, value = text.partition("=")
        if not equals or not key:
            # What was given may be a secret.
            raise OptionError(
                f"an option without {'a name' if equals else '='}: expected KEY=VALUE"
            )
        found[key] = value
    return found or None
