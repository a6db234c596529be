"""Report how far the tasks of a service are, to a listener; by default to the terminal."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Protocol

from lakebed.model.executor import Executor, Item, Report, Result, TaskId
from lakebed.terminal.progress import DISPLAY
from lakebed.write.pipeline import WriteTarget


class Listener(Protocol):
    """Is told what work begins, how many items it has, how many are done, and when it ends."""

    def show(self, what: str, total: int | None = None) -> AbstractContextManager[Report | None]:
        """Begin `what`; call what the context yields with the number of items that are done.

        It yields None where the listener does not want to know. The end of the context is that of
        the work.
        """
        ...


@dataclass(frozen=True)
class WatchedExecutor:
    """An Executor that shows how many of its items are done.

    Results of Spark come all at once; there the items of completed tasks are shown before.
    """

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
        del report  # what is shown here is not shown again
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
    """Let `executor` show how far it is."""
    return WatchedExecutor(executor, listener)


def watched_target(target: WriteTarget) -> WriteTarget:
    """Let the tasks of a service show how far they are."""
    return replace(target, executor=watched(target.executor))
