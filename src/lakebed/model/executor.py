"""Who runs a task on many items: this process, or Spark."""

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


class Executor(Protocol):
    """Runs one task on many items, in any order, each result once.

    A task may run more than once for an item (a retry), so it must be safe to repeat;
    its result arrives once. Task, item and result are pickled on the way.
    """

    def run(
        self, task: Callable[[Item], Result], items: Sequence[Item], label: str = ""
    ) -> Iterator[Result]:
        """Yield the result of each item as it becomes ready."""
        ...
