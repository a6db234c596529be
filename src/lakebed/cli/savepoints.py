"""Commands for savepoints: create, list, delete."""

from typing import Annotated

import typer
from rich.console import Console

from lakebed.cli.answer import answering
from lakebed.cli.arguments import Debug, Json, Path, Settings, opened
from lakebed.cli.maintain import Instant

savepoint = typer.Typer(
    no_args_is_help=True, add_completion=False, help="Create, list and delete savepoints."
)


@savepoint.command()
def create(
    path: Path,
    comment: Annotated[str, typer.Option(help="Why it is kept.")] = "",
    options: Settings = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Create a savepoint of the latest commit, which protects it from cleaning and archiving."""
    with answering(as_json=as_json, debug=debug) as answer:
        answer.give(opened(path, options).savepoint(comment=comment))


@savepoint.command("list")
def list_(
    path: Path, options: Settings = None, as_json: Json = False, debug: Debug = False
) -> None:
    """List the savepoints."""
    with answering(as_json=as_json, debug=debug) as answer:
        found = opened(path, options).savepoints()

        def draw(console: Console) -> None:
            for held in found:
                console.print(str(held))
            if not found:
                console.print("no savepoint")

        answer.give(found, draw)


@savepoint.command()
def delete(
    path: Path,
    instant: Instant,
    options: Settings = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Delete a savepoint; the next clean may delete its files."""
    with answering(as_json=as_json, debug=debug) as answer:
        opened(path, options).delete_savepoint(instant)
        answer.give({"deleted": instant}, lambda console: console.print(f"{instant}: deleted"))
