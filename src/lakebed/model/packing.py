"""The cost of work items, and their distribution over tasks, as Spark packs files into splits.

Costs are in bytes to read. Opening a file adds FILE_BYTES, which is most of the work in a table of
many small files. One core processes about 64 MiB per second.
"""

import heapq
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

FILE_BYTES = 128 << 10
"""The cost of opening a file: the number of bytes that could be read in the same time."""

WRITE_FACTOR = 4
"""How many times longer reading and rewriting rows takes than only reading them."""

ROW_BYTES = 256
"""The cost of writing a staged row."""

_MIN_TASK_BYTES = 8 << 20
_MAX_TASK_BYTES = 128 << 20
# More tasks than cores, so that a wrong estimate does not leave cores idle.
_TASKS_PER_CORE = 2


@runtime_checkable
class Weighed(Protocol):
    """An item of work that estimates its cost."""

    @property
    def cost_bytes(self) -> int:
        """Return the estimated cost, in bytes to read."""
        ...


def cost_of(item: object) -> int:
    """Return the estimated cost of an item; without an estimate, the cost of opening a file."""
    return max(1, item.cost_bytes) if isinstance(item, Weighed) else FILE_BYTES


def file_cost(size_bytes: int, files: int) -> int:
    """Return the cost of reading `files` files with a total of `size_bytes`."""
    return size_bytes + files * FILE_BYTES


def useful_tasks(costs: Sequence[int], cores: int, max_bytes: int = _MAX_TASK_BYTES) -> int:
    """Return how many tasks are useful for items of these costs on `cores` cores.

    >>> useful_tasks([128 << 10] * 100, cores=8)
    2
    >>> useful_tasks([64 << 20] * 100, cores=8)
    50
    """
    total = sum(costs)
    share = -(-total // (cores * _TASKS_PER_CORE))
    task_bytes = min(max_bytes, max(_MIN_TASK_BYTES, share))
    return min(len(costs), -(-total // task_bytes))


def pack(costs: Sequence[int], tasks: int) -> list[list[int]]:
    """Distribute the items 0, 1, ... over at most `tasks` packs of similar total cost.

    The most expensive item comes first in each pack, and the most expensive pack first.

    >>> pack([5, 1, 4, 2], 2)
    [[0, 1], [2, 3]]
    """
    heap = [(0, number) for number in range(min(tasks, len(costs)))]
    packs: list[list[int]] = [[] for _ in heap]
    for item in sorted(range(len(costs)), key=lambda item: -costs[item]):
        held, number = heap[0]
        packs[number].append(item)
        heapq.heapreplace(heap, (held + costs[item], number))
    return sorted(packs, key=lambda items: -sum(costs[item] for item in items))
