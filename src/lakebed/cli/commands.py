"""The list of commands and the modules that define them.

A command is imported when it runs or shows its own help: importing all commands would load the
whole engine, which listing the commands does not need.
"""

from importlib import import_module
from typing import Any, Final

import typer
from typer.core import TyperCommand, TyperGroup

from lakebed.model.extras import missing_extra
from lakebed.model.options.option import options_of

COMMANDS: Final = {
    "show": ("look", "Draw the layers of each file group: sizes, keys and ages of its runs."),
    "describe": ("rows", "Print the settings, the columns and the size of the table."),
    "head": ("rows", "Print some rows of the table, in no particular order."),
    "diff": (
        "rows",
        "Print the rows that commits after OLD, up to NEW, inserted, updated and deleted.",
    ),
    "create": ("loading", "Create an empty table."),
    "load": ("loading", "Write the rows of a file to the table, as one commit."),
    "timeline": ("look", "List the instants of the table, newest first, with what they wrote."),
    "files": ("look", "List the data files that a read uses."),
    "explain": ("look", "Show what a read would read: files, row groups and bytes, and why."),
    "compact": ("maintain", "Merge the logs of each file group."),
    "clean": ("maintain", "Delete file versions that no retained instant needs."),
    "cluster": (
        "maintain",
        "Merge small file groups into larger ones with disjoint key ranges.",
    ),
    "archive": ("maintain", "Move old instants out of the active timeline."),
    "rollback": ("maintain", "Roll back an instant: a pending one, or the latest completed one."),
    "restore": (
        "maintain",
        "Restore the table to a savepoint; all later commits are lost.",
    ),
    "upgrade": ("maintain", "Move the table to a newer version, or to another layout."),
    "downgrade": ("maintain", "Move the table to an older version, or to another layout."),
    "verify": ("health", "Check the table and report problems; exit with 1 if there are any."),
    "repair": (
        "health",
        "Show the planned repairs, ask, and execute them; exit with 1 if problems remain.",
    ),
    "serve": (
        "serving",
        "Compact, clean and archive tables by their options; with --json, one line of JSON each.",
    ),
    "sql": ("shell", "Execute SQL statements, or read them at a prompt."),
    "ui": (
        "page",
        "Serve a read-only page on a table or a folder of tables, until interrupted.",
    ),
    "convert": (
        "convert",
        "Convert a folder of Parquet files, or a Delta table, into a new table; resume if interrupted.",
    ),
    "savepoint": ("savepoints", "Create, list and delete savepoints."),
}
"""The module that defines each command, and the command's help, which equals its docstring."""


class LazyGroup(TyperGroup):
    """A group that lists `COMMANDS` with their help and imports only the command that is called."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        for name, (_, help_) in COMMANDS.items():
            self.add_command(TyperCommand(name=name, help=help_))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Import the command that `args` start with; return its name, itself and its arguments."""
        name, listed, rest = super().resolve_command(ctx, args)
        return name, listed and load(str(name)), rest


def load(name: str) -> Any:
    """Import a command, or a group of commands, by its name."""
    try:
        module = import_module(f"lakebed.cli.{COMMANDS[name][0]}")
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "sqlglot":
            raise
        typer.echo(f"lakebed: {missing_extra('lakebed sql', 'sqlglot', 'sql')}", err=True)
        raise typer.Exit(1) from error
    found = getattr(module, name)
    if not isinstance(found, typer.Typer):
        only = typer.Typer(add_completion=False)
        settings = getattr(module, "SETTINGS", {}).get(name, ())
        held = [option for kind in settings for option in options_of(kind).values()]
        lines = [f"{option.name}={option.kind.default}: {option.effect}" for option in held]
        epilog = "\n\n".join(["Options for --set, with their defaults:", *lines])
        only.command(name, epilog=epilog if held else None)(found)
        found = only
    return typer.main.get_command(found)
