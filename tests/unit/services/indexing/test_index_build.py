"""Building secondary indexes, and dropping the columns that they use."""

from dataclasses import replace

import pytest

from lakebed.errors import CorruptError, InvalidError
from lakebed.model.clock import ManualClock
from lakebed.model.executor import LocalExecutor
from lakebed.services.indexing.build import create_index
from lakebed.storage.objects import memory_storage
from lakebed.table.config.properties_file import update_properties
from lakebed.table.config.table_config import DROPPED_COLUMNS
from support.city_index import (
    BY_HAND,
    Interrupted,
    Meanwhile,
    folder_of,
    make,
    rows,
)
from support.indexes import check_indexes
from support.tables import batch, reopen
from support.tables import make as make_plain


@pytest.mark.parametrize("stage", ["build", "merge"])
def test_of_two_builds_at_once_both_succeed(stage):
    table = make(f"builds-{stage}", BY_HAND)
    table.bulk_insert(rows({"k": "rome", "l": "lima"}))

    def others() -> None:
        table.create_index("by_city", ["city"], if_not_exists=True)
        table.upsert(rows({"k": "oslo"}, 2))

    target = replace(table._target(), executor=Interrupted(stage, others))
    assert create_index(target, "by_city", ["city"])[0].entries == 3
    check_indexes(table, covered=True)


def test_nothing_is_left_of_an_index_whose_build_failed():
    table = make("failed", BY_HAND)
    table.bulk_insert(rows({"k": "rome"}))
    (path,) = table.files().column("path").to_pylist()
    table._storage.delete(path)
    with pytest.raises(CorruptError):
        table.create_index("by_city", ["city"])
    assert table.indexes() == ()
    assert list(table._storage.list(".hoodie/lakebed/index")) == []


def test_a_column_is_not_dropped_if_an_index_on_it_appears_meanwhile():
    storage, clock = Meanwhile(memory_storage()), ManualClock(step_ms=1)
    mode = {"hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL"}
    table = make_plain(storage, clock, properties=BY_HAND | mode)
    table.upsert(batch(("k", 1, 1, "p")))
    storage.place = "names .hoodie/lakebed/files"
    storage.deed = lambda: reopen(storage, clock).create_index("by_v", ["v"])
    with pytest.raises(InvalidError, match="drop_index"):
        table.drop_column("v")
    assert storage.deed is None
    assert "v" in reopen(storage, clock).schema.names
    check_indexes(reopen(storage, clock), covered=True)


def test_a_column_that_is_being_dropped_takes_no_index():
    table = make("dropping")
    update_properties(table._storage, {DROPPED_COLUMNS: '["city"]'})
    with pytest.raises(InvalidError, match=r"call drop_column.'city'. again"):
        table.create_index("by_city", ["city"])


def test_an_interrupted_build_is_resumed_and_is_not_used_before():
    table = make("resumed", BY_HAND)
    table.bulk_insert(rows({f"k{n}": "rome" for n in range(10)}))
    target = table._target()
    with pytest.raises(KeyboardInterrupt):
        create_index(replace(target, executor=Stops(1)), "by_city", ["city"])
    assert "being built" in table.indexes()[0].state
    parts = [e.path for e in table._storage.list(folder_of(table)) if "/parts/" in e.path]
    assert parts
    table.upsert(rows({"new": "oslo"}))
    assert table.create_index("by_city", ["city"], if_not_exists=True).entries == 11
    check_indexes(table, covered=True)
    assert not [e for e in table._storage.list(folder_of(table)) if "/parts/" in e.path]


class Stops(LocalExecutor):
    """An executor that dies after some tasks."""

    def __init__(self, tasks: int) -> None:
        super().__init__(1)
        self.tasks = tasks

    def run(self, task, items, label, report=None):
        for result in super().run(task, items, label, report):
            if not self.tasks:
                raise KeyboardInterrupt
            self.tasks -= 1
            yield result
