"""How items of work are packed into tasks."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.model.executor import LocalExecutor, NearExecutor, TaskId
from lakebed.model.packing import FILE_BYTES, cost_of, file_cost, pack, useful_tasks

COSTS = st.lists(st.integers(1, 1 << 30), max_size=200)


@dataclass(frozen=True)
class Item:
    cost_bytes: int


@given(COSTS, st.integers(1, 64))
def test_every_item_is_in_exactly_one_pack_and_no_pack_is_empty(costs: list[int], tasks: int):
    packs = pack(costs, tasks)
    assert sorted(item for items in packs for item in items) == list(range(len(costs)))
    assert len(packs) == min(tasks, len(costs))
    assert all(packs)


@given(COSTS.filter(bool), st.integers(1, 64))
def test_no_pack_costs_more_than_its_share_and_one_item(costs: list[int], tasks: int):
    packs = pack(costs, tasks)
    heaviest = max(sum(costs[item] for item in items) for items in packs)
    assert heaviest <= sum(costs) / len(packs) + max(costs)


def test_many_small_file_groups_make_no_more_tasks_than_cores_can_use():
    costs = [file_cost(40_000, 4)] * 144
    assert useful_tasks(costs, cores=2) == 4
    assert useful_tasks(costs, cores=1000) <= 10


def test_a_large_table_has_tasks_for_every_core_and_none_that_is_huge():
    costs = [64 << 20] * 400
    assert useful_tasks(costs, cores=16) >= 200
    assert useful_tasks([], cores=2) == 0
    assert useful_tasks([1], cores=2) == 1


def test_an_item_that_does_not_estimate_its_cost_counts_as_a_file():
    assert cost_of("text") == FILE_BYTES
    assert cost_of(Item(7)) == 7
    assert cost_of(Item(0)) == 1


class Marking(LocalExecutor):
    def __init__(self, mark: str) -> None:
        super().__init__(1)
        self._mark = mark

    def run(self, task, items, label, report=None):
        return (f"{self._mark} {result}" for result in super().run(task, items, label))


def double(item: Item, task: TaskId) -> int:
    del task
    return 2 * item.cost_bytes


@pytest.mark.parametrize(("limit", "who"), [(30, "near"), (29, "far"), (0, "far")])
def test_only_work_up_to_the_limit_is_done_near(limit: int, who: str):
    executor = NearExecutor(Marking("near"), Marking("far"), limit)
    found = list(executor.run(double, [Item(10), Item(20)], "double"))
    assert found == [f"{who} 20", f"{who} 40"]
