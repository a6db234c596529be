"""Which commands there are, and where each is defined.

A command is loaded when it runs or shows its own help: all of them together load the whole
engine, and the list of commands needs none of it.
"""

from importlib import import_module
from typing import Any, Final

import typer
from typer.core import TyperCommand, TyperGroup

COMMANDS: Final = {
    "show": ("look", "Draw the layers of each file group: sizes, keys and ages of its runs."),
    "timeline": ("look", "List the instants of the table, newest first, with what they wrote."),
    "files": ("look", "List the data files that a read uses."),
    "compact": ("maintain", "Merge the logs of each file group."),
    "clean": ("maintain", "Delete file versions that no retained instant needs."),
    "cluster": (
        "maintain",
        "Merge small file groups into large ones, each with a range of keys of its own.",
    ),
    "archive": ("maintain", "Move old instants out of the active timeline."),
    "rollback": ("maintain", "Take back an instant, pending or the last completed one."),
    "restore": (
        "maintain",
        "Bring the table back to a savepoint; all that came after is lost.",
    ),
    "upgrade": ("maintain", "Move the table to a newer version, or to another layout."),
    "downgrade": ("maintain", "Move the table to an older version, or to another layout."),
    "verify": ("health", "Check the table and say what is wrong; exit with 1 if something is."),
    "repair": (
        "health",
        "Show what would be mended, ask, and mend it; exit with 1 if something is left.",
    ),
    "serve": (
        "serving",
        "Compact, clean and archive tables as their options ask; with --json a line of JSON each.",
    ),
    "savepoint": ("savepoints", "Keep a moment of the table to come back to."),
}
"""By name: the module that defines the command under its name, and its help as it says it itself."""


class LazyGroup(TyperGroup):
    """Lists `COMMANDS` by their help, and loads the one that is called."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        for name, (_, help_) in COMMANDS.items():
            self.add_command(TyperCommand(name=name, help=help_))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the loaded command that `args` begin with, and the arguments left to it."""
        name, listed, rest = super().resolve_command(ctx, args)
        return name, listed and load(str(name)), rest


def load(name: str) -> Any:
    """Load a command, or a group of commands, by its name."""
    found = getattr(import_module(f"lakebed.cli.{COMMANDS[name][0]}"), name)
    if not isinstance(found, typer.Typer):
        only = typer.Typer(add_completion=False)
        only.command(name)(found)
        found = only
    return typer.main.get_command(found)
