"""How progress looks: a bar, how many of how many, and for how long."""

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    Task,
    TextColumn,
    TimeElapsedColumn,
)
from rich.text import Text


class _Count(MofNCompleteColumn):
    """The numbers, where there are any."""

    def render(self, task: Task) -> Text:
        return Text() if task.total is None else super().render(task)


def make_progress(console: Console | None) -> Progress | None:
    """Return what shows work on `console`, or on standard error; None if that is no terminal."""
    console = console or Console(stderr=True)
    if not console.is_terminal or console.is_dumb_terminal:
        return None
    # Standard output is the user's: rich would send it to standard error for the time.
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        _Count(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
    )
