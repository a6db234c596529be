"""Executors, which run a task on many items, in this process or elsewhere."""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Protocol, TypeVar

from lakebed.model.packing import cost_of

Item = TypeVar("Item")
Result = TypeVar("Result")

Report = Callable[[int], None]
"""Called with the number of items that are done, before their results arrive."""


@dataclass(frozen=True, slots=True)
class TaskId:
    """Identifies an attempt of a task, uniquely within one instant.

    As a string it is Hudi's write token, so two attempts never write the same file name.
    """

    partition: int
    stage: int
    attempt: int

    @property
    def write_token(self) -> str:
        """Return Hudi's write token: `<partition>-<stage>-<attempt>`."""
        return f"{self.partition}-{self.stage}-{self.attempt}"


class Executor(Protocol):
    """Runs one task on many items, in any order.

    A task may run more than once for an item (a retry), so it must be safe to repeat; each item has
    one result. Tasks, items and results are pickled.
    """

    def run(
        self,
        task: Callable[[Item, TaskId], Result],
        items: Sequence[Item],
        label: str,
        report: Report | None = None,
    ) -> Iterator[Result]:
        """Yield the result of each item as it becomes ready.

        If results are delivered with a delay, `report` is called in the meantime, from any thread.
        """
        ...


class LocalExecutor:
    """Runs tasks on threads of this process; Arrow and Parquet release Python's global lock."""

    def __init__(self, threads: int | None = None) -> None:
        self.threads = threads or os.cpu_count() or 1

    def run(
        self,
        task: Callable[[Item, TaskId], Result],
        items: Sequence[Item],
        label: str,
        report: Report | None = None,
    ) -> Iterator[Result]:
        """Yield the result of each item as it becomes ready."""
        del label, report
        if self.threads == 1 or len(items) == 1:
            for number, item in enumerate(items):
                yield task(item, _local_task(number))
            return
        with ThreadPoolExecutor(self.threads) as pool:
            futures = [
                pool.submit(task, item, _local_task(number)) for number, item in enumerate(items)
            ]
            try:
                for future in as_completed(futures):
                    yield future.result()
            finally:
                # After a failure, cancel tasks that have not started, and wait for running tasks.
                pool.shutdown(wait=True, cancel_futures=True)


@dataclass(frozen=True, slots=True)
class NearExecutor:
    """Runs work of up to `max_bytes` on `near`, and other work on `far`.

    Distributing a small amount of work takes longer than the work itself. With a `max_bytes` of 0,
    all work runs on `far`.
    """

    near: Executor
    far: Executor
    max_bytes: int

    def run(
        self,
        task: Callable[[Item, TaskId], Result],
        items: Sequence[Item],
        label: str,
        report: Report | None = None,
    ) -> Iterator[Result]:
        """Yield the result of each item as it becomes ready."""
        is_small = sum(map(cost_of, items)) <= self.max_bytes
        return (self.near if is_small else self.far).run(task, items, label, report)


def _local_task(number: int) -> TaskId:
    """Return the id of a local task, whose token differs from those of Spark tasks."""
    return TaskId(number, 1, 0)
