"""Every operation on every kind of table against a dictionary, in long random histories."""

from hypothesis import HealthCheck, settings

from lakebed.api.table import Table
from lakebed.model.clock import ManualClock
from lakebed.storage.objects import memory_storage
from support.lsm_machine import LsmMachine
from support.lsm_model import COLUMNS, Shape
from support.tables import make, reopen

START = 1_700_000_000_000


class MemoryMachine(LsmMachine):
    """A table in memory, written in process."""

    def make(self, shape: Shape) -> Table:
        self.storage = memory_storage()
        self.clock = ManualClock(step_ms=1)
        return make(
            self.storage,
            self.clock,
            COLUMNS,
            key=shape.key,
            ordering=shape.ordering,
            partition_by=shape.partition_by,
            table_type=shape.table_type,
            index=shape.index,
            buckets=shape.buckets,
            layout=shape.layout,
            table_version=shape.version,
        )

    def again(self) -> Table:
        # Another machine's clock may be behind; its random ids are new ones all the same.
        self.clock.ms = START
        return reopen(self.storage, self.clock)


TestHistories = MemoryMachine.TestCase
TestHistories.settings = settings(
    max_examples=max(30, settings().max_examples // 4),
    stateful_step_count=12,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
