"""Services by themselves: what fails after a write never looks as if the write had failed."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest

from lakebed.commit.hold import hold_table
from lakebed.errors import OptionError
from lakebed.model.clock import ManualClock
from lakebed.model.executor import LocalExecutor
from lakebed.services.compaction.execute import Compaction
from lakebed.services.upkeep import run_due
from lakebed.table.config.properties_file import update_properties
from support.tables import batch, make, reopen, user_rows


class Then(LocalExecutor):
    """Runs the tasks, and does something before it gives their results."""

    def __init__(self, then: Callable[[], object]) -> None:
        super().__init__(1)
        self.then = then

    def run(self, task: Any, items: Any, label: str) -> Iterator[Any]:
        """Run the tasks, then `then`."""
        results = list(super().run(task, items, label))
        self.then()
        yield from results


class Alarm(ManualClock):
    """Does something once `at_ms` has come."""

    at_ms = 0
    ring: Callable[[], object] = staticmethod(lambda: None)

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        if 0 < self.at_ms <= self.ms:
            self.at_ms = 0
            self.ring()


def due(clock: ManualClock | None = None):
    properties = {"hoodie.compact.inline.max.delta.commits": "1"}
    table = make(
        clock=clock, table_type="MERGE_ON_READ", ordering=("ts",), buckets=1, properties=properties
    )
    for number in range(3):
        table.upsert(batch(("a", number, number, "p")))
    return table


def test_a_plan_that_another_process_carried_out_meanwhile_is_no_error():
    table = due()
    later = ManualClock(table._clock.now_ms() + 600_000, step_ms=1)
    other = reopen(table._storage, later)
    slow = Then(other.run_services)
    done = run_due(replace(table._target(), executor=slow))
    assert not any(isinstance(one, Compaction) for one in done)
    assert len(user_rows(reopen(table._storage))) == 1


def test_a_writer_that_has_the_table_for_minutes_does_not_cost_a_compaction_its_work():
    clock = Alarm(step_ms=1)
    table = due(clock)
    with ExitStack() as writer:

        def begin() -> None:
            writer.enter_context(hold_table(table._storage, ManualClock(clock.ms)))
            clock.at_ms = clock.ms + 300_000

        clock.ring = writer.close
        done = run_due(replace(table._target(), executor=Then(begin)))
    assert any(isinstance(one, Compaction) for one in done)


@pytest.mark.parametrize(
    "wrong",
    [
        {"hoodie.clean.trigger.max.commits": "0"},
        {"hoodie.keep.min.commits": "30", "hoodie.keep.max.commits": "20"},
        {"hoodie.compact.inline": "true", "lakebed.compaction.log.ratio": "much"},
    ],
)
def test_a_property_that_no_service_understands_does_not_fail_the_write_before(wrong, caplog):
    storage = make(table_type="MERGE_ON_READ")._storage
    update_properties(storage, wrong)
    table = reopen(storage)
    commit = table.upsert(batch(("a", 1, 1, "p")))
    assert commit.instant
    assert len(user_rows(reopen(table._storage))) == 1
    assert "OptionError" in caplog.text
    with pytest.raises(OptionError):
        table.run_services()
