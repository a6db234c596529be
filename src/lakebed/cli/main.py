"""The entry point of the command line."""

from typing import Annotated

import typer

import lakebed
from lakebed.cli.commands import LazyGroup

app = typer.Typer(
    name="lakebed",
    cls=LazyGroup,
    help="Create, inspect, query, maintain and repair tables.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"lakebed {lakebed.__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", is_eager=True, callback=_print_version
        ),
    ] = False,
) -> None:
    """Create, inspect, query, maintain and repair tables."""
    del version  # printed before any command is looked up


def main() -> None:
    """Run the command line."""
    app()
