"""Progress of long work on a terminal: a label, a count and the elapsed time.

Nothing is shown for work of less than a second, or if standard error is not a terminal. All work in
this process shares one display.
"""

import logging
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from lakebed.model.executor import Report

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID

DELAY_SECONDS: Final = 1.0

log = logging.getLogger(__name__)


class Display:
    """Shows work while it is in progress, possibly on several threads.

    If any work has a count, only such work is shown; otherwise only the first work, which includes
    the rest. Without `console`, the current standard error is used.
    """

    def __init__(self, console: "Console | None" = None, delay_seconds: float = DELAY_SECONDS):
        self.enabled = True
        self._console = console
        self.delay_seconds = delay_seconds
        self._lock = threading.Lock()
        self._progress: Progress | None = None
        self._timer: threading.Timer | None = None

    @contextmanager
    def show(self, what: str, total: int | None = None) -> Iterator[Report | None]:
        """Show `what` until the block ends; yield a function to call with the number of items done.

        Yields None if nothing is shown.
        """
        begun = self._begin(what, total) if self.enabled else None
        if begun is None:
            yield None
            return
        progress, task = begun
        try:
            yield lambda done: progress.update(task, completed=done)
        finally:
            self._end(progress, task)

    def _begin(self, what: str, total: int | None) -> "tuple[Progress, TaskID] | None":
        log.debug(what)
        with self._lock:
            if self._progress is None:
                # Check the stream itself, because rich assumes a terminal if FORCE_COLOR is set, as
                # in CI.
                if self._console is None and not (sys.stderr is not None and sys.stderr.isatty()):
                    return None
                # This imports rich, which is needed only on a terminal.
                from lakebed.terminal.progress_bar import make_progress  # noqa: PLC0415 - rich is slow

                self._progress = make_progress(self._console)
                if self._progress is None:
                    return None
                self._timer = threading.Timer(self.delay_seconds, self._start, [self._progress])
                self._timer.daemon = True
                self._timer.start()
            task = self._progress.add_task(what, total=total)
            _choose(self._progress)
            return self._progress, task

    def _start(self, progress: "Progress") -> None:
        with self._lock:
            # The work may have ended just before the timer fired.
            if progress is self._progress:
                progress.start()

    def _end(self, progress: "Progress", task: "TaskID") -> None:
        with self._lock:
            progress.remove_task(task)
            if progress.tasks:
                _choose(progress)
                return
            assert self._timer is not None, "it is set with the progress"
            self._timer.cancel()
            progress.stop()
            self._progress = self._timer = None


def _choose(progress: "Progress") -> None:
    tasks = progress.tasks
    counted = {task.id for task in tasks if task.total is not None}
    shown = counted or {min(task.id for task in tasks)}
    for task in tasks:
        if task.visible != (task.id in shown):
            progress.update(task.id, visible=task.id in shown)


DISPLAY: Final = Display()
"""The display of this process."""


def set_progress(on: bool) -> None:
    """Switch the progress bars of this process on or off; they are on by default.

    Args:
        on: Whether to show progress bars.
    """
    DISPLAY.enabled = on


@contextmanager
def shown_after(seconds: float) -> Iterator[None]:
    """Show work that starts in the block after it has lasted `seconds`."""
    before, DISPLAY.delay_seconds = DISPLAY.delay_seconds, seconds
    try:
        yield
    finally:
        DISPLAY.delay_seconds = before


@contextmanager
def without_progress() -> Iterator[None]:
    """Hide progress bars of work that starts in the block."""
    before, DISPLAY.enabled = DISPLAY.enabled, False
    try:
        yield
    finally:
        DISPLAY.enabled = before


@contextmanager
def showing(what: str) -> Iterator[None]:
    """Show `what` as work in progress until the block ends."""
    with DISPLAY.show(what):
        yield
