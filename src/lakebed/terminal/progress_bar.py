"""The layout of progress bars: a bar, a count and the elapsed time."""

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
    """The column with the count; empty for work without a count."""

    def render(self, task: Task) -> Text:
        return Text() if task.total is None else super().render(task)


def make_progress(console: Console | None) -> Progress | None:
    """Return a progress display on `console`, by default standard error; None if not a terminal."""
    console = console or Console(stderr=True)
    if not console.is_terminal or console.is_dumb_terminal:
        return None
    # Do not redirect standard output, which is the user's, to standard error, as rich does by
    # default.
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
