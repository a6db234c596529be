"""Report the progress of service tasks to a listener, by default the terminal."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Protocol

from lakebed.model.executor import Executor, Item, Report, Result, TaskId
from lakebed.terminal.progress import DISPLAY
from lakebed.write.pipeline import WriteTarget


class Listener(Protocol):
    """Receives the start and end of work, and the number of items done."""

    def show(self, what: str, total: int | None = None) -> AbstractContextManager[Report | None]:
        """Announce the start of `what`.

        The context yields a function to call with the number of items done, or None.
        """
        ...


@dataclass(frozen=True)
class WatchedExecutor:
    """An Executor that reports how many of its items are done."""

    inner: Executor
    listener: Listener

    def run(
        self,
        task: Callable[[Item, TaskId], Result],
        items: Sequence[Item],
        label: str,
        report: Report | None = None,
    ) -> Iterator[Result]:
        """Yield the result of each item as it becomes ready."""
        del report  # the listener reports instead
        with self.listener.show(label, len(items)) as show:
            if show is None:
                yield from self.inner.run(task, items, label)
                return
            most = 0

            def shown(done: int) -> None:
                nonlocal most
                most = max(most, done)
                show(most)

            for done, result in enumerate(self.inner.run(task, items, label, shown), 1):
                shown(done)
                yield result


def watched(executor: Executor, listener: Listener = DISPLAY) -> Executor:
    """Return an executor that runs tasks on `executor` and reports their progress."""
    return WatchedExecutor(executor, listener)


def watched_target(target: WriteTarget) -> WriteTarget:
    """Return the target with an executor that reports the progress of tasks."""
    return replace(target, executor=watched(target.executor))
